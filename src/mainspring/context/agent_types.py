"""Kinds of agents that a session may send out: what they are for, how they work, what they may use (stream-json 12).

Ours, and those that the user and the project describe in `agents/*.md`: a head with `name` and `description`, and below
it the agent's system prompt. A project's are not there before the project is trusted (security T1), and cannot take the
place of the user's. Of what a head says about permissions nothing is heeded: an agent may do what its session may do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, cast

import msgspec

from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.project_files import ConfigFolders, read_text
from mainspring.core.config import Effort
from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.text import did_you_mean

MOST = 100  # kinds
LONGEST_ABOUT = 500  # characters that the model is told of each
LARGEST_PROMPT = 60_000  # characters
MOST_TURNS = 10_000
INHERIT = "inherit"
LEFT_OUT = "it does not get '{}', since a pattern cannot be kept to here: name the tool alone, and use a rule"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class AgentType(Value):
    name: str
    about: str  # when to use it, for the model that sends it out
    prompt: str  # its system prompt
    tools: tuple[str, ...] | None = None  # None: all that its session has
    without: tuple[str, ...] = ()
    model: str = ""  # an alias or a name; empty: that of its session
    effort: Effort | None = None
    max_turns: int | None = None
    background: bool = False  # it never keeps who sends it out waiting
    path: str = ""  # empty: it is ours, or from the command line
    project: bool = False
    patterns: tuple[str, ...] = ()  # tools that it does not get, for the pattern behind them


REPORT = (
    "You work for another agent, which sees nothing of what you do but your last message. Do what it asks, completely "
    "and nothing beyond it; you cannot ask back, so take the plainest reading and say which it was. End with a report: "
    "what you found or did, with paths and lines (path:line), what you could not do, what is doubtful. Say it in full "
    "in that last message, and leave out how you got there."
)

GENERAL = AgentType(
    "general-purpose",
    "work of many steps, with all tools.",
    f"You are mainspring, an agent for coding and research.\n\n{REPORT}",
)
EXPLORE = AgentType(
    "Explore",
    "answers questions about code, and changes nothing. Say how thorough it shall be.",
    "You are mainspring, an agent that reads code. You change nothing.\n\n"
    "Search broadly before you read: several patterns in one reply, other spellings, other places. Read what decides "
    f"the question, and no whole large files.\n\n{REPORT}",
    tools=("Read", "Glob", "Grep"),
)
OURS = {kind.name: kind for kind in (GENERAL, EXPLORE)}


class AgentTypeCatalog(Value):
    kinds: dict[str, AgentType]
    problems: tuple[str, ...] = ()  # for the user: what was left out, and why


# What others may write into a head, and we have no use for: nothing depends on the first, something on the second.
PASSED_OVER = frozenset({"color", "version", "author", "license"})
WITHOUT_EFFECT = frozenset({"permissionmode", "skills", "memory", "mcpservers", "hooks", "initialprompt", "isolation"})
FIELDS = frozenset({"name", "description", "tools", "disallowedtools", "model", "effort", "maxturns", "background"})


def find_agent_types(
    places: ConfigFolders, given: Mapping[str, AgentType] = {}, tools: Container[str] = (), option: str = "agents"
) -> AgentTypeCatalog:
    """All kinds by name: those `given` by the option of that name, then the user's, the project's, and ours. `tools`
    are the names of those that there are, as far as that is known now."""
    found, problems = dict(given), [words for kind in given.values() for words in unknown_tools(kind, tools)]
    problems += [f"the agent '{kind.name}': {LEFT_OUT.format(one)}" for kind in given.values() for one in kind.patterns]
    for folder, project in places.folders():
        for path in _files(folder):
            try:
                found_at = resolve_path(path, "/")
                places.check(found_at, project=project)
                kind, odd = read_kind(found_at, project=project)
                problems += [f"the agent '{path}': {LEFT_OUT.format(name)}" for name in kind.patterns]
                if project and places.bounds:  # nobody trusts it
                    kind = restrict_untrusted_type(kind)
            except (PathRefused, UsageError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                problems.append(f"the agent '{path}' is left out: {why}")
                continue
            problems += [f"the agent '{path}': {words_about(field)}" for field in odd]
            problems += unknown_tools(kind, tools)
            if why := no_room(kind, found, option):
                problems.append(f"the agent '{path}' is left out: {why}")
            else:
                found[kind.name] = kind
    return AgentTypeCatalog(
        {**found, **{name: kind for name, kind in OURS.items() if name not in found}}, tuple(problems)
    )


def no_room(kind: AgentType, found: Mapping[str, AgentType], option: str) -> str:
    """Why it is not taken; empty: it is. The same file by another way is no second one."""
    before = found.get(kind.name)
    if before is not None:
        same = bool(before.path) and os.path.realpath(before.path) == os.path.realpath(kind.path)
        return "" if same else f"'{before.path or option}' has an agent '{kind.name}', too"
    return f"{MOST} agents are the most" if len(found) >= MOST else ""


def words_about(field: str) -> str:
    """A field of a head, or of an entry, that does nothing."""
    if field.lower() in WITHOUT_EFFECT:
        return f"'{field}' has no effect here yet"
    return f"nobody knows '{field}'{did_you_mean(field.lower(), sorted(FIELDS))}"


def restrict_untrusted_type(kind: AgentType) -> AgentType:
    """One of a project that is not trusted: it cannot take the place of ours, nor choose a model that costs more."""
    if kind.name in OURS:
        raise UsageError(f"'{kind.name}' is one of ours, and this folder is not trusted")
    return msgspec.structs.replace(kind, model="", effort=None)


def unknown_tools(kind: AgentType, tools: Container[str]) -> list[str]:
    """A server's tools come later, so nobody knows of those yet."""
    wanted = [name for name in (*(kind.tools or ()), *kind.without) if not name.startswith("mcp__")]
    return [f"the agent '{kind.name}' names a tool '{name}' that there is not" for name in wanted if name not in tools]


