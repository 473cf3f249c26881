"""Searching by the model's own service: one small request in which the service's search tool is declared.

The tool is not put among those of the conversation: the service would then search without asking anybody. Here every
search is a call of `WebSearch` first, with its rules, hooks and its place in the session's file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.core.messages import Block, ServerBlock, Text
from mainspring.web.search import Search, WebSearchQuery, WebSearchResult, WebSearchResults

VERSION = "web_search_20250305"  # the first one: every model that searches has it, and it needs no code execution
MOST_USES = 5  # searches within one request; each is paid for


class _ServiceResult(Struct):
    url: str
    title: str | None = None
    page_age: str | None = None


Declare = dict[str, Any]
CallService = Callable[[str, Declare], Awaitable[Iterable[Block]]]
"""One request with a prompt and the declared tool, and the blocks of the answer. Raises our errors."""


def make_declaration(query: WebSearchQuery) -> Declare:
    """As it stands in `tools` of a request to Anthropic's Messages API. The service takes one of the two lists."""
    tool: Declare = {"type": VERSION, "name": "web_search", "max_uses": MOST_USES}
    if query.allowed:
        tool["allowed_domains"] = list(query.allowed)
    elif query.blocked:
        tool["blocked_domains"] = list(query.blocked)
    return tool


def search_by_service(call: CallService) -> Search:
    async def search(query: WebSearchQuery) -> WebSearchResults:
        prompt = (
            f"Search the web for: {query.text}\n\nThen sum up what was found, in a few sentences, with the addresses."
        )
        return found_in(await call(prompt, make_declaration(query)))

    return search


def found_in(blocks: Iterable[Block]) -> WebSearchResults:
    hits: list[WebSearchResult] = []
    errors: list[str] = []
    says: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            says.append(block.text)
        elif isinstance(block, ServerBlock) and block.kind == "web_search_tool_result":
            _read(block, hits, errors)
    if errors and not hits:
        raise ToolError(f"The service could not search: {errors[0]}.")
    return WebSearchResults(tuple(hits), "".join(says).strip())


def _read(block: ServerBlock, hits: list[WebSearchResult], errors: list[str]) -> None:
    """A search that went well has a list, one that failed an object."""
    try:
        content: Any = msgspec.json.decode(block.json).get("content")
    except (msgspec.MsgspecError, AttributeError):
        return
    if isinstance(content, dict):
        errors.append(str(cast("dict[str, Any]", content).get("error_code", "unknown")))
        return
    try:
        rows = msgspec.convert(content, list[_ServiceResult])
    except msgspec.ValidationError:
        return
    hits += [WebSearchResult(row.url, row.title or "", row.page_age or "") for row in rows]
