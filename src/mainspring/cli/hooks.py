"""Hooks of the settings, ready to be asked. Loaded only where there are some."""

from __future__ import annotations

import sys
from typing import Any

from mainspring.cli.harmless import harmless
from mainspring.cli.sessions import Opened
from mainspring.hooks.commands import Shell
from mainspring.hooks.points import Point
from mainspring.hooks.runner import Hook, Runner
from mainspring.settings.values import Settings
from mainspring.tools.kit import Kit


def hooks_of(settings: Settings, kit: Kit, opened: Opened) -> Runner:
    place = kit.place
    shell = Shell(kit.children, kit.env, cwd=place.root, outside=(place.root, *place.folders))
    hooks: list[Hook] = []
    for hook in settings.hooks:
        if hook.event not in set(Point):
            warn(f"'{hook.event}' is no point where a hook can stand; there are {', '.join(Point)}")
        elif hook.command.get("type") != "command":
            warn(f"a {hook.event} hook of the type '{hook.command.get('type')}' is not there yet: only 'command' is")
        else:
            hooks.append(shell.hook(Point(hook.event), hook.matcher, hook.command))

    def common() -> dict[str, Any]:
        return {
            "session_id": opened.session_id,
            "transcript_path": opened.journal.file if opened.journal is not None else "",
            "cwd": place.cwd,
        }

    return Runner(hooks, common=common, warn=warn)


def warn(text: str) -> None:
    print(f"mainspring: {harmless(text)}", file=sys.stderr, flush=True)
