"""What the model means to do, as its task tools tell it: a few lines around what is under way."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from rich.text import Text

from mainspring.cli.tui.laid import one_line
from mainspring.cli.tui.layout import clip_text
from mainspring.tools.tasks import Status, Task

TOOLS = ("TaskCreate", "TaskUpdate", "TaskList")
MOST_LINES = 8

MARKS: dict[Status, str] = {"pending": "☐", "in_progress": "❯", "completed": "☒"}
STYLES: dict[Status, str] = {"pending": "task.open", "in_progress": "task.now", "completed": "task.done"}
LEFT_OUT: dict[Status, str] = {"pending": "open", "in_progress": "under way", "completed": "done"}


class TaskList:
    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def see(self, tool: str, data: Any) -> None:
        """What such a call came to."""
        if tool not in TOOLS or not isinstance(data, dict):
            return
        try:
            self._tasks = msgspec.convert(cast("dict[str, Any]", data).get("tasks"), list[Task])
        except msgspec.ValidationError:
            return  # a tool of somebody else, under the same name

    def forget(self) -> None:
        self._tasks = []

    @property
    def under_way(self) -> str:
        """What is being done, in the words that the model has for it."""
        return next((task.active_form or task.subject for task in self._tasks if task.status == "in_progress"), "")

    def draw(self, width: int, height: int) -> list[Text]:
        """Nothing, when all of it is done."""
        most = min(MOST_LINES, height)
        if most < 1 or all(task.status == "completed" for task in self._tasks):
            return []
        if len(self._tasks) <= most:
            return [render_task(task, width) for task in self._tasks]
        first = self._first(most - 1)
        shown = self._tasks[first : first + most - 1]
        rest = [*self._tasks[:first], *self._tasks[first + most - 1 :]]
        return [
            *[render_task(task, width) for task in shown],
            clip_text(Text(f"… {count_left_out(rest)}", "detail"), width),
        ]

    def _first(self, most: int) -> int:
        """So that what is under way, or else is next, stands in the middle."""
        states = [task.status for task in self._tasks]
        now = states.index("in_progress" if "in_progress" in states else "pending")
        return max(0, min(now - most // 2, len(states) - most))


def render_task(task: Task, width: int) -> Text:
    words = task.active_form or task.subject if task.status == "in_progress" else task.subject
    mark = Text(f"{MARKS[task.status]} ", "detail" if task.status == "completed" else STYLES[task.status])
    return clip_text(Text.assemble(mark, (one_line(words, width), STYLES[task.status])), width)


def count_left_out(tasks: list[Task]) -> str:
    states = [task.status for task in tasks]
    return ", ".join([f"{number} {words}" for status, words in LEFT_OUT.items() if (number := states.count(status))])
