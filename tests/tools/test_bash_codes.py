"""Which exit codes are failures (Z-29)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.tools.shell import describe_exit_code, explain_harmless_code
from tools.bash_hands import bash

FOUND_NOTHING = (
    "grep x /dev/null",
    "cat /dev/null | grep x",
    "cd / && grep -q x /dev/null",
    "make clean; rg x",
    "true\ngrep x /dev/null",
    "git grep nothing",
    "/usr/bin/grep x /dev/null",
    "echo a || true; grep 'a && b' /dev/null",
    "grep a f | grep -v b",
)
FAILURES = (
    "make",
    "make && grep x log",
    "grep x f && make",
    "grep x /dev/null | make",
    "python -c 'grep'",
    "! grep x f",
    "echo grep",
    "grep 'open",
    "git commit",
    "",
)


@pytest.mark.parametrize("command", FOUND_NOTHING)
def test_finding_nothing_is_no_failure(command: str) -> None:
    assert explain_harmless_code(command, 1) == "nothing was found"
    assert explain_harmless_code(command, 2) == ""


@pytest.mark.parametrize("command", FAILURES)
def test_what_is_not_known_is_a_failure(command: str) -> None:
    assert explain_harmless_code(command, 1) == ""


@given(st.text(max_size=60), st.integers(-64, 255))
def test_any_text_is_read_without_harm(command: str, code: int) -> None:
    assert isinstance(explain_harmless_code(command, code), str)
    assert describe_exit_code(code)


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        ("git init -q . && git branch --no-such-flag 2>/dev/null", "Exit code 129"),
        ("git -C / log 2>/dev/null", "Exit code 128"),
        ("sh -c 'kill -HUP $$'; exit $?", "Exit code 129"),  # bash itself says "Hangup" above it
        ("sh -c 'kill -USR1 $$'; exit $?", "Exit code 138"),
        ("sh -c 'kill -INT $$'; exit $?", "Exit code 130 (SIGINT)"),
        ("sh -c 'kill -ABRT $$'; exit $?", "Exit code 134 (SIGABRT)"),
        ("sh -c 'kill -KILL $$'; exit $?", "Exit code 137 (SIGKILL: the memory may have run out)"),
        ("sh -c 'kill -SEGV $$'; exit $?", "Exit code 139 (SIGSEGV)"),
        ("sh -c 'kill -PIPE $$'; exit $?", "Exit code 141 (SIGPIPE)"),
        ("sh -c 'kill -TERM $$'; exit $?", "Exit code 143 (SIGTERM)"),
        ("kill -HUP $$", "Ended by signal SIGHUP"),
        ("exit 255", "Exit code 255"),
        ("exit 192", "Exit code 192"),
    ],
)
def test_a_signal_is_named_only_where_it_was_one(tmp_path: Path, command: str, ends: str) -> None:
    """The shell's own end is certain; of its children it tells a number, by which programs may mean something else."""
    answer = bash(tmp_path, command)
    assert answer.text.splitlines()[-1] == ends
    assert answer.failed


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo x > f; grep y f", "Exit code 1: nothing was found"),
        ("echo 1 > a; echo 2 > b; cmp -s a b", "Exit code 1: they differ"),
        ("test -e missing", "Exit code 1: it is false"),
        ("[ 1 = 2 ]", "Exit code 1: it is false"),
        ("[[ 1 == 2 ]]", "Exit code 1: it is false"),
    ],
)
def test_the_model_is_told_what_it_means(tmp_path: Path, command: str, text: str) -> None:
    answer = bash(tmp_path, command)
    assert (answer.text, answer.is_error, answer.failed) == (text, False, False)


def test_a_search_that_could_not_search_has_failed(tmp_path: Path) -> None:
    answer = bash(tmp_path, "grep x missing")
    assert (answer.is_error, answer.failed) == (True, True)
