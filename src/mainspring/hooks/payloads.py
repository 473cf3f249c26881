"""What a hook is told at the points that are not about a tool: the names of stream-json 10, in one place.

What all points have in common is added by the runner; what a call is about is known to `tools/pipeline.py`.

What somebody who looks elsewhere is told: a person is waited for. Hooks at `Notification` pass it on, to a telephone
or with a sound; nobody waits for them, and what they answer does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from mainspring.hooks.events import HookPoint, Hooks

Facts = dict[str, Any]
LONGEST_TASK = 1_000  # characters of what is said about a task, as clients know it

Source = Literal["startup", "resume", "clear", "compact"]
Ending = Literal["clear", "logout", "prompt_input_exit", "other"]
Trigger = Literal["manual", "auto"]
Notice = Literal["permission_prompt", "idle_prompt"]


def make_prompt_payload(prompt: str) -> Facts:
    return {"prompt": prompt}


def make_start_payload(source: Source) -> Facts:
    return {"source": source}


def make_end_payload(reason: Ending) -> Facts:
    return {"reason": reason}


def make_stop_payload(*, active: bool, last: str, tasks: Sequence[Any] = (), crons: Sequence[Any] = ()) -> Facts:
    """`active`: the model goes on already because a hook wanted it. `last`: the text with which it ended."""
    return {
        "stop_hook_active": active,
        "last_assistant_message": last,
        "background_tasks": list(tasks),
        "session_crons": list(crons),
    }


def make_command_task(id: str, command: str, about: str) -> Facts:
    """One of the tasks in the background: a shell command that still runs."""
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
    """When a sub-agent starts. Its own calls have these two among their common facts."""
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
    """What would cover the call that a question is `about`, in the shape in which it can be handed back. The mode comes
    first: clients take the first one, and it covers the next edit, too."""
    mode = about.get("suggested_mode")
    chosen = [{"type": "setMode", "mode": mode, "destination": "session"}] if mode else []
    return [*chosen, *[make_suggestion_update(one["rule"]) for one in about.get("suggestions", ())]]


def make_suggestion_update(rule: str) -> Facts:
    """A rule that would cover what is asked, as an update of the rules (stream-json 5.1). Whoever hands it back is not
    asked again in this project, as with Claude Code."""
    tool, opened, rest = rule.partition("(")
    one = {"toolName": tool} | ({"ruleContent": rest.removesuffix(")")} if opened else {})
    return {"type": "addRules", "rules": [one], "behavior": "allow", "destination": "localSettings"}


IDLE = 60.0  # seconds without a word, after which a conversation says that it waits: as the one that users know


def permission_wanted(hooks: Hooks, tool: str, agent: tuple[str, str] | None = None) -> None:
    """A person is asked about a call."""
    whose = make_subagent_start_payload(*agent) if agent is not None else {}
    message = f"mainspring needs your permission to use {tool}"
    _tell(hooks, {**whose, **make_notification_payload(message, "permission_prompt", "Permission needed")})


@contextmanager
def waiting_for_person(hooks: Hooks, *, seconds: float = IDLE) -> Generator[None, None, None]:
    """Around the wait for a prompt, where the event loop runs meanwhile: if it takes long, that is told, once."""
    facts = make_notification_payload("mainspring is waiting for your input", "idle_prompt", "Waiting")
    timer = asyncio.get_running_loop().call_later(seconds, _tell, hooks, facts)
    try:
        yield
    finally:
        timer.cancel()


def _tell(hooks: Hooks, facts: dict[str, Any]) -> None:
    if hooks.any_at(HookPoint.NOTIFICATION):
        hooks.tell(HookPoint.NOTIFICATION, facts)
