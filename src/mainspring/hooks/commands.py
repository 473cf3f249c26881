"""Hooks that are commands: the facts as JSON on standard input, an exit code and JSON back (stream-json 10).

0: what it printed counts, as JSON, or at a prompt or a start as text for the model. 2: no, and standard error says why.
Anything else is a failure of the hook. 126 and 127 mean that it could not be started: a guard then says no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainspring.hooks.answers import WrongAnswer, blocked, opinion_of
from mainspring.hooks.points import NOTHING, Opinion, Point
from mainspring.hooks.runner import SECONDS, Hook, Unasked
from mainspring.processes.child import Job, Limits
from mainspring.processes.children import Children, Ended
from mainspring.processes.programs import find

NO, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127
MOST_SHOWN = 2_000  # characters of standard error that are told

# What these print as plain text is for the model.
TEXT_IS_CONTEXT = (Point.USER_PROMPT_SUBMIT, Point.SESSION_START)


class Shell:
    """What all command hooks of a session share."""

    def __init__(self, children: Children, env: Mapping[str, str], *, cwd: str, outside: tuple[str, ...] = ()) -> None:
        self._children = children
        self._env = {**env, "CLAUDE_PROJECT_DIR": cwd}
        self._cwd = cwd
        self._outside = outside

    def hook(self, point: Point, matcher: str, entry: Mapping[str, object]) -> Hook:
        """From an entry of the settings, whose shape was checked when it was read."""
        command, seconds = str(entry["command"]), entry.get("timeout", SECONDS)

        async def ask(facts: dict[str, Any]) -> Opinion:
            return await self._ask(command, point, facts)

        return Hook(
            point,
            ask,
            matcher,
            float(seconds) if isinstance(seconds, int | float) else SECONDS,
            name=command[:80],
            blocks=entry.get("onFailure") == "block",
            aside=entry.get("async") is True,
        )

    async def _ask(self, command: str, point: Point, facts: dict[str, Any]) -> Opinion:
        shell = find("bash", outside=self._outside) or find("sh", outside=self._outside)
        if shell is None:
            raise Unasked("cannot be started: there is no shell")
        job = Job((shell, "-c", command), self._cwd, self._env, Limits(), msgspec.json.encode(facts))
        try:
            ended = await self._children.run(job)
        except (OSError, ValueError) as error:
            raise Unasked(f"cannot be started: {error}") from None
        return understood(ended, point)


def understood(ended: Ended, point: Point) -> Opinion:
    told = ended.stderr.text.strip()[:MOST_SHOWN]
    if ended.code == NO:
        return blocked(point, told or "A hook said no, and not why.")
    if ended.code in (NOT_EXECUTABLE, NOT_FOUND):
        raise Unasked(f"cannot be started: {told or f'exit code {ended.code}'}")
    if ended.code != 0:
        raise WrongAnswer(f"ended with exit code {ended.code}" + (f": {told}" if told else ""))
    printed = ended.stdout.text.strip()
    if printed.startswith("{"):
        try:
            return opinion_of(msgspec.json.decode(printed), point)
        except msgspec.MsgspecError as error:
            raise WrongAnswer(f"printed what is no JSON: {error}") from None
    if printed and point in TEXT_IS_CONTEXT:
        return Opinion(context=(printed,))
    return NOTHING
