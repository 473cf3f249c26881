"""The parts of an agent session for one conversation. `open_session.py` builds them, complete."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring import sessions
from mainspring.agent.options import CHECKPOINTS
from mainspring.agent.prompt_expansion import parse_compact_command, parse_token_budget
from mainspring.core.errors import MainspringError, UsageError
from mainspring.core.messages import User
from mainspring.core.value import Bundle
from mainspring.engine.session_deps import AgentDeps
from mainspring.sessions.paths import list_unfinished_rewinds
from mainspring.sessions.records import SideCallsRecord
from mainspring.settings.load import home_folder

if TYPE_CHECKING:
    from mainspring.agent.checkpoints import FileCheckpoints
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.mcp import SessionMcpServers
    from mainspring.agent.open_session import NoMcpServers
    from mainspring.agent.prompt_expansion import PromptHooks, UserPrompts
    from mainspring.agent.resume import OpenedSession
    from mainspring.agent.subagents import SessionSubagents
    from mainspring.context.agent_types import AgentType
    from mainspring.context.sources import ContextSources
    from mainspring.core.models import Model
    from mainspring.core.money import Usage
    from mainspring.core.updates import Retrying
    from mainspring.engine.model_context import ModelContext
    from mainspring.engine.run import Run
    from mainspring.engine.session import EngineSession
    from mainspring.engine.session_deps import Answerer
    from mainspring.hooks.runner import Hook
    from mainspring.mcp.host_transport import Send
    from mainspring.mcp.servers import McpServers
    from mainspring.sessions.records import AgentRecord
    from mainspring.settings.plugins import Plugin
    from mainspring.tools.background import BackgroundCommand
    from mainspring.tools.builtin import BuiltinTools
    from mainspring.tools.toolset import Toolset

STDIO = "stdio"  # as the permission prompt tool: ask the program that drives us


class HostCallbacks(Bundle):
    """Callbacks of the front end and the host."""

    answer: Answerer | None = None  # approves calls; None: nobody can approve
    in_background: bool = False  # it also answers for subagents in the background
    hooks: tuple[Hook, ...] = ()  # functions of the host
    say: Callable[[str], object] | None = None  # receives messages of hooks for the user
    show: Callable[[Retrying], object] | None = None  # receives the waits of summaries
    relay: Send | None = None  # reaches MCP servers inside the host
    suggest: Callable[[str], object] | None = None  # receives suggestions for the next prompt
    task_changed: Callable[[BackgroundCommand], object] = lambda _: None  # receives changes of background commands
    source: str = "startup"  # why the session begins, for `SessionStart` hooks


class SessionInfo(Bundle):
    """The facts about a session that `init` reports."""

    session_id: str
    cwd: str
    model: Model
    tools: tuple[str, ...] = ()
    later: Callable[[], tuple[str, ...]] = tuple  # tools of MCP servers that connected since
    servers: Callable[[], list[dict[str, str]]] = list  # MCP servers with their states
    agents: tuple[str, ...] = ()  # agent types
    commands: tuple[str, ...] = ("compact",)  # slash commands
    skills: Callable[[], tuple[str, ...]] = tuple  # by name; called only to show them
    words: Callable[[], tuple[str, ...]] = tuple  # slash commands that are prompts of MCP servers
    mode: str = "default"
    output_style: str = "default"  # the one in force
    output_styles: Callable[[], tuple[str, ...]] = tuple  # by name; called only to show them
    used: tuple[tuple[str, Usage], ...] = ()  # by model, before this process resumed the session
    key_source: str = "none"
    plugins: tuple[Plugin, ...] = ()
    betas: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # given flags that have no effect yet
    sandbox: Callable[[], str] = str  # its level, as text; called only to show it
    max_retries: int = 9  # of a request to the model (G-18)
    spent: int = 0  # nano-dollars, before this process resumed the session
    breaks: tuple[tuple[str, int, int], ...] = ()  # of the prefix until then: by event, how often, nano-dollars


class SessionCleanup:
    """Removes sessions that are older than the settings allow, in the home of these settings."""

    PATIENCE = 0.5  # seconds to wait at the end; the next session continues an unfinished cleanup

    def __init__(self, config: ResolvedConfig, opened: OpenedSession) -> None:
        self._days, self._keep = config.settings.cleanup_days, opened.session_id
        self._home = home_folder(config.environment) if self._days is not None else None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._days is not None and self._home is not None:
            self._thread = sessions.start_cleanup(self._home, self._days, now=time.time(), keep=self._keep)

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self.PATIENCE)


class SessionParts(Bundle):
    config: ResolvedConfig
    session: EngineSession
    about: SessionInfo
    hands: Toolset
    prompts: PromptHooks
    skill: Callable[[str, str], str]  # the text of a skill or custom command, by name; raises `ToolError`
    agents: SessionSubagents
    lost_agents: tuple[AgentRecord, ...]  # those that were running when the process ended
    servers: SessionMcpServers | NoMcpServers
    waits_for_servers: bool  # before the first prompt; else in the first turn
    around: ContextSources
    kinds: Mapping[str, AgentType]  # agent types; empty: only the built-in ones
    kit: BuiltinTools
    mind: ModelContext
    system: Callable[[], tuple[str, ...]]  # the current system prompt
    cleanup: SessionCleanup
    own_words: UserPrompts
    rewinding: FileCheckpoints | None = None  # None: checkpointing is off
    notice: Callable[[str], object] = str  # shows the user a warning

    async def open(self) -> None:
        """Starts what needs the event loop, before the first prompt."""
        self.cleanup.start()
        await self.config.sandboxing.open()
        await self.servers.open(wait=self.waits_for_servers)
        await self.agents.tell_of_lost(self.lost_agents)
        await self._finish_rewinds()

    async def _finish_rewinds(self) -> None:
        """Those that a crash has interrupted: of this session, and of others in this workspace."""
        config = self.config
        if self.rewinding is not None and (said := await self.rewinding.recover()):
            self.notice(said)
        home = config.options.sessions_home or home_folder(config.environment)
        if home is not None and (unfinished := list_unfinished_rewinds(home)):
            from mainspring.agent.checkpoints import RewindPermissions, finish_rewinds

            writable = RewindPermissions(config.gate, config.cwd, lambda: config.policy.current)
            async for said in finish_rewinds(unfinished, home, (config.cwd, *config.folders), writable):
                self.notice(said)

    async def close(self, reason: str = "other") -> None:
        """`reason`: for `SessionEnd` hooks."""
        await self.agents.close()
        await self.prompts.ended(reason)
        self.mind.drop_suggestion()
        await self.mind.close()
        await self._journal_side_calls()
        await self.hands.hooks.close()
        await self.servers.close()
        await self.kit.close()
        if self.rewinding is not None:
            await self.rewinding.close()
        await self.config.sandboxing.close()
        await self.config.model.close()
        self.config.holder.release()
        if isinstance(self.session.deps, AgentDeps):
            self.session.deps.forget_requests()
        await self.cleanup.close()

    async def _journal_side_calls(self) -> None:
        """Those since the last event, such as the last suggestion: a session that is resumed counts their cost."""
        usage, cost = self.mind.take_cost()
        if cost:
            deps = self.session.deps
            with suppress(MainspringError):  # a full disk: the rest must be closed all the same
                await deps.journal.append(SideCallsRecord(cost, usage, deps.now()))

    async def rewind(self, user_message_id: str) -> dict[str, Any]:
        """Restores every file that our tools have changed since that prompt (stream-json 4). Raises `UsageError` with a
        message for the host."""
        return await self.checkpoints.rewind_files(user_message_id)

    @property
    def checkpoints(self) -> FileCheckpoints:
        """Raises `UsageError` if there are none."""
        if self.rewinding is None:
            raise UsageError(
                f"File checkpointing is not enabled: start the session with 'enable_file_checkpointing' ({CHECKPOINTS}"
                "=true), and store it"
            )
        return self.rewinding

    def end_run(self) -> None:
        """Called when a run is over."""
        if self.rewinding is not None:
            self.rewinding.end_run(works_on=self.agents.away > 0 or self.kit.works_in_background)

    @property
    def mcp(self) -> McpServers | None:
        """None: no server is configured."""
        return get_mcp_servers(self.servers)

    @property
    def has_tasks(self) -> bool:
        """Whether a subagent or a background command was started in this process."""
        return self.agents.has_begun or self.kit.has_background

    @property
    def background_count(self) -> int:
        """How many subagents and commands run in the background."""
        return self.agents.away + (len(self.kit.background.running) if self.kit.has_background else 0)

    async def stop(self, task: str) -> None:
        """Stops a subagent or a command in the background, if it still runs."""
        await self.agents.stop(task)
        await self.kit.stop(task)

    async def settle(self) -> None:
        """Adds tools of MCP servers that connected meanwhile. Called before a run is announced."""
        await self.servers.settle()

    def run(self, said: str, heard: tuple[User, ...], *, deltas: bool = True) -> Run:
        """`said`: the prompt's text, which may be `/compact` or hold a token budget."""
        session = self.session
        self.agents.begin(session.config.max_turns)
        if (words := parse_compact_command(said)) is not None:
            return session.compact(words)
        tokens = parse_token_budget(said)
        config = replace(session.config, token_budget=tokens) if tokens is not None else session.config
        return session.run(heard, config=config, deltas=deltas)

    @property
    def has_more(self) -> bool:
        """Subagents in the background still run, or have reported: another run follows by itself."""
        waits = self.agents.away or self.session.shared.inbox.waiting()
        return bool(waits) and self.agents.turns_left > 0

    async def wait_for_more(self) -> None:
        if not self.session.shared.inbox.waiting():
            await self.agents.next_report()

    def go_on(self, *, deltas: bool = True, anew: bool = False) -> Run:
        """Runs with the queued messages. `anew`: the user sent a prompt, so turns are counted from here."""
        if anew:
            self.agents.begin(self.session.config.max_turns)
        config = replace(self.session.config, max_turns=self.agents.turns_left)
        return self.session.run(config=config, deltas=deltas)


def get_mcp_servers(servers: SessionMcpServers | NoMcpServers) -> McpServers | None:
    """None: no server is configured."""
    return getattr(servers, "servers", None)
