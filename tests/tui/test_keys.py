"""The keys: one table for the bindings, the help and the page."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.cli.tui.keys import TABLE, TerminalKeyBindings, extend_key_sequences, help_rows

PAGE = Path(__file__).parents[2] / "docs/terminal.md"


def test_the_page_has_the_table() -> None:
    rows = [f"| {shown} | {about} |" for shown, about in help_rows()]
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| key | ") : text.index("\n\n", text.index("| key | "))]
    assert table.splitlines()[2:] == rows


def test_each_key_has_what_it_does() -> None:
    named = [key.does for key in TABLE if key.does]
    assert all(callable(getattr(TerminalKeyBindings, name)) for name in named)
    pressed = [keys for key in TABLE for keys in key.keys]
    assert len(pressed) == len(set(pressed)), "one key, one meaning"


def test_a_focus_report_is_no_escape() -> None:
    extend_key_sequences()
    seen: list[KeyPress] = []
    parser = Vt100Parser(seen.append)
    for sequence in ("\x1b[I", "\x1b[O", "\x1b[O\x1b[I"):
        parser.feed_and_flush(sequence)
    assert [press.key for press in seen] == [Keys.Ignore] * 4
