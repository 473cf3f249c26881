"""Frames about what happens beside the conversation: their fields (stream-json 6.7). Pure."""

from __future__ import annotations

from mainspring.agent.results import error_name
from mainspring.core.messages import ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Subtype, Trouble
from mainspring.core.updates import CallProgress, Result, Retrying, Tombstone
from mainspring.messages_api import Object, usage_to_wire


def retry_frame(update: Retrying, most: int) -> Object:
    return {
        "attempt": update.attempt,
        "max_retries": update.most - 1 if update.most else most,
        "retry_delay_ms": update.delay,
        "error_status": update.failure.status,
        "error": error_name(update.failure) or "unknown",
    }


def rate_limit(update: Retrying, now: int) -> Object | None:
    """None: it waits for something else. `now` in milliseconds, as `retry_delay_ms`; the frame has whole seconds."""
    if update.failure.kind is not Trouble.RATE_LIMIT:
        return None
    return {"status": "rejected", "resetsAt": (now + update.delay) // 1_000}


def tombstone_frame(update: Tombstone) -> Object:
    words = f"The reply above was withdrawn ({update.why}); what follows stands in its place."
    return {"content": words, "level": "warning", "withdrawn": update.id}


def progress_frame(update: CallProgress, call: ToolCall, took: int) -> Object:
    """`text` is ours: the last words of the call."""
    return {
        "tool_use_id": call.id,
        "tool_name": call.name,
        "parent_tool_use_id": None,
        "elapsed_time_seconds": took / 1_000,
        "text": update.text,
    }


def deferred_tool_fields(result: Result, last: Object) -> Object:
    """A hook wants the call to be taken up later, by whoever drives us."""
    from mainspring.hooks.results import DEFERRED  # a hook has ended the run, so it is loaded

    if result.detail != DEFERRED:
        return {}
    call = {"id": last["tool_use_id"], "name": last["tool_name"], "input": last["tool_input"]}
    return {"terminal_reason": "tool_deferred", "deferred_tool_use": call}


def never_begun(why: str, session_id: str) -> Object:
    """The one frame of a session that could not be taken up."""
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
