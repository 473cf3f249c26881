"""`TaskCreate`, `TaskUpdate`, `TaskList`: the model's task list, kept by the session and shown to the user.

The tools change nothing but the session's own memory. Still, the two that change it run one after another and never
before the reply is complete: tasks are numbered in the order in which the model wrote them, and a withdrawn reply
leaves none behind.

The conversation stores the tasks: the session finds them there when it is resumed, and adds the list again when the
messages that contain it have left the view. So they need no file of their own, and a fork has them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mainspring.core.errors import ToolError
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, ToolResult, User
from mainspring.core.updates import Rendering
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer, parse_input
from mainspring.tools.toolset import TASKS_BEGIN, TASKS_END

MOST_TASKS = 1_000
LONGEST_SUBJECT = 200  # characters: a line on a screen, and some
LONGEST_DESCRIPTION = 2_000  # so that all of them together stay below 3 MB
DESCRIBED = 300  # characters of a description in a list

Status = Literal["pending", "in_progress", "completed"]
STATUSES: tuple[Status, ...] = ("pending", "in_progress", "completed")

Subject = Annotated[str, Meta(min_length=1, max_length=LONGEST_SUBJECT)]
Description = Annotated[str, Meta(max_length=LONGEST_DESCRIPTION)]


class Task(Struct, frozen=True, rename="camel"):
    id: str
    subject: str
    description: str = ""
    active_form: str = ""  # what a screen shows while it is in progress
    status: Status = "pending"


class SessionTasks:
    """One per session. Numbers are never reused."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self.given = 0  # the last number given

    def set(self, tasks: Iterable[Task], given: int) -> None:
        """Restore the tasks of a resumed session."""
        self._tasks = {task.id: task if task.active_form else named_so(task) for task in tasks}
        self.given = given

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, subject: str, description: str = "", active_form: str = "") -> Task:
        if len(self._tasks) >= MOST_TASKS:
            raise ToolError(f"There are already {MOST_TASKS:,} tasks: delete some with TaskUpdate first.")
        line = check_subject(subject)
        made = Task(str(self.given + 1), line, description, one_line(active_form) or line)
        self.given += 1
        self._tasks[made.id] = made
        return made

    def find(self, id: str) -> Task:
        found = self._tasks.get(id.removeprefix("#"))
        if found is None:
            raise ToolError(f"There is no task '{id[:20]}'. Nothing was done: look at TaskList.")
        return found

    def put(self, task: Task) -> None:
        self._tasks[task.id] = task

    def remove(self, task: Task) -> None:
        del self._tasks[task.id]

    def with_status(self, status: Status) -> list[Task]:
        return [task for task in self._tasks.values() if task.status == status]


def named_so(task: Task) -> Task:
    """The name of a task in progress: its active form, else its subject."""
    return msgspec.structs.replace(task, active_form=task.subject)


def one_line(text: str) -> str:
    return " ".join(text.split())


def check_subject(subject: str) -> str:
    """A subject must fit on one line of a list."""
    made = one_line(subject)
    if not made:
        raise ToolError("The subject of a task is empty. Nothing was done: say in a few words what is to be done.")
    return made


# --- inputs -------------------------------------------------------------------------------------------------------


class TaskCreateInput(Input, frozen=True, rename="camel"):
    subject: Annotated[Subject, "What to do, as an order: 'Fix the parser'."]
    description: Annotated[Description, "What must be known to do it, and when it is done."] = ""
    active_form: Annotated[
        str, Meta(max_length=LONGEST_SUBJECT), "The same while it is under way: 'Fixing the parser'."
    ] = ""


class TaskUpdateInput(Input, frozen=True, rename="camel"):
    task_id: Annotated[str, "As TaskCreate and TaskList name it."]
    status: Annotated[Literal["pending", "in_progress", "completed", "deleted"] | None, "Where it stands now."] = None
    subject: Annotated[Subject | None, "A better one."] = None
    description: Annotated[Description | None, "A better one."] = None


class TaskListInput(Input, frozen=True):
    pass


# --- the tools ----------------------------------------------------------------------------------------------------


def create_task(tasks: SessionTasks, given: TaskCreateInput) -> ToolAnswer:
    made = tasks.add(given.subject, given.description, given.active_form)
    return make_tasks_answer(tasks, f"Task #{made.id} created: {made.subject}")


def update_task(tasks: SessionTasks, given: TaskUpdateInput) -> ToolAnswer:
    task = tasks.find(given.task_id)
    if given.status == "deleted":
        tasks.remove(task)
        return make_tasks_answer(tasks, f"Task #{task.id} deleted: {task.subject}")
    changed = changed_by(task, given)
    tasks.put(changed)
    return make_tasks_answer(
        tasks, f"Task #{changed.id} is {changed.status}: {changed.subject}{make_task_advice(tasks, given.status)}"
    )


