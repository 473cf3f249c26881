"""Nobody looks into our process, and no core of it is written (security K2)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.stage import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that shows a process to others")

SECRET = "the-secret-of-the-environment"
CODE = (
    "import sys; from mainspring.processes.own_process import harden_process; {} print('ready', flush=True); "
    "sys.stdin.read()"
)

# Root sees everything: both sides do without the rights for that.
WITHOUT = ["/usr/bin/setpriv", "--bounding-set=-sys_ptrace,-perfmon,-sys_admin"]
ORDINARY = WITHOUT if os.geteuid() == 0 else []


@contextmanager
def started(code: str) -> Iterator[int]:
    with subprocess.Popen(
        [*ORDINARY, sys.executable, "-c", CODE.format(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ANTHROPIC_API_KEY": SECRET},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def seen_by_the_same_user(pid: int) -> bool:
    done = subprocess.run([*ORDINARY, "/bin/cat", f"/proc/{pid}/environ"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0 or b"Permission denied" in done.stderr
    return SECRET.encode() in done.stdout


def core_size(pid: int | str) -> list[str]:
    """The limit in force, and the highest that may be chosen."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max core file size")).split()[4:6]


def test_a_process_of_the_same_user_reads_our_environment_only_if_nothing_is_done() -> None:
    with started("") as pid:
        assert seen_by_the_same_user(pid)
    with started("assert harden_process();") as pid:
        assert not seen_by_the_same_user(pid)


def test_the_core_size_is_nothing_and_children_may_raise_it() -> None:
    with started("assert harden_process();") as pid:
        assert core_size(pid) == ["0", core_size("self")[1]]


def test_what_we_start_afterwards_is_not_closed() -> None:
    """It is about our memory: a debugger of the user's own programs still works."""
    start = (
        "import subprocess; assert harden_process(); child = subprocess.Popen(['/bin/sleep', '100']); print(child.pid);"
    )
    with subprocess.Popen(
        [*ORDINARY, sys.executable, "-c", CODE.format(start)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ANTHROPIC_API_KEY": SECRET},
    ) as process:
        assert process.stdout is not None
        words = (process.stdout.readline() + process.stdout.readline()).split()
        child = next(int(word) for word in words if word.isdigit())
        try:
            until(lambda: b"sleep" in Path(f"/proc/{child}/cmdline").read_bytes())
            assert seen_by_the_same_user(child)
        finally:
            os.kill(child, 9)
            process.kill()
