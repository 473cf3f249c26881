"""Bash tells the folder in which a command ended by a pipe of its own, and nobody else hears of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from mainspring.processes.process_tree import new_mark
from mainspring.tools.shell import answer_pair, bash_arguments, read_final_directory
from tools.bash_hands import bash

BASH = ("bash", "--noprofile", "--norc", "-c")
DESCRIPTORS = (3, 8, 9, 10, 11, 12, 60)  # the number that the pipe happens to have: bash uses those from 10 on itself
SAME_AS_PLAIN = (  # what bash prints when it is given the command alone
    "echo a; cd sub",
    "exit 3",
    "set -e; cd sub; false; echo no",
    "set -u; echo $nope; echo no",
    "exec echo replaced",
    "exec >/dev/null; echo hidden",
    "cd sub; kill -TERM $$",
    "cd sub; kill -INT $$; echo no",
    "cd sub; kill -HUP $$",
    "trap 'echo got' TERM; kill -TERM $$; echo after",
    "trap 'echo got; exit 7' INT; kill -INT $$; echo no",
    "trap 'echo mine' EXIT; cd sub",
    "trap 'echo mine' EXIT; cd sub; exit 4",
    "trap 'echo mine' EXIT; kill -TERM $$",
    "trap 'echo debug' DEBUG; cd sub",
    "trap 'echo error' ERR; false",
    "set -o functrace; trap 'echo $BASH_COMMAND' DEBUG; cd sub",
    "set -v; cd sub",
    "set -o posix; cd sub",
    "exec {spare}>&1; cd sub; kill -TERM $$",
    'for n in {10..19}; do eval "exec $n>&1"; done; cd sub',
    'for n in {10..19}; do eval "exec $n>&1"; done; cd sub; kill -TERM $$',
    'for n in {3..9}; do eval "exec $n>&1"; done; cd sub',
    'for n in {3..9}; do eval "exec $n>&1"; done; cd sub; kill -TERM $$',
    "exec 8>file; cd sub; kill -TERM $$",
    "exec 8> >(cat); cd sub; kill -TERM $$",
    "exec 8> >(cat); cd sub; exec nosuchprogram",
    'for n in {3..20}; do eval "exec $n> >(cat)"; done; cd sub; kill -INT $$',
    "mkfifo p; exec 8<>p; cd sub; kill -HUP $$",
    "exec 8>&-; cd sub; kill -TERM $$",
    "ulimit -n 9; cd sub; exit 3",
    "coproc { read x; }; cd sub; kill $COPROC_PID; kill -TERM $$",
    "exec 9>file; flock 9; cd sub; exit 5",
    "sleep 0 & cd sub; wait",
    "(cd sub; exit 6)",
    "builtin() { echo faked; }; cd sub",
    "set() { echo faked; }; cd sub",
)


class Told(NamedTuple):
    output: str
    code: int
    file: str | None  # what the command's own file holds


def told(argv: tuple[str, ...], work: Path, place: int = -1, end: int = -1) -> Told:
    (work / "sub").mkdir(parents=True)

    def put() -> None:
        os.dup2(end, place)

    done = subprocess.run(
        argv,
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,
        start_new_session=True,
        preexec_fn=put if place >= 0 else None,
        timeout=30,
        check=False,
    )
    file = work / "file"
    return Told(done.stdout.decode(), done.returncode, file.read_text() if file.exists() else None)


@pytest.mark.parametrize("place", DESCRIPTORS)
@pytest.mark.parametrize("command", SAME_AS_PLAIN)
def test_a_command_prints_what_it_prints_without_us(tmp_path: Path, command: str, place: int) -> None:
    ours, its = answer_pair()
    try:
        asked = told(("bash", *bash_arguments(command, new_mark(), place)), tmp_path / "ours", place, its)
        assert read_final_directory(ours) in {"", str(tmp_path / "ours"), str(tmp_path / "ours" / "sub"), "faked"}
    finally:
        os.close(ours)
        os.close(its)
    assert asked == told((*BASH, command), tmp_path / "plain")


@pytest.mark.parametrize("place", DESCRIPTORS)
@pytest.mark.parametrize("command", ["cd sub", "cd sub; exit 3", "exec 8>file; cd sub", "trap 'true' EXIT; cd sub"])
def test_the_folder_is_told_wherever_the_pipe_is(tmp_path: Path, command: str, place: int) -> None:
    ours, its = answer_pair()
    try:
        told(("bash", *bash_arguments(command, new_mark(), place)), tmp_path / "work", place, its)
        assert read_final_directory(ours) == str(tmp_path / "work" / "sub")
    finally:
        os.close(ours)
        os.close(its)


@pytest.mark.parametrize("fd", ["1", "5"])
def test_a_trace_of_the_command_does_not_show_our_own_lines(tmp_path: Path, fd: str) -> None:
    ours, its = answer_pair()
    try:
        command = f"exec 5>&1; BASH_XTRACEFD={fd}; set -x; cd sub"
        assert (
            told(("bash", *bash_arguments(command, new_mark(), 11)), tmp_path / "work", 11, its).output == "++ cd sub\n"
        )
    finally:
        os.close(ours)
        os.close(its)


def test_the_command_and_what_it_starts_do_not_have_the_pipe(tmp_path: Path) -> None:
    shown = bash(tmp_path, "ls /proc/self/fd; ls /proc/self/fd & wait").text.split()
    assert set(shown) <= {"0", "1", "2", "3"}, shown


def test_a_command_that_was_ended_tells_no_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    answer = bash(tmp_path, "echo before; cd sub; sleep 60", timeout=300)
    assert answer.text.startswith("before\nIt did not end within 0.3 seconds")
