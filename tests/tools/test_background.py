"""Commands in the background: read, ended, and none of them outlives the session. And `Sleep`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from processes.escapes import ESCAPES
from processes.traces import descriptors, new_nap, until, with_word, zombies
from tiers import parametrize_few

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.background import SLEEP, SleepInput
from tools.bash_hands import Hands, play


def test_it_returns_at_once_and_is_read_piece_by_piece(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        answer = await hands.bash(
            "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; exit 3", run_in_background=True
        )
        assert "in the background as 'bash_1'" in answer.text
        assert answer.data["backgroundTaskId"] == "bash_1"
        running = hands.background.find("bash_1")
        await until(lambda: running.child.stdout.size)
        first = await hands.output("bash_1")
        assert first.text.endswith("]\none")
        assert first.text.startswith("[bash_1: running for")
        assert (await hands.output("bash_1")).text.endswith("(no new output)")
        (tmp_path / "go").touch()
        await until(lambda: running.status != "running")
        last = await hands.output("bash_1")
        assert last.text.endswith("s, Exit code 3]\ntwo")
        assert last.data == {"shellId": "bash_1", "status": "failed", "stdout": "two", "stderr": "", "exitCode": 3}
        assert f"'{running.path}'" in answer.text
        assert hands.changes == [("bash_1", "running"), ("bash_1", "failed")]

    play(tmp_path, scene)
    (stored,) = (tmp_path.parent / f"{tmp_path.name}-spill").iterdir()
    assert stored.read_text() == "one\ntwo\n"


def test_only_matching_lines_are_shown_and_a_wrong_expression_loses_nothing(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        await hands.bash("seq 30; echo 'error: x'", run_in_background=True)
        running = hands.background.find("bash_1")
        await until(lambda: running.status == "completed")
        with pytest.raises(ToolError, match="'filter' failed"):
            await hands.output("bash_1", filter="(")
        with pytest.raises(ToolError, match="'filter' is invalid"):
            await hands.output("bash_1", filter="a\0")
        assert (await hands.output("bash_1", filter="^2.$|error")).text.splitlines()[1:] == [
            *[str(number) for number in range(20, 30)],
            "error: x",
        ]

    play(tmp_path, scene)


def test_an_expression_that_takes_for_ever_elsewhere(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> float:
        await hands.bash(f"echo {'a' * 5_000}b", run_in_background=True)
        running = hands.background.find("bash_1")
        await until(lambda: running.status == "completed")
        before = time.monotonic()
        await hands.output("bash_1", filter="^(a+)+$")
        return time.monotonic() - before

    assert play(tmp_path, scene) < 60


@parametrize_few("name", [name for name in ESCAPES if "stopped" not in name], keep=5)
def test_it_is_ended_with_all_that_it_started(tmp_path: Path, name: str) -> None:
    nap = new_nap()

    async def scene(hands: Hands) -> None:
        await hands.bash(f"{ESCAPES[name].replace('NAP', nap)}\nsleep {nap}; true", run_in_background=True)
        await until(lambda: len(with_word(nap)) >= 3)
        assert (await hands.kill("bash_1")).text == "'bash_1' was ended."
        assert (with_word(nap), zombies()) == ([], [])
        assert (await hands.kill("bash_1")).text.startswith("'bash_1' had ended: killed after")
        assert hands.changes[-1] == ("bash_1", "killed")

    play(tmp_path, scene)


def test_what_it_leaves_running_goes_on_with_it(tmp_path: Path) -> None:
    """`server &` in the background: the shell is over, the server is not."""
    nap = new_nap()

    async def scene(hands: Hands) -> None:
        await hands.bash(f"sleep {nap} & echo started", run_in_background=True)
        running = hands.background.find("bash_1")
        await running.child.exited.wait()
        assert running.status == "running"
        await until(lambda: with_word(f"\0{nap}"))
        await hands.bash("true")  # the end of another call does not touch it
        assert with_word(f"\0{nap}")

    play(tmp_path, scene)
    assert with_word(nap) == []


def test_all_end_with_the_session_and_nothing_stays_open(tmp_path: Path) -> None:
    naps = [new_nap() for _ in range(5)]

    async def scene(hands: Hands) -> None:
        await hands.bash("true")
        before = descriptors()
        for nap in naps:
            await hands.bash(f"sleep {nap}", run_in_background=True)
        await until(lambda: all(with_word(nap) for nap in naps))
        await hands.background.close()
        assert (descriptors(), zombies()) == (before, [])
        assert [with_word(nap) for nap in naps] == [[]] * 5
        assert hands.background.running == ()

    play(tmp_path, scene)


def test_a_loop_that_closes_takes_them_along(tmp_path: Path) -> None:
    nap = new_nap()

    async def main() -> None:
        hands = Hands(tmp_path)
        await hands.bash(f"setsid sleep {nap} & sleep {nap}", run_in_background=True)
        await until(lambda: with_word(f"\0{nap}"))

    asyncio.run(main())
    assert (with_word(nap), zombies()) == ([], [])


def test_a_flood_in_the_background_is_kept_within_limits(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        await hands.bash("yes", run_in_background=True)
        running = hands.background.find("bash_1")
        await until(lambda: running.child.stdout.size > 20_000_000)
        assert running.child.stdout.stored == 1_000_000
        text = (await hands.output("bash_1")).text
        assert len(text) < 31_000
        assert "Its first 1,000,000 bytes are in" in text

    play(tmp_path, scene, disk=1_000_000)


def test_there_is_a_limit_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.tools.background.MOST_RUNNING", 2)

    async def scene(hands: Hands) -> None:
        for _ in range(2):
            await hands.bash("sleep 100", run_in_background=True)
        with pytest.raises(ToolError, match="2 commands already run in the background: end one with KillShell"):
            await hands.bash("sleep 100", run_in_background=True)

    play(tmp_path, scene)


def test_an_unknown_id_is_told_with_those_that_are_known(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        with pytest.raises(ToolError, match=r"no background command 'x'\. Available: none\."):
            await hands.output("x")
        await hands.bash("true", run_in_background=True)
        with pytest.raises(ToolError, match=r"Available: 'bash_1'\."):
            await hands.kill("x")

    play(tmp_path, scene)


# --- Sleep ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-07")
def test_sleep_waits_and_wakes_when_it_is_cancelled(tmp_path: Path) -> None:
    called = FakeToolContext(str(tmp_path))
    before = time.monotonic()
    assert called.now(SLEEP, seconds=0.05).text == "Waited for 0.05 seconds."
    assert time.monotonic() - before >= 0.05

    async def main() -> float:
        task = asyncio.get_running_loop().create_task(called.use(SLEEP, seconds=500))
        await asyncio.sleep(0)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - start

    assert asyncio.run(main()) < 60  # of 500
    assert SLEEP.is_concurrent(SleepInput(1))


@pytest.mark.parametrize("seconds", [0, -1, 601, "1", None, float("inf"), float("nan")])
def test_sleep_is_bounded(tmp_path: Path, seconds: object) -> None:
    with pytest.raises(ToolError, match="The input of 'Sleep' is invalid"):
        FakeToolContext(str(tmp_path)).now(SLEEP, seconds=seconds)
