"""The user at the terminal, as the host of a session: menus for approvals and questions, one at a time, in order.

A tool asks in text and parses text (`tools/question.py`, `tools/plan.py`, `mcp/elicitation.py`); this module turns the
text into choices, and the selection back into text. Escape, and a denial without a reason, end the run: the call fails
with an error that says so, and no other call starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.agent.permission_updates import ApprovalScopes, Tell
from mainspring.cli.output import TextStyle
from mainspring.cli.terminal_session import LineWriter
from mainspring.cli.tui.dialog import Dialog, make_question_form
from mainspring.cli.tui.menu import Clock
from mainspring.cli.tui.permission_dialog import (
    PlanAnswer,
    apply_permission_choice,
    make_permission_dialog,
    make_plan_dialog,
    make_text_dialog,
)
from mainspring.core.errors import DeclinedError
from mainspring.core.value import Bundle
from mainspring.text import plural
from mainspring.tools.base import Approval
from mainspring.tools.plan import NOT_APPROVED

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.cli.tui.screen import Screen


T = TypeVar("T")

DECLINED = "The user does not want to answer."


class DialogScreen(Protocol):
    """The screen that gives a dialog the keyboard."""

    def open(self, modal: Dialog[Any]) -> None: ...

    def close(self, modal: Dialog[Any]) -> None: ...

    def redraw(self) -> None: ...


class QuestionContext(Bundle):
    """What dialogs need from the session."""

    place: DialogScreen
    granting: ApprovalScopes
    tell: Tell  # print a line to the scrollback
    warn: Tell
    interrupt: Callable[[], object]  # Ctrl-C: interrupt the run
    now: Clock
    root: str = ""  # the folder that paths are relative to


class QuestionQueue:
    def __init__(self, outside: QuestionContext) -> None:
        self._outside = outside
        self._one = asyncio.Lock()  # subagents may ask at the same time, and there is one user
        self._waiting = 0
        self._open: Dialog[Any] | None = None

    async def approve(self, request: ApprovalRequest) -> Approval:
        outside, about = self._outside, request.facts
        async with self._turn():
            mode = outside.granting.mode
            said = await self._put(make_permission_dialog(about, now=outside.now, mode=mode, root=outside.root))
            return await apply_permission_choice(said, outside.granting, outside.tell, outside.warn)

    async def ask(self, questions: QuestionSet) -> Answers:
        """Raises `DeclinedError` if the user declines."""
        now = self._outside.now
        async with self._turn():
            if questions.questions is not None:
                asked = questions.questions.questions
                said = require_answer(await self._put(make_question_form(asked, now)))
                return Answers(by_question=dict(zip([one.question for one in asked], said, strict=True)))
            if questions.kind == "plan" and (plan := make_plan_dialog(questions.text, now)) is not None:
                return Answers(await self._plan(plan))
            return Answers(require_answer(await self._put(make_text_dialog(questions.text, now))))

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """One dialog at a time, in the order of the requests."""
        self._waits(1)
        try:
            await self._one.acquire()
        finally:
            self._waits(-1)
        try:
            yield
        finally:
            self._one.release()

    async def _plan(self, plan: Dialog[PlanAnswer]) -> str:
        said = await self._put(plan)
        if said.words == "no":
            raise DeclinedError(NOT_APPROVED)
        if said.mode:
            await self._outside.granting.set_mode(said.mode)
        return said.words

    async def _put(self, asking: Dialog[T]) -> T:
        self._open = asking
        self._note()
        self._outside.place.open(asking)
        try:
            said = await asking.answer()
        finally:
            asking.close()
            self._open = None
            self._outside.place.close(asking)
        if asking.broken_off:
            self._outside.interrupt()
        return said

    def _waits(self, more: int) -> None:
        self._waiting += more
        self._note()

    def _note(self) -> None:
        if self._open is not None:
            waits = "waits" if self._waiting == 1 else "wait"
            self._open.note = f"({plural(self._waiting, 'more question')} {waits})" if self._waiting else ""
            self._outside.place.redraw()


def require_answer(said: T | None) -> T:
    if said is None:
        raise DeclinedError(DECLINED)
    return said


class TerminalHost(NoHost):
    reach: Reach = "during_run"

    def __init__(
        self,
        lines: LineWriter,
        stage: Callable[[], Screen],
        permissions: Callable[[], PermissionUpdates],
        interrupt: Callable[[], object],
        root: str = "",
    ) -> None:
        """`stage`: the screen for the menus. `interrupt`: interrupts the run. `root`: paths are relative to it."""
        self._lines, self._stage, self._interrupt, self._root = lines, stage, interrupt, root
        self._granting = ApprovalScopes(permissions)
        self._questions: QuestionQueue | None = None

    async def approve(self, request: ApprovalRequest) -> Approval:
        return await self._asking().approve(request)

    async def ask(self, questions: QuestionSet) -> Answers:
        return await self._asking().ask(questions)

    def _asking(self) -> QuestionQueue:
        if self._questions is None:
            stage = self._stage()
            self._questions = QuestionQueue(
                QuestionContext(
                    place=stage,
                    granting=self._granting,
                    tell=lambda words: self._lines.line(words, TextStyle.DIM),
                    warn=lambda words: self._lines.line(words, TextStyle.YELLOW),
                    interrupt=self._interrupt,
                    now=stage.attended,
                    root=self._root,
                )
            )
        return self._questions
