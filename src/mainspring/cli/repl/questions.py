"""Questions of running calls, put to whoever sits in front of the terminal: one at a time, in the order they came in.

A tool asks in words and understands words (`tools/question.py`, `tools/plan.py`, `tools/mcp/form.py`); here they become
something to choose from, and what was chosen becomes words again. Escape, and a no without words, end the run: the call
fails and says so, and nothing more is started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import msgspec

from mainspring.assembly.words import count
from mainspring.cli.granting import Granting, Tell
from mainspring.cli.repl.asked_texts import PlanSaid, of_plan, of_text
from mainspring.cli.repl.forms import form
from mainspring.cli.repl.menus import Clock
from mainspring.cli.repl.permission import Changes, granted, permission, plain_changes
from mainspring.cli.repl.sheet import Asking
from mainspring.core.errors import DeclinedError
from mainspring.core.messages import ToolCall
from mainspring.core.value import Bundle
from mainspring.engine.deps import Question
from mainspring.tools.approval import as_text
from mainspring.tools.plan import NOT_APPROVED
from mainspring.tools.question import QuestionInput, rendered

T = TypeVar("T")

DECLINED = "The user does not want to answer."


class Place(Protocol):
    """Where a question gets the keyboard."""

    def open(self, modal: Asking[Any]) -> None: ...

    def close(self, modal: Asking[Any]) -> None: ...

    def redraw(self) -> None: ...


class Outside(Bundle):
    """What questions need of the conversation."""

    place: Place
    granting: Granting
    call_of: Callable[[Question], Awaitable[ToolCall | None]]  # that asks; waits until it is known
    tell: Tell  # a line on paper
    warn: Tell
    interrupt: Callable[[], object]  # Ctrl-C: the run under way
    now: Clock
    changes: Changes = plain_changes


class Questions:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._one = asyncio.Lock()  # agents may ask at the same time, and there is one person
        self._waiting = 0
        self._open: Asking[Any] | None = None
        self._answers: tuple[str, dict[str, str]] = ("", {})  # of the call that asks several things, by their texts

    async def answer(self, question: Question) -> str:
        """Raises `DeclinedError` if nobody wants to."""
        call = None if is_permission(question.about) else await self._outside.call_of(question)
        self._waits(1)
        try:
            await self._one.acquire()
        finally:
            self._waits(-1)
        try:
            return await self._ask(question, call)
        finally:
            self._one.release()

    async def _ask(self, question: Question, call: ToolCall | None) -> str:
        outside = self._outside
        if is_permission(question.about):
            about = cast("dict[str, Any]", question.about)
            mode = outside.granting.mode
            said = await self._put(permission(about, now=outside.now, changes=outside.changes, mode=mode))
            return as_text(await granted(said, about, outside.granting, outside.tell, outside.warn))
        if call is not None and call.name == "AskUserQuestion" and (given := questions_of(call)) is not None:
            return await self._form(call.id, given, question.text)
        if (
            call is not None
            and call.name == "ExitPlanMode"
            and (plan := of_plan(question.text, outside.now)) is not None
        ):
            return await self._plan(plan)
        return wanted(await self._put(of_text(question.text, outside.now)))

    async def _plan(self, plan: Asking[PlanSaid]) -> str:
        said = await self._put(plan)
        if said.words == "no":
            raise DeclinedError(NOT_APPROVED)
        if said.mode:
            await self._outside.granting.set_mode(said.mode)
        return said.words

    async def _form(self, call_id: str, given: QuestionInput, text: str) -> str:
        """The tool asks one by one; the person is asked all at once, so that they can look at their answers."""
        known = self._answers[1] if self._answers[0] == call_id else {}
        if text in known:
            return known.pop(text)
        texts = [rendered(one, number, len(given.questions)) for number, one in enumerate(given.questions, 1)]
        if text not in texts:  # a hook has changed the call
            return wanted(await self._put(of_text(text, self._outside.now)))
        said = wanted(await self._put(form(given.questions, self._outside.now)))
        self._answers = (call_id, dict(zip(texts, said, strict=True)))
        return self._answers[1].pop(text)

    async def _put(self, asking: Asking[T]) -> T:
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
            self._open.note = f"({count(self._waiting, 'more question')} {waits})" if self._waiting else ""
            self._outside.place.redraw()


def is_permission(about: object) -> bool:
    return isinstance(about, dict) and "tool_name" in about


def questions_of(call: ToolCall) -> QuestionInput | None:
    try:
        return msgspec.convert(call.input, QuestionInput)
    except msgspec.ValidationError:
        return None


def wanted(said: T | None) -> T:
    if said is None:
        raise DeclinedError(DECLINED)
    return said
