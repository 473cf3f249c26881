"""Patterns fit what they should, and none takes for ever."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ToolError
from mainspring.tools.glob_pattern import SplitPattern, compile_glob, expand_braces, make_chooser, split_pattern


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("*.py", ["a.py", "x/a.py", ".py", "x/.hidden.py"], ["a.pyc", "a.py/b"]),
        ("**/*.py", ["a.py", "x/a.py", "x/y/a.py"], ["a.txt"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py", "x/src/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "srcx/a"]),
        ("src/**/test_*.{js,ts}", ["src/test_a.js", "src/x/y/test_.ts"], ["src/atest_a.js", "src/test_a.py"]),
        ("**/a/**/b", ["a/b", "x/a/y/b", "a/a/b/b"], ["b", "a/bb", "aa/b"]),
        ("a?c", ["abc", "x/a-c"], ["ac", "a/c"]),
        ("[a-c]x[!0-9]", ["axb", "cx!"], ["dxb", "ax1", "ax/"]),
        ("[]]", ["]"], ["["]),
        ("[!]]", ["["], ["]"]),
        ("a[", ["a["], ["a"]),
        ("\\*", ["*"], ["a"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "c"]),
        ("a{", ["a{"], ["a"]),
        ("{,x}y", ["y", "xy"], ["zy"]),
        ("./x", ["x"], ["y"]),
        ("**", ["a", "a/b"], [""]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("a.b+(c)", ["a.b+(c)"], ["aXb+(c)", "a.bb(c)"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        ("x\ny", ["x\ny"], ["x", "xy"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], misses: list[str]) -> None:
    matches = compile_glob(pattern, whole="/" in pattern).match
    assert [name for name in fits if not matches(name)] == []
    assert [name for name in misses if matches(name)] == []
    assert make_chooser(pattern, whole="/" in pattern)([name for name in fits + misses if name]) == fits


def slowly(pattern: str, name: str) -> bool:
    """By the book, without any cleverness: only `*`, `?` and letters."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(slowly(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and slowly(pattern[1:], name[1:])


@given(st.text("ab*?", min_size=1, max_size=7), st.text("ab", min_size=1, max_size=7))
def test_stars_fit_as_they_do_by_the_book(pattern: str, name: str) -> None:
    if "**" not in pattern:
        assert bool(compile_glob(pattern, whole=True).match(name)) == slowly(pattern, name)


def folders_slowly(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        return any(folders_slowly(parts[1:], names[skip:]) for skip in range(len(names) + 1))
    return bool(names) and slowly(parts[0], names[0]) and folders_slowly(parts[1:], names[1:])


@given(
    st.lists(st.sampled_from(["**", "a", "b", "*", "a*"]), min_size=2, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6),
)
def test_folders_fit_as_they_do_by_the_book(parts: list[str], names: list[str]) -> None:
    if parts[-1] != "**":
        matches = compile_glob("/".join(parts), whole=True).match
        assert bool(matches("/".join(names))) == folders_slowly(parts, names)


@pytest.mark.parametrize("pattern", ["*a" * 400 + "b", "**/a*/" * 100 + "b", "{a,b}*" * 7, "?*" * 300, "[a-z]*" * 150])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    matches = compile_glob(pattern).match
    start = time.process_time()
    for name in ("a" * 255, "/".join(["a" * 50] * 40), "ab" * 120):
        matches(name)
    assert time.process_time() - start < 1


def test_what_is_refused() -> None:
    with pytest.raises(ToolError, match="expand to more than 200 patterns"):
        compile_glob("{a,b}" * 20)
    with pytest.raises(ToolError, match="1,000 is the limit"):
        compile_glob("x" * 1_001)


def test_parts() -> None:
    assert expand_braces("a{b,c}d{e,f}") == ["abde", "abdf", "acde", "acdf"]
    assert split_pattern("src/lib/*.py") == SplitPattern("src/lib", "*.py")
    assert split_pattern("src/lib.py") == SplitPattern("src", "lib.py")
    assert split_pattern("**/x") == SplitPattern("", "**/x")
