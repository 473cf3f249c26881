"""The stream-json server: reads prompts and requests, drives one agent session, and sends frames.

Each prompt is a run of its own, in the order of arrival (stream-json 7 rule 5; the protocol calls a run a turn). One
with `"delivery": "steer"` joins the current run with its next request, if it can.
Requests are answered at any time. The end of input does not stop the session: it finishes everything it received.

The transport is elsewhere: `cli/stream_json.py` reads and writes lines of JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.agent.config import ResolvedConfig
from mainspring.agent.open_session import open_session
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.resume import OpenedSession, ResumeError, open_journal
from mainspring.agent.session import AgentSession
from mainspring.agent.session_parts import STDIO
from mainspring.agent.updates import AnyUpdate, SessionUpdate
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.session_deps import new_id
from mainspring.engine.tasks import end_all, run_to_completion
from mainspring.stream_json.control import answer_control_request
from mainspring.stream_json.host import OutgoingRequests, StreamJsonHost, read_hooks
from mainspring.stream_json.incoming import BadLineError, ControlReply, ControlRequest, Incoming
from mainspring.stream_json.outgoing import FrameSink, TranscriptMirror
from mainspring.stream_json.render import Renderer, states_in
from mainspring.stream_json.task_frames import never_begun
from mainspring.text import as_list

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mainspring.messages_api import Object


EVERY = 0.1  # seconds: how often the session's lines are mirrored, if the client asks for it


def do_nothing() -> None:
    pass


class ServerProcess(Bundle):
    """What the process provides for a session."""

    prepare: Callable[[SessionOptions], ResolvedConfig]
    heard: Callable[[], AsyncGenerator[Incoming, None]]  # the parsed input; raises `BadLineError`
    out: FrameSink  # where frames go
    begun: Callable[[], object] = do_nothing  # called when everything is loaded
    left: Callable[[], object] = do_nothing  # called when a conversation has ended and its memory can be freed


class StreamJsonServer:
    session: AgentSession  # from the first line on
    renderer: Renderer

    def __init__(self, options: SessionOptions, process: ServerProcess) -> None:
        """Raises `StartError` for wrong options, before anything waits or costs money."""
        self.parts, self._process = process.prepare(options), process
        self.out = process.out
        self.first: Incoming | None = None
        self.questions = OutgoingRequests(self.out, new_id)
        self._news = asyncio.Event()  # `stop` was called, perhaps before there is a session
        self._stopping = False
        self._failed = False  # the last run
        self._early: list[Object] = []  # frames to send before the next ones
        self.wrong: Exception | None = None  # the input cannot be parsed, or our code failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._mirror = TranscriptMirror() if self.parts.options.session_mirror else None

    # --- from the first line to the last ---

    async def serve(self) -> int:
        """Returns the exit code. Raises `ResumeError`, after sending it as a result."""
        opened = await self._opened_or_told()
        said = self._process.heard()
        self.first = await self._first(said)
        if self.first is None:
            opened.close()
            self._complain()
            return 1 if self.wrong is not None else 0
        try:
            self._begin(self.first, opened)
        except BaseException:
            opened.close()
            raise
        return await self._serve(self.first, said)

    async def _serve(self, first: Incoming, said: AsyncGenerator[Incoming, None]) -> int:
        listening = asyncio.create_task(self._listen(said))
        if self._mirror is not None:
            self._keep(self._repeat(self._mirror))
        try:
            await self.session.start()
            await self._take(first)
            async for update in self.session.updates():
                for one in await self.renderer.read_on(update):
                    await self._show(one)
        finally:
            await run_to_completion(self._close(listening))
            self._complain()
        return 1 if self.wrong is not None or self._failed else 0

    def _complain(self) -> None:
        if self.wrong is not None:
            self.parts.options.tell(str(self.wrong))

    async def _first(self, said: AsyncGenerator[Incoming, None]) -> Incoming | None:
        """Waits for the first line, which configures the session: it may contain hooks and agents."""
        waiting = asyncio.ensure_future(self._next(said))
        while not waiting.done() and not self._stopping:
            woken = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({waiting, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
            return None
        return waiting.result()

    async def _next(self, said: AsyncGenerator[Incoming, None]) -> Incoming | None:
        try:
            return await anext(said, None)
        except BadLineError as error:
            self.wrong = error
            return None

    def _begin(self, first: Incoming, opened: OpenedSession) -> None:
        if isinstance(first, ControlRequest) and first.subtype == "initialize":
            if first.fields.get("agents") and self.parts.settings.no_sideloading:
                raise StartError("'agents' is disabled by 'disableSideloadFlags': remove it")
            self.parts = replace(self.parts, options=apply_initialize_fields(self.parts.options, first.fields))
        options = self.parts.options
        host = StreamJsonHost(
            self.questions, approves=options.permission_prompt_tool_name == STDIO, interrupt=self._interrupt_soon
        )
        self.session = open_session(
            self.parts,
            host,
            opened=opened,
            mirror=self._mirror.add if self._mirror is not None else None,
            released=self._process.left,
        )
        self._process.begun()
        self.renderer = Renderer(self.session, notices=True, states=states_in(self.parts.environment))
        if options.include_hook_events:
            self.session.watch_hooks()

    def _interrupt_soon(self) -> None:
        """After the current answer has been processed."""
        asyncio.get_running_loop().call_soon(self.session.interrupt)

    async def _opened_or_told(self) -> OpenedSession:
        try:
            return open_journal(self.parts, self._mirror.add if self._mirror is not None else None)
        except ResumeError as error:
            await self.out.put(never_begun(str(error), self.parts.options.resume or ""))
            raise

    def kill(self) -> None:
        """Kills all child processes at once."""
        if hasattr(self, "session"):
            self.session.kill()

    # --- output ---

    async def _show(self, update: AnyUpdate) -> None:
        frames = self.renderer.render(update)
        early, self._early = self._early, []
        if any(frame["type"] == "result" for frame in frames):
            self._failed = any(frame.get("is_error") is True for frame in frames)
            await self.out.put(*early)
            await self._repeated()
            await self.out.put(*frames)
        else:
            await self.out.put(*early, *frames)
        if not isinstance(update, SessionUpdate):
            await self.out.room()

    async def _repeat(self, mirror: TranscriptMirror) -> None:
        """Mirrors the session's lines now and then; before a result, `_repeated` does it."""
        while True:
            await asyncio.sleep(EVERY)
            await self.out.raw(mirror.frames())

    async def _repeated(self) -> None:
        if self._mirror is not None:
            await self.out.raw(self._mirror.frames())

    async def _close(self, listening: asyncio.Task[None]) -> None:
        await end_all([listening, *self._tasks])
        try:
            await self.session.close()
        finally:
            await self._repeated()

    # --- input ---

    async def _listen(self, said: AsyncGenerator[Incoming, None]) -> None:
        while (one := await self._next(said)) is not None:
            try:
                await self._take(one)
            except OSError as error:  # the journal failed (law 3)
                self.wrong = error
                break
        self.questions.shut()
        if self.wrong is not None:
            self.stop()
        self.session.finish()

    async def _take(self, one: Incoming) -> None:
        match one:
            case Prompt():
                await self._submit(one)
            case ControlRequest():
                self._keep(self._respond(one, self.session.interrupt_target()))
            case ControlReply():
                self.questions.hear(one)

    async def _submit(self, prompt: Prompt) -> None:
        if prompt.delivery == "steer":
            try:
                await self.session.submit(prompt)
                return
            except UsageError:  # too many prompts wait for this run
                pass
        self.session.enqueue(prompt)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._answered)
        return task

    async def _respond(self, request: ControlRequest, target: int | None) -> None:
        """Requests that arrived before the end of input are answered before the session ends."""
        with self.session.in_use():
            await answer_control_request(self, request, target)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.wrong = error if isinstance(error, Exception) else None  # a bug of ours, or the client no longer reads
            self.stop()

    def stop(self) -> None:
        """Ends the session in order: after a signal, or after input that cannot be parsed."""
        self._stopping = True
        self._news.set()
        if not hasattr(self, "session"):
            return
        if self.session.state != "idle" and self.wrong is None:
            leaves = self.renderer.frames.system("worker_shutting_down", {"reason": "signal"})
            self._early.append(leaves)
        self.session.abandon()


def apply_initialize_fields(options: SessionOptions, fields: dict[str, Any]) -> SessionOptions:
    """The options with the fields of an `initialize` request."""
    said: dict[str, object] = {}
    if fields.get("agents"):
        said["agents"] = fields["agents"]
    if fields.get("hooks"):
        said["host_hooks"] = read_hooks(fields["hooks"])
    if (skills := fields.get("skills")) is not None:
        said["skills"] = tuple(map(str, as_list(skills)))
    if fields.get("excludeDynamicSections") is True:
        said["exclude_dynamic_sections"] = True
    if fields.get("forwardSubagentText") is True:
        said["forward_subagent_text"] = True
    if fields.get("promptSuggestions") is True:
        said["prompt_suggestions"] = True
    return options.replace(**said)
