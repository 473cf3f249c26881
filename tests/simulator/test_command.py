"""`mainspring simulate` as a process. What it does is tested where it is done; here it is put together."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.simulator.command import main
from simulator.bodies import ask, user
from simulator.client import assembled, connected
from simulator.openai_bodies import chat, says
from simulator.openai_client import Chat

COMMAND = [sys.executable, "-m", "mainspring.simulator"]


@contextmanager
def running(
    *flags: str, cwd: Path | None = None, sign: signal.Signals = signal.SIGINT
) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the lines that it will have said when it is over."""
    lines: list[str] = []
    with subprocess.Popen([*COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as it:
        assert it.stdout is not None
        assert it.stderr is not None
        try:
            yield it.stdout.readline().strip(), lines
        finally:
            it.send_signal(sign)
        lines += it.stdout.read().splitlines()
        assert it.stderr.read() == ""
    assert it.returncode == 0


def talk(url: str, *bodies: Any) -> list[Any]:
    """A status and a body for each; streams are put together."""

    async def one(body: Any) -> Any:
        async with connected(url) as client:
            client.send(body)
            if body.get("stream"):
                head, events = await client.streamed()
                return [head.status, assembled(events)]
            head, said = await client.answer()
            return [head.status, said]

    async def all_of_them() -> list[Any]:
        return [await one(body) for body in bodies]

    return asyncio.run(all_of_them())


def words(answer: Any) -> str:
    return str(answer[1]["content"][-1]["text"])


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_told_nothing_it_answers_and_ends_cleanly(sign: signal.Signals) -> None:
    with running(sign=sign) as (url, lines):
        assert words(talk(url, ask(user("Hello."), stream=True))[0]) == "You said: Hello."
    assert lines == []


def test_a_line_for_each_request() -> None:
    with running("--verbose", "--fault", "overloaded:1", "--model-limit", "1000") as (url, lines):
        statuses = [status for status, _ in talk(url, ask(), ask(), ask(user("")), ask(user("x" * 10_000)))]
        assert statuses == [529, 200, 400, 400]
    assert [line.partition(" > ")[2] for line in lines[:2]] == [
        "529 overloaded_error [overloaded], 0.000000 USD",
        "end_turn, 0.000284 USD",  # 12 tokens in, 26 out, at 2 and 10 dollars a million
    ]
    assert lines[2].startswith("/v1/messages refused 400 invalid_request_error: messages")
    assert "invalid_request_error" in lines[3]


def test_recorded_and_replayed(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    with running("--record", str(recording), "--rate", "overloaded=1") as (url, _):
        assert [status for status, _ in talk(url, ask(user("one")))] == [529]
    with running("--record", str(recording)) as (url, _):
        first = talk(url, ask(user("two")))
    assert [json.loads(line)["reply"]["reply"] for line in recording.read_text().splitlines()] == ["refuse", "say"]
    with running("--replay", str(recording)) as (url, _):
        again = talk(url, ask(user("two")), ask(user("one")), ask(user("three")))
    assert words(again[0]) == words(first[0])
    assert [status for status, _ in again] == [200, 529, 400]


def test_a_rule_beside_the_tests(tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(
        "from mainspring.simulator.replies import Say\n\n\ndef shout(received):\n"
        "    return Say.of(received.talk.prompt.upper())\n"
    )
    with running("--rule", "my_rules:shout", cwd=tmp_path) as (url, _):
        assert words(talk(url, ask(user("hello")))[0]) == "HELLO"


def test_a_seed_replays() -> None:
    def statuses(seed: str) -> list[int]:
        with running("--rate", "overloaded=0.5", "--seed", seed) as (url, _):
            return [status for status, _ in talk(url, *[ask()] * 12)]

    assert statuses("1") == statuses("1")
    assert statuses("1") != statuses("2")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--fault", "rain"], "'rain' is not a fault"),
        (["--rate", "overloaded"], "'overloaded' is not a rate"),
        (["--rate", "rain=0.1"], "unknown fault 'rain'"),
        (["--odd", "moody"], "'moody' is not a quirk of odd servers"),
        (["--replay", "/nowhere"], "cannot read the recording '/nowhere'"),
        (["--rule", "no_such_module:f"], "cannot use the rule 'no_such_module:f'"),
        (["--record", "/nowhere/at/all"], "cannot write the recording '/nowhere/at/all'"),
        (["--script", "a", "--rule", "b"], "not allowed with"),
    ],
)
def test_mistakes_are_named(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_port_that_is_taken_is_named() -> None:
    with running() as (url, _):
        done = subprocess.run([*COMMAND, "--port", url.rpartition(":")[2]], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot listen on port" in done.stderr


def test_help_names_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert said.startswith("usage: mainspring simulate")
    assert "cut_in_text (the stream ends inside a text)" in " ".join(said.split())
    assert "no_done (no [DONE] at the end)" in " ".join(said.split())


def test_an_odd_server_of_the_other_kind() -> None:
    async def ask_it(url: str) -> Chat:
        async with connected(url) as client:
            client.send(chat(says("Hello."), stream=True), "/v1/chat/completions")
            assert (await client.head()).status == 200
            return Chat(b"".join([chunk async for chunk in client.chunks()]))

    with running("--odd", "think_tags", "--odd", "no_done") as (url, _):
        said = asyncio.run(ask_it(url))
    assert (said.text, said.done) == ("<think>\nSomebody is talking to me.\n</think>\n\nYou said: Hello.", False)
