"""One connected session: an `AgentSession` in this program, its messages, and the requests of a client.

Messages wait until the program reads them, and the session waits with them (A-03). A task consumes the updates, because
programs expect work on a prompt to begin before they read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring import sdk
from mainspring.agent.config import HostSupplied, resolve_config
from mainspring.agent.open_session import open_session
from mainspring.agent.options import SessionOptions
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.resume import OpenedSession, ResumeError, open_journal
from mainspring.agent.session import AgentSession
from mainspring.agent.session_parts import STDIO
from mainspring.agent.updates import AnyUpdate, SessionUpdate
from mainspring.core.errors import MainspringError
from mainspring.engine.tasks import Channel, end_all, retrieve_exception, run_to_completion
from mainspring.sdk import hooks
from mainspring.sdk.errors import ClaudeSDKError, CLIConnectionError
from mainspring.sdk.host import ProgramHost, own_copy
from mainspring.sdk.mcp_server import SdkMcpServers
from mainspring.sdk.option_mapping import make_environment, own_tools, session_options
from mainspring.sdk.options import Options
from mainspring.settings.load import home_folder
from mainspring.stream_json.control import about_us
from mainspring.stream_json.render import Renderer, states_in
from mainspring.stream_json.task_frames import never_begun

if TYPE_CHECKING:
    from mainspring.sdk.store_sync import StoreMirror

Frame = dict[str, Any]
T = TypeVar("T")

OVER = "the session is over: connect again"


class ConnectedSession:
    def __init__(self, given: Options, servers: SdkMcpServers, sessions_home: str | None) -> None:
        """Raises `StartError` or `UsageError`. `sessions_home`: where a session from a store was restored."""
        callbacks: dict[str, hooks.HookCallback] = {}
        self._environment = make_environment(given)
        options = session_options(given, hooks.host_hooks(given.hooks or {}, callbacks), sessions_home)
        self._config = resolve_config(options, self._environment, HostSupplied(own_tools(given), given.provider))
        self.messages: Channel[Frame] = Channel()
        self._mirror = self._new_mirror(given, options)
        self._host = ProgramHost(
            given.can_use_tool,
            callbacks,
            servers,
            approves=options.permission_prompt_tool_name == STDIO,
            interrupt=self._interrupt_soon,
            deps=given.deps,
        )
        self._session: AgentSession | None = None
        self._serving: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[Any]] = set()
        self._started = asyncio.Event()
        self.started = self.over = False
        self.error: Exception | None = None  # the error that ended it

    def _new_mirror(self, given: Options, options: SessionOptions) -> StoreMirror | None:
        home = options.sessions_home or home_folder(self._environment)
        if given.session_store is None or home is None:
            return None
        return sdk.StoreMirror(given, f"{home}/projects", self.messages.push)

    # --- life cycle ---

    async def start(self, *, describe: bool = True) -> Frame:
        """The session's description of itself; empty if it could not be resumed: its only message says why. Raises the
        error that prevents the start. `describe`: without it, it is always empty, and nothing is loaded for it.
        """
        try:
            opened = open_journal(self._config, self._mirror.add if self._mirror is not None else None)
        except ResumeError as error:
            self.messages.push(never_begun(str(error), self._config.options.resume or ""))
            self.error = error
            self._end()
            return {}
        try:
            session = self._session = self._new_session(opened)
        except BaseException:
            opened.close()
            raise
        self._serving = asyncio.ensure_future(self._serve(session))
        await self._started.wait()
        if not self.started and self.error is not None:
            raise self.error
        return await self.request(self._about(session, describe=describe))

    def _new_session(self, opened: OpenedSession) -> AgentSession:
        mirror = self._mirror.add if self._mirror is not None else None
        session = open_session(self._config, self._host, opened=opened, mirror=mirror)
        self._renderer = Renderer(session, notices=True, states=states_in(self._config.environment))
        if self._config.options.include_hook_events:
            session.watch_hooks()
        return session

    async def _about(self, session: AgentSession, *, describe: bool) -> Frame:
        if (servers := session.world.mcp) is not None:
            await servers.ready(kind="sdk")  # only the program's servers; others may connect later
        return about_us(session.world, session.config, session.state) if describe else {}

    async def _serve(self, session: AgentSession) -> None:
        try:
            await session.start()
            self.started = True
            self._started.set()
            async for update in session.updates():
                for one in await self._renderer.read_on(update):
                    await self._show(one)
        except Exception as error:  # noqa: BLE001  # the reader gets it
            self.error = error
        finally:
            await run_to_completion(self._close(session))

    async def _close(self, session: AgentSession) -> None:
        try:
            await end_all(self._requests)
            await session.close()
        except Exception as error:  # noqa: BLE001  # the reader gets it
            self.error = self.error or error
        finally:
            if self._mirror is not None:
                await self._mirror.close()
            self._end()
            await self._host.close()

    def _end(self) -> None:
        self.over = True
        self.messages.close()
        self._started.set()

    async def wait(self) -> None:
        """Wait until the session has ended."""
        if self._serving is not None:
            await asyncio.wait({self._serving})

    async def stop(self) -> None:
        """Interrupt the run, drop queued prompts, end."""
        if self._session is not None:
            self._session.abandon()
        self.messages.leave()
        await self.wait()

    # --- messages ---

    async def _show(self, update: AnyUpdate) -> None:
        for frame in self._renderer.render(update):
            if frame["type"] == "result" and self._mirror is not None:
                await self._mirror.flush()
            self.messages.push(own_copy(frame))
        if not isinstance(update, SessionUpdate):
            await self.messages.room()

    async def submit(self, prompt: Prompt) -> str:
        """Returns the prompt's id."""
        session = self.session
        queued = await session.submit(prompt) if prompt.delivery == "steer" else session.enqueue(prompt)
        return queued.id

    def finish(self) -> None:
        """No more prompts."""
        if self._session is not None:
            self._session.finish()

    # --- requests ---

    @property
    def session(self) -> AgentSession:
        if self.over or self._session is None:
            raise CLIConnectionError(OVER)
        return self._session

    async def request(self, work: Coroutine[Any, Any, T]) -> T:
        """Call a method of the session; it completes even if the caller is cancelled. Raises `ClaudeSDKError`."""
        task = asyncio.ensure_future(self._in_use(work))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        task.add_done_callback(retrieve_exception)
        await asyncio.wait({task})
        if task.cancelled():
            raise CLIConnectionError(OVER)
        try:
            return task.result()
        except (MainspringError, OSError) as error:
            raise ClaudeSDKError(str(error)) from None

    async def _in_use(self, work: Coroutine[Any, Any, T]) -> T:
        with self.session.in_use():
            return await work

    def interrupt(self) -> None:
        """Interrupt the current run, or the one that is about to begin."""
        if (target := self.session.interrupt_target()) is not None:
            self.session.interrupt(target)

    def _interrupt_soon(self) -> None:
        """Interrupt after the denial has arrived."""
        if self._session is not None:
            asyncio.get_running_loop().call_soon(self._session.interrupt)

    async def set_mode(self, mode: str) -> None:
        chosen = await self.session.set_mode(mode)
        self.messages.push(own_copy(self._renderer.frames.status(chosen)))
