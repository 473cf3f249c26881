"""Signals and readers that leave, at bad moments: in time, with the right exit code, and nothing left running."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.stage import PATIENCE, Frame, Serve, Stage, frames, until
from mainspring.simulator.replies import Say

STREAM = ("-p", "hello", "--output-format=stream-json")
IN_TIME = 5 * 2.0  # seconds: two (stream-json 1.5), for a machine that is five times as slow as usual
SLOW = Say.of("A reply that takes its time" + ", and then some more of it" * 50, pace_ms=50)  # six seconds
LONG = "word " * 10_000  # as frames, far more than a pipe holds


def bash(command: str) -> Say:
    return Say.of({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}})


def hold(stage: Stage, script: str) -> Path:
    """A fifo, and a script that holds it open: the command itself may not name one."""
    (stage.folder / "hold.sh").write_text(script)
    fifo = stage.folder / "fifo"
    os.mkfifo(fifo)
    return fifo


def ended(process: subprocess.Popen[bytes], since: float) -> tuple[int, bytes, bytes]:
    output, errors = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - since < IN_TIME
    return process.returncode, output, errors


def read_until(process: subprocess.Popen[bytes], words: bytes) -> list[Frame]:
    assert process.stdout is not None
    seen: list[Frame] = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if words in line:
            return seen
    raise AssertionError(f"{words!r} did not come")


# --- while the model talks --------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_while_the_model_talks(number: signal.Signals, code: int, serve: Serve) -> None:
    """The call is closed, the result says why, and nothing is on standard error: a program reads the frames."""
    stage = serve(SLOW)
    with stage.start(*STREAM, "--include-partial-messages") as process:
        read_until(process, b"text_delta")
        since = time.monotonic()
        process.send_signal(number)
        returned, output, errors = ended(process, since)
    assert (returned, errors) == (code, b"")
    result = frames(output)[-1]
    assert (result["type"], result["terminal_reason"], result["is_error"]) == ("result", "aborted_streaming", True)
    stage.until(lambda: stage.server.aborted == 1)


def test_while_it_waits_for_the_first_byte(serve: Serve) -> None:
    stage = serve(Say.of("Hi.", pace_ms=60_000))
    with stage.start("-p", "hello") as process:
        stage.until(lambda: len(stage.requests) == 1)
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert ended(process, since) == (130, b"", b"mainspring: The request was interrupted\n")
    stage.until(lambda: stage.server.aborted == 1)


def test_while_it_waits_for_the_next_try(serve: Serve) -> None:
    stage = serve()
    with stage.start(*STREAM, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}) as process:
        read_until(process, b"api_retry")
        since = time.monotonic()
        process.terminate()
        returned, output, errors = ended(process, since)
    assert (returned, frames(output)[-1]["type"], errors) == (143, "result", b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees which call another process is in")
def test_while_it_waits_for_a_prompt(serve: Serve) -> None:
    stage = serve()
    for number, code in {signal.SIGINT: 130, signal.SIGTERM: 143}.items():
        with stage.start("-p", stdin=subprocess.PIPE) as process:
            until(lambda: waits_for_input(process.pid))  # used at once
            since = time.monotonic()
            process.send_signal(number)
            assert process.wait(PATIENCE) == code
            assert time.monotonic() - since < IN_TIME


def waits_for_input(pid: int) -> bool:
    """Linux tells which call a process is in: 0 is read, on descriptor 0."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")


PRESS_WHILE_LOADING = """
import atexit, os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "mainspring.core.state":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
atexit.register(lambda: print("mainspring.engine.session" in sys.modules))
"""


def test_while_it_loads(serve: Serve) -> None:
    """It waits until all is loaded. Before, one start in 25 that was interrupted here ended with a segmentation fault:
    msgspec 0.22 does not survive an exception while it looks at types."""
    stage = serve()
    with stage.start("-p", "hello", set_up=f"exec({PRESS_WHILE_LOADING!r})") as process:
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (130, b"True\n", b"mainspring: interrupted\n")
    assert stage.requests == []


# --- while a tool runs ------------------------------------------------------------------------------


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_a_tool_runs(number: signal.Signals, code: int, serve: Serve) -> None:
    """Whatever the command started holds a fifo: it is read to its end only when all of them are gone."""
    stage = serve(bash("bash hold.sh"))
    fifo = hold(stage, "(trap '' TERM INT; sleep 1000) >fifo & sleep 1000 >fifo; true")
    with stage.start(*STREAM, "--allowedTools=Bash") as process, fifo.open() as held:
        since = time.monotonic()
        process.send_signal(number)
        returned, output, errors = ended(process, since)
        assert held.read() == ""
    shown = frames(output)
    assert (returned, errors) == (code, b"")
    assert shown[-1]["terminal_reason"] == "aborted_tools"
    assert [frame["type"] for frame in shown[-3:]] == ["user", "user", "result"]
    [path] = stage.sessions()
    assert "aborted_tools" in path.read_text(), "the journal does not know the end"


# --- a reader that is slow, or leaves ---------------------------------------------------------------


def test_a_reader_that_is_slow_holds_up_nobody_else(serve: Serve) -> None:
    """Its pipe is full. The model's stream is read to its end all the same, and then every byte arrives."""
    stage = serve(Say.of(LONG))
    with stage.start(*STREAM, "--include-partial-messages") as process:
        until(lambda: any('"Replied"' in path.read_text() for path in stage.sessions()))
        assert process.poll() is None
        assert process.stdout is not None
        shown = frames(process.stdout.read())
        assert process.wait(PATIENCE) == 0
    pieces = [frame["event"]["delta"]["text"] for frame in shown if b"text_delta" in json.dumps(frame).encode()]
    assert "".join(pieces) == LONG


@pytest.mark.parametrize(("signals", "code"), [([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 130)])
def test_a_reader_that_never_reads_does_not_keep_us_alive(
    signals: list[signal.Signals], code: int, serve: Serve
) -> None:
    """The pipe is full, so that the result cannot be written: the end is forced."""
    stage = serve(Say.of(LONG))
    reading, writing = os.pipe()
    with stage.start(*STREAM, "--include-partial-messages", stdout=writing) as process:
        until(lambda: not has_room(writing))
        since = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)  # two that come at once are one
        assert process.wait(PATIENCE) == code
        assert time.monotonic() - since < IN_TIME
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(reading)
    os.close(writing)


def has_room(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(0))


@pytest.mark.parametrize("form", ["stream-json", "text"])
def test_a_reader_that_left_is_no_reason_for_a_word(form: str, serve: Serve) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with serve(Say.of("Hi.")).start("-p", "hello", f"--output-format={form}", stdout=writing) as process:
        os.close(writing)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.needs("bwrap")
def test_a_reader_that_leaves_ends_the_tool(serve: Serve) -> None:
    stage = serve(bash("bash hold.sh"))
    fifo = hold(stage, "sleep 1000 >fifo; true")
    with stage.start(*STREAM, "--allowedTools=Bash") as process, fifo.open() as held:
        read_until(process, b"tool_use")
        assert process.stdout is not None
        process.stdout.close()
        process.send_signal(signal.SIGINT)  # so that there is something to say
        assert process.wait(PATIENCE) in (130, 141)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert said == "", said
        assert held.read() == ""
