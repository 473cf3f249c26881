"""A patient configuration (unattended runs), and small values of the core."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.core.config import DEFAULT
from mainspring.core.errors import InvalidValueError
from mainspring.core.history import History
from mainspring.core.ladder import attempts_are_spent, longest_wait, most_model_calls
from mainspring.core.models import MODELS, bare_name, model_named
from mainspring.core.moves import most_attempts
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.state import State
from mainspring.core.updates import PrefixBroken
from mainspring.core.value import as_object_or_none

HOURS = 21_600_000
PATIENT = replace(DEFAULT, max_retries=80, retries_before_fallback=9, max_wait=HOURS)
CUT = Failure(Trouble.NETWORK, "the connection was lost")


def test_the_time_of_waiting_is_bounded() -> None:
    assert longest_wait(DEFAULT) is None
    assert longest_wait(PATIENT) == most_model_calls(PATIENT) * HOURS


@pytest.mark.parametrize(("waited", "attempts", "spent"), [(0, 1, False), (HOURS, 1, True), (0, 81, True)])
def test_six_hours_or_the_last_attempt_end_it(waited: int, attempts: int, spent: bool) -> None:
    state = replace(State(History()), withheld=CUT, waited=waited, attempts=attempts)
    assert attempts_are_spent(state, PATIENT) is spent


def test_the_next_model_comes_before_patience() -> None:
    other = next(iter(MODELS.values()))
    assert most_attempts(State(History()), CUT, PATIENT) == 81
    assert most_attempts(State(History()), CUT, replace(PATIENT, fallbacks=(other,))) == 10


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001"),
        ("bedrock/anthropic.claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("vertex/claude-haiku-4-5@20251001", "claude-haiku-4-5-20251001"),
        ("claude-sonnet-5-5@default", "claude-sonnet-5-5"),
    ],
)
def test_names_of_clouds(name: str, bare: str) -> None:
    assert bare_name(name) == bare
    assert model_named(name).price == model_named(bare).price


def test_a_break_is_named_by_its_layers_or_its_reason() -> None:
    broken = PrefixBroken(3, "block 3", "the context was edited", 10, 20, "context_edited", ("snip", "collapse"))
    assert broken.event == "snip, collapse"
    assert replace(broken, reason="model_changed", layers=()).event == "model_changed"


def test_objects_of_json() -> None:
    assert as_object_or_none({"a": 1}) == {"a": 1}
    assert as_object_or_none([1]) is None


def test_many_problems_of_a_value_are_cut() -> None:
    assert InvalidValueError(["a", "b"]).problems == ("a", "b")
    found = InvalidValueError([str(number) for number in range(13)])
    assert found.problems == (*[str(number) for number in range(10)], "and 3 more problems")
