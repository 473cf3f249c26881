"""When requests of a program are sent, on a virtual clock: the real session, its files and its sockets, and hours that
pass at once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import Message, ResultError, ResultMessage, SystemMessage, create_sdk_mcp_server, query
from mainspring.sdk import tool as sdk_tool
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, ReplyStamp, Say, stream_events
from mainspring.simulator.scripts import Choose
from sdk.stage import Stage, call, outcomes, play_virtually, texts

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
MOST_JITTER = 1.25  # a random share of each wait is added
BUSY = Refuse(529, "overloaded_error", "Overloaded")


def ask(folder: Path, choose: Choose, **chosen: Any) -> tuple[list[Message], list[int]]:
    """The messages of one prompt, and when requests came, in milliseconds."""
    told: list[Message] = []

    async def main(stage: Stage) -> list[int]:
        with suppress(ResultError):
            async for message in query(prompt="go", options=stage.options(setting_sources=[], **chosen)):
                told.append(message)
        return [request.at for request in stage.server.requests]

    return told, play_virtually(main, folder, choose=choose)


def attempts_in(told: list[Message], *subtypes: str) -> list[int]:
    """The attempts that these messages are about, in order."""
    found = [message for message in told if isinstance(message, SystemMessage) and message.subtype in subtypes]
    return [message.data["attempt"] for message in found]


def result_of(told: list[Message]) -> ResultMessage:
    assert isinstance(told[-1], ResultMessage)
    return told[-1]


def steps(times: list[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.covers("G-23", "G-24")
def test_an_hour_of_overload_then_success(tmp_path: Path) -> None:
    def choose(received: ReceivedRequest) -> Reply:
        return BUSY if received.at < HOUR else Say.of("Done.")

    told, times = ask(tmp_path, choose, retry="unattended")
    assert (texts(told), result_of(told).is_error) == (["Done."], False)
    waits = steps(times)
    assert HOUR <= times[-1] <= HOUR + 5 * MINUTE * MOST_JITTER
    # Half a second, doubled up to five minutes; jitter adds up to a quarter.
    for number, wait in enumerate(waits):
        least = min(500 * 2**number, 5 * MINUTE)
        assert least <= wait <= least * MOST_JITTER
    assert attempts_in(told, "api_retry") == list(range(1, len(waits) + 1))
    shown = Counter(attempts_in(told, "api_retry", "mainspring_heartbeat"))  # one at the start and every 30 seconds
    assert shown == {attempt: -(-wait // (30 * SECOND)) for attempt, wait in enumerate(waits, 1)}


@pytest.mark.covers("G-23")
def test_overload_without_end_is_given_up_within_six_hours(tmp_path: Path) -> None:
    told, times = ask(tmp_path, lambda _: BUSY, retry="unattended")
    assert (result_of(told).is_error, result_of(told).terminal_reason) == (True, "api_error")
    assert 5.8 * HOUR < times[-1] <= 6 * HOUR
    assert max(steps(times)) <= 5 * MINUTE * MOST_JITTER


@pytest.mark.covers("G-21", "G-23")
def test_a_program_that_does_not_ask_for_it_waits_for_minutes(tmp_path: Path) -> None:
    told, times = ask(tmp_path, lambda _: BUSY)
    assert result_of(told).is_error
    assert len(times) == 10
    assert MINUTE < times[-1] < 3 * MINUTE


# --- between turns ------------------------------------------------------------------------------------------------


@sdk_tool("look", "Looks.", {"part": int})
async def look(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Part {given['part']} is fine."}]}


@pytest.mark.covers("P-02")
@pytest.mark.parametrize("seconds", [2, 30])
def test_an_iteration_takes_as_long_as_the_model(tmp_path: Path, seconds: int) -> None:
    """The next request is sent at the moment when a reply ends: nothing polls, and nothing waits."""

    def choose(received: ReceivedRequest) -> Reply:
        done = received.talk.turns()
        say = Say.of("Done.") if done == 15 else Say.of(call("mcp__s__look", str(done), part=done))
        events = len(list(stream_events(say, ReplyStamp("", "", str))))
        return Say(say.blocks, pace_ms=seconds * SECOND // events)

    server = create_sdk_mcp_server("s", tools=[look])
    told, times = ask(tmp_path, choose, mcp_servers={"s": server}, allowed_tools=["mcp__s"])
    assert (texts(told), result_of(told).num_turns) == (["Done."], 16)
    assert len(outcomes(told)) == 15
    assert times == [number * seconds * SECOND for number in range(16)]
