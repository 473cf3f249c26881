"""What a search is, whoever makes it: a query in, pages out, as data that is checked and short.

A back end is a function. Two come with us: a command of the user's (`search_command.py`), and the search of the model's
own service (`search_service.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Value
from mainspring.permissions.hosts import AddressError, domain_matches, domain_pattern
from mainspring.web.target import parse_target

MOST_HITS = 20
LONGEST_TITLE, LONGEST_SNIPPET = 200, 600  # characters


class WebSearchQuery(Value):
    text: str
    allowed: tuple[str, ...] = ()  # domains, each with all below it; none: all
    blocked: tuple[str, ...] = ()


class WebSearchResult(Value):
    url: str
    title: str = ""
    snippet: str = ""


class WebSearchResults(Value):
    hits: tuple[WebSearchResult, ...] = ()
    says: str = ""  # what whoever searched has to say about them


Search = Callable[[WebSearchQuery], Awaitable[WebSearchResults]]
"""Raises `ToolError`, with words for the model."""


def filter_results(found: WebSearchResults, query: WebSearchQuery) -> WebSearchResults:
    """Only pages that can be fetched, of the domains that were asked for, each once: not every back end heeds them."""
    allowed, blocked = _patterns(query.allowed), _patterns(query.blocked)
    hits: dict[str, WebSearchResult] = {}
    for hit in found.hits:
        try:
            host = parse_target(hit.url).host
        except UsageError:
            continue
        if (not allowed or _is_in(host, allowed)) and not _is_in(host, blocked):
            hits.setdefault(hit.url, _short(hit))
    return replace(found, hits=tuple(hits.values())[:MOST_HITS])


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
