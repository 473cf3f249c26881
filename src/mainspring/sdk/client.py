"""`Client`, a conversation within your program, and `query()`, for one prompt or a stream of prompts.

    async with Client(Options(allowed_tools=["Read", "Grep"])) as client:
        await client.query("What does this project do?")
        async for message in client.receive_response():
            print(message)

    async for message in query(prompt="What is 2 + 2?"):
        print(message)

Both drive the agent session that every front end drives (`agent/session.py`). They call the hooks, permission callbacks
and tools of the program directly, and leave the process alone: no signal handlers, no change of the working directory,
no printing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from mainspring import sdk
from mainspring.agent.option_checks import shorten_repr
from mainspring.agent.options import StartError
from mainspring.core.errors import CallerMistakes, UsageError
from mainspring.engine.tasks import await_uncancellable, end_all
from mainspring.sdk.errors import CLIConnectionError, NotStartedError, ResultError, result_error
from mainspring.sdk.from_frames import message_of
from mainspring.sdk.host import own_copy
from mainspring.sdk.mcp_server import SdkMcpServers
from mainspring.sdk.messages import Message, ResultMessage
from mainspring.sdk.option_mapping import make_listener
from mainspring.sdk.options import Options, check_options
from mainspring.sdk.permissions import PermissionMode
from mainspring.sdk.session import OVER, ConnectedSession, Frame
from mainspring.stream_json.incoming import BadLineError, WirePrompt, parse_prompt_frame

if TYPE_CHECKING:
    from mainspring.sdk.reference_types import Transport
    from mainspring.sdk.store_sync import RestoredSession
    from mainspring.sdk.typed_dicts import ContextUsageResponse, McpServerStatus, McpStatusResponse

NOT_CONNECTED = "the client is not connected: use 'await client.connect()', or 'async with Client(...) as client'"
NO_TRANSPORT = "'transport' is not supported, because sessions run in this process: leave it out"
NO_ASYNCIO = "mainspring needs asyncio: start your program with 'asyncio.run(...)'. trio is not supported"
Prompts = str | AsyncIterable[Frame]
Delivery = Literal["next_run", "steer"]


class Client:
    """A conversation, with the API of `ClaudeSDKClient`.

    Example:
        async with Client(Options(setting_sources=[])) as client:
            await client.query("What is 2 + 3?")
            async for message in client.receive_response():
                print(message)
    """

    def __init__(self, options: Options | None = None, transport: Transport | None = None) -> None:
        if transport is not None:
            raise UsageError(NO_TRANSPORT)
        self.options = options if options is not None else Options()
        self._session: ConnectedSession | None = None
        self._ending: asyncio.Task[None] | None = None
        self._feeding: set[asyncio.Task[None]] = set()
        self._about: Frame = {}
        self._failed: BaseException | None = None  # the error of the program's own prompt stream
        self._refusal: ResultError | None = None  # the error that the last result stands for
        self._servers = SdkMcpServers({})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading = False
        self._restored: RestoredSession | None = None

    # --- life cycle ---

    async def connect(self, prompt: Prompts | None = None, *, last: bool = False) -> None:
        """`last`: no more prompts will follow. Raises `UsageError` for invalid options."""
        loop = running_loop()
        if self._ending is not None:
            await await_uncancellable(self._ending)
        if self._session is not None:
            raise CLIConnectionError("this client is already connected: call 'await client.disconnect()' first")
        self._failed = self._refusal = None
        self._loop = loop
        if prompt is not None or last:
            check_prompt(prompt)
        try:
            check_options(self.options)
        except UsageError as error:
            raise not_started(error) from None
        self._servers = SdkMcpServers(self.options.mcp_servers)
        if self.options.session_store is not None:
            self._restored = await sdk.restore_from_store(self.options)
        try:
            with CallerMistakes():
                await self._begin(describe=not last)  # `query` asks for no description
            if prompt is not None and self._session is not None and not self._session.over:  # else the reader gets it
                await self.query(prompt, last=last)
        except BaseException:
            await self.disconnect()
            raise

    async def _begin(self, *, describe: bool) -> None:
        given = self._restored.options if self._restored is not None else self.options
        home = self._restored.folder if self._restored is not None else None
        try:
            self._session = ConnectedSession(given, self._servers, home)
        except (StartError, UsageError) as error:
            raise not_started(error) from None
        try:
            self._about = await self._session.start(describe=describe)
        except (StartError, UsageError) as error:
            raise self._told(error) from None
        except CLIConnectionError:
            if not self._session.messages.ready:  # otherwise its last message says why
                await self._over()
                raise

    async def disconnect(self) -> None:
        """Interrupt the current turn, end everything it started, store the session. A caller that is cancelled
        meanwhile still waits for that, and so does a second caller.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await await_uncancellable(self._ending)

    async def _end(self) -> None:
        session, self._session = self._session, None
        try:
            await end_all(self._feeding)
            if session is not None:
                await session.stop()
            await self._servers.close()
        finally:
            if self._restored is not None:
                self._restored.remove()
            self._restored, self._ending = None, None

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    @property
    def _connected(self) -> ConnectedSession:
        if self._session is None:
            raise CLIConnectionError(NOT_CONNECTED)
        if asyncio.get_running_loop() is not self._loop:
            raise CLIConnectionError("this client was connected in another event loop: use it there")
        return self._session

    # --- the conversation ---

    async def query(self, prompt: Prompts, session_id: str = "default", *, last: bool = False) -> None:  # noqa: ARG002  # a client that starts a program has it
        """Send a prompt: a text, or an async iterable of messages. Each is a turn of its own."""
        session = self._connected
        if session.over:
            raise CLIConnectionError(OVER)
        check_prompt(prompt)
        if isinstance(prompt, str):
            await session.submit(self._prompt({"message": {"role": "user", "content": prompt}}))
            if last:
                session.finish()
            return
        task = asyncio.ensure_future(self._feed(prompt, session, last=last))
        self._feeding.add(task)
        task.add_done_callback(self._feeding.discard)

    async def _feed(self, prompts: AsyncIterable[Frame], session: ConnectedSession, *, last: bool) -> None:
        try:
            async for one in prompts:
                await session.submit(self._prompt(one))
                await asyncio.sleep(0)  # an iterable that never waits must not block the event loop
        except Exception as error:  # noqa: BLE001  # the reader gets it, after the messages of the earlier prompts
            self._failed = error
        finally:
            if last or self._failed is not None:
                session.finish()

    def _prompt(self, said: Frame) -> WirePrompt:
        if not isinstance(cast("object", said), Mapping):
            raise UsageError(
                f"the prompt stream yielded {shorten_repr(said)}: yield dicts, as in "
                "{'type': 'user', 'message': {'role': 'user', 'content': 'hello'}}, or pass one string as 'prompt'"
            )
        composed = {"client_composed": True} if self.options.verbatim_prompts else {}
        try:
            return parse_prompt_frame({**said, **composed})
        except BadLineError as error:
            raise UsageError(str(error)) from None

    async def submit(self, prompt: str | Frame, *, delivery: Delivery = "next_run") -> str:
        """Send one prompt, a text or a message, and return its id for `withdraw`. With `delivery="steer"` it joins the
        current turn with the next request to the model; it is stored before this returns. Without a current turn, or if
        the prompt needs expansion or has images, it gets a turn of its own. A `SystemMessage` with the subtype
        `mainspring_prompt` says which.
        """
        session = self._connected
        if session.over:
            raise CLIConnectionError(OVER)
        frame = {"message": {"role": "user", "content": prompt}} if isinstance(prompt, str) else prompt
        return await session.submit(self._prompt({**frame, "delivery": delivery}))

    async def withdraw(self, prompt_id: str) -> bool:
        """Take a prompt back. False: it is on its way to the model, was sent, or is unknown."""
        return await self._connected.request(self._connected.session.withdraw(prompt_id)) is not None

    async def receive_messages(self) -> AsyncIterator[Message]:
        """All messages until the session ends."""
        while (frame := await self._next()) is not None:
            if (message := self._read(frame)) is not None:
                yield message
        await self._over()

    async def receive_response(self) -> AsyncIterator[Message]:
        """Messages up to the end of the turn: the last one is a `ResultMessage`."""
        while (frame := await self._next()) is not None:
            if (message := self._read(frame)) is not None:
                yield message
                if isinstance(message, ResultMessage):
                    return
        await self._over()

    async def _next(self) -> Frame | None:
        """The next message; None at the end."""
        messages = self._connected.messages
        if self._reading:
            raise UsageError("another task is already reading this session: read in one task and pass the messages on")
        self._reading = True
        try:
            return await anext(messages, None)
        finally:
            self._reading = False

    def _read(self, frame: Frame) -> Message | None:
        message = message_of(frame)
        if isinstance(message, ResultMessage):
            self._refusal = result_error(message) if message.is_error else None
        return message

    async def _over(self) -> None:
        """Raise the reason if the session ended with an error."""
        session = self._session
        if session is None:
            return
        await session.wait()
        match session.error or self._failed:
            case None:
                return
            case StartError() | UsageError() as error if not session.started:
                raise self._told(error) from None
            case error:
                raise error

    def _told(self, error: Exception) -> Exception:
        """Send the reason why the session did not start to `stderr` as well: a command would print it."""
        if self.options.stderr is not None:
            make_listener(self.options.stderr)(str(error))
        return self._refusal or not_started(error)

    # --- requests, possible at any time ---

    async def interrupt(self) -> None:
        """End the current turn soon, with a result that says so."""
        self._connected.interrupt()

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await self._connected.request(self._connected.set_mode(mode))

    async def set_model(self, model: str | None = None) -> None:
        await self._connected.request(self._connected.session.set_model(model))

    async def rewind_files(self, user_message_id: str) -> None:
        """Restore files to their state when this prompt was submitted; needs `enable_file_checkpointing`."""
        await self._connected.request(self._connected.session.rewind_files(user_message_id))

    async def reconnect_mcp_server(self, server_name: str) -> None:
        await self._connected.request(self._connected.session.reconnect_mcp(server_name))

    async def toggle_mcp_server(self, server_name: str, enabled: bool) -> None:  # the name in claude-agent-sdk
        await self._connected.request(self._connected.session.enable_mcp(server_name, enabled=enabled))

    async def stop_task(self, task_id: str) -> None:
        await self._connected.request(self._connected.session.stop_task(task_id))

    async def get_mcp_status(self) -> McpStatusResponse:
        """MCP servers with their status and tools."""
        return {"mcpServers": cast("list[McpServerStatus]", own_copy(self._connected.session.mcp_status()))}

    async def get_context_usage(self) -> ContextUsageResponse:
        """What fills the context window, by category."""
        return cast("ContextUsageResponse", own_copy(self._connected.session.context_usage()))

    async def get_server_info(self) -> Mapping[str, Any] | None:
        """Commands, agents, models: the session's description of itself when it began."""
        _ = self._connected
        return self._about


