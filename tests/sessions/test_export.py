"""A session as a file for other people: what is in it, what is not, and that the page is harmless."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secrecy.test_redaction import SHAPES

from mainspring.core.messages import Assistant, Message, Origin, Text, Thinking, ToolCall, User, result, user
from mainspring.secrets import held
from mainspring.sessions.export import (
    FORMATS,
    LONGEST,
    STYLE,
    ExportHeading,
    ExportSection,
    export_to_html,
    export_to_json,
    export_to_markdown,
    list_message_sections,
)

HEADING = ExportHeading("Fix the parser", "0000", "~/work", "claude-x", "2026-11-19 20:31")
VOID = {"meta", "br", "hr"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "main", "section", "div", "pre"),
    *("code", "details", "summary", "b"),
}


class ReadPage(HTMLParser):
    """Checks each tag, and collects the text as a browser without scripts shows it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.policy, self.style, self.text = "", "", ""
        self.feed(page)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        given = dict(attrs)
        names = {"charset", "http-equiv", "content", "name"} if tag == "meta" else {"class", "id", "lang"}
        assert set(given) <= names, given
        if given.get("http-equiv") == "Content-Security-Policy":
            assert not self.style, "the policy comes before what it is about"
            self.policy = given["content"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
        else:
            self.text += data


def everywhere(text: str) -> list[ExportSection]:
    """A conversation with this text in every place."""
    call = ToolCall("c1", "Bash", {"command": text, "more": {"deep": [text]}})
    messages: list[Message] = [
        User((Text(text),), typed=text),
        Assistant((Thinking(text), Text(f"{text}\n```\n{text}\n```\nend"), call)),
        result("c1", text),
        result("c2", text, is_error=True),
        User((Text(text),), Origin.SUMMARY),
        User((Text(text),), Origin.INTERRUPTION),
        User((Text(text),), Origin.ATTACHMENT),
    ]
    return [section for message in messages for section in list_message_sections(message)]


def all_formats(text: str) -> dict[str, str]:
    heading = ExportHeading(text, text, text, text, text)
    return {name: write(heading, everywhere(text)) for name, write in FORMATS.items()}


# --- secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
def test_no_key_of_any_shape_is_in_any_format(secret: str) -> None:
    lines = [line for line in secret.split("\n") if len(line) > 3]
    for name, written in all_formats(f"see {secret} there").items():
        assert not [line for line in lines if line in written], name
        assert written.count("[redacted]") >= 5, name
        assert "there" in written, name


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("Proxy-Authorization: Basic dTpwYXNz", "dTpwYXNz"),
        ("x-api-key: abcdefgh", "abcdefgh"),
        ("DB_PASSWORD=hunter22", "hunter22"),
        ('{"api_key": "abcdefgh"}', "abcdefgh"),
        ("aws_secret_access_key = 'ab/cd+efgh'", "ab/cd+efgh"),
        ("--auth-token=hunter22", "hunter22"),
        ("https://user:pa55word@host/x", "pa55word"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEcutoff", "MIIEcutoff"),
    ],
)
def test_nothing_that_is_said_to_be_a_secret_is_in_any_format(text: str, secret: str) -> None:
    for name, written in all_formats(text).items():
        assert secret not in written, name


def test_no_key_that_the_session_holds_is_in_any_format() -> None:
    held.hold_key("correct-horse-battery")
    held.hold_secrets("another horse", ours=False)
    for name, written in all_formats("it is correct-horse-battery, or another horse").items():
        assert "horse" not in written, name


def test_a_secret_at_the_cut_is_removed_before_the_cut() -> None:
    text = "x" * (LONGEST - 10) + " ghp_abcdefghijklmnopqrst"
    for name, written in all_formats(text).items():
        assert "ghp_" not in written, name


# --- what is in it --------------------------------------------------------------------------------------------------


def test_the_page_has_everything_in_order_and_needs_no_script() -> None:
    call = ToolCall("c", "Bash", {"command": "ls"})
    sections = [
        *list_message_sections(user("first\nprompt")),
        *list_message_sections(Assistant((Thinking("hm"), Text("Look:\n\n```py\nx = 1\n```"), call))),
        *list_message_sections(result("c", "a.txt")),
        *list_message_sections(Assistant((Text("Done."),))),
    ]
    page = export_to_html(HEADING, sections)
    read = ReadPage(page)
    words = ("Fix the parser", "~/work · claude-x · session 0000", "Prompt 1", "first\nprompt", "Thinking", "hm")
    places = [read.text.index(word) for word in (*words, "Look:", "x = 1", "Bash", "ls", "a.txt", "Done.")]
    assert places == sorted(places)
    assert "<pre><code>x = 1</code></pre>" in page
    assert "```" not in page


def test_the_policy_allows_the_style_of_the_page_and_nothing_else() -> None:
    read = ReadPage(export_to_html(HEADING, []))
    digest = b64encode(sha256(read.style.encode()).digest()).decode()
    assert read.style == STYLE
    assert read.policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_markdown_has_one_line_for_each_call() -> None:
    assert export_to_markdown(HEADING, everywhere("`hello`\x1b[2J")) == (
        "# Fix the parser\n\nSession 0000 in ~/work, with claude-x. 2026-11-19 20:31.\n\n> `hello`[2J\n\n"
        "`hello`[2J\n```\n`hello`[2J\n```\nend\n\n- Bash: `'hello'[2J`\n"
    )


def test_json_has_whole_texts() -> None:
    written = json.loads(export_to_json(HEADING, everywhere("hello")))
    assert written["title"] == "Fix the parser"
    assert [one["kind"] for one in written["sections"]] == [
        *("prompt", "thinking", "answer", "call", "result", "result", "summary", "interruption")
    ]
    assert written["sections"][3]["text"] == 'command: hello\nmore: {"deep":["hello"]}'
    assert written["sections"][5]["failed"] is True


TAGS = ("<script>alert(1)</script>", "</style>", "</pre>", "</title>", "<img src=x onerror=alert(1)>", "<!--", "-->")
ODD = ("]]>", "&lt;", "&#60;", '"', "'", "`", "```", "~~~", "\n", "\r", "\x00", "\x1b[2J", "\u2028", "\u202e", "\ud800")
WORDS = ("javascript:alert(1)", "<svg/onload=alert(1)>", "漢", "a ")
HOSTILE = st.lists(st.sampled_from((*TAGS, *ODD, *WORDS)), max_size=12).map("".join)


@given(HOSTILE)
def test_no_text_gets_out_of_its_element(text: str) -> None:
    written = all_formats(text)
    read = ReadPage(written["html"])
    words = re.findall(r"alert\(\d\)", text)
    assert len(re.findall(r"alert\(\d\)", read.text)) >= len(words), "it is shown as text"
    written["html"].encode()
    json.loads(written["json"])
