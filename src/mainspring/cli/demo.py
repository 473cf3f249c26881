"""`mainspring demo`: a project with a bug, a scripted model, real tools, and the smallest driver that `step` can have.

Nothing is recorded: the results are what the tools returned, and the tests are run before and after, outside the loop.
The driver will give way to the engine. The model's part is in `demo_script.py`, the printing in `demo_screen.py`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar, assert_never

from msgspec.structs import replace

from mainspring.cli.demo_screen import Screen
from mainspring.cli.demo_script import CONFIG, FILES, RUN_TESTS, SCRIPT, TASK, Line
from mainspring.cli.demo_tools import bash, run_tool
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, Request, RunStopHooks, RunTools
from mainspring.core.errors import ToolError
from mainspring.core.events import CallFailed, Compacted, ContextReady, Event, HooksDone, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Stop, ToolCall, ToolResult, user
from mainspring.core.reasons import Failure, Terminal
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.value import Stamp, Stamped
from mainspring.core.view import view

CHARS_PER_TOKEN = 3  # for code it is rather more, so that the estimate errs on the high side, as it should


def demo(*, keep: bool) -> int:
    """Returns the exit code: 0 only if the tests failed before, the loop completed, and the tests pass after."""
    screen = Screen(colour=wants_colour())
    with project(keep=keep) as folder:
        screen.opening(folder, keep=keep)
        before = tests_pass(folder)
        screen.prompt(TASK)
        terminal = drive(World(folder, iter(SCRIPT), screen))
        after = tests_pass(folder)
        screen.check(before=before, after=after)
    if keep:
        screen.kept(folder)
    return 0 if not before and terminal is Terminal.COMPLETED and after else 1


def wants_colour() -> bool:
    """See https://no-color.org."""
    return os.isatty(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def project(*, keep: bool) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mainspring-demo-"))
    try:
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder)


def tests_pass(folder: Path) -> bool:
    try:
        bash(folder, RUN_TESTS)
    except ToolError:
        return False
    return True


# --- the driver: perform an effect, report what happened, ask `step` what is next ------------------------


class World(NamedTuple):
    """All that effects can touch."""

    folder: Path
    script: Iterator[Line]
    screen: Screen


def drive(world: World) -> Terminal:
    prompt = stamped(user(TASK))
    state, effect, updates = step(State(History()), Submitted((prompt,), stamp=stamp()), CONFIG)
    while True:
        for update in updates:
            world.screen.update(update)
        if isinstance(effect, Finish):
            return effect.terminal
        event = perform(effect, state, world)
        state, effect, updates = step(state, replace(event, stamp=stamp()), CONFIG)


def perform(effect: Effect, state: State, world: World) -> Event:
    match effect:
        case PrepareContext():
            prompt = view(state.history, state.edits)
            return ContextReady(tokens=sum(len(repr(message)) for message in prompt) // CHARS_PER_TOKEN)
        case CallModel():
            return call_model(effect.request, world)
        case RunTools():
            return ToolsDone(tuple([run_shown(call, world) for call in effect.calls if effect.start]))
        case RunStopHooks():
            return HooksDone()
        case Compact():
            return Compacted(failed="the demo has nothing to compact")
        case Finish():
            raise AssertionError("nothing is left to perform")
        case _:
            assert_never(effect)


def call_model(request: Request, world: World) -> Event:
    line = next(world.script)
    if isinstance(line, Failure):
        world.screen.failure(line)
        return CallFailed(line)
    calls = any(isinstance(block, ToolCall) for block in line)
    reply = stamped(Assistant(line, request.model, Stop.TOOL_USE if calls else Stop.END_TURN))
    world.screen.reply(reply)
    return Replied(reply)


def run_shown(call: ToolCall, world: World) -> ToolResult:
    world.screen.call(call)
    result = stamped(run_tool(call, world.folder))
    world.screen.result(result)
    return result


M = TypeVar("M", bound=Stamped)


def stamped(message: M) -> M:
    now = stamp()
    return replace(message, id=now.id, at=now.at)


def stamp() -> Stamp:
    return Stamp(str(uuid.uuid4()), time.time_ns() // 1_000_000)
