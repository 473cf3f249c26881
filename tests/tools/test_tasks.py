"""The tasks of a session: what the model is told, what programs see, and everything that is no task."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.tools.tasks import MOST_TASKS, SessionTasks, task_tools
from tools.desk import Desk


def desk() -> tuple[SessionTasks, Desk]:
    tasks = SessionTasks()
    return tasks, Desk(task_tools(tasks))


def task(id: str, subject: str, status: str = "pending", description: str = "", active: str = "") -> dict[str, str]:
    fields = {"id": id, "subject": subject, "description": description, "activeForm": active or subject}
    return {**fields, "status": status}


def test_a_task_from_its_beginning_to_its_end() -> None:
    tasks, at = desk()
    made = at.now("TaskCreate", subject="Mend  the\nparser", description="It eats\nlines.", activeForm="Mending it")
    parser = task("1", "Mend the parser", "pending", "It eats\nlines.", "Mending it")
    assert (made.answer.text, made.answer.data) == ("Task #1 created: Mend the parser", {"tasks": [parser]})
    at.now("TaskCreate", subject="Test it")

    begun = at.now("TaskUpdate", taskId="1", status="in_progress").answer
    assert begun.text == "Task #1 is in_progress: Mend the parser"
    assert begun.data == {"tasks": [{**parser, "status": "in_progress"}, task("2", "Test it")]}
    assert begun.shown is not None
    assert (begun.shown.summary, begun.shown.body) == (
        "Tasks: 1 pending, 1 in_progress", "[>] Mend the parser\n[ ] Test it",
    )  # fmt: skip
    listed = at.now("TaskList").answer
    assert listed.text == "#1 [in_progress] Mend the parser: It eats lines.\n#2 [pending] Test it"

    at.now("TaskUpdate", taskId="#1", status="completed")
    changed = at.now("TaskUpdate", taskId="2", subject="Test it all", description="Also empty input.").answer
    assert changed.text == "Task #2 is pending: Test it all"
    listed = at.now("TaskList").answer
    assert listed.text == "#1 [completed] Mend the parser\n#2 [pending] Test it all: Also empty input."

    assert at.now("TaskUpdate", taskId="2", status="deleted").answer.text == "Task #2 deleted: Test it all"
    assert at.now("TaskCreate", subject="More").answer.text == "Task #3 created: More"  # a number is given once
    assert [one.id for one in tasks] == ["1", "3"]


def test_no_tasks() -> None:
    _, at = desk()
    found = at.now("TaskList").answer
    assert (found.text, found.data) == ("There are no tasks.", {"tasks": []})
    assert found.shown is not None
    assert found.shown.summary == "Tasks: none"


def test_two_in_progress_are_advised_against_and_not_forbidden() -> None:
    tasks, at = desk()
    for subject in ("a", "b"):
        at.now("TaskCreate", subject=subject)
    assert at.now("TaskUpdate", taskId="1", status="in_progress").answer.text == "Task #1 is in_progress: a"
    second = at.now("TaskUpdate", taskId="2", status="in_progress").answer
    assert not second.is_error
    assert second.text == (
        "Task #2 is in_progress: b\n2 tasks are in progress. Finish one before you begin another, unless they go on "
        "side by side."
    )
    assert at.now("TaskUpdate", taskId="2", status="completed").answer.text == "Task #2 is completed: b"
    assert [one.status for one in tasks] == ["in_progress", "completed"]


def test_there_is_an_end_to_them() -> None:
    tasks, at = desk()
    for number in range(MOST_TASKS):
        tasks.add(f"task {number}", "d" * 2_000)
    refused = at.now("TaskCreate", subject="one more").answer
    assert (refused.is_error, len(tasks)) == (True, MOST_TASKS)
    assert refused.text == "There are already 1,000 tasks: delete some with TaskUpdate first."
    assert len(at.now("TaskList").answer.text) < 101_000
    assert len(msgspec.json.encode(at.now("TaskList").answer.data)) < 3_000_000
    at.now("TaskUpdate", taskId="1", status="deleted")
    assert at.now("TaskCreate", subject="one more").answer.text == "Task #1001 created: one more"


def nested(depth: int) -> Any:
    made: Any = "x"
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("name", "input", "message"),
    [
        ("TaskCreate", {}, "missing required field `subject`"),
        ("TaskCreate", {"subject": 7}, "Expected `str`, got `int` - at `$.subject`"),
        ("TaskCreate", {"subject": ""}, "Expected `str` of length >= 1 - at `$.subject`"),
        ("TaskCreate", {"subject": " \n"}, "The subject of a task is empty. Nothing was done"),
        ("TaskCreate", {"subject": "x" * 201}, "Expected `str` of length <= 200 - at `$.subject`"),
        ("TaskCreate", {"subject": "x", "description": "x" * 10_000_000}, "length <= 2000 - at `$.description`"),
        ("TaskCreate", {"subject": "x", "activeForm": "x" * 201}, "length <= 200 - at `$.activeForm`"),
        ("TaskCreate", {"title": "x"}, "missing required field `subject`. Unknown field 'title'"),
        ("TaskCreate", {"subject": nested(50)}, "Expected `str`, got `array`"),
        ("TaskCreate", {"subject": nested(50_000)}, "is nested too deeply"),
        ("TaskUpdate", {}, "missing required field `taskId`"),
        ("TaskUpdate", {"taskId": 1}, "Expected `str`, got `int` - at `$.taskId`"),
        ("TaskUpdate", {"taskId": "1"}, "Nothing to change: set 'status', 'subject' or 'description'."),
        ("TaskUpdate", {"taskId": "1", "status": "done"}, "Invalid enum value 'done' - at `$.status`"),
        ("TaskUpdate", {"taskId": "1", "subject": " "}, "The subject of a task is empty. Nothing was done"),
        ("TaskUpdate", {"taskId": "2", "status": "deleted"}, "There is no task '2'. Nothing was done: look at Task"),
        ("TaskUpdate", {"taskId": "9" * 1_000_000, "status": "deleted"}, f"There is no task '{'9' * 20}'."),
        ("TaskUpdate", {"taskId": "", "status": "deleted"}, "There is no task ''."),
    ],
)  # fmt: skip
def test_wrong_inputs(name: str, input: dict[str, Any], message: str) -> None:
    tasks, at = desk()
    at.now("TaskCreate", subject="There before")
    before = list(tasks)
    found = at.now(name, **input).answer
    assert found.is_error
    assert message in found.text
    assert len(found.text) < 500
    assert list(tasks) == before
    assert at.now("TaskCreate", subject="next").answer.text == "Task #2 created: next"  # no number was lost


def test_what_is_known_before_they_run() -> None:
    create, update, show = task_tools(SessionTasks())
    inputs: tuple[dict[str, Any], ...] = ({"subject": "a"}, {"taskId": "1", "status": "completed"}, {})
    given = [tool.parse(input) for tool, input in zip((create, update, show), inputs, strict=True)]
    known = [
        (tool.is_read_only(one), tool.is_concurrent(one), tool.is_repeatable(one), tool.line(one))
        for tool, one in zip((create, update, show), given, strict=True)
    ]
    assert known == [
        (False, False, False, "New task: a"),
        (False, False, True, "Task 1: completed"),
        (True, True, True, "Tasks"),
    ]
    assert [list(tool.spec.schema["properties"]) for tool in (create, update, show)] == [
        ["subject", "description", "activeForm"],
        ["taskId", "status", "subject", "description"],
        [],
    ]
    assert sum(len(msgspec.json.encode(tool.spec)) for tool in (create, update, show)) <= 2_200
