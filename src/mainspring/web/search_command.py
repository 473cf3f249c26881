"""Searching by a command of the user's: the query as JSON on its standard input, pages as JSON on its output.

    {"query": "...", "allowed_domains": [], "blocked_domains": []}
    [{"title": "...", "url": "https://...", "snippet": "..."}]

The command comes from the user's own settings, never from a project (security T2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.web.search import Search, WebSearchQuery, WebSearchResult, WebSearchResults

if TYPE_CHECKING:
    from mainspring.processes.children import Children

SECONDS = 30.0
MOST_BYTES = 1_000_000
SHELL = "/bin/sh"


class _Asked(Struct):
    query: str
    allowed_domains: tuple[str, ...]
    blocked_domains: tuple[str, ...]


class _CommandResult(Struct):
    url: str
    title: str = ""
    snippet: str = ""


def search_by_command(
    command: str, children: Children, env: Callable[[], Mapping[str, str]], *, seconds: float = SECONDS
) -> Search:
    async def search(query: WebSearchQuery) -> WebSearchResults:
        from mainspring.processes.child import ProcessLimits, ProcessSpec
        from mainspring.processes.output import OutputSizes

        asked = msgspec.json.encode(_Asked(query.text, query.allowed, query.blocked))
        limits = ProcessLimits(seconds=seconds, output=OutputSizes(head=MOST_BYTES, tail=4_000))
        try:
            ended = await children.run(ProcessSpec((SHELL, "-c", command), "/", env(), limits, stdin=asked))
        except OSError as error:
            raise ToolError(f"The search command does not start: {error}.") from None
        if ended.timed_out:
            raise ToolError(f"The search command took longer than {seconds:g} seconds, and was ended.")
        if ended.code != 0:
            said = ended.stderr.end(500).strip()
            raise ToolError(f"The search command failed with code {ended.code}{': ' if said else '.'}{said}")
        return _read(ended.stdout.data)

    return search


def _read(data: bytes) -> WebSearchResults:
    try:
        rows = msgspec.json.decode(data or b"[]", type=list[_CommandResult])
    except msgspec.MsgspecError as error:
        raise ToolError(f"The search command printed no list of pages: {error}.") from None
    return WebSearchResults(tuple([WebSearchResult(row.url, row.title, row.snippet) for row in rows]))
