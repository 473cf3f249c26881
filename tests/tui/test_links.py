"""Hyperlinks: for whom, of what, and that nobody else can make one."""

from __future__ import annotations

import os
import re

import pytest
from rich.style import Style
from rich.text import Text

from mainspring.cli.tui.call_view import make_call_title
from mainspring.cli.tui.layout import Painter
from mainspring.cli.tui.links import has_links, make_file_link
from mainspring.cli.tui.theme import ColourDepth
from mainspring.core.messages import ToolCall

LINK = re.compile(r"\x1b\]8;(?:id=[^;]*)?;([^\x1b]+)\x1b\\(.*?)\x1b\]8;;\x1b\\", re.DOTALL)
SGR = re.compile(r"\x1b\[[0-9;]*m")


PAINTER = Painter(depth=ColourDepth.TRUE, name="dark", links=True)


def links_in(text: str | Text, width: int = 80, painter: Painter = PAINTER) -> list[tuple[str, str]]:
    """Target and text of each link."""
    raw = painter.printed([Text(text) if isinstance(text, str) else text], width)
    return [(found[1], SGR.sub("", found[2])) for found in LINK.finditer(raw)]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7006"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4205"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"}, True),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_HYPERLINK": "1"}, False),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x", "VTE_VERSION": "7006"}, False),
        ({}, False),
    ],
)
def test_only_terminals_that_are_known_to_show_links_get_them(environ: dict[str, str], expected: bool) -> None:
    assert has_links(environ) is expected


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("See https://example.org/docs.", ["https://example.org/docs"]),
        (
            "(https://example.org/a_(b)) and http://x.test:80/?q=1#f",
            ["https://example.org/a_(b)", "http://x.test:80/?q=1#f"],
        ),
        ("ftp://example.org javascript://x file:///etc/passwd", []),
        ("https://", []),
        ("nothing", []),
    ],
)
def test_addresses_are_links_to_themselves(text: str, addresses: list[str]) -> None:
    assert links_in(text) == [(address, address) for address in addresses]


def test_a_wrapped_address_is_no_link_to_half_of_itself() -> None:
    assert links_in("https://example.org/" + "x" * 40, 30) == []


def test_an_address_in_two_styles_is_one_target() -> None:
    text = Text.assemble("go to https://exam", ("ple.org", "bold"))
    assert {target for target, _ in links_in(text)} == {"https://example.org"}


@pytest.mark.parametrize(
    "painter",
    [
        Painter(depth=ColourDepth.TRUE, name="dark"),
        Painter(depth=ColourDepth.TRUE, name="none", links=True),
        Painter(depth=ColourDepth.NONE, links=True),
    ],
)
def test_without_links_none_is_written(painter: Painter) -> None:
    linked = Text("x", Style(link="file:///etc/passwd"))
    assert links_in("https://example.org", painter=painter) == links_in(linked, painter=painter) == []


@pytest.mark.parametrize(
    "target", ["javascript:alert(1)", "https://a\x1b\\b", "file:///a b", "https://x\u202e", "https://x/" + "y" * 5_000]
)
def test_odd_targets_are_dropped(target: str) -> None:
    assert links_in(Text("x", Style(link=target))) == []


def test_sequences_in_text_from_others_make_no_link() -> None:
    hostile = "\x1b]8;;https://evil.test\x1b\\click\x1b]8;;\x1b\\ here"
    assert links_in(hostile) == [("https://evil.test", "https://evil.test")]  # as any address in a text
    raw = Painter(depth=ColourDepth.TRUE, name="dark").printed([Text("\x1b]8;;https://evil.test\x07click")], 80)
    assert "\x1b]" not in raw


def test_the_file_of_a_call_is_a_link() -> None:
    title = make_call_title(ToolCall("c", "Read", {"file_path": "/work/a b.py"}), "Read /work/a b.py", "/work")
    assert links_in(title.draw("call.done", 80)) == [(f"file://{os.uname().nodename}/work/a%20b.py", "a b.py")]
    other = make_call_title(ToolCall("c", "Bash", {"command": "ls /work"}), "Bash ls /work", "/work")
    assert other.link == ""


@pytest.mark.parametrize(("path", "root"), [("", "/"), ("~/x", "/"), ("a.py", "")])
def test_some_paths_have_no_link(path: str, root: str) -> None:
    assert make_file_link(path, root) == ""
