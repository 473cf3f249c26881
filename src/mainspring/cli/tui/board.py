"""The board: the subagents and background commands of a session, as a panel.

Each row has the state, the time, and of a subagent its tokens, its cost and its last call. Enter opens the task, `x`
stops it, `b` moves a subagent that its call waits for to the background.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.cli.tui.full_view import FullViews, find_task
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.core.money import NANOS_PER_USD
from mainspring.text import format_elapsed, plural

if TYPE_CHECKING:
    from mainspring.agent.background_tasks import BackgroundTask
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Screen

BEAT = 0.5  # seconds between two looks at the tasks
LONG = 60  # seconds: a task that has run longer is stopped only after a question
TAIL = 2_000  # bytes of output below the list
MOST_TAIL = 4  # lines
MARKS = {"running": "●", "completed": "✓", "failed": "✗", "stopped": "■"}


async def show_board(talk: TerminalSession, stage: Screen, views: FullViews) -> None:
    panel = make_board(talk, stage, views)
    beating = asyncio.ensure_future(keep_fresh(panel))
    try:
        await panel.run()
    finally:
        beating.cancel()


async def keep_fresh(panel: Panel) -> None:
    while not panel.over:
        await asyncio.sleep(BEAT)
        panel.refresh()


def make_board(talk: TerminalSession, stage: Screen, views: FullViews) -> Panel:
    def task_of(row: PanelRow) -> BackgroundTask | None:
        return find_task(talk, row.id)

    async def show(row: PanelRow) -> None:
        await views.show_task(row.id)

    async def stop(row: PanelRow) -> None:
        task = task_of(row)
        if task is None or not task.runs:
            return
        about = f"It has run for {format_elapsed(task.seconds)}."
        if task.seconds > LONG and not await panel.confirm(f"Stop '{name_of(task)}'?", "Yes, stop it", (about,)):
            return
        await talk.session.stop_task(row.id)
        panel.remark(f"Stopped '{name_of(task)}'.")

    async def move(row: PanelRow) -> None:
        task = task_of(row)
        if task is not None and await talk.session.background(task.call_id):
            panel.remark(f"'{name_of(task)}' continues in the background.")

    def runs(row: PanelRow) -> bool:
        task = task_of(row)
        return task is not None and task.runs

    def waits(row: PanelRow) -> bool:
        task = task_of(row)
        return task is not None and task.runs and not task.background

    tab = PanelTab(
        lambda: [make_row(task) for task in talk.session.tasks()],
        actions=(
            PanelAction("enter", "open", show),
            PanelAction("x", "stop", stop, runs),
            PanelAction("b", "move to the background", move, waits),
        ),
        details=lambda row: describe(task_of(row)),
        note=lambda: count_tasks(talk.session.tasks()),
        empty="No subagents and no background commands yet.",
    )
    panel = Panel("Tasks", (tab,), stage)
    return panel


def name_of(task: BackgroundTask) -> str:
    return task.about or task.title


def make_row(task: BackgroundTask) -> PanelRow:
    return PanelRow(
        task.id, f"{MARKS[task.state]} {name_of(task)}", " · ".join(facts_of(task)), f"{task.id} {task.title}"
    )


def facts_of(task: BackgroundTask) -> list[str]:
    state = task.state if task.background or not task.runs else "running, its call waits"
    facts = [state, format_elapsed(task.seconds)]
    if task.tokens:
        facts.append(plural(task.tokens, "token"))
    if task.cost:
        facts.append(f"${task.cost / NANOS_PER_USD:.4f}")
    if task.exit_code:
        facts.append(f"exit code {task.exit_code}")
    if task.runs and task.last_call:
        facts.append(task.last_call)
    return facts


def describe(task: BackgroundTask | None) -> list[str]:
    """Below the list: what the marked task is, and the end of its output."""
    if task is None:
        return []
    if task.kind == "subagent":
        return [f"{task.title} · {task.id}", *([f"Last call: {task.last_call}"] if task.last_call else [])]
    tail = task.output(TAIL).rstrip().splitlines()[-MOST_TAIL:] if task.output is not None else []
    return [f"{task.id} · {task.title}", *tail]


def count_tasks(tasks: tuple[BackgroundTask, ...]) -> str:
    running = sum([task.runs for task in tasks])
    ended = len(tasks) - running
    counts = [f"{running} running" if running else "", f"{ended} ended" if ended else ""]
    return ", ".join([one for one in counts if one])
