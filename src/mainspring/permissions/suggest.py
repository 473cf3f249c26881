"""Suggests rules with a question: they cover exactly what is shown, and say what that is (security S10).

If no such rule exists, none is suggested: then only a single approval is possible.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from mainspring.core.value import Value
from mainspring.permissions import hosts
from mainspring.permissions.commands import find_working_directories
from mainspring.permissions.coverage import RuleCoverage
from mainspring.permissions.decide import NAMED_BY, decide
from mainspring.permissions.files import FileRules
from mainspring.permissions.policy import Mode, Paths, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import READERS, WRITERS, PermissionRules, RuleError, RuleSource, parse_rule
from mainspring.permissions.shell.analyze import analyze_command
from mainspring.permissions.shell.values import ShellWord
from mainspring.permissions.targets import redirect_ask
from mainspring.processes.paths import PathRefused
from mainspring.text import show_invisible

MOST = 5  # rules from one question; people read no more before they approve

_PLAIN = re.compile(r"[A-Za-z0-9_./@%+,=^-]+\Z", re.ASCII)
_SPECIAL = re.compile(r"([*?\[\]\\!])")


class Suggestion(Value):
    rule: str
    covers: str  # in words, for the person who is asked


def suggest_rules(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    if decide(asked, replace(policy, mode=Mode.DEFAULT), paths).decision != "ask":
        return ()
    offered = _offered(replace(asked, tool="Agent") if asked.tool == "Task" else asked, policy, paths)
    if not offered or len(offered) > MOST or any(show_invisible(one.rule) != one.rule for one in offered):
        return ()
    try:
        rules = PermissionRules(
            allow=tuple(parse_rule(one.rule, "allow", source=RuleSource.SESSION) for one in offered)
        )
    except RuleError:
        return ()
    # A rule that would not help, or that parses to something else, is not suggested.
    then = decide(asked, replace(policy, rules=policy.rules.and_also(rules), mode=Mode.DEFAULT), paths)
    return offered if then.decision == "allow" else ()


def suggested_mode(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> Mode | None:
    """The mode that would cover this edit, and similar ones. None: it would not help, or it would lose a restriction of
    the current mode, as for a plan.
    """
    if asked.tool not in WRITERS or policy.mode is not Mode.DEFAULT:
        return None
    then = decide(asked, replace(policy, mode=Mode.ACCEPT_EDITS), paths)
    return Mode.ACCEPT_EDITS if then.decision == "allow" else None


def _offered(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    match asked.tool:
        case "Bash":
            return _commands(str(asked.input.get("command", "")), asked.cwd, policy, paths)
        case tool if tool in READERS or tool in WRITERS:
            path = asked.input.get(READERS.get(tool) or WRITERS[tool])
            one = _file(
                "Read" if tool in READERS else "Edit", path if isinstance(path, str) else asked.cwd, asked.cwd, paths
            )
            return (one,) if one is not None else ()
        case "WebFetch":
            return _host(str(asked.input.get("url", "")))
        case tool:
            name = next((value for key in NAMED_BY.get(tool, ()) if isinstance(value := asked.input.get(key), str)), "")
            if name:
                return (Suggestion(f"{tool}({name})", f"every call of '{tool}' for '{show_invisible(name)}'"),)
            return (Suggestion(tool, f"every call of '{tool}', whatever its input"),)


def _commands(text: str, cwd: str, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    sight = analyze_command(text)
    if sight.script.unclear:
        return ()
    files = FileRules(policy, cwd, paths)
    coverage = RuleCoverage(sight, find_working_directories(sight, files), files)
    found = [
        None if command.assigns else _command(command.words)
        for command in sight.script.commands
        if not coverage.command(command).covered
    ]
    for redirect in sight.script.all_redirects:
        if not coverage.redirect(redirect).covered:
            ask = redirect_ask(redirect)
            found.append(
                None if ask is None else _file("Read" if ask.access == "read" else "Edit", ask.path, cwd, paths)
            )
    if None in found:
        return ()
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _command(words: tuple[ShellWord, ...]) -> Suggestion | None:
    if not words or not all(word.exact for word in words):
        return None
    specifier = " ".join(_quoted(word.text) for word in words)
    return Suggestion(f"Bash({specifier})", f"exactly this command: {show_invisible(specifier)}")


def _quoted(text: str) -> str:
    return text if _PLAIN.match(text) else "'" + text.replace("'", "'\\''") + "'"


def _file(tool: str, path: str, cwd: str, paths: Paths) -> Suggestion | None:
    try:
        found = paths(path, cwd)
    except PathRefused:
        return None
    if found.via or found.kind == "special":
        return None  # one rule cannot name all the names of a file behind links
    what = "everything in the folder" if found.kind == "folder" else "the file"
    verb = "reading" if tool == "Read" else "changing"
    literal = _SPECIAL.sub(r"\\\1", found.real)
    return Suggestion(f"{tool}(/{literal})", f"{verb} {what} '{show_invisible(found.real)}'")


def _host(address: str) -> tuple[Suggestion, ...]:
    host = hosts.host_of(address)  # a question about an address implies a valid host
    return (Suggestion(f"WebFetch(domain:{host})", f"every page of the host '{host}'"),)
