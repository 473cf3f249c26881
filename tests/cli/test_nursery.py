"""What is begun by a fork is like what is started: other tests rest on that."""

from __future__ import annotations

import signal
import subprocess

import pytest
from mcp_servers.stage import SHOP

from cli.nursery import begun
from cli.stage import COMMAND, PATIENCE, Serve
from mainspring.simulator.replies import Say

SLOW = Say.of("A reply that takes its time" + ", and then some more of it" * 50, pace_ms=50)  # six seconds


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--no-such-flag",),
        ("-p", "hello \N{SNOWMAN}", "--allowedTools", "Bash"),
        ("-p", ""),
        ("sessions",),
        ("mcp", "--json"),
    ],
)
def test_it_says_and_returns_what_a_start_would(words: tuple[str, ...], serve: Serve) -> None:
    stage = serve(choose=lambda _: Say.of("It is \N{SNOWMAN}."))
    said = []
    for command in (begun("mainspring"), COMMAND):
        done = subprocess.run(
            [*command, *words],
            input=b"and this",
            capture_output=True,
            cwd=stage.folder,
            env=stage.environment,
            timeout=PATIENCE,
            check=False,
        )
        said.append((done.returncode, done.stdout, done.stderr))
    assert said[0] == said[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_are_passed_on(number: signal.Signals, code: int, serve: Serve) -> None:
    stage = serve(SLOW)
    with subprocess.Popen(begun("mainspring", "-p", "hello"), cwd=stage.folder, env=stage.environment) as process:
        stage.until(lambda: len(stage.requests) == 1)
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
    stage.until(lambda: stage.server.aborted == 1)


def test_who_kills_the_front_kills_the_program() -> None:
    """Its pipe ends: nobody holds it any more."""
    with subprocess.Popen(begun(SHOP), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.kill()
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE) == -signal.SIGKILL


def test_one_that_is_ended_by_a_signal_is_told_so() -> None:
    with subprocess.Popen(begun(SHOP), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()  # it runs
        process.terminate()
        assert process.wait(PATIENCE) == -signal.SIGTERM
