"""Nothing outlives a call of `Bash`: through the tool, with its own script around the command."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from processes.escapes import ESCAPES
from processes.traces import descriptors, new_nap, until, with_word, zombies
from tiers import parametrize_few

from tools.bash_hands import Hands, bash, play


@parametrize_few("name", ESCAPES, keep=5)
def test_nothing_is_left_after_the_end(tmp_path: Path, name: str) -> None:
    nap = new_nap()
    answer = bash(
        tmp_path, ESCAPES[name].replace("NAP", nap) + f"\nuntil pgrep -f {nap}; do :; done >/dev/null; echo over"
    )
    assert answer.text.endswith("over")
    assert with_word(nap) == []


@parametrize_few("name", ESCAPES, keep=5)
def test_nothing_is_left_after_an_abort(tmp_path: Path, name: str) -> None:
    nap = new_nap()

    async def scene(hands: Hands) -> None:
        before = descriptors()
        command = ESCAPES[name].replace("NAP", nap) + f"\nsleep {nap}; true"
        task = asyncio.get_running_loop().create_task(hands.bash(command))
        await until(lambda: len(with_word(nap)) >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descriptors() == before

    play(tmp_path, scene)
    assert (with_word(nap), zombies()) == ([], [])


def test_a_daemon_that_holds_the_pipe_holds_up_nobody(tmp_path: Path) -> None:
    nap = new_nap()
    before = time.monotonic()
    assert bash(tmp_path, f"setsid sleep {nap} & echo started").text == "started"
    assert time.monotonic() - before < 20  # it sleeps for 100
    assert with_word(nap) == []


def test_a_fork_that_goes_on_forking_is_caught(tmp_path: Path) -> None:
    """Each one starts the next in a session of its own, and ends."""
    nap = new_nap()
    (tmp_path / "chain").write_text(f"# {nap}\nsetsid bash ./chain {nap} >/dev/null 2>&1 &\n")
    bash(tmp_path, f"bash ./chain {nap}")
    for _ in range(5):
        assert with_word(nap) == []
