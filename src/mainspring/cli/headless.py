"""`mainspring -p`: one prompt, one run, one exit code. Nothing on standard error if all goes well."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from mainspring.assembly.beginning import begun
from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import Options
from mainspring.assembly.parts import Parts, open_journal, prepare
from mainspring.assembly.said import stands_for
from mainspring.assembly.sessions import Opened, ResumeError
from mainspring.assembly.world import World
from mainspring.cli.collector import begun as loaded
from mainspring.cli.flags import readable
from mainspring.cli.signals import Signals, nothing
from mainspring.cli.stdin import prompt
from mainspring.cli.stdout import Pipe
from mainspring.cli.terminal_output import safe_bytes
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Text, User
from mainspring.core.reasons import Cause, Failure
from mainspring.core.updates import Failed, Result, Retrying, Update
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run

# Ends that are no errors, but that a reader of the bare answer should know of.
WORTH_KNOWING: dict[Cause, str] = {
    Cause.REFUSAL: "the model declined to answer",
}

Write = Callable[[bytes], Awaitable[None]]


def headless(options: Options) -> int:
    with Signals() as signals:
        parts = prepare(options, dict(os.environ))
        signals.check()
        text = signals.heard_at_once(lambda: prompt(options.words))  # and from then on where it is safe
        signals.kill = parts.kit.kill
        world = begun(parts, opened_or_told(parts))
        loaded()
        code = asyncio.run(drive(world, text, options, signals))
    return signals.code or code


def opened_or_told(parts: Parts) -> Opened:
    """A program that reads along hears of a session that cannot be taken up as a result, too (stream-json 1.6)."""
    try:
        return open_journal(parts)
    except ResumeError as error:
        if parts.options.output_format != "text":
            from mainspring.driven.asides import never_begun
            from mainspring.driven.lines import line

            os.write(1, safe_bytes(1, line(never_begun(str(error), parts.options.resume or ""))))
        raise


async def drive(world: World, text: str, options: Options, signals: Signals) -> int:
    try:
        return await answer(world, text, options, signals)
    finally:
        await world.close()


async def answer(world: World, text: str, options: Options, signals: Signals) -> int:
    deps = world.session.deps
    said = User((Text(text),), id=deps.new_id(), at=deps.now())
    await world.open()
    door = new_door(world, options, Pipe().write)
    deltas = options.include_partial_messages
    await door.open(said)
    wish = readable(options.words[0]) if options.words else text  # what is piped in beside an argument is data
    body = stands_for(wish, world)
    if body is not None:
        said, wish = replace(said, content=(Text(body + text.removeprefix(wish)),)), ""
    heard = await world.prompts.said(said, wish if body is None else body)
    if isinstance(heard, Blocked):
        await door.refused(heard.reason)
        return 0
    code = await followed(world.run(wish, heard, deltas=deltas), world, door, signals)
    while not code and world.has_more:
        from mainspring.cli.waiting import waited  # few have agents in the background

        if not await waited(world, signals):
            break
        code = await followed(world.go_on(deltas=deltas), world, door, signals)
    await door.leave()
    return code or signals.code


async def followed(run: Run, world: World, door: Door, signals: Signals) -> int:
    """To its end. The exit code, if nothing more comes."""
    async with run:
        signals.during(signals.ending(asyncio.get_running_loop(), run.interrupt))
        if signals.code:
            return signals.code  # it was heard before there was anything to interrupt
        try:
            async for update in run:
                if isinstance(update, Result):
                    world.agents.took(update.turns)
                await door.show(update)
        except BrokenPipeError:
            raise
        except (MainspringError, OSError) as error:  # the journal failed, or we did: nothing may go on (law 3)
            await door.broke_off(f"the run broke off: {error}")
            return 1
        finally:
            signals.during(nothing)  # the loop is about to end
    return 1 if door.failed else 0


# --- the doors ------------------------------------------------------------------------------------


class Door(Protocol):
    failed: bool

    async def open(self, said: User) -> None: ...

    async def show(self, update: Update) -> None: ...

    async def broke_off(self, why: str) -> None: ...

    async def refused(self, why: str) -> None: ...

    async def leave(self) -> None:
        """Nothing more comes: what was held back is told."""


def new_door(world: World, options: Options, write: Write) -> Door:
    if options.output_format == "text":
        return Bare(write, lambda: world.has_more)
    from mainspring.cli.framed import framed  # who asks for text does not pay for frames

    return framed(world, options, write)


LONG_WAIT = 4_000  # milliseconds; from the fourth try on


class Bare:
    """The answer alone (settled 33); what went wrong goes to standard error."""

    def __init__(self, write: Write, more: Callable[[], bool]) -> None:
        self._write = write
        self._more = more  # whether another answer will follow, which is then the one
        self._failure: Failure | None = None
        self._answer = ""  # not told yet
        self.failed = False

    async def open(self, said: User) -> None:
        pass

    async def show(self, update: Update) -> None:
        match update:
            case Failed():
                self._failure = update.failure
            case Retrying() if update.delay >= LONG_WAIT:  # shorter ones are nobody's concern
                why = update.failure.detail or update.failure.kind
                complain(f"{why}; trying again in {update.delay / 1_000:.0f} s")
            case Result():
                await self._end(update)
            case _:
                pass

    async def _end(self, result: Result) -> None:
        from mainspring.assembly.outcomes import outcome

        out = outcome(result, self._failure)
        self.failed = out.is_error
        partial = out.is_error and result.cause is Cause.OUTPUT_LIMIT  # it is all that there will be
        self._answer = out.text or "" if partial or not out.is_error else ""
        if out.is_error:
            await self.leave()
            complain(out.words)
            return
        if not self._more():
            await self.leave()
        if result.cause in WORTH_KNOWING:
            complain(WORTH_KNOWING[result.cause])

    async def broke_off(self, why: str) -> None:
        complain(why)

    async def refused(self, why: str) -> None:
        words = harmless(why) if os.isatty(1) else why
        await self._write(words.rstrip("\n").encode(errors="replace") + b"\n")

    async def leave(self) -> None:
        text, self._answer = harmless(self._answer) if os.isatty(1) else self._answer, ""
        if text:
            await self._write(text.rstrip("\n").encode(errors="replace") + b"\n")


def complain(words: str) -> None:
    from mainspring.secrets.redaction import redact

    print(f"mainspring: {harmless(redact(words))}", file=sys.stderr, flush=True)
