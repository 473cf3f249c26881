"""Print mode (`mainspring -p`): one prompt, one answer, one exit code. Standard error stays empty on success, unless
a tool call was denied: the answer may not say so.

The prompt is an argument, standard input, or both, with the argument first.

`StdoutWriter` writes whole lines at once without blocking the event loop: a write to a full pipe would stop the loop,
and with it the model's stream, the tools and their deadlines. It does not make the pipe non-blocking, because other
processes share that setting.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from mainspring import agent, cli, secrets
from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.open_session import open_session
from mainspring.agent.options import StartError
from mainspring.agent.prompt_expansion import Prompt, text_prompt
from mainspring.agent.resume import OpenedSession, ResumeError, open_journal
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, Notice, PromptAnswered, PromptBlocked, PromptExpanded, RunBroken
from mainspring.cli.flags import Arguments, show_argument
from mainspring.cli.main import freeze_garbage_collector
from mainspring.cli.signals import Signals, do_nothing
from mainspring.cli.stdio import safe_bytes
from mainspring.core.messages import Text, ToolCall
from mainspring.core.reasons import Cause, Failure
from mainspring.core.updates import AgentUpdate, CallDone, CallStarted, Failed, Result, Retrying
from mainspring.text import describe_wait, format_call_input, plural, strip_control_characters, truncate

if TYPE_CHECKING:

    class Printed(Protocol):
        failed: bool

        async def show(self, update: AnyUpdate) -> None: ...

        async def finish(self) -> None:
            """No more updates follow: print what is pending."""


MOST = 10_000_000  # bytes; far more than any model's window
WAIT = 3_000  # milliseconds to wait for the first byte, if an argument has the prompt

NO_PROMPT = "no prompt: give one as an argument, such as 'mainspring -p \"fix the failing test\"', or on standard input"


def read_piped_prompt(words: tuple[str, ...]) -> Prompt:
    """The prompt. With an argument, standard input is data."""
    if len(words) > 1:
        raise StartError(f"more than one prompt: put the prompt in quotes, '{words[0]} {words[1]} ...'")
    given = show_argument(words[0]) if words else ""
    piped = "" if os.isatty(0) else decode_stdin(read_stdin(0, wait=WAIT if given.strip() else None))
    if not given.strip():
        if not piped.strip():
            raise StartError(NO_PROMPT)
        return text_prompt(piped)
    return Prompt((Text(given),), data=f"\n\n{piped}" if piped.strip() else "")


def read_stdin(fd: int, wait: int | None) -> bytes:
    """All of it; nothing if no byte arrives within `wait` milliseconds: the parent process left a pipe open."""
    if wait is not None and not is_readable(fd, wait):
        seconds = wait // 1_000
        print(
            f"mainspring: no data on standard input within {seconds} s, continuing without it. "
            "Use '< /dev/null' to skip the wait.",
            file=sys.stderr,
        )
        return b""
    data = bytearray()
    while chunk := os.read(fd, 65_536):
        data += chunk
        if len(data) > MOST:
            raise StartError(f"standard input has more than {MOST:,} bytes: name the file in the prompt instead")
    return bytes(data)


def is_readable(fd: int, wait: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait))


def decode_stdin(data: bytes) -> str:
    """Invalid UTF-8 becomes U+FFFD. Binary data raises `StartError`: it would only cost money."""
    if b"\0" in data:
        raise StartError("standard input is not text (it contains NUL bytes): name the file in the prompt instead")
    return data.decode("utf-8-sig", "replace")


CHUNK = 4_096  # bytes that a ready pipe accepts without blocking (POSIX; PIPE_BUF on Linux)


class StdoutWriter:
    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Raises `BrokenPipeError` if the reader has closed the pipe."""
        left = memoryview(safe_bytes(self._fd, data))
        while left:
            if not self._poll.poll(0):
                await self._room()
            left = left[self._put(left[:CHUNK]) :]

    def _put(self, chunk: memoryview) -> int:
        try:
            return os.write(self._fd, chunk)
        except BlockingIOError:  # another process made it non-blocking
            return 0

    async def _room(self) -> None:
        """Waits until the pipe has room. Not called for a file: it is always ready, and epoll does not support it."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, wake_waiter, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)


def wake_waiter(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


# Causes that are not errors, but are worth a line on standard error.
WORTH_KNOWING: dict[Cause, str] = {
    Cause.REFUSAL: "the model declined to answer",
}

Write = Callable[[bytes], Awaitable[None]]


def run_print_mode(arguments: Arguments) -> int:
    with Signals() as signals:
        options = arguments.session
        if arguments.output_format != "stream-json":  # this output does not show them, and each is a paid request
            options = options.replace(tool_use_summaries=False, prompt_suggestions=False)
        config = resolve_config(options, dict(os.environ))
        signals.check()
        given = signals.heard_at_once(lambda: read_piped_prompt(arguments.words))  # later: at safe points only
        opened = opened_or_told(config, arguments.output_format)
        code = asyncio.run(drive_session(config, opened, given, arguments.output_format, signals))
    return signals.code or code


def opened_or_told(config: ResolvedConfig, output_format: str) -> OpenedSession:
    """Opens the session. If it cannot be resumed, readers of JSON also get a result frame (stream-json 1.6)."""
    try:
        return open_journal(config)
    except ResumeError as error:
        if output_format != "text":
            from mainspring.stream_json.outgoing import encode_line
            from mainspring.stream_json.task_frames import never_begun

            os.write(1, safe_bytes(1, encode_line(never_begun(str(error), config.options.resume or ""))))
        raise


async def drive_session(
    config: ResolvedConfig, opened: OpenedSession, given: Prompt, output_format: str, signals: Signals
) -> int:
    deltas = config.options.include_partial_messages
    session = open_session(config, opened=opened, deltas=deltas)
    signals.kill = session.kill
    freeze_garbage_collector()
    output = new_output(session, output_format, StdoutWriter().write)
    try:
        await session.start()
        await session.submit(given)
        session.finish()
        signals.during(signals.ending(asyncio.get_running_loop(), lambda: session.interrupt(hold_reports=True)))
        if signals.code:  # a signal arrived before there was anything to interrupt
            return signals.code
        async for update in session.updates():
            await output.show(update)
            if output.failed and isinstance(update, Result | PromptAnswered | RunBroken):
                break
        await output.finish()
    finally:
        signals.during(do_nothing)  # the loop ends soon
        await session.close()
    return 1 if output.failed else signals.code


# --- output -----------------------------------------------------------------------------------------


def new_output(session: AgentSession, output_format: str, write: Write) -> Printed:
    if output_format == "text":
        return TextOutput(session, write)
    return cli.make_json_output(session, output_format, write)


LONG_WAIT = 4_000  # milliseconds; reached from the fourth attempt on
MOST_NAMED, LONGEST_NAMED = 3, 100  # denied calls that are named, and characters of each


class TextOutput:
    """The answer alone (settled 33); errors go to standard error."""

    def __init__(self, session: AgentSession, write: Write) -> None:
        self._session, self._write = session, write
        self._failure: Failure | None = None
        self._answer = ""  # not printed yet
        self._calls: dict[str, ToolCall] = {}  # of this run, subagents' included
        self._denied: list[ToolCall] = []
        self.failed = False

    async def show(self, update: AnyUpdate) -> None:
        self._note_call(update.update if isinstance(update, AgentUpdate) else update)
        match update:
            case Failed():
                self._failure = update.failure
            case Retrying() if update.delay >= LONG_WAIT:  # shorter waits are not worth a line
                why = "still waiting" if update.beat else update.failure.detail or update.failure.kind
                print_complaint(f"{why}; retrying in {describe_wait(update.delay / 1_000, time.time())}")
            case Result():
                await self._end(update)
            case PromptBlocked():
                await self._put(update.reason)
            case PromptAnswered() if update.failed:
                self.failed = True
                print_complaint(update.text)
            case PromptAnswered():
                await self._put(update.text)
            case RunBroken():
                self.failed = True
                print_complaint(f"run failed: {update.error}")
            case PromptExpanded():
                for name in update.missing:
                    print_complaint(f"file '{name}' not found: '@{name}' is sent as text")
            case Notice():
                self._session.config.options.say(update.text)
            case _:
                pass

    def _note_call(self, update: object) -> None:
        if isinstance(update, CallStarted):
            self._calls[update.call.id] = update.call
        elif isinstance(update, CallDone):
            call = self._calls.pop(update.result.call_id, None)
            if call is not None and update.denied:
                self._denied.append(call)

    async def _end(self, result: Result) -> None:
        out = agent.make_outcome(result, self._failure)
        self.failed = out.is_error
        partial = out.is_error and result.cause is Cause.OUTPUT_LIMIT  # no more of the answer will follow
        self._answer = out.text or "" if partial or not out.is_error else ""
        if out.is_error or not self._session.has_more:
            await self.finish()
        if self._denied:
            print_complaint(describe_denied(self._denied))
        self._calls, self._denied = {}, []
        if out.is_error:
            print_complaint(out.words)
        elif result.cause in WORTH_KNOWING:
            print_complaint(WORTH_KNOWING[result.cause])

    async def finish(self) -> None:
        text, self._answer = self._answer, ""
        await self._put(text)

    async def _put(self, text: str) -> None:
        shown = strip_control_characters(text) if os.isatty(1) else text
        if shown:
            await self._write(shown.rstrip("\n").encode(errors="replace") + b"\n")


def describe_denied(calls: list[ToolCall]) -> str:
    """In one line: the answer may not mention them."""
    named = [" ".join(format_call_input(call.name, call.input).split()) for call in calls[:MOST_NAMED]]
    more = f"; and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
    was = "was" if len(calls) == 1 else "were"
    what = "; ".join([truncate(one, LONGEST_NAMED) for one in named])
    return (
        f"{plural(len(calls), 'tool call')} {was} denied: {what}{more}. "
        "To allow more, use '--allowedTools' or '--permission-mode'."
    )


def print_complaint(words: str) -> None:
    print(f"mainspring: {strip_control_characters(secrets.redact(words))}", file=sys.stderr, flush=True)
