"""Long pastes, which stand in the input as one word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.completion import MOST_CHARACTERS, MOST_KEPT, PastedTexts, clean_paste
from mainspring.context.memory import find_mentions

LONG = "\n".join(f"line {number}" for number in range(42))


def new() -> PastedTexts:
    return PastedTexts("/nowhere")


def shown(text: str) -> str:
    return text.replace("\u00a0", " ")


# --- what stands for it ---------------------------------------------------------------------------------------------


def test_a_short_paste_is_itself() -> None:
    ten = "\n".join("abcdefghij")
    assert [new().put(text) for text in ("one", ten, f"{ten}\n", "x" * MOST_CHARACTERS)] == [
        "one",
        ten,
        f"{ten}\n",
        "x" * MOST_CHARACTERS,
    ]


def test_a_long_one_is_one_word_that_says_how_long() -> None:
    pastes = new()
    assert shown(pastes.put(LONG)) == "[Pasted text #1, 42 lines]"
    assert shown(pastes.put("x" * (MOST_CHARACTERS + 1))) == "[Pasted text #2, 1 line]"
    assert shown(pastes.put("\n" * 11)) == "[Pasted text #3, 11 lines]"


@pytest.mark.covers("O-05")
def test_each_is_put_back_where_it_stood() -> None:
    pastes = new()
    first, second = pastes.put(LONG), pastes.put(LONG.upper())
    assert pastes.expand(f"see {second}, then {first}!{first}") == f"see {LONG.upper()}, then {LONG}!{LONG}"


def test_what_a_paste_holds_is_not_put_back_in_turn() -> None:
    pastes = new()
    first = pastes.put(LONG)
    second = pastes.put(f"{first}\n" * 20)
    assert pastes.expand(second) == f"{first}\n" * 20


def test_what_was_typed_by_hand_is_just_text() -> None:
    pastes = new()
    stands = pastes.put(LONG)
    for typed in (shown(stands), "[Pasted\u00a0text #2, 42 lines]", "[Pasted\u00a0text #1, 41 lines]"):
        assert pastes.expand(typed) == typed


def test_one_that_was_edited_is_text_and_takes_nothing_along() -> None:
    pastes = new()
    stands = pastes.put(LONG)
    edited = stands.replace("42", "4")
    assert pastes.expand(edited) == edited
    assert pastes.before(edited, len(edited)) == 1


@given(st.lists(st.one_of(st.text(max_size=30), st.just(LONG), st.just(LONG * 2)), max_size=8))
def test_the_prompt_is_what_was_pasted_in_all(pieces: list[str]) -> None:
    pastes, text = new(), ""
    for piece in pieces:
        text += pastes.put(piece, before=text)
    assert pastes.expand(text) == "".join(map(clean_paste, pieces))


def test_old_ones_are_forgotten_but_never_those_in_the_input() -> None:
    pastes = new()
    first, text = pastes.put(LONG), ""
    for number in range(MOST_KEPT + 5):
        text += pastes.put(f"{number}{LONG}", before=text)
    assert pastes.expand(first) == first
    assert pastes.expand(text) == "".join(f"{number}{LONG}" for number in range(MOST_KEPT + 5))
    assert len(pastes._texts) == MOST_KEPT + 5


# --- one unit -------------------------------------------------------------------------------------------------------


def test_backspace_at_its_end_and_delete_at_its_beginning_take_all_of_it() -> None:
    pastes = new()
    stands = pastes.put(LONG)
    text = f"a [{stands}] b"
    start, end = 3, 3 + len(stands)
    assert (pastes.before(text, end), pastes.after(text, start)) == (len(stands), len(stands))
    assert (pastes.before(text, end + 1), pastes.after(text, start - 1)) == (1, 1)
    assert (pastes.before(text, 0), pastes.after(text, len(text))) == (0, 0)
    assert {pastes.around(text, at) for at in range(start, end)} == {(start, end)}


@given(st.text("[]Pasted\u00a0text #1, 42 lines", max_size=60), st.integers(0, 60))
def test_a_key_takes_one_character_of_any_other_text(text: str, cursor: int) -> None:
    pastes, cursor = new(), min(cursor, len(text))
    assert pastes.before(text, cursor) == min(1, cursor)
    assert pastes.after(text, cursor) == min(1, len(text) - cursor)


# --- cleaning -------------------------------------------------------------------------------------------------------


def test_ends_of_lines_are_line_feeds_and_control_characters_are_gone() -> None:
    assert clean_paste("a\r\nb\rc\n\td\0e\x1b[31mf\x7f\x9bg\udc80h") == "a\nb\nc\n\tde[31mfgh"


@given(st.text())
def test_a_cleaned_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    clean = clean_paste(text)
    assert clean_paste(clean) == clean
    assert all(char in "\n\t" or (char >= " " and not "\x7f" <= char < "\xa0") for char in clean)


# --- images ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "my shot.PNG", "it's.webp", "notes.md"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    return tmp_path


@pytest.mark.covers("O-05")
def test_the_path_of_an_image_goes_along(folder: Path) -> None:
    pastes = PastedTexts(str(folder), home=str(folder))
    blank = str(folder / "my shot.PNG")
    address = f"file://{folder}/my%20shot.PNG"
    dropped = {
        "a.png": "@a.png ",
        " ~/a.png \n": "@~/a.png ",
        str(folder / "a.png"): f"@{folder}/a.png ",
        blank: f'@"{blank}" ',
        blank.replace(" ", "\\ "): f'@"{blank}" ',
        f"'{blank}'": f'@"{blank}" ',
        address: f'@"{blank}" ',
    }
    assert {said: pastes.put(said) for said in dropped} == dropped
    assert find_mentions(pastes.put(address)) == (blank,)


def test_other_paths_and_images_that_are_not_there_are_text(folder: Path) -> None:
    pastes = PastedTexts(str(folder))
    texts = [
        "notes.md",
        "b.png",
        "folder.png",
        "see a.png",
        "a.png\na.png",
        ".png",
        "'",
        "a\0.md",
        "/" * 5_000 + "a.png",
    ]
    assert [pastes.put(text) for text in texts[:-1]] == [clean_paste(text) for text in texts[:-1]]
    assert pastes.expand(pastes.put(texts[-1])) == texts[-1]


def test_an_image_stands_apart_from_what_is_there(folder: Path) -> None:
    pastes = PastedTexts(str(folder))
    assert pastes.put("a.png", before="see", after=" and") == " @a.png"
    assert pastes.put("a.png", before="see ", after="") == "@a.png "
