"""Nothing outlives a call (security P7): whatever way it goes, and however the call ends."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from tiers import long, parametrize_few

from mainspring.processes import process_tree
from mainspring.processes.child import Child
from mainspring.processes.children import Children
from processes.escapes import ESCAPES, bash
from processes.traces import asleep, descriptors, new_nap, until, with_word, zombies


def escape(name: str, nap: str) -> str:
    return ESCAPES[name].replace("NAP", nap)


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_is_left_after_the_end(name: str) -> None:
    nap = new_nap()

    async def main() -> None:
        ended = await Children().run(bash(f"{escape(name, nap)}\nuntil pgrep -f {nap} >/dev/null; do :; done; exit 5"))
        assert ended.code == 5

    asyncio.run(main())
    assert with_word(nap) == []


@parametrize_few("name", ESCAPES, keep=8)
def test_nothing_is_left_after_an_abort(name: str) -> None:
    nap = new_nap()

    async def main() -> None:
        children = Children()
        task = asyncio.get_running_loop().create_task(children.run(bash(f"{escape(name, nap)}\nsleep {nap}; true")))
        await until(lambda: len(with_word(nap)) >= 3)  # the shell, what escaped, and the last one
        await until(lambda: with_word(f"\0{nap}"))
        before = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - before < 2.5 + 30  # the rest for a busy machine
        assert not children._alive

    asyncio.run(main())
    assert with_word(nap) == []


def test_one_that_obeys_keeps_nobody_waiting() -> None:
    async def main() -> list[float]:
        children, taken = Children(), list[float]()
        for _ in range(5):
            nap = new_nap()
            task = asyncio.get_running_loop().create_task(children.run(bash(f"sleep {nap} | cat & wait; sleep {nap}")))
            await until(partial(with_word, f"\0{nap}"))
            before = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            taken.append(time.monotonic() - before)
        return sorted(taken)

    taken = asyncio.run(main())
    assert taken[0] < 2  # the grace: if one did not wait for it, none had to, however busy the machine is


@pytest.mark.parametrize("moment", range(12))
def test_a_cancel_at_any_moment_leaves_nothing(moment: int) -> None:
    """After so many turns of the loop: before the start, in it, and while it ends. Then a second one, and a third."""
    nap = new_nap()

    async def main() -> None:
        children, before = Children(), descriptors()
        task = asyncio.get_running_loop().create_task(children.run(bash(f"setsid sleep {nap} & sleep {nap}")))
        for _ in range(moment):
            await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (descriptors(), zombies(), not children._alive) == (before, [], True)

    asyncio.run(main())
    assert with_word(nap) == []


def test_a_loop_that_closes_takes_them_along() -> None:
    """Nobody awaits the task any more: the loop cancels what is left, and the child's end with it."""
    naps = [new_nap(), new_nap()]

    async def main() -> None:
        children = Children()
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(children.run(bash(f"trap '' TERM; setsid sleep {nap} & sleep {nap}"))) for nap in naps
        ]
        await until(lambda: all(with_word(f"\0{nap}") for nap in naps))
        tasks[0].cancel()  # its end has begun, and waits for two seconds
        await asyncio.sleep(0)

    asyncio.run(main())
    assert [with_word(nap) for nap in naps] == [[], []]
    assert zombies() == []


def test_all_are_killed_at_once_without_the_loop() -> None:
    nap = new_nap()

    async def main() -> None:
        children = Children()
        child = children.start(bash(f"trap '' TERM; setsid sleep {nap} & sleep {nap}"))
        await until(lambda: len(with_word(f"\0{nap}")) >= 2)
        children.kill()
        assert with_word(nap) == []
        assert child.closed
        await children.close()

    asyncio.run(main())


def test_the_end_of_one_call_is_not_the_end_of_another() -> None:
    nap, other = new_nap(), new_nap()

    async def main() -> None:
        children = Children()
        stays = children.start(bash(f"setsid sleep {other} & env -i setsid sleep {other} & wait"))
        await until(lambda: len(with_word(f"\0{other}")) == 2)
        await children.run(bash(f"setsid sleep {nap} & true"))
        assert len(with_word(f"\0{other}")) == 2
        assert not stays.exited.is_set()
        await children.close()

    asyncio.run(main())
    assert with_word(nap) + with_word(other) == []


