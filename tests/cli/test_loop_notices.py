"""Why the loop went on, and why the cache broke: in the terminal, in plain mode, and in `/cost`."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace
from tui.seeing import Watching

from mainspring.agent.loop_notices import BREAKS, LEAST_SHOWN, explain_prefix_break, list_prefix_breaks
from mainspring.agent.usage import UsageMeter
from mainspring.cli.output import NoWrap, TerminalOutput
from mainspring.cli.plain import PlainScreen
from mainspring.core.models import DEFAULT_MODEL, Model
from mainspring.core.reasons import BreakReason, Transition
from mainspring.core.updates import AgentUpdate, PrefixBroken, RequestStarted, Update

DEAR = PrefixBroken(2, "tool 2", "the set of tools changed", 120_000, 300_000_000, "tools_changed")
CHEAP = PrefixBroken(2, "tool 2", "the set of tools changed", 900, LEAST_SHOWN - 1, "tools_changed")
EDIT = PrefixBroken(9, "block 6", "the context was edited", 90_000, 200_000_000, "context_edited", ("snip",))
UNMEASURED = replace(DEAR, estimated=True)

WORDS = "(the set of tools changed: 120,000 tokens were not read from the cache, $0.3000 more)"


def test_each_reason_of_a_break_has_its_words() -> None:
    assert BREAKS.keys() == set(get_args(BreakReason))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (DEAR, WORDS),
        (CHEAP, ""),
        (EDIT, ""),  # the layer has a notice of its own
        (
            UNMEASURED,
            "(the set of tools changed: about 120,000 tokens were not read from the cache, about $0.3000 more)",
        ),
    ],
)
def test_only_a_break_that_costs_money_and_was_not_planned_is_shown(broken: PrefixBroken, words: str) -> None:
    assert explain_prefix_break(broken, DEFAULT_MODEL) == words


def test_without_a_known_price_there_is_nothing_to_report() -> None:
    assert explain_prefix_break(DEAR, Model("somebody/else")) == ""


SHOWN: list[tuple[Update, str]] = [
    (DEAR, WORDS),
    (RequestStarted(2, "m", Transition.STREAM_RETRY), "(the connection broke: retrying)"),
]
QUIET: list[Update] = [CHEAP, EDIT, RequestStarted(1, "m"), RequestStarted(2, "m", Transition.NEXT_TURN)]


@pytest.mark.covers("A-22")
def test_the_terminal_shows_one_dim_line_and_none_for_an_ordinary_turn() -> None:
    for update, words in SHOWN:
        assert Watching(200).see(update).paper.said == [words]
    assert Watching(200).see(*QUIET).paper.said == []


@pytest.mark.covers("A-22")
def test_plain_mode_shows_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(TerminalOutput(colour=False, wrap=NoWrap()), DEFAULT_MODEL)
    for update in (*QUIET, *[update for update, _ in SHOWN]):
        screen.show(update)
    assert capsys.readouterr().out.splitlines() == [words for _, words in SHOWN]


def test_cost_adds_breaks_up_by_reason_the_dearest_first() -> None:
    usage = UsageMeter(DEFAULT_MODEL, lambda: 0)
    assert list(list_prefix_breaks(usage)) == []
    for update in (EDIT, DEAR, AgentUpdate("toolu_1", "a1", EDIT)):
        usage.observe(update)
    assert usage.break_cost == 700_000_000
    assert list(list_prefix_breaks(usage)) == [
        "Prefix breaks: 3, $0.7000 more than with an unbroken cache.",
        "  outdated turns were removed: 2 times, $0.4000",
        "  the set of tools changed: 1 time, $0.3000",
    ]
