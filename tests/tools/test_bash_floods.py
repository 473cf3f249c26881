"""Whatever a command prints, memory, disk and the event loop's time stay within limits (security P8, X6)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from processes.traces import until

from tools.bash_hands import Hands, bash, play

MB = 1_000_000


def memory(field: str) -> int:
    """Bytes, as the kernel counts ours: `VmRSS` now, `VmHWM` at most since it was reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


def reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


class Heart:
    """Beats every few milliseconds, and knows how long it had to wait at most: on the clock, and in our own work."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.work = 0.0

    async def beat(self) -> None:
        while True:
            clock, work = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.005)
            self.waits.append(time.monotonic() - clock)
            self.work = max(self.work, time.thread_time() - work)


def test_200_mb_leave_memory_disk_and_the_event_loop_alone(tmp_path: Path) -> None:
    """16 MB and the cap are the gates for 10 GB: `bench/tools_bash.py --flood` runs these."""

    async def scene(hands: Hands) -> str:
        heart = Heart()
        task = asyncio.get_running_loop().create_task(heart.beat())
        await hands.bash("echo warm")
        before = reset_peak()
        answer = await hands.bash("yes 'a line of output' | head -c 200000000; echo; echo the end")
        assert memory("VmHWM") - before < 16 * MB
        assert heart.work < 0.25  # 0.01 on a quiet machine; all at once would be seconds
        assert sorted(heart.waits)[len(heart.waits) // 2] < 0.25  # a busy machine may be late now and then
        task.cancel()
        return answer.text

    text = play(tmp_path, scene, disk=4 * MB)
    (stored,) = (tmp_path.parent / f"{tmp_path.name}-spill").iterdir()
    assert stored.stat().st_size == 4 * MB
    assert text.startswith("a line of output\n")
    assert text.endswith("\nthe end")
    assert f"Its first 4,000,000 bytes are in '{stored}'" in text
    assert len(text) < 31_000


def test_a_line_of_100_mb(tmp_path: Path) -> None:
    text = bash(tmp_path, "printf begin; head -c 100000000 /dev/zero | tr '\\0' x; printf end", timeout=60_000).text
    assert text.startswith("beginxxx")
    assert text.endswith("xxxend")
    assert "[... 0 lines (" not in text
    assert len(text) < 31_000


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("printf 'a\\0b'", "a␀b"),
        ("printf '\\xff\\xfe ok'", "\ufffd\ufffd ok"),
        ("printf '\\xe2\\x82'; sleep 0.02; printf '\\xac'", "€"),
        ("printf '\\xe2\\x82'", "\ufffd"),
        ("printf '\\033[31mred\\033[0m'", "\033[31mred\033[0m"),  # a screen makes it harmless, not we
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, command: str, seen: str) -> None:
    assert bash(tmp_path, command).text == seen


def test_random_bytes(tmp_path: Path) -> None:
    answer = bash(tmp_path, "head -c 5000000 /dev/urandom")
    assert answer.text.encode()
    assert "\0" not in answer.text
    assert len(answer.text) < 31_000


def test_what_is_left_out_can_be_read(tmp_path: Path) -> None:
    answer = bash(tmp_path, "seq 20000; exit 2")
    (stored,) = (tmp_path.parent / f"{tmp_path.name}-spill").iterdir()
    assert stored.read_text() == "".join(f"{number}\n" for number in range(1, 20_001))
    head, note, tail = answer.text.partition(f"bytes) left out here. The whole is in '{stored}': Read it")
    assert note
    shown = [line for line in f"{head}\n{tail}".splitlines() if line.isdigit()]
    assert f"[... {20_000 - len(shown):,} lines (" in head
    assert answer.text.startswith("1\n2\n")
    assert answer.text.endswith("\n20000\nExit code 2")


def test_a_flood_on_both_outputs_that_is_aborted(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> float:
        task = asyncio.get_running_loop().create_task(hands.bash("yes >&2 & yes; true"))
        await until(lambda: hands.shown)
        before = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - before

    assert play(tmp_path, scene) < 60
