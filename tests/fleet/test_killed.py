"""Everything is killed, and the same command runs again: each task is done once, and no money is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.fleet.leases import LEDGER, UnknownOutcome, read_spending
from mainspring.fleet.results import TaskResult, parse_results
from mainspring.fleet.runner import find_stored_sessions
from mainspring.simulator.replies import ReceivedRequest, Say
from mainspring.testing.plugin import LiveServer, call

PROGRAM = Path(__file__).with_name("program.py")
PATIENCE = 600  # seconds; only what hangs takes so long
USAGE = Usage(input=300, output=100)


def reply_in_turns(turns: int, tool: str) -> Callable[[ReceivedRequest], Say]:
    """A model that calls the tool in each turn but the last."""

    def choose(received: ReceivedRequest) -> Say:
        body: Any = received.body
        number = re.findall(r"task (\d+)\.", received.talk.prompt)[0]
        blocks = [
            block
            for message in body["messages"]
            if not isinstance(message["content"], str)
            for block in message["content"]
        ]
        done = sum([block["type"] == "tool_result" for block in blocks])
        if done + 1 >= turns:
            return Say.of(f"Task {number} is done.", usage=USAGE)
        text = f"{number} {done + 1}"
        given = {"text": text} if tool == "note" else {"file_path": f"/no/file {text}"}
        return Say.of(call(tool, f"toolu_{number}_{done}", **given), usage=USAGE, pace_ms=1)

    return choose


class FleetProgram:
    """The program in a process group of its own, as often as it is started."""

    def __init__(self, server: LiveServer, folder: Path, *arguments: object) -> None:
        self._folder, self._arguments = folder, [str(folder / "out"), *map(str, arguments)]
        self._env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        self.lines: list[str] = []

    def run(
        self, kill_after: int | None = None, watch: Callable[[subprocess.Popen[str], int], None] | None = None
    ) -> int:
        """`kill_after`: kill the whole group when so many tasks have ended in this run. `watch` is called with the
        process and their number, after each."""
        command = [sys.executable, str(PROGRAM), *self._arguments]
        process = subprocess.Popen(
            command, cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        ended = 0
        with process.stdout:
            for line in process.stdout:
                self.lines.append(line.strip())
                ended += line.startswith("t")
                if watch is not None:
                    watch(process, ended)
                if ended == kill_after:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        return process.wait(PATIENCE)

    @property
    def results(self) -> list[TaskResult]:
        return list(parse_results((self._folder / "out/results.jsonl").read_bytes()))

    @property
    def unknown(self) -> int:
        """Nano-dollars of calls whose outcome is unknown."""
        records = (self._folder / "out" / LEDGER).read_bytes().splitlines()
        found = [msgspec.json.decode(line) for line in records]
        return sum([one["amount"] for one in found if one["type"] == UnknownOutcome.__name__])

    @property
    def settled(self) -> int:
        """Nano-dollars, by the journals of all sessions."""
        return sum([read_spending(file).spent for _, file in find_stored_sessions(self._folder / "out")])


def check_money(program: FleetProgram, server: LiveServer, *, all_done: bool = True) -> None:
    charged, in_results = round(server.cost_usd * NANOS_PER_USD), sum([result.cost for result in program.results])
    assert program.settled == in_results if all_done else program.settled >= in_results
    assert program.settled <= charged <= program.settled + program.unknown


def kill_often(server: LiveServer, folder: Path, tasks: int, turns: int, processes: int) -> FleetProgram:
    server.rule(reply_in_turns(turns, "note" if processes == 1 else "Read"))
    program = FleetProgram(server, folder, tasks, processes, 10_000)
    for _ in range(3):
        assert program.run(kill_after=tasks // 5) == -signal.SIGKILL
    assert program.run() == 0
    assert Counter(result.id for result in program.results) == Counter([f"t{n}" for n in range(tasks)])
    assert all(result.text == f"Task {result.id[1:]} is done." for result in program.results)
    assert not [result for result in program.results if result.is_error]
    check_money(program, server)
    if processes == 1:
        notes = Counter((folder / "notes").read_text().splitlines())
        assert max(notes.values()) == 1  # no tool ran twice
    return program


def test_without_a_kill_the_money_is_exact(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.rule(reply_in_turns(3, "note"))
    program = FleetProgram(model_server, tmp_path, 20, 1, 10)
    assert program.run() == 0
    assert len(program.results) == 20
    assert {result.turns for result in program.results} == {3}
    assert program.unknown == 0
    check_money(program, model_server)
    assert program.settled == round(model_server.cost_usd * NANOS_PER_USD)
    assert program.run() == 0  # nothing is left to do
    assert len(program.results) == 20


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_fifty_tasks_and_three_kills(model_server: LiveServer, tmp_path: Path, processes: int) -> None:
    kill_often(model_server, tmp_path, 50, 5, processes)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_thousand_tasks_and_three_kills(model_server: LiveServer, tmp_path: Path) -> None:
    kill_often(model_server, tmp_path, int(os.environ.get("FLEET_TASKS", "1000")), 5, 1)


def children(pid: int) -> list[int]:
    """Of all its threads: one of them starts the workers."""
    found = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted([int(child) for each in found for child in each])


@pytest.mark.long
def test_a_killed_worker_s_tasks_and_money_go_to_the_others(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.rule(reply_in_turns(4, "Read"))
    program = FleetProgram(model_server, tmp_path, 60, 3, 10)
    killed, marks = [0], [5, 20]  # a task that three workers died of is given up

    def kill_worker(process: subprocess.Popen[str], ended: int) -> None:
        alive = [child for child in children(process.pid) if child not in killed]
        if marks and ended >= marks[0] and alive:
            marks.pop(0)
            killed.append(alive[0])
            os.kill(alive[0], signal.SIGKILL)

    assert program.run(watch=kill_worker) == 0
    assert not marks
    assert Counter(result.id for result in program.results) == Counter([f"t{n}" for n in range(60)])
    assert not [result for result in program.results if result.is_error]
    check_money(program, model_server)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_dollar_over_500_tasks_in_four_processes(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.rule(reply_in_turns(5, "Read"))
    program = FleetProgram(model_server, tmp_path, 500, 4, 1)
    most = 0.0

    def look(process: subprocess.Popen[str], ended: int) -> None:
        nonlocal most
        most = max(most, model_server.cost_usd)
        if ended == 40:
            os.kill(children(process.pid)[0], signal.SIGKILL)

    assert program.run(watch=look) == 0
    assert program.lines[-1] == "stopped: budget_usd"
    assert most <= model_server.cost_usd <= 1
    # What the killed worker did not spend was spent by the others: no more than a call of each is left over.
    assert program.settled + program.unknown > 0.95 * NANOS_PER_USD
    check_money(program, model_server, all_done=False)
    richer = FleetProgram(model_server, tmp_path, 500, 4, 5)
    assert richer.run() == 0
    assert Counter(result.id for result in richer.results) == Counter([f"t{n}" for n in range(500)])
    check_money(richer, model_server)
