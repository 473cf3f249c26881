"""Command hooks: the payload as JSON on standard input, an exit code and JSON back (stream-json 10).

0: the output counts, as JSON, or at a prompt or a session start as text for the model. 2: block, with standard error
as the reason. Any other code is a failure of the hook. But 126 and 127 mean that it could not be started, and a hook
that a signal ended has not answered: a guard then denies.

A command whose first line is `{"async": true}` goes on in the background.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

import msgspec

from mainspring.core.errors import UsageError
from mainspring.hooks.events import CAN_BLOCK, GUARDS, NOTHING, HookPoint, HookResult
from mainspring.hooks.invocation import AsyncHookAnswer, HookCallError, HookOutput, cancel_and_wait
from mainspring.hooks.results import LONGEST_TEXT, HookAnswerError, blocking_result, opinion_in
from mainspring.hooks.runner import SECONDS, Hook
from mainspring.processes.child import ProcessLimits, ProcessSpec, SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.processes.environment import find_program
from mainspring.processes.output import OutputSizes, ProcessOutput
from mainspring.processes.process_tree import first_words, new_mark

NO, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127
KILLED = range(129, 193)  # the exit code that a shell returns for a command that a signal ended: 128 and its number
MOST_SHOWN = 2_000  # characters of standard error that are shown
MOST_PRINTED = 1_000_000  # bytes of an answer
NO_SANDBOX = ("bwrap: ", "mainspring-landlock: ")  # prefixes of messages from the sandbox itself
LONGEST_NAME = 80  # characters of a command in its name

# Plain text that these print is for the model.
TEXT_IS_CONTEXT = frozenset({HookPoint.USER_PROMPT_SUBMIT, HookPoint.SESSION_START})


class HookShell:
    """The environment that all command hooks of a session share."""

    def __init__(self, children: Children, env: Mapping[str, str], *, cwd: str, outside: tuple[str, ...] = ()) -> None:
        """`env` is the whole environment of hooks, besides the project folder. `outside`: shells there are not used."""
        self._children = children
        self._env = {**env, "CLAUDE_PROJECT_DIR": cwd}
        self._cwd = cwd
        self._outside = outside

    def hook(self, point: HookPoint, matcher: str | None, entry: Mapping[str, object]) -> Hook:
        """From an entry of the settings, whose shape was checked when it was read."""
        command = str(entry["command"])

        async def ask(facts: dict[str, Any]) -> HookOutput | AsyncHookAnswer:
            return await self._ask(command, point, facts)

        return make_command_hook(point, matcher, entry, ask, command)

    async def _ask(self, command: str, point: HookPoint, facts: dict[str, Any]) -> HookOutput | AsyncHookAnswer:
        early = AsyncMarkerListener()
        job = self.job(command, facts)._replace(on_output=early)
        running = asyncio.ensure_future(self._children.run(job))
        both: set[asyncio.Future[Any]] = {running, early.heard}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # it timed out, or the run is over
            await cancel_and_wait(running)
            raise
        if not running.done():
            return AsyncHookAnswer(running, early.heard.result(), partial(read_hook_output, point=point))
        try:
            ended = running.result()
        except (OSError, ValueError, UsageError) as error:  # no such folder, too long, a NUL, no sandbox
            raise HookCallError(f"cannot be started: {error}") from None
        return read_hook_output(ended, point)

    def job(self, command: str, facts: dict[str, Any]) -> ProcessSpec:
        """Raises `HookCallError` where there is no shell."""
        path, mark = self._env.get("PATH", ""), new_mark()
        sizes = ProcessLimits(output=OutputSizes(head=MOST_PRINTED))
        given = encode_payload(facts)
        bash = find_program("bash", path=path, outside=self._outside)
        shell = bash or find_program("sh", path=path, outside=self._outside)
        if shell is None:
            raise HookCallError("cannot be started: neither 'bash' nor 'sh' was found outside the working folders")
        script = f"{first_words(mark)}{command}" if bash else command  # other shells lack this
        return ProcessSpec(
            (shell, "-c", script), self._cwd, self._env, sizes, given, mark=mark, walls=SandboxAccess.OWN
        )


def make_command_hook(point: HookPoint, matcher: str | None, entry: Mapping[str, object], ask: Any, name: str) -> Hook:
    seconds = entry.get("timeout")
    return Hook(
        point,
        ask,
        matcher,
        float(seconds) if isinstance(seconds, int | float) else SECONDS,
        name=name[:LONGEST_NAME],
        blocks=entry.get("onFailure") == "block",
        aside=entry.get("async") is True,
    )


def make_failing_hook(
    point: HookPoint, matcher: str | None, entry: Mapping[str, object], why: str, name: str
) -> Hook | None:
    """For an entry that cannot run. At a guard's event it is a guard that cannot start."""

    async def ask(_: dict[str, Any]) -> NoReturn:
        raise HookCallError(f"cannot be started: {why}")

    hook = make_command_hook(point, matcher, entry, ask, name)
    return hook if point in GUARDS or hook.blocks else None


