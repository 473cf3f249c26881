"""Questions of running calls, and hooks of the host: put to it when the reader has taken every earlier update."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.agent.host import Answers, ApprovalRequest, Host, HostHook, QuestionSet
from mainspring.text import as_object

if TYPE_CHECKING:
    from mainspring.core.messages import ToolCall
    from mainspring.engine.deps import CallQuestion
    from mainspring.hooks.runner import Hook
    from mainspring.tools.question import QuestionInput

Tell = Callable[[str], object]


class HostQuestions:
    def __init__(
        self,
        host: Host,
        caught_up: Callable[[], Awaitable[None]],
        asks: Callable[[int], object],
        update_permissions: Callable[[object], Awaitable[None]],
    ) -> None:
        """`asks` hears when a question is put, and when it is answered: 1 and -1."""
        self._host, self._caught_up, self._asks = host, caught_up, asks
        self._update_permissions = update_permissions
        self._answers: dict[str, dict[str, str]] = {}  # of a call with several questions, by the text of each

    def forget(self) -> None:
        """The run is over, and with it all that was asked."""
        self._answers.clear()

    async def answer(self, question: CallQuestion) -> str:
        """Raises `DeclinedError` or `ToolError` if nobody wants to."""
        about = as_object(question.about)
        if "tool_name" in about:
            return await self._approval(about)
        if question.call is not None and question.call.name == "AskUserQuestion":
            asked = questions_in(question.call)
            if asked is not None and (named := question_with(question.text, asked)) is not None:
                return await self._one_of(question.call, asked, question.text, named)
        plan = question.call is not None and question.call.name == "ExitPlanMode"
        answers = await self._asked(QuestionSet("plan" if plan else "form", question.text, question.call))
        return answers.text

    async def _approval(self, about: dict[str, Any]) -> str:
        from mainspring.tools.base import approval_to_text

        request = ApprovalRequest(about["tool_name"], about["input"], about.get("tool_use_id", ""), about)
        async with self._turn():
            said = await self._host.approve(request)
        if said.behavior == "allow" and said.updates:
            await self._update_permissions(said.updates)
        return approval_to_text(replace(said, updates=None))

    async def _one_of(self, call: ToolCall, asked: QuestionInput, text: str, named: str) -> str:
        """The tool asks one by one; the host is asked once, for all of them."""
        if call.id not in self._answers:
            answers = await self._asked(QuestionSet("questions", text, call, asked))
            self._answers[call.id] = dict(answers.by_question)
        return self._answers[call.id].get(named, "")

    async def _asked(self, questions: QuestionSet) -> Answers:
        async with self._turn():
            answers = await self._host.ask(questions)
        if answers.updates:
            await self._update_permissions(answers.updates)
        return answers

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Somebody is wanted, and everything that happened before is shown."""
        self._asks(1)
        try:
            await self._caught_up()
            yield
        finally:
            self._asks(-1)

    # --- hooks ---

    def hooks(self, given: Iterable[HostHook], tell: Tell) -> tuple[Hook, ...]:
        if not given:
            return ()
        from mainspring.agent.host_hooks import host_hooks

        return host_hooks(given, self._run_hook, tell)

    async def _run_hook(self, hook_id: str, payload: dict[str, Any]) -> Any:
        await self._caught_up()
        return await self._host.run_hook(hook_id, payload)


def questions_in(call: ToolCall) -> QuestionInput | None:
    import msgspec

    from mainspring.tools.question import QuestionInput

    try:
        return msgspec.convert(call.input, QuestionInput)
    except msgspec.ValidationError:
        return None


def question_with(text: str, asked: QuestionInput) -> str | None:
    """Which of them a tool asks with these words; None: a hook has changed the call."""
    from mainspring.tools.question import render_question

    total = len(asked.questions)
    return next(
        (one.question for at, one in enumerate(asked.questions, 1) if render_question(one, at, total) == text), None
    )
