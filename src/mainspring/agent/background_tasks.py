"""What runs beside the conversation: subagents, and commands in the background. Front ends list, stop and steer them.

The end of a command is reported to the model as the report of a subagent is: with the next request of a run, or in a
run of its own. A command that was stopped is not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from mainspring.core.value import Bundle
from mainspring.engine.subagents import escape_notification

if TYPE_CHECKING:
    from mainspring.agent.session_parts import SessionParts
    from mainspring.core.history import History
    from mainspring.engine.subagents import SubagentRun
    from mainspring.tools.background import BackgroundCommand

NOTIFICATION = """\
<task-notification command="{id}" status="{status}">
{report}. See what it printed with BashOutput.
</task-notification>"""


class BackgroundTask(Bundle):
    """A subagent, also one in the foreground, or a command in the background."""

    id: str
    kind: Literal["subagent", "command"]
    title: str  # its agent type, or its command
    about: str  # what it does, in a few words
    state: Literal["running", "completed", "failed", "stopped"]
    seconds: float  # since its start, or until its end
    background: bool = True
    tokens: int = 0  # of a subagent, as are the next three
    cost: int = 0  # nano-dollars
    last_call: str = ""
    history: Callable[[], History] | None = None  # its conversation so far
    exit_code: int | None = None  # of a command that has ended,
    output: Callable[[int], str] | None = None  # and the end of what it printed, at most so many bytes
    path: str = ""  # the file with its output
    call_id: str = ""  # of the call that started it

    @property
    def runs(self) -> bool:
        return self.state == "running"


def list_tasks(parts: SessionParts) -> tuple[BackgroundTask, ...]:
    """Those that run first, then the last that have ended; each in the order of their start."""
    found: list[BackgroundTask] = []
    if parts.agents.has_begun:
        found += [describe_subagent_task(one) for one in parts.agents.agents.known]
    if parts.kit.has_background:
        found += [describe_command_task(one) for one in parts.kit.background.known]
    return tuple(sorted(found, key=lambda task: not task.runs))


def describe_subagent_task(run: SubagentRun) -> BackgroundTask:
    status = run.at_work
    return BackgroundTask(
        status.agent_id,
        "subagent",
        status.kind,
        status.about,
        "stopped" if run.stopped and status.state != "running" else status.state,
        status.seconds,
        status.background,
        status.tokens,
        status.cost,
        status.last_call,
        lambda: run.history,
        call_id=status.call_id,
    )


def describe_command_task(command: BackgroundCommand) -> BackgroundTask:
    return BackgroundTask(
        command.id,
        "command",
        command.command,
        command.about,
        "stopped" if command.status == "killed" else command.status,
        command.age,
        exit_code=command.child.code if command.status != "running" else None,
        output=command.end_of_output,
        path=command.path,
        call_id=command.call,
    )


def make_task_notification(command: BackgroundCommand) -> str:
    """What the model reads when a background command has ended."""
    report = escape_notification(command.report)
    return NOTIFICATION.format(id=command.id, status=command.status, report=report)


async def move_to_background(
    parts: SessionParts, call_id: str | None, moved: Callable[[str], object]
) -> tuple[str, ...]:
    """`call_id` None: every call of the session itself; what a subagent runs moves with the subagent. `moved` is called
    with the id of each subagent."""
    calls: list[str] = []
    if parts.agents.has_begun:
        for run in await parts.agents.agents.move(call_id):
            moved(run.id)
            calls.append(run.at_work.call_id)
    if parts.kit.has_background:
        for waiting in parts.kit.background.waited_for:
            if waiting.call == call_id or (call_id is None and waiting.place is parts.kit.place):
                waiting.move()
                calls.append(waiting.call)
    return tuple(calls)


async def message_subagent(parts: SessionParts, agent_id: str, text: str) -> bool:
    if not parts.agents.has_begun:
        return False
    found = next((one for one in parts.agents.agents.known if one.id == agent_id), None)
    return found is not None and await found.message(text)
