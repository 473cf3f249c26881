"""Keys that change the input: Escape, stash, vi keys, and keys of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.cli.tui.key_bindings import KeyChange, load_own_keys, parse_keys
from mainspring.cli.tui.keys import ACTIONS
from tui.desk import Desk, at_desk

ESC, CTRL_S, CTRL_E = "\x1b", "\x13", "\x05"


# --- Escape and stash ---------------------------------------------------------------------------------------------


def test_escape_twice_clears_the_input() -> None:
    def play(desk: Desk) -> None:
        assert desk.press("hello" + ESC).text == "hello|"
        assert desk.remark == "Press Esc again to clear"
        assert desk.press(ESC).text == "|"
        assert desk.remark == ""
        desk.press(ESC + ESC)
        assert desk.remark == "", "an empty input has nothing to clear"

    at_desk(play)


def test_a_second_escape_must_follow_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(desk: Desk) -> None:
        desk.press("hello" + ESC)
        desk.app._escaped -= 60  # a minute passes
        assert desk.press(ESC).text == "hello|"

    at_desk(play)


def test_the_input_is_put_aside_and_comes_back() -> None:
    def play(desk: Desk) -> None:
        assert desk.press("first" + CTRL_S).text == "|"
        assert desk.press(CTRL_S).text == "first|"
        assert desk.press(CTRL_S + "now this").text == "now this|"
        assert desk.press("\r").text == "first|", "after another prompt it comes back by itself"
        assert desk.app._early == ["now this"]
        assert desk.press("\r").text == "|"

    at_desk(play)


def test_two_texts_change_places() -> None:
    def play(desk: Desk) -> None:
        desk.press("one" + CTRL_S + "two" + CTRL_S)
        assert desk.text == "one|"
        assert desk.press("\x15" + CTRL_S).text == "two|"

    at_desk(play)


# --- vi keys --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("one two three", "one two three|"),
        ("one two three" + ESC, "one two thre|e"),
        ("one two three" + ESC + "0", "|one two three"),
        ("one two three" + ESC + "bb", "one |two three"),
        ("one two three" + ESC + "0w", "one |two three"),
        ("one two three" + ESC + "02w", "one two |three"),
        ("one two three" + ESC + "0e", "on|e two three"),
        ("  one" + ESC + "^", "  |one"),
        ("one two" + ESC + "0$", "one tw|o"),
        ("one two" + ESC + "0ft", "one |two"),
        ("one two" + ESC + "0tt", "one| two"),
        ("a\nb\nc" + ESC + "gg", "|a\nb\nc"),
        ("a\nb\nc" + ESC + "ggG", "a\nb\n|c"),
        ("one two three" + ESC + "0dw", "|two three"),
        ("one two three" + ESC + "02dw", "|three"),
        ("one two three" + ESC + "0d2w", "|three"),
        ("one two" + ESC + "0D", "|"),
        ("one two" + ESC + "0cwnew" + ESC, "ne|w two"),
        ("one two" + ESC + "0yw$p", "one twoone| "),
        ("a\nb" + ESC + "ddp", "a\n|b"),
        ("one two" + ESC + "0x", "|ne two"),
        ("one two" + ESC + "03x", "| two"),
        ("one" + ESC + "xu", "on|e"),
        ("one" + ESC + "otwo", "one\ntwo|"),
        ("one" + ESC + "Otwo", "two|\none"),
        ("one" + ESC + "0ix", "x|one"),
        ("one" + ESC + "0ax", "ox|ne"),
        ("one" + ESC + "0Ax", "onex|"),
        ("one two" + ESC + "bix\x7f", "one |two"),
        ("one (two) x" + ESC + "0f(di(", "one (|) x"),
    ],
)
def test_vi_keys(keys: str, text: str) -> None:
    def play(desk: Desk) -> None:
        assert desk.press(keys.replace("\n", "\x0a")).text == text

    at_desk(play, vi=True)


@pytest.mark.setting("editorMode")
def test_the_mode_is_shown_and_a_prompt_begins_in_insert_mode() -> None:
    def play(desk: Desk) -> None:
        assert desk.mode == "INSERT"
        assert desk.press("hello" + ESC).mode == "NORMAL"
        assert desk.press("v").mode == "VISUAL"
        assert desk.press(ESC).mode == "NORMAL"
        assert desk.press("r").mode == "REPLACE"
        desk.press("x\r")
        assert (desk.app._early, desk.mode, desk.text) == (["hellx"], "INSERT", "|")
        desk.app._vi.switch(on=False)
        assert desk.mode == ""

    at_desk(play, vi=True)


def test_escape_in_normal_mode_is_ours() -> None:
    def play(desk: Desk) -> None:
        desk.press("hello" + ESC)
        assert desk.remark == ""
        assert desk.press(ESC).remark == "Press Esc again to clear"
        assert desk.press(ESC).text == "|"

    at_desk(play, vi=True)


def test_half_a_command_is_given_up_first() -> None:
    def play(desk: Desk) -> None:
        desk.press("hello" + ESC + "2d" + ESC)
        assert (desk.remark, desk.text) == ("", "hell|o")

    at_desk(play, vi=True)


def test_the_arrow_keys_are_no_escape() -> None:
    def play(desk: Desk) -> None:
        assert desk.press("ab\x1b[Dx").text == "ax|b"
        assert desk.mode == "INSERT"

    at_desk(play, vi=True)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGIJKLMNOPRSTUVWXYZ0123456789^$%()[]{}\"'`;,.~<>=+-*#@&|"
CONTROLS = ("\x0a", "\x01", "\x05", "\x0b", "\x15", "\x17", "\x19", "\x1f", CTRL_S, ESC, "\x7f", "\t")
SEQUENCES = ("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[3~", "\x1bb", "\x1bf", "\x1b[200~pasted\ntext\x1b[201~")
EDITING = st.lists(st.sampled_from((*LETTERS, *CONTROLS, *SEQUENCES, " ", "漢", "e\u0301")), max_size=40)


def types_at_random(keys: list[str], *, vi: bool) -> None:
    def play(desk: Desk) -> None:
        for key in keys:
            desk.press(key)
            buffer = desk.app._editor.buffer
            assert 0 <= buffer.cursor_position <= len(buffer.text)
            assert not set(buffer.text) & set(map(chr, range(32))) - {"\n", "\t"}, repr(buffer.text)
        if vi:
            desk.press(ESC + ESC + "i")
        desk.app._stashed = ""
        desk.press("\x1b[200~end\x1b[201~")
        assert "end" in desk.app._editor.buffer.text, "it still takes text"
        desk.press("\r")
        assert desk.app._early or desk.app._editor.buffer.complete_state is not None

    at_desk(play, vi=vi)


@settings(max_examples=10)
@given(keys=EDITING, vi=st.booleans())
def test_random_keys(keys: list[str], *, vi: bool) -> None:
    types_at_random(keys, vi=vi)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(keys=EDITING, vi=st.booleans())
def test_many_random_keys(keys: list[str], *, vi: bool) -> None:
    types_at_random(keys, vi=vi)


# --- keys of the user -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "keys"),
    [
        ("ctrl+g", ("c-g",)),
        ("Alt+P", ("escape", "p")),
        ("meta+shift+x", ("escape", "X")),
        ("shift+tab", ("s-tab",)),
        ("ctrl+x ctrl+e", ("c-x", "c-e")),
        ("f5", ("f5",)),
        ("ctrl+up", ("c-up",)),
        ("escape", ("escape",)),
        ("ctrl+space", ("c-@",)),
        ("ctrl+c", "'ctrl+c' cannot be changed"),
        ("ctrl+m", "'ctrl+m' cannot be changed"),
        ("x", "'x' is text: add ctrl or alt"),
        ("hyper+x", "no key 'hyper+x'"),
        ("ctrl+1", "no key 'ctrl+1'"),
        ("", "a key without a name"),
        ("ctrl+", "no key 'ctrl+'"),
    ],
)
def test_names_of_keys(shown: str, keys: object) -> None:
    assert parse_keys(shown) == keys


def key_file(folder: Path, *blocks: object, text: str = "") -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "keybindings.json").write_text(text or json.dumps({"bindings": blocks}))
    return [str(folder)]


def test_own_keys_come_from_the_first_folder_that_has_some(tmp_path: Path) -> None:
    theirs = key_file(tmp_path / "theirs", {"context": "Chat", "bindings": {"ctrl+e": "chat:externalEditor"}})
    found = load_own_keys([str(tmp_path / "none"), *theirs], ACTIONS)
    assert found.changes == (KeyChange("ctrl+e", ("c-e",), "chat:externalEditor"),)
    assert not found.warning
    key_file(tmp_path / "none", {"context": "Autocomplete", "bindings": {"tab": "autocomplete:odd"}})
    assert load_own_keys([str(tmp_path / "none"), *theirs], ACTIONS) == ((), "")


def test_mistakes_cost_one_warning(tmp_path: Path) -> None:
    folders = key_file(tmp_path, {"bindings": {"ctrl+e": "chat:stahs", "ctrl+c": None, "ctrl+t": None}})
    found = load_own_keys(folders, ACTIONS)
    assert found.changes == (KeyChange("ctrl+t", ("c-t",), None),)
    assert found.warning == (
        f"Ignored in '{tmp_path}/keybindings.json': no action 'chat:stahs', did you mean 'chat:stash'?; "
        "'ctrl+c' cannot be changed."
    )


@pytest.mark.parametrize("text", ["{", '{"bindings": 1}', "[]", "\x00", '{"bindings": [{"bindings": {"ctrl+e": 1}}]}'])
def test_a_broken_file_changes_nothing(tmp_path: Path, text: str) -> None:
    found = load_own_keys(key_file(tmp_path, text=text), ACTIONS)
    assert found.changes == ()
    assert found.warning.startswith(f"Key bindings not loaded: '{tmp_path}/keybindings.json' is not valid: ")


def test_own_keys_replace_ours() -> None:
    def play(desk: Desk) -> None:
        own = {"ctrl+e": "chat:stash", "ctrl+s": None, "ctrl+x ctrl+n": "chat:newline", "enter": "chat:newline"}
        changes = []
        for shown, action in own.items():
            keys = parse_keys(shown)
            assert not isinstance(keys, str)
            changes.append(KeyChange(shown, keys, action))
        desk.app._keys.take_own(changes)
        assert desk.press("one" + CTRL_S).text == "one|", "it does nothing"
        assert desk.press(CTRL_E).text == "|"
        assert desk.press(CTRL_E + "\x18\x0e" + "two\r").text == "one\ntwo\n|"
        rows = dict(desk.app._keys.help_rows())
        assert rows["Ctrl-S, ctrl+e"] == "stash the input, or bring it back"

    at_desk(play)


def test_the_page_has_every_action() -> None:
    page = (Path(__file__).parents[2] / "docs/terminal.md").read_text(encoding="utf-8")
    assert [action for action in ACTIONS if f"`{action}`" not in page] == []
