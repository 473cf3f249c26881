"""Hooks as updates of a session: one when a hook is asked, one when it has answered (stream-json 6.7)."""

from __future__ import annotations

from mainspring.agent.updates import HookFinished, HookStarted, UpdateStream
from mainspring.hooks.events import Hooks
from mainspring.hooks.invocation import HookCallFinished, HookCallStarted
from mainspring.hooks.runner import HookRunner


class HookWatcher:
    def __init__(self, updates: UpdateStream) -> None:
        self._updates = updates

    async def starts(self, hook: HookCallStarted) -> None:
        self._updates.push(HookStarted(hook))

    def ended(self, hook: HookCallFinished) -> None:
        self._updates.push(HookFinished(hook))


def attach_hook_watcher(hooks: Hooks, updates: UpdateStream) -> None:
    if isinstance(hooks, HookRunner):
        hooks.watch(HookWatcher(updates))
