"""What the context of a session costs, and what costs less: pure arithmetic with the prices of a model.

A token in the prompt is written to the cache once and read from it with every later request. Anything that makes the
prompt shorter is worth it if the reads it saves cost more than what it takes: a part of the prompt that must be written
again, a side call, or one more turn. How long a session goes on is not known; `expected_turns` is the estimate.

`choose_compaction`: clear old results, collapse old turns, have a summary of them written, or do nothing.
`count_stale_results`: how many of the oldest results are not worth what it costs to keep them.
`send_schemas_whole`: the schemas of tools in each request, or their names and a turn for `ToolSearch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from mainspring.core.money import Price
from mainspring.core.value import Bundle

FIRST_TURNS = 10  # that a session is expected to have at its start


def expected_turns(turns: int) -> int:
    """A session that has had so many turns is expected to go on for as many: nothing else is known about it."""
    return max(FIRST_TURNS, turns)


def price_for_turns(tokens: int, turns: int, rates: Price) -> int:
    """Of tokens that are written to the cache now, and read from it by the requests after this one."""
    return tokens * (max(rates.input, rates.cache_write) + max(0, turns - 1) * rates.cache_read)


# --- compaction -----------------------------------------------------------------------------------------


class CompactionChoice(StrEnum):
    NOTHING = "nothing"
    CLEAR = "clear"  # old results
    COLLAPSE = "collapse"  # and old turns, into the summaries that are ready
    SUMMARIZE = "summarize"  # have a summary of old turns written, in the background


class CompactionOffer(Bundle):
    """What a compaction would do to the prompt."""

    freed: int = 0  # tokens that leave it; 0: there is nothing to do
    rewritten: int = 0  # tokens that are then written to the cache again
    rent: int = 0  # nano-dollars: what it has cost so far to read what would leave
    call: int = 0  # nano-dollars for a side call


def choose_compaction(  # noqa: PLR0913  # keywords, most of them
    rates: Price,
    turns: int,
    *,
    clear: CompactionOffer = CompactionOffer(),  # noqa: B008  # a frozen value
    collapse: CompactionOffer = CompactionOffer(),  # noqa: B008
    summarize: CompactionOffer = CompactionOffer(),  # noqa: B008
    cold: bool = False,
) -> CompactionChoice:
    """The one that costs least over the `turns` that are expected.

    `collapse` goes with `clear`: it is what old turns add, once the prefix breaks anyway. `cold`: the cache has
    expired, or belongs to another model. Then the whole prompt must be written in any case, and the shorter one costs
    less.
    """
    if pays_off(clear, rates, turns, cold=cold):
        both = pays_off(collapse, rates, turns, cold=cold)
        return CompactionChoice.COLLAPSE if both else CompactionChoice.CLEAR
    if pays_off(summarize, rates, turns):
        return CompactionChoice.SUMMARIZE
    return CompactionChoice.NOTHING


def pays_off(offer: CompactionOffer, rates: Price, turns: int, *, cold: bool = False) -> bool:
    """Whether the expected saving is larger than the price, and the rent that was paid so far has reached it: who waits
    for that never pays more than twice what the best choice in hindsight costs (docs/decisions/0015)."""
    surcharge = 0 if cold else max(0, rates.cache_write - rates.cache_read)
    price = offer.rewritten * surcharge + offer.call
    saved = price_for_turns(offer.freed, turns + 1, rates) if cold else offer.freed * rates.cache_read * turns
    return saved > price and offer.rent >= (0 if cold else price)


# --- the results that are kept ------------------------------------------------------------------------

# The chance that the model needs a result again in the next turn, if it was used in this one, in thousandths. It falls
# with the turns since. Chosen by `bench/cost.py`; docs/decisions/0105 has the figures.
FILE_CHANCE = 200  # it is about to be edited
OUTPUT_CHANCE = 100  # of a command or a search: it was read when it came
REQUEST_AGAIN = 100  # tokens of the reply that asks for a result again


class HeldResult(Bundle):
    """A result in the prompt that could be cleared."""

    tokens: int
    idle: int  # turns since it was last used
    is_file: bool


def count_stale_results(held: Sequence[HeldResult], prompt: int, rates: Price) -> int:
    """How many of the oldest results cost more to read, turn by turn, than they are expected to save.

    What one saves is a turn that asks for it again, as often as that is needed: the reply, the prompt once more, and
    the result itself. Only the oldest can leave, because everything after one that leaves is written again.
    """
    again = prompt * rates.cache_read + REQUEST_AGAIN * rates.output
    loss = worst = count = 0
    for number, result in enumerate(held, 1):
        chance = FILE_CHANCE if result.is_file else OUTPUT_CHANCE
        needed = chance * (result.tokens * max(rates.input, rates.cache_write) + again) // (1_000 * (result.idle + 1))
        loss += result.tokens * rates.cache_read - needed
        if loss > worst:
            worst, count = loss, number
    return count


# --- the schemas of tools -------------------------------------------------------------------------------

SEARCHES = 2  # that a session with deferred tools makes: for its task, and once for what comes up later
SEARCHED_PROMPT = 30_000  # tokens of the request after a search, the mean of the sessions in `bench/cost.py`
SEARCH_OUTPUT = 200  # tokens of a reply that searches: a sentence, some thinking, the call
FOUND_TOOLS = 5  # of one search, `FEW` in `tools/tool_search.py`
NAME_TOKENS = 8  # of a tool that is known by name only
SEARCH_TOOL = 150  # tokens of `ToolSearch` itself


class ToolSchemas(Bundle):
    """The schemas that are in question, in tokens."""

    tools: int
    tokens: int


def send_schemas_whole(schemas: ToolSchemas, rates: Price) -> bool:
    """Whether the schemas in each request cost less than the turns that `ToolSearch` takes."""
    return price_for_turns(schemas.tokens, FIRST_TURNS, rates) <= price_of_deferral(schemas, rates)


def price_of_deferral(schemas: ToolSchemas, rates: Price) -> int:
    """The names in each request, and for each search: its reply, its prompt, and the schemas that it finds, which stay
    in the conversation for half of its turns."""
    names = NAME_TOKENS * schemas.tools + SEARCH_TOOL
    found = schemas.tokens * min(FOUND_TOOLS, schemas.tools) // max(1, schemas.tools)
    search = SEARCHED_PROMPT * rates.cache_read + SEARCH_OUTPUT * rates.output
    search += price_for_turns(found + SEARCH_OUTPUT, FIRST_TURNS // 2, rates)
    return price_for_turns(names, FIRST_TURNS, rates) + SEARCHES * search
