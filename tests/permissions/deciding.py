"""Deciding in a word: the real `decide` with the real `resolve_path`, in a folder that need not exist."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Asked, Mode, Policy, Verdict
from mainspring.permissions.rules import Source, parse
from mainspring.processes.paths import resolve_path

CWD = "/nowhere/project"
HOME = "/nowhere/home"


def policy(
    *,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    mode: str = "default",
    cwd: str = CWD,
    home: str = HOME,
    folders: tuple[str, ...] = (),
) -> Policy:
    rules = parse(allow=allow, deny=deny, ask=ask, source=Source.FLAG)
    return Policy(rules, Mode(mode), (cwd, *folders), home)


def call(
    tool: str, input: dict[str, Any], *, hook: Any = None, before: Any = None, cwd: str = CWD, **given: Any
) -> Verdict:
    home = given.get("home", HOME)
    asked = Asked(tool, input, cwd, before=before, hook=hook)
    return decide(asked, policy(cwd=cwd, **given), partial(resolve_path, home=home))


def bash(command: str, **given: Any) -> str:
    return call("Bash", {"command": command}, **given).decision


def verdict(command: str, **given: Any) -> Verdict:
    return call("Bash", {"command": command}, **given)