def patterns_in(said: str | None) -> list[str]:
    """Tools with a pattern behind them (`Bash(git *)`): those it does not get."""
    return [part.strip() for part in _PARTS.split(said or "") if "(" in part]


def read_kind(file: Resolved, *, project: bool = False) -> tuple[AgentType, list[str]]:
    """And what its head holds that means nothing to us."""
    path = file.asked
    head = split_frontmatter(read_text(file).text)
    fields = head.fields
    stem = path.rsplit("/", 1)[-1].removesuffix(".md")
    kind = AgentType(
        checked_name(fields.get("name") or stem),
        one_line(fields.get("description", "")),
        head.body.strip(),
        parse_tool_names(fields.get("tools")),
        parse_denied_tools(fields.get("disallowedtools", "")),
        fields.get("model", ""),
        parse_effort(fields.get("effort", "")),
        parse_max_turns(fields["maxturns"]) if fields.get("maxturns") else None,
        fields.get("background", "").lower() == "true",
        path,
        project,
        tuple(patterns_in(fields.get("tools"))),
    )
    return validate_agent_type(kind), sorted(fields.keys() - FIELDS - PASSED_OVER)


class AgentTypeJson(msgspec.Struct, rename="camel"):
    """As the option has them, and as an SDK sends them. What we do not know is passed over."""

    description: str
    prompt: str
    tools: list[str] | str | None = None  # a text as in a file
    disallowed_tools: list[str] | str = ""
    model: str | None = None
    effort: str | None = None
    max_turns: int | None = None
    background: bool = False


def parse_agent_types(said: object, problems: list[str] | None = None) -> dict[str, AgentType]:
    """Raises `UsageError` that names the agent and what is wrong with it. What has no effect goes to `problems`."""
    if not isinstance(said, Mapping):
        raise UsageError("it is no object of agents by name")
    given = cast("Mapping[str, Any]", said)
    made = {name: _described(name, fields) for name, fields in given.items()}
    if problems is not None:
        for name, fields in given.items():
            problems += [f"the agent '{name}': {words_about(field)}" for field in odd_fields(fields)]
    return made


def odd_fields(fields: Mapping[str, object]) -> list[str]:
    """Those that are set and do nothing."""
    known = {*FIELDS, *PASSED_OVER, "prompt"}
    return [field for field, value in fields.items() if field.lower() not in known and value not in (None, [], {}, "")]


def _described(name: str, fields: Any) -> AgentType:
    try:
        said = msgspec.convert(fields, AgentTypeJson)
        kind = AgentType(
            checked_name(name),
            one_line(said.description),
            said.prompt.strip(),
            None if said.tools is None else parse_tool_names(join_names(said.tools)),
            parse_denied_tools(join_names(said.disallowed_tools)),
            said.model or "",
            parse_effort(said.effort or ""),
            None if said.max_turns is None else parse_max_turns(str(said.max_turns)),
            said.background,
            patterns=tuple(patterns_in(None if said.tools is None else join_names(said.tools))),
        )
        return validate_agent_type(kind)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"the agent '{name}': {error}") from None


def join_names(names: list[str] | str) -> str:
    return names if isinstance(names, str) else ",".join(names)


def validate_agent_type(kind: AgentType) -> AgentType:
    if not kind.about:
        raise UsageError("it has no 'description', so no model would know when to use it")
    if not kind.prompt:
        raise UsageError("it has no text that says how it shall work")
    if len(kind.prompt) > LARGEST_PROMPT:
        raise UsageError(f"its text has more than {LARGEST_PROMPT:,} characters, and is sent with each of its requests")
    return kind


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"its name '{name[:80]}' is not made of letters, digits, '-', '_', '.' and ':', 64 at most")
    return name


def parse_effort(said: str) -> Effort | None:
    if not said:
        return None
    try:
        return Effort(said.lower())
    except ValueError:
        raise UsageError(f"its effort is one of {', '.join(Effort)}, not '{said}'") from None


def parse_max_turns(said: str) -> int:
    if not said.isdecimal() or not 0 < int(said) <= MOST_TURNS:
        raise UsageError(f"'maxTurns' is a number from 1 to {MOST_TURNS:,}, not '{said[:20]}'")
    return int(said)


def parse_tool_names(said: str | None) -> tuple[str, ...] | None:
    return None if said is None or said.strip() == "*" else split_tool_names(said)


def split_tool_names(said: str) -> tuple[str, ...]:
    """Names of tools. A pattern behind one (`Bash(git *)`) cannot be kept to, so the tool counts as not named."""
    return tuple([name for name in (part.strip() for part in _PARTS.split(said)) if name and "(" not in name])


def parse_denied_tools(said: str) -> tuple[str, ...]:
    """Names of tools that it shall not have. A pattern cannot be kept to here either: all of the tool is taken away."""
    return tuple([name.partition("(")[0].strip() for part in _PARTS.split(said) if (name := part.strip())])


def rule_covers_tool(name: str, tool: str) -> bool:
    """`mcp__server` stands for all of a server's."""
    return tool == name or tool.startswith(f"{name}__")


_PARTS = re.compile(r",(?![^(]*\))")  # not within parentheses


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ABOUT else f"{line[:LONGEST_ABOUT]}..."


def format_agent_types(kinds: Iterable[AgentType]) -> str:
    """For the description of the tool that sends them out."""
    return "\n".join([f"- {kind.name}: {kind.about}" for kind in kinds])


def _files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST * 10), strict=False)]
    except OSError:  # as with most of them
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name.endswith(".md")]
