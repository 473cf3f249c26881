"""What came of an answer that was to be kept, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.settings.edit import ListChange, ModeChange
from mainspring.settings.load import SettingsRequest
from mainspring.settings.persist import SettingsWriter
from mainspring.settings.values import SettingsSource
from settings.stage import Stage

RULE = ListChange("allow", ("Bash(ls)",))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def keeper(stage: Stage, asked: SettingsRequest = SettingsRequest()) -> SettingsWriter:  # noqa: B008  # a frozen value
    return SettingsWriter(str(stage.project), stage.environ, asked)


def test_nothing_is_said_of_what_will_hold(stage: Stage) -> None:
    stage.trust()
    for source, who in (
        (SettingsSource.USER, "user"),
        (SettingsSource.PROJECT, "project"),
        (SettingsSource.LOCAL, "local"),
    ):
        kept = keeper(stage).keep(source, RULE)
        assert (kept.files, kept.words) == ((str(stage.place(who)),), ())


def test_a_folder_that_is_not_trusted(stage: Stage) -> None:
    """What allows is kept, and counts when the folder is trusted; what denies or asks counts at once."""
    kept = keeper(stage).keep(SettingsSource.LOCAL, RULE)
    assert kept.files == (str(stage.place("local")),)
    assert kept.words == (
        "'Bash(ls)' was saved, but it counts only after 'mainspring trust': this folder is not trusted",
    )
    for name in ("deny", "ask"):
        assert keeper(stage).keep(SettingsSource.LOCAL, ListChange(name, ("Bash(rm:*)",))).words == ()
    assert (
        keeper(stage)
        .keep(SettingsSource.PROJECT, ModeChange("plan"))
        .words[0]
        .startswith("'plan' was saved, but it counts only")
    )
    assert keeper(stage).keep(SettingsSource.USER, RULE).words == ()
    stage.trust()
    assert keeper(stage).keep(SettingsSource.LOCAL, RULE).words == ()


def test_a_source_that_is_left_out(stage: Stage) -> None:
    [words] = keeper(stage, SettingsRequest(sources=("user",))).keep(SettingsSource.LOCAL, RULE).words
    assert words == "'Bash(ls)' was saved, but 'setting_sources' leaves out the local settings, so it will not apply"


def test_something_above(stage: Stage) -> None:
    stage.say("user toml", '[permissions]\ndefault_mode = "default"\nallow = ["Read"]\n')
    [words] = keeper(stage).keep(SettingsSource.USER, ModeChange("plan")).words
    assert words == "'plan' was saved, but a setting with higher precedence overrides it: see 'mainspring config'"
    [words] = keeper(stage).keep(SettingsSource.USER, ListChange("allow", removed=("Read",))).words
    assert words == f"'Read' is also in '{stage.place('user toml')}': remove it there yourself"


def test_what_cannot_be_kept(stage: Stage) -> None:
    stage.say("user", "{")
    [words] = keeper(stage).keep(SettingsSource.USER, RULE).words
    assert words.startswith(
        f"not saved in the user settings, applies to this session only: {stage.place('user')}:1:2: "
    )
    [words] = keeper(stage).keep(SettingsSource.LOCAL, ModeChange("bypassPermissions")).words
    assert words.endswith("a project may not choose the mode 'bypassPermissions', only the user may")


def test_no_secret_goes_into_a_file(stage: Stage) -> None:
    """Commands hold keys now and then; the rule for one would be kept in plain words, in a repository's folder."""
    key = "sk-ant-api03-" + "a1B2" * 20
    kept = keeper(stage).keep(
        SettingsSource.PROJECT, ListChange("allow", (f"Bash(curl -H 'x-api-key: {key}' localhost)",))
    )
    assert kept.files == ()
    assert kept.words == (
        "not saved in the project settings, applies to this session only: it contains what looks like a secret",
    )
    assert not stage.place("project").exists()


def test_no_folder_to_write_in(stage: Stage) -> None:
    stage.project.joinpath(".claude").write_text("a file where the folder should be")
    [words] = keeper(stage).keep(SettingsSource.LOCAL, RULE).words
    assert words.startswith("not saved in the local settings, applies to this session only: ")
