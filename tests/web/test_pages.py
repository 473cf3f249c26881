"""From what was fetched to a page: by its kind, HTML by a child process with limits; and the cache of pages."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes.traces import until, with_word

from mainspring.core.errors import ToolError
from mainspring.processes.children import Children
from mainspring.web import page as web_page
from mainspring.web.fetch import FetchedPage
from mainspring.web.html_child import MISSING
from mainspring.web.page import (
    CACHE_SECONDS,
    MOST_BYTES,
    MOST_HTML,
    MOST_MARKDOWN,
    PageCache,
    WebPage,
    make_converter,
    page_of,
)

NEEDS_LIBRARY = pytest.mark.skipif(find_spec("html_to_markdown") is None, reason="the extra 'web' is not installed")


async def never(_html: str, _base: str) -> str:
    raise AssertionError("this is no HTML")


def as_page(body: bytes, kind: str, status: int = 200) -> WebPage:
    return asyncio.run(page_of(FetchedPage("https://site.test/", status, kind, body), never))


def as_markdown(html: str, base: str = "https://site.test/a/") -> str:
    async def main() -> str:
        return await make_converter(Children())(html, base)

    return asyncio.run(main())


def new_base() -> str:
    """An address that names the child: it stands in its command line."""
    return f"https://{os.urandom(8).hex()}.test/"


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/markdown; charset=utf-8",
        "application/json",
        "application/ld+json",
        "image/svg+xml",
        "text/x",
        "",
    ],
)
def test_texts_stay_as_they_are(kind: str) -> None:
    assert as_page(b"hello <b>", kind) == WebPage("https://site.test/", 200, 9, "hello <b>")


@pytest.mark.parametrize(
    "kind", ["image/png", "application/pdf", "application/octet-stream", "application/gzip", "video/mp4"]
)
def test_what_is_no_text_is_told(kind: str) -> None:
    with pytest.raises(ToolError, match=f"'https://site.test/' is not text: {kind}, 4 bytes. Get it with curl"):
        as_page(b"\x89PNG", kind)
    with pytest.raises(ToolError, match="of unknown type"):
        as_page(b"a\0b", "")


def test_nothing_is_converted_of_a_page_that_is_elsewhere_or_empty() -> None:
    assert as_page(b"", "text/html") == WebPage("https://site.test/", 200, 0, "")
    moved = FetchedPage("https://site.test/", 302, "text/html", b"<p>x", moved="https://other.test/")
    assert asyncio.run(page_of(moved, never)).moved == "https://other.test/"


def test_html_is_cut_before_it_is_converted() -> None:
    given: list[int] = []

    async def convert(html: str, base: str) -> str:
        given.append(len(html))
        return base

    body = b"<p>" + b"x" * MOST_HTML
    page = asyncio.run(page_of(FetchedPage("https://site.test/", 200, "text/html", body), convert))
    assert (page.cut, page.text, given) == (True, "https://site.test/", [MOST_HTML])


def test_without_the_library_the_way_out_is_told(tmp_path: Path) -> None:
    """An interpreter that sees no packages, as a fresh machine has it."""
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o700)

    async def main() -> None:
        with pytest.raises(ToolError, match=r"pip install 'mainspring\[web\]'"):
            await make_converter(Children(), str(bare))("<p>x", "https://site.test/")
        with pytest.raises(ToolError, match="does not start"):
            await make_converter(Children(), str(tmp_path / "missing"))("<p>x", "https://site.test/")

    asyncio.run(main())
    assert web_page.MISSING == MISSING


HTML = """<!doctype html><title>A page</title><script>alert(1)</script><style>p {}</style>
<h1>Head</h1><p>Some <b>bold</b> &amp; <a href="../x">link</a></p><pre><code>x = 1\n</code></pre>
<table><tr><th>a<th>b<tr><td>1<td>2</table><img alt=pixel src="data:image/png;base64,AAAA"><ul><li>one<li>two</ul>"""


@NEEDS_LIBRARY
def test_html_as_markdown() -> None:
    said = as_markdown(HTML)
    for part in ("# Head", "**bold** & [link](https://site.test/x)", "x = 1", "| a | b |", "| 1 | 2 |", "- one\n- two"):
        assert part in said
    for gone in ("alert", "base64", "p {}"):
        assert gone not in said


BOMBS = {  # some 300 KB each
    "deep": "<div>" * 60_000,
    "formatting": "<b><p>" * 15_000,
    "quotes": "<blockquote>" * 25_000,
    "lists": "<ul><li>" * 40_000,
    "tables": "<table><tr><td>" * 20_000,
    "cells": "<table>" + "<tr><td colspan=100000>x" * 12_000,
    "links": '<a href="x">' * 25_000,
    "signs": "<" * 300_000,
    "names": "&" * 300_000,
    "comment": "<!--" * 75_000,
    "attributes": "<a " + "x=1 " * 75_000 + ">",
    "halves": "\ud800<p>\udfff",
}


@NEEDS_LIBRARY
@pytest.mark.parametrize("kind", BOMBS)
def test_hostile_html_comes_to_an_end(kind: str) -> None:
    """In Markdown of bounded size; and nothing is left of the child."""
    base = new_base()
    assert len(as_markdown(BOMBS[kind], base).encode()) <= MOST_MARKDOWN
    assert with_word(base) == []


@NEEDS_LIBRARY
def test_a_page_that_would_take_all_memory_is_told() -> None:
    """2 MB of this take 760 MB; the child may have 512."""
    with pytest.raises(ToolError, match="takes too much time or memory"):
        as_markdown(("<b><p>" * 400_000)[:MOST_HTML])


@NEEDS_LIBRARY
def test_a_page_that_takes_too_long_is_told() -> None:
    base = new_base()

    async def main() -> None:
        with pytest.raises(ToolError, match="takes too much time or memory"):
            await make_converter(Children(), seconds=0.5)("<blockquote>" * 160_000, base)

    asyncio.run(main())
    assert with_word(base) == []


@NEEDS_LIBRARY
def test_a_cancelled_conversion_ends_its_child() -> None:
    base = new_base()

    async def main() -> None:
        task = asyncio.ensure_future(make_converter(Children())("<blockquote>" * 160_000, base))
        await until(lambda: with_word(base))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert with_word(base) == []


# --- the cache ------------------------------------------------------------------------------------------------------


def stored(size: int, name: str = "x") -> WebPage:
    return WebPage(f"https://site.test/{name}", 200, size, "x" * size)


def test_pages_stay_a_quarter_of_an_hour() -> None:
    now = 0.0
    cache = PageCache(now=lambda: now)
    cache.put(("a", False), stored(10))
    now = CACHE_SECONDS - 0.001
    assert cache.get(("a", False)) == stored(10)
    assert cache.get(("a", True)) is None  # what was read under a rule is another page
    now = CACHE_SECONDS
    assert cache.get(("a", False)) is None
    assert (cache.size, CACHE_SECONDS) == (0, 900)


def test_the_one_used_last_goes_last() -> None:
    cache = PageCache(most=3 * 11_500)
    for name in "abc":
        cache.put((name, False), stored(10_000, name))
    assert cache.get(("a", False)) is not None
    cache.put(("d", False), stored(10_000, "d"))
    assert [name for name in "abcd" if cache.get((name, False)) is not None] == ["a", "c", "d"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 60_000))))
def test_it_never_holds_more_than_it_may(puts: list[tuple[str, int]]) -> None:
    cache = PageCache(most=100_000)
    for name, size in puts:
        cache.put((name, False), stored(size, name))
        assert cache.size <= 100_000
    held = [page for name in "abcdef" if (page := cache.get((name, False))) is not None]
    assert sum(len(page.text) for page in held) <= cache.size <= 100_000


def test_one_that_is_too_large_is_not_kept() -> None:
    cache = PageCache()
    cache.put(("a", False), stored(MOST_BYTES))
    assert (cache.get(("a", False)), cache.size) == (None, 0)
