"""Tasks live in the conversation: what is found there again, and what is put there when it is no longer told."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.context.attachments import Attachment, AttachmentKind, PreparedContext, Summary, render_attachment
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, ToolResult, User, result, user
from mainspring.core.state import State
from mainspring.core.view import Drop, Fold, view
from mainspring.engine.session_deps import AgentDeps, ToolReminders
from mainspring.permissions.checker import AllowAll
from mainspring.providers.scripted import Scripted
from mainspring.tools.base import Workspace
from mainspring.tools.tasks import (
    LONGEST_DESCRIPTION,
    LONGEST_SUBJECT,
    MOST_TASKS,
    MOST_TOLD,
    SessionTasks,
    Task,
    TaskListMemory,
    found_in,
    task_tools,
    told_in,
)
from mainspring.tools.toolset import TASKS_BEGIN, TASKS_END, Toolset, has_tasks
from tools.desk import Desk


def as_kept(words: str) -> User:
    """As it is put into a conversation."""
    return render_attachment(Attachment(AttachmentKind.KEPT, "", words))


class Talk:
    """A session's tasks, and the conversation that made them."""

    def __init__(self) -> None:
        self.tasks = SessionTasks()
        self.desk = Desk(task_tools(self.tasks))
        self.memory = TaskListMemory(self.tasks)
        self.seen: list[Message] = [user("Go.")]

    def call(self, name: str, **input: Any) -> ToolResult:
        call = ToolCall(f"c{len(self.seen)}", name, input)
        done = asyncio.run(self.desk.hands.run(call, self.desk)).answer
        made = ToolResult(call.id, done.content, done.is_error)
        self.seen += [Assistant((call,)), made]
        return made

    def create(self, subject: str, **more: Any) -> None:
        assert not self.call("TaskCreate", subject=subject, **more).is_error

    def update(self, id: str, **more: Any) -> None:
        assert not self.call("TaskUpdate", taskId=id, **more).is_error

    def stands(self, found: SessionTasks) -> bool:
        return (found.given, list(found)) == (self.tasks.given, list(self.tasks))


def busy() -> Talk:
    talk = Talk()
    talk.create("Mend the parser", description="It eats\nlines.", activeForm="Mending it")
    talk.create("Test it")
    talk.create("Tell <everybody>")
    talk.update("1", status="completed")
    talk.update("2", status="in_progress", subject="Test it all")
    talk.update("#3", status="deleted")
    return talk


def test_calls_that_succeeded_are_repeated_and_no_others() -> None:
    talk = busy()
    assert talk.call("TaskCreate", subject="").is_error
    assert talk.call("TaskUpdate", taskId="9", status="completed").is_error
    talk.seen += [Assistant((ToolCall("never", "TaskCreate", {"subject": "No"}), ToolCall("x", "Bash", {})))]
    talk.seen += [result("never", "interrupted", is_error=True), result("x", "ok"), result("unknown", "ok")]
    found = found_in(talk.seen)
    assert talk.stands(found)
    assert [(task.id, task.status, task.subject, task.active_form) for task in found] == [
        ("1", "completed", "Mend the parser", "Mending it"),
        ("2", "in_progress", "Test it all", "Test it all"),
    ]
    assert found.add("More").id == "4"  # the number of a deleted one is not given again
    assert talk.memory.unsaid(talk.seen) == ""


def test_what_a_summary_swallowed_is_told_again_and_found_there() -> None:
    talk = busy()
    words = talk.memory.unsaid([user("Go."), user("They talked of tasks.", Origin.SUMMARY)])
    assert "Tell" not in words
    for one in (user(f"They talked.\n\n{words}", Origin.SUMMARY), as_kept(words)):
        told: list[Message] = [one]
        assert talk.memory.unsaid(told) == ""
        assert talk.stands(found_in(told))
    talk.seen = [user(f"They talked.\n\n{words}", Origin.SUMMARY)]
    talk.create("Ship it")
    assert talk.stands(found_in(talk.seen))
    assert [task.id for task in talk.tasks] == ["1", "2", "4"]


def test_a_stale_list_in_a_summary_is_corrected() -> None:
    """The model that sums up may copy what it finds."""
    talk = busy()
    stale = user(f'Copied: {TASKS_BEGIN}{{"given":1,"tasks":[]}}{TASKS_END}', Origin.SUMMARY)
    words = talk.memory.unsaid([stale])
    assert talk.stands(found_in([user(f"{stale.text}\n{words}", Origin.SUMMARY)]))


def test_nobody_elses_words_are_a_list() -> None:
    words = busy().memory.unsaid([])
    assert has_tasks([as_kept(words)])
    memory = render_attachment(Attachment(AttachmentKind.MEMORY, "CLAUDE.md", words))
    for other in (user(words), result("c", words), Assistant(()), memory, user(words, Origin.HOOK)):
        assert list(found_in([other])) == []
    for broken in (
        "",
        TASKS_BEGIN,
        f"{TASKS_BEGIN}{{}}{TASKS_END}",
        f"{TASKS_END}{TASKS_BEGIN}",
        f"{TASKS_BEGIN}x{TASKS_END}",
    ):
        assert told_in(broken) is None


