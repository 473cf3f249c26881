"""The tasks of a session in its conversation: found there again when the session is taken up, and put there again when
the messages that told of them have left.

So they need no file of their own, and a fork has them, too. What the model no longer sees of its tasks, it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, ToolResult, User
from mainspring.tools.base import parse_input
from mainspring.tools.past import TASKS_BEGIN, TASKS_END
from mainspring.tools.tasks import SessionTasks, Task, TaskCreateInput, TaskUpdateInput, create_task, update_task

MOST_TOLD = 30_000  # characters: some 10,000 tokens; less is told of more tasks
HEAD = "Your tasks, as they stand now:\n"
KEPT = '<system-reminder kind="kept"'  # how an attachment of this kind begins: `context/attachments.py`
BRACKET = "\\u003c"  # JSON can do without '<', so that no task can end the tag


class TaskListSnapshot(Struct):
    """A list as it stands in the conversation."""

    given: int  # numbers so far
    tasks: list[Task]


class TaskListMemory:
    def __init__(self, tasks: SessionTasks) -> None:
        self._tasks = tasks

    def recall(self, seen: Iterable[Message]) -> None:
        found = found_in(seen)
        self._tasks.set(found, found.given)

    def unsaid(self, seen: Iterable[Message]) -> str:
        tasks, found = self._tasks, found_in(seen)
        if (tasks.given, list(tasks)) == (found.given, list(found)):
            return ""
        return f"{HEAD}{TASKS_BEGIN}{shortest_that_fits(tasks)}{TASKS_END}"


# --- from the conversation ----------------------------------------------------------------------------------------


def found_in(seen: Iterable[Message]) -> SessionTasks:
    """The last list that was told, and what calls have made of it since."""
    tasks, calls = SessionTasks(), dict[str, ToolCall]()
    for message in seen:
        match message:
            case Assistant():
                calls |= {call.id: call for call in message.calls}
            case ToolResult():
                call = calls.pop(message.call_id, None)
                if call is not None and not message.is_error:
                    replay_task_call(call, tasks)
            case User():
                if (told := told_in(find_own_task_list(message))) is not None:
                    tasks.set(told.tasks, told.given)
    return tasks


def find_own_task_list(message: User) -> str:
    """Where we put a list: memory files, hooks and whoever is summed up may write what looks like one."""
    if message.origin is Origin.ATTACHMENT and message.text.startswith(KEPT):
        return message.text
    begin = message.text.rfind(HEAD + TASKS_BEGIN) if message.origin is Origin.SUMMARY else -1
    return message.text[begin:] if begin >= 0 else ""


def replay_task_call(call: ToolCall, tasks: SessionTasks) -> None:
    try:
        if call.name == "TaskCreate":
            create_task(tasks, parse_input(TaskCreateInput, call.input, call.name))
        elif call.name == "TaskUpdate":
            update_task(tasks, parse_input(TaskUpdateInput, call.input, call.name))
    except ToolError:
        pass  # a hook had changed its input, and what it was changed to nobody knows


def told_in(text: str) -> TaskListSnapshot | None:
    """The last one: a model that sums up may have copied an earlier list."""
    begin = text.rfind(TASKS_BEGIN)
    end = text.find(TASKS_END, begin)
    if begin < 0 or end < 0:
        return None
    try:
        return msgspec.json.decode(text[begin + len(TASKS_BEGIN) : end], type=TaskListSnapshot)
    except msgspec.MsgspecError:
        return None


# --- and back into it ---------------------------------------------------------------------------------------------


def shortest_that_fits(tasks: SessionTasks) -> str:
    """The whole list, if there is room; else without descriptions, else without what is done, else its beginning."""
    everything = list(tasks)
    bare = [Task(task.id, task.subject, "", task.subject, task.status) for task in everything]
    left = [task for task in bare if task.status != "completed"]
    for some in (everything, bare, left):
        text = tasks_to_json(some, tasks.given)
        if len(text) <= MOST_TOLD:
            return text
    while len(text) > MOST_TOLD:
        left = left[: len(left) * MOST_TOLD // len(text)]
        text = tasks_to_json(left, tasks.given)
    return text


def tasks_to_json(tasks: list[Task], given: int) -> str:
    data = {"given": given, "tasks": [shorten_task(task) for task in tasks]}
    return msgspec.json.encode(data).decode().replace("<", BRACKET)


def shorten_task(task: Task) -> dict[str, Any]:
    """Without what goes without saying."""
    fields: dict[str, Any] = msgspec.to_builtins(task)
    if task.active_form == task.subject:
        del fields["activeForm"]
    return {name: value for name, value in fields.items() if value and (name, value) != ("status", "pending")}
