"""Lines and text that streams, on one screen."""

from __future__ import annotations

import pytest

from mainspring.cli.output import TerminalOutput, TextStyle


def test_a_line_waits_for_the_end_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    output = TerminalOutput(colour=False)
    output.piece("Some words, ")
    output.line("a line")
    output.line("and another")
    output.piece("and more.")
    assert capsys.readouterr().out == "Some words, and"
    output.end_text()
    output.line("the last")
    assert capsys.readouterr().out == " more.\na line\nand another\nthe last\n"


@pytest.mark.parametrize(("colour", "shown"), [(True, "\x1b[31mred\x1b[0m\n\n"), (False, "red\n\n")])
def test_colour_is_a_choice(colour: bool, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = TerminalOutput(colour=colour)
    output.line("red", TextStyle.RED)
    output.line("", TextStyle.RED)
    assert capsys.readouterr().out == shown
