"""What the runs of a session came to: agents that report in a later run do not turn a row upside down."""

from __future__ import annotations

from mainspring.agent.usage import UsageMeter
from mainspring.core.models import MODELS
from mainspring.core.money import NANOS_PER_USD, Usage, cost
from mainspring.core.reasons import Cause, Subtype, Terminal
from mainspring.core.updates import Result

MAIN, OTHER = MODELS["claude-sonnet-4-5"], MODELS["claude-haiku-4-5"]
OWN, AGENTS = Usage(input=1_000, output=100), Usage(input=9_000, output=900)
OWN_COST, AGENTS_COST = cost(OWN, MAIN.price), cost(AGENTS, OTHER.price)


def ended(usage: Usage, spent: int) -> Result:
    return Result(Terminal.COMPLETED, Cause.END_TURN, Subtype.SUCCESS, usage=usage, cost=spent)


def one_run(tally: UsageMeter, spent: int) -> None:
    tally.begin()
    tally.asked(MAIN.name)
    tally.book_reply(OWN)
    tally.ended(ended(OWN, spent))


def rows(tally: UsageMeter) -> dict[str, float]:
    return {name: round(row["costUSD"] * NANOS_PER_USD) for name, row in tally.by_model().items()}


def test_an_agent_of_a_run() -> None:
    tally = UsageMeter(MAIN, lambda: 0)
    tally.begin()
    tally.agent_ended([(OTHER.name, AGENTS)])
    tally.asked(MAIN.name)
    tally.book_reply(OWN)
    tally.ended(ended(OWN, OWN_COST + AGENTS_COST))
    assert rows(tally) == {MAIN.name: OWN_COST, OTHER.name: AGENTS_COST}
    assert tally.by_model()[OTHER.name]["inputTokens"] == 9_000
    assert tally.cost == OWN_COST + AGENTS_COST


def test_one_whose_cost_is_told_by_the_next_run() -> None:
    tally = UsageMeter(MAIN, lambda: 0)
    tally.agent_ended([(OTHER.name, AGENTS)])
    one_run(tally, OWN_COST)
    assert rows(tally) == {OTHER.name: AGENTS_COST, MAIN.name: OWN_COST}, "nothing is taken from another's row"
    one_run(tally, OWN_COST + AGENTS_COST)
    assert rows(tally) == {OTHER.name: AGENTS_COST, MAIN.name: 2 * OWN_COST}
    assert tally.cost == 2 * OWN_COST + AGENTS_COST


def test_what_nobody_accounts_for_is_the_last_models() -> None:
    tally = UsageMeter(MAIN, lambda: 0)
    one_run(tally, OWN_COST + 5)
    assert rows(tally) == {MAIN.name: OWN_COST + 5}
