"""Text that may be too long for its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.layout import (
    ScrollPage,
    clean_for_drawing,
    clip_text,
    make_markdown_page,
    split_clusters,
    wrap_text,
)
from tui.hands import few, fits, plain, widths, words


@few
@given(words, widths)
def test_folding_loses_no_character_and_no_line_is_too_wide(text: str, width: int) -> None:
    safe = clean_for_drawing(text)
    lines = wrap_text(Text(safe), width)
    fits(lines, width, len(lines))
    assert "".join(plain(lines)) == safe.replace("\n", "")


@few
@given(st.text() | words)
def test_clusters_are_all_of_the_text(text: str) -> None:
    assert "".join(split_clusters(text)) == text


def test_what_the_eye_takes_for_one_is_one() -> None:
    families = ["👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "e\u0301", "漢", "👍🏽", "\n", "a"]
    assert list(split_clusters("".join(families))) == families
    assert list(split_clusters("🇩🇪🇫x")) == ["🇩🇪", "🇫", "x"]


def test_lines_break_behind_a_blank_where_one_is_near() -> None:
    assert plain(wrap_text(Text("a word and another one"), 12)) == ["a word and ", "another one"]
    assert plain(wrap_text(Text("a " + "x" * 20), 12)) == ["a xxxxxxxxxx", "xxxxxxxxxx"]


JOINED, WIDE, MARKS = "\u200d\u200d  now · 0 turns · 0 bytes", "漢字" * 20, "a" + "\u0301" * 900 + "b" * 40


@pytest.mark.parametrize("width", [0, 1, 5, 18])
@pytest.mark.parametrize("text", [JOINED, WIDE, MARKS], ids=["joined", "wide", "marks"])
def test_what_is_clipped_fits_and_says_so(text: str, width: int) -> None:
    line = clip_text(Text(text), width)
    assert cell_len(line.plain) <= width
    assert line.plain.endswith("…") == (width > 0)
    assert clip_text(Text(text[:3]), 18).plain == text[:3]


def test_a_fold_keeps_the_styles() -> None:
    text = Text.assemble("plain ", ("red " * 6, "red"))
    assert all(any(span.style == "red" for span in line.spans) for line in wrap_text(text, 20))


def numbers(count: int) -> ScrollPage:
    return ScrollPage.of(*[Text(f"line {number}") for number in range(count)])


def test_a_page_that_fits_is_shown_whole() -> None:
    page = numbers(5)
    assert plain(page.draw(20, 5)) == [f"line {number}" for number in range(5)]
    assert not page.hides


def test_a_page_says_what_it_does_not_show_and_scrolls_to_it() -> None:
    page = numbers(10)
    assert plain(page.draw(40, 4)) == ["line 0", "line 1", "line 2", "↓ 7 more lines"]
    page.scroll(1)
    assert plain(page.draw(40, 4)) == ["line 2", "line 3", "line 4", "↑ 2 ↓ 5 more lines"]
    for _ in range(9):
        page.scroll(1)
    assert plain(page.draw(40, 4)) == ["line 7", "line 8", "line 9", "↑ 7 more lines"]
    page.scroll(-1)
    assert plain(page.draw(40, 4))[0] == "line 5"


@few
@given(st.integers(0, 30), st.integers(2, 12))
def test_every_line_can_be_scrolled_to(count: int, height: int) -> None:
    page, seen = numbers(count), set[str]()
    for _ in range(count + 1):
        lines = plain(page.draw(40, height))
        assert len(lines) <= height
        seen |= {line for line in lines if line.startswith("line")}
        page.scroll(1)
    assert len(seen) == count


def test_the_text_is_folded_once_for_a_width() -> None:
    asked: list[int] = []

    def make(width: int) -> list[Text]:
        asked.append(width)
        return [Text("a")]

    page = ScrollPage(make)
    for width in (20, 20, 20, 30, 30):
        page.draw(width, 5)
    assert asked == [20, 30]


def test_markdown_is_drawn_and_links_show_where_they_lead() -> None:
    page = make_markdown_page(
        "# Plan\n\n1. see [this](http://there)\n\n```python\nx = '" + "y" * 60 + "'\n```\n\x1b[2J"
    )
    lines = page.draw(30, 40)
    fits(lines, 30, 40)
    text = "".join(plain(lines))
    assert "Plan" in text
    assert "http://there" in text.replace(" ", "")
    assert "#" not in text
    assert text.count("y") == 60


@few
@given(words, widths)
def test_markdown_never_exceeds_the_width(text: str, width: int) -> None:
    lines = make_markdown_page(f"# {text}\n\n- {text}\n\n| a | b |\n|---|---|\n| {text} | x |\n").draw(width, 400)
    assert all(cell_len(line.plain) <= width for line in lines)
