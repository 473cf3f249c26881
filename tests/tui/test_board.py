"""The board and the transcript on a pty: open, steer, stop, move; and under random keys, resizes, stops and signals."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from agent.test_background import FREE, WAIT, bash, is_subagent, sent, spawn
from agent.test_front_ends import hooked
from cli.stage import Serve
from tiers import long

from mainspring.agent.background_tasks import BackgroundTask
from mainspring.cli.tui.board import count_tasks, describe, make_row
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from tui.person import CTRL_C, CTRL_D, CTRL_O, DOWN, ENTER, ESCAPE, TAB, UP, Person, SitAt

CTRL_B = "\x02"
LEFT = "until [ -e gone ]; do sleep 0.05; done"
WILD = (
    *"jkgGneyx/bq123 ",
    UP,
    DOWN,
    TAB,
    ENTER,
    ESCAPE,
    CTRL_O,
    CTRL_B,
    "\x1b[5~",
    "\x1b[6~",
    "\x1b[H",
    "\x1b[F",
    "\x7f",
)
SIZES = ((24, 80), (36, 120), (12, 40), (6, 30), (50, 33))


def answer(request: ReceivedRequest) -> Reply:
    """A command in the background and a subagent in the foreground; both wait for a file."""
    if is_subagent(request):
        if "Look at the sky" in sent(request):
            return Say.of("I looked at the sky.")
        return Say.of("Rain.") if "tool_result" in sent(request) else Say.of(bash(LEFT, "toolu_below"))
    if "tool_result" in sent(request):
        return Say.of("Meanwhile.\n\n" + "\n\n".join([f"paragraph {number}" for number in range(40)]))
    return Say.of(bash(f"seq 30; {WAIT}", run_in_background=True), spawn())


def begin(serve: Serve, sit_at: SitAt) -> tuple[Person, Path]:
    """The person, and the folder in which it works."""
    stage = serve(choose=answer)
    hooked(stage)
    person = sit_at(stage, f"--permission-mode={FREE}", rows=30, columns=100)
    person.see("bypassing permissions")
    person.type("start it\r")
    person.see("● Agent(general-purpose: look)", LEFT)
    return person, stage.folder


def test_tasks_are_opened_steered_and_stopped(serve: Serve, sit_at: SitAt) -> None:
    person, folder = begin(serve, sit_at)
    person.see("1 in the background (↓)")
    person.type(CTRL_B)
    person.see("paragraph 39", "2 in the background (↓)")
    person.type(DOWN)
    person.see("Tasks", "2 running", "● look", "● seq 30")
    person.type(ENTER)
    person.see("look · running", "❯ AWAY", "message to this subagent")
    person.type("Look at the sky")
    person.type(ENTER)
    person.see("Sent: the subagent reads it with its next request.")
    (folder / "gone").touch()
    person.see("● I looked at the sky.", "look · completed")
    person.type(ESCAPE)
    person.see("1 running, 1 ended")
    person.type(UP)
    person.until(lambda: any(line.startswith("❯ ● seq 30") for line in person.screen))
    time.sleep(0.5)  # a letter does not count before it could be read
    person.type("x")
    person.see("Stopped")
    person.type(ESCAPE)
    person.until(lambda: any("bypassing permissions" in line for line in person.screen))
    assert not any("in the background" in line for line in person.screen)
    person.type(CTRL_D)
    assert person.end() == 0
    assert person.is_as_before()


@pytest.mark.parametrize("seed", [0, 1, *[long(seed) for seed in range(2, 12)]])
def test_nothing_breaks_the_board_or_the_transcript(serve: Serve, sit_at: SitAt, seed: int) -> None:
    (person, _), chance = begin(serve, sit_at), random.Random(seed)
    person.type(CTRL_B)
    person.see("paragraph 39")
    for _ in range(30):
        kind = chance.randrange(10)
        if kind == 0:
            person.resize(*chance.choice(SIZES))
            person.send(signal.SIGWINCH)
        elif kind == 1:
            person.send(signal.SIGSTOP)
            person.send(signal.SIGCONT)
        elif kind == 2:
            person.type(chance.choice((CTRL_O, DOWN)))
        else:
            person.type("".join(chance.choices(WILD, k=3)))
    person.resize(30, 100)
    person.send(signal.SIGWINCH)
    for _ in range(12):
        person.type(ESCAPE)
        time.sleep(0.1)  # an Escape of its own, not the start of a key
    person.type(CTRL_C)
    person.until(lambda: "\x1b[?1049h" not in person.raw.decode(errors="replace").rpartition("\x1b[?1049l")[2])
    person.until(lambda: any(line.startswith("❯") for line in person.screen))
    person.send(signal.SIGTERM)
    assert person.end() in (0, 143)
    assert person.is_as_before()


def test_rows_say_what_a_task_does() -> None:
    agent = BackgroundTask(
        "a1", "subagent", "Explore", "look", "running", 65, tokens=1_240, cost=4_100_000, last_call="Grep(x)"
    )
    row = make_row(agent)
    assert (row.label, row.about) == ("● look", "running · 1 min 5 s · 1,240 tokens · $0.0041 · Grep(x)")
    assert describe(agent) == ["Explore · a1", "Last call: Grep(x)"]
    command = BackgroundTask("bash_1", "command", "make", "", "failed", 3, exit_code=2, output=lambda _: "one\ntwo\n")
    row = make_row(command)
    assert (row.label, row.about) == ("✗ make", "failed · 3 s · exit code 2")
    assert describe(command) == ["bash_1 · make", "one", "two"]
    assert count_tasks((agent, command)) == "1 running, 1 ended"
    assert describe(None) == []
