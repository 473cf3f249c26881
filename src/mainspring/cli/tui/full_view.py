"""The full views of the terminal: the conversation (Ctrl-O), a subagent, the output of a command.

A view has the whole terminal and the keyboard. A question of a tool call opens over it. To open an editor it is closed
and opened again at the same place.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.cli.clipboard import copy_text
from mainspring.cli.tui.layout import one_line
from mainspring.cli.tui.transcript import ConversationDocument, OutputDocument, TranscriptDocument
from mainspring.cli.tui.transcript_view import Position, TranscriptView
from mainspring.core.errors import MainspringError
from mainspring.processes.child import UserProgram
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.agent.background_tasks import BackgroundTask
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.run_view import RunView
    from mainspring.cli.tui.screen import Screen

EDITORS = ("editor", "nano", "vim", "vi")
BEAT = 0.5  # seconds between two drawings of a task that runs

GiveAway = Callable[[], AbstractAsyncContextManager[None]]


class FullViews:
    def __init__(self, talk: TerminalSession, stage: Screen, shown: RunView, give_away: GiveAway) -> None:
        self._talk, self._stage, self._shown, self._give_away = talk, stage, shown, give_away

    async def show_conversation(self) -> None:
        talk = self._talk
        shown = self._shown
        document = ConversationDocument(
            lambda: talk.world.session.current.history, shown.streamed, root=talk.config.cwd, recent=shown.recent
        )
        await self._show(lambda: "Transcript", document)

    async def show_task(self, task_id: str) -> None:
        """Follow a subagent or the output of a command. A message typed there goes to the subagent."""
        task = find_task(self._talk, task_id)
        if task is None:
            return
        if task.kind == "command":
            document: TranscriptDocument = OutputDocument(lambda: find_task(self._talk, task_id))
            await self._show(lambda: self._title(task_id), document, beats=True)
        else:
            history = task.history
            assert history is not None  # a subagent has one
            document = ConversationDocument(history, root=self._talk.config.cwd, more=lambda: self._doing(task_id))
            await self._show(lambda: self._title(task_id), document, steers=task_id if task.runs else "", beats=True)

    def _title(self, task_id: str) -> str:
        task = find_task(self._talk, task_id)
        return f"{task.about or task.title} · {task.state}" if task is not None else "(gone)"

    def _doing(self, task_id: str) -> str:
        task = find_task(self._talk, task_id)
        return f"Running {task.last_call}" if task is not None and task.runs and task.last_call else ""

    async def _show(
        self, title: Callable[[], str], document: TranscriptDocument, *, steers: str = "", beats: bool = False
    ) -> None:
        at: Position | None = None

        def steer(view: TranscriptView, words: str) -> None:
            self._talk.beside(self._steer(view, steers, words))

        def copy(view: TranscriptView, text: str) -> None:
            self._talk.beside(self._copy(view, text))

        while True:
            view = TranscriptView(
                title,
                document,
                redraw=self._stage.redraw,
                copy=copy,
                steer=steer if steers else None,
                at=at,
            )
            if await self._run(view, beats=beats) != "edit":
                return
            at = view.position
            await self._edit(document)

    async def _run(self, view: TranscriptView, *, beats: bool) -> str:
        self._stage.open(view)
        try:
            while beats and not view.over:
                await asyncio.wait({answer := asyncio.ensure_future(view.answer())}, timeout=BEAT)
                answer.cancel()
                self._stage.redraw()
            return await view.answer()
        finally:
            view.close()
            self._stage.close(view)

    async def _steer(self, view: TranscriptView, task_id: str, words: str) -> None:
        try:
            heard = await self._talk.session.message_task(task_id, words)
        except (MainspringError, OSError) as error:
            view.remark(f"Not sent: {error}")
            return
        view.remark("Sent: the subagent reads it with its next request." if heard else "Not sent: it has ended.")

    # --- copy and edit ------------------------------------------------------------------------------------------------

    async def _copy(self, view: TranscriptView, text: str) -> None:
        """To the clipboard, or to a file if nothing takes it."""
        where = await copy_text(text, os.environ, self._talk.config.cwd, self._stage.write_sequence)
        if not where:
            try:
                where = f"'{write_private(text, '.txt')}': no clipboard takes it"
            except OSError as error:
                view.remark(f"Cannot copy: {error.strerror}.")
                return
        view.remark(f"Copied {plural(len(text), 'character')} to {where}.")

    async def _edit(self, document: TranscriptDocument) -> None:
        """Open all of it in the user's editor. Changes are not read."""
        editor = find_editor(os.environ)
        if not editor:
            self._talk.output.line("No editor found. Set EDITOR.")
            return
        text = "\n\n".join([words for part in range(document.first, document.end) if (words := document.text(part))])
        try:
            path = write_private(text, ".md")
        except OSError as error:
            self._talk.output.line(f"Cannot write the transcript: {error.strerror}.")
            return
        try:
            async with self._give_away():
                await UserProgram((*editor, path)).wait_or_end()
        except OSError as error:
            self._talk.output.line(f"Cannot start '{one_line(editor[0])}': {error.strerror}. Check EDITOR.")
        finally:
            await asyncio.to_thread(Path(path).unlink, missing_ok=True)


def write_private(text: str, ending: str) -> str:
    """A new file that only the user can read; returns its path. Raises `OSError`."""
    fd, path = tempfile.mkstemp(prefix="mainspring-transcript-", suffix=ending)
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path


def find_task(talk: TerminalSession, task_id: str) -> BackgroundTask | None:
    return next((task for task in talk.session.tasks() if task.id == task_id), None)


def find_editor(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The command of the user's editor; empty: none was found."""
    for name in ("VISUAL", "EDITOR"):
        if words := environ.get(name, "").strip():
            try:
                return tuple(shlex.split(words))
            except ValueError:  # an open quote
                return (words,)
    import shutil

    return next(((found,) for name in EDITORS if (found := shutil.which(name))), ())
