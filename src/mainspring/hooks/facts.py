"""What a hook is told at the points that are not about a tool: the names of stream-json 10, in one place.

What all points have in common is added by the runner; what a call is about is known to `tools/passage.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Facts = dict[str, Any]
LONGEST_TASK = 1_000  # characters of what is said about a task, as clients know it

Source = Literal["startup", "resume", "clear", "compact"]
Ending = Literal["clear", "logout", "prompt_input_exit", "other"]
Trigger = Literal["manual", "auto"]
Notice = Literal["permission_prompt", "idle_prompt"]


def of_prompt(prompt: str) -> Facts:
    return {"prompt": prompt}


def of_start(source: Source) -> Facts:
    return {"source": source}


def of_end(reason: Ending) -> Facts:
    return {"reason": reason}


def of_stop(*, active: bool, last: str, tasks: Sequence[Any] = (), crons: Sequence[Any] = ()) -> Facts:
    """`active`: the model goes on already because a hook wanted it. `last`: the text with which it ended."""
    return {
        "stop_hook_active": active,
        "last_assistant_message": last,
        "background_tasks": list(tasks),
        "session_crons": list(crons),
    }


def of_command(id: str, command: str, about: str) -> Facts:
    """One of the tasks in the background: a shell command that still runs."""
    return {
        "id": id,
        "type": "shell",
        "status": "running",
        "description": clipped(about or command),
        "command": clipped(command),
    }


def clipped(text: str) -> str:
    return (
        text
        if len(text) <= LONGEST_TASK
        else f"{text[:LONGEST_TASK]}\N{HORIZONTAL ELLIPSIS} [+{len(text) - LONGEST_TASK} chars]"
    )


def of_agent(agent_id: str, agent_type: str) -> Facts:
    """When a sub-agent starts. Its own calls have these two among their common facts."""
    return {"agent_id": agent_id, "agent_type": agent_type}


def of_agent_stop(agent_id: str, agent_type: str, *, transcript: str, active: bool, last: str) -> Facts:
    return {
        **of_agent(agent_id, agent_type),
        "agent_transcript_path": transcript,
        "stop_hook_active": active,
        "last_assistant_message": last,
    }


def of_compaction(trigger: Trigger, instructions: str | None = None) -> Facts:
    """Before it."""
    return {"trigger": trigger, "custom_instructions": instructions}


def of_summary(trigger: Trigger, summary: str) -> Facts:
    """After a compaction."""
    return {"trigger": trigger, "compact_summary": summary}


def of_notification(message: str, kind: Notice, title: str = "") -> Facts:
    return {"message": message, "notification_type": kind, **({"title": title} if title else {})}


def as_updates(about: Facts) -> list[Facts]:
    """What would cover the call that a question is `about`, in the shape in which it can be handed back. The mode comes
    first: clients take the first one, and it covers the next edit, too."""
    mode = about.get("suggested_mode")
    chosen = [{"type": "setMode", "mode": mode, "destination": "session"}] if mode else []
    return [*chosen, *[of_suggestion(one["rule"]) for one in about.get("suggestions", ())]]


def of_suggestion(rule: str) -> Facts:
    """A rule that would cover what is asked, as an update of the rules (stream-json 5.1). Whoever hands it back is not
    asked again in this project, as with Claude Code."""
    tool, opened, rest = rule.partition("(")
    one = {"toolName": tool} | ({"ruleContent": rest.removesuffix(")")} if opened else {})
    return {"type": "addRules", "rules": [one], "behavior": "allow", "destination": "localSettings"}
