"""Mistakes in the hooks of a settings file: each is named with its file and entry, and no guard is open by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.settings.load import SettingsRequest
from mainspring.settings.values import HookSetting, ProblemKind, Settings, SettingsError
from settings.stage import Stage, kinds

HOOK: dict[str, Any] = {"type": "command", "command": "./guard"}
WARNING, BROKEN = ProblemKind.WARNING, ProblemKind.BROKEN


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def loaded(stage: Stage, hooks: object) -> tuple[Settings, str]:
    file = stage.say("user", {"hooks": hooks})
    settings = stage.load()
    assert all(str(problem).startswith(f"{file}:1:") for problem in settings.problems)
    return settings, "\n".join([problem.says for problem in settings.problems])


@pytest.mark.parametrize(
    ("matcher", "why"),
    [("[", "not a valid regular expression"), ("(a+)+", "without end"), (5, "string"), (["Bash"], "string")],
)
def test_a_broken_matcher_stands_for_every_call(stage: Stage, matcher: object, why: str) -> None:
    settings, said = loaded(stage, {"PreToolUse": [{"hooks": [HOOK]}, {"matcher": matcher, "hooks": [HOOK]}]})
    assert kinds(settings) == [WARNING]
    assert "'hooks.PreToolUse[1].matcher' is not used as written: it " in said
    assert why in said
    assert said.endswith("Its hooks run for every call of PreToolUse")
    assert [(hook.matcher, hook.entry, hook.broken) for hook in settings.hooks] == [
        ("", "hooks.PreToolUse[0].hooks[0]", ""),
        ("", "hooks.PreToolUse[1].hooks[0]", ""),
    ]


def test_a_broken_matcher_stops_no_start(stage: Stage) -> None:
    tree = {"hooks": {"PreToolUse": [{"matcher": "[", "hooks": [HOOK]}]}}
    stage.say("administrator", tree)
    settings = stage.load(SettingsRequest({"hooks": {"Stop": [{"matcher": "[", "hooks": []}]}}))
    assert [hook.matcher for hook in settings.hooks] == [""]
    assert kinds(settings) == [WARNING] * 3


DETAILS: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    ({"timeout": -1}, "timeout", "has the default time limit", {}),
    ({"timeout": "5"}, "timeout", "has the default time limit", {}),
    ({"onFailure": "deny"}, "onFailure", "failure of its hook blocks", {"onFailure": "block"}),
    ({"async": "no"}, "async", "does not run in the background", {}),
    ({"timout": 5}, "timout", "Did you mean 'timeout'?", {"timout": 5}),
]


@pytest.mark.parametrize(("more", "field", "says", "kept"), DETAILS)
def test_a_wrong_detail_has_its_strict_reading(
    stage: Stage, more: dict[str, Any], field: str, says: str, kept: dict[str, Any]
) -> None:
    settings, said = loaded(stage, {"PreToolUse": [{"matcher": "Bash", "hooks": [{**HOOK, **more}]}]})
    assert (kinds(settings), [hook.command for hook in settings.hooks]) == ([WARNING], [{**HOOK, **kept}])
    assert f"'hooks.PreToolUse[0].hooks[0].{field}'" in said
    assert says in said


UNDERSTOOD: list[object] = [
    {"matcher": "Bash", "hooks": [HOOK]},
    [{"matcher": "Bash", "hooks": HOOK}],
    [{"matcher": "Bash", **HOOK}],
    [{"matcher": "Bash", "hooks": [{"command": "./guard"}]}],
]


@pytest.mark.parametrize("groups", UNDERSTOOD)
def test_a_shape_that_can_be_understood_is_used(stage: Stage, groups: object) -> None:
    settings, said = loaded(stage, {"PreToolUse": groups})
    assert [(hook.matcher, hook.command) for hook in settings.hooks] == [("Bash", HOOK)]
    assert kinds(settings) == [BROKEN]
    assert "used" in said


LOST: list[tuple[object, str, str]] = [
    ("./guard", "hooks.PreToolUse", ""),
    (None, "hooks.PreToolUse", ""),
    ({}, "hooks.PreToolUse", ""),
    (["./guard"], "hooks.PreToolUse[0]", ""),
    ([{"matcher": "Bash"}], "hooks.PreToolUse[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": "./guard"}], "hooks.PreToolUse[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": ["./guard"]}], "hooks.PreToolUse[0].hooks[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": [{"type": "comand", "command": "x"}]}], "hooks.PreToolUse[0].hooks[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": [{"type": "command"}]}], "hooks.PreToolUse[0].hooks[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": [{"type": "command", "command": " "}]}], "hooks.PreToolUse[0].hooks[0]", "Bash"),
    ([{"matcher": "Bash", "hooks": [{"type": "command", "command": 5}]}], "hooks.PreToolUse[0].hooks[0]", "Bash"),
]


@pytest.mark.parametrize(("groups", "entry", "matcher"), LOST)
def test_a_guard_that_cannot_run_is_kept_to_refuse(stage: Stage, groups: object, entry: str, matcher: str) -> None:
    settings, said = loaded(stage, {"PreToolUse": groups})
    [hook] = settings.hooks
    assert (hook.entry, hook.matcher, bool(hook.broken)) == (entry, matcher, True)
    assert kinds(settings) == [BROKEN]
    assert f"'{entry}'" in said
    assert said.endswith("Every call that it would guard is denied until you fix it")
    with pytest.raises(SettingsError, match="mainspring does not start"):
        stage.load(SettingsRequest(json.loads(stage.place("user").read_text())))
    settings, said = loaded(stage, {"Stop": groups})
    assert (settings.hooks, kinds(settings)) == ((), [BROKEN])
    assert said.endswith("It is left out")


def test_a_broken_entry_takes_none_of_its_neighbours_along(stage: Stage) -> None:
    settings, _ = loaded(stage, {"Stop": [{"hooks": [{"type": "command"}, HOOK]}]})
    assert [hook.entry for hook in settings.hooks] == ["hooks.Stop[0].hooks[1]"]


def test_an_empty_list_of_hooks_is_told(stage: Stage) -> None:
    settings, said = loaded(stage, {"PreToolUse": [{"matcher": "Bash", "hooks": []}], "Stop": []})
    assert (settings.hooks, kinds(settings)) == ((), [WARNING])
    assert "'hooks.PreToolUse[0]'" in said
    assert "nothing runs" in said


UNREADABLE = '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./guard"},]}]}}'


def test_guards_in_a_file_that_cannot_be_read_refuse(stage: Stage) -> None:
    file = stage.say("user", UNREADABLE)
    settings = stage.load()
    [hook] = settings.hooks
    assert (hook.event, hook.matcher, hook.origin.place, bool(hook.broken)) == ("PreToolUse", "", str(file), True)
    assert "every call is denied until you fix it" in settings.problems[0].says
    stage.say("user", UNREADABLE.replace("PreToolUse", "Stop"))
    assert stage.load().hooks == ()
    stage.place("user").unlink()
    stage.say("project", UNREADABLE)
    assert stage.load().hooks == ()  # a folder that nobody trusts holds nothing up
    stage.trust()
    assert [one.event for one in stage.load().hooks] == ["PreToolUse"]


def test_hooks_without_a_mistake_are_as_they_were(stage: Stage) -> None:
    settings, said = loaded(stage, {"PreToolUse": [{"matcher": "Bash", "hooks": [{**HOOK, "timeout": 5}]}]})
    origin = settings.hooks[0].origin
    assert settings.hooks == (
        HookSetting("PreToolUse", "Bash", {**HOOK, "timeout": 5}, origin, "hooks.PreToolUse[0].hooks[0]"),
    )
    assert said == ""
