"""Commands of the user and the project, and the one list of what a word with a slash stands for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.agent_types import find_agent_types
from mainspring.context.custom_commands import (
    DEEPEST,
    LONGEST_ABOUT,
    CustomCommand,
    CustomCommands,
    SlashCatalog,
    SlashEntry,
    fill_arguments,
)
from mainspring.context.project_files import ConfigFolders
from mainspring.context.skills import LARGEST, MOST, Skills
from mainspring.core.errors import ToolError


def put(path: Path, text: str = "Do it.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def commands_in(folder: Path) -> CustomCommands:
    return CustomCommands(ConfigFolders(home=str(folder), sort="commands"))


def slash_in(folder: Path) -> SlashCatalog:
    return SlashCatalog(Skills(ConfigFolders(home=str(folder))), commands_in(folder))


# --- which there are --------------------------------------------------------------------------------


@pytest.mark.covers("O-05")
def test_a_file_and_its_head(tmp_path: Path) -> None:
    path = put(
        tmp_path / "commands/fix.md",
        "---\ndescription: Fixes an issue.\nargument-hint: [number] [how]\nmodel: haiku\n"
        "allowed-tools: Bash(git *), Read\n---\nFix it.",
    )
    assert commands_in(tmp_path).by_name == {
        "fix": CustomCommand(
            "fix", "Fixes an issue.", str(path), "[number] [how]", ("Bash(git *)", "Read"), "haiku", project=False
        )
    }


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("[a]", "[a]"),
        ("[a, b]", "[a, b]"),
        ('"<a> #b"', "<a> #b"),
        ("'it''s'", "it's"),
        ("add [id] | list", "add [id] | list"),
    ],
)
def test_a_hint_is_told_as_it_stands(said: str, hint: str, tmp_path: Path) -> None:
    put(tmp_path / "commands/x.md", f"---\nargument-hint: {said}\n---\nx")
    assert commands_in(tmp_path).by_name["x"].hint == hint


def test_without_a_head_its_first_words_describe_it(tmp_path: Path) -> None:
    put(tmp_path / "commands/x.md", "# Title\n\nLook at\nit.\n\nMore.")
    assert commands_in(tmp_path).by_name["x"].about == "Look at it."


@pytest.mark.covers("O-05")
def test_folders_are_part_of_the_name_and_may_be_left_out(tmp_path: Path) -> None:
    put(tmp_path / "commands/git/fix.md", "of git")
    put(tmp_path / "commands/web/fix.md", "of web")
    put(tmp_path / "commands/web/css/tidy.md", "of css")
    put(tmp_path / "commands/plain.md", "plain")
    put(tmp_path / "commands/web/plain.md", "of web, too")
    put(tmp_path / "commands/notes.txt")
    slash = slash_in(tmp_path)
    names = [entry.name for entry in slash.entries()]
    assert names == ["plain", "git:fix", "web:fix", "web:plain", "web:css:tidy"]
    wanted = {"git:fix": "of git", "web:fix": "of web", "web:css:tidy": "of css", "web:plain": "of web, too"}
    short = {"fix": "of git", "tidy": "of css", "plain": "plain"}  # of two, the first; the whole name before the short
    assert {name: slash.text(name) for name in wanted | short} == wanted | short
    with pytest.raises(ToolError, match="no command and no skill '/css:tidy'"):
        slash.text("css:tidy")


def test_the_users_come_before_the_projects_which_come_with_trust(tmp_path: Path) -> None:
    user, cwd = tmp_path / "home", tmp_path / "work"
    put(user / ".mainspring/commands/a.md", "ours")
    put(user / ".claude/commands/a.md", "theirs")
    put(cwd / ".claude/commands/a.md", "the project's")
    put(cwd / ".claude/commands/b.md", "the project's")
    put(cwd / ".mainspring/commands/b.md", "ours in the project")

    def texts(*, trusted: bool) -> dict[str, str]:
        found = CustomCommands(
            ConfigFolders(str(user), str(user / ".mainspring"), (str(cwd),), trusted, sort="commands")
        )
        return {name: found.text(one) for name, one in found.by_name.items()}

    assert texts(trusted=False) == {"a": "ours"}
    assert texts(trusted=True) == {"a": "ours", "b": "ours in the project"}


def test_broken_ones_are_named_and_the_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "commands"
    put(folder / "good.md")
    put(folder / "alias.md", "---\ndescription: *x\n---\n")
    put(folder / "two words.md")
    put(folder / "open.md", "---\ndescription: x\n")
    (folder / "binary.md").write_bytes(b"a\0b")
    os.mkfifo(folder / "pipe.md")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "folder.md").mkdir()
    slash = slash_in(tmp_path)
    assert [entry.name for entry in slash.entries()] == ["good"]
    left_out = sorted([problem.split("'")[1].rpartition("/")[2] for problem in slash.news()])
    assert left_out == ["alias.md", "binary.md", "folder.md", "loop.md", "open.md", "pipe.md", "two words.md"]
    assert slash.news() == ()  # once


def test_a_circle_of_folders_and_a_deep_one_have_an_end(tmp_path: Path) -> None:
    put(tmp_path / "commands/one/x.md")
    (tmp_path / "commands/one/again").symlink_to("..")
    (tmp_path / "elsewhere").mkdir()
    put(tmp_path / "elsewhere/y.md")
    (tmp_path / "commands/linked").symlink_to(tmp_path / "elsewhere")
    put(tmp_path / "commands" / "/".join("abcde"[:DEEPEST]) / "x.md")
    put(tmp_path / "commands" / "/".join("abcdef") / "too-deep.md")
    assert set(commands_in(tmp_path).by_name) == {"one:x", "linked:y", "a:b:c:d:e:x"}


def test_there_is_an_end_to_them(tmp_path: Path) -> None:
    for n in range(MOST + 10):
        put(tmp_path / f"commands/c{n:03}.md", "word " * 200)
    entries = slash_in(tmp_path).entries()
    assert len(entries) == MOST
    assert max(len(entry.about) for entry in entries) <= LONGEST_ABOUT + 3


def test_a_broken_one_is_told_of_once_however_often_it_is_read(tmp_path: Path) -> None:
    path = put(tmp_path / "commands/bad.md", "---\ndescription: *x\n---\n")
    found = commands_in(tmp_path)
    for later in range(3):  # as if it was being written all the time: it is read at every look
        os.utime(path, ns=(0, (later + 1) * 10**9))
        found.refresh()
    [problem] = found.problems
    assert "bad.md' is left out: " in problem
    put(path, "Do it.")
    assert found.refresh()
    assert found.problems == []


@pytest.mark.parametrize("sort", ["commands", "skills"])
def test_what_nobody_trusts_cannot_lead_out_of_its_folder(sort: str, tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    secret = put(tmp_path / "secret.md", "the password is swordfish")
    inside = put(cwd / "docs/text.md", "inside")
    for name, target in (("out", secret), ("in", inside)):
        link = cwd / ".claude" / sort / (f"{name}.md" if sort == "commands" else f"{name}/SKILL.md")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    kind = CustomCommands if sort == "commands" else Skills

    def found(bounds: str, *denied: Path) -> tuple[set[str], list[str]]:
        rules = {str(path) for path in denied}
        made = kind(
            ConfigFolders(
                project=(str(cwd),), trusted=True, sort=sort, bounds=bounds, may_read=lambda p: p not in rules
            )
        )
        return set(made.by_name), made.problems

    names, [problem] = found(str(cwd))
    assert names == {"in"}
    assert "mainspring trust" in problem
    assert str(secret) in problem
    assert found("") == ({"in", "out"}, [])
    names, [problem] = found("", secret)
    assert names == {"in"}
    assert "a rule denies" in problem


def test_an_agent_of_a_folder_that_nobody_trusts_cannot_lead_out_either(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    secret = put(tmp_path / "secret.md", "---\ndescription: x\n---\nswordfish")
    put(cwd / ".claude/agents/in.md", "---\ndescription: x\n---\nfine")
    (cwd / ".claude/agents/out.md").symlink_to(secret)
    places = ConfigFolders(project=(str(cwd),), trusted=True, sort="agents", bounds=str(cwd))
    found = find_agent_types(places)
    assert {"in", "out"} & found.kinds.keys() == {"in"}
    assert [problem.split("'")[1] for problem in found.problems] == [str(cwd / ".claude/agents/out.md")]
    assert {"in", "out"} <= find_agent_types(
        ConfigFolders(project=places.project, trusted=True, sort="agents")
    ).kinds.keys()


def test_a_folder_that_leads_out_is_not_even_listed(tmp_path: Path) -> None:
    put(tmp_path / "private/diary.md")
    (tmp_path / "work/.claude/commands").mkdir(parents=True)
    (tmp_path / "work/.claude/commands/all").symlink_to(tmp_path / "private")
    places = ConfigFolders(project=(str(tmp_path / "work"),), trusted=True, sort="commands")
    assert set(CustomCommands(places).by_name) == {"all:diary"}
    bound = CustomCommands(
        ConfigFolders(project=places.project, trusted=True, sort="commands", bounds=str(tmp_path / "work"))
    )
    assert (bound.by_name, bound.problems) == ({}, [])


def test_a_link_that_is_turned_later_is_not_followed_either(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    path = put(cwd / ".claude/commands/x.md", "fine")
    secret = put(tmp_path / "secret.md", "swordfish")
    found = CustomCommands(ConfigFolders(project=(str(cwd),), trusted=True, sort="commands", bounds=str(cwd)))
    command = found.by_name["x"]
    assert found.text(command) == "fine"
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(ToolError, match="leads to"):
        found.text(command)


# --- what they stand for ----------------------------------------------------------------------------


@pytest.mark.covers("O-05")
def test_a_skill_comes_before_a_command_of_its_name(tmp_path: Path) -> None:
    put(tmp_path / "skills/both/SKILL.md", "---\ndescription: A skill.\n---\nof the skill")
    put(tmp_path / "commands/both.md", "---\ndescription: A command.\n---\nof the command")
    put(tmp_path / "commands/one.md", "---\ndescription: One.\nargument-hint: word\n---\nof one")
    slash = slash_in(tmp_path)
    assert slash.entries() == (SlashEntry("both", "A skill."), SlashEntry("one", "One.", "word"))
    assert slash.text("both").endswith("of the skill")
    assert slash.text("one") == "of one"


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Say $ARGUMENTS, $ARGUMENTS.", "a 'b c'", "Say a 'b c', a 'b c'."),
        ("Say $1 to $2.", "hello 'all of you' rest", "Say hello to all of you."),
        ("Say $1 to $2$3.", "hello", "Say hello to ."),
        ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),  # what is put in is not looked at again
        ("It costs $100, $1.", "x", "It costs $100, x."),
        ("$1", "don't do", "don't"),  # an open quote is a letter
        ("No place.", "for words", "No place.\n\nArguments: for words"),
        ("No place.", "", "No place."),
        ("$0 and $ARG", "a", "$0 and $ARG\n\nArguments: a"),
    ],
)
def test_arguments(body: str, arguments: str, text: str) -> None:
    assert fill_arguments(body, arguments) == text


@given(st.text(alphabet="$ARGUMENTS129 '\"\\a\n", max_size=80), st.text(alphabet="$1 '\"\\ab", max_size=40))
def test_any_arguments_fit_into_any_text(body: str, arguments: str) -> None:
    assert len(fill_arguments(body, arguments)) <= len(body) + (body.count("$") + 1) * (len(arguments) + 20)


def test_nothing_in_it_runs_and_its_size_has_a_limit(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    put(tmp_path / "commands/x.md", f"---\nallowed-tools: Bash\n---\nNow: !`touch {mark}`\n$(touch {mark})")
    put(tmp_path / "commands/long.md", "words\n" * LARGEST)
    slash = slash_in(tmp_path)
    assert slash.text("x") == f"Now: !`touch {mark}`\n$(touch {mark})"
    assert not mark.exists()
    assert len(slash.text("long")) < LARGEST + 200
    assert "[Cut: " in slash.text("long")


def test_looking_again_finds_what_is_new(tmp_path: Path) -> None:
    path = put(tmp_path / "commands/one.md")
    found = commands_in(tmp_path)
    put(tmp_path / "commands/two.md")
    assert found.refresh()
    assert not found.refresh()
    path.unlink()
    with pytest.raises(ToolError, match="The command 'one' cannot be read"):
        found.text(found.by_name["one"])
    assert found.refresh()
    assert set(found.by_name) == {"two"}
