"""Hooks of the settings, ready to be asked. Loaded only where there are some."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.assembly.sessions import Opened
from mainspring.core.value import Bundle
from mainspring.hooks.commands import Shell, missing
from mainspring.hooks.facts import Facts, of_command, of_suggestion
from mainspring.hooks.points import Point
from mainspring.hooks.runner import Hook, Runner
from mainspring.settings.values import Settings
from mainspring.tools.kit import Kit


class Said(Bundle):
    """Who hears it."""

    warn: Callable[[str], object]  # what is wrong with hooks
    say: Callable[[str], object]  # what they have for the person


def hooks_of(settings: Settings, kit: Kit, opened: Opened, brought: tuple[Hook, ...], said: Said) -> Runner:
    """`brought`: functions of a program that drives us."""
    warn = said.warn
    place = kit.place
    shell = Shell(kit.children, kit.env, cwd=place.root, outside=(place.root, *place.folders))
    hooks: list[Hook] = [*brought]
    for hook in settings.hooks:
        point = next((one for one in Point if one == hook.event), None)
        if point is None:
            warn(f"'{hook.event}' is no point where a hook can stand; there are {', '.join(Point)}")
        elif hook.command.get("type") == "command":
            hooks.append(shell.hook(point, hook.matcher, hook.command))
        elif guard := missing(point, hook.matcher, hook.command):
            hooks.append(guard)
            warn(f"{not_there(hook.event, hook.command)}, and it guards: what it matches is refused")
        else:
            warn(f"{not_there(hook.event, hook.command)}: it is left out")

    def common() -> Facts:
        return {
            "session_id": opened.session_id,
            "transcript_path": opened.journal.file if opened.journal is not None else "",
            "cwd": place.cwd,
            "permission_mode": kit.mode(),
        }

    def at_the_end(_: Facts) -> Facts:
        running = [of_command(one.id, one.command, one.about) for one in kit.background.running]
        return {"background_tasks": running}

    more = {Point.STOP: at_the_end, Point.PERMISSION_REQUEST: as_updates}
    return Runner(hooks, common=common, more=more, warn=warn, say=said.say)


def as_updates(facts: Facts) -> Facts:
    """What would cover the call, in the shape in which a program can hand it back."""
    return {"permission_suggestions": [of_suggestion(one["rule"]) for one in facts.get("permission_suggestions", ())]}


def not_there(event: str, entry: dict[str, object]) -> str:
    return f"a {event} hook of the type '{entry.get('type')}' is not there yet (only 'command' is)"