ClaudeSDKClient = Client


def running_loop() -> asyncio.AbstractEventLoop:
    """Raises `NotStartedError` under another event loop, such as trio's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise not_started(UsageError(NO_ASYNCIO)) from None


def not_started(error: Exception) -> NotStartedError:
    return NotStartedError(str(error), 1)


def check_prompt(prompt: object) -> None:
    if not isinstance(prompt, str) and not hasattr(prompt, "__aiter__"):
        raise UsageError(f"'prompt' must be a string, or messages to iterate with 'async for', not {prompt!r}")


async def query(
    prompt: Prompts, *, options: Options | None = None, transport: Transport | None = None
) -> AsyncGenerator[Message, None]:
    """All messages to the end of the session. If its last result is an error, `ResultError` is raised after it.

    Leaving the iteration early ends the session: at once with `contextlib.aclosing`, otherwise when Python closes the
    generator.

    Example:
        async for message in query(prompt="What is 2 + 3?", options=Options(setting_sources=[])):
            print(message)
    """
    client, last = Client(options, transport), None
    running_loop()
    try:
        with CallerMistakes():
            await client.connect(prompt, last=True)
        async for message in client.receive_messages():
            if isinstance(message, ResultMessage):
                last = message
            yield message
    finally:
        await client.disconnect()
    if last is not None and last.is_error:
        raise result_error(last)
