"""Deny evasion: however a denied command is spelled, a bare allow and bypass mode do not let it run."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import long

from permissions.deciding import bash
from permissions.spellings import spellings

ALL = list(spellings())


@pytest.mark.parametrize("one_in", [5, long(1)])
def test_none_of_the_spellings_is_allowed(one_in: int) -> None:
    found = Counter({"deny": 0, "ask": 0})
    allowed: list[tuple[str, str]] = []
    tried = ALL[::one_in]
    for what, rule, line in tried:
        decision = bash(line, allow=["Bash"], deny=[rule])
        found[decision] += 1
        if decision == "allow":
            allowed.append((what, line))
    assert allowed == []
    assert len(ALL) > 9_000
    assert found["deny"] > len(tried) // 3  # many are understood, not only doubted


@pytest.mark.parametrize(
    "given",
    [{"mode": "bypassPermissions"}, {"hook": "allow"}, {"mode": "acceptEdits", "allow": ["Bash"]}, {"mode": "auto"}],
)
@pytest.mark.parametrize("one_in", [61, long(7)])
def test_nor_in_other_ways(given: dict[str, object], one_in: int) -> None:
    for what, rule, line in ALL[::one_in]:
        assert bash(line, deny=[rule], **given) in ("deny", "ask"), what
        assert bash(line, ask=[rule], **given) in ("deny", "ask"), what


@pytest.mark.long
@pytest.mark.covers("N-15")
def test_none_of_the_spellings_is_allowed_by_the_classifier() -> None:
    """All of them, in mode auto, with a classifier that allows whatever it is asked about."""
    found = Counter({"deny": 0, "ask": 0})
    for what, rule, line in ALL:
        decisions = bash(line, mode="auto", deny=[rule]), bash(line, mode="auto", ask=[rule])
        assert "allow" not in decisions, (what, line)
        found[decisions[0]] += 1
    assert found["deny"] > len(ALL) // 3


def test_no_limit_turns_a_deny_into_a_question() -> None:
    for line in (
        "true; " * 5_000 + "rm x",
        "echo " + "a" * 200_000 + "; rm x",
        "(" * 200 + "rm x" + ")" * 200,
        "a;" * 30_000 + "/bin/rm x",
    ):
        assert bash(line, allow=["Bash"], deny=["Bash(rm:*)"]) == "deny"
        assert bash(line, allow=["Bash"], ask=["Bash(rm:*)"]) == "ask"
        assert bash(line, mode="auto", deny=["Bash(rm:*)"]) == "deny"
        assert bash(line, mode="auto", ask=["Bash(rm:*)"]) == "ask"


@given(st.integers(0, 3), st.integers(1, 4_000), st.sampled_from(["rm x", "/bin/rm -rf y", "A=1 rm z", "sudo rm x"]))
def test_s10_no_padding_turns_a_deny_into_a_question(kind: int, amount: int, command: str) -> None:
    padding = ("true; " * amount, "echo " + "a" * (amount * 10) + "; ", "\n" * amount, "ls && " * amount)[kind]
    assert bash(padding + command, allow=["Bash"], deny=["Bash(rm:*)"]) == "deny"
    assert bash(padding + command, allow=["Bash"], ask=["Bash(rm:*)"]) == "ask"
