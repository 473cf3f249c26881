"""Slash commands and mentions, for every front end.

`/name arguments` expands to a skill, a custom command or a prompt of an MCP server; `@path` attaches a file and
`@server:uri` a resource. `WORDS` is the table of built-in slash commands; skills and custom commands cannot replace
them. `agent/slash/` has the code of those that need no screen, the terminal that of the others.
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
    hidden = [name for name in own if name not in YIELDING]
    return tuple([entry for entry in get_slash_entries(found).entries() if entry.name not in hidden])


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


ONCE, PIPE, TERMINAL = "once", "pipe", "terminal"  # print mode; stream-json, SDK and library; the terminal


class SlashCommand:
    """A built-in command. A plain class: it is defined at every start, and a named tuple takes half a millisecond for
    that.

    `text` is its form without a screen, as `module.function` in `agent/slash/`: it takes a `SlashContext` and the
    text after the name, writes lines, raises `SlashCommandError` if it fails, and may return a prompt for the model.
    The terminal uses it too, unless `cli/slash/table.py` has a form of its own. A command without `text` needs a
    screen; `instead` says what to do without one.
    """

    def __init__(  # noqa: PLR0913  # a row
        self,
        name: str,
        about: str,
        hint: str = "",
        text: str = "",
        *,
        instead: str = "",
        asks_model: bool = False,
        switches: bool = False,
    ) -> None:
        """`hint`: its arguments. `asks_model`: the loop runs it, or it becomes a prompt: it costs a request.
        `switches`: it replaces the conversation, so it runs before its own run begins."""
        self.name, self.about, self.hint, self.text, self.instead = name, about, hint, text, instead
        self.asks_model, self.switches = asks_model, switches

    @property
    def needs_screen(self) -> bool:
        return not self.text and not self.asks_model


IN_TERMINAL = "run 'mainspring' in a terminal and type it there"

WORDS = (
    SlashCommand("compact", "Compact the conversation now", "[instructions]", asks_model=True),
    SlashCommand("clear", "Start a new conversation", "", "session.clear", switches=True),
    SlashCommand(
        "resume",
        "List the sessions of this folder, or resume one by id or title",
        "[session]",
        "session.resume",
        switches=True,
    ),
    SlashCommand(
        "rewind",
        "Restore the files and the conversation to the point before a prompt",
        "[number]",
        "rewind.rewind",
        switches=True,
    ),
    SlashCommand("diff", "Show which files this session changed, by prompt", "[number]", "diff.diff"),
    SlashCommand("rename", "Set the title of this session", "TITLE", "session.rename"),
    SlashCommand(
        "fork",
        "Branch this conversation, here or before one of the last prompts",
        "[number]",
        "fork.fork",
        switches=True,
    ),
    SlashCommand("export", "Export the conversation to a .md, .html or .json file", "[file]", "sharing.export"),
    SlashCommand("share", "Write the conversation as one HTML page, without secrets", "", "sharing.share"),
    SlashCommand("status", "Show session, model, folders, sandbox, MCP servers and settings", "", "info.status"),
    SlashCommand("context", "Show what fills the context window", "", "info.show_context"),
    SlashCommand("cost", "Show cost and tokens of this session, by model", "", "info.show_cost"),
    SlashCommand("model", "Show or change the model", "[name]", "settings.model"),
    SlashCommand("effort", "Show or change how much the model thinks", "[level]", "preferences.effort"),
    SlashCommand(
        "usage", "Show cost and tokens by model, the budget left, and the provider's rate limits", "", "usage.usage"
    ),
    SlashCommand("copy", "Copy the last answer, or its Nth code block", "[number]", "answers.copy"),
    SlashCommand("btw", "Ask a side question that does not enter the conversation", "QUESTION", "answers.btw"),
    SlashCommand(
        "review",
        "Let the model review this branch, or a commit, range, pull request or path",
        "[target]",
        "answers.review",
        asks_model=True,
    ),
    SlashCommand("permissions", "Show the permission mode and rules, with their sources", "", "settings.permissions"),
    SlashCommand("add-dir", "Let the tools work in one more folder", "FOLDER", "settings.add_dir"),
    SlashCommand("memory", "List the memory files; 'edit' shows how to edit them", "[edit]", "settings.memory"),
    SlashCommand(
        "init",
        "Let the model write or improve the project's memory file",
        "[instructions]",
        "settings.init",
        asks_model=True,
    ),
    SlashCommand("skills", "List skills and custom commands, with their files", "", "settings.skills"),
    SlashCommand("agents", "List agent types and running subagents", "", "info.agents"),
    SlashCommand("tasks", "List background tasks, or stop one", "[stop ID]", "info.tasks"),
    SlashCommand(
        "trace", "Show this session on a time axis in the browser, live", instead="run 'mainspring trace' in the folder"
    ),
    SlashCommand("mcp", "List MCP servers, or reconnect one", "[reconnect NAME]", "info.mcp"),
    SlashCommand("hooks", "List hooks with their events and files", "", "settings.hooks"),
    SlashCommand(
        "config",
        "Show the effective settings and where each comes from; change them",
        "[reload]",
        "settings.config",
    ),
    SlashCommand("theme", "Show or change the colours of the terminal", "[name]", "preferences.theme"),
    SlashCommand("vim", "Switch between the usual keys and vi keys in the input", "", "preferences.vim"),
    SlashCommand(
        "trust",
        "Trust this folder and enable its settings, hooks, servers and skills",
        "[remove]",
        instead="run 'mainspring trust' in the folder",
    ),
    SlashCommand(
        "login",
        "Connect a model provider: store its key and choose a model",
        "[model]",
        instead="run 'mainspring login'",
    ),
    SlashCommand("logout", "Remove stored keys", "[provider]", instead="run 'mainspring logout'"),
    SlashCommand("doctor", "Check your installation", "", "info.doctor"),
    SlashCommand("help", "Show this list", "", "info.show_help"),
    SlashCommand("exit", "Exit (or press Ctrl-D)", instead="end the input"),
    SlashCommand("quit", "Exit", instead="end the input"),
)


def words_at(door: str) -> tuple[SlashCommand, ...]:
    return tuple([word for word in WORDS if door == TERMINAL or not word.needs_screen])


YIELDING = ("review",)  # built-in prompts: a skill or custom command of the same name replaces them


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])


def find_builtin(name: str) -> SlashCommand | None:
    return next((one for one in WORDS if one.name == name), None)


def explain_screen_only(word: SlashCommand) -> str:
    """Why it does not work here, and what does."""
    return f"/{word.name} needs a terminal: {word.instead or IN_TERMINAL}."
