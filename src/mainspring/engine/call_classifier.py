"""Asks the small model about a call, for mode auto. `permissions/classifier.py` has the question, the answer and the
limits; this module makes the side call, bounded in time, and counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.context.tokens import Ask, SideCall
from mainspring.core.messages import Stop, user
from mainspring.engine.tasks import end_all
from mainspring.permissions.classifier import (
    ClassifierAnswer,
    ClassifierLimits,
    UserPrompt,
    make_question,
    parse_answer,
)
from mainspring.permissions.policy import PermissionRequest
from mainspring.secrets import redact
from mainspring.text import plural

TIME_LIMIT = 15.0  # seconds for an answer of a line; the small model usually takes one or two
MAX_OUTPUT = 200  # tokens


class CallClassifier:
    """One for a session and its subagents. At most one side call for each tool call."""

    def __init__(
        self, ask: Callable[[], Ask], prompts: Callable[[], tuple[UserPrompt, ...]], time_limit: float = TIME_LIMIT
    ) -> None:
        """`prompts` returns the user's prompts so far. Tool results are not passed on: a file or a page must not be
        able to speak for itself."""
        self._ask, self._prompts, self._time_limit = ask, prompts, time_limit
        self._limits = ClassifierLimits()

    async def judge(self, asked: PermissionRequest) -> ClassifierAnswer:
        prompts = self._prompts()
        if not prompts:
            return ClassifierAnswer("skipped", "there is no prompt of yours to judge by")
        self._limits = self._limits.since(prompts[-1].id)
        if reached := self._limits.reached:
            return ClassifierAnswer("skipped", reached)
        question = make_question(prompts, asked)
        if question is None:
            return ClassifierAnswer("skipped", "the call is too long")
        self._limits = self._limits.count_question()
        answer = await self._answer(question)
        self._limits = self._limits.count_answer(answer)
        return answer

    async def _answer(self, question: str) -> ClassifierAnswer:
        call = SideCall((user(question),), MAX_OUTPUT, small=True)
        task = asyncio.ensure_future(self._ask()(call))
        try:
            await asyncio.wait({task}, timeout=self._time_limit)
            if not task.done():
                return ClassifierAnswer("failed", f"no answer within {plural(self._time_limit, 'second')}")
            reply = task.result()
        except Exception as error:  # noqa: BLE001  # whatever fails, the safe answer is to ask the user
            return ClassifierAnswer("failed", redact(str(error)))
        finally:  # also if the run is interrupted: the side call ends, and pays for what it has used
            await end_all([task])
        if reply.failed:
            return ClassifierAnswer("failed", redact(reply.failed))
        return parse_answer(redact(reply.text) if reply.stop is Stop.END_TURN else "")
