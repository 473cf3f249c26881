"""Markdown as it is drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Comment  # type: ignore[import-untyped]  # it brings no types

from mainspring.cli.tui.layout import STYLES
from mainspring.cli.tui.markdown import COLOURS, MarkdownText, lines_of, make_console
from tui.test_streaming import SOUP


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Title", ["Title"]),
        ("[docs](http://x.y/z)", ["docs (http://x.y/z)"]),
        ("[http://x.y](http://x.y) <a@b.c>", ["http://x.y a@b.c"]),
        ("![a cat](http://x.y/z.png)", ["a cat (http://x.y/z.png)"]),
        ("a <b>tag</b>", ["a <b>tag</b>"]),
        ("[one][1]\n\n[1]: http://x.y", ["[one][1]", "", "[1]: http://x.y"]),
        ("9. nine\n10. ten", ["9. nine", "10. ten"]),
        ("- a\n  - b", ["- a", "  - b"]),
        ("> a\n> b", ["│ a b"]),
        ("```nosuchlanguage\na  b\n\n\tc\n```", ["  a  b", "", "      c"]),
        (
            "```py\n    return one + two + three + four + five + six\n```",
            ["      return one + two + three + four + ", "        five + six"],
        ),
        ("```\n" + "x" * 50 + "\n```", ["  " + "x" * 38, "    " + "x" * 12]),
        ("- a\n\n  ```sh\n  ls\n  ```", ["- a", "    ls"]),
        ("a long line of words", ["a long line of words"]),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", ["a   b", "─────", "1   2"]),
        ("1. x\n\n| a |\n|---|\n| 1 |\n\nend", ["1. x", "", "a", "─", "1", "", "end"]),
        ("- a | b\n|---|---|", ["- a | b |---|---|"]),
    ],
)
def test_it_looks_like_this(text: str, lines: list[str]) -> None:
    assert [line.plain.rstrip() for line in lines_of(MarkdownText(text), 40)] == [line.rstrip() for line in lines]


@pytest.mark.parametrize("language", ["", "bash", "sh", "console", "text"])
@pytest.mark.parametrize("hasty", [False, True])
def test_what_has_no_colours_of_its_own_is_bold(language: str, hasty: bool) -> None:
    line = lines_of(MarkdownText(f"words\n\n```{language}\nls -la\n```", hasty=hasty), 40)[-1]
    assert all(line.get_style_at_offset(make_console(), at).bold for at in range(2, len(line.plain)))


def test_a_table_with_more_columns_than_there_is_room_for_is_told_row_by_row() -> None:
    rows = ["|".join([f"{mark}{at}" for at in range(5)]) for mark in ("head", "cell")]
    text = f"|{rows[0]}|\n|-|-|-|-|-|\n|{rows[1]}|"
    assert [line.plain for line in lines_of(MarkdownText(text), 20)] == [f"head{at}: cell{at}" for at in range(5)]


def test_no_colour_but_the_terminal_s_own_and_no_background() -> None:
    text = "`code` **b**\n\n# h\n\n> q\n\n```py\ndef f(x): return 'a' + 1  # no\n```\n\n| a |\n|---|\n| b |"
    styles = [span.style for line in lines_of(MarkdownText(text), 40) for span in line.spans]
    found = [make_console().get_style(style) if isinstance(style, str) else style for style in styles]
    assert all(style.bgcolor is None or style.bgcolor.is_default for style in found)
    assert {style.color.type.name for style in found if style.color} <= {"STANDARD", "DEFAULT"}
    assert len({style.color.name for style in found if style.color}) > 3  # code is coloured


@given(SOUP)
def test_what_is_drawn_in_haste_has_the_same_lines(text: str) -> None:
    hasty = lines_of(MarkdownText(text, hasty=True), 40)
    assert [line.plain for line in hasty] == [line.plain for line in lines_of(MarkdownText(text), 40)]


@given(SOUP, st.integers(1, 50))
def test_nothing_is_wider_than_its_place(text: str, width: int) -> None:
    assert all(line.cell_len <= max(4, width) for line in lines_of(MarkdownText(text), width))


def test_nothing_is_bright_black_which_some_palettes_have_as_their_background() -> None:
    styles = [make_console().get_style(name) for name in STYLES] + [COLOURS.get_style_for_token(Comment)]
    assert not any(style.color is not None and style.color.name == "bright_black" for style in styles)
