"""The side call of mode auto: bounded in time and number, and never in the way of an interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mainspring.context.tokens import SideCall, SideCallReply
from mainspring.core.messages import Stop
from mainspring.engine.call_classifier import TIME_LIMIT, CallClassifier
from mainspring.permissions.classifier import LONGEST_CALL, MOST_ASKED, ClassifierAnswer, UserPrompt
from mainspring.permissions.policy import PermissionRequest
from mainspring.testing import virtually

PROMPT = UserPrompt("1", "Make it.")
ASKED = PermissionRequest("Bash", {"command": "make"}, "/work")
YES = SideCallReply("ALLOW: yes")


class Asking:
    """Answers side calls, and remembers them."""

    def __init__(self, answer: Callable[[], Awaitable[SideCallReply]] | SideCallReply = YES) -> None:
        self._answer, self.prompts = answer, [PROMPT]
        self.calls: list[SideCall] = []
        self.begun, self.ended = asyncio.Event(), 0
        self.classifier = CallClassifier(lambda: self, lambda: tuple(self.prompts))

    async def __call__(self, question: SideCall) -> SideCallReply:
        self.calls.append(question)
        self.begun.set()
        try:
            return self._answer if isinstance(self._answer, SideCallReply) else await self._answer()
        finally:
            self.ended += 1

    def judge(self, asked: PermissionRequest = ASKED) -> ClassifierAnswer:
        return virtually(self.classifier.judge(asked))


async def never() -> SideCallReply:
    await asyncio.Event().wait()
    raise AssertionError


async def break_off() -> SideCallReply:
    raise OSError("the network is down, and the key is sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaa")


def test_one_short_call_to_the_small_model() -> None:
    asking = Asking()
    assert asking.judge() == ClassifierAnswer("allow", "yes")
    [call] = asking.calls
    assert call.small
    assert len(call.messages) == 1
    assert '"command": "make"' in call.messages[0].text


@pytest.mark.parametrize(
    ("reply", "kind", "reason"),
    [
        (SideCallReply("", failed="there is no money left"), "failed", "there is no money left"),
        (SideCallReply("ALLOW: yes", stop=Stop.MAX_TOKENS), "failed", "its answer is not clear"),
        (SideCallReply("ALLOW: yes", stop=Stop.REFUSAL), "failed", "its answer is not clear"),
        (SideCallReply("Yes"), "failed", "its answer is not clear"),
        (SideCallReply("ASK: no"), "ask", "no"),
    ],
)
def test_what_else_comes_back_allows_nothing(reply: SideCallReply, kind: str, reason: str) -> None:
    found = Asking(reply).judge()
    assert (found.kind, found.reason) == (kind, reason)


def test_an_error_is_no_answer_and_its_secrets_are_not_journaled() -> None:
    found = Asking(break_off).judge()
    assert found.kind == "failed"
    assert "the network is down" in found.reason
    assert "aaaaaaaa" not in found.reason


def test_it_waits_for_a_limited_time_and_ends_the_call() -> None:
    async def main() -> None:
        asking, loop = Asking(never), asyncio.get_running_loop()
        began = loop.time()
        assert await asking.classifier.judge(ASKED) == ClassifierAnswer("failed", "no answer within 15 seconds")
        assert loop.time() - began == pytest.approx(TIME_LIMIT)
        assert (len(asking.calls), asking.ended) == (1, 1)

    virtually(main())


def test_after_three_failures_it_is_not_asked_until_the_next_prompt() -> None:
    async def main() -> None:
        asking = Asking(break_off)
        kinds = [(await asking.classifier.judge(ASKED)).kind for _ in range(5)]
        assert kinds == ["failed"] * 3 + ["skipped"] * 2
        assert len(asking.calls) == 3
        asking.prompts.append(UserPrompt("2", "Go on."))
        assert (await asking.classifier.judge(ASKED)).kind == "failed"
        assert len(asking.calls) == 4

    virtually(main())


def test_it_is_asked_a_limited_number_of_times_after_a_prompt() -> None:
    async def main() -> None:
        asking = Asking()
        kinds = [(await asking.classifier.judge(ASKED)).kind for _ in range(MOST_ASKED + 5)]
        assert kinds == ["allow"] * MOST_ASKED + ["skipped"] * 5

    virtually(main())


def test_calls_at_the_same_time_share_the_limit() -> None:
    async def main() -> None:
        asking = Asking()
        found = await asyncio.gather(*[asking.classifier.judge(ASKED) for _ in range(MOST_ASKED + 20)])
        assert len(asking.calls) == MOST_ASKED
        assert [one.kind for one in found].count("skipped") == 20

    virtually(main())


def test_without_a_prompt_and_about_a_long_call_it_is_not_asked() -> None:
    asking = Asking()
    long = PermissionRequest("Bash", {"command": "x" * LONGEST_CALL}, "/work")
    assert asking.judge(long) == ClassifierAnswer("skipped", "the call is too long")
    asking.prompts.clear()
    assert asking.judge().kind == "skipped"
    assert asking.calls == []


def test_an_interrupt_ends_the_side_call() -> None:
    async def main() -> None:
        asking = Asking(never)
        judging = asyncio.ensure_future(asking.classifier.judge(ASKED))
        await asking.begun.wait()
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging
        assert asking.ended == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtually(main())
