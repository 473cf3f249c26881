"""Parses rules, `Tool` and `Tool(specifier)`, and lists of them. Matching is elsewhere, one file per kind of tool.

An invalid rule is never dropped silently and never grants more rights: it is kept in `broken`, with its text and the
reason. An invalid allow rule allows nothing; an invalid deny or ask rule makes every call of its tool ask.

`SortedRules` groups rules by subject: built once for a set of rules, used for every decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.permissions import READERS, WRITERS, patterns

if TYPE_CHECKING:
    from mainspring.permissions import commands


Behavior = Literal["deny", "ask", "allow"]
LONGEST = 4_000  # characters of one rule
BLANKS = " \t\r\n"  # separators of words; the many other blanks of Unicode are letters here, as they are for a shell

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z", re.ASCII)
_TOOL_GLOB = re.compile(r"[A-Za-z0-9_.*-]+\Z", re.ASCII)
_ALLOWED_GLOB = re.compile(r"mcp__[A-Za-z0-9_.-]+?__[A-Za-z0-9_.*-]*\Z", re.ASCII)
_SPELLED = {
    name.lower(): name
    for name in ("Bash", "Read", "Edit", "Write", "MultiEdit", "NotebookEdit", "Grep", "Glob", "WebFetch", "WebSearch",
                 "Agent", "Task", "Skill")
}  # fmt: skip
_ALIASES = {"Task": "Agent"}  # its former name


class RuleSource(StrEnum):
    ADMINISTRATOR = "administrator"
    FLAG = "flag"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    SESSION = "session"
    BUILT_IN = "built in"


class PermissionRule(Value):
    tool: str  # may contain `*` in deny and ask rules, and after `mcp__server__` in allow rules
    specifier: str | None  # None: every use of the tool
    text: str  # as written
    source: RuleSource = RuleSource.SESSION
    base: str | None = None  # the base of `/path`; None: the working folder


class BrokenRule(Value):
    text: str
    reason: str
    behavior: Behavior
    tool: str  # "" if not even that can be parsed
    source: RuleSource = RuleSource.SESSION


class PermissionRules(Value):
    deny: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    allow: tuple[PermissionRule, ...] = ()
    broken: tuple[BrokenRule, ...] = ()

    def and_also(self, more: PermissionRules) -> PermissionRules:
        return PermissionRules(
            (*self.deny, *more.deny), (*self.ask, *more.ask), (*self.allow, *more.allow), (*self.broken, *more.broken)
        )


class RuleError(UsageError):
    """An invalid rule. The message names it."""


def parse_rule(
    text: str, behavior: Behavior, *, source: RuleSource = RuleSource.SESSION, base: str | None = None
) -> PermissionRule:
    stripped = text.strip(BLANKS)
    if _CONTROL.search(stripped):
        raise RuleError(f"the rule '{text}' contains a control character")
    if len(stripped) > LONGEST:
        raise RuleError(f"the rule '{stripped[:40]}...' has more than {LONGEST:,} characters")
    name, opened, rest = stripped.partition("(")
    if opened and not rest.endswith(")"):
        raise RuleError(f"the rule '{text}' has no closing parenthesis at its end")
    if behavior != "allow" and _closes_early(rest[:-1]):
        raise RuleError(f"the rule '{text}' has an unmatched ')': write it as '\\)'")
    _check_tool(name, text, behavior)
    tool = _ALIASES.get(name, name)
    specifier = _unescaped(rest[:-1]) if opened else None
    every = ("", "*") if behavior == "allow" or tool != "Bash" else ("", "*", ":*")
    if specifier is not None and specifier.strip(BLANKS) in every:
        specifier = None
    if specifier is not None:
        _check_specifier(tool, specifier, text, behavior)
    return PermissionRule(tool, specifier, text, source, base)


def _closes_early(specifier: str) -> bool:
    """`Bash(rm:*))`: more parentheses are closed than were opened."""
    plain = specifier.replace("\\(", "").replace("\\)", "")
    return plain.count(")") > plain.count("(")


def _check_tool(name: str, text: str, behavior: Behavior) -> None:
    if "*" not in name:
        if not _TOOL.match(name):
            raise RuleError(f"the rule '{text}' does not begin with a tool name")
        meant = _SPELLED.get(name.lower(), name)
        if meant != name:
            raise RuleError(f"the rule '{text}' names no tool: write '{meant}'")
        return
    if behavior == "allow" and not _ALLOWED_GLOB.match(name):
        raise RuleError(f"the rule '{text}' would allow unnamed tools: name the tool, or write 'mcp__server__*'")
    if not _TOOL_GLOB.match(name):
        raise RuleError(f"the rule '{text}' does not begin with a tool name")


def _check_specifier(tool: str, specifier: str, text: str, behavior: Behavior) -> None:
    if "*" in tool or tool.startswith("mcp__"):
        if behavior == "allow":
            raise RuleError(f"the rule '{text}' has a specifier, but '{tool}' takes none")
    elif tool == "WebFetch" and not specifier.startswith("domain:") and behavior == "allow":
        raise RuleError(f"the rule '{text}' needs the form 'WebFetch(domain:example.com)'")
    elif tool == "WebSearch":
        _check_search(specifier, text)
    elif tool == "Bash" and specifier.strip(BLANKS) == ":*" and behavior == "allow":
        raise RuleError(f"the rule '{text}' names no command: write 'Bash' to allow every command")
    elif specifier.startswith("!") and behavior == "allow":
        raise RuleError(f"the rule '{text}' excludes something, which an allow rule cannot")


def _check_search(specifier: str, text: str) -> None:
    """A domain, the exact words of a query, or for deny and ask `query:...`."""
    from mainspring.permissions import hosts

    kind, _, domain = specifier.partition(":")
    if kind == "domain":
        try:
            hosts.domain_pattern(domain)
        except hosts.AddressError as error:
            raise RuleError(f"the rule '{text}' names no domain: {error}") from None
    elif "*" in specifier and kind != "query":
        raise RuleError(f"the rule '{text}' needs the exact query, or the form 'WebSearch(domain:example.com)'")


def _unescaped(specifier: str) -> str:
    return specifier.replace("\\(", "(").replace("\\)", ")")


# --- lists ----------------------------------------------------------------------------------------------------


def parse_rules(
    *,
    deny: Iterable[object] = (),
    ask: Iterable[object] = (),
    allow: Iterable[object] = (),
    source: RuleSource = RuleSource.SESSION,
    base: str | None = None,
) -> PermissionRules:
    """All of one source. Invalid ones are in `broken`."""
    broken: list[BrokenRule] = []
    return PermissionRules(
        _read(deny, "deny", source, base, broken),
        _read(ask, "ask", source, base, broken),
        _read(allow, "allow", source, base, broken),
        tuple(broken),
    )


def _read(
    texts: Iterable[object], behavior: Behavior, source: RuleSource, base: str | None, broken: list[BrokenRule]
) -> tuple[PermissionRule, ...]:
    rules: list[PermissionRule] = []
    for text in texts:
        if not isinstance(text, str):
            broken.append(BrokenRule(str(text)[:200], "a rule must be a string", behavior, "", source))
            continue
        try:
            rules.append(parse_rule(text, behavior, source=source, base=base))
        except RuleError as error:
            name = text.strip(BLANKS).partition("(")[0]
            name = _SPELLED.get(name.lower(), name)
            tool = _ALIASES.get(name, name) if _TOOL.match(name) else ""
            broken.append(BrokenRule(text, str(error), behavior, tool, source))
    return tuple(rules)


def names_tool(rule: PermissionRule, tool: str) -> bool:
    """Whether the rule is about the tool at all."""
    named = rule.tool
    if named == tool:
        return True
    if "*" in named:
        return glob_matches(named.split("*"), tool)
    return named.startswith("mcp__") and named.count("__") == 1 and tool.startswith(named + "__")


def glob_matches(parts: Sequence[str], text: str) -> bool:
    """Whether the text is the parts, in order, with anything between them. Linear: no backtracking over `*`."""
    if len(parts) == 1:
        return text == parts[0]
    if not text.startswith(parts[0]):
        return False
    position = len(parts[0])
    for part in parts[1:-1]:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return len(text) - position >= len(parts[-1]) and text.endswith(parts[-1])


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
    needles: tuple[str, ...]  # for each of those, a name that every matching path contains; "": there is none
    # The start folder of such a rule, by its text, its base, working folder and home: looked up once.
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
    """The module for shell commands takes 20 ms to load: without a rule for one it is not needed."""
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
