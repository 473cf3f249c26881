"""Rates, turns and pauses of the scheduler, on a virtual clock; and a server that limits requests, on a real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from mainspring import Agent, Fleet, FleetLimits, UsageError
from mainspring.core.money import Usage
from mainspring.fleet.scheduler import ModelScheduler, RatePacer, check_limits, parse_reset, seconds_until_reset
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.testing import virtually
from mainspring.testing.plugin import LiveServer

MODEL = "claude-haiku-4-5"


def scheduler_of(limits: FleetLimits, *, share: float = 1.0) -> ModelScheduler:
    return ModelScheduler(limits, share=share, clock=asyncio.get_running_loop().time)


async def call_for(scheduler: ModelScheduler, seconds: float, sessions: int, latency: float = 0.5) -> list[float]:
    """The times at which sessions that call again and again were admitted."""
    loop = asyncio.get_running_loop()
    end, admitted = loop.time() + seconds, list[float]()

    async def session(name: str) -> None:
        while loop.time() < end:
            await scheduler.enter(name, MODEL, 0)
            if loop.time() < end:
                admitted.append(loop.time())
            await asyncio.sleep(latency)

    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(session(str(number)))
    return admitted


def test_requests_are_spread_evenly_over_each_minute() -> None:
    async def main() -> list[float]:
        return await call_for(scheduler_of(FleetLimits(requests_per_minute=6_000)), 60, 200)

    admitted = virtually(main())
    assert 0.98 * 6_000 <= len(admitted) <= 6_000
    for second in range(59):  # in any second no more than its share, but for what a late event loop may catch up
        assert sum(second <= at < second + 1 for at in admitted) <= 101


def test_a_share_of_the_limit() -> None:
    async def main() -> list[float]:
        return await call_for(scheduler_of(FleetLimits(requests_per_minute={MODEL: 6_000}), share=0.25), 10, 200)

    assert 240 <= len(virtually(main())) <= 251


def test_another_model_has_its_own_limit() -> None:
    async def main() -> list[float]:
        return await call_for(scheduler_of(FleetLimits(requests_per_minute={"other": 60})), 5, 10)

    assert len(virtually(main())) == 100


def test_sessions_take_turns_however_many_calls_one_has() -> None:
    async def main() -> list[str]:
        scheduler, order = scheduler_of(FleetLimits(requests_per_minute=60)), list[str]()

        async def one_call(session: str) -> None:
            await scheduler.enter(session, MODEL, 0)
            order.append(session)

        async with asyncio.TaskGroup() as group:
            for session in ("a", "a", "a", "a", "b", "c"):
                group.create_task(one_call(session))
        return order

    assert virtually(main()) == ["a", "a", "b", "c", "a", "a"]  # the first one found nobody before it


def test_tokens_are_corrected_by_what_a_reply_used() -> None:
    async def main() -> tuple[float, float]:
        scheduler, loop = scheduler_of(FleetLimits(tokens_per_minute=60_000)), asyncio.get_running_loop()
        limits = scheduler.for_session("a", lambda: None)
        await limits.enter_attempt(MODEL, 400)  # about 100 tokens
        limits.note_usage(MODEL, Usage(input=1_000, cache_read=50_000, output=1_000))
        await limits.enter_attempt(MODEL, 400)
        after_reply = loop.time()
        limits.note_response(MODEL, 500, {})  # it used nothing
        await limits.enter_attempt(MODEL, 400)
        return after_reply, loop.time() - after_reply

    after_reply, after_failure = virtually(main())
    assert after_reply == pytest.approx(2.0, rel=0.02)  # 2,000 tokens at 1,000 in a second
    assert after_failure == pytest.approx(0, abs=0.01)


def test_a_refusal_makes_all_sessions_wait_and_lowers_the_rate() -> None:
    paused: list[tuple[str, float]] = []

    def note_pause(model: str, seconds: float) -> None:
        paused.append((model, seconds))

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        scheduler = ModelScheduler(FleetLimits(), clock=loop.time, on_pause=note_pause)
        before = await call_for(scheduler, 5, 10)
        assert len(before) == 100  # without a limit
        began = loop.time()
        for _ in range(10):  # of calls that were on their way together
            scheduler.note_response(MODEL, 429, {"retry-after": "3"})
        after = await call_for(scheduler, 13, 10)
        assert min(after) - began == pytest.approx(3.0, abs=0.1)
        return after

    after = virtually(main())
    assert 100 < len(after) < 200  # 200 without the refusal
    assert paused[0] == (MODEL, 3.0)


def test_a_few_refusals_below_a_known_limit_delay_no_other_call() -> None:
    async def main() -> tuple[list[float], list[float]]:
        scheduler = scheduler_of(FleetLimits(requests_per_minute=6_000))
        await call_for(scheduler, 10, 200)
        scheduler.note_response(MODEL, 429, {"retry-after": "1"})
        after = await call_for(scheduler, 10, 200)
        for _ in range(50):
            scheduler.note_response(MODEL, 429, {"retry-after": "1"})
        return after, await call_for(scheduler, 10, 200)

    after, refused = virtually(main())
    assert len(after) >= 980
    assert len(refused) < 900


def test_headers_that_say_that_nothing_is_left() -> None:
    now = time.time()
    stamp = datetime.fromtimestamp(now + 20, UTC).isoformat().replace("+00:00", "Z")
    used_up = {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": stamp}
    assert seconds_until_reset(used_up) == pytest.approx(20, abs=2)
    assert seconds_until_reset({**used_up, "anthropic-ratelimit-requests-remaining": "7"}) == 0
    assert seconds_until_reset({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}) == 60
    assert [parse_reset(text, now) for text in ("6m0s", "120ms", "1s", "2h", "soon")] == [360, 0.12, 1, 7_200, 0]


def test_a_pacer_whose_loop_was_late_catches_up_a_little() -> None:
    pacer = RatePacer(10, 0)
    pacer.take(0, 1)
    assert pacer.wait(0) == pytest.approx(0.1)
    assert pacer.wait(100) == 0
    taken = 0
    while pacer.wait(100) == 0:
        pacer.take(100, 1)
        taken += 1
    assert taken == 6  # and not 1,000


@pytest.mark.parametrize("wrong", [FleetLimits(requests_per_minute=0), FleetLimits(tokens_per_minute={"a": -1})])
def test_wrong_limits(wrong: FleetLimits) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        check_limits(wrong)


# --- a real server --------------------------------------------------------------------------------------


class LimitedServer:
    """Refuses requests beyond a rate, as a bucket that holds half a second of it."""

    def __init__(self, per_minute: int) -> None:
        self._rate = per_minute / 60
        self._level, self._at = self._rate / 2, time.monotonic()
        self.answered: list[float] = []
        self.refused = 0

    def __call__(self, received: ReceivedRequest) -> Reply:
        now = time.monotonic()
        self._level, self._at = min(self._rate / 2, self._level + (now - self._at) * self._rate), now
        if self._level < 1:
            self.refused += 1
            return Refuse(429, "rate_limit_error", "too many requests", {"retry-after": "1"})
        self._level -= 1
        self.answered.append(now)
        return Say.of("Done.", usage=Usage(input=10, output=10))


async def prompts_for(seconds: float) -> AsyncGenerator[str, None]:
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        yield f"task {number}"


def run_against(server: LiveServer, limited: LimitedServer, limit: int | None, seconds: float, sessions: int) -> None:
    server.rule(limited)
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}

    async def main() -> None:
        agent = Agent(MODEL, env=env, persist=False)
        fleet = Fleet(agent, max_concurrent=sessions, limits=FleetLimits(requests_per_minute=limit))
        async for result in fleet.run(prompts_for(seconds)):
            assert not result.is_error

    asyncio.run(main())


@pytest.mark.long
def test_a_server_s_limit_is_kept(model_server: LiveServer) -> None:
    limited = LimitedServer(600)
    run_against(model_server, limited, 600, 2, 20)
    assert limited.refused == 0
    assert len(limited.answered) > 5


@pytest.mark.long
def test_an_unknown_limit_is_found_by_its_refusals(model_server: LiveServer) -> None:
    limited = LimitedServer(600)
    run_against(model_server, limited, None, 2, 20)
    assert limited.refused > 0
    assert len(limited.answered) > 5
