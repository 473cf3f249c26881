"""Hooks of the settings, ready to be asked. Loaded only where there are some."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mainspring.cli.harmless import harmless
from mainspring.cli.sessions import Opened
from mainspring.hooks.commands import Shell, missing
from mainspring.hooks.points import Point
from mainspring.hooks.runner import Hook, Runner
from mainspring.secrets.redaction import redact
from mainspring.settings.values import Settings
from mainspring.tools.kit import Kit


def hooks_of(
    settings: Settings, kit: Kit, opened: Opened, brought: tuple[Hook, ...], said: Callable[[str], object]
) -> Runner:
    """`brought`: functions of a program that drives us. `said` hears what hooks have for the person."""
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

    def common() -> dict[str, Any]:
        return {
            "session_id": opened.session_id,
            "transcript_path": opened.journal.file if opened.journal is not None else "",
            "cwd": place.cwd,
            "permission_mode": kit.mode(),
        }

    return Runner(hooks, common=common, warn=warn, say=said)


def not_there(event: str, entry: dict[str, object]) -> str:
    return f"a {event} hook of the type '{entry.get('type')}' is not there yet (only 'command' is)"


def warn(text: str) -> None:
    print(f"mainspring: {harmless(redact(text))}", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """What a hook has for the person."""
    print(harmless(redact(text)), file=sys.stderr, flush=True)
