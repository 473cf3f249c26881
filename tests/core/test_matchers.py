"""Matchers of hooks: which are compiled, which are refused, and that none can hold a run up."""

from __future__ import annotations

import time

import pytest

from mainspring.core.matchers import compile_matcher

LONG_NAME = "mcp__" + "a" * 59 + "!"


@pytest.mark.parametrize("matcher", ["", "*"])
def test_these_stand_for_every_tool(matcher: str) -> None:
    assert compile_matcher(matcher) is None


FINE = [
    ("Bash", "Bash"),
    ("Write|Edit|NotebookEdit", "Edit"),
    (r"mcp__.*__write.*", "mcp__files__write_all"),
    ("|".join(f"mcp__{letter}__.*" for letter in "abcdefgh"), "mcp__h__x"),
    (r"mcp__(a|b)__.{1,8}", "mcp__b__four"),
    (r"[*+{(]a{2}(b)?x{,3}", "(aabxx"),
    (r"\(\+", "(+"),
    (r"[]a]+", "]a]"),
    (r"(abc)+", "abcabc"),
    (r"a{x}b", "a{x}b"),
    (r"a{}", "a{}"),
]


@pytest.mark.parametrize(("matcher", "name"), FINE)
def test_usual_ones_are_compiled(matcher: str, name: str) -> None:
    pattern = compile_matcher(matcher)
    assert pattern is not None
    assert pattern.fullmatch(name)


@pytest.mark.parametrize("matcher", ["[", "(", "*Bash", "a{99999999999999999999}", "(?P<n>a)(?P<n>b)", "(" * 5_000])
def test_broken_ones_say_why(matcher: str) -> None:
    with pytest.raises(ValueError, match="not a valid regular expression"):
        compile_matcher(matcher)


SLOW = [
    "(a+)+b",
    "(a*)*b",
    "mcp__((a|a)+)b",
    "mcp__(a|aa)+b",
    "(mcp__|a|aa){2,}b",
    "(?:(?:a+))+b",
    "(a|aa){30}b",
    ".*a.*a.*a.*a.*a.*b",
    "a+" * 20 + "b",
]


@pytest.mark.parametrize("matcher", SLOW)
def test_ones_that_could_take_for_ever_are_refused(matcher: str) -> None:
    with pytest.raises(ValueError, match="can run without end"):
        compile_matcher(matcher)


def test_the_slowest_that_is_taken_ends_soon() -> None:
    pattern = compile_matcher(".*a.*a.*a.*b")
    assert pattern is not None
    began = time.process_time()
    assert pattern.fullmatch(LONG_NAME) is None
    assert time.process_time() - began < 2