def changed_by(task: Task, given: TaskUpdateInput) -> Task:
    changes: dict[str, Any] = {}
    if given.status is not None:
        changes["status"] = given.status
    if given.subject is not None:
        changes["subject"] = changes["active_form"] = check_subject(given.subject)
    if given.description is not None:
        changes["description"] = given.description
    if not changes:
        raise ToolError("Nothing to change: set 'status', 'subject' or 'description'.")
    return msgspec.structs.replace(task, **changes)


def make_task_advice(tasks: SessionTasks, status: str | None) -> str:
    """Advice, not a limit: the model may have agents that work in parallel."""
    count = len(tasks.with_status("in_progress"))
    if status != "in_progress" or count <= 1:
        return ""
    return f"\n{count} tasks are in progress. Finish one before you begin another, unless they go on side by side."


def answer_with_list(tasks: SessionTasks) -> ToolAnswer:
    return make_tasks_answer(tasks, "\n".join([format_task(task) for task in tasks]) or "There are no tasks.")


def format_task(task: Task) -> str:
    words = one_line(task.description)
    if not words or task.status == "completed":
        return f"#{task.id} [{task.status}] {task.subject}"
    return (
        f"#{task.id} [{task.status}] {task.subject}: {words if len(words) <= DESCRIBED else words[:DESCRIBED] + '...'}"
    )


def make_tasks_answer(tasks: SessionTasks, text: str) -> ToolAnswer:
    counts = [f"{len(found)} {status}" for status in STATUSES if (found := tasks.with_status(status))]
    body = "\n".join([f"{MARKS[task.status]} {task.subject}" for task in tasks])
    return make_answer(
        text, {"tasks": msgspec.to_builtins(list(tasks))}, Rendering(f"Tasks: {', '.join(counts) or 'none'}", body)
    )


MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def task_tools(tasks: SessionTasks) -> tuple[Tool, ...]:
    memory = TaskListMemory(tasks)

    async def run_create(given: TaskCreateInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        return create_task(tasks, given)

    async def run_update(given: TaskUpdateInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001
        return update_task(tasks, given)

    async def run_list(given: TaskListInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001
        return answer_with_list(tasks)

    return (
        Tool(
            name="TaskCreate",
            about=("Note a task of your own, so that you and the user see what is left. A new task is pending."),
            input=TaskCreateInput,
            run=run_create,
            summary=lambda given: f"New task: {given.subject}",
            memory=memory,
        ),
        Tool(
            name="TaskUpdate",
            about=(
                "Change a task. Set 'in_progress' when you begin it and 'completed' as soon as it is done; "
                "never 'completed' while tests fail or something is missing. 'deleted' removes what is not needed."
            ),
            input=TaskUpdateInput,
            run=run_update,
            repeatable=True,  # running it twice changes nothing
            summary=lambda given: f"Task {given.task_id}: {given.status or 'changed'}",
            memory=memory,
        ),
        Tool(
            name="TaskList",
            about="List the tasks: number, status, subject, description.",
            input=TaskListInput,
            run=run_list,
            read_only=True,
            summary=lambda _: "Tasks",
            memory=memory,
        ),
    )


MOST_TOLD = 30_000  # characters: some 10,000 tokens; longer lists are shortened
HEAD = "Your tasks, as they stand now:\n"
KEPT = '<system-reminder kind="kept"'  # how an attachment of this kind begins: `context/attachments.py`
BRACKET = "\\u003c"  # JSON can do without '<', so that no task can end the tag


class TaskListSnapshot(Struct):
    """A task list as the conversation contains it."""

    given: int  # the last number given
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
    """The last list in the conversation, with the changes by later calls."""
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
    """Only look where we put lists: memory files, hooks and summaries may contain text that looks like one."""
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
        pass  # a hook changed its input, and the changed input is unknown


def told_in(text: str) -> TaskListSnapshot | None:
    """The last list in the text: a summary may have copied an earlier one."""
    begin = text.rfind(TASKS_BEGIN)
    end = text.find(TASKS_END, begin)
    if begin < 0 or end < 0:
        return None
    try:
        return msgspec.json.decode(text[begin + len(TASKS_BEGIN) : end], type=TaskListSnapshot)
    except msgspec.MsgspecError:
        return None


# --- to the conversation ----------------------------------------------------------------------------------------


def shortest_that_fits(tasks: SessionTasks) -> str:
    """The whole list, if it fits; else without descriptions, else without completed tasks, else its beginning."""
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
    """Without default values."""
    fields: dict[str, Any] = msgspec.to_builtins(task)
    if task.active_form == task.subject:
        del fields["activeForm"]
    return {name: value for name, value in fields.items() if value and (name, value) != ("status", "pending")}
