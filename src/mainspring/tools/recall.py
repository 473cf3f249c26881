"""Recall: search what this session has seen and the model no longer sees.

Context layers drop turns, clear results and put summaries in place of both; the session's file keeps all of it. The
code that makes the tool passes the command that searches the file: tools know nothing of session files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mainspring import tools
from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer, without_nul
from mainspring.tools.files import HaltSignal, run_in_thread

NAME = "Recall"
LIMIT, MOST = 10, 50
LONGEST = 1_000  # characters of a query
MOST_OUTPUT = 4_000_000  # bytes; 50 excerpts have 60,000
SECONDS = 20

# The search command, which gets the request in JSON as its last argument; None: this session is not stored.
Search = Callable[[], "tuple[str, ...] | None"]


class RecallInput(Input, frozen=True):
    query: Annotated[str, "Words, or a regular expression; case does not count."]
    limit: Annotated[int, Meta(ge=1, le=MOST), f"How many hits, newest first; {LIMIT} unless given."] = LIMIT


class RecallMatch(Struct):
    turn: int
    role: str
    tool: str
    text: str
    more: int = 0


class RecallMatches(Struct):
    hits: list[RecallMatch]
    total: int
    loose: bool = False


def recall_tool(search: Search) -> Tool:
    async def run(given: RecallInput, calling: ToolContext) -> ToolAnswer:
        query = given.query.strip()
        if not query:
            raise ToolError("'query' is empty: give some words, or an expression.")
        if len(query) > LONGEST:
            raise ToolError(f"'query' has {len(query):,} characters; {LONGEST:,} is the limit.")
        command = search()
        if command is None:
            raise ToolError("This session is not stored, so it cannot be searched.")
        asked = msgspec.json.encode({"query": query, "limit": given.limit, "without": NAME}).decode()
        return _told(
            await run_in_thread(lambda halt: _found([*command, asked], calling.place, halt), seconds=SECONDS), query
        )

    return Tool(
        name=NAME,
        about=(
            "Search all that was said, called and returned in this session, also what was cleared or summarized since "
            "and is out of your view. Look here before you ask or work again."
        ),
        input=RecallInput,
        run=run,
        read_only=True,
        summary=lambda given: f"Recall {given.query}",
    )


def _found(command: list[str], place: Workspace, halt: HaltSignal) -> RecallMatches:
    output = tools.output_alone(command, place, MOST_OUTPUT, halt)
    if output.late:
        raise ToolError(f"The search took longer than {SECONDS} seconds, and was ended: use plain words.")
    if output.code != 0:
        raise ToolError(f"The search failed: {output.errors.strip().rpartition(chr(10))[2] or output.code}")
    try:
        return msgspec.json.decode(output.data, type=RecallMatches)
    except msgspec.MsgspecError as error:
        raise ToolError(f"The search failed: {error}") from None


def _told(found: RecallMatches, query: str) -> ToolAnswer:
    facts = msgspec.to_builtins(found)
    if not found.hits:
        said = f"Nothing in this session matches '{query}'. Try fewer or other words."
        return make_answer(said, facts, Rendering("Nothing found"))
    count = f"{len(found.hits)} of {found.total:,}" if found.total > len(found.hits) else f"{found.total}"
    how = " (all words, not next to each other)" if found.loose else ""
    rows = [f"{count} found{how}, newest first."]
    rows += [f"[{_where(hit)}]\n{without_nul(hit.text)}" for hit in found.hits]
    if found.total > len(found.hits):
        rows.append("[There are more: ask with a higher 'limit', or for other words.]")
    return make_answer("\n\n".join(rows) + "\n", facts, Rendering(f"Found {found.total}"))


def _where(hit: RecallMatch) -> str:
    who = {"assistant": f"your call of {hit.tool}" if hit.tool else "you", "tool": f"result of {hit.tool or 'a call'}"}
    more = f", and {hit.more:,} more in it" if hit.more else ""
    return f"turn {hit.turn}, {who.get(hit.role, hit.role)}{more}"
