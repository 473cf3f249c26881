"""Slash commands and mentions, for every front end.

`/name arguments` expands to a skill, a custom command or a prompt of an MCP server; `@path` attaches a file and
`@server:uri` a resource. `WORDS` is the table of built-in slash commands; skills and custom commands cannot replace
them. The code of each command is in the front ends that offer it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring import agent, context, permissions
from mainspring.agent.prompt_expansion import AttachedMention, ExpandedPrompt, parse_compact_command
from mainspring.core.errors import ToolError
from mainspring.core.messages import User
from mainspring.core.view import view
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.agent.mcp import SessionMcpServers
    from mainspring.agent.open_session import NoMcpServers
    from mainspring.agent.prompt_expansion import Attach
    from mainspring.agent.session_parts import SessionParts
    from mainspring.context.custom_commands import SlashCatalog, SlashEntry
    from mainspring.context.mentions import MentionMedia, Verdict
    from mainspring.context.sources import ContextSources
    from mainspring.engine.session import EngineSession
    from mainspring.permissions.checker import PermissionChecker


Skill = Callable[[str, str], str]


def expand_slash_command(said: str, world: SessionParts) -> str | None:
    """The prompt that it expands to; None: it is plain text, `/compact` or an unknown command."""
    if not said.startswith("/") or parse_compact_command(said) is not None:
        return None
    word, words = (*said.split(None, 1), "")[:2]
    try:
        return world.skill(word[1:], words.strip())
    except ToolError:
        return None


def skill_of(found: ContextSources, servers: SessionMcpServers | NoMcpServers | None = None) -> Skill:
    """Returns a function that loads the text of a skill or custom command by name, or raises `ToolError`. A prompt of
    an MCP server stays as it is: `make_mention_attacher` fetches and attaches its text."""

    def text(name: str, arguments: str) -> str:
        if servers is not None and servers.knows(name, arguments):
            return f"/{name} {arguments}".rstrip()
        return get_slash_entries(found).text(name, arguments)

    return text


def get_slash_entries(found: ContextSources) -> SlashCatalog:
    """All slash commands that are not built in. Reports skipped ones, once."""
    slash = found.slash
    for problem in slash.news():
        found.tell(problem)
    return slash


def list_other_commands(found: ContextSources, own: tuple[str, ...]) -> tuple[SlashEntry, ...]:
    """Those that no built-in command in `own` hides."""
    if not found.has_words:  # the usual case: load nothing
        return ()
    return tuple([entry for entry in get_slash_entries(found).entries() if entry.name not in own])


def skill_names(found: ContextSources) -> tuple[str, ...]:
    """Of the skills that the model knows about."""
    return tuple(found.skills.told) if found.has_skills else ()


def make_mention_attacher(  # noqa: PLR0913  # its inputs
    found: ContextSources,
    gate: PermissionChecker,
    session: EngineSession,
    cwd: str,
    servers: SessionMcpServers | NoMcpServers | None = None,
    *,
    reads: bool = True,
) -> Attach:
    """Returns a function that attaches the files and MCP resources that a prompt mentions. The current rules for `Read`
    apply. Attachments that are already in the view are not sent again. It raises `ToolError` if a server does not
    return the chosen prompt. `reads`: False if `Read` is not among the tools of the session: then a mention is text."""

    async def may(path: str) -> Verdict:
        verdict = await gate.verdict(
            permissions.PermissionRequest("Read", {"file_path": path}, cwd), session.shared.policy
        )
        return verdict.decision

    async def may_of(server: str, uri: str) -> bool:
        """The user mentioned it, so it may be read, unless a rule denies it."""
        asked = permissions.PermissionRequest("ReadMcpResourceTool", {"server": server, "uri": uri}, cwd)
        verdict = await gate.verdict(asked, session.shared.policy)
        return verdict.decision == "allow" or not verdict.rule

    async def attach(text: str) -> ExpandedPrompt:
        if parse_compact_command(text) is not None:
            return ExpandedPrompt()
        of_servers = await servers.brought(text, may_of, mentions=reads) if servers is not None else ()
        brought = await found.named(text, may, medium_of) if reads else ()
        if not brought and not of_servers:
            return ExpandedPrompt()
        seen = view(session.state.history, session.state.edits)
        there = [message.content for message in seen if isinstance(message, User)]
        files = context.select_missing_attachments([one.attachment for one in brought], seen, found.nonce)
        told = [AttachedMention(one.path.asked, one.what, one.why_not) for one in brought]
        return ExpandedPrompt((*[one for one in of_servers if one.content not in there], *files), tuple(told))

    return attach


def medium_of(fd: int, name: str) -> MentionMedia | None:
    return agent.medium_in(fd, name)


def lines_of_attached(attached: tuple[AttachedMention, ...]) -> list[str]:
    """A line for each `@name` of a prompt, for the user, without control characters."""
    return [" ".join(strip_control_characters(format_mention_notice(one)).split()) for one in attached]


def format_mention_notice(one: AttachedMention) -> str:
    return f"not attached: {one.name} ({one.why_not})" if one.why_not else f"+ {one.name}, {one.what}"


ONCE, PIPE, TERMINAL = "once", "pipe", "terminal"  # print mode, stream-json, the terminal


class SlashCommand:
    """A plain class: it is defined at every start, and a named tuple takes half a millisecond for that."""

    def __init__(self, name: str, about: str, hint: str = "", doors: tuple[str, ...] = (TERMINAL,)) -> None:
        """`hint`: its arguments."""
        self.name, self.about, self.hint, self.doors = name, about, hint, doors


WORDS = (
    SlashCommand("compact", "Compact the conversation now", "[instructions]", (ONCE, PIPE, TERMINAL)),
    SlashCommand("clear", "Start a new conversation", "", (PIPE, TERMINAL)),
    SlashCommand("resume", "List the sessions of this folder, or resume one by id or title", "[session]"),
    SlashCommand("rewind", "List the last prompts, or go back to before one of them", "[number]"),
    SlashCommand("rename", "Set the title of this session", "TITLE"),
    SlashCommand("export", "Export the conversation to a Markdown file", "[file]"),
    SlashCommand("status", "Show session, model, folders, sandbox, MCP servers and settings"),
    SlashCommand("context", "Show what fills the context window", "", (PIPE, TERMINAL)),
    SlashCommand("cost", "Show cost and tokens of this session, by model"),
    SlashCommand("model", "Show or change the model", "[name]"),
    SlashCommand("permissions", "Show the permission mode and rules, with their sources"),
    SlashCommand("add-dir", "Let the tools work in one more folder", "FOLDER"),
    SlashCommand("memory", "List the memory files; 'edit' shows how to edit them", "[edit]"),
    SlashCommand("init", "Let the model write or improve the project's memory file", "[instructions]"),
    SlashCommand("skills", "List skills and custom commands, with their files"),
    SlashCommand("agents", "List agent types and running subagents"),
    SlashCommand("tasks", "List background tasks, or stop one", "[stop ID]"),
    SlashCommand("mcp", "List MCP servers, or reconnect one", "[reconnect NAME]"),
    SlashCommand("hooks", "List hooks with their events and files"),
    SlashCommand("config", "Show the effective settings and where each comes from"),
    SlashCommand("trust", "Trust this folder and enable its settings, hooks, servers and skills", "[remove]"),
    SlashCommand("doctor", "Check your installation"),
    SlashCommand("help", "Show this list"),
    SlashCommand("exit", "Exit (or press Ctrl-D)"),
    SlashCommand("quit", "Exit"),
)


def words_at(door: str) -> tuple[SlashCommand, ...]:
    return tuple([word for word in WORDS if door in word.doors])


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])
