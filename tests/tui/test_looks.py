"""Colours: themes, the output of commands, and what reaches a user who looks elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from rich.text import Text

from mainspring.cli.tui.ansi_text import colour_line, split_output
from mainspring.cli.tui.layout import Painter
from mainspring.cli.tui.notification import make_notification, make_title
from mainspring.cli.tui.run_view import draw_prompt
from mainspring.cli.tui.status import SessionFacts, StatusLine, find_branch
from mainspring.cli.tui.theme import ANSI, NAMES, OTHER_NAMES, THEMES, ColourDepth, choose_theme, styles_of
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import NANOS_PER_USD
from mainspring.settings import keys
from mainspring.text import shorten_folder, shorten_path

# --- the output of commands -----------------------------------------------------------------------------------------


def drawn(text: str) -> list[list[tuple[str, str]]]:
    """The parts of each line, with their own styles."""
    return [
        [(line.plain[span.start : span.end], str(span.style)) for span in line.spans]
        for line in [colour_line(one, "detail") for one in split_output(text)]
    ]


def test_colours_of_a_command_are_drawn() -> None:
    assert drawn("\x1b[31mred\x1b[0m plain\n\x1b[1;92mok\x1b[0m") == [
        [("red", "color(1)")],
        [("ok", "bold color(10)")],
    ]
    assert drawn("\x1b[38;5;208mo\x1b[38;2;1;2;3mx") == [[("o", "color(208)"), ("x", "#010203")]]


def test_nothing_that_hides_text_is_drawn() -> None:
    """Backgrounds, reversed, concealed and blinking text."""
    assert drawn("\x1b[8;7;5;41;48;5;1;48;2;0;0;0mhere\x1b[m") == [[]]


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1b[6n",
        "\x1bP1$r\x1b\\",
        "\x1bc",
        "\x1b(0",
        "\x1b[?25l",
    ],
)
def test_other_sequences_leave_nothing(sequence: str) -> None:
    assert [colour_line(line, "").plain for line in split_output(f"a{sequence}b\x1b[31mc")] == ["abc"]


@given(st.text(alphabet=st.sampled_from("\x1b[]0123456789;:mJHPX\\^_ab\n\t\x07\x9b\x00\u202e"), max_size=60))
def test_whatever_a_command_prints_no_control_character_is_drawn(text: str) -> None:
    for line in split_output(text):
        plain = colour_line(line, "").plain
        assert not [one for one in plain if one < " " or "\x7f" <= one < "\xa0" or one == "\u202e"]


# --- themes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "environ", "theme"),
    [
        ("auto", {"TERM": "xterm"}, "ansi"),
        ("auto", {"TERM": "xterm-256color"}, "dark"),
        ("auto", {"TERM": "xterm", "COLORTERM": "truecolor"}, "dark"),
        ("auto", {"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
        ("light", {"TERM": "xterm-256color"}, "light"),
        ("dark-daltonized", {"TERM": "xterm-256color"}, "dark-daltonized"),
        ("dark-ansi", {"TERM": "xterm-256color"}, "ansi"),
        ("dark", {"TERM": "xterm"}, "ansi"),
        ("none", {"TERM": "xterm-256color"}, "none"),
        ("dark", {"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ("dark", {"TERM": "dumb"}, "none"),
    ],
)
def test_the_theme_fits_the_terminal(wanted: str, environ: dict[str, str], theme: str) -> None:
    assert choose_theme(wanted, environ) == theme


@pytest.mark.setting("theme")
def test_every_theme_has_a_setting_and_every_setting_a_theme() -> None:
    assert set(keys.THEMES) == {*NAMES, *OTHER_NAMES}


@pytest.mark.parametrize("name", THEMES)
def test_where_a_theme_sets_a_background_it_sets_the_text_too(name: str) -> None:
    """Else text could not be read if the theme does not fit the terminal."""
    assert set(styles_of(name)) == set(ANSI), "no style is unknown elsewhere"
    styles = [Style.parse(words) for words in styles_of(name).values()]
    assert all(style.color is not None for style in styles if style.bgcolor is not None)


def test_without_colours_there_are_none() -> None:
    for depth, name in ((ColourDepth.NONE, "dark"), (ColourDepth.TRUE, "none")):
        raw = Painter(depth=depth, name=name).printed(draw_prompt("hello", 20), 20)
        assert "38;" not in raw
        assert "48;" not in raw


def test_a_prompt_stands_on_a_bar() -> None:
    raw = Painter(depth=ColourDepth.TRUE, name="dark").printed(draw_prompt("hello\nyou", 12), 12)
    assert raw.count("48;2;48;48;48") >= 2
    assert [line.plain for line in draw_prompt("hello\nyou", 12)] == ["❯ hello ", "  you   "]


# --- the status line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "right"),
    [
        (100, "~/work · main · claude-sonnet-5-5 · $0.12"),
        (60, "~/work · main · claude-sonnet-5-5"),
        (50, "~/work · claude-sonnet-5-5"),
        (40, "claude-sonnet-5-5"),
    ],
)
def test_the_status_line_shows_as_much_as_fits(width: int, right: str) -> None:
    facts = SessionFacts(DEFAULT_MODEL, "~/work", "main", NANOS_PER_USD * 12 // 100)
    line = "".join([text for _, text, *_ in StatusLine().line(width, "default", facts, remark="", own="")])
    assert line.split("  ")[-1].strip() == right
    assert len(line) <= width


def test_the_branch_comes_from_the_files_of_git(tmp_path: Path) -> None:
    assert find_branch(str(tmp_path / "x")) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feature/\x1b[31mx\n")
    (tmp_path / "src").mkdir()
    assert find_branch(str(tmp_path / "src")) == "feature/[31mx"
    (tmp_path / ".git" / "HEAD").write_text("0123456789abcdef\n")
    assert find_branch(str(tmp_path)) == "0123456"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../.git/worktrees/tree\n")
    (tmp_path / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (tmp_path / ".git" / "worktrees" / "tree" / "HEAD").write_text("ref: refs/heads/other\n")
    assert find_branch(str(tree)) == "other"


def test_the_home_folder_is_written_short() -> None:
    assert shorten_folder("/home/me/x", "/home/me") == "~/x"
    assert shorten_folder("/home/mess", "/home/me") == "/home/mess"


@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("~/work/mainspring", 17, "~/work/mainspring"),
        ("~/work/mainspring", 16, "…/mainspring"),
        ("/a/b/c/d", 6, "…/c/d"),
        ("/a/日本/日本", 7, "…/日本"),
        ("~/work/mainspring", 11, ""),
        ("/", 0, ""),
    ],
)
def test_a_path_keeps_its_last_parts(path: str, width: int, shown: str) -> None:
    assert shorten_path(path, width) == shown


# --- another window -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "environ", "bytes"),
    [
        ("terminal_bell", {}, "\x07"),
        ("iterm2", {}, "\x1b]9;hi\x1b\\"),
        ("iterm2_with_bell", {}, "\x1b]9;hi\x1b\\\x07"),
        ("ghostty", {}, "\x1b]777;notify;mainspring;hi\x1b\\"),
        ("notifications_disabled", {}, ""),
        ("", {"TERM_PROGRAM": "WezTerm"}, "\x1b]9;hi\x1b\\"),
        ("auto", {"TERM": "xterm-kitty"}, "\x1b]9;hi\x1b\\"),
        ("", {}, "\x07"),
    ],
)
def test_a_notification_goes_by_the_channel(channel: str, environ: dict[str, str], bytes: str) -> None:
    assert make_notification("hi", channel, environ) == bytes


def test_no_text_ends_a_sequence() -> None:
    assert make_title("a\x07b\x1b\\c;d\n" + "x" * 100).count("\x1b") == 2
    assert "\x07" not in make_title("a\x07b")


# --- the live region ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_style_of_a_whole_line_is_drawn(name: str) -> None:
    """The titles, rules and questions of dialogs have one style each, and no parts."""
    painter = Painter(depth=ColourDepth.TRUE, name=name)
    for style in ("title", "rule", "asks", "note"):
        parts = painter.line(Text.assemble(("Edit file", style)))
        assert painter.line(Text("Edit file", style)) == parts == [(painter.name_of(style), "Edit file")]
    assert painter.line(Text("", "title")) == []
    assert painter.line(Text("x", "no-such-style")) == [("", "x")]
