"""Markdown as it streams: pieces are the text, do not depend on how it came, and look as the whole would."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.cli.tui.streaming_text import LONGEST, MOST_LINES, MarkdownStream, SettledText

EXAMPLES = min(100, settings().max_examples) if settings().derandomize else settings().max_examples  # each takes 10 ms

# Every kind of line, and what rules about blocks stumble over.
LINES = [
    "", "", "", " ", "\t", "word", "two words", "*soft* `code`", "    deep", "  two", "   three", " one", "\ttabbed",
    "# Title", "#", "####### seven", "#nospace", "  ## in", "---", "***", "- - -", "===", "--", "-", "=",
    "- a", "- b", "+ c", "* d", "-", "-     far", "-\ttab", "  - in", "    - deeper", "      - deepest", " - one",
    "1. one", "2. two", "1) par", "10. ten", "3.", "   1. in", "    - four", "0. zero", "1234567890. none",
    "> quote", ">", "> - list", "> ```", "> > twice", "  > in", ">no space", "> 1. x",
    "```", "```py", "````", "~~~", "~~~ a`b", "``` `x`", "  ```", "   ```", "    ```", "  ~~~",
    "| a | b |", "|---|---|", "| 1 | 2 |", "a | b", "--- | ---", ":-: | -", "- | -",
    "<div>", "<!-- x", "-->", "[ref]: http://x.y", "[ref]", "\\# no", "&amp;", "日本語", "🎉 party", "|",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(LINES), max_size=14).map("\n".join)

# Documents as models write them.
WORDS = st.lists(
    st.sampled_from(["the", "**bold**", "`code`", "a", "longer", "*x*", "1.", "-", "[l](u)"]), min_size=1, max_size=9
)
SENTENCE = WORDS.map(lambda words: "So " + " ".join(words))
ITEMS = st.lists(
    st.tuples(SENTENCE, st.sampled_from(["", "\n  - sub\n  - sub", "\n\n  more", "\nlazy"])), min_size=1, max_size=5
)
BLOCKS = st.one_of(
    SENTENCE,
    st.lists(SENTENCE, min_size=2, max_size=4).map("\n".join),
    SENTENCE.map("## {}".format),
    ITEMS.map(lambda items: "\n".join([f"- {words}{more}" for words, more in items])),
    ITEMS.map(lambda got: "\n".join([f"{n}. {one}{rest.replace('  ', '   ')}" for n, (one, rest) in enumerate(got)])),
    ITEMS.map(lambda items: "\n\n".join([f"{at}. {words}" for at, (words, _) in enumerate(items, 9)])),
    st.lists(st.sampled_from(["x = 1", "", "# no heading", "- no item", "    y"]), max_size=6).map(
        lambda code: "```py\n" + "\n".join([*code, "```"])
    ),
    st.integers(1, 4).map(lambda rows: "| a | b |\n|---|---|\n" + "\n".join(["| 1 | two |"] * rows)),
    st.lists(SENTENCE, min_size=1, max_size=3).map(lambda lines: "\n".join([f"> {line}" for line in lines])),
    st.just("---"),
)  # fmt: skip
DOCUMENT = st.lists(st.tuples(BLOCKS, st.sampled_from(["\n\n", "\n\n", "\n", "\n\n\n"])), max_size=7).map(
    lambda blocks: "".join([text + gap for text, gap in blocks])
)


def pieces_of(text: str, sizes: list[int] | None = None) -> list[SettledText]:
    stream, settled, at = MarkdownStream(), [], 0
    for size in sizes or []:
        settled += stream.add(text[at : at + size])
        at += size
        assert "".join([piece.text for piece in settled]) + stream.rest == text[:at]
    settled += stream.add(text[at:])
    return settled + stream.end()


def looks(pieces: list[SettledText]) -> list[str]:
    lines = [line for piece in pieces for line in lines_of(MarkdownText(piece.markdown, piece.number), 60)]
    return [line.plain for line in lines if line.plain.strip()]


@given(st.one_of(SOUP, DOCUMENT), st.lists(st.integers(1, 7), max_size=200))
def test_pieces_and_the_rest_are_the_text_and_do_not_depend_on_how_it_came(text: str, sizes: list[int]) -> None:
    pieces = pieces_of(text, sizes)
    assert "".join([piece.text for piece in pieces]) == text
    assert pieces == pieces_of(text)


@settings(max_examples=EXAMPLES)
@given(DOCUMENT)
def test_a_document_looks_the_same_in_pieces(text: str) -> None:
    assert looks(pieces_of(text)) == looks([SettledText(text)])


@settings(max_examples=EXAMPLES)
@given(SOUP)
def test_the_worst_of_markdown_looks_the_same_in_pieces(text: str) -> None:
    assert looks(pieces_of(text)) == looks([SettledText(text)])


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo\n\n"]),
        ("# Title\ntext", ["# Title\n"]),
        ("text\n```py\nx\n\ny\n```\nmore", ["text\n", "```py\nx\n\ny\n```\n"]),
        ("- a\n- b\n  c\n- d", ["- a\n"]),
        ("- a\n- b\n\nend\n", ["- a\n", "- b\n\n"]),
        ("| a |\n|---|\n| 1 |\n\n", ["| a |\n|---|\n| 1 |\n\n"]),
        ("> a\n> b\n\n", ["> a\n> b\n\n"]),
        ("Title\n===\n\ntext\n", ["Title\n===\n\n"]),
        ("no end", []),
    ],
)
def test_a_block_is_settled_as_soon_as_it_has_ended(text: str, settled: list[str]) -> None:
    assert [piece.text for piece in MarkdownStream().add(text)] == settled


def test_items_go_on_with_the_numbers_of_their_list() -> None:
    pieces = pieces_of("7. a\n7. b\n7. c\n\n1) d\n")
    assert [(piece.number, piece.glued) for piece in pieces] == [(0, False), (8, True), (9, True), (0, False)]
    assert looks(pieces) == ["7. a", "8. b", "9. c", "1. d"]


def test_a_long_fence_is_settled_in_parts_that_keep_their_language() -> None:
    text = "```py\n" + "".join([f"x = {at}\n\n" for at in range(MOST_LINES)]) + "```\n\nend"
    pieces = pieces_of(text)
    assert "".join([piece.text for piece in pieces]) == text
    assert [piece.opened for piece in pieces] == ["", "```py\n", "```py\n", ""]
    assert looks(pieces) == looks([SettledText(text)])


def test_no_blank_line_of_code_is_lost_between_parts() -> None:
    for blank in range(1, 4):
        code = "".join([f"x = {at}\n" + "\n" * (at % (blank + 1)) for at in range(3 * MOST_LINES)])
        text = f"```py\n{code}```\n"
        drawn = [
            line.plain.rstrip()
            for piece in pieces_of(text)
            for line in lines_of(MarkdownText(piece.markdown, piece.number), 60, goes_on=bool(piece.opened))
        ]
        assert drawn == [line.plain.rstrip() for line in lines_of(MarkdownText(text), 60)]


def test_a_long_table_keeps_its_head() -> None:
    text = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 900
    pieces = pieces_of(text)
    assert {piece.opened for piece in pieces[1:]} == {"| a | b |\n|---|---|\n"}
    assert [line for line in looks(pieces) if "1" in line] == [
        line for line in looks([SettledText(text)]) if "1" in line
    ]


@settings(max_examples=examples(20))
@given(st.sampled_from(["word ", "日本", "x", "- a ", "```"]), st.lists(st.integers(1, 3_000), max_size=20))
def test_a_paragraph_without_end_is_settled_in_parts(word: str, sizes: list[int]) -> None:
    text = word * (3 * LONGEST // len(word))
    pieces = pieces_of(text, sizes)
    assert pieces == pieces_of(text)
    assert len(pieces) >= 3
    assert max(len(piece.text) for piece in pieces) <= LONGEST


@pytest.mark.parametrize("repeated", ["word ", "code\n", "- a\n", "\n", "> a\n", "1\n=\n"])
@pytest.mark.parametrize("begun", ["", "```\n"])
def test_what_is_kept_back_stays_small_however_much_comes(begun: str, repeated: str) -> None:
    stream = MarkdownStream()
    stream.add(begun)
    for _ in range(30):
        stream.add(repeated * (1_000 // len(repeated)))
        assert len(stream.rest) <= LONGEST


def test_the_tail_of_code_is_as_long_as_what_is_shown_of_it() -> None:
    stream = MarkdownStream()
    stream.add("```py\n" + "x = 1\n" * 50 + "y")
    assert stream.tail(3) == SettledText("x = 1\n" * 3 + "y", "```py\n", glued=True)
    assert len(stream.tail(80).text.splitlines()) == 52


def test_ten_thousand_deltas_are_cheap() -> None:
    stream, began = MarkdownStream(), time.process_time()
    for at in range(10_000):
        stream.add("some text " if at % 50 else "the end.\n\n")
    assert time.process_time() - began < 1.0  # measured: 0.02 s; the rest is for machines that are busy
