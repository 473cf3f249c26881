"""Every settings key of Claude Code has a state, and the loader treats it so (settled 38)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.settings import keys
from mainspring.settings.claude_code_keys import CLAUDE_CODE_KEYS, EARLIER, NOTHING_TO_RESTRICT, ClaudeCodeKey, Support
from mainspring.settings.effective import format_origins
from mainspring.settings.load import SettingsRequest
from mainspring.settings.values import ProblemKind, Settings, SettingsError
from settings.stage import Stage, texts

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import settings_keys_page
import settings_schema

REFUSED = [key for key in CLAUDE_CODE_KEYS if key.support is Support.REFUSED]
UNSUPPORTED = [key for key in CLAUDE_CODE_KEYS if key.support is Support.UNSUPPORTED]
# Values that ask for something, for those keys that a plain text would not do for.
VALUES: dict[str, Any] = {
    "modelSettings": {"opus": {"maxEffortLevel": "low"}},
    "respectGitignore": False,
    "skipWebFetchPreflight": False,
}


def named(keys: list[ClaudeCodeKey]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("key", keys, ids=[key.name for key in keys])


def tree(name: str, value: object) -> dict[str, object]:
    for part in reversed(name.split(".")):
        value = {part: value}
    return value  # type: ignore[return-value]


def said(key: ClaudeCodeKey) -> dict[str, object]:
    """With what a key of our own needs beside it."""
    beside = {"type": "command", "command": "true"} if key.name.startswith("statusLine.") else {}
    found = tree(key.name, VALUES.get(key.name, "something"))
    return {"statusLine": {**beside, **found["statusLine"]}} if beside else found  # type: ignore[dict-item]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# --- the table ------------------------------------------------------------------------------------------------


def test_the_table_has_the_keys_of_the_bundled_program() -> None:
    assert {key.name for key in CLAUDE_CODE_KEYS} - EARLIER == set(settings_schema.bundled_keys())


def test_each_key_stands_in_the_table_once() -> None:
    assert len({key.name for key in CLAUDE_CODE_KEYS}) == len(CLAUDE_CODE_KEYS)


def test_honoured_keys_are_those_that_the_loader_carries_out() -> None:
    """A key of the table that nothing reads, or one that is read and stands there as something else, is a lie."""
    honoured = {key.name for key in CLAUDE_CODE_KEYS if key.support is Support.HONOURED} - NOTHING_TO_RESTRICT
    carried_out = {*keys.BY_NAME, "statusLine.command", "statusLine.type"}
    theirs = {key.name for key in CLAUDE_CODE_KEYS}
    assert honoured == carried_out & theirs
    assert not {key.name for key in (*REFUSED, *UNSUPPORTED)} & {*keys.BY_NAME}


def test_every_key_of_the_loader_is_known_to_settings_as_a_value(stage: Stage) -> None:
    """What is honoured is shown as in force, and nothing else is."""
    stage.say("user", {"verbose": True, "model": "opus", "disableRemoteControl": True})
    assert [value.name for value in stage.load().effective] == ["model"]


def test_the_page_is_written_from_the_table() -> None:
    assert settings_keys_page.PAGE.read_text() == settings_keys_page.page(), "run scripts/settings_keys_page.py"


def test_every_key_has_a_test() -> None:
    """Honoured ones by a mark on the test that shows it; the others by the tests below, which go through all."""
    marked = settings_keys_page.marked_tests()
    honoured = {key.name for key in CLAUDE_CODE_KEYS if key.support is Support.HONOURED} - NOTHING_TO_RESTRICT
    assert honoured - set(marked) == set()
    assert set(marked) - honoured == set(), "a mark names no key that is honoured"


# --- the states -----------------------------------------------------------------------------------------------


@named(UNSUPPORTED)
def test_an_unsupported_key_is_named(key: ClaudeCodeKey, stage: Stage) -> None:
    file = stage.say("user", said(key))
    found = [one for one in stage.load().problems if one.kind is ProblemKind.UNSUPPORTED]
    assert [str(one) for one in found] == [f"{file}: '{key.name}' has no effect: {key.note}"]
    assert f"unsupported: {found[0]}" in format_origins(stage.load())


@named(UNSUPPORTED)
def test_an_unsupported_key_that_asks_for_nothing_is_not_named(key: ClaudeCodeKey, stage: Stage) -> None:
    for value in key.harmless:
        beside = {"type": "command", "command": "true"} if key.name.startswith("statusLine.") else {}
        given = tree(key.name, value)
        stage.say("user", {"statusLine": {**beside, **given["statusLine"]}} if beside else given)  # type: ignore[dict-item]
        assert stage.load().problems == ()


@named([key for key in CLAUDE_CODE_KEYS if key.name in NOTHING_TO_RESTRICT])
@pytest.mark.parametrize("who", ["user", "administrator", "project"])
def test_what_restricts_something_that_does_not_exist_is_accepted(key: ClaudeCodeKey, who: str, stage: Stage) -> None:
    stage.say(who, tree(key.name, True))
    assert stage.load() == Settings()


@named(REFUSED)
@pytest.mark.parametrize("who", ["user", "administrator"])
def test_a_refused_key_stops_the_start(key: ClaudeCodeKey, who: str, stage: Stage) -> None:
    file = stage.say(who, said(key))
    with pytest.raises(SettingsError) as error:
        stage.load()
    assert str(error.value).startswith(f"{file}:1:")
    assert f"'{key.name}' restricts {key.note}, and mainspring does not support it. mainspring did not start" in str(
        error.value
    )


@named(REFUSED)
def test_a_refused_key_on_the_command_line_stops_the_start(key: ClaudeCodeKey, stage: Stage) -> None:

    with pytest.raises(SettingsError, match=r"mainspring did not start\. Correct or remove it"):
        stage.load(SettingsRequest(settings=said(key)))


@named(REFUSED)
@pytest.mark.parametrize("who", ["project", "local", "ours"])
def test_a_refused_key_of_a_trusted_project_stops_the_start_with_the_way_out(
    key: ClaudeCodeKey, who: str, stage: Stage
) -> None:
    stage.say(who, said(key))
    stage.trust()
    with pytest.raises(SettingsError, match=r"setting_sources=user.*mainspring trust --remove"):
        stage.load()
    assert stage.load(SettingsRequest(sources=("user",))) == Settings()


@named(REFUSED)
@pytest.mark.parametrize("who", ["project", "local"])
def test_a_refused_key_of_an_untrusted_project_is_named_and_takes_away(
    key: ClaudeCodeKey, who: str, stage: Stage
) -> None:
    file = stage.say(who, said(key))
    settings = stage.load()
    (problem,) = settings.problems
    assert (problem.kind, problem.place) == (ProblemKind.REFUSED, str(file))
    assert f"'{key.name}' restricts {key.note}" in problem.says
    assert texts(settings.permissions.deny) == list(key.off)
    assert all(tool in problem.says for tool in key.off)


@named(REFUSED)
def test_a_refused_key_that_asks_for_nothing_does_not_stop_the_start(key: ClaudeCodeKey, stage: Stage) -> None:
    for value in key.harmless:
        stage.say("user", tree(key.name, value))
        assert stage.load() == Settings()


def test_a_key_that_restricts_by_some_values_is_unsupported_with_others(stage: Stage) -> None:
    stage.say("user", {"modelSettings": {"opus": {"effortLevel": "low"}}})
    assert [str(one.kind) for one in stage.load().problems] == ["unsupported"]


def test_deny_rules_of_a_file_stay_beside_what_a_refused_key_takes_away(stage: Stage) -> None:
    stage.say("project", {"permissions": {"deny": ["Read(.env)"]}, "isolation": {"required": True}})
    assert texts(stage.load().permissions.deny) == ["Read(.env)", "Bash"]


def test_keys_of_toml_are_the_same_keys(stage: Stage) -> None:
    stage.say("user toml", "verbose = true\n[sandbox.network]\nhttp_proxy_port = 1\n")
    with pytest.raises(SettingsError, match="httpProxyPort"):
        stage.load()


def test_many_unsupported_keys_of_one_file_take_a_line_for_each_reason(stage: Stage) -> None:
    file = stage.say("user", {"tui": "x", "verbose": True, "enabledPlugins": {"a@b": True}})
    assert [str(one) for one in stage.load().problems] == [
        f"{file}: 'tui', 'verbose' have no effect: the terminal of mainspring cannot be customized",
        f"{file}: 'enabledPlugins' has no effect: mainspring loads plugins from named folders only",
    ]


# --- a restriction that cannot be read ------------------------------------------------------------------------

BROKEN = {
    "allowedMcpServers": [{"serverName": "a", "serverUrl": "b"}],
    "autoMode.classifyAllShell": "yes",
    "autoMode.hard_deny": 1,
    "autoMode.soft_deny": {},
    "availableModels": "opus",
    "availableModelsMatch": "precise",
    "deniedMcpServers": {"serverName": "a"},
    "deniedModels": [1],
    "disableAutoMode": True,
    "enforceAvailableModels": "yes",
    "maxEffortLevel": "tiny",
    "permissions.ask": {},
    "permissions.deny": 1,
    "permissions.disableAutoMode": True,
    "permissions.disableBypassPermissionsMode": True,
    "sandbox.filesystem.denyRead": [["a"]],
    "skillOverrides": {"a": "hidden"},
    "sandbox.filesystem.denyWrite": 1,
    "sandbox.network.deniedDomains": {},
}


def test_all_keys_that_must_hold_are_tried() -> None:
    """Those of everybody here; those that a project has no say in are in test_restrictions.py."""
    assert {key.name for key in keys.KEYS if key.must_hold and key.by is keys.SettingAuthority.UNTRUSTED} == set(BROKEN)


NEVER_MATCHING = [
    ("deniedModels", ["opus 4.8"]),
    ("availableModels", [""]),
    ("sandbox.filesystem.denyRead", ["~bob/secret"]),
    ("sandbox.filesystem.denyWrite", ["${HOME}/x"]),
    ("sandbox.network.deniedDomains", ["https://example.com"]),
    ("sandbox.network.deniedDomains", ["example.com/path"]),
    ("sandbox.network.deniedDomains", ["ex*mple.com"]),
]


@pytest.mark.parametrize(("name", "value"), [*BROKEN.items(), *NEVER_MATCHING])
@pytest.mark.parametrize("who", ["user", "administrator", "trusted", "untrusted"])
def test_a_restriction_that_cannot_be_read_is_not_passed_over(name: str, value: object, who: str, stage: Stage) -> None:
    stage.say("project" if "trusted" in who else who, tree(name, value))
    if who == "untrusted":
        assert "Bash" in texts(stage.load().permissions.deny)
        return
    if who == "trusted":
        stage.trust()
    with pytest.raises(SettingsError, match=rf"'{name}.*' is a restriction that cannot be read"):
        stage.load()
