"""What somebody who looks elsewhere is told: a person is waited for. Hooks at `Notification` pass it on, to a telephone
or with a sound; nobody waits for them, and what they answer does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from mainspring.hooks.events import HookPoint, Hooks
from mainspring.hooks.payloads import make_notification_payload, make_subagent_start_payload

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
