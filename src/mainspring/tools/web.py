"""The tools `WebFetch` and `WebSearch` (N-04). `web/` fetches and searches, and refuses unsafe addresses.

With a `prompt` and a small model, WebFetch returns the model's answer; otherwise the page as text. WebSearch needs a
search back end of `web/`; without one it returns an error that says how to set one up.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from time import perf_counter, perf_counter_ns
from typing import Annotated, Any

from msgspec import Meta

from mainspring.core.errors import MainspringError, ToolError
from mainspring.core.messages import Text
from mainspring.core.updates import Rendering
from mainspring.permissions.hosts import host_of, is_visibly_near
from mainspring.text import plural
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer, without_nul
from mainspring.web.fetch import Near
from mainspring.web.page import Ask, PageReader, WebPage, build_page_question, mark_as_web_content
from mainspring.web.search import Search, WebSearchQuery, WebSearchResults, filter_results

MOST_OF_AN_ERROR = 2_000  # characters of an error page


class WebFetchInput(Input, frozen=True):
    url: Annotated[str, Meta(max_length=8_192), "http or https, in ASCII."]
    prompt: Annotated[str, Meta(max_length=10_000), "What you want to know of it; empty: all."] = ""


def web_fetch_tool(reader: PageReader, near: Near, ask: Ask | None = None) -> Tool:
    async def run(given: WebFetchInput, calling: ToolContext) -> ToolAnswer:
        began = perf_counter_ns()
        calling.progress(f"Fetching {given.url[:200]}")
        page = await reader.read(given.url, _or_approved(near, given.url) if calling.approved else near)
        result = await _told(page, given.prompt, ask)
        took = (perf_counter_ns() - began) // 1_000_000
        facts = {"url": page.url, "code": page.status, "codeText": _phrase(page.status), "bytes": page.size}
        data: dict[str, Any] = {**facts, "result": result, "durationMs": took}
        if page.status >= 400:
            return ToolAnswer((Text(result),), data, is_error=True)
        return make_answer(
            result, data, Rendering(f"Received {page.size:,} bytes ({page.status} {_phrase(page.status)})")
        )

    return Tool(
        name="WebFetch",
        about=(
            "Read a page of the web, as Markdown or text. A redirect to another host is reported, not followed: call "
            "again with that address. Hosts on this machine or near it need a rule of the user's."
        ),
        input=WebFetchInput,
        run=run,
        concurrent=True,
        repeatable=True,  # not "read only": plan mode would allow it unasked, and what is sent can carry data
        summary=lambda given: f"Fetch {given.url}",
    )


def _or_approved(near: Near, url: str) -> Near:
    """The user approved this very address (security N1): its host may be local, if the address itself shows that. A
    name may resolve anywhere, which the user could not see: that needs a rule. No other host is allowed."""
    return lambda host: near(host) or (is_visibly_near(host) and host == host_of(url))


async def _told(page: WebPage, prompt: str, ask: Ask | None) -> str:
    status = f"{page.status} {_phrase(page.status)}".strip()
    if page.moved:
        return (
            f"The page was moved to another host ({status}), and was not fetched there. If you want it, call WebFetch "
            f"again with this address:\n{mark_as_web_content(page.moved, page.url)}"
        )
    text = without_nul(page.text)
    if page.status >= 400:
        return f"'{page.url}' answered {status}.\n{mark_as_web_content(text[:MOST_OF_AN_ERROR], page.url)}"
    if not text.strip():
        return f"'{page.url}' answered {status}, without any text."
    notes = "\n[The page is longer: only its beginning was read.]" if page.cut else ""
    if ask is None or not prompt.strip():
        return mark_as_web_content(text, page.url) + notes
    try:
        said = await ask(build_page_question(prompt, text, page.url))
    except MainspringError as error:
        return (
            f"{mark_as_web_content(text, page.url)}{notes}\n[The small model failed: {error}. This is the page itself.]"
        )
    return f"A small model read the page and says:\n{mark_as_web_content(said, page.url)}{notes}"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


NO_SEARCH = (
    "Web search is not configured. The user can set it up: a command in 'webSearch.command' of their settings, or a "
    "model whose service searches. If you know an address, use WebFetch."
)


def no_denied(_: str) -> bool:
    return False


Domains = Annotated[tuple[str, ...], Meta(max_length=100)]


class WebSearchInput(Input, frozen=True):
    query: Annotated[str, Meta(min_length=2, max_length=1_000), "What to search for."]
    allowed_domains: Annotated[Domains, "Only these, with their subdomains."] = ()
    blocked_domains: Annotated[Domains, "None of these."] = ()


def web_search_tool(search: Search | None, denies: Callable[[str], bool] = no_denied) -> Tool:
    """`denies`: whether a rule such as `WebSearch(domain:...)` denies results of a host."""

    async def run(given: WebSearchInput, calling: ToolContext) -> ToolAnswer:
        if search is None:
            raise ToolError(NO_SEARCH)
        if given.allowed_domains and given.blocked_domains:
            raise ToolError("Nothing was searched: give 'allowed_domains' or 'blocked_domains', not both.")
        began = perf_counter()
        calling.progress(f"Searching: {given.query[:200]}")
        query = WebSearchQuery(given.query, given.allowed_domains, given.blocked_domains)
        filter_results(WebSearchResults(), query)  # reports invalid domains before the search
        found = filter_results(await search(query), query, denies)
        pages = [{"title": hit.title, "url": hit.url} for hit in found.hits]
        results: list[Any] = [{"tool_use_id": calling.id, "content": pages}, *([found.says] if found.says else [])]
        data: dict[str, Any] = {"query": given.query, "results": results, "durationSeconds": perf_counter() - began}
        return make_answer(_search_told(found, given.query), data, Rendering(f"Found {plural(len(pages), 'page')}"))

    return Tool(
        name="WebSearch",
        about=("Search the web for pages; read them with WebFetch. Name the ones you used in your answer."),
        input=WebSearchInput,
        run=run,
        concurrent=True,
        repeatable=True,  # not "read only": plan mode would allow it unasked, and what is sent can carry data
        summary=lambda given: f"Search the web: {given.query}",
    )


def _search_told(found: WebSearchResults, query: str) -> str:
    if not found.hits and not found.says:
        return f"Nothing was found for '{query}'."
    rows = [
        f"{hit.title or hit.url}\n  {hit.url}" + (f"\n  {hit.snippet}" if hit.snippet else "") for hit in found.hits
    ]
    return mark_as_web_content(without_nul("\n".join([*rows, *([found.says] if found.says else [])])), "a web search")
