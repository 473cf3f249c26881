"""docs/loop.md says what the code does, because it is written from it."""

from __future__ import annotations

from enum import StrEnum

import loop_page
import pytest

from mainspring.core.effects import ANSWERS
from mainspring.core.reasons import Cause, Terminal, Transition, Trouble


@pytest.fixture(scope="module")
def page() -> str:
    return loop_page.build()


def test_the_committed_page_is_the_one_the_code_writes(page: str) -> None:
    assert loop_page.PAGE.read_text(encoding="utf-8") == page, "run `make docs`"


@pytest.mark.parametrize("names", [Transition, Terminal, Trouble, Cause])
def test_every_name_is_on_the_page(page: str, names: type[StrEnum]) -> None:
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_play_meets_every_answer_every_transition_and_every_cause() -> None:
    seen = loop_page.play_all()
    answered = {(edge.effect, edge.event) for edge in seen.edges}
    assert answered == {
        (loop_page.name(effect), loop_page.name(event)) for effect in ANSWERS for event in ANSWERS[effect]
    }
    assert [transition for transition, edges in seen.rounds.items() if not edges] == []
    assert {ending.cause for ending in seen.endings} == set(Cause)
