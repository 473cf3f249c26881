"""The status line and the progress line.

The status line shows the permission mode, the folder and its git branch, the model, the context that is left, and what
the session has cost. It uses plain fragments, so that the first
prompt does not wait for rich.

`statusLine` in the settings names a command whose output replaces the right part. It runs after each run and after
other changes, one at a time, with the JSON that Claude Code sends such commands on standard input. Its first output
line is shown without colours; if it fails, nothing is shown.

The progress line says what is running and for how long. It is computed from the current time: nothing here waits.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from math import ceil
from typing import Any

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth
from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.tui.layout import clip_text
from mainspring.core.models import Model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.updates import Boundary, ReplyDone, ReplyStarted, Update
from mainspring.core.value import Bundle
from mainspring.hooks.commands import HookShell
from mainspring.hooks.invocation import HookCallError
from mainspring.text import format_elapsed, strip_control_characters, truncate
from mainspring.version import __version__

# Shift-Tab cycles through these. The other modes are set at the start; Shift-Tab leaves them, and returns only to auto
# and, where the session allows it, to bypassPermissions.
MODES = ("default", "acceptEdits", "plan")
AUTO, BYPASS = "auto", "bypassPermissions"
SAID = {
    "default": "? for shortcuts",
    "acceptEdits": "accepting edits (shift-tab)",
    "plan": "plan mode (shift-tab)",
    "dontAsk": "not asking: denied unless a rule allows it (shift-tab)",
    AUTO: "auto mode: a classifier approves what it can (shift-tab)",
    BYPASS: "bypassing permissions (shift-tab)",
}
STYLE = {
    "acceptEdits": "fg:ansimagenta",
    "plan": "fg:ansicyan",
    "dontAsk": "fg:ansiyellow",
    AUTO: "fg:ansiyellow",
    BYPASS: "bold fg:ansired",
}
PLAIN = "class:footer"
LONGEST_BRANCH = 30  # columns
MOST_HEAD = 1_000  # bytes of a file of git


def next_mode(mode: str, start: str = "default", *, may_bypass: bool = False) -> str:
    """`start`: the mode that the session started in. Only a session that started in auto can return to it."""
    modes: tuple[str, ...] = (*MODES, AUTO) if start == AUTO else MODES
    modes = (*modes, BYPASS) if may_bypass else modes
    return modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else modes[0]


class SessionFacts(Bundle):
    """What the status line shows of the session, besides its mode."""

    model: Model
    folder: str = ""  # as the user writes it, with '~'
    branch: str = ""
    spent: int = 0  # nano-dollars; 0: not shown
    waits: str = ""  # what waits for the user or in the background
    keys: str = ""  # the mode of vi keys


class StatusLine:
    def __init__(self) -> None:
        self._filled = 0  # tokens of the last request

    def see(self, update: Update) -> None:
        match update:
            case ReplyStarted() if update.usage.prompt:
                self._filled = update.usage.prompt
            case ReplyDone():
                self._filled = max(self._filled, update.usage.prompt) + update.usage.output
            case Boundary() if update.after:
                self._filled = update.after
            case _:
                pass

    def forget(self) -> None:
        """The user switched to another session."""
        self._filled = 0

    def line(self, width: int, mode: str, facts: SessionFacts, *, remark: str, own: str) -> StyleAndTextTuples:
        """`remark` replaces the mode, such as how to exit; `own`, the output of the user's command, replaces the state
        of the session."""
        left = remark or " · ".join([one for one in (facts.keys, SAID.get(mode, mode)) if one])
        style = PLAIN if remark else STYLE.get(mode, PLAIN)
        room = width - get_cwidth(left) - 5
        right = self._own(own, facts, room) if own else self._facts(facts, room)
        gap = width - get_cwidth(left) - get_cwidth(right) - 4
        if gap < 1:
            return [(style, f"  {left}"[:width])]
        return [(style, f"  {left}"), ("", " " * gap), (PLAIN, right)]

    def _own(self, own: str, facts: SessionFacts, room: int) -> str:
        return truncate(" · ".join([one for one in (facts.waits, own) if one]), room)

    def _facts(self, facts: SessionFacts, room: int) -> str:
        """As many as fit: the first of `dropped` go first."""
        shown = {
            "waits": facts.waits,
            "folder": facts.folder,
            "branch": facts.branch,
            "model": facts.model.name,
            "left": self._left(facts.model),
            "cost": f"${facts.spent / NANOS_PER_USD:.2f}" if facts.spent else "",
        }
        for dropped in ("", "cost", "branch", "folder", "left", "model"):
            shown.pop(dropped, None)
            words = " · ".join([one for one in shown.values() if one])
            if get_cwidth(words) <= room:
                return words
        return ""

    def _left(self, model: Model) -> str:
        """How much of the context window is left; nothing before the first reply."""
        used = min(100, 100 * self._filled // max(1, model.window))
        return f"{100 - used}% context left" if self._filled else ""


def find_branch(folder: str) -> str:
    """The git branch of a folder, from the files of git; empty if there is none. Runs nothing."""
    while folder.strip("/"):
        path = f"{folder}/.git"
        if (pointer := read_head(path)).startswith("gitdir: "):  # a worktree
            path = os.path.join(folder, pointer.removeprefix("gitdir: ").strip())  # noqa: PTH118
        if head := read_head(f"{path}/HEAD"):
            name = head.strip().removeprefix("ref: refs/heads/")
            return truncate(strip_control_characters(name), LONGEST_BRANCH) if name != head.strip() else name[:7]
        folder = folder.rpartition("/")[0]
    return ""


def read_head(path: str) -> str:
    try:
        if not os.path.isfile(path):  # noqa: PTH113
            return ""
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(MOST_HEAD).decode(errors="replace").partition("\n")[0]
    except OSError:
        return ""


SECONDS = 5.0
COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class StatusCommand:
    def __init__(self, talk: TerminalSession, command: str, changed: Callable[[], None]) -> None:
        self.text = ""
        self._talk, self._command, self._changed = talk, command, changed
        self._asked = self._again = False
        self._task: asyncio.Future[None] | None = None

    def ask(self) -> None:
        """Run the command soon. Requests during a run are combined into one more run."""
        if self._asked:
            self._again = True
            return
        self._asked = True
        self._task = asyncio.ensure_future(self._ask())

    def close(self) -> None:
        """The status line is no longer shown."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        try:
            self.text = await self._line()
        finally:
            self._asked = False
        self._changed()
        if self._again:
            self._again = False
            self.ask()

    async def _line(self) -> str:
        kit = self._talk.world.kit
        shell = HookShell(kit.children, kit.env, cwd=kit.place.root, outside=(kit.place.root, *kit.place.folders))
        try:
            async with asyncio.timeout(SECONDS):
                ended = await kit.children.run(shell.job(self._command, self._facts()))
        except (TimeoutError, OSError, ValueError, HookCallError):
            return ""
        lines = COLOURS.sub("", ended.stdout.text).strip().splitlines()
        return strip_control_characters(lines[0]).strip() if lines and ended.code == 0 else ""

    def _facts(self) -> dict[str, Any]:
        world, config, place = self._talk.world, self._talk.config, self._talk.world.kit.place
        journal, name, usage = self._talk.opened.journal, self._talk.model.name, self._talk.session.usage
        return {
            "hook_event_name": "Status",
            "session_id": world.about.session_id,
            "transcript_path": journal.file if journal is not None else "",
            "cwd": place.cwd,
            "model": {"id": name, "display_name": name},
            "workspace": {"current_dir": place.cwd, "project_dir": config.cwd, "added_dirs": list(place.folders)},
            "version": __version__,
            "output_style": {"name": world.about.output_style},
            "cost": {
                "total_cost_usd": world.session.shared.ledger.account.spent / NANOS_PER_USD,
                "prefix_breaks": sum([times for times, _ in usage.breaks.values()]),  # this and the next are our own
                "prefix_break_cost_usd": usage.break_cost / NANOS_PER_USD,
            },
        }


