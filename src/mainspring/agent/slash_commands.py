"""What somebody says may stand for more: `/name words` for a skill, a command or a prompt of an MCP server, `@path` for
a file, `@server:uri` for a resource. For every door.

The words with a slash that we understand ourselves: one table, from which every door takes what it needs.

No skill and no command of others takes their place. What each does is where it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
    """The prompt that it stands for; None: it is what it is, or nobody knows the word."""
    if not said.startswith("/") or parse_compact_command(said) is not None:
        return None
    word, words = (*said.split(None, 1), "")[:2]
    try:
        return world.skill(word[1:], words.strip())
    except ToolError:
        return None


def skill_of(found: ContextSources, servers: SessionMcpServers | NoMcpServers | None = None) -> Skill:
    """The text of a skill or a command, by its name; it raises `ToolError`. A prompt of a server stands for itself:
    what it says is fetched, and goes along (`make_mention_attacher`)."""

    def text(name: str, arguments: str) -> str:
        if servers is not None and servers.knows(name, arguments):
            return f"/{name} {arguments}".rstrip()
        return get_slash_entries(found).text(name, arguments)

    return text


def get_slash_entries(found: ContextSources) -> SlashCatalog:
    """All words with a slash but our own. What was left out of them is told, once."""
    slash = found.slash
    for problem in slash.news():
        found.tell(problem)
    return slash


def list_other_commands(found: ContextSources, own: tuple[str, ...]) -> tuple[SlashEntry, ...]:
    """Those that none of our own words hides."""
    if not found.has_words:  # as with most: nothing is loaded for them
        return ()
    return tuple([entry for entry in get_slash_entries(found).entries() if entry.name not in own])


def skill_names(found: ContextSources) -> tuple[str, ...]:
    """Of those that the model is told of."""
    return tuple(found.skills.told) if found.has_skills else ()


def make_mention_attacher(
    found: ContextSources,
    gate: PermissionChecker,
    session: EngineSession,
    cwd: str,
    servers: SessionMcpServers | NoMcpServers | None = None,
) -> Attach:
    """Brings the files that a prompt names, by the rules for `Read` as they are then; and what it names of MCP servers.
    What the view holds already is not sent a second time. Raises `ToolError` where a server does not bring the prompt
    that was chosen."""

    async def may(path: str) -> Verdict:
        from mainspring.permissions.policy import PermissionRequest

        verdict = await gate.verdict(PermissionRequest("Read", {"file_path": path}, cwd), session.shared.policy)
        return verdict.decision

    async def may_of(server: str, uri: str) -> bool:
        """Whoever names it wants it read; but a rule that is against it holds."""
        from mainspring.permissions.policy import PermissionRequest

        asked = PermissionRequest("ReadMcpResourceTool", {"server": server, "uri": uri}, cwd)
        verdict = await gate.verdict(asked, session.shared.policy)
        return verdict.decision == "allow" or not verdict.rule

    async def attach(text: str) -> ExpandedPrompt:
        if parse_compact_command(text) is not None:
            return ExpandedPrompt()
        of_servers = await servers.brought(text, may_of) if servers is not None else ()
        brought = await found.named(text, may, medium_of)
        if not brought and not of_servers:
            return ExpandedPrompt()
        from mainspring.context.attachments import select_missing_attachments

        seen = view(session.state.history, session.state.edits)
        there = [message.content for message in seen if isinstance(message, User)]
        files = select_missing_attachments([one.attachment for one in brought], seen, found.nonce)
        told = [AttachedMention(one.path.asked, one.what, one.why_not) for one in brought]
        return ExpandedPrompt((*[one for one in of_servers if one.content not in there], *files), tuple(told))

    return attach


def medium_of(fd: int, name: str) -> MentionMedia | None:
    from mainspring.agent.media import medium_in  # most files are text, and most prompts name none

    return medium_in(fd, name)


def lines_of_attached(attached: tuple[AttachedMention, ...]) -> list[str]:
    """A line for each `@name` of a prompt: for the person, and harmless."""
    return [" ".join(strip_control_characters(format_mention_notice(one)).split()) for one in attached]


def format_mention_notice(one: AttachedMention) -> str:
    return f"not attached: {one.name} ({one.why_not})" if one.why_not else f"+ {one.name}, {one.what}"


ONCE, PIPE, TERMINAL = "once", "pipe", "terminal"  # `-p`, a driving program, a conversation


class SlashCommand:
    """A plain class: it is defined at every start, and a tuple with names takes half a millisecond for that."""

    def __init__(self, name: str, about: str, hint: str = "", doors: tuple[str, ...] = (TERMINAL,)) -> None:
        """`hint`: what may stand behind it."""
        self.name, self.about, self.hint, self.doors = name, about, hint, doors


WORDS = (
    SlashCommand("compact", "Sum the conversation up now", "[instructions]", (ONCE, PIPE, TERMINAL)),
    SlashCommand("clear", "Begin a new conversation", "", (PIPE, TERMINAL)),
    SlashCommand("resume", "The sessions of this folder; with an id or a title, go on with that one", "[session]"),
    SlashCommand("rewind", "The last prompts; with a number, go back to before that one", "[number]"),
    SlashCommand("rename", "Give this session a title", "TITLE"),
    SlashCommand("export", "Write the conversation to a file, as Markdown", "[file]"),
    SlashCommand("status", "Session, model, folders, sandbox, servers, settings: how things stand"),
    SlashCommand("context", "What fills the window", "", (PIPE, TERMINAL)),
    SlashCommand("cost", "What this session has cost so far, by model"),
    SlashCommand("model", "Which model is asked; with a name, ask that one from now on", "[name]"),
    SlashCommand("permissions", "The mode, and the rules in force with their sources"),
    SlashCommand("add-dir", "Let the tools work in one more folder", "FOLDER"),
    SlashCommand("memory", "The memory files that the model knows; 'edit' says how to change them", "[edit]"),
    SlashCommand("init", "Have the project looked at, and its memory file written or improved", "[wishes]"),
    SlashCommand("skills", "Skills and commands, and where they come from"),
    SlashCommand("agents", "Kinds of agents, and those that are at work"),
    SlashCommand("tasks", "What runs in the background; 'stop ID' ends one", "[stop ID]"),
    SlashCommand("mcp", "MCP servers; 'reconnect NAME' tries one again", "[reconnect NAME]"),
    SlashCommand("hooks", "Which hooks stand where, and which are held back"),
    SlashCommand("config", "Each setting that holds, and who said so"),
    SlashCommand("trust", "Trust this folder: what it brings takes effect; 'remove' takes that back", "[remove]"),
    SlashCommand("doctor", "Look whether everything that is needed is there"),
    SlashCommand("help", "This"),
    SlashCommand("exit", "Leave; so does Ctrl-D"),
    SlashCommand("quit", "The same"),
)


def words_at(door: str) -> tuple[SlashCommand, ...]:
    return tuple([word for word in WORDS if door in word.doors])


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])