def test_whom_we_did_not_start_is_left_alone() -> None:
    """Younger than the call, a child of ours, without any mark: a server that a library has started."""
    nap = new_nap()

    async def main() -> None:
        children = Children()
        child = children.start(bash("read < <(sleep 0.3)"))
        other = await asyncio.create_subprocess_exec("/bin/sleep", nap, start_new_session=True)
        await child.exited.wait()
        await children.end(child)
        assert other.returncode is None
        assert with_word(nap) == [other.pid]
        other.kill()
        await other.wait()

    asyncio.run(main())


@pytest.mark.parametrize("age", [0.0, 10.0])
def test_they_are_found_among_few_numbers_and_among_all(age: float) -> None:
    nap = new_nap()

    async def main() -> None:
        children = Children()
        child = children.start(bash(f"setsid sleep {nap} & wait"))
        await until(lambda: asleep(nap))
        found = process_tree.left_of(child.line, age)
        assert set(asleep(nap)) <= {one.pid for one in found}
        assert child.pid not in [one.pid for one in found]
        await children.close()

    asyncio.run(main())


def test_either_mark_is_enough() -> None:
    async def main() -> None:
        children = Children()
        nap = new_nap()
        child = children.start(bash(f"setsid sleep {nap} & env -i setsid sleep {nap} & wait"))
        await until(lambda: len(asleep(nap)) == 2)
        pids = asleep(nap)
        by_variable = process_tree.ProcessTree(0, child.mark._replace(limit=0))
        by_limit = process_tree.ProcessTree(0, process_tree.ProcessTag("none", child.mark.limit))
        assert len([pid for pid in pids if belongs(pid, by_variable)]) == 1
        assert len([pid for pid in pids if belongs(pid, by_limit)]) == 1  # the variable of another call beats a limit
        both = [pid for pid in pids if belongs(pid, process_tree.ProcessTree(0, child.mark))]
        assert both == pids
        await children.close()

    asyncio.run(main())


def belongs(pid: int, line: process_tree.ProcessTree) -> bool:
    found = process_tree.read_process(pid)
    return found is not None and process_tree.belongs_to_tree(found, line)


def test_an_agent_within_an_agent_bears_both_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process_tree.NAME, "outer")
    inner = process_tree.new_mark()
    assert inner.text.startswith("outer/")
    assert inner.token.decode() == inner.text.removeprefix("outer/")


ADOPTING = """
import asyncio, ctypes, sys
sys.path.insert(0, {tests!r})
from mainspring.processes.children import Children
from processes.escapes import ESCAPES, bash
from processes.traces import new_nap, until, with_word, zombies

async def main():
    children = Children(adopt=True, hide=True)
    for name, command in list(ESCAPES.items())[::{one_in}]:
        nap = new_nap()
        await children.run(bash(command.replace("NAP", nap) + f"\\nuntil pgrep -f {{nap}} >/dev/null; do :; done"))
        print(name, with_word(nap), zombies(), sep="|")
    child = children.start(bash("for i in 1 2 3; do (sleep 0.05 &); done; read < <(sleep 100)"))
    await until(lambda: len(zombies()) == 3)
    children.sweep()
    print("swept", [], zombies(), sep="|")
    await children.close()
    print("closed", [], zombies(), sep="|")
    print("shown" if ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) else "hidden", [], [], sep="|")

asyncio.run(main())
"""


@pytest.mark.parametrize("one_in", [4, long(1)])
@pytest.mark.timeout(600)
def test_one_who_adopts_buries_them_too(one_in: int) -> None:
    """In a process of its own: it is a property of the whole process."""
    script = ADOPTING.format(tests=str(Path(__file__).parents[1]), one_in=one_in)
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        f"{name}|[]|[]" for name in (*list(ESCAPES)[::one_in], "swept", "closed", "hidden")
    ]


def test_a_child_that_cannot_be_watched_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    nap = new_nap()

    def refuse(*_: object) -> None:
        raise RuntimeError("no thread")

    async def main() -> None:
        before = descriptors()
        monkeypatch.setattr("mainspring.processes.child.watch_process", refuse)
        with pytest.raises(RuntimeError), contextlib.suppress(OSError):
            Child(bash(f"sleep {nap}"))
        assert (descriptors(), with_word(nap), zombies()) == (before, [], [])

    asyncio.run(main())