TURNS = ("·", "*", "✻", "*")  # frames of the glyph in front
TURN = 0.2  # seconds per frame
LETTERS = 4  # per token, until the model reports the count
WAYS_OUT = "esc to interrupt"

ASKING, THINKING, WRITING = "Asking the model", "Thinking", "Writing"
SUMMARISING = "Compacting the conversation"


class ProgressLine:
    def __init__(self, now: float) -> None:
        self.doing = ASKING
        self._began = now
        self._tokens = 0  # of complete replies
        self._letters = 0  # of the streaming reply
        self._again: tuple[float, str] | None = None  # when the next attempt starts, and the text until then

    def does(self, what: str) -> None:
        self.doing, self._again = what, None

    def hears(self, letters: int) -> None:
        self._letters += letters

    def reply_is_done(self, tokens: int) -> None:
        self._tokens += tokens or self._letters // LETTERS
        self._letters = 0

    def reply_is_lost(self) -> None:
        self._letters = 0

    def tries_again(self, at: float, words: str) -> None:
        self._again = (at, words)

    def line(self, now: float, width: int, calls: str = "", *, asks: bool = False) -> Text:
        """`calls`: text about running calls, which replaces the rest. `asks`: Esc answers a question instead of
        interrupting."""
        glyph = TURNS[int(max(0.0, now - self._began) / TURN) % len(TURNS)]
        tokens = self._tokens + self._letters // LETTERS
        facts = [
            format_elapsed(now - self._began),
            f"↓ {format_thousands(tokens)} tokens" if tokens else "",
            "" if asks else WAYS_OUT,
        ]
        head, told = f"{glyph} {calls or self._words(now)}…", [fact for fact in facts if fact]
        while len(told) > 1 and cell_len(f"{head} ({' · '.join(told)})") > width:
            told.pop(0)  # how to stop it is the last
        return clip_text(Text.assemble((head, "busy"), (f" ({' · '.join(told)})", "detail")), width)

    def _words(self, now: float) -> str:
        if self._again is None:
            return self.doing
        at, words = self._again
        left = max(0, ceil(at - now))
        return f"{words}, retrying in {format_elapsed(left)}" if left else f"{words}, retrying now"


def format_thousands(number: int) -> str:
    return f"{number / 1_000:.1f}k" if number >= 1_000 else str(number)
