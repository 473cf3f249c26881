"""Agent types: what a subagent is for, its system prompt, and its tools (stream-json 12).

There are built-in types, and those that the user and the project describe in `agents/*.md`: frontmatter with `name` and
`description`, then the system prompt. A project's types are not loaded before the project is trusted (security T1), and
cannot replace the user's. Permissions in the frontmatter are ignored: a subagent has the permissions of its session.
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

MOST = 100  # agent types
LONGEST_ABOUT = 500  # characters of each description for the model
LARGEST_PROMPT = 60_000  # characters
MOST_TURNS = 10_000
INHERIT = "inherit"
LEFT_OUT = "it does not get '{}': patterns are not supported here. Name the tool alone, and use a permission rule"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class AgentType(Value):
    name: str
    about: str  # when to use it, for the calling model
    prompt: str  # its system prompt
    tools: tuple[str, ...] | None = None  # None: all tools of its session
    without: tuple[str, ...] = ()
    model: str = ""  # an alias or a name; empty: the model of its session
    effort: Effort | None = None
    max_turns: int | None = None
    background: bool = False  # always runs in the background
    path: str = ""  # empty: built in, or from the command line
    project: bool = False
    patterns: tuple[str, ...] = ()  # tools that it does not get, because they have a pattern


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
BUILTIN_AGENT_TYPES = {kind.name: kind for kind in (GENERAL, EXPLORE)}


class AgentTypeCatalog(Value):
    kinds: dict[str, AgentType]
    problems: tuple[str, ...] = ()  # for the user: what was left out, and why


# Frontmatter fields of other programs that we do not use: the first are irrelevant, the second would have an effect.
PASSED_OVER = frozenset({"color", "version", "author", "license"})
WITHOUT_EFFECT = frozenset({"permissionmode", "skills", "memory", "mcpservers", "hooks", "initialprompt", "isolation"})
FIELDS = frozenset({"name", "description", "tools", "disallowedtools", "model", "effort", "maxturns", "background"})


def find_agent_types(
    places: ConfigFolders, given: Mapping[str, AgentType] = {}, tools: Container[str] = (), option: str = "agents"
) -> AgentTypeCatalog:
    """All agent types by name: those `given` by the option of that name, then the user's, the project's, and the
    built-in ones. `tools` are the names of the tools that are known now."""
    found, problems = dict(given), [words for kind in given.values() for words in unknown_tools(kind, tools)]
    problems += [f"the agent '{kind.name}': {LEFT_OUT.format(one)}" for kind in given.values() for one in kind.patterns]
    for folder, project in places.folders():
        for path in _files(folder):
            try:
                found_at = resolve_path(path, "/")
                places.check(found_at, project=project)
                kind, odd = read_kind(found_at, project=project)
                problems += [f"the agent '{path}': {LEFT_OUT.format(name)}" for name in kind.patterns]
                if prefix := places.prefix_of(folder):
                    kind = msgspec.structs.replace(kind, name=f"{prefix}{kind.name}")
                if project and places.bounds:  # it is not trusted
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
        {**found, **{name: kind for name, kind in BUILTIN_AGENT_TYPES.items() if name not in found}}, tuple(problems)
    )


def no_room(kind: AgentType, found: Mapping[str, AgentType], option: str) -> str:
    """Why the agent type is rejected; empty: it is accepted. The same file by another path is not a second one."""
    before = found.get(kind.name)
    if before is not None:
        same = bool(before.path) and os.path.realpath(before.path) == os.path.realpath(kind.path)
        return "" if same else f"'{before.path or option}' has an agent '{kind.name}', too"
    return f"at most {MOST} agents are supported" if len(found) >= MOST else ""


def words_about(field: str) -> str:
    """The message for a field without effect, of frontmatter or of an entry."""
    if field.lower() in WITHOUT_EFFECT:
        return f"'{field}' has no effect here yet"
    return f"nobody knows '{field}'{did_you_mean(field.lower(), sorted(FIELDS))}"


def restrict_untrusted_type(kind: AgentType) -> AgentType:
    """An agent type of an untrusted project: it cannot replace a built-in one, nor choose a more expensive model."""
    if kind.name in BUILTIN_AGENT_TYPES:
        raise UsageError(f"'{kind.name}' is a built-in agent type, and this folder is not trusted")
    return msgspec.structs.replace(kind, model="", effort=None)


def unknown_tools(kind: AgentType, tools: Container[str]) -> list[str]:
    """The tools of MCP servers arrive later, so they are not checked."""
    wanted = [name for name in (*(kind.tools or ()), *kind.without) if not name.startswith("mcp__")]
    return [f"the agent '{kind.name}' names an unknown tool '{name}'" for name in wanted if name not in tools]


def patterns_in(said: str | None) -> list[str]:
    """Tools with a pattern (`Bash(git *)`): those it does not get."""
    return [part.strip() for part in _PARTS.split(said or "") if "(" in part]


def read_kind(file: Resolved, *, project: bool = False) -> tuple[AgentType, list[str]]:
    """Read an agent type from a file. Also returns the frontmatter fields that have no effect."""
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
    """The format of the option, and of an SDK. Unknown fields are ignored."""

    description: str
    prompt: str
    tools: list[str] | str | None = None  # a string as in a file
    disallowed_tools: list[str] | str = ""
    model: str | None = None
    effort: str | None = None
    max_turns: int | None = None
    background: bool = False


def parse_agent_types(said: object, problems: list[str] | None = None) -> dict[str, AgentType]:
    """Raises `UsageError` that names the agent and what is wrong with it. Fields without effect go to `problems`."""
    if not isinstance(said, Mapping):
        raise UsageError("it must be an object with agents by name")
    given = cast("Mapping[str, Any]", said)
    made = {name: _described(name, fields) for name, fields in given.items()}
    if problems is not None:
        for name, fields in given.items():
            problems += [f"the agent '{name}': {words_about(field)}" for field in odd_fields(fields)]
    return made


def odd_fields(fields: Mapping[str, object]) -> list[str]:
    """The fields that are set and have no effect."""
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
        raise UsageError("it has no system prompt")
    if len(kind.prompt) > LARGEST_PROMPT:
        raise UsageError(f"its text has more than {LARGEST_PROMPT:,} characters, and is sent with each of its requests")
    return kind


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"its name '{name[:80]}' may only have letters, digits, '-', '_', '.' and ':', at most 64")
    return name


def parse_effort(said: str) -> Effort | None:
    if not said:
        return None
    try:
        return Effort(said.lower())
    except ValueError:
        raise UsageError(f"its effort must be one of {', '.join(Effort)}, not '{said}'") from None


def parse_max_turns(said: str) -> int:
    if not said.isdecimal() or not 0 < int(said) <= MOST_TURNS:
        raise UsageError(f"'maxTurns' must be a number from 1 to {MOST_TURNS:,}, not '{said[:20]}'")
    return int(said)


def parse_tool_names(said: str | None) -> tuple[str, ...] | None:
    return None if said is None or said.strip() == "*" else split_tool_names(said)


def split_tool_names(said: str) -> tuple[str, ...]:
    """Tool names. A tool with a pattern (`Bash(git *)`) is left out, because patterns are not supported here."""
    return tuple([name for name in (part.strip() for part in _PARTS.split(said)) if name and "(" not in name])


def parse_denied_tools(said: str) -> tuple[str, ...]:
    """Denied tool names. Patterns are not supported here either: the whole tool is denied."""
    return tuple([name.partition("(")[0].strip() for part in _PARTS.split(said) if (name := part.strip())])


def rule_covers_tool(name: str, tool: str) -> bool:
    """`mcp__server` matches all tools of a server."""
    return tool == name or tool.startswith(f"{name}__")


_PARTS = re.compile(r",(?![^(]*\))")  # not within parentheses


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ABOUT else f"{line[:LONGEST_ABOUT]}..."


def format_agent_types(kinds: Iterable[AgentType]) -> str:
    """For the description of the tool that starts subagents."""
    return "\n".join([f"- {kind.name}: {kind.about}" for kind in kinds])


def _files(folder: str) -> list[str]:
    if folder.endswith(".md"):
        return [folder]  # a file that a plugin names
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST * 10), strict=False)]
    except OSError:  # most of these directories do not exist
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name.endswith(".md")]
