"""Frames of subagents and background commands (stream-json 6.6 and 12), and the fields of other frames beside the
conversation (stream-json 6.7), among them why the loop went on. Pure.

Text and thinking of a subagent are sent only to clients that ask for it; its last message is the result of the call
that started it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never

from mainspring import hooks
from mainspring.agent.results import error_name
from mainspring.core.messages import ToolCall
from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.core.reasons import Cause, Subtype, Trouble
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    BlockDone,
    CallDone,
    CallProgress,
    CallStarted,
    MaxTurnsReached,
    PrefixBroken,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
)
from mainspring.messages_api import Object, block_id, block_to_wire, message_to_wire, tool_result, usage_to_wire

LoopUpdate = RequestStarted | PrefixBroken | MaxTurnsReached


class FrameFactory(Protocol):
    """Creates a frame of this type, with the fields that every frame has."""

    def __call__(self, kind: str, fields: Object, id: str = "", /) -> Object: ...


class SubagentTask:
    """A running subagent."""

    def __init__(self, started: AgentStarted, now: int) -> None:
        self.started = started
        self.began = now
        self.model = ""
        self.usage = Usage()
        self.prompt = Usage()  # of the current reply
        self.calls = 0


class TaskFrames:
    def __init__(self, frame: FrameFactory, now: Callable[[], int], *, forward: bool = False) -> None:
        """`forward`: also send their text and thinking."""
        self._frame = frame
        self._forward = forward
        self._now = now
        self._tasks: dict[str, SubagentTask] = {}

    def of(self, update: AgentStarted | AgentUpdate | AgentDone) -> list[Object]:
        match update:
            case AgentStarted():
                return self._begins(update)
            case AgentUpdate():
                task = self._tasks.get(update.agent_id)
                return self._at_work(task, update) if task is not None else []
            case AgentDone():
                task = self._tasks.pop(update.agent_id, None)
                return self._ends(task, update) if task is not None else []

    def _system(self, subtype: str, fields: Object) -> Object:
        return self._frame("system", {"subtype": subtype} | fields)

    def _begins(self, started: AgentStarted) -> list[Object]:
        self._tasks[started.agent_id] = SubagentTask(started, self._now())
        told: Object = {
            "task_id": started.agent_id,
            "tool_use_id": started.call_id,
            "description": started.description,
            "task_type": "local_agent",
            "subagent_type": started.kind,
            "is_backgrounded": started.background,
        }
        prompt = {"role": "user", "content": [{"type": "text", "text": started.prompt.text}]}
        return [
            self._system("task_started", told),
            self._inner("user", started, {"message": prompt}, started.prompt.id),
        ]

    def _inner(self, kind: str, started: AgentStarted, fields: Object, id: str = "") -> Object:
        whose = {"parent_tool_use_id": started.call_id, "agent_id": started.agent_id}
        return self._frame(kind, fields | whose, id)

    def _at_work(self, task: SubagentTask, shown: AgentUpdate) -> list[Object]:
        started, update = task.started, shown.update
        match update:
            case RequestStarted():
                task.model = update.model
                return [self._explained(started, update)]
            case PrefixBroken() | MaxTurnsReached():
                return [self._explained(started, update)]
            case ReplyStarted():
                task.prompt = update.usage
            case ReplyDone():
                task.usage += update.usage
            case BlockDone() if self._forward or isinstance(update.block, ToolCall):
                made = message_to_wire(update.reply_id, task.model, [block_to_wire(update.block)], task.prompt)
                return [self._inner("assistant", started, {"message": made}, block_id(update.reply_id, update.index))]
            case CallStarted():
                return [self._progress(task, update)]
            case CallDone():
                task.calls += 1
                told = {"role": "user", "content": [tool_result(update.result)]}
                return [self._inner("user", started, {"message": told}, update.result.id)]
            case _:
                pass
        return []

    def _explained(self, started: AgentStarted, update: LoopUpdate) -> Object:
        subtype, fields = explain_loop(update)
        return self._inner("system", started, {"subtype": subtype} | fields)

    def _progress(self, task: SubagentTask, started: CallStarted) -> Object:
        told: Object = {
            "task_id": task.started.agent_id,
            "tool_use_id": task.started.call_id,
            "description": f"Running {started.line or started.call.name}",
            "usage": {
                "total_tokens": task.usage.total,
                "tool_uses": task.calls,
                "duration_ms": self._now() - task.began,
            },
            "last_tool_name": started.call.name,
        }
        return self._system("task_progress", told)

    def _ends(self, task: SubagentTask, done: AgentDone) -> list[Object]:
        status, patched = ended_as(done.result)
        patch = {"status": patched, "end_time": self._now()}
        told: Object = {
            "task_id": done.agent_id,
            "tool_use_id": done.call_id,
            "status": status,
            "output_file": done.file,
            "summary": done.result.text if done.result is not None else task.started.description,
        }
        return [
            self._system("task_updated", {"task_id": done.agent_id, "patch": patch}),
            self._system("task_notification", told),
        ]


def ended_as(result: Result | None) -> tuple[str, str]:
    """The status for a notification and for a patch: these name a stopped subagent differently."""
    if result is None or result.interrupted:
        return "stopped", "killed"
    return ("completed", "completed") if result.cause is Cause.END_TURN else ("failed", "failed")


# --- commands in the background -------------------------------------------------------------------------------------


class ShellTask(Protocol):
    """A command in the background."""

    id: str
    command: str
    call: str
    about: str

    @property
    def path(self) -> str: ...


def shell_frames(shell: ShellTask, status: str, system: Callable[[str, Object], Object], now: int) -> list[Object]:
    about = shell.about or shell.command
    if status == "running":
        told: Object = {"task_id": shell.id, "tool_use_id": shell.call, "description": about}
        return [system("task_started", told | {"task_type": "local_bash", "is_backgrounded": True})]
    patch = {"status": status, "end_time": now}
    told_as = "stopped" if status == "killed" else status
    ended: Object = {"task_id": shell.id, "tool_use_id": shell.call, "status": told_as}
    return [
        system("task_updated", {"task_id": shell.id, "patch": patch}),
        system("task_notification", ended | {"output_file": shell.path, "summary": about}),
    ]


# --- why the loop went on -------------------------------------------------------------------------------------------

TURN, PREFIX_BREAK, MAX_TURNS = "mainspring_turn", "mainspring_prefix_break", "mainspring_max_turns"


def explain_loop(update: LoopUpdate) -> tuple[str, Object]:
    """The subtype and the fields of a frame about the loop itself. Claude Code has no such frames, and clients ignore
    system frames that they do not know (settled 41)."""
    match update:
        case RequestStarted():
            return TURN, {"turn": update.turn, "model": update.model, "continue_reason": update.transition}
        case MaxTurnsReached():
            return MAX_TURNS, {"max_turns": update.limit, "turns": update.turns}
        case PrefixBroken():
            told: Object = {
                "block": update.block,
                "position": update.what,
                "reason": update.reason,
                "layers": list(update.layers),
                "description": update.why,
                "lost_tokens": update.tokens,
                "cost_usd": update.price / NANOS_PER_USD,
                "estimated": update.estimated,
            }
            return PREFIX_BREAK, told
        case _:
            assert_never(update)


# --- beside the conversation ----------------------------------------------------------------------------------------


def retry_frame(update: Retrying, most: int) -> Object:
    return {
        "attempt": update.attempt,
        "max_retries": update.most - 1 if update.most else most,
        "retry_delay_ms": update.delay,
        "error_status": update.failure.status,
        "error": error_name(update.failure) or "unknown",
    }


def heartbeat_fields(update: Retrying, now: int) -> Object:
    """`retry_delay_ms` is the rest of the wait; `retry_at` its end, in seconds since 1970."""
    return {"heartbeat": update.beat, "retry_at": (now + update.delay) // 1_000}


def rate_limit(update: Retrying, now: int) -> Object | None:
    """None: the retry has another reason. `now` is in milliseconds, like `retry_delay_ms`; the frame has seconds."""
    if update.failure.kind is not Trouble.RATE_LIMIT:
        return None
    return {"status": "rejected", "resetsAt": (now + update.delay) // 1_000}


def tombstone_frame(update: Tombstone) -> Object:
    words = f"The reply above was withdrawn ({update.why}); what follows replaces it."
    return {"content": words, "level": "warning", "withdrawn": update.id}


def progress_frame(update: CallProgress, call: ToolCall, took: int) -> Object:
    """`text` is our own field: the last progress text of the call."""
    return {
        "tool_use_id": call.id,
        "tool_name": call.name,
        "parent_tool_use_id": None,
        "elapsed_time_seconds": took / 1_000,
        "text": update.text,
    }


def deferred_tool_fields(result: Result, last: Object) -> Object:
    """A hook deferred the call: the program resumes it later."""
    if result.detail != hooks.DEFERRED:
        return {}
    call = {"id": last["tool_use_id"], "name": last["tool_name"], "input": last["tool_input"]}
    return {"terminal_reason": "tool_deferred", "deferred_tool_use": call}


def never_begun(why: str, session_id: str) -> Object:
    """The only frame of a session that could not be resumed."""
    zeros: Object = dict.fromkeys(("duration_ms", "duration_api_ms", "num_turns", "total_cost_usd"), 0)
    return {
        "type": "result",
        "subtype": Subtype.ERROR_DURING_EXECUTION,
        "is_error": True,
        **zeros,
        "usage": usage_to_wire(Usage()),
        "modelUsage": {},
        "permission_denials": [],
        "errors": [why],
        "session_id": session_id,
        "uuid": session_id,
    }
