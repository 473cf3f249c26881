"""What is typed or pasted at the prompt, in a real terminal: a paste is one prompt, whatever is in it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Serve, Stage, until
from cli.terminal import CTRL_C, CTRL_D, PASTES_MARKED, PASTES_PLAIN, SitAt, Terminal, sit_at, without_notes
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture

BEGIN, END = "\x1b[200~", "\x1b[201~"
CRASH = """\
import signal
def crash(number, frame):
    raise RuntimeError("a bug of ours")
signal.signal(signal.SIGUSR1, crash)
"""


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


def pasted(text: str) -> str:
    """As terminals send it: they press Enter for each line."""
    return BEGIN + text.replace("\n", "\r") + END


def prompts(stage: Stage) -> list[str]:
    """What was said to the model, by request."""
    return [said(request.body["messages"][-1]["content"]) for request in stage.requests]


def said(content: str | list[dict[str, Any]]) -> str:
    """Without what was attached to it."""
    if isinstance(content, str):
        return content
    [text] = [block["text"] for block in content if not block["text"].startswith("<system-reminder")]
    return str(text)


def is_marking(terminal: Terminal) -> bool:
    """Whether the terminal was left in the mode in which it marks pastes."""
    return terminal.raw.rfind(PASTES_MARKED) > terminal.raw.rfind(PASTES_PLAIN)


def leave(terminal: Terminal) -> None:
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0


# --- one prompt -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("one\ntwo\nthree", id="without a last newline"),
        pytest.param("one\ntwo\n", id="with one"),
        pytest.param("/exit\nexit\n\n\n/help\n", id="words that would be for us, and empty lines"),
        pytest.param("def f():\n\tif x:\n\t\treturn 'é漢\U0001f600'\n", id="tabs and other alphabets"),
        pytest.param("\x01a\x04b\x05\x08c\x0bd\x15e\x17f\x16g\x7fh\x1b[31mred\x1b[0m\x1b]0;t\x07\n2", id="controls"),
        pytest.param("y\n" * 500, id="many short lines"),
        pytest.param("\n".join([f"line {number} of a long log" for number in range(10_000)]), id="10,000 lines"),
        pytest.param("x" * 100_000, id="a line of 100,000 characters"),
    ],
)
def test_a_paste_is_one_prompt_and_waits_for_enter(text: str, serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("First."), Say.of("Second."))
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.see("> ")
    assert is_marking(terminal)  # else it would send no marks
    terminal.type(f"see: {pasted(text)} (that was all)\r")
    terminal.see("First.")
    terminal.say("and now?")
    terminal.see("Second.")
    leave(terminal)
    assert prompts(stage) == [f"see: {text} (that was all)", "and now?"]
    assert not is_marking(terminal)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 9, 13, 14, 15, 16, 17, 18, 19])
def test_a_paste_may_come_in_pieces(at: int, serve: Serve, sit_at: SitAt) -> None:
    """Cut within the marks, too."""
    stage = serve(Say.of("Hi."))
    keys = pasted("one\ntwo")
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type(keys[:at])
    terminal.rest()
    terminal.type(keys[at:])
    terminal.type("\r")
    terminal.see("Hi.")
    assert prompts(stage) == ["one\ntwo"]


def test_what_is_pasted_gives_no_orders_to_the_terminal(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(Say.of("Hi.")))
    terminal.say(pasted("\x1b[2J\x1b]0;title\x07 end"))
    terminal.see("Hi.")
    assert b"\x1b[2J" not in terminal.raw
    assert b"\x1b]0;" not in terminal.raw


def test_lines_that_nothing_marks_belong_together_if_they_come_at_once(serve: Serve, sit_at: SitAt) -> None:
    """As from a terminal that knows no marks. What has no newline at its end waits for one."""
    stage = serve(Say.of("First."), Say.of("Second."))
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type("exit\rone\rtwo\\\r/exit\rthree")
    terminal.see("three")
    assert stage.requests == []
    terminal.type(" and a bit\r")
    terminal.see("First.")
    terminal.say("\r".join(f"line {number}" for number in range(300)))
    terminal.see("Second.")
    assert prompts(stage) == [
        "exit\none\ntwo\\\n/exit\nthree and a bit",
        "\n".join(f"line {number}" for number in range(300)),
    ]


def test_what_is_pasted_while_a_turn_is_under_way_is_the_next_prompt(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("A reply that takes its time" + ", and more" * 20, pace_ms=50), Say.of("Second."))
    terminal = sit_at(stage)
    terminal.say("hello")
    terminal.see("A reply")
    terminal.type("one\rtwo\rthree\r")
    terminal.see("Second.")
    leave(terminal)
    assert prompts(stage) == ["hello", "one\ntwo\nthree"]


def test_ctrl_c_in_a_turn_keeps_what_was_typed_ahead(serve: Serve, sit_at: SitAt) -> None:
    """A terminal would throw it away: whoever presses Ctrl-C in a turn wants to be done with that, and go on."""
    stage = serve(Say.of("A reply that takes its time" + ", and more" * 60, pace_ms=50), Say.of("Second."))
    terminal = sit_at(stage)
    terminal.say("hello")
    terminal.see("A reply")
    terminal.type("do this instead\rand half a thou")
    terminal.see("half a thou")  # the terminal's own echo: it has it
    terminal.type(CTRL_C)
    terminal.see("(interrupted)")
    terminal.see("half a thou")
    terminal.type("ght\r")
    terminal.see("Second.")
    leave(terminal)
    assert stage.requests[1].body["messages"][-1]["content"][-1]["text"] == "do this instead\nand half a thought"
    assert terminal.is_as_before()


def test_two_ctrl_c_in_a_turn_leave_the_terminal_as_it_was(serve: Serve, sit_at: SitAt) -> None:
    """Nothing is cleaned up then, but for this."""
    stage = serve(Say.of(tool_use("Bash", command="trap '' INT TERM; touch held; while :; do sleep 1; done")))
    terminal = sit_at(stage, "--allowedTools", "Bash")
    terminal.say("hold")
    until((stage.folder / "held").exists)
    assert not terminal.is_as_before()
    terminal.type(CTRL_C)
    time.sleep(0.1)  # two that come at once are one
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    assert terminal.is_as_before()


def test_ctrl_c_within_a_paste_drops_all_of_it(serve: Serve, sit_at: SitAt) -> None:
    """The kernel takes it for the key, and the mark before it is lost: the rest must not become prompts."""
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type(pasted(f"one\ntwo\n{CTRL_C}three\nrm -r everything\n" + "more\n" * 2_000))
    terminal.see("Press Ctrl-D")
    terminal.say("hello")
    terminal.see("Hi.")
    assert prompts(stage) == ["hello"]


def test_after_ctrl_z_and_fg_the_line_is_there_again(serve: Serve, sit_at: SitAt) -> None:
    """The shell has set the terminal to what it was before."""
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type("half\x1b[200~\ra thou\x1b[201~")
    terminal.see("thou")
    terminal.rest()
    terminal.send(signal.SIGSTOP)
    terminal.reset()
    terminal.send(signal.SIGCONT)
    terminal.see("> half")
    terminal.see("a thou")
    terminal.type("ght\r")
    terminal.see("Hi.")
    assert prompts(stage) == ["half\na thought"]


def test_after_ctrl_z_and_fg_the_lines_before_are_kept(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.say("one\\")
    terminal.see("  ")
    terminal.type("tw")
    terminal.see("tw")
    terminal.rest()
    terminal.send(signal.SIGSTOP)
    terminal.reset()
    terminal.send(signal.SIGCONT)
    terminal.see("  tw")
    terminal.type("o\r")
    terminal.see("Hi.")
    assert prompts(stage) == ["one\ntwo"]


@pytest.mark.parametrize("how", ["while it is stopped", "just after"])
def test_ctrl_c_at_the_moment_of_fg_drops_the_line(how: str, serve: Serve, sit_at: SitAt) -> None:
    """Two signals, or three with the timer's, come at once: Python's `input` calls the handler of the second while it
    holds the exception of the first."""
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type("half a thou")
    terminal.see("thou")
    terminal.rest()
    terminal.send(signal.SIGSTOP)
    if how == "while it is stopped":
        time.sleep(0.6)  # the timer goes off meanwhile, too
        terminal.send(signal.SIGINT)
    terminal.reset()
    terminal.send(signal.SIGCONT)
    if how == "just after":
        terminal.type(CTRL_C)
    terminal.see("Press Ctrl-D")
    terminal.say("hello")
    terminal.see("Hi.")
    leave(terminal)
    assert prompts(stage) == ["hello"]
    assert "Traceback" not in terminal.shown
    assert terminal.is_as_before()


# --- the terminal is left as it was ---------------------------------------------------------------------------


def test_pastes_are_marked_only_while_a_line_is_read(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(Say.of("A reply.", pace_ms=100)))
    terminal.see("> ")
    assert is_marking(terminal)
    terminal.type("hello\r")
    terminal.see("A reply")
    assert not is_marking(terminal)


@pytest.mark.parametrize(
    ("how", "code"), [("ctrl-c", 130), ("ctrl-d", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, 1)]
)
@pytest.mark.parametrize("begun", ["", "half a line", BEGIN + "half a paste\r"])
def test_the_end_takes_the_mode_back(
    how: str | signal.Signals, code: int, begun: str, serve: Serve, sit_at: SitAt, tmp_path: Path
) -> None:
    """Also after a crash, for which the last one stands."""
    (tmp_path / "sitecustomize.py").write_text(CRASH)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    terminal = sit_at(serve(), PYTHONPATH=path)
    terminal.see("> ")
    if how == "ctrl-d" or (how is signal.SIGUSR1 and BEGIN in begun):
        begun = ""  # the one leaves where nothing is typed; the other cannot happen there, as none of our code runs
    terminal.type(begun)
    if begun.startswith("half"):
        terminal.see(begun)
    terminal.rest()
    match how:
        case signal.Signals():
            terminal.send(how)
        case "ctrl-c":
            terminal.press_ctrl_c()
            terminal.see("Press Ctrl-D")
            terminal.see("> ")
            terminal.press_ctrl_c()
        case _:
            terminal.type(CTRL_D)
    assert terminal.end() == code
    assert PASTES_MARKED in terminal.raw
    assert not is_marking(terminal)
    assert terminal.is_as_before()
    assert ("a bug of ours" in terminal.shown) == (how is signal.SIGUSR1)


def test_a_terminal_that_knows_nothing_is_asked_for_nothing(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(), TERM="dumb")
    terminal.see("> ")
    leave_now(terminal)
    assert PASTES_MARKED not in terminal.raw


def leave_now(terminal: Terminal) -> None:
    terminal.type(CTRL_D)
    assert terminal.end() == 0
