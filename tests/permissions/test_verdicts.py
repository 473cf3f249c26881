"""Whole verdicts, with the words that a person reads: `verdicts.txt` has rules, and below them calls and answers.

A block begins with its rules and mode, one a line. A call is `$ command` or a tool with its input; below it stand the
decision and the reason, and then what else the verdict says: the rule, who alone may answer, what is shown.
The answers were taken from the code and read line by line: they are no second opinion, the corpus is.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mainspring.permissions.policy import PermissionDecision, PermissionRequest
from mainspring.permissions.suggest import Suggestion, suggest_rules
from mainspring.processes.paths import resolve_path
from permissions.deciding import CWD, HOME, call, policy


class Case(NamedTuple):
    rules: dict[str, list[str]]
    mode: str
    call: str
    wanted: list[str]


def cases() -> list[Case]:
    found: list[Case] = []
    rules: dict[str, list[str]] = {}
    mode = "default"
    for line in (Path(__file__).parent / "verdicts.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if not line:
            rules, mode = {}, "default"
        elif line.startswith("    "):
            found[-1].wanted.append(line[4:])
        elif word == "mode":
            mode = rest
        elif word in ("allow", "ask", "deny"):
            rules.setdefault(word, []).append(rest)
        elif word != "#":
            found.append(Case(rules, mode, line, []))
    return found


def asked(text: str) -> tuple[str, dict[str, object]]:
    word, _, rest = text.partition(" ")
    return ("Bash", {"command": rest}) if word == "$" else (word, json.loads(rest))


def said(case: Case) -> list[str]:
    tool, input = asked(case.call)
    given: dict[str, Any] = {**case.rules, "mode": case.mode}
    verdict = call(tool, input, **given)
    offered: tuple[Suggestion, ...] = ()
    if verdict.decision == "ask":
        offered = suggest_rules(PermissionRequest(tool, input, CWD), policy(**given), partial(resolve_path, home=HOME))
    return [*_lines(verdict), *[f"offered {one.rule}: {one.covers}" for one in offered]]


def _lines(verdict: PermissionDecision) -> list[str]:
    found = [f"{verdict.decision}: {verdict.reason}", f"shown {verdict.shown}"]
    if verdict.rule:
        found.append(f"by {verdict.rule} of {verdict.source}")
    if verdict.open:
        found.append("a classifier may answer")
    if verdict.person:
        found.append("only a person may answer")
    return found


CASES = cases()


@pytest.mark.covers("N-10", "N-11", "N-12", "N-13", "N-14", "N-15", "N-16")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.mode}, {case.call}" for case in CASES])
def test_what_is_said(case: Case) -> None:
    assert said(case) == case.wanted
