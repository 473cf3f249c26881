"""The system prompt and the surroundings: short, and the same from request to request."""

from __future__ import annotations

import datetime as dt

import pytest

from mainspring.context.attachments import (
    describe_workspace,
    format_today,
    make_date_attachment,
    make_repository_attachment,
)
from mainspring.context.git import GitSnapshot
from mainspring.context.prompt import ALONE, ATTENDED, system_prompt
from mainspring.core.value import as_json
from mainspring.tools.catalog import SPECS

CHARS_PER_TOKEN = 3  # a little high, as everywhere (D-31): English has rather more than four


def tokens(text: str | bytes) -> float:
    return len(text) / CHARS_PER_TOKEN


@pytest.mark.parametrize("attended", [True, False])
def test_it_is_short(attended: bool) -> None:
    blocks = system_prompt(SPECS, describe_workspace("/home/somebody/work/project", git=True), attended=attended)
    assert tokens("".join(blocks)) < 1_500
    tools = as_json([{"name": name, "description": about, "input_schema": s} for name, (about, s) in SPECS.items()])
    assert tokens("".join(blocks)) + tokens(tools) < 8_000


@pytest.mark.covers("A-14")
def test_the_first_block_is_the_same_for_every_folder_and_door() -> None:
    here = system_prompt(SPECS, describe_workspace("/a", git=True), attended=True)
    there = system_prompt(SPECS, describe_workspace("/b", git=False), attended=False)
    assert here[0] == there[0]
    assert here[1].startswith(ATTENDED)
    assert there[1].startswith(ALONE)
    assert "Working folder: /a\n" in here[1]


def test_nothing_in_it_changes_from_day_to_day() -> None:
    text = "".join(system_prompt(SPECS, describe_workspace("/a", git=True), attended=True))
    assert str(dt.datetime.now(tz=dt.UTC).year) not in text
    assert text == "".join(system_prompt(SPECS, describe_workspace("/a", git=True), attended=True))


def test_only_tools_that_are_there_are_spoken_of() -> None:
    text, _ = system_prompt(["Read"], "", attended=True)
    for name in ("Grep", "Glob", "Edit", "Bash", "tasks"):
        assert name in system_prompt(SPECS, "", attended=True)[0]
    for name in ("Grep", "Glob", "Edit", "Bash", "tasks"):
        assert name not in text


def test_every_tool_that_it_names_is_ours() -> None:
    from mainspring.context.prompt import SECTIONS

    needed = {line.needs for section in SECTIONS for line in section.lines if line.needs}
    assert needed <= set(SPECS)


def test_the_date_is_that_of_the_users_clock() -> None:
    noon = dt.datetime(2026, 3, 1, 12, 0).astimezone()
    assert format_today(int(noon.timestamp() * 1_000)) == "Sunday, 2026-03-01"
    assert make_date_attachment(int(noon.timestamp() * 1_000)).text == "Today is Sunday, 2026-03-01."


def test_a_folder_with_half_a_character_in_its_name_can_be_told() -> None:
    assert describe_workspace("/a\udcff", git=False).encode()


def test_what_git_said_in_words() -> None:
    assert make_repository_attachment(GitSnapshot("main", "", (" M a",), True, ("1234 Words",))).text == (
        "Branch: main\n\nChanged files, as in 'git status --short':\n M a\n(There are more: run 'git status'.)\n\n"
        "Last commits:\n1234 Words"
    )
    assert (
        make_repository_attachment(GitSnapshot("", "f" * 40, ())).text
        == f"Detached at {'f' * 12}\n\nNo file is changed."
    )
    assert "not known: no git." in make_repository_attachment(GitSnapshot("main", problem="no git")).text
