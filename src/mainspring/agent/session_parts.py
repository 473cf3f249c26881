"""What an agent session is made of while one conversation lasts: complete when it is made, see `open_session.py`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.agent.prompt_expansion import parse_compact_command, parse_token_budget
from mainspring.core.errors import UsageError
from mainspring.core.messages import User
from mainspring.core.value import Bundle
from mainspring.settings.load import home_folder

if TYPE_CHECKING:
    from mainspring.agent.checkpoints import FileCheckpoints
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.mcp import SessionMcpServers
    from mainspring.agent.open_session import NoMcpServers
    from mainspring.agent.prompt_expansion import PromptHooks
    from mainspring.agent.resume import OpenedSession
    from mainspring.agent.subagents import SessionSubagents
    from mainspring.context.agent_types import AgentType
    from mainspring.context.sources import ContextSources
    from mainspring.core.models import Model
    from mainspring.core.money import Usage
    from mainspring.engine.model_context import ModelContext
    from mainspring.engine.run import Run
    from mainspring.engine.session import EngineSession
    from mainspring.engine.session_deps import Answerer
    from mainspring.hooks.runner import Hook
    from mainspring.mcp.host_transport import Send
    from mainspring.mcp.servers import McpServers
    from mainspring.sessions.records import AgentRecord
    from mainspring.tools.background import BackgroundCommand
    from mainspring.tools.builtin import BuiltinTools
    from mainspring.tools.toolset import Toolset

CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
STDIO = "stdio"  # as the permission prompt tool: the program that drives us is asked


class HostCallbacks(Bundle):
    """What the front end of a session, and the program around it, bring."""

    answer: Answerer | None = None  # who is asked about calls; None: nobody
    in_background: bool = False  # also for a subagent in the background
    hooks: tuple[Hook, ...] = ()  # functions of the program
    say: Callable[[str], object] | None = None  # hears what hooks have for the person
    relay: Send | None = None  # the way to MCP servers that live in the program
    suggest: Callable[[str], object] | None = None  # hears what the person may say next
    task_changed: Callable[[BackgroundCommand], object] = lambda _: None  # hears of commands in the background
    source: str = "startup"  # why the session begins, as `SessionStart` hooks are told


class SessionInfo(Bundle):
    """What `init` says of a session."""

    session_id: str
    cwd: str
    model: Model
    tools: tuple[str, ...] = ()
    later: Callable[[], tuple[str, ...]] = tuple  # tools that came since, of MCP servers
    servers: Callable[[], list[dict[str, str]]] = list  # and these, with their states
    agents: tuple[str, ...] = ()  # the kinds of them
    commands: tuple[str, ...] = ("compact",)  # that we understand ourselves
    skills: Callable[[], tuple[str, ...]] = tuple  # by name; asked for only by those who show them
    words: Callable[[], tuple[str, ...]] = tuple  # with a slash, that are prompts of MCP servers
    mode: str = "default"
    output_style: str = "default"  # that is in force
    output_styles: Callable[[], tuple[str, ...]] = tuple  # by name; asked for only by those who show them
    used: tuple[tuple[str, Usage], ...] = ()  # by each model, before this process took the session up
    key_source: str = "none"
    betas: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # flags that were given, and are not honoured yet
    sandbox: Callable[[], str] = str  # its level, in words; asked for only by those who show it
    max_retries: int = 9  # of a request to the model (G-18)
    spent: int = 0  # nano-dollars, before this process took the session up


class SessionCleanup:
    """Removes sessions that are older than the settings want to keep them, in the home that the settings are of."""

    PATIENCE = 0.5  # seconds: a short one is finished at the end, what is left of a long one comes next time

    def __init__(self, config: ResolvedConfig, opened: OpenedSession) -> None:
        self._days, self._keep = config.settings.cleanup_days, opened.session_id
        self._home = home_folder(config.environment) if self._days is not None else None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._days is not None and self._home is not None:
            from mainspring.sessions.retention import start_cleanup

            self._thread = start_cleanup(self._home, self._days, now=time.time(), keep=self._keep)

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self.PATIENCE)


class SessionParts(Bundle):
    config: ResolvedConfig
    session: EngineSession
    about: SessionInfo
    hands: Toolset
    prompts: PromptHooks
    skill: Callable[[str, str], str]  # the text of one, or of a command, by its name; raises `ToolError`
    agents: SessionSubagents
    lost_agents: tuple[AgentRecord, ...]  # that were at work when the program ended
    servers: SessionMcpServers | NoMcpServers  # of MCP
    waits_for_servers: bool  # before the first prompt; else the first turn does
    around: ContextSources
    kinds: Mapping[str, AgentType]  # of agents; empty: ours alone
    kit: BuiltinTools
    mind: ModelContext
    system: Callable[[], tuple[str, ...]]  # the system prompt, as it is now
    cleanup: SessionCleanup
    rewinding: FileCheckpoints | None = None  # None: nobody wants to go back

    async def open(self) -> None:
        """What takes the event loop, before the first prompt."""
        self.cleanup.start()
        await self.config.sandboxing.open()
        await self.servers.open(wait=self.waits_for_servers)
        await self.agents.tell_of_lost(self.lost_agents)

    async def close(self, reason: str = "other") -> None:
        """`reason`: as `SessionEnd` hooks are told."""
        await self.agents.close()
        await self.prompts.ended(reason)
        await self.mind.close()
        await self.hands.hooks.close()
        await self.servers.close()
        await self.kit.close()
        await self.config.sandboxing.close()
        await self.config.model.close()
        self.config.holder.release()
        await self.cleanup.close()

    async def rewind(self, user_message_id: str) -> dict[str, Any]:
        """Every file that our tools have changed since that prompt is what it was when it came (stream-json 4). Raises
        `UsageError`, in words for the driving program."""
        if self.rewinding is None:
            raise UsageError(
                f"File checkpointing is not enabled: start the session with 'enable_file_checkpointing' ({CHECKPOINTS}"
                "=true), and where it can be stored"
            )
        return await self.rewinding.rewind(user_message_id)

    @property
    def mcp(self) -> McpServers | None:
        """None: nobody named any."""
        return get_mcp_servers(self.servers)

    async def stop(self, task: str) -> None:
        """An agent or a command in the background, if it still works."""
        await self.agents.stop(task)
        await self.kit.stop(task)

    async def settle(self) -> None:
        """Before a turn is announced: tools of servers that have come meanwhile."""
        await self.servers.settle()

    def run(self, said: str, heard: tuple[User, ...], *, deltas: bool = True) -> Run:
        """What was said may be a wish to the loop itself."""
        session = self.session
        self.agents.begin(session.config.max_turns)
        if (words := parse_compact_command(said)) is not None:
            return session.compact(words)
        tokens = parse_token_budget(said)
        config = replace(session.config, token_budget=tokens) if tokens is not None else session.config
        return session.run(heard, config=config, deltas=deltas)

    @property
    def has_more(self) -> bool:
        """Agents in the background still work, or have reported: the conversation goes on by itself."""
        waits = self.agents.away or self.session.shared.inbox.waiting()
        return bool(waits) and self.agents.turns_left > 0

    async def wait_for_more(self) -> None:
        if not self.session.shared.inbox.waiting():
            await self.agents.next_report()

    def go_on(self, *, deltas: bool = True, anew: bool = False) -> Run:
        """With what waits. `anew`: somebody has spoken, and turns are counted from here."""
        if anew:
            self.agents.begin(self.session.config.max_turns)
        config = replace(self.session.config, max_turns=self.agents.turns_left)
        return self.session.run(config=config, deltas=deltas)


def get_mcp_servers(servers: SessionMcpServers | NoMcpServers) -> McpServers | None:
    """None: nobody named any."""
    return getattr(servers, "servers", None)