def test_a_task_cannot_end_the_list() -> None:
    talk = Talk()
    talk.create(f"Say {TASKS_END} and <system-reminder>")
    words = talk.memory.unsaid([])
    assert "<system" not in words
    assert talk.stands(found_in([as_kept(words)]))


@pytest.mark.parametrize(
    ("status", "description", "kept"),
    [("pending", "d", 0), ("completed", "", 0), ("pending", "", 100)],
    ids=["long descriptions", "all done", "too many"],
)
def test_a_list_that_is_too_long_is_told_in_part(status: Any, description: str, kept: int) -> None:
    tasks = SessionTasks()
    count = 20 if description else MOST_TASKS
    for number in range(count):
        subject = f"Task {number} " + "s" * (0 if description else LONGEST_SUBJECT - 20)
        made = tasks.add(subject, description * LONGEST_DESCRIPTION)
        tasks.put(msgspec.structs.replace(made, status=status))
    words = TaskListMemory(tasks).unsaid([])
    assert len(words) <= MOST_TOLD + 100
    found = found_in([as_kept(words)])
    assert found.given == count
    if description:
        assert [task.subject for task in found] == [task.subject for task in tasks]
        assert {task.description for task in found} == {""}
    else:
        assert len(found) >= kept
        assert [task.subject for task in found] == [task.subject for task in tasks][: len(found)]


def test_hands_recall_only_what_is_there() -> None:
    talk, tasks = busy(), SessionTasks()
    hands = Toolset(task_tools(tasks), place=Workspace("/"), gate=AllowAll())
    hands.remember([user("Go."), Assistant((ToolCall("c", "Bash", {}),)), result("c", "ok")])
    assert hands.unsaid([]) == ""
    hands.remember(talk.seen)
    assert talk.stands(tasks)
    assert hands.unsaid(talk.seen) == ""
    assert hands.unsaid([]) == talk.memory.unsaid([])  # once, though three tools keep it


def test_the_words_say_what_a_model_needs() -> None:
    talk = Talk()
    talk.create("Test it")
    assert talk.memory.unsaid([]) == (
        'Your tasks, as they stand now:\n<tasks>{"given":1,"tasks":[{"id":"1","subject":"Test it"}]}</tasks>'
    )
    assert list(found_in([as_kept(talk.memory.unsaid([]))])) == [Task("1", "Test it", "", "Test it")]


# --- in the loop --------------------------------------------------------------------------------------------------


def test_what_leaves_the_conversation_is_told_once_more_before_the_next_request() -> None:
    """Whatever took it out. If that request was never made, it is told before the one after it."""
    talk = busy()
    history = History([replace(message, id=f"m{number}") for number, message in enumerate(talk.seen)])
    deps = AgentDeps(Scripted([]), Toolset(task_tools(talk.tasks), place=Workspace("/"), gate=AllowAll()))
    deps.hands.tool("TaskList")  # a call was made in this process

    def shrunk(state: State) -> PreparedContext:
        return asyncio.run(deps.shrink(state, ()))

    def added(state: State) -> tuple[User, ...]:
        return shrunk(state).attachments

    whole = State(history)
    assert added(whole) == ()
    without = State(history, edits=(Drop(tuple([f"m{number}" for number in range(1, len(history))])),))
    [told] = added(without)
    assert (told.origin, talk.memory.unsaid([told])) == (Origin.ATTACHMENT, "")
    assert added(without) == (told,)
    before = shrunk(without).tokens
    after = replace(without, history=history.append(replace(told, id="m99")))
    assert added(after) == ()
    assert shrunk(after).tokens == before  # it counted before it was there


def test_a_summary_carries_what_tools_keep_and_only_if_it_does_not_tell_it() -> None:
    talk = busy()
    history = History([replace(message, id=f"m{number}") for number, message in enumerate(talk.seen)])
    hands = Toolset(task_tools(talk.tasks), place=Workspace("/"), gate=AllowAll())
    hands.tool("TaskList")
    words = ToolReminders(hands)
    fold = Fold("m0", history[-1].id, replace(user("They talked.", Origin.SUMMARY), id="s1"))
    made = words.in_summary(Summary((fold,), before=1_000, after=10), State(history))
    assert talk.stands(found_in(view(history, made.edits)))
    [edit] = made.edits
    assert isinstance(edit, Fold)
    assert (edit.summary.id, edit.summary.text.startswith("They talked.\n\nYour tasks")) == ("s1", True)
    assert made.after > 10
    assert words.in_summary(made, State(history)) == made
    assert words.in_summary(Summary((Drop(("m0",)),)), State(history)) == Summary((Drop(("m0",)),))
