"""The payloads of hook events that are not about a tool, with the names of stream-json 10.

The runner adds the common fields; `tools/pipeline.py` makes the payloads of tool calls.

`Notification` hooks report that mainspring waits for a person, so that the hook can notify a phone or play a sound.
They run in the background, and their answers do not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from mainspring.hooks.events import HookPoint, Hooks

Facts = dict[str, Any]
LONGEST_TASK = 1_000  # characters of a task's description, as clients know it

Trigger = Literal["manual", "auto"]
Notice = Literal["permission_prompt", "idle_prompt"]


def make_stop_payload(*, active: bool, last: str, tasks: Sequence[Any] = (), crons: Sequence[Any] = ()) -> Facts:
    """`active`: the model already continues because of a hook. `last`: the text with which it ended."""
    return {
        "stop_hook_active": active,
        "last_assistant_message": last,
        "background_tasks": list(tasks),
        "session_crons": list(crons),
    }


def make_command_task(id: str, command: str, about: str) -> Facts:
    """One of the background tasks: a shell command that still runs."""
    return {
        "id": id,
        "type": "shell",
        "status": "running",
        "description": clip_task(about or command),
        "command": clip_task(command),
    }


def clip_task(text: str) -> str:
    return (
        text
        if len(text) <= LONGEST_TASK
        else f"{text[:LONGEST_TASK]}\N{HORIZONTAL ELLIPSIS} [+{len(text) - LONGEST_TASK} chars]"
    )


def make_subagent_start_payload(agent_id: str, agent_type: str) -> Facts:
    """When a subagent starts. Its own calls have these two among their common fields."""
    return {"agent_id": agent_id, "agent_type": agent_type}


def make_subagent_stop_payload(agent_id: str, agent_type: str, *, transcript: str, active: bool, last: str) -> Facts:
    return {
        **make_subagent_start_payload(agent_id, agent_type),
        "agent_transcript_path": transcript,
        "stop_hook_active": active,
        "last_assistant_message": last,
    }


def make_compaction_payload(trigger: Trigger, instructions: str | None = None) -> Facts:
    """Before it."""
    return {"trigger": trigger, "custom_instructions": instructions}


def make_summary_payload(trigger: Trigger, summary: str) -> Facts:
    """After a compaction."""
    return {"trigger": trigger, "compact_summary": summary}


def make_notification_payload(message: str, kind: Notice, title: str = "") -> Facts:
    return {"message": message, "notification_type": kind, **({"title": title} if title else {})}


def to_permission_updates(about: Facts) -> list[Facts]:
    """The updates that would cover the call that a question is `about`, in the format in which a client can return
    them. The mode comes first: clients take the first one, and it covers the next edit, too.
    """
    mode = about.get("suggested_mode")
    chosen = [{"type": "setMode", "mode": mode, "destination": "session"}] if mode else []
    return [*chosen, *[make_suggestion_update(one["rule"]) for one in about.get("suggestions", ())]]


def make_suggestion_update(rule: str) -> Facts:
    """A rule that would cover the call, as an update of the rules (stream-json 5.1). If a client returns it, this
    project does not ask again, as with Claude Code.
    """
    tool, opened, rest = rule.partition("(")
    one = {"toolName": tool} | ({"ruleContent": rest.removesuffix(")")} if opened else {})
    return {"type": "addRules", "rules": [one], "behavior": "allow", "destination": "localSettings"}


IDLE = 60.0  # seconds without input until an interactive session notifies: as in Claude Code


def permission_wanted(hooks: Hooks, tool: str, agent: tuple[str, str] | None = None) -> None:
    """A person is asked about a call."""
    whose = make_subagent_start_payload(*agent) if agent is not None else {}
    message = f"mainspring needs your permission to use {tool}"
    _tell(hooks, {**whose, **make_notification_payload(message, "permission_prompt", "Permission needed")})


@contextmanager
def waiting_for_person(hooks: Hooks, *, seconds: float = IDLE) -> Generator[None, None, None]:
    """Around the wait for a prompt, while the event loop runs: if it takes long, sends one notification."""
    facts = make_notification_payload("mainspring is waiting for your input", "idle_prompt", "Waiting")
    timer = asyncio.get_running_loop().call_later(seconds, _tell, hooks, facts)
    try:
        yield
    finally:
        timer.cancel()


def _tell(hooks: Hooks, facts: dict[str, Any]) -> None:
    if hooks.any_at(HookPoint.NOTIFICATION):
        hooks.tell(HookPoint.NOTIFICATION, facts)
