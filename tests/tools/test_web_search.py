"""WebSearch as a call: with a back end, and without."""

from __future__ import annotations

import pytest

from mainspring.tools.web import NO_SEARCH, web_search_tool
from mainspring.web.search import WebSearchQuery, WebSearchResult, WebSearchResults
from tools.desk import Desk

pytestmark = pytest.mark.covers("N-04")

HITS = (WebSearchResult("https://a.test/", "A", "about a"), WebSearchResult("https://b.test/"))


def test_pages_are_found() -> None:
    asked: list[WebSearchQuery] = []

    async def search(query: WebSearchQuery) -> WebSearchResults:
        asked.append(query)
        return WebSearchResults(HITS, "A is it.")

    done = Desk([web_search_tool(search)]).now("WebSearch", query="what", allowed_domains=["a.test", "b.test"])
    assert asked == [WebSearchQuery("what", ("a.test", "b.test"))]
    text = done.answer.text
    assert "\nA\n  https://a.test/\n  about a\nhttps://b.test/\n  https://b.test/\nA is it.\n</web-" in text
    assert text.startswith("<web-")
    data = done.answer.data
    assert data.pop("durationSeconds") >= 0
    pages = [{"title": "A", "url": "https://a.test/"}, {"title": "", "url": "https://b.test/"}]
    assert data == {"query": "what", "results": [{"tool_use_id": "call-1", "content": pages}, "A is it."]}


def test_what_was_not_asked_for_is_left_out() -> None:
    async def search(_query: WebSearchQuery) -> WebSearchResults:
        return WebSearchResults(HITS)

    desk = Desk([web_search_tool(search)])
    assert "a.test" not in desk.now("WebSearch", query="what", blocked_domains=["a.test"]).answer.text
    nothing = desk.now("WebSearch", query="what", allowed_domains=["c.test"]).answer
    assert (nothing.text, nothing.is_error) == ("Nothing was found for 'what'.", False)


async def never(_query: WebSearchQuery) -> WebSearchResults:
    raise AssertionError("nothing is to be searched")


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({"query": "x"}, "is invalid"),
        ({"query": "what", "allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}, "not both"),
        ({"query": "what", "allowed_domains": ["https://a.test/"]}, "is no domain"),
    ],
)
def test_what_is_wrong_is_told_before_anybody_searches(input: dict[str, object], said: str) -> None:
    answer = Desk([web_search_tool(never)]).now("WebSearch", **input).answer
    assert answer.is_error
    assert said in answer.text


def test_without_a_back_end_the_ways_out_are_told() -> None:
    answer = Desk([web_search_tool(None)]).now("WebSearch", query="what").answer
    assert (answer.is_error, answer.text) == (True, NO_SEARCH)
    assert "WebFetch" in answer.text
    assert "'webSearch.command'" in answer.text


def test_how_the_tool_describes_itself() -> None:
    tool = web_search_tool(None)
    given = tool.parse({"query": "what is it"})
    assert tool.line(given) == "Search the web: what is it"
    assert (tool.is_read_only(given), tool.is_concurrent(given)) == (False, True)
    assert list(tool.spec.schema["properties"]) == ["query", "allowed_domains", "blocked_domains"]
