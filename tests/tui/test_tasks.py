"""The list of tasks: what the tools tell is what is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.call_view import TaskList
from mainspring.tools.tasks import SessionTasks, Status, TaskCreateInput, TaskUpdateInput, create_task, update_task


def drawn(states: list[Status], height: int = 20) -> list[str]:
    tasks, shown = SessionTasks(), TaskList()
    for at, state in enumerate(states, 1):
        create_task(tasks, TaskCreateInput(f"Task {at}", active_form=f"Doing {at}"))
        shown.see("TaskUpdate", update_task(tasks, TaskUpdateInput(str(at), state)).data)
    return [line.plain for line in shown.draw(40, height)]


def test_each_task_has_its_mark() -> None:
    assert drawn(["completed", "in_progress", "pending"]) == ["☒ Task 1", "❯ Doing 2", "☐ Task 3"]


def test_what_is_under_way_stands_in_the_middle_of_a_long_list() -> None:
    done, left = list[Status](["completed"]), list[Status](["pending"])
    states: list[Status] = [*done * 10, "in_progress", *left * 10]
    assert drawn(states) == [
        "☒ Task 8", "☒ Task 9", "☒ Task 10", "❯ Doing 11", "☐ Task 12", "☐ Task 13", "☐ Task 14", "… 7 open, 7 done",
    ]  # fmt: skip


def test_a_list_that_is_done_is_not_drawn() -> None:
    assert drawn(["completed"] * 3) == []


@pytest.mark.parametrize("data", [None, [], {}, {"tasks": 3}, {"tasks": [{"id": 1}]}, {"tasks": [{"status": "x"}]}])
def test_what_is_no_list_of_tasks_changes_nothing(data: Any) -> None:
    shown = TaskList()
    shown.see("TaskCreate", {"tasks": [{"id": "1", "subject": "Mend\x1b it"}]})
    shown.see("TaskCreate", data)
    shown.see("Bash", {"tasks": []})
    assert [line.plain for line in shown.draw(40, 8)] == ["☐ Mend it"]
    shown.forget()
    assert shown.draw(40, 8) == []


STATES: list[Status] = ["pending", "in_progress", "completed"]


@given(st.lists(st.sampled_from(STATES), max_size=30), st.integers(0, 12))
def test_no_more_lines_than_eight_or_than_there_is_room_for(states: list[Status], height: int) -> None:
    lines = drawn(states, height)
    assert len(lines) <= min(8, height)
    if "in_progress" in states and height > 1:
        assert any(line.startswith("❯") for line in lines)
