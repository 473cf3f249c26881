"""README and pages read easily: short sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages import find_pages

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs/library.md", *find_pages()]
MOST_WORDS = 20  # on average
NO_PROSE = re.compile(r"^```.*?^```|^(?: {4}|\||#|!\[)[^\n]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)


def count_words(sentence: str) -> int:
    return len(re.findall(r"\w[\w.'`/-]*", sentence))


def sentences(text: str) -> list[str]:
    prose = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", NO_PROSE.sub("\n\n", text))
    return [
        one
        for part in re.split(r"\n\s*\n|\n- ", prose)
        for one in re.split(r"(?<=[.?!:])\s", part)
        if count_words(one) > 1
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_are_short_on_average(page: Path) -> None:
    counts = [count_words(sentence) for sentence in sentences(page.read_text("utf-8"))]
    assert counts
    assert sum(counts) / len(counts) < MOST_WORDS
    assert max(counts) <= 2 * MOST_WORDS


def test_sentences_are_counted() -> None:
    text = "One two three. Four five?\n\n```sh\nsix seven\n```\n\n- Eight [nine ten](x.md).\n| no | no |\n"
    assert [count_words(one) for one in sentences(text)] == [3, 2, 3]
