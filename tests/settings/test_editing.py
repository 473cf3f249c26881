"""A change to a JSON text leaves the rest as it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.settings.json_text import EMPTY, edit_list, set_value
from mainspring.settings.read import UnreadableSettings

ALLOW = ("permissions", "allow")
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LEAF = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT
INNER = st.recursive(LEAF, lambda one: st.lists(one, max_size=3) | st.dictionaries(TEXT, one, max_size=3), max_leaves=6)
TREE = st.dictionaries(TEXT, INNER, max_size=4)
RULES = st.lists(TEXT, max_size=4, unique=True)
INDENTS: list[Any] = [None, 1, 2, 4, "\t"]


def everything(_: object) -> bool:
    return True


def dumped(tree: object, indent: Any) -> str:
    return json.dumps(tree, indent=indent, ensure_ascii=False)


@given(TREE, st.none() | RULES, RULES, RULES, st.sampled_from(INDENTS))
def test_a_list_as_json_dumps_would_have_written_it(
    tree: dict[str, Any], old: list[str] | None, removed: list[str], added: list[str], indent: Any
) -> None:
    """Key by key, in the same order, in the same layout; nothing else is another byte."""
    tree.pop("permissions", None)
    if old is not None:
        tree["permissions"] = {"deny": ["x"], "allow": old, "other": {"a": [1.50, "z"]}}
    new = edit_list(dumped(tree, indent), ALLOW, lambda one: one not in removed, tuple(added))
    kept = [one for one in old or [] if one not in removed]
    expected = {**tree}
    if old is not None or added:
        whole = [*kept, *[one for one in added if one not in kept]]
        expected["permissions"] = {**tree.get("permissions", {}), "allow": whole}
    assert json.loads(new) == expected
    assert [*json.loads(new)] == [*expected]
    empty_before = not tree or (old == [] and indent is None)
    if not empty_before:  # what was empty has no look of its own
        assert new == dumped(expected, indent)


@given(TREE, st.sampled_from(INDENTS))
def test_a_value_as_json_dumps_would_have_written_it(tree: dict[str, Any], indent: Any) -> None:
    tree["permissions"] = {"allow": ["a"]}
    for mode in ("plan", "default"):
        new = set_value(dumped(tree, indent), ("permissions", "defaultMode"), mode)
        tree["permissions"]["defaultMode"] = mode
        assert new == dumped(tree, indent)


def test_a_new_file() -> None:
    new = edit_list(EMPTY, ALLOW, everything, ("Bash(ls)", "Read"))
    assert new == json.dumps({"permissions": {"allow": ["Bash(ls)", "Read"]}}, indent=2) + "\n"


def test_what_no_reader_would_write_again_is_kept() -> None:
    """Numbers of any length, escapes, two elements in a line, windows' line ends, no line end at all."""
    old = (
        '{\r\n    "big" : 1.000000000000000000001e2,\r\n\r\n    "x":"\\u0041",\r\n    "permissions": { "allow": ["a", 7'
        ',"b"   ] ,\r\n        "deny": [\r\n            "c"\r\n        ]\r\n    }\r\n}'
    )
    assert edit_list(old, ALLOW, everything, ("d",)) == old.replace('"b" ', '"b", "d" ')
    assert edit_list(old, ALLOW, lambda one: one != "a", ()) == old.replace('["a", 7,"b"   ]', '[7, "b"]')
    denied = edit_list(old, ("permissions", "deny"), everything, ("e",))
    assert denied == old.replace('"c"\r\n', '"c",\r\n            "e"\r\n')
    asked = edit_list(old, ("permissions", "ask"), everything, ("f",))
    assert asked.startswith(old[: old.index("    }\r\n}") - 2])
    assert json.loads(asked)["permissions"]["ask"] == ["f"]
    assert "\n" not in asked.replace("\r\n", "")


def test_nothing_to_do_is_the_same_text() -> None:
    for text in ('{"permissions":{"allow":["a"]}}', '{"permissions":{"allow":[]}}', "{}"):
        assert edit_list(text, ALLOW, lambda one: one != "z", ("a",) if '"a"' in text else ()) == text


def test_a_rule_without_its_list_gets_one() -> None:
    text = '{"permissions": {"deny": "Bash(rm:*)"}}'
    new = edit_list(text, ("permissions", "deny"), everything, ("Read",))
    assert new == '{"permissions": {"deny": ["Bash(rm:*)", "Read"]}}'


@pytest.mark.parametrize(
    ("text", "says", "position"),
    [
        ('{\n "permissions": []}', "'permissions': it must be a table", (2, 2)),
        ('{"permissions": {\n  "allow": {}}}', "'permissions.allow': it must be a list", (2, 3)),
        ('{"permissions": {"allow": null}}', "'permissions.allow': it must be a list", (1, 18)),
        ("{", "a key in double quotes is missing", (1, 2)),
        ("[]", "it must be an object", (1, 1)),
    ],
)
def test_what_is_no_place_for_it(text: str, says: str, position: tuple[int, int]) -> None:
    with pytest.raises(UnreadableSettings, match=says) as caught:
        edit_list(text, ALLOW, everything, ("a",))
    assert caught.value.position == position
