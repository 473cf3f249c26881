"""Somebody is to be told that a person is waited for: who is, of what, and that nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring.hooks.events import HookPoint, HookResult, NoHooks
from mainspring.hooks.payloads import permission_wanted, waiting_for_person
from mainspring.hooks.runner import Hook, HookRunner

NOTICE = HookPoint.NOTIFICATION
IDLE = {"message": "mainspring is waiting for your input", "notification_type": "idle_prompt", "title": "Waiting"}
ASKED = {
    "message": "mainspring needs your permission to use Bash",
    "notification_type": "permission_prompt",
    "title": "Permission needed",
}


class Heard:
    def __init__(self, *more: Hook) -> None:
        self.facts: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.warnings: list[str] = []
        self.one = asyncio.Event()
        hooks = (Hook(NOTICE, self._hear, "Nothing", name="mine"), *more)
        self.hooks = HookRunner(hooks, common=lambda: {"cwd": "/w"}, say=self.said.append, warn=self.warnings.append)

    async def _hear(self, facts: dict[str, Any]) -> HookResult:
        self.facts.append(facts)
        self.one.set()
        return HookResult(message="passed on", stop="its word does not count")


def test_a_person_is_asked_about_a_call() -> None:
    async def main() -> Heard:
        heard = Heard()
        permission_wanted(heard.hooks, "Bash")
        permission_wanted(heard.hooks, "Bash", ("agent-1", "Explore"))
        assert heard.facts == []  # nobody has waited
        await heard.hooks.close()
        return heard

    heard = asyncio.run(main())
    common = {"cwd": "/w", "hook_event_name": "Notification"}
    agent = {"agent_id": "agent-1", "agent_type": "Explore"}
    assert heard.facts == [{**common, **ASKED}, {**common, **agent, **ASKED}]
    assert heard.said == ["passed on"] * 2  # what it has for the person is shown


def test_one_that_fails_or_never_ends_holds_up_nobody() -> None:
    async def fails(_: dict[str, Any]) -> None:
        raise KeyError("x")

    async def sleeps(_: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async def main() -> Heard:
        heard = Heard(Hook(NOTICE, fails, name="bad"), Hook(NOTICE, sleeps, name="slow", blocks=True))
        permission_wanted(heard.hooks, "Bash")
        await heard.one.wait()
        await heard.hooks.close(grace=0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return heard

    assert asyncio.run(main()).warnings == ["the Notification hook 'bad' failed: KeyError: 'x'"]


def test_a_conversation_that_waits_says_so_once() -> None:
    async def main() -> Heard:
        heard = Heard()
        with waiting_for_person(heard.hooks, seconds=0):
            await heard.one.wait()
        with waiting_for_person(heard.hooks):
            pass  # the person was there at once
        await heard.hooks.close()
        return heard

    heard = asyncio.run(main())
    assert heard.facts == [{"cwd": "/w", "hook_event_name": "Notification", **IDLE}]


@pytest.mark.parametrize("hooks", [NoHooks(), HookRunner([])])
def test_without_hooks_nothing_is_told(hooks: NoHooks | HookRunner) -> None:
    async def main() -> None:
        permission_wanted(hooks, "Bash")
        hooks.tell(NOTICE, {})
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
