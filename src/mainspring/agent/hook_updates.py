"""Hooks as updates of a session: one when a hook is asked, one when it has answered (stream-json 6.7)."""

from __future__ import annotations

from mainspring.agent.updates import HookFinished, HookStarted, UpdateStream
from mainspring.hooks.points import Hooks
from mainspring.hooks.runner import Runner
from mainspring.hooks.seen import Answered, Started


class HookWatcher:
    def __init__(self, updates: UpdateStream) -> None:
        self._updates = updates

    async def starts(self, hook: Started) -> None:
        self._updates.push(HookStarted(hook))

    def ended(self, hook: Answered) -> None:
        self._updates.push(HookFinished(hook))


def watch(hooks: Hooks, updates: UpdateStream) -> None:
    if isinstance(hooks, Runner):
        hooks.watch(HookWatcher(updates))
