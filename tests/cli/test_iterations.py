"""What an iteration of the loop costs the machine, beside the model.

The seeds give 2 to 30 s and 2 to 5 MB per iteration with a real model. These tests show what the loop takes of that.
"""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import DEVNULL
from typing import NamedTuple

import pytest

from cli.stage import Serve, Stage
from mainspring.simulator.replies import ReceivedRequest, Reply, Say

ITERATIONS = 30
MOST_CPU = 0.1  # seconds per iteration: a twentieth of the shortest one; measured: 0.008
MOST_MEMORY = 1_000_000  # bytes per iteration, half of the least that the seeds give; measured: 230,000


class Spent(NamedTuple):
    cpu: float  # seconds
    memory: int  # bytes, at its peak


def peak_memory(pid: int) -> int:
    """Not `ru_maxrss`, which counts the memory of the process that started it."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1_024


def run_with_iterations(stage: Stage, number: int) -> Spent:
    """The real command, which reads a file in each iteration but the last."""

    peaks: list[int] = []

    def choose(received: ReceivedRequest) -> Reply:
        done = received.talk.turns()
        if done == number - 1:
            peaks.append(peak_memory(process.pid))
            return Say.of("Done.")
        name = f"{done}.txt"
        return Say.of({"type": "tool_use", "id": f"toolu_{done}", "name": "Read", "input": {"file_path": name}})

    stage.server.choose = choose
    process = stage.start("-p", "go", stdout=DEVNULL, stderr=DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    results = stage.requests[-1].talk.results()
    assert [result.get("is_error", False) for result in results] == [False] * (number - 1)
    return Spent(used.ru_utime + used.ru_stime, *peaks)


@pytest.mark.covers("P-02", "P-05")
def test_what_an_iteration_costs(serve: Serve) -> None:
    stage = serve()
    for n in range(ITERATIONS):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words of a line\n" * 1_900)
    few, many = run_with_iterations(stage, 2), run_with_iterations(stage, ITERATIONS)
    more = ITERATIONS - 2
    assert (many.cpu - few.cpu) / more < MOST_CPU
    assert (many.memory - few.memory) / more < MOST_MEMORY
