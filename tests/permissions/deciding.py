"""Deciding in a word: the real `decide` with the real `resolve_path`, in a folder that need not exist."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from mainspring.permissions.classifier import ClassifierAnswer, apply_answer
from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Mode, PermissionDecision, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import RuleSource, parse_rules
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
) -> PermissionPolicy:
    rules = parse_rules(allow=allow, deny=deny, ask=ask, source=RuleSource.FLAG)
    return PermissionPolicy(rules, Mode(mode), (cwd, *folders), home)


def call(
    tool: str, input: dict[str, Any], *, hook: Any = None, before: Any = None, cwd: str = CWD, **given: Any
) -> PermissionDecision:
    home = given.get("home", HOME)
    asked = PermissionRequest(tool, input, cwd, before=before, hook=hook)
    return decide(asked, policy(cwd=cwd, **given), partial(resolve_path, home=home))


YES = ClassifierAnswer("allow", "whatever it is")


def answered(found: PermissionDecision) -> PermissionDecision:
    """The decision after a classifier that allows everything, and in a sandbox that contains every command: the worst
    case of mode auto."""
    return apply_answer(found, YES)


def bash(command: str, **given: Any) -> str:
    """In mode auto with a classifier that allows everything, so that attacks on any mode are attacks on auto, too."""
    return answered(call("Bash", {"command": command}, **given)).decision


def verdict(command: str, **given: Any) -> PermissionDecision:
    return call("Bash", {"command": command}, **given)
