"""The hooks of a session: those of the settings, and functions of the host (stream-json 5.2 and 10). Loaded only if
there are any.

`attach_hook_watcher` pushes session updates when a hook starts and when it finishes (stream-json 6.7).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from mainspring.agent.host import HostHook
from mainspring.agent.resume import OpenedSession
from mainspring.agent.updates import HookFinished, HookStarted, UpdateStream
from mainspring.core.value import Bundle
from mainspring.hooks.commands import HookShell, make_failing_hook
from mainspring.hooks.events import HookPoint, Hooks
from mainspring.hooks.invocation import HookCallFinished, HookCallStarted
from mainspring.hooks.payloads import Facts, make_command_task
from mainspring.hooks.runner import SECONDS, Hook, HookRunner
from mainspring.settings.values import HookSetting as Setting
from mainspring.settings.values import Settings
from mainspring.text import did_you_mean
from mainspring.tools.builtin import BuiltinTools


class HookListeners(Bundle):
    warn: Callable[[str], object]  # receives problems of hooks
    say: Callable[[str], object]  # receives messages of hooks for the user


def hooks_of(  # noqa: PLR0913, PLR0917  # their inputs
    settings: Settings,
    kit: BuiltinTools,
    opened: OpenedSession,
    mode: Callable[[], str],
    brought: tuple[Hook, ...],
    said: HookListeners,
) -> HookRunner:
    """`brought`: functions of the host. `mode`: the permission mode in force."""
    warn = said.warn
    place = kit.place
    shell = HookShell(kit.children, kit.env, cwd=place.root, outside=(place.root, *place.folders))
    hooks: list[Hook] = [*brought, *make_settings_hooks(settings, shell, warn)]

    def common() -> Facts:
        return {
            "session_id": opened.session_id,
            "transcript_path": opened.journal.file if opened.journal is not None else "",
            "cwd": place.cwd,
            "permission_mode": mode(),
        }

    def at_the_end(_: Facts) -> Facts:
        running = [make_command_task(one.id, one.command, one.about) for one in kit.background.running]
        return {"background_tasks": running}

    more = {HookPoint.STOP: at_the_end}
    return HookRunner(hooks, common=common, more=more, warn=warn, say=said.say, before=place.before_writing)


def make_settings_hooks(settings: Settings, shell: HookShell, warn: Callable[[str], object]) -> Iterator[Hook]:
    """Warns about hooks that cannot run. Such a hook denies the calls that it would have checked."""
    for hook in settings.hooks:
        point = next((one for one in HookPoint if one == hook.event), None)
        if point is None:
            near = did_you_mean(hook.event, HookPoint)
            warn(f"{describe_hook_origin(hook)}: there is no hook event '{hook.event}', so it never runs{near}")
        elif hook.broken:  # already reported with the settings
            guard = make_failing_hook(
                point, hook.matcher, {}, f"{describe_hook_origin(hook)}: {hook.broken}", hook.entry
            )
            yield from [guard] if guard else []
        elif hook.command.get("type") == "command":
            yield shell.hook(point, hook.matcher, hook.command)
        else:
            yield from make_refusing_hook(hook, point, warn)


def make_refusing_hook(hook: Setting, point: HookPoint, warn: Callable[[str], object]) -> Iterator[Hook]:
    kind = hook.command.get("type")
    why = f"hooks of the type '{kind}' are not supported yet (only 'command' is)"
    if guard := make_failing_hook(point, hook.matcher, hook.command, why, f"{kind} hook"):
        warn(f"{describe_hook_origin(hook)}: {why}. Every call that it matches is denied")
        yield guard
    else:
        warn(f"{describe_hook_origin(hook)}: {why}. It is skipped")


def describe_hook_origin(hook: Setting) -> str:
    return f"{hook.origin.place}: '{hook.entry or hook.event}'"


MOST_SECONDS = 86_400.0
# The session has begun before the host sends its hooks.
NEVER_CALLED = frozenset({HookPoint.SESSION_START, HookPoint.SESSION_END})

Run = Callable[[str, dict[str, Any]], Awaitable[Any]]


def host_hooks(given: Iterable[HostHook], run: Run, warn: Callable[[str], object]) -> tuple[Hook, ...]:
    found: list[Hook] = []
    told: set[str] = set()
    for one in given:
        point = next((point for point in HookPoint if point == one.event), None)
        if point is not None and point not in NEVER_CALLED:
            found.append(make_host_hook(point, one, run))
        elif one.event not in told:
            told.add(one.event)
            warn(never_called(one.event))
    return tuple(found)


def never_called(event: str) -> str:
    if event in NEVER_CALLED:
        return f"hooks for '{event}' in the 'initialize' request never run: define them in the settings"
    near = did_you_mean(event, HookPoint)
    return f"hooks for '{event}' in the 'initialize' request never run: there is no such event{near}"


def make_host_hook(point: HookPoint, given: HostHook, run: Run) -> Hook:
    async def ask(payload: dict[str, Any]) -> Any:
        return await run(given.id, payload)

    seconds = given.seconds
    return Hook(
        point,
        ask,
        matcher=given.matcher,
        seconds=min(seconds, MOST_SECONDS) if seconds is not None and seconds > 0 else SECONDS,
        name=given.id,
        blocks=given.blocks,
    )


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
