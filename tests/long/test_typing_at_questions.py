"""The long version of `tests/tui/test_typing_at_questions.py`: many seeds, each in a terminal of its own."""

from __future__ import annotations

import pytest
from cli.stage import Serve
from tui.conftest import serve, sit_at
from tui.person import SitAt
from tui.test_typing_at_questions import ANSWERS, CALL, PLAN
from tui.typist import at_a_call, at_a_plain_prompt, at_a_plan, at_trust

__all__ = ["serve", "sit_at"]


@pytest.mark.parametrize("seed", range(100, 140))
def test_typing_at_the_question_about_trust(serve: Serve, sit_at: SitAt, seed: int) -> None:
    at_trust(serve(*ANSWERS), sit_at, seed)


@pytest.mark.parametrize("seed", range(200, 240))
def test_typing_at_the_question_about_a_call(serve: Serve, sit_at: SitAt, seed: int) -> None:
    at_a_call(serve(CALL, *ANSWERS), sit_at, seed, early=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(300, 330))
def test_typing_at_the_question_about_a_plan(serve: Serve, sit_at: SitAt, seed: int) -> None:
    at_a_plan(serve(PLAN, *ANSWERS), sit_at, seed)


@pytest.mark.parametrize("seed", range(400, 440))
def test_typing_at_the_question_about_a_call_line_by_line(serve: Serve, seed: int) -> None:
    at_a_plain_prompt(serve(CALL, *ANSWERS), seed)
