"""Puts a question of a running call to whoever sits in front of the terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.agent.permission_updates import READ, ApprovalScopes, deny_approval, get_approval_reason, get_rule_offer
from mainspring.cli.flags import show_argument
from mainspring.cli.output import TerminalOutput, TextStyle
from mainspring.cli.plain_input import AT_ONCE, drop_typed_ahead, input_waits, take_typed_ahead
from mainspring.core.errors import DeclinedError
from mainspring.text import plural, strip_control_characters
from mainspring.tools.base import Approval
from mainspring.tools.plan import NOT_APPROVED, asks_for_approval
from mainspring.tools.question import render_question

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates

YES, ALWAYS, PROJECT, NO = ("y", "yes"), ("a", "always"), ("p", "project"), ("n", "no", "")
MOST_LINE = 65_536  # bytes of an answer; a little more if it is pasted
MOST_CHANGES = 60  # lines of an edit that are shown


class PlainHost(NoHost):
    """The person at a plain terminal, as the host of a session."""

    reach: Reach = "during_run"

    def __init__(self, output: TerminalOutput, permissions: Callable[[], PermissionUpdates]) -> None:
        self._output = output
        self._granting = ApprovalScopes(permissions)
        self._early = ""  # typed while a question came
        self._one = asyncio.Lock()  # agents may ask at the same time, and there is one person

    async def ask(self, questions: QuestionSet) -> Answers:
        async with self._one:
            if questions.questions is None:
                return Answers(await self._answered(questions.text))
            asked = questions.questions.questions
            texts = [render_question(one, number, len(asked)) for number, one in enumerate(asked, 1)]
            return Answers(
                by_question={one.question: await self._answered(text) for one, text in zip(asked, texts, strict=True)}
            )

    async def _answered(self, text: str) -> str:
        self._output.line(strip_control_characters(text), TextStyle.BOLD)
        said = await self._line("> ")
        if said.strip().lower() in NO and asks_for_approval(text):
            raise DeclinedError(NOT_APPROVED)
        return said

    async def approve(self, request: ApprovalRequest) -> Approval:
        async with self._one:
            return await self._permission(request.facts)

    async def _permission(self, about: dict[str, Any]) -> Approval:
        """All of what will be done is shown, and what a rule would cover."""
        offered = get_rule_offer(about)
        self._output.line()
        self._output.line(strip_control_characters(about["shown"]), TextStyle.BOLD)
        for line, style in list_edit_lines(about["input"]):
            self._output.line(strip_control_characters(line), style)
        self._output.line(strip_control_characters(get_approval_reason(about)), TextStyle.DIM)
        if offered:
            self._output.line(
                f"'a' allows, for the rest of this session: {strip_control_characters(offered.covers)}", TextStyle.DIM
            )
            rules = strip_control_characters(", ".join(offered.rules))
            self._output.line(f"'p' allows, and does not ask again in this project for: {rules}", TextStyle.DIM)
        choices = "y/a/p/n" if offered else "y/n"
        while True:
            said = (await self._line(f"Do it? [{choices}] ")).strip()
            if said.lower() in YES:
                return Approval("allow")
            if said.lower() in (*ALWAYS, *PROJECT) and offered:
                await self._granting.add(offered.rules)
                if said.lower() in PROJECT:
                    await self._granting.keep(offered.rules, self._told, self._warned)
                return Approval("allow")
            if said.lower() in NO:
                return deny_approval()
            if len(said) > 1:  # words are for the model
                return deny_approval(said)

    def _told(self, words: str) -> None:
        self._output.line(words, TextStyle.DIM)

    def _warned(self, words: str) -> None:
        self._output.line(words, TextStyle.YELLOW)

    async def _line(self, prompt: str) -> str:
        """Not `input`: the event loop runs on, and an interrupt must end the wait."""
        await self._until_nobody_types()
        self._output.piece(prompt)
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def ready() -> None:
            if not typed.done():
                typed.set_result(read_answer_lines())

        loop.add_reader(0, ready)
        try:
            said = await typed
            self._output.note_enter()
            return said.rstrip("\n")
        except asyncio.CancelledError:  # the call was interrupted: half an answer is no prompt
            drop_typed_ahead()
            raise
        finally:
            loop.remove_reader(0)
            self._output.end_text()

    async def _until_nobody_types(self) -> None:
        """What is typed before there is a prompt for the answer was meant for the next prompt, and is kept for it."""
        self._early += take_typed_ahead()
        while os.isatty(0):
            await asyncio.sleep(READ)
            if not (typed := take_typed_ahead()):
                return
            self._early += typed

    def take_early(self) -> str:
        early, self._early = self._early, ""
        return early


def read_answer_lines() -> str:
    """One, or all that were pasted: a terminal hands them out one by one."""
    found = os.read(0, MOST_LINE)
    while found.endswith(b"\n") and len(found) < MOST_LINE and input_waits(AT_ONCE):
        found += os.read(0, MOST_LINE)
    return show_argument(os.fsdecode(found))


def list_edit_lines(input: dict[str, Any]) -> list[tuple[str, TextStyle]]:
    """What an edit takes away and what it puts there."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    lines = [(f"  - {line}", TextStyle.RED) for line in str(gone).splitlines()]
    lines += [(f"  + {line}", TextStyle.GREEN) for line in str(new).splitlines()]
    if len(lines) <= MOST_CHANGES:
        return lines
    return [*lines[:MOST_CHANGES], (f"  ... {plural(len(lines) - MOST_CHANGES, 'more line')}", TextStyle.DIM)]
