"""Rules sorted by what they are about: made once for a set of rules, used for every decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mainspring.permissions import patterns
from mainspring.permissions.rules import Behavior, PermissionRule, PermissionRules, names_tool

if TYPE_CHECKING:
    from mainspring.permissions import commands

# The tools that read and write files, and where in their input the path stands.
READERS = {"Read": "file_path", "NotebookRead": "notebook_path", "Grep": "path", "Glob": "path", "LS": "path"}
WRITERS = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}


class CommandRule(NamedTuple):
    """A rule for Bash; no pattern: it is about every command."""

    rule: PermissionRule
    pattern: commands.CommandPattern | None


class FieldRule(NamedTuple):
    """A deny or ask rule about one field of the input."""

    field: str
    wanted: list[str]
    rule: PermissionRule


class SortedRules(NamedTuple):
    deny: tuple[CommandRule, ...]
    ask: tuple[CommandRule, ...]
    allow: tuple[CommandRule, ...]
    exact: tuple[CommandRule, ...]  # of those: without a wildcard
    bare: PermissionRule | None  # allows every command
    some: bool  # there is a deny or ask rule for some commands
    guarded: tuple[PermissionRule, ...]  # deny and ask rules for paths
    reading: tuple[PermissionRule, ...]  # of those: about reading
    needles: tuple[str, ...]  # for each of those, a name that must stand in a path that it matches; "": none must
    # Where such a rule begins, by its text, what it is relative to, working folder and home: looked up once.
    anchored: dict[tuple[str, str, str, str], tuple[patterns.PathPattern, list[tuple[str, ...]]]]
    files: dict[Behavior, tuple[PermissionRule, ...]]  # those that may be about a tool for files
    concerned: dict[tuple[Behavior, str, str], tuple[PermissionRule, ...]]  # of those, by access and tool: found once
    deny_values: tuple[FieldRule, ...]  # rules like `Agent(model:opus)`
    ask_values: tuple[FieldRule, ...]


_LATEST: dict[
    int, tuple[PermissionRules, SortedRules]
] = {}  # by identity: a session has one set of rules, a test a few
_MOST = 8


def sort_rules(rules: PermissionRules) -> SortedRules:
    known = _LATEST.get(id(rules))
    if known is not None and known[0] is rules:
        return known[1]
    if len(_LATEST) >= _MOST:
        _LATEST.clear()
    found = _sort(rules)
    _LATEST[id(rules)] = rules, found
    return found


def _sort(rules: PermissionRules) -> SortedRules:
    deny, ask = _commands(rules.deny), _commands(rules.ask)
    allow = tuple([one for one in _commands(rules.allow) if one.rule.tool == "Bash"])
    strict = (*rules.deny, *rules.ask)
    guarded = [rule for rule in strict if rule.specifier and (rule.tool in READERS or rule.tool in WRITERS)]
    return SortedRules(
        deny,
        ask,
        tuple([one for one in allow if one.pattern is not None]),
        exact=tuple([one for one in allow if one.pattern is not None and one.pattern.is_exact]),
        bare=next((one.rule for one in allow if one.pattern is None), None),
        some=any(one.pattern is not None for one in (*deny, *ask)),
        guarded=tuple(guarded),
        reading=tuple([rule for rule in guarded if rule.tool in READERS]),
        needles=tuple([patterns.find_needle(rule.specifier or "") for rule in guarded]),
        anchored={},
        files={"deny": _files(rules.deny), "ask": _files(rules.ask), "allow": _files(rules.allow)},
        concerned={},
        deny_values=_values(rules.deny),
        ask_values=_values(rules.ask),
    )


def _commands(rules: tuple[PermissionRule, ...]) -> tuple[CommandRule, ...]:
    return tuple([CommandRule(rule, _pattern(rule.specifier)) for rule in rules if names_tool(rule, "Bash")])


def _pattern(specifier: str | None) -> commands.CommandPattern | None:
    """What reads shell commands takes 20 ms to load: whoever has no rule for one need not wait for it."""
    if specifier is None:
        return None
    from mainspring.permissions import commands

    return commands.parse_command_pattern(specifier)


def _files(rules: tuple[PermissionRule, ...]) -> tuple[PermissionRule, ...]:
    return tuple([rule for rule in rules if rule.tool in READERS or rule.tool in WRITERS or "*" in rule.tool])


def _values(rules: tuple[PermissionRule, ...]) -> tuple[FieldRule, ...]:
    found: list[FieldRule] = []
    for rule in rules:
        field, colon, wanted = (rule.specifier or "").partition(":")
        if colon and field.strip().isidentifier():
            found.append(FieldRule(field.strip(), wanted.strip().split("*"), rule))
    return tuple(found)
