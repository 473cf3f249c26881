"""What the context of a session costs, and what costs less: pure arithmetic with the prices of a model.

A token in the prompt is written to the cache once and read from it with every later request. Anything that makes the
prompt shorter is worth it if the reads it saves cost more than what it takes: a part of the prompt that must be written
again, a side call, or one more turn. How long a session goes on is not known; `expected_turns` is the estimate.

`send_schemas_whole`: the schemas of tools in each request, or their names and a turn for `ToolSearch`.
"""

from __future__ import annotations

from mainspring.core.money import Price
from mainspring.core.value import Bundle

FIRST_TURNS = 10  # that a session is expected to have at its start


def price_for_turns(tokens: int, turns: int, rates: Price) -> int:
    """Of tokens that are written to the cache now, and read from it by the requests after this one."""
    return tokens * (max(rates.input, rates.cache_write) + max(0, turns - 1) * rates.cache_read)


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