def encode_payload(facts: dict[str, Any]) -> bytes:
    """A lone surrogate in an input must not get it past a guard: `json` can encode it, if not the fast encoder."""
    try:
        try:
            return msgspec.json.encode(facts) + b"\n"
        except UnicodeEncodeError:
            return json.dumps(facts).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise HookCallError(f"cannot receive its payload: {error}") from None


class AsyncMarkerListener:
    """Watches for a first line that lets us go on without the rest."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[float] = asyncio.get_running_loop().create_future()  # seconds for the rest
        self._line = b""
        self._over = False

    def __call__(self, data: bytes) -> None:
        if self._over:
            return
        self._line += data
        line, end, _ = self._line.partition(b"\n")
        self._over = bool(end) or not line.startswith(b"{") or len(line) > MOST_SHOWN
        if end and not self.heard.done():
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            said = msgspec.json.decode(line, type=_Async)
        except (msgspec.MsgspecError, RecursionError):
            return
        if said.go_on:
            self.heard.set_result(said.milliseconds / 1_000)


class _Async(msgspec.Struct):
    go_on: bool = msgspec.field(default=False, name="async")
    milliseconds: float = msgspec.field(default=SECONDS * 1_000, name="asyncTimeout")


# --- the answer ---------------------------------------------------------------------------------------------------


def read_hook_output(ended: ProcessResult, point: HookPoint) -> HookOutput:
    return HookOutput(
        output_to_text(ended.stdout), output_to_text(ended.stderr), ended.code, partial(parse_hook_result, ended, point)
    )


def parse_hook_result(ended: ProcessResult, point: HookPoint) -> HookResult:
    told = output_to_text(ended.stderr)[:MOST_SHOWN]
    because = f": {told}" if told else ""
    if ended.code == NO and (point in GUARDS or point in CAN_BLOCK):
        return blocking_result(point, told or "A hook blocked this without a reason.")
    if ended.code in (NOT_EXECUTABLE, NOT_FOUND) or (ended.code and told.startswith(NO_SANDBOX)):
        raise HookCallError(f"cannot be started: {told or f'exit code {ended.code}'}")
    if ended.code < 0 or ended.code in KILLED:
        raise HookCallError(f"was ended by signal {-ended.code if ended.code < 0 else ended.code - 128}{because}")
    if ended.code != 0:
        raise HookAnswerError(f"ended with exit code {ended.code}{because}")
    return read_command_output(ended.stdout, point)


def read_command_output(stdout: ProcessOutput, point: HookPoint) -> HookResult:
    printed = stdout.data.strip()
    if printed.startswith(b"{"):
        if stdout.cut:
            raise HookAnswerError(f"printed {stdout.size:,} bytes; the limit is {MOST_PRINTED:,}")
        return opinion_in(printed, point)
    if printed and point in TEXT_IS_CONTEXT:
        return HookResult(context=(output_to_text(stdout)[:LONGEST_TEXT],))
    return NOTHING


def output_to_text(output: ProcessOutput) -> str:
    """Replaces NUL, which many readers of this text do not accept."""
    return output.text.strip().replace("\0", "\N{SYMBOL FOR NULL}")
