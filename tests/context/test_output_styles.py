"""Output styles: where they are found, what they replace, and which of them count."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.context.output_styles import BUILT_IN, SORT, OutputStyles
from mainspring.context.project_files import ConfigFolders
from mainspring.context.prompt import PromptStyle, system_prompt
from mainspring.core.errors import UsageError

BUILT = list(BUILT_IN)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def styles(base: Path, *, trusted: bool = True, sources: tuple[str, ...] | None = None) -> OutputStyles:
    user, home, project = base / "user", base / "user/.mainspring", base / "project"
    bounds = "" if trusted else str(project)
    return OutputStyles(ConfigFolders(str(user), str(home), (str(project),), trusted, sources, SORT, bounds))


def test_they_are_found_in_four_folders_and_the_first_of_one_name_counts(tmp_path: Path) -> None:
    for place in ("user/.mainspring", "user/.claude", "project/.mainspring", "project/.claude"):
        write(tmp_path / place / "output-styles/same.md", f"From {place}.")
        write(tmp_path / place / f"output-styles/{place.replace('/', '-')}.md", "Text.")
    found = styles(tmp_path)
    own = ["same", "user-.mainspring", "user-.claude", "project-.mainspring", "project-.claude"]
    assert sorted(found.names) == sorted([*BUILT, *own])
    assert found.find("same").text == "From user/.mainspring."


@pytest.mark.parametrize(
    ("trusted", "sources", "there"),
    [
        (False, None, ["mine"]),
        (True, None, ["mine", "theirs"]),
        (True, ("user",), ["mine"]),
        (True, ("project",), ["theirs"]),
        (True, (), []),
    ],
)
def test_a_projects_styles_follow_trust_and_sources(
    tmp_path: Path, trusted: bool, sources: tuple[str, ...] | None, there: list[str]
) -> None:
    write(tmp_path / "user/.claude/output-styles/mine.md", "Mine.")
    write(tmp_path / "project/.claude/output-styles/theirs.md", "Theirs.")
    assert list(styles(tmp_path, trusted=trusted, sources=sources).by_name) == there


def test_a_head(tmp_path: Path) -> None:
    head = "---\nname: My Style\ndescription: What it is\nkeep-coding-instructions: true\n---\n\nDo this.\n"
    write(tmp_path / "user/.claude/output-styles/file.md", head)
    style = styles(tmp_path).find("My Style")
    assert (style.name, style.about, style.keeps_coding, style.text) == ("My Style", "What it is", True, "Do this.")


def test_one_of_ones_own_takes_the_place_of_a_built_in_one(tmp_path: Path) -> None:
    write(tmp_path / "user/.claude/output-styles/Explanatory.md", "My way.")
    found = styles(tmp_path)
    assert found.names == tuple(BUILT)
    assert found.find("Explanatory").text == "My way."


def test_an_unknown_one_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown output style 'Haiku'\. Available: default, Proactive, Concise"):
        styles(tmp_path).find("Haiku")


@pytest.mark.parametrize("text", ["---\nname: a\x1b[31mb\n---\nx", f"---\nname: {'a' * 65}\n---\nx", "---\nname: a\nx"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path / "user/.claude/output-styles/odd.md", text)
    found = styles(tmp_path)
    assert list(found.by_name) == []
    assert len(found.problems) == 1


def test_a_link_out_of_a_folder_that_nobody_trusts_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "Secret.")
    folder = tmp_path / "project/.claude/output-styles"
    folder.mkdir(parents=True)
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    places = styles(tmp_path, trusted=False).places
    consented = OutputStyles(
        ConfigFolders(places.user, places.home, places.project, True, ("project",), SORT, places.bounds)
    )
    assert list(consented.by_name) == []
    assert "leads to" in consented.problems[0]


def test_what_a_style_replaces() -> None:
    def titles(style: PromptStyle | None) -> list[str]:
        text = "\n".join(system_prompt([], "here", attended=True, style=style))
        return [line for line in text.splitlines() if line.startswith("# ")]

    usual = ["# How to work", "# Tools", "# Care", "# Answers"]
    assert titles(None) == usual
    assert titles(PromptStyle("X", "Text.", keeps_coding=True)) == [*usual[:3], "# Output style: X"]
    assert titles(PromptStyle("X", "Text.")) == [*usual[1:3], "# Output style: X"]
    assert system_prompt([], "here", attended=True, style=PromptStyle("X", "Text."))[-1] == "# Output style: X\n\nText."
