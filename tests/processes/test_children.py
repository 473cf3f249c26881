"""Programs start clean, are read always, and end with everything they started."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from mainspring.processes.child import ProcessLimits, ProcessSpec, SandboxAccess, UserProgram
from mainspring.processes.children import Children, ProcessResult
from mainspring.processes.output import OutputSizes
from processes.escapes import ENV, bash
from processes.traces import descriptors, new_nap, until, with_word, zombies

Result = TypeVar("Result")


def with_children(play: Callable[[Children], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        children = Children()
        try:
            return await play(children)
        finally:
            await children.close()

    return asyncio.run(main())


def run(job: ProcessSpec) -> ProcessResult:
    return with_children(lambda children: children.run(job))


def test_both_outputs_the_code_and_the_signal() -> None:
    ended = run(bash("echo out; echo err >&2; exit 3", merged=False))
    assert (ended.code, ended.stdout.text, ended.stderr.text, ended.timed_out) == (3, "out\n", "err\n", False)
    merged = run(bash("echo 1; echo 2 >&2; echo 3; kill -9 $$"))
    assert (merged.code, merged.stdout.text, merged.stderr is merged.stdout) == (-9, "1\n2\n3\n", True)


def test_input_is_given_or_empty() -> None:
    assert run(ProcessSpec(("/bin/cat",), "/", ENV)).stdout.text == ""
    large = b"x" * 3_000_000
    ended = run(ProcessSpec(("/usr/bin/wc", "-c"), "/", ENV, stdin=large))
    assert ended.stdout.text.strip() == "3000000"
    assert run(ProcessSpec(("/bin/true",), "/", ENV, stdin=large)).code == 0  # nobody reads it


def test_a_program_starts_clean(tmp_path: Path) -> None:
    """Its own session, its folder, its environment and a mark, three descriptors, nothing else."""
    holder = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(holder, True)
    try:
        ended = run(
            ProcessSpec(
                ("/bin/sh", "-c", "env; pwd; ls /proc/$$/fd; cut -d' ' -f1,5,6 /proc/$$/stat"), str(tmp_path), ENV
            )
        )
    finally:
        os.close(holder)
    lines = ended.stdout.text.splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names == {*ENV, "MAINSPRING_CALL", "PWD"}
    rest = [line for line in lines if "=" not in line]
    assert rest[:-1] == [str(tmp_path), "0", "1", "2"]
    pid, group, session = rest[-1].split()
    assert pid == group == session


def test_a_program_can_be_put_in_front_and_is_taken_away_when_it_has_ended() -> None:
    held: list[str] = []

    @contextmanager
    def in_front(job: ProcessSpec) -> Iterator[ProcessSpec]:
        held.append("taken")
        try:
            yield job._replace(argv=("/usr/bin/env", "-i", "X=1", *job.argv))
        finally:
            held.append("let go")

    async def main(job: ProcessSpec) -> str:
        return (await Children(around=in_front).run(job)).stdout.text

    job = ProcessSpec(("/usr/bin/env",), "/", ENV, walls=SandboxAccess.USUAL)
    assert asyncio.run(main(job)) == "X=1\n"
    assert held == ["taken", "let go"]
    assert asyncio.run(main(job._replace(walls=SandboxAccess.NONE))) != "X=1\n"
    with pytest.raises(FileNotFoundError):
        asyncio.run(main(job._replace(cwd="/no/such/folder")))
    assert held == ["taken", "let go"] * 2


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (ProcessSpec(("/no/such/program",), "/", ENV), FileNotFoundError),
        (ProcessSpec(("/bin/true",), "/no/such/folder", ENV), FileNotFoundError),
        (ProcessSpec(("/etc/passwd",), "/", ENV), PermissionError),
        (ProcessSpec(("/bin/echo", "a\0b"), "/", ENV), ValueError),
        (ProcessSpec(("/bin/echo", "x" * 200_000), "/", ENV), OSError),
    ],
)
def test_a_start_that_fails_leaves_nothing_open(job: ProcessSpec, error: type[Exception]) -> None:
    async def play(children: Children) -> None:
        before = descriptors()
        with pytest.raises(error):
            await children.run(job)
        assert descriptors() == before

    with_children(play)


def test_time_is_limited() -> None:
    nap = new_nap()
    start = time.monotonic()
    ended = run(bash(f"echo before; sleep {nap}", limits=ProcessLimits(seconds=0.2)))
    assert (ended.timed_out, ended.stdout.text, ended.code) == (True, "before\n", -15)
    assert time.monotonic() - start < 20  # it would sleep for 100
    assert with_word(nap) == []


def test_file_size_is_limited(tmp_path: Path) -> None:
    ended = run(bash("sleep 0.1; head -c 100000 /dev/zero > big", tmp_path, limits=ProcessLimits(file_size=10_000)))
    assert ended.code != 0
    assert (tmp_path / "big").stat().st_size == 10_000


def test_output_is_seen_as_it_comes() -> None:
    async def play(children: Children) -> None:
        seen: list[bytes] = []
        child = children.start(bash("echo first; read < <(sleep 100)", on_output=seen.append))
        await until(lambda: seen == [b"first\n"])
        assert not child.exited.is_set()
        await children.end(child)

    with_children(play)


def test_a_moment_is_left_for_what_reads_the_last_lines() -> None:
    """Bash ends before a process substitution that it started."""
    assert run(bash("echo late > >(sleep 0.03; cat)")).stdout.text == "late\n"


def test_a_stranger_who_holds_the_pipe_holds_up_nobody(tmp_path: Path) -> None:
    """Not one of its descendants: it cannot be found, and it is not waited for."""

    async def play(children: Children) -> ProcessResult:
        task = asyncio.get_running_loop().create_task(
            children.run(bash("echo $$; until test -e go; do sleep 0.01; done", tmp_path))
        )
        await until(lambda: children._alive)
        child = next(iter(children._alive))
        await until(lambda: child.stdout.size)
        fd = os.open(f"/proc/{child.pid}/fd/1", os.O_WRONLY)  # we are the stranger
        try:
            (tmp_path / "go").touch()
            async with asyncio.timeout(20):  # as long as we hold it, its end never comes
                ended = await task
        finally:
            os.close(fd)
        return ended

    assert with_children(play).code == 0


def test_the_thread_that_watches_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    nap = new_nap()
    ended = run(bash(f"echo one; setsid sleep {nap} & exit 4"))
    assert (ended.code, ended.stdout.text) == (4, "one\n")
    assert with_word(nap) == []


def test_two_hundred_calls_leave_no_descriptor_and_no_zombie() -> None:
    async def play(children: Children) -> None:
        await children.run(bash("true"))
        before = descriptors()
        for number in range(200):
            await children.run(bash(f"echo {number} & exit 1"))
        assert (descriptors(), zombies()) == (before, [])

    with_children(play)


def test_a_hundred_at_once() -> None:
    async def play(children: Children) -> list[str]:
        ended = await asyncio.gather(*[children.run(bash(f"echo {number}")) for number in range(100)])
        return [one.stdout.text.strip() for one in ended]

    assert with_children(play) == [str(number) for number in range(100)]


def test_a_flood_is_read_within_its_limits(tmp_path: Path) -> None:
    sizes = OutputSizes(1_000, 1_000, str(tmp_path), 1_000_000)
    ended = run(bash("head -c 50000000 /dev/zero", limits=ProcessLimits(output=sizes)))
    assert ended.stdout.size == 50_000_000
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [1_000_000]
    assert len(ended.stdout.data) <= 3_000


def test_what_a_trap_starts_is_given_a_moment(tmp_path: Path) -> None:
    """It cleans up: to ask it to end as well, at once, would leave the half of it undone."""
    count = 20
    clean = f"for n in $(seq {count}); do rm file$n || exit; done; exit 5"
    command = (
        f"cd {tmp_path}; touch $(seq -f file%g {count}); trap '{clean}' TERM; touch started; sleep {new_nap()} & wait"
    )

    async def play(children: Children) -> int | None:
        child = children.start(bash(command))
        await until((tmp_path / "started").exists)
        await children.end(child)
        return child.code

    assert with_children(play) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["started"]


# --- programs for the user ------------------------------------------------------------------------------------------


def test_a_program_of_the_user_ends_with_its_caller() -> None:
    """Also one that ignores the end of its terminal."""

    async def main(command: str) -> int:
        said = asyncio.Event()
        program = UserProgram(("/bin/sh", "-c", command), on_output=lambda _: said.set())
        task = asyncio.ensure_future(program.wait_or_end())
        await said.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await program.wait()

    assert asyncio.run(main("echo ready; exec sleep 1000")) == -signal.SIGHUP
    assert asyncio.run(main("trap '' HUP; echo ready; exec sleep 1000")) == -signal.SIGKILL


def test_a_program_of_the_user_that_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            UserProgram((str(tmp_path / "missing"),), on_output=print)

    before = descriptors()
    asyncio.run(main())
    assert descriptors() == before
