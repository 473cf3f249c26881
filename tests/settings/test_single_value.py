"""One setting by its name: what it accepts, whose file may have it, and how the file looks afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import UsageError
from mainspring.settings.edit import ValueChange, write_change
from mainspring.settings.json_text import get_value, remove_value, set_value
from mainspring.settings.keys import KEYS
from mainspring.settings.load import SettingsPaths
from mainspring.settings.persist import SettingsWriter
from mainspring.settings.single_value import find_setting, is_text, parse_value, read_single_value, words_of
from mainspring.settings.values import SettingsSource, SettingsWriteError
from settings.stage import Stage

USER, PROJECT, LOCAL = SettingsSource.USER, SettingsSource.PROJECT, SettingsSource.LOCAL


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def put(stage: Stage, source: SettingsSource, name: str, value: object) -> None:
    write_change(places(stage), source, ValueChange(find_setting(name).keys, value))


def places(stage: Stage) -> SettingsPaths:
    return SettingsPaths(str(stage.home), str(stage.project))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("theme", "dark", "dark"),
        ("sandbox.enabled", "false", False),
        ("limits.maxTurns", "12", 12),
        ("limits.max_turns", "12", 12),
        ("api.maxCostUsd", "2.5", 2.5),
        ("model", "12", "12"),
        ("permissions.defaultMode", "plan", "plan"),
        ("claudeMdExcludes", '["a", "b"]', ["a", "b"]),
        ("env.LANG", "C", "C"),
        ("models.gpt-9.1", '{"window": 5}', {"window": 5}),
    ],
)
def test_a_text_becomes_the_value_that_the_key_takes(name: str, text: str, value: object) -> None:
    parsed = parse_value(find_setting(name), text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("theme", "drak", "Did you mean 'dark'"),
        ("sandbox.enabled", "maybe", "it must be true or false"),
        ("limits.maxTurns", "0", "at least 1"),
        ("limits.maxTurns", "-", "at least 1"),
        ("env.A B", "x", "not a valid variable name"),
        ("claudeMdExcludes", "[1]", "it must be a string"),
        ("statusLine", "echo", "it must be a table"),
    ],
)
def test_a_text_that_the_key_does_not_take_is_refused_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_value(find_setting(name), text)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tehme", "Did you mean 'theme'"),
        ("env.", "there is no setting 'env.'"),
        ("theme.dark", "there is no setting 'theme.dark'"),
        ("editorMode.x", "there is no setting"),
    ],
)
def test_an_unknown_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        find_setting(name)


def test_every_key_is_found_and_says_what_it_takes() -> None:
    for key in KEYS:
        assert find_setting(key.name).spelled == key.name
        assert not (words_of(key) and is_text(key))
        for word in words_of(key):
            parse_value(find_setting(key.name), word)


@pytest.mark.parametrize(
    ("source", "name", "value", "reason"),
    [
        (PROJECT, "api.baseUrl", "http://x", "choose the user settings"),
        (LOCAL, "mcpServers.files", {"command": "x"}, "choose the user settings"),
        (PROJECT, "permissions.defaultMode", "bypassPermissions", "only the user may"),
        (LOCAL, "sandbox.enabled", False, "only the user may"),
        (USER, "allowManagedHooksOnly", True, "only the administrator"),
        (PROJECT, "env.TOKEN", "sk-ant-api03-" + "x" * 80, "looks like a secret"),
        (USER, "theme", 5, "it must be one of"),
    ],
)
def test_what_a_file_may_not_say_is_not_written(
    stage: Stage, source: SettingsSource, name: str, value: object, reason: str
) -> None:
    with pytest.raises(SettingsWriteError, match=reason):
        put(stage, source, name, value)
    assert read_single_value(places(stage), source, find_setting(name)) is None


def test_the_rest_of_the_file_stays_as_it_was_written(stage: Stage) -> None:
    old = '{\n    "unknown": [1,   2],\n    "permissions": {"default_mode": "plan"},\n\n    "theme": "dark"\n}\n'
    stage.place("user").write_text(old)
    put(stage, USER, "permissions.defaultMode", "acceptEdits")
    put(stage, USER, "limits.maxTurns", 5)
    more = '"dark",\n    "limits": {\n        "maxTurns": 5\n    }'
    new = old.replace('"plan"', '"acceptEdits"').replace('"dark"', more)
    assert stage.place("user").read_text() == new
    write_change(places(stage), USER, ValueChange(("limits", "maxTurns"), unset=True))
    write_change(places(stage), USER, ValueChange(("theme",), unset=True))
    assert json.loads(stage.place("user").read_text()) == {
        "unknown": [1, 2], "permissions": {"default_mode": "acceptEdits"}, "limits": {}
    }  # fmt: skip


def test_entries_of_a_table_are_not_taken_for_another_spelling(stage: Stage) -> None:
    put(stage, USER, "mcpServers.my_server", {"command": "a"})
    put(stage, USER, "mcpServers.myServer", {"command": "b"})
    found = read_single_value(places(stage), USER, find_setting("mcpServers"))
    assert found is not None
    assert found.value == {"my_server": {"command": "a"}, "myServer": {"command": "b"}}


def test_what_has_no_effect_is_said(stage: Stage) -> None:
    writer = SettingsWriter(str(stage.project), stage.environ)
    change = ValueChange(("theme",), "dark")
    assert "not trusted" in writer.write(PROJECT, change).words[0]
    stage.trust()
    assert writer.write(PROJECT, change).words == ()
    assert "overrides it" in writer.write(USER, ValueChange(("theme",), "light")).words[0]
    assert "is still set: project" in writer.write(USER, ValueChange(("theme",), unset=True)).words[0]


trees = st.recursive(
    st.integers(0, 9) | st.text("ab", max_size=2),
    lambda inner: (
        st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, max_size=3) | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text("xyz", min_size=1, max_size=2), trees, max_size=4)


@given(objects, st.sampled_from((None, 2, "\t")), st.data())
def test_removing_a_key_removes_nothing_else(
    tree: dict[str, object], indent: int | str | None, data: st.DataObject
) -> None:
    text = json.dumps(tree, indent=indent)
    keys = tuple(data.draw(st.lists(st.sampled_from([*tree, "x", "y"]), min_size=1, max_size=2)))
    new = json.loads(remove_value(text, keys))
    inner = get_value(tree, keys[:-1])
    if isinstance(inner, dict):
        inner.pop(keys[-1], None)  # pyright: ignore[reportUnknownMemberType]
    assert new == tree


@given(objects, trees)
def test_what_is_set_can_be_removed_again(tree: dict[str, object], value: object) -> None:
    text = json.dumps(tree, indent=2)
    if "new" not in tree:
        assert json.loads(remove_value(set_value(text, ("new",), value), ("new",))) == tree
