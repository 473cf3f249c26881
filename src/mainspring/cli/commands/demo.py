"""`mainspring demo`: a small project with a bug, a scripted model, the real engine and real tools.

Only the model's replies are scripted. The tools run in a temporary folder with a small environment; they need no
approval, because the script is part of mainspring. The tests run before and after, outside the loop. `demo_screen.py`
prints the run.

`CtrlC` protects the cleanup: `asyncio.run` cancels its task on the first Ctrl-C and raises in the middle of whatever
runs on the second, which would leave a child or a temporary folder behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from msgspec.structs import replace

from mainspring.cli.commands.demo_screen import DemoScreen
from mainspring.cli.output import TerminalOutput, is_terminal, wants_colour
from mainspring.cli.subcommands import Namespace
from mainspring.core.config import Config
from mainspring.core.models import Model
from mainspring.core.reasons import Failure, Terminal, Trouble
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.processes.child import ProcessLimits, ProcessSpec
from mainspring.processes.environment import find_program
from mainspring.providers.base import Retry
from mainspring.providers.scripted import Break, Pause, Scripted, ScriptedReply, call, says
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.toolset import Toolset

FILES = {
    "pages.py": '''\
def page_count(items: int, size: int) -> int:
    """How many pages of `size` it takes to show `items`."""
    return items // size
''',
    "catalog.py": """\
from pages import page_count


def last_page(titles: list[str], size: int) -> list[str]:
    return titles[(page_count(len(titles), size) - 1) * size :]
""",
    "test_pages.py": """\
import unittest

from pages import page_count


class PageCount(unittest.TestCase):
    def test_full_pages(self) -> None:
        self.assertEqual(page_count(20, 10), 2)

    def test_short_last_page(self) -> None:
        self.assertEqual(page_count(21, 10), 3)
""",
}

TASK = "A test of this project fails. Find the bug and fix it."
RUN_TESTS = '"$PYTHON" -m unittest'  # the environment of the Bash tool sets PYTHON
CONFIG = Config(model=Model("scripted-model"), fallbacks=(Model("scripted-fallback"),))

OVERLOADED = Failure(Trouble.OVERLOADED, "Overloaded", status=529)
WAIT = 100  # milliseconds; a real provider waits for seconds

SCRIPT: tuple[ScriptedReply, ...] = (
    says(
        "I'll run the tests to see what fails.",
        call("Bash", command=RUN_TESTS),
        "They run while I am still writing this: a call that changes nothing starts as soon as it is complete, "
        "not when the reply is. So the wait for a tool is shorter, or there is none.",
    ),
    # To show a recovery: the provider retries twice, then the loop switches to the fallback model.
    says(Retry(OVERLOADED, 1, WAIT), Pause(WAIT), Retry(OVERLOADED, 2, WAIT), Pause(WAIT), Break(OVERLOADED)),
    says(
        "21 items need a third, short page, but it is not counted. I'll look at the code, its caller and the tests.",
        call("Read", file_path="pages.py"),
        call("Read", file_path="catalog.py"),
        call("Read", file_path="test_pages.py"),
        "The files were opened while I was still writing. The caller relies on the count and would show the wrong page "
        "as the last one; the tests are right. So the bug is in `pages.py`.",
    ),
    says(
        "`//` rounds down and drops the page that is not full. It has to round up.",
        call(
            "Edit",
            file_path="pages.py",
            old_string="items // size",
            new_string="(items + size - 1) // size",
        ),
        "An edit waits until I have finished: a reply may yet be withdrawn, a written file cannot.",
    ),
    says(
        "Now the tests again.",
        call("Bash", command=RUN_TESTS),
    ),
    says("Fixed: `page_count` rounded down, so a short last page was lost. It rounds up now, and both tests pass."),
)


def make_demo_script(pace: int) -> list[ScriptedReply]:
    """The script with `pace` milliseconds before each delta."""
    return [replace(reply, pace=pace) for reply in SCRIPT]


SECONDS = 60  # the tests take a tenth of one, on a busy machine a few
BYPASS = "bypassPermissions"


def demo_kit(folder: Path, harmless: str) -> BuiltinTools:
    environment = {
        "PATH": os.defpath,
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",  # stale bytecode could hide an edit made within the second
    }

    def only_reads(command: str) -> bool:
        return command == harmless

    return BuiltinTools(Workspace(str(folder)), environment, adopt=True, only_reads=only_reads)


def demo_hands(kit: BuiltinTools) -> Toolset:
    folder = kit.place.root
    return Toolset(kit.offers(("Read", "Edit", "Bash")), place=kit.place, gate=PermissionChecker(folders=(folder,)))


async def command_succeeds(command: str, kit: BuiltinTools) -> bool:
    """Runs the command outside the loop."""
    shell = find_program("bash", path=os.environ.get("PATH", "")) or "/bin/sh"
    ended = await kit.children.run(ProcessSpec((shell, "-c", command), kit.place.root, kit.env, ProcessLimits(SECONDS)))
    return ended.code == 0 and not ended.timed_out


T = TypeVar("T")


class CtrlC:
    """Within this block, Ctrl-C cancels what `run` runs, once; `KeyboardInterrupt` is raised where the block ends."""

    def __init__(self) -> None:
        self._pressed = False
        self._cancel: Callable[[], object] | None = None
        self._ours = False

    def __enter__(self) -> CtrlC:
        self._ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else SIGINT is ignored: keep that
        if self._ours:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pressed:
            raise KeyboardInterrupt  # keeps its handler, so that another Ctrl-C does not disturb the last output
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(self._watched(work))

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # also wakes a waiting loop
        try:
            if self._pressed:
                task.cancel()
            return await work
        finally:
            self._cancel = None

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what a signal handler is given
        if self._pressed:
            return
        self._pressed = True
        if self._cancel is not None:
            self._cancel()


READABLE_PACE = 15  # milliseconds before each delta: about as fast as a quick model
QUICK_PACE = 1  # without a terminal; with no pause, a reply would be complete before its first call could start


def demo(args: Namespace) -> int:
    """Returns the exit code: 0 only if the tests failed before, the loop completed, and the tests pass after."""
    keep: bool = args.keep
    screen = DemoScreen(TerminalOutput(colour=wants_colour()))
    with CtrlC() as ctrl_c, make_demo_project(keep=keep) as folder:
        screen.opening(folder, keep=keep)
        repaired = ctrl_c.run(repair_project(folder, screen))
    if keep:
        screen.kept(folder)
    return 0 if repaired else 1


@contextmanager
def make_demo_project(*, keep: bool) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mainspring-demo-"))
    try:
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder)


async def repair_project(folder: Path, screen: DemoScreen) -> bool:
    kit = demo_kit(folder, harmless=RUN_TESTS)  # running the tests changes nothing
    try:
        before = await command_succeeds(RUN_TESTS, kit)
        screen.prompt(TASK)
        terminal = await run_demo_session(kit, screen)
        after = await command_succeeds(RUN_TESTS, kit)
    finally:
        await kit.close()
    screen.check(before=before, after=after)
    return not before and terminal is Terminal.COMPLETED and after


async def run_demo_session(kit: BuiltinTools, screen: DemoScreen) -> Terminal:
    model = Scripted(make_demo_script(READABLE_PACE if is_terminal() else QUICK_PACE))
    deps = AgentDeps(model, demo_hands(kit))
    session = EngineSession(deps, CONFIG, side_jobs=deps.side_jobs, describe=deps.describe)
    session.shared.policy = EnginePolicy(BYPASS)
    async with session.run(TASK) as run:
        async for update in run:
            screen.update(update)
    return run.result.terminal
