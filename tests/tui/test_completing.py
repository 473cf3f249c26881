"""What may be meant by what stands before the cursor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.agent.slash_commands import SlashCommand
from mainspring.cli.tui.completion import (
    MOST,
    Candidate,
    CompletionOption,
    CompletionSources,
    find_candidates,
    format_mention,
    rank_matches,
)
from mainspring.cli.tui.files_index import build_path_index, is_typable
from mainspring.context.custom_commands import SlashEntry
from mainspring.context.memory import find_mentions

WORDS = (
    SlashCommand("compact", "Sum up", "[instructions]"),
    SlashCommand("clear", "Begin anew"),
    SlashCommand("context", "Show what fills the context window"),
    SlashCommand("model", "Which model", "[name]"),
    SlashEntry("commit-all", "Commit it"),
    SlashEntry("git:review", "Review\n\x1b[31mit", "<what>"),
    SlashEntry("mcp__files__comb", "A prompt of a server"),
    SlashEntry("bad\x1bname", "Nobody can type it"),
)
BEHIND: dict[str, Callable[[], list[CompletionOption]]] = {
    "model": lambda: [CompletionOption("claude-opus"), CompletionOption("claude-haiku"), CompletionOption("gpt-5")],
    "resume": lambda: [
        CompletionOption("0a1b2c3d", "Fix the parser\x1b"),
        CompletionOption("99aa0000", "Write a test"),
    ],
}


def known_of(*files: str, cwd: str = "/nowhere", home: str = "", denied: str = "\0") -> CompletionSources:
    paths = build_path_index(files)
    return CompletionSources(lambda: WORDS, lambda: paths, lambda path: denied not in path, BEHIND, cwd, home)


def texts(before: str, known: CompletionSources | None = None) -> list[str]:
    return [one.text for one in find_candidates(before, known or known_of())]


# --- words with a slash -----------------------------------------------------------------------------------------------


@pytest.mark.covers("O-03")
def test_a_slash_alone_offers_all_words_in_their_order() -> None:
    assert texts("/") == [
        "/compact ",
        "/clear",
        "/context",
        "/model ",
        "/commit-all",
        "/git:review ",
        "/mcp__files__comb",
    ]


def test_every_word_is_offered_however_many_there_are() -> None:
    many = [SlashEntry(f"own-{number:03}", "") for number in range(200)]
    known = replace(known_of(), words=lambda: [*WORDS, *many])
    assert texts("/", known)[-1] == "/own-199"
    assert len(texts("/", known)) == 207
    assert texts("/o199", known) == ["/own-199"]


def test_what_begins_with_it_comes_before_what_only_has_its_letters() -> None:
    assert texts("/com") == ["/compact ", "/commit-all", "/mcp__files__comb"]
    assert texts("/cx") == ["/context"]
    assert texts("/rev") == ["/git:review "]
    assert texts("/nothing") == []


def test_a_word_is_shown_with_what_may_follow_and_on_one_harmless_line() -> None:
    assert find_candidates("/git", known_of()) == (Candidate("/git:review ", 0, "/git:review <what>", "Review [31mit"),)


@pytest.mark.parametrize("before", ["say /com", "\n/com", " /com", "/com then", "x/com"])
def test_a_slash_anywhere_else_is_no_word(before: str) -> None:
    assert texts(before) == []


def test_behind_a_word_stands_what_it_takes() -> None:
    assert texts("/model ") == ["claude-opus", "claude-haiku", "gpt-5"]
    assert find_candidates("/model  hai", known_of()) == (Candidate("claude-haiku", 8, "claude-haiku"),)
    assert texts("/context ") == []


def test_a_session_is_found_by_its_title_too() -> None:
    assert find_candidates("/resume pars", known_of()) == (Candidate("0a1b2c3d", 8, "0a1b2c3d", "Fix the parser"),)
    assert texts("/resume 99") == ["99aa0000"]


def test_a_file_may_be_named_behind_a_word_of_others() -> None:
    assert texts("/commit-all @rea", known_of("README.md")) == ["@README.md "]


@given(st.text("ab-", max_size=6), st.lists(st.text("abAB-", max_size=8), max_size=10))
def test_what_fits_is_ranked_and_nothing_else_is_there(query: str, among: list[str]) -> None:
    def fits(text: str) -> bool:
        rest = iter(text.lower())
        return all(letter in rest for letter in query)

    found = rank_matches(query, among, lambda text: (text,))
    assert sorted(found) == sorted(filter(fits, among))
    begins = [text.lower().startswith(query) for text in found]
    assert begins == sorted(begins, reverse=True)


def test_long_words_of_one_letter_are_ranked_at_once() -> None:
    """A search that tries again at each letter would not end."""
    assert rank_matches("a" * 200 + "b", ["a" * 5_000] * 10, lambda text: (text,)) == []


# --- paths of the project ---------------------------------------------------------------------------------------------


@pytest.mark.covers("O-05")
def test_a_path_is_offered_behind_an_at_that_begins_a_word() -> None:
    known = known_of("src/main.py", "README.md")
    assert texts("@", known) == ["@src/", "@README.md ", "@src/main.py "]
    assert find_candidates("see (@mai", known) == (Candidate("@src/main.py ", 5, "src/main.py"),)
    assert texts("first\n@mai", known) == ["@src/main.py "]


@pytest.mark.parametrize("before", ["me@mai", "@mai ", "`@mai", "mai", "", '@"src/main.py"', "@mai\n"])
def test_any_other_at_is_just_a_sign(before: str) -> None:
    assert texts(before, known_of("src/main.py")) == []


def test_a_path_with_blanks_is_in_quotes_and_one_can_type_on_behind_a_folder() -> None:
    known = known_of("my notes/to do.md")
    assert texts("@my", known) == ["@my\\ notes/", '@"my notes/to do.md" ']
    assert texts("@my\\ notes/", known) == ['@"my notes/to do.md" ']
    assert texts('see @"my notes/t', known) == ['@"my notes/to do.md" ']


def test_a_folder_that_is_typed_is_not_offered_again() -> None:
    assert texts("@src/", known_of("src/a.py", "src/b/c.py")) == ["@src/b/", "@src/a.py ", "@src/b/c.py "]


def test_what_may_not_be_read_is_not_offered() -> None:
    known = known_of("src/a.py", "src/secret.py", "secrets/b.py", denied="secret")
    assert texts("@", known) == ["@src/", "@src/a.py "]
    assert texts("@secret", known) == []


def test_rules_are_asked_with_the_whole_path_and_not_for_ever() -> None:
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return False

    known = replace(known_of(*[f"a/{number}.py" for number in range(1_000)]), may_read=may_read)
    assert texts("@a/", known) == []
    assert len(asked) == 200
    assert asked[:2] == ["/nowhere/a", "/nowhere/a/0.py"]


def test_no_more_is_offered_than_can_be_looked_at() -> None:
    assert len(texts("@py", known_of(*[f"{number}.py" for number in range(1_000)]))) == MOST


def test_a_folder_that_is_called_like_a_home_is_not_offered() -> None:
    assert texts("@not", known_of("~/notes.md")) == []


parts = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
any_path = st.builds(
    lambda names, folder: "/".join(names) + "/" * folder, st.lists(parts, min_size=1, max_size=3), st.booleans()
).filter(is_typable)


@given(any_path)
def test_whatever_is_offered_is_read_as_this_path(path: str) -> None:
    text = format_mention(path)
    assert find_mentions(text) == ((path,) if text else ())
    assert find_mentions(f"see {text} now") == ((path,) if text else ())


@given(st.text('ab ."\\()[]#,é', min_size=1, max_size=8), st.booleans())
def test_every_usual_name_can_be_spelled_unless_it_has_quotes_and_blanks(name: str, folder: bool) -> None:
    path = name + "/" * folder
    assert format_mention(path) or '"' in path or "\\" in path


@given(st.text(' ab@"/~.!\\`\n(', max_size=20))
def test_whatever_is_typed_what_is_offered_takes_the_place_of_its_end(before: str) -> None:
    for one in find_candidates(before, known_of("a b/b a.py", "ab", 'a"b')):
        assert 0 <= one.start <= len(before)
        assert one.text.startswith(("@", "/")) or before.startswith(("!", "/"))
        assert one.start == len(before) or before[one.start] == one.text[0] or before.startswith("!")


# --- folders that are listed ------------------------------------------------------------------------------------------


@pytest.fixture
def known(tmp_path: Path) -> CompletionSources:
    for name in ("home/notes.md", "home/.hidden", "home/Deep er/x", "work/ignored.log", "work/a file.txt", "work/$odd"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "home")
    return known_of(cwd=str(tmp_path / "work"), home=str(tmp_path / "home"))


def test_what_is_elsewhere_is_listed_folder_by_folder(known: CompletionSources, tmp_path: Path) -> None:
    assert texts("@~/", known) == ["@~/Deep\\ er/", "@~/notes.md "]
    assert texts("@../home/no", known) == ["@../home/notes.md "]
    assert texts("@./", known) == ["@./$odd ", '@"./a file.txt" ', "@./ignored.log ", "@./link/"]
    assert texts(f"@{tmp_path}/wor", known) == [f"@{tmp_path}/work/"]
    assert texts("@~/.h", known) == ["@~/.hidden "]


def test_the_two_short_names_of_folders_lead_there(known: CompletionSources) -> None:
    assert (texts("@..", known), texts("@~", known)) == (["@../"], ["@~/"])


def test_a_folder_that_is_not_there_has_nothing(known: CompletionSources) -> None:
    assert [texts(text, known) for text in ("@/no/such/", "@~x/", "@./ignored.log/", "@./\0/")] == [[]] * 4


def test_rules_hold_for_them_as_well(known: CompletionSources) -> None:
    assert texts("@~/", replace(known, may_read=lambda path: not path.endswith("/notes.md"))) == ["@~/Deep\\ er/"]


# --- for a shell ------------------------------------------------------------------------------------------------------


def test_a_command_gets_paths_spelled_for_a_shell(known: CompletionSources) -> None:
    assert find_candidates("!cat a", known)[0] == Candidate("a\\ file.txt", 5, "a file.txt")
    assert texts("!cat -n ../home/D", known) == ["../home/Deep\\ er/"]
    assert texts("!cat ../home/Deep\\ er/", known) == ["../home/Deep\\ er/x"]
    assert texts("!cat ./\\$", known) == ["./\\$odd"]
    assert texts("!cat ~/no", known) == ["~/notes.md"]


def test_a_program_is_not_guessed_unless_it_is_a_path(known: CompletionSources) -> None:
    assert texts("!ign", known) == []
    assert texts("!./ign", known) == ["./ignored.log"]
    assert texts("!cat ", known) == []
    assert texts("!cat 'a", known) == []
