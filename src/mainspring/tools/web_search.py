"""WebSearch: pages of the web by words (N-04). Who searches is a back end of `web/`; without one the model is told."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any

from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer, without_nul
from mainspring.web.page import mark_as_web_content
from mainspring.web.search import Search, WebSearchQuery, WebSearchResults, filter_results

NO_SEARCH = (
    "There is no web search here. The user can set one up: a command in 'webSearch.command' of their settings, or a "
    "model whose service searches. If you know an address, use WebFetch."
)
Domains = Annotated[tuple[str, ...], Meta(max_length=100)]


class WebSearchInput(Input, frozen=True):
    query: Annotated[str, Meta(min_length=2, max_length=1_000), "What to search for."]
    allowed_domains: Annotated[Domains, "Only these, with their subdomains."] = ()
    blocked_domains: Annotated[Domains, "None of these."] = ()


def web_search_tool(search: Search | None) -> Tool:
    async def run(given: WebSearchInput, calling: ToolContext) -> ToolAnswer:
        if search is None:
            raise ToolError(NO_SEARCH)
        if given.allowed_domains and given.blocked_domains:
            raise ToolError("Nothing was searched: give 'allowed_domains' or 'blocked_domains', not both.")
        began = perf_counter()
        calling.progress(f"Searching: {given.query[:200]}")
        query = WebSearchQuery(given.query, given.allowed_domains, given.blocked_domains)
        filter_results(WebSearchResults(), query)  # domains that are none are told before anybody searches
        found = filter_results(await search(query), query)
        pages = [{"title": hit.title, "url": hit.url} for hit in found.hits]
        results: list[Any] = [{"tool_use_id": calling.id, "content": pages}, *([found.says] if found.says else [])]
        data: dict[str, Any] = {"query": given.query, "results": results, "durationSeconds": perf_counter() - began}
        return make_answer(_told(found, given.query), data, Rendering(f"Found {len(pages)} pages"))

    return Tool(
        name="WebSearch",
        about=("Search the web for pages; read them with WebFetch. Name the ones you used in your answer."),
        input=WebSearchInput,
        run=run,
        concurrent=True,
        repeatable=True,  # not "read only": plan mode would allow it unasked, and what is sent can carry data
        summary=lambda given: f"Search the web: {given.query}",
    )


def _told(found: WebSearchResults, query: str) -> str:
    if not found.hits and not found.says:
        return f"Nothing was found for '{query}'."
    rows = [
        f"{hit.title or hit.url}\n  {hit.url}" + (f"\n  {hit.snippet}" if hit.snippet else "") for hit in found.hits
    ]
    return mark_as_web_content(without_nul("\n".join([*rows, *([found.says] if found.says else [])])), "a web search")
