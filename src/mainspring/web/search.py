"""Web search: a query in, pages out, as checked and short data.

A back end is a function of type `Search`. There are two:

- `search_by_command` runs a command of the user's, which gets the query as JSON on its standard input and prints pages
  as JSON. The command comes from the user's own settings, never from a project (security T2).
- `search_by_service` uses the model's own service: one small request that declares the service's search tool. The
  conversation itself does not declare that tool: the service would then search without asking the user. Here every
  search is a call of `WebSearch` first, with its rules, hooks and its record in the session's file.

The JSON of a command, in and out:

    {"query": "...", "allowed_domains": [], "blocked_domains": []}
    [{"title": "...", "url": "https://...", "snippet": "..."}]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring import processes
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Block, ServerBlock, Text
from mainspring.core.value import Value
from mainspring.permissions.hosts import AddressError, domain_matches, domain_pattern
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


def filter_results(found: WebSearchResults, query: WebSearchQuery) -> WebSearchResults:
    """Only fetchable pages of the requested domains, each once: not every back end applies the domains."""
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


VERSION = "web_search_20250305"  # the first one: every model that searches has it, and it needs no code execution
MOST_USES = 5  # searches within one request; each costs money


class _ServiceResult(Struct):
    url: str
    title: str | None = None
    page_age: str | None = None


Declare = dict[str, Any]
CallService = Callable[[str, Declare], Awaitable[Iterable[Block]]]
"""Send a prompt with the declared tool, and return the blocks of the answer. Raises our errors."""


def make_declaration(query: WebSearchQuery) -> Declare:
    """The tool's entry in `tools` of a request to Anthropic's Messages API. It accepts one of the two lists."""
    tool: Declare = {"type": VERSION, "name": "web_search", "max_uses": MOST_USES}
    if query.allowed:
        tool["allowed_domains"] = list(query.allowed)
    elif query.blocked:
        tool["blocked_domains"] = list(query.blocked)
    return tool


def search_by_service(call: CallService) -> Search:
    async def search(query: WebSearchQuery) -> WebSearchResults:
        prompt = (
            f"Search the web for: {query.text}\n\nThen summarize the results in a few sentences, with the addresses."
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
            _read_service(block, hits, errors)
    if errors and not hits:
        raise ToolError(f"The service could not search: {errors[0]}.")
    return WebSearchResults(tuple(hits), "".join(says).strip())


def _read_service(block: ServerBlock, hits: list[WebSearchResult], errors: list[str]) -> None:
    """A successful search has a list, a failed one an object."""
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
