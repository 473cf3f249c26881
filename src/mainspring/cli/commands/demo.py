"""`mainspring demo`: a project with a bug, a scripted model, real tools, and the engine that everyone else uses.

Nothing is recorded: the results are what the tools returned, and the tests are run before and after, outside the loop.
The model's part is in `demo_script.py`, the tools are the usual ones, the printing is in `demo_screen.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mainspring.cli.commands.demo_screen import DemoScreen
from mainspring.cli.commands.demo_script import CONFIG, FILES, RUN_TESTS, TASK, make_demo_script
from mainspring.cli.commands.demo_tools import BYPASS, command_succeeds, demo_hands, demo_kit
from mainspring.cli.commands.interrupts import CtrlC
from mainspring.cli.output import TerminalOutput, is_terminal, wants_colour
from mainspring.cli.subcommands import Namespace
from mainspring.core.reasons import Terminal
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.engine.shared_state import EnginePolicy
from mainspring.providers.scripted import Scripted
from mainspring.tools.builtin import BuiltinTools

READABLE_PACE = 15  # milliseconds before each piece of a reply: about as fast as a quick model
QUICK_PACE = 1  # where nobody watches; without any, a reply would be complete before its first call could start


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
