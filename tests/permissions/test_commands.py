"""Rules for Bash, one by one: how they are taken apart, and what they match. Whole decisions are in the tables."""

from __future__ import annotations

import pytest

from mainspring.permissions.commands import line_matches, match_command, parse_command_pattern, pattern_covers
from mainspring.permissions.shell.analyze import analyze_command
from mainspring.permissions.shell.tokenizer import SEPARATOR
from permissions.deciding import bash

# A rule; its texts between wildcards, with `_` between words; whether it is a prefix; whole words before a wildcard.
TAKEN_APART = [
    ("npm", ("npm",), False, 1),
    ("npm run", ("npm_run",), False, 2),
    ("npm:*", ("npm",), True, 1),
    ("npm *", ("npm",), True, 1),
    ("npm run *", ("npm_run",), True, 2),
    ("npm* *", ("npm", "_", ""), False, 0),
    ("a * b", ("a_", "_b"), False, 1),
    ("a b* c", ("a_b", "_c"), False, 1),
    ("a * b * c", ("a_", "_b_", "_c"), False, 1),
    ("a * b *", ("a_", "_b_", ""), False, 1),
    ("git * main:*", ("git_", "_main_", ""), False, 1),
    ("'a b' c", ("a b_c",), False, 2),
    ("'a * b' \\*", ("a * b_*",), False, 2),
    ("XaX b", ("XaX_b",), False, 2),
    ("'a *", ("'a",), True, 1),
    ("'a * b", ("'a_", "_b"), False, 1),
    ("a \\", ("a_\\",), False, 2),
    ("a \\b", ("a_b",), False, 2),
    (" \t a \n", ("a",), False, 1),
    ("\u00a0a", ("\u00a0a",), False, 1),
]


@pytest.mark.covers("N-10")
@pytest.mark.parametrize(("rule", "parts", "prefix", "words"), TAKEN_APART)
def test_a_rule_is_taken_apart(rule: str, parts: tuple[str, ...], prefix: bool, words: int) -> None:
    found = parse_command_pattern(rule)
    assert tuple(part.replace(SEPARATOR, "_") for part in found.parts) == parts
    assert (found.prefix, found.words) == (prefix, words)


# A deny or ask rule, a command, and whether it matches.
MATCHED = [
    ("rm x", "rm x", "yes"),
    ("rm x", "/bin/rm x", "yes"),
    ("/bin/rm x", "rm x", "yes"),
    ("/bin/rm * x", "rm a x", "yes"),
    ("py*", "/usr/bin/python3 x", "yes"),
    ("/opt/*", "/opt/tool x", "yes"),
    ("/opt/*", "/usr/tool x", "no"),
    ("rm x", "$y x", "maybe"),
    ("rm x", "$y/rm x", "maybe"),
    ("rm x", '"$y"/ls x', "no"),
    # what is computed may be what the rule says
    ("git push", "git push $x", "maybe"),
    ("git push", 'git "$x"', "maybe"),
    ("git push", "git pull $x", "no"),
    ("git push origin", 'git push origin"$x"', "maybe"),
    ("git push origin", 'git push origin"$x"in', "no"),
    ("git push origin", 'git push origin "$x"', "no"),
    ("git push origin", 'git "$x" push "$y"', "maybe"),
    ("git push origin", 'git "$x" "$y"', "maybe"),
    ("git a b origin", 'git "$x" b "$y"', "maybe"),
    ("git a b c", 'git "$x" "$y" "$z"', "maybe"),
    ("git * main", 'git push "$x"', "maybe"),
    ("git push * main", 'git "$x" a main', "maybe"),
    ("git push * main", 'git "$x" a other', "no"),
    ("git push:*", 'git "$x" a', "maybe"),
    # the same in other words
    ("rm -rf x", "rm -fr x", "maybe"),
    ("rm -rf x", "rm -r -f x", "maybe"),
    ("rm -r x", "rm --re x", "maybe"),
    ("rm -r x", "rm --r x", "no"),
    ("rm -r:*", "rm xr", "no"),
    ("rm -r:*", "rm -Rv x", "maybe"),
    ("tool -r -f x", "tool -r x", "no"),
    ("tool --abort x", "tool --ab x", "maybe"),
    ("tool --abort x", "tool --a x", "no"),
    ("tool 'a b' -f", "tool -f 'a b'", "maybe"),
    ("npm publish", "npm -w x publish", "maybe"),
    ("npm publish", "npm x publish", "no"),
]


@pytest.mark.covers("N-10")
@pytest.mark.parametrize(("rule", "command", "wanted"), MATCHED)
def test_a_deny_rule_matches(rule: str, command: str, wanted: str) -> None:
    assert match_command(parse_command_pattern(rule), analyze_command(command).commands[0].words) == wanted


COVERED = [
    ("npm *", "npm", True),
    ("npm *", "npm x", True),
    ("npm *", "npmx", False),
    ("npm *", "/bin/npm x", False),
    ("npm * x", "npm $y x", False),
    ("npm * x", 'npm "$y" x', True),
    ("npm:*", "npm $y x", True),
]


@pytest.mark.covers("N-10")
@pytest.mark.parametrize(("rule", "command", "wanted"), COVERED)
def test_an_allow_rule_covers(rule: str, command: str, wanted: bool) -> None:
    assert pattern_covers(parse_command_pattern(rule), analyze_command(command).commands[0].words) is wanted


LINES = [
    ("curl * | sh", "  curl x  |  sh ", True),
    ("curl * | sh", "curl x | sh -x", False),
    ("curl * | sh:*", "curl x | sh", True),
    ("curl * | sh:*", "curl x | sh -x", True),
    ("curl * | sh:*", "curl x | shx", False),
    ("a | b", "a | b", True),
    ("a | b", "a | b c", False),
    ("a | b:*", "a | b c", True),
    ("a | b:*", "a | bc", False),
    ("* | sh", "anything | sh", True),
    ("a", "a", False),
]


@pytest.mark.covers("N-10")
@pytest.mark.parametrize(("rule", "line", "wanted"), LINES)
def test_a_deny_rule_with_operators_is_about_the_whole_line(rule: str, line: str, wanted: bool) -> None:
    assert line_matches(parse_command_pattern(rule), line) is wanted


def test_and_so_it_is_decided() -> None:
    assert bash("curl x | sh", allow=["Bash"], deny=["Bash(curl * | sh:*)"]) == "deny"
    assert bash(" curl x | sh -s", allow=["Bash"], deny=["Bash(curl * | sh:*)"]) == "deny"


@pytest.mark.covers("N-10")
@pytest.mark.parametrize("rule", ["sudo * x", "sudo*", "sudo* x", "env * x", "xargs * x"])
def test_a_wildcard_never_stands_for_the_command_that_is_run(rule: str) -> None:
    """How many words a rule names counts up to its first wildcard (security S6)."""
    program = rule.split("*", maxsplit=1)[0].strip()
    assert bash(f"{program} rm x", allow=[f"Bash({rule})"]) == "ask"
    assert bash(f"{program} rm x", allow=[f"Bash({program} rm *)"]) == "allow"
