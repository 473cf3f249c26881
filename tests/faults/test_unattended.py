"""Unattended runs: half an hour of overload, limits that reset in hours, an interrupt at any moment (G-23, G-24).

The real loop and real sockets, on a clock that jumps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from faults.stage import ALONE, WITH_FALLBACK, Hands, look
from mainspring.agent.model import new_config, patience_of, retry_limits
from mainspring.agent.options import SessionOptions
from mainspring.cli.flags import parse_arguments
from mainspring.context.tokens import SideCall
from mainspring.core.config import Config
from mainspring.core.ladder import longest_wait, most_model_calls
from mainspring.core.messages import user
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import Failed, Result, Retrying, Update
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import Ledger
from mainspring.engine.side_calls import SideCalls
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import REMOTE, Transport
from mainspring.providers.retry import HEARTBEAT, PATIENCE, RetryProfile, backoff, plan_countdown
from mainspring.sdk.option_mapping import session_options
from mainspring.sdk.options import Options
from mainspring.settings.values import ApiSettings, Settings
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply
from mainspring.simulator.server import ModelServer
from mainspring.testing.clock import VirtualLoop, virtually
from mainspring.tools.custom import tool

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
PATIENT = replace(PATIENCE[RetryProfile.UNATTENDED], jitter=0.0)
LIMITS: Any = retry_limits(SessionOptions(retry="unattended"), Settings())
UNATTENDED = replace(ALONE, **LIMITS)
NOW = 1_800_000_000  # seconds since 1970, when the virtual clock starts

# Half a second, doubled up to five minutes: the sixteenth attempt is the first one after half an hour.
WAITS = [*[500 * 2**n for n in range(10)], *[5 * MINUTE] * 5]
TIMES = [0, *accumulate(WAITS)]  # of the sixteen attempts
BEATS = [0] * 6 + [1, 2, 4, 8] + [9] * 5  # heartbeats of each wait, one every 30 seconds
TURNS = 3
BUSY = Refuse(529, "overloaded_error", "Overloaded")


class Unattended(NamedTuple):
    updates: list[Update]
    times: list[int]  # of the requests, in milliseconds
    models: list[str]
    ended: int  # milliseconds

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last

    @property
    def waits(self) -> list[Retrying]:
        return [update for update in self.updates if isinstance(update, Retrying)]

    @property
    def waited(self) -> int:
        return sum([wait.delay for wait in self.waits if not wait.beat])


def play(
    choose: Callable[[ReceivedRequest], Reply] = look,
    *planned: PlannedFault,
    config: Config = UNATTENDED,
    loop: VirtualLoop | None = None,
    begin: Callable[[Run], object] = lambda _: None,
) -> Unattended:
    """`begin` is called with the run before it starts."""
    loop = loop or VirtualLoop()

    async def main() -> Unattended:
        async with ModelServer(choose=choose, faults=FaultPlan(*planned), clock=loop.milliseconds) as server:
            async with Transport(deadlines=REMOTE) as transport:
                provider = Anthropic(
                    "key",
                    base_url=server.url,
                    transport=transport,
                    patience=PATIENT,
                    now=lambda: NOW + loop.time(),
                )
                session = EngineSession(Hands(provider, [make_tool(Counter())], system=("You look.",)), config)
                updates: list[Update] = []
                async with session.run("go", deltas=False) as run:
                    begin(run)
                    async for update in run:
                        updates.append(update)
                ended = loop.milliseconds()
            requests = server.requests
            return Unattended(
                updates, [request.at for request in requests], [request.talk.model for request in requests], ended
            )

    return virtually(main(), loop)


def make_tool(ran: Counter[int]) -> Any:
    @tool(name="Look", about="Looks at a part.", concurrent=True)
    async def act(part: int) -> str:
        ran[part] += 1
        return f"Part {part} is fine."

    return act


def busy_until(end: int) -> Callable[[ReceivedRequest], Reply]:
    return lambda received: BUSY if received.at < end else look(received)


def expected_waits(kind: str, most: int) -> list[tuple[str, int, int, int, int]]:
    return [
        (kind, attempt, most, left, beat)
        for attempt, wait in enumerate(WAITS, 1)
        for beat, left in enumerate(range(wait, 0, -HEARTBEAT))
    ]


def shown(waits: list[Retrying]) -> list[tuple[str, int, int, int, int]]:
    return [(wait.failure.kind, wait.attempt, wait.most, wait.delay, wait.beat) for wait in waits]


# --- half an hour -----------------------------------------------------------------------------------------


@pytest.mark.covers("G-23", "G-24")
def test_half_an_hour_of_overload_then_success() -> None:
    run = play(busy_until(30 * MINUTE))
    assert run.times[:16] == TIMES
    assert len(run.times) == 15 + TURNS
    assert shown(run.waits) == expected_waits("overloaded", 81)
    assert Counter(wait.attempt for wait in run.waits if wait.beat) == Counter(
        {attempt: beats for attempt, beats in enumerate(BEATS, 1) if beats}
    )
    assert sum(BEATS) == 60
    assert (run.result.terminal, run.result.cause) == ("completed", "end_turn")
    assert not any(isinstance(update, Failed) for update in run.updates)


@pytest.mark.covers("G-23", "G-24")
@pytest.mark.parametrize(
    ("fault", "argument", "kind"),
    [("error_event", "overloaded_error", "overloaded"), ("cut_in_text", "", "network")],
)
def test_the_same_after_the_first_item_of_a_reply(fault: str, argument: str, kind: str) -> None:
    """Then the core decides, with the same count and the same back-off (settled 9)."""
    run = play(look, PlannedFault(fault, 15, argument=argument))
    assert run.times[:16] == TIMES
    assert len(run.times) == 15 + TURNS
    assert shown(run.waits) == expected_waits(kind, 81)
    assert run.result.cause == "end_turn"


def test_a_summary_waits_as_long_and_shows_it() -> None:
    """The run cannot go on without it. A side job gives up at once."""
    loop = VirtualLoop()
    shown_waits: list[Retrying] = []

    async def main() -> tuple[list[int], list[str]]:
        async with (
            ModelServer(choose=busy_until(30 * MINUTE), clock=loop.milliseconds) as server,
            Transport(deadlines=REMOTE) as transport,
        ):
            provider = Anthropic("key", base_url=server.url, transport=transport, patience=PATIENT)
            ledger = Ledger()
            calls = SideCalls(
                provider, UNATTENDED, small=UNATTENDED.model, ledger=lambda: ledger, show=shown_waits.append
            )
            asked = [await calls(SideCall((user("go"),), 2_000, small=small)) for small in (True, False)]
            return [request.at for request in server.requests], [answer.failed for answer in asked]

    times, failed = virtually(main(), loop)
    assert times == [0, *TIMES]
    assert [bool(words) for words in failed] == [True, False]
    assert shown(shown_waits) == expected_waits("overloaded", 81)


# --- the end ----------------------------------------------------------------------------------------------


def test_the_number_of_attempts_is_what_fits_into_six_hours() -> None:
    waits: list[int] = []
    while sum(waits) + backoff(len(waits) + 1, PATIENT, 0) <= 6 * HOUR:
        waits.append(backoff(len(waits) + 1, PATIENT, 0))
    assert PATIENT.tries == len(waits) + 1
    assert {"max_retries": len(waits), "retries_before_fallback": 9, "max_wait": 6 * HOUR} == LIMITS


@pytest.mark.parametrize("planned", [(), (PlannedFault("error_event", None, argument="overloaded_error"),)])
def test_overload_without_end_is_given_up_within_six_hours(planned: tuple[PlannedFault, ...]) -> None:
    """Law 1: the bound of model calls counts these retries, and the time has one, too."""
    run = play(look if planned else lambda _: BUSY, *planned)
    assert len(run.times) == 81
    assert (run.result.terminal, run.result.cause) == ("model_error", "overloaded")
    assert 5.9 * HOUR < run.waited <= 6 * HOUR
    assert run.result.model_calls <= most_model_calls(UNATTENDED)
    longest = longest_wait(UNATTENDED)
    assert longest is not None
    assert run.waited <= longest
    assert most_model_calls(UNATTENDED) - most_model_calls(ALONE) >= ALONE.max_turns * (80 - 9)


def test_waits_before_and_after_the_first_item_share_six_hours() -> None:
    """A limit that resets in four hours, a reply that breaks off, and again such a limit: the run ends there."""
    asked: list[int] = []

    def limited(received: ReceivedRequest) -> Reply:
        asked.append(received.at)
        return look(received) if len(asked) == 2 else reset_in(4 * HOUR, received)

    run = play(limited, PlannedFault("cut_in_text", None))
    assert run.times == [0, 4 * HOUR, 4 * HOUR + SECOND]  # the second failure in a row: one second
    assert run.waited == run.ended == 4 * HOUR + SECOND
    assert (run.result.terminal, run.result.cause) == ("model_error", "rate_limit")


def test_a_reply_that_breaks_off_after_six_hours_is_the_last() -> None:
    run = play(
        lambda received: look(received) if received.at else reset_in(6 * HOUR, received),
        PlannedFault("cut_in_text", None),
    )
    assert run.times == [0, 6 * HOUR]
    assert (run.result.terminal, run.result.cause) == ("model_error", "network")


# --- rate limits ------------------------------------------------------------------------------------------


def reset_in(milliseconds: int, received: ReceivedRequest, **headers: str) -> Refuse:
    reset = {"anthropic-ratelimit-unified-reset": str(NOW + (received.at + milliseconds) / SECOND)}
    return Refuse(429, "rate_limit_error", "5-hour limit", headers or reset)


@pytest.mark.covers("G-19", "G-24")
@pytest.mark.parametrize("seconds", [1, 59, 2_833, 5 * 3_600, 6 * 3_600])
def test_a_rate_limit_is_waited_for_to_the_second(seconds: int) -> None:
    run = play(lambda received: look(received) if received.at else reset_in(seconds * SECOND, received))
    assert run.times == [0, *[seconds * SECOND] * TURNS]
    assert [wait.delay for wait in run.waits] == plan_countdown(seconds * SECOND)
    assert {wait.failure.resets_at for wait in run.waits} == {(NOW + seconds) * SECOND}
    assert run.result.cause == "end_turn"


def test_a_servers_own_wait_comes_before_the_reset() -> None:
    """The reset is when a limit is whole again; the server may know that part of it is enough."""

    def limited(received: ReceivedRequest) -> Reply:
        if received.at:
            return look(received)
        reset = {"anthropic-ratelimit-unified-reset": str(NOW + 3_600), "retry-after": "20"}
        return Refuse(429, "rate_limit_error", "slow down", reset)

    assert play(limited).times[:2] == [0, 20_000]


def test_a_limit_that_resets_too_late_ends_the_run_at_once() -> None:
    run = play(lambda received: reset_in(6 * HOUR + SECOND, received))
    assert (len(run.times), run.waits) == (1, [])
    failed = [update.failure for update in run.updates if isinstance(update, Failed)]
    assert failed == [Failure(Trouble.RATE_LIMIT, "429: 5-hour limit", 429, (NOW + 6 * 3_600 + 1) * SECOND)]


def test_another_model_comes_before_hours_of_waiting() -> None:
    first, second = WITH_FALLBACK.model.name, WITH_FALLBACK.fallbacks[0].name

    def limited(received: ReceivedRequest) -> Reply:
        return (
            reset_in(3 * HOUR, received, **{"retry-after": "10800"}) if received.talk.model == first else look(received)
        )

    run = play(limited, config=replace(WITH_FALLBACK, **LIMITS))
    assert run.models == [first, *[second] * TURNS]
    assert run.ended < SECOND
    cut = play(look, PlannedFault("cut_in_text", None, model=first), config=replace(WITH_FALLBACK, **LIMITS))
    assert cut.models == [first] * 10 + [second] * TURNS


# --- an interrupt -----------------------------------------------------------------------------------------

MOMENTS = st.integers(1, TIMES[-1] - 1)


@pytest.mark.covers("J-01")
@pytest.mark.parametrize("planned", [(), (PlannedFault("error_event", 15, argument="overloaded_error"),)])
@settings(max_examples=12)
@given(moment=MOMENTS)
def test_an_interrupt_ends_the_wait_at_once(planned: tuple[PlannedFault, ...], moment: int) -> None:
    loop = VirtualLoop()
    run = play(
        look if planned else busy_until(30 * MINUTE),
        *planned,
        loop=loop,
        begin=lambda run: loop.call_at(moment / SECOND, run.interrupt),
    )
    assert run.ended == moment
    assert run.times == [at for at in TIMES if at <= moment]
    assert (run.result.terminal, run.result.cause) == ("aborted_streaming", "hard")


@settings(max_examples=25)
@given(number=st.integers(1, 400))
def test_an_interrupt_at_any_await(number: int) -> None:
    """Also between the end of a wait and the next attempt, and within one."""
    runs: list[Run] = []
    moments: list[int] = []

    def interrupt() -> None:
        if runs:
            runs[0].interrupt()
            moments.append(loop.milliseconds())

    loop = VirtualLoop({number: interrupt})
    run = play(busy_until(30 * MINUTE), loop=loop, begin=runs.append)
    if run.result.cause == "hard":
        assert [run.ended] == moments
        later = TIMES[-1:] * (TURNS - 1)  # the model that is no longer busy answers at once
        assert run.times == [*TIMES, *later][: len(run.times)]
        assert run.times[-1:] <= moments
    else:
        assert run.result.cause == "end_turn"  # it came before the run began, or after its end


# --- who chooses it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "setting", "unattended"),
    [
        (SessionOptions(), None, False),
        (SessionOptions(), "unattended", True),
        (SessionOptions(retry="unattended"), None, True),
        (SessionOptions(retry="default"), "unattended", False),
        (parse_arguments(["-p", "hi", "--retry", "unattended"]).session, None, True),
        (session_options(Options(retry="unattended")), None, True),
    ],
)
def test_option_flag_and_setting_choose_it(options: SessionOptions, setting: str | None, unattended: bool) -> None:
    given = Settings(api=ApiSettings(retry=setting))
    profile = RetryProfile.UNATTENDED if unattended else RetryProfile.FOREGROUND
    config = new_config(options, given)
    assert patience_of(options, given) == PATIENCE[profile]
    assert (config.max_retries, config.max_wait) == ((80, 6 * HOUR) if unattended else (9, None))


def test_a_number_of_retries_in_the_settings_still_counts() -> None:
    given = Settings(api=ApiSettings(retry="unattended", max_retries=20))
    config = new_config(SessionOptions(), given)
    assert (config.max_retries, config.max_wait) == (20, 6 * HOUR)
    assert patience_of(SessionOptions(), given).tries == 21
