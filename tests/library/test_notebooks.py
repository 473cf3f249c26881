"""Answers and traces in notebooks and in rich: readable, and text of the model stays text."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tiers import examples
from viewer.stage import HOSTILE, ID, Slow, write

from mainspring import Agent, Answer
from mainspring.testing import says
from mainspring.text import strip_control_characters
from mainspring.viewer import Trace

TAGS = ["<", ">", "&", "&lt;", "&#60;", '"', "'", "</pre>", "<script>", "<!--", "]]>", HOSTILE]
OTHERS = ["$x$", r"\(x\)", "\x1b[2J", "\u202e", "\x00", "\r", "[bold]", "[link=file:///x]", "[/]"]
MARKUP = st.sampled_from([*TAGS, *OTHERS])
WORDS = st.lists(st.one_of(MARKUP, st.text(max_size=5)), max_size=12).map("".join)


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.others: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)


PRE = ("pre", [("style", "white-space: pre-wrap")])


def answer_with(text: str) -> Answer[str]:
    return Agent(lambda _: text, persist=False).run_sync("Hello")


def print_richly(value: object) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, legacy_windows=False)
    console.print(value)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_answer_in_a_notebook() -> None:
    answer = answer_with("2 < 3")
    assert answer._repr_html_() == (
        '<pre style="white-space: pre-wrap">2 &lt; 3</pre>'
        f'<pre style="white-space: pre-wrap">1 turn, 100 tokens in, 20 out, $0.0004, session {answer.session_id}</pre>'
    )


def test_a_long_answer_is_cut() -> None:
    page = Reader(answer_with("<" * 30_000)._repr_html_())
    assert page.texts[0] == "<" * 20_000 + "..."


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100))
@given(WORDS)
def test_no_markup_of_the_models_text_survives_in_an_answer(text: str) -> None:
    whole = REPRESENTED
    page = Reader(Answer("", text, whole.messages, whole.session_id, whole.result)._repr_html_())
    assert (page.tags, page.others) == ([PRE, PRE], [])
    expected = strip_control_characters(text)
    # An HTML parser reads a carriage return as a line feed.
    assert page.texts[0].replace("\r", "\n") == expected.replace("\r", "\n")


REPRESENTED = answer_with("x")


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[link=file:///etc/passwd]x[/link]", "\x1b[2J\x1b]0;title\x07"])
def test_rich_shows_an_answer_and_interprets_nothing(text: str) -> None:
    whole = REPRESENTED
    shown = print_richly(Answer(text, text, whole.messages, whole.session_id, whole.result))
    assert shown.count("\x1b[2J") == shown.count("\x1b]") == shown.count("\x07") == 0
    plain = Console(file=io.StringIO(), width=200, no_color=True)
    plain.print(Answer(text, text, whole.messages, whole.session_id, whole.result))
    assert isinstance(plain.file, io.StringIO)
    assert plain.file.getvalue().replace("\n", "").startswith(f"Answer(text={text!r}")


def test_rich_shows_a_typed_output() -> None:
    answer = Agent(lambda _: "5", persist=False).run_sync("Hello")
    assert list(answer.__rich_repr__()) == [
        ("text", "5"),
        ("turns", 1),
        ("cost_usd", 0.0004),
        ("session_id", answer.session_id),
    ]
    whole = REPRESENTED
    typed = Answer([1], "[1]", whole.messages, whole.session_id, whole.result)
    assert list(typed.__rich_repr__())[:2] == [("text", "[1]"), ("output", [1])]


def test_a_trace_in_a_notebook(tmp_path: Path) -> None:
    trace = Trace(write(tmp_path / f"{ID}.jsonl", Slow([says("Done.")]), "Look & see"))
    page = Reader(trace._repr_html_())
    assert page.tags == [PRE]
    assert page.texts[0].splitlines()[0].startswith("1 run, 1 turn, ")
    assert "❯ Look & see" in page.texts[0]
    assert list(trace.__rich_repr__())[:3] == [ID, ("runs", 1), ("turns", 1)]
    assert print_richly(trace)


def test_a_trace_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace(tmp_path / "none.jsonl")._repr_html_()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(WORDS)
def test_no_markup_of_the_models_text_survives_in_a_trace(tmp_path: Path, text: str) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.unlink(missing_ok=True)
    page = Reader(Trace(write(file, Slow([says(text or "x")]), text or "x"))._repr_html_())
    assert (page.tags, page.others) == ([PRE], [])
