"""`mainspring permissions explain`: which rule decided, and why. One call as text, or many as JSON lines.

Plain values in and out. The command line supplies the policy; each line of a batch has its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TextIO, cast

from mainspring.core.errors import UsageError
from mainspring.permissions import READERS, WRITERS
from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Mode, Paths, PermissionDecision, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import RuleSource, parse_rules
from mainspring.permissions.suggest import suggest_rules
from mainspring.text import show_invisible

LONGEST_LINE = 4_000_000  # characters; the longest command that is decided has a million


class LineError(UsageError):
    """An invalid line of a batch."""


# --- one call ---------------------------------------------------------------------------------------------------


Confine = Callable[[PermissionRequest, PermissionDecision], PermissionDecision]  # `PermissionChecker.confine`


def explain_decision(  # noqa: PLR0913  # keywords, the last ones
    tool: str,
    input: Mapping[str, object],
    policy: PermissionPolicy,
    *,
    cwd: str,
    paths: Paths,
    confine: Confine | None = None,
) -> str:
    """`confine`: applies the sandbox, for mode auto."""
    asked = PermissionRequest(tool, input, cwd)
    verdict = decide(asked, policy, paths)
    verdict = verdict if confine is None else confine(asked, verdict)
    lines = [f"{verdict.decision}: {show_invisible(verdict.reason)}", f"call: {verdict.shown}", f"mode: {policy.mode}"]
    if verdict.rule:
        lines.append(f"rule: {show_invisible(verdict.rule)} (source: {verdict.source})")
    if verdict.open:
        lines.append("classifier: consulted before you are asked; it allows the call, or you are asked")
    lines.extend(f"broken rule: {show_invisible(one.reason)}" for one in policy.rules.broken)
    if verdict.decision == "ask":
        offered = suggest_rules(asked, policy, paths)
        lines.extend(f"suggested rule: {show_invisible(one.rule)}: {one.covers}" for one in offered)
    return "\n".join(lines)


def parse_explain_input(tool: str, text: str) -> dict[str, object]:
    """INPUT as a person writes it: JSON, or the one field that matters."""
    if text.lstrip().startswith("{"):
        with suppress(LineError):  # then it is text that begins with a brace
            return _object(text)
    field = {"Bash": "command", "WebFetch": "url", "Agent": "subagent_type", "Task": "subagent_type", "Skill": "skill"}
    return {field.get(tool) or READERS.get(tool) or WRITERS.get(tool) or "input": text}


# --- many -------------------------------------------------------------------------------------------------------


def explain_lines(lines: Iterable[str], *, cwd: str, home: str, paths: Paths) -> Iterator[str]:
    """One answer for each line, in order. An invalid line is answered, too."""
    for number, line in enumerate(lines, 1):
        try:
            answer = _answer(line, cwd, home, paths)
        except LineError as error:
            answer = {
                "decision": "ask",
                "reason": f"line {number}: {error}",
                "rule": "",
                "error": f"line {number}: {error}",
            }
        yield json.dumps(answer)


def _answer(line: str, cwd: str, home: str, paths: Paths) -> dict[str, str]:
    verdict = _verdict(_object(line), cwd, home, paths)
    return {"decision": verdict.decision, "reason": show_invisible(verdict.reason), "rule": verdict.rule}


def _object(line: str) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise LineError(f"it has more than {LONGEST_LINE:,} characters")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise LineError("it is not a JSON object")
    return cast("dict[str, Any]", found)


def _verdict(found: dict[str, Any], cwd: str, home: str, paths: Paths) -> PermissionDecision:
    tool = _field(found, "tool", str, None)
    given = _field(found, "input", dict, None)
    rules = _field(found, "rules", dict, {})
    here = _field(found, "cwd", str, cwd)
    mode = _field(found, "mode", str, "default")
    mode = Mode.DEFAULT if mode == "manual" else mode  # it has two names
    if not here.startswith("/") or "\0" in here:
        raise LineError("'cwd' is not an absolute path")
    if mode not in set(Mode):
        raise LineError(f"'mode' must be one of {', '.join(Mode)}")
    lists = {name: _field(rules, name, list, []) for name in ("deny", "ask", "allow")}
    policy = PermissionPolicy(parse_rules(**lists, source=RuleSource.FLAG), Mode(mode), (here,), home)
    return decide(PermissionRequest(tool, given, here), policy, paths)


def _field(found: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = found.get(name, default)
    if not isinstance(value, kind):
        raise LineError(f"'{name}' is missing" if name not in found else f"'{name}' is not a {kind.__name__}")
    return value


# --- the command --------------------------------------------------------------------------------------------------


def main(  # noqa: PLR0913  # keywords, the last ones
    argv: list[str],
    policy: PermissionPolicy,
    *,
    cwd: str,
    paths: Paths,
    pipes: tuple[TextIO, TextIO],
    confine: Confine | None = None,
) -> int:
    """`explain TOOL INPUT`, or `explain --batch` with JSON lines on the input. `pipes`: input and output."""
    stdin, stdout = pipes
    if argv == ["--batch"]:
        for answer in explain_lines(stdin, cwd=cwd, home=policy.home, paths=paths):
            stdout.write(answer + "\n")
            stdout.flush()
        return 0
    if len(argv) != 2 or argv[0].startswith("-"):
        stdout.write(
            "usage: mainspring permissions explain TOOL INPUT\n       mainspring permissions explain --batch\n"
        )
        return 2
    explained = explain_decision(argv[0], parse_explain_input(*argv), policy, cwd=cwd, paths=paths, confine=confine)
    stdout.write(f"{explained}\n")
    return 0
