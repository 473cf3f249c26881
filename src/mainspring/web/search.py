"""Web search: a query in, pages out, as checked and short data.

A back end is a function of type `Search`. There are two:

- `search_by_command` runs a command of the user's, which gets the query as JSON on its standard input and prints pages
  as JSON. The command comes from the user's own settings, never from a project (security T2).
- `search_by_service` uses the model's own service: a side call that declares the service's search. The conversation
  itself does not declare it: the service would then search without asking the user. Here every search is a call of
  `WebSearch` first, with its rules, hooks and its record in the session's file (docs/decisions/0103).

The JSON of a command, in and out:

    {"query": "...", "allowed_domains": [], "blocked_domains": []}
    [{"title": "...", "url": "https://...", "snippet": "..."}]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring import processes
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Block, ServerBlock, Text
from mainspring.core.value import Value
from mainspring.permissions.hosts import AddressError, domain_matches, domain_pattern
from mainspring.providers.base import WebSearchSpec
from mainspring.text import plural
from mainspring.web.fetch import parse_target

if TYPE_CHECKING:
    from mainspring.processes.children import Children


MOST_HITS = 20
LONGEST_TITLE, LONGEST_SNIPPET = 200, 600  # characters


class WebSearchQuery(Value):
    text: str
    allowed: tuple[str, ...] = ()  # domains, each including its subdomains; none: all
    blocked: tuple[str, ...] = ()


class WebSearchResult(Value):
    url: str
    title: str = ""
    snippet: str = ""


class WebSearchResults(Value):
    hits: tuple[WebSearchResult, ...] = ()
    says: str = ""  # what the back end says about them


Search = Callable[[WebSearchQuery], Awaitable[WebSearchResults]]
"""Raises `ToolError` with a message for the model."""


def filter_results(
    found: WebSearchResults, query: WebSearchQuery, denies: Callable[[str], bool] = lambda _: False
) -> WebSearchResults:
    """Only fetchable pages of the requested domains, each once: not every back end applies the domains. `denies`: the
    rules about a host. What the back end says may repeat a page that was left out, and is left out with it."""
    allowed, blocked = _patterns(query.allowed), _patterns(query.blocked)
    hits: dict[str, WebSearchResult] = {}
    says = found.says
    for hit in found.hits:
        try:
            host = parse_target(hit.url).host
        except UsageError:
            continue
        if (allowed and not _is_in(host, allowed)) or _is_in(host, blocked) or denies(host):
            says = ""
            continue
        hits.setdefault(hit.url, _short(hit))
    return WebSearchResults(tuple(hits.values())[:MOST_HITS], says)


def _patterns(domains: Iterable[str]) -> list[tuple[str, ...]]:
    try:
        return [domain_pattern(domain) for domain in domains]
    except AddressError as error:
        raise ToolError(f"Nothing was searched: {error}.") from None


def _is_in(host: str, domains: list[tuple[str, ...]]) -> bool:
    return any(domain_matches(domain, host) or domain_matches(("*", *domain), host) for domain in domains)


def _short(hit: WebSearchResult) -> WebSearchResult:
    title, snippet = (" ".join(text.split()) for text in (hit.title, hit.snippet))
    return WebSearchResult(hit.url, title[:LONGEST_TITLE], snippet[:LONGEST_SNIPPET])


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
        asked = msgspec.json.encode(_Asked(query.text, query.allowed, query.blocked))
        limits = processes.ProcessLimits(seconds=seconds, output=processes.OutputSizes(head=MOST_BYTES, tail=4_000))
        try:
            ended = await children.run(processes.ProcessSpec((SHELL, "-c", command), "/", env(), limits, stdin=asked))
        except OSError as error:
            raise ToolError(f"The search command does not start: {error}.") from None
        if ended.timed_out:
            raise ToolError(f"The search command took longer than {plural(seconds, 'second')} and was ended.")
        if ended.code != 0:
            said = ended.stderr.end(500).strip()
            raise ToolError(f"The search command failed with code {ended.code}{': ' if said else '.'}{said}")
        return _read(ended.stdout.data)

    return search


def _read(data: bytes) -> WebSearchResults:
    try:
        rows = msgspec.json.decode(data or b"[]", type=list[_CommandResult])
    except msgspec.MsgspecError as error:
        raise ToolError(f"The search command did not print a list of pages: {error}.") from None
    return WebSearchResults(tuple([WebSearchResult(row.url, row.title, row.snippet) for row in rows]))


MOST_USES = 5  # searches within one request; each costs money
MOST_DOMAINS = 100  # OpenAI's limit; results are filtered here, too

CallService = Callable[[str, WebSearchSpec], Awaitable[Iterable[Block]]]
"""Send a prompt with the declared search, and return the blocks of the answer. Raises our errors."""


class _FoundPage(Struct):
    """A page of either protocol: in the result of a search, or cited in the answer."""

    url: str = ""
    title: str | None = None
    cited_text: str | None = None


class _SearchAction(Struct):
    sources: list[_FoundPage] | None = None


class _SearchCall(Struct):
    action: _SearchAction | None = None
    status: str = ""


def make_search_spec(query: WebSearchQuery, denied: Iterable[str] = ()) -> WebSearchSpec:
    """Services take plain domains, and one of the two lists. `filter_results` applies the rest."""
    if query.allowed:
        plain = all("*" not in domain for domain in query.allowed)
        return WebSearchSpec(MOST_USES, query.allowed[:MOST_DOMAINS] if plain else ())
    blocked = [domain for domain in dict.fromkeys((*query.blocked, *denied)) if "*" not in domain]
    return WebSearchSpec(MOST_USES, blocked=tuple(blocked)[:MOST_DOMAINS])


def search_by_service(call: CallService, denied: Callable[[], Iterable[str]] = tuple) -> Search:
    """`denied`: the domains that rules deny now."""

    async def search(query: WebSearchQuery) -> WebSearchResults:
        prompt = (
            f"Search the web for: {query.text}\n\nThen summarize the results in a few sentences, with the addresses."
        )
        return found_in(await call(prompt, make_search_spec(query, denied())))

    return search


def found_in(blocks: Iterable[Block]) -> WebSearchResults:
    """The pages of an answer; those that it cites have the cited text."""
    pages: list[_FoundPage] = []
    errors: list[str] = []
    says: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            says.append(block.text)
            pages += _convert_pages(_decode(block.citations or "[]"))
        elif isinstance(block, ServerBlock) and block.kind == "web_search_tool_result":
            _read_result(_decode(block.json), pages, errors)
        elif isinstance(block, ServerBlock) and block.kind == "web_search_call":
            _read_call(_decode(block.json), pages, errors)
    if errors and not pages:
        raise ToolError(f"The service could not search: {errors[0]}.{SERVICE_ERRORS.get(errors[0], '')}")
    return WebSearchResults(tuple(_merge_pages(pages)), "".join(says).strip())


SERVICE_ERRORS = {
    "too_many_requests": " Its rate limit for searches is reached: try again later.",
    "max_uses_exceeded": f" It needed more than {MOST_USES} searches: ask for less at once.",
    "query_too_long": " Shorten the query.",
    "unavailable": " Try again later.",
}


def _merge_pages(pages: Iterable[_FoundPage]) -> list[WebSearchResult]:
    found: dict[str, WebSearchResult] = {}
    for page in pages:
        before = found.get(page.url, WebSearchResult(page.url))
        found[page.url] = replace(
            before, title=before.title or page.title or "", snippet=before.snippet or page.cited_text or ""
        )
    return list(found.values())


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None


def _convert_pages(rows: object) -> list[_FoundPage]:
    """Those with an address: services may add other kinds."""
    found: list[_FoundPage] = []
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(row, _FoundPage))
    return [page for page in found if page.url]


def _read_result(block: object, pages: list[_FoundPage], errors: list[str]) -> None:
    """Anthropic's: a successful search has a list, a failed one an object."""
    content: object = cast("dict[str, object]", block).get("content") if isinstance(block, dict) else None
    if isinstance(content, dict):
        errors.append(str(cast("dict[str, object]", content).get("error_code", "unknown")))
    else:
        pages += _convert_pages(content)


def _read_call(block: Any, pages: list[_FoundPage], errors: list[str]) -> None:
    """OpenAI's."""
    try:
        call = msgspec.convert(block, _SearchCall)
    except msgspec.ValidationError:
        return
    if call.status == "failed":
        errors.append("the search failed")
    pages += [page for page in (call.action.sources if call.action else None) or () if page.url]
