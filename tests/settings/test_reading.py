"""The reader: it agrees with msgspec, knows where things stand, and has limits (security T4)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.settings.read import DEEPEST, LARGEST, UnreadableSettings, parse_settings_text, read_file, salvage_rules

numbers = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
leaves = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=10))
keys = st.text(max_size=4)
trees = st.dictionaries(
    keys,
    st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=6,
    ),
    max_size=3,
)
OURS_ONLY = ("duplicate", "nested", "too large", "it must be an object")


@given(trees, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_json_is_read(tree: dict[str, object], ascii: bool, indent: int | None) -> None:
    assert (
        parse_settings_text(json.dumps(tree, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")).tree
        == tree
    )


@given(trees, st.data())
@example({"a": [1]}, None)
def test_what_is_nearly_json_is_judged_as_msgspec_does(tree: dict[str, object], data: st.DataObject | None) -> None:
    text = json.dumps(tree, indent=1)
    if data is not None:
        at = data.draw(st.integers(0, len(text)))
        put = data.draw(st.sampled_from([*'{}[]":,\\\n\t 0-.eEtfn/\x00\x7fé', "", "null", "//", '"a":1,', "\\u12"]))
        text = text[:at] + put + text[at + data.draw(st.integers(0, 2)) :]
    try:
        expected: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        with pytest.raises(UnreadableSettings) as caught:
            parse_settings_text(text.encode())
        line, column = caught.value.position
        assert 1 <= line <= text.count("\n") + 1
        assert 1 <= column <= len(text.split("\n")[line - 1]) + 1
        return
    try:
        found: object = parse_settings_text(text.encode()).tree
    except UnreadableSettings as broken:
        found = broken.says
    if isinstance(found, str):
        assert any(word in found for word in OURS_ONLY), found  # what we refuse, and msgspec takes
    else:
        assert found == expected


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_broken(data: bytes, toml: bool) -> None:
    text = data.decode("utf-8", "replace")
    try:
        parse_settings_text(data, toml=toml)
    except UnreadableSettings as broken:
        text = broken.text
    salvage_rules(text, toml=toml)


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ('{\n  "a": [1,],\n}', (2, 11), "extra"),
        ('{\n  "a": 1\n  "b": 2\n}', (3, 3), "',' or '}'"),
        ('{"a": 1, "b": 2, "a": 3}', (1, 18), "duplicate"),
        ('{"a" 1}', (1, 6), "':'"),
        ("{'a': 1}", (1, 2), "double quotes"),
        ('{"a": "b\n"}', (1, 7), "not closed"),
        ('{"a": "\\ud800"}', (1, 7), "half"),
        ('{"a": tru}', (1, 7), "value"),
        ('{"a": NaN}', (1, 7), "value"),
        ('{"a": 1e999}', (1, 7), "too large"),
        ('{"a": ' + "1" * 41 + "}", (1, 7), "value"),
        ('{"a": 1} // comment', (1, 10), "after its end"),
        ("[]", (1, 1), "object"),
        ("", (1, 1), "value"),
        ('{"a": 1', (1, 8), "missing"),
        ('{"a"', (1, 5), "':'"),
        ("{", (1, 2), "key"),
        ("[" * 40, (1, DEEPEST + 2), "deep"),
    ],
)
def test_what_is_wrong_and_where(text: str, position: tuple[int, int], why: str) -> None:
    with pytest.raises(UnreadableSettings, match=why) as caught:
        parse_settings_text(text.encode())
    assert caught.value.position == position


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert parse_settings_text(b"\xef\xbb\xbf{}").tree == {}


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(UnreadableSettings, match="UTF-8") as caught:
        parse_settings_text(b'{\n "a": "\xff"}')
    assert caught.value.position == (2, 8)


@pytest.mark.parametrize("toml", [False, True])
def test_limits(toml: bool) -> None:
    filler = b"# " + b"x" * LARGEST if toml else b'{"a": "' + b"x" * LARGEST + b'"}'
    with pytest.raises(UnreadableSettings, match="bytes"):
        parse_settings_text(filler, toml=toml)
    deep = "a" + ".a" * 20_000 + " = 1" if toml else '{"a":' * 20_000
    with pytest.raises(UnreadableSettings, match="deep"):
        parse_settings_text(deep.encode(), toml=toml)
    arrays = "a = " + "[" * 100_000 if toml else '{"a": ' + "[" * 100_000
    with pytest.raises(UnreadableSettings, match="deep"):
        parse_settings_text(arrays.encode(), toml=toml)
    fits = "a" + ".a" * (DEEPEST - 1) + " = 1" if toml else '{"a":' * DEEPEST + "1" + "}" * DEEPEST
    assert parse_settings_text(fits.encode(), toml=toml).tree


MANY = LARGEST - 100
HOSTILE = {
    "a key of many parts": ("a" + ".a" * (MANY // 2) + " = 1", True),
    "of quoted parts": ('"a"' + '."a"' * (MANY // 4 - 1) + " = 1", True),
    "one long word": ("x" * MANY, True),
    "quotes": ('"' * MANY, True),
    "escapes": ('a = "' + "\\n" * (MANY // 2) + '"', True),
    "lists that never end": ("deny=[" * (MANY // 6), True),
    "lists and strings that never end": ("deny=['a" * (MANY // 8), True),
    "headers": ("".join([f"[a.b.c.d.k{number}]\n" for number in range(MANY // 17)]), True),
    "numbers": ('{"a":[' + "1," * (MANY // 2 - 10) + "1]}", False),
    "names": ("{" + ",".join([f'"k{number}":1' for number in range(MANY // 12)]) + "}", False),
    "JSON lists that never end": ('{"deny":[ ' + '"deny":[ ' * (MANY // 9 - 10), False),
    "JSON lists and strings that never end": ('{"deny":["' * (MANY // 10), False),
    "a string that never ends": ('{"deny":["' + '\\"' * (MANY // 2 - 10), False),
    "brackets": ("[" * MANY, False),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_takes_long(name: str) -> None:
    """The largest there may be, made to be slow. Half a second each, and more where coverage is
    measured; time squared would be minutes.
    """
    text, toml = HOSTILE[name]
    assert len(text) <= LARGEST
    start = time.perf_counter()
    try:
        parse_settings_text(text.encode(), toml=toml)
    except UnreadableSettings as broken:
        salvage_rules(broken.text, toml=toml)
    assert time.perf_counter() - start < 30


def test_toml_says_where() -> None:
    with pytest.raises(UnreadableSettings) as caught:
        parse_settings_text(b'[api]\nmax_cost_usd = 5.0\nmodel = "x\n', toml=True)
    assert caught.value.position == (3, 11)
    with pytest.raises(UnreadableSettings) as caught:
        parse_settings_text(b"a = [1,\n", toml=True)
    assert caught.value.position[0] == 2
    with pytest.raises(UnreadableSettings):
        parse_settings_text(b"a = " + b"1" * 5_000, toml=True)
    where = parse_settings_text(b'[permissions]\nallow = []\n[a."b c"]\nd = 1', toml=True).position
    assert where(("permissions", "allow")) == (2, 1)
    assert where(("permissions",)) == (1, 1)
    assert where(("a", "b c", "d", 0)) == (4, 1)
    assert where(("nowhere",)) == (1, 1)


def test_files_that_are_none(tmp_path: Path) -> None:
    assert read_file(f"{tmp_path}/nothing") is None
    (tmp_path / "file").write_bytes(b"{}")
    assert read_file(f"{tmp_path}/file") == b"{}"
    assert read_file(f"{tmp_path}/file/x") is None
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, why in (("pipe", "regular"), (".", "regular"), ("device", "regular"), ("loop", "cannot be read")):
        with pytest.raises(UnreadableSettings, match=why):
            read_file(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("text", "toml", "deny", "ask"),
    [
        ('{"permissions": {"allow": ["a",], "deny": ["b", "c"], "ask": ["d"]}}', False, ["b", "c"], ["d"]),
        ('{"permissions": {"deny": ["b", "c', False, ["b"], []),
        ('{"permissions": {"deny": ["b", "allow": ["c"]', False, ["b"], []),
        ('{"permissions": {"deny": "b", "ask": ["d" "e"],,', False, ["b"], ["d", "e"]),
        ('{"permissions": {"allow": ["x], "deny": ["b"]}}', False, ["b"], []),
        ('{"permissions": {"deny": ["b\\"]", "\\u0063", "\\ud800", 5, "e"]', False, ['b"]', "c", "e"], []),
        ('{"permissions": {"deny": {"x": ["b"]}', False, [], []),
        ('{"a": "\\"deny\\": [1]", "deny', False, [], []),
        ("[permissions]\nallow = [\ndeny = ['b', \"c\"]\nask = 'd'", True, ["b", "c"], ["d"]),
        ("permissions = { deny = ['b'], x = }", True, ["b"], []),
        ("permissions.deny = [\n  'b',\n  'c", True, ["b"], []),
    ],
)
def test_what_is_saved_from_a_broken_file(text: str, toml: bool, deny: list[str], ask: list[str]) -> None:
    with pytest.raises(UnreadableSettings) as caught:
        parse_settings_text(text.encode(), toml=toml)
    assert salvage_rules(caught.value.text, toml=toml) == {"deny": deny, "ask": ask}


def test_what_a_sandbox_holds_in_its_place_is_no_file(tmp_path: Path) -> None:
    """Another session may run a command here: while it does, an empty folder with the odd bit stands there."""
    place = tmp_path / ".mcp.json"
    place.mkdir()
    place.chmod(0o1755)
    assert read_file(str(place)) is None
    place.chmod(0o755)
    with pytest.raises(UnreadableSettings, match="not a regular file"):
        read_file(str(place))
