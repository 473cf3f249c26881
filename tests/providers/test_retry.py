"""Trying again: how often, how long, and for whom (G-17 to G-25, E-16, Z-09, Z-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Text
from mainspring.core.reasons import PASSING, Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.base import Batch, BlockDelta, BlockFinished, Item, Retry, StreamEnded, StreamStarted
from mainspring.providers.retry import (
    PATIENCE,
    AttemptCounts,
    RequestRefusedError,
    RetryLimits,
    RetryProfile,
    classify_failure,
    next_delay,
    plan_countdown,
    stream_with_retries,
)
from mainspring.testing import virtually

FOREGROUND = PATIENCE[RetryProfile.FOREGROUND]
OVERLOADED = Failure(Trouble.OVERLOADED)


def delays(failure: Failure, patience: RetryLimits = FOREGROUND, jitter: float = 0) -> list[int]:
    """All the waits until it gives up."""
    waits: list[int] = []
    tried = AttemptCounts(overloads=1)
    while True:
        delay = next_delay(tried, failure, patience, asked=None, jitter=jitter)
        if delay is None:
            return waits
        waits.append(delay)
        tried = AttemptCounts(tried.times + 1, tried.overloads + 1, tried.waited + delay)


@pytest.mark.covers("G-17", "G-18", "E-16")
@pytest.mark.parametrize("kind", sorted(PASSING))
def test_ten_tries_half_a_second_doubling(kind: Trouble) -> None:
    assert delays(Failure(kind)) == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000]
    assert delays(Failure(kind), jitter=1)[:3] == [625, 1_250, 2_500]


@pytest.mark.covers("G-17")
@pytest.mark.parametrize("kind", sorted(set(Trouble) - PASSING))
def test_what_does_not_pass_is_not_tried_again(kind: Trouble) -> None:
    assert delays(Failure(kind)) == []


@pytest.mark.covers("G-20", "G-21")
def test_with_a_fallback_the_third_overload_in_a_row_is_the_last() -> None:
    assert delays(OVERLOADED, replace(FOREGROUND, overload_tries=3)) == [500, 1_000]
    assert (
        len(delays(Failure(Trouble.SERVER), replace(FOREGROUND, overload_tries=3))) == 9
    )  # that limit is for overload alone


@pytest.mark.covers("G-22")
def test_a_side_job_does_not_wait_for_an_overloaded_model() -> None:
    background = PATIENCE[RetryProfile.BACKGROUND]
    assert delays(OVERLOADED, background) == []
    assert delays(Failure(Trouble.NETWORK), background) == [500, 1_000]


@pytest.mark.covers("G-23")
def test_unattended_it_goes_on_for_six_hours() -> None:
    waits = delays(OVERLOADED, PATIENCE[RetryProfile.UNATTENDED])
    assert max(waits) == 300_000
    assert 5.9 * 3_600_000 < sum(waits) <= 6 * 3_600_000


@pytest.mark.covers("G-19")
@pytest.mark.parametrize(
    ("asked", "delay"),
    [(None, 2_000), (100, 2_000), (2_001, 2_001), (60_000, 60_000), (300_000, 300_000), (300_001, None)],
)
def test_what_the_server_asks_for_counts_within_reason(asked: int | None, delay: int | None) -> None:
    """Never less than our own backoff, never more than a person would wait for."""
    limited = Failure(Trouble.RATE_LIMIT)
    assert next_delay(AttemptCounts(3), limited, FOREGROUND, asked=asked, jitter=0) == delay


@given(st.integers(1, 9), st.floats(0, 1), st.none() | st.integers(0, 300_000))
def test_a_delay_is_never_shorter_than_the_backoff_nor_endless(times: int, jitter: float, asked: int | None) -> None:
    delay = next_delay(AttemptCounts(times), OVERLOADED, FOREGROUND, asked=asked, jitter=jitter)
    assert delay is not None
    assert min(500 * 2 ** (times - 1), 32_000) <= delay <= max(40_000, asked or 0)


@pytest.mark.covers("G-24")
def test_a_long_wait_gives_signs_of_life() -> None:
    assert plan_countdown(500) == [500]
    assert plan_countdown(30_000) == [30_000]
    assert plan_countdown(75_000) == [75_000, 45_000, 15_000]
    assert plan_countdown(0) == []


# --- around a stream --------------------------------------------------------------------------------

DONE: tuple[Batch, ...] = ((StreamStarted(),), (BlockFinished(Text("hi")),), (StreamEnded(),))


class Server:
    """Fails as scripted, then answers."""

    def __init__(self, *failures: ProviderError | None, late: ProviderError | None = None) -> None:
        self.failures = list(failures)
        self.late = late
        self.attempts = 0

    async def attempt(self) -> AsyncGenerator[Batch, None]:
        self.attempts += 1
        await asyncio.sleep(0.001)
        if self.failures and (failure := self.failures.pop(0)):
            raise failure
        yield DONE[0]
        if self.late:
            raise self.late
        for batch in DONE[1:]:
            yield batch


async def collect(server: Server, overload_tries: int = 10) -> list[Item]:
    patience = replace(FOREGROUND, overload_tries=overload_tries)
    stream = stream_with_retries(server.attempt, patience, lambda: 0.0)
    return [item async for batch in stream for item in batch]


def test_a_failure_before_the_first_item_is_tried_again_and_told() -> None:
    server = Server(ProviderError(OVERLOADED), RequestRefusedError(Failure(Trouble.RATE_LIMIT), 70_000))
    items = virtually(collect(server))
    waits = [item.delay for item in items if isinstance(item, Retry)]
    assert waits == [500, 70_000, 40_000, 10_000]
    assert items[-3:] == [batch[0] for batch in DONE]
    assert server.attempts == 3


def test_a_failure_after_the_first_item_is_the_loops_business() -> None:
    server = Server(late=ProviderError(OVERLOADED))
    with pytest.raises(ProviderError):
        virtually(collect(server))
    assert server.attempts == 1


def test_overloads_count_in_a_row() -> None:
    overload, cut = ProviderError(OVERLOADED), ProviderError(Failure(Trouble.NETWORK))
    server = Server(overload, overload, cut, overload, overload, cut)
    assert len(virtually(collect(server, overload_tries=3))) == 6 + 3
    stubborn = Server(*[overload] * 3)
    with pytest.raises(ProviderError):
        virtually(collect(stubborn, overload_tries=3))
    assert stubborn.attempts == 3


def test_a_wait_ends_with_its_cancellation() -> None:
    async def main() -> None:
        task = asyncio.get_running_loop().create_task(collect(Server(ProviderError(OVERLOADED))))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert asyncio.get_running_loop().time() < 0.15

    virtually(main())


# --- what went wrong --------------------------------------------------------------------------------


@pytest.mark.covers("G-17", "E-05")
@pytest.mark.parametrize(
    ("status", "kind", "message", "trouble"),
    [
        (529, "overloaded_error", "Overloaded", Trouble.OVERLOADED),
        (None, "overloaded_error", "Overloaded", Trouble.OVERLOADED),  # an error event in mid-stream
        (529, "", "", Trouble.OVERLOADED),
        (429, "rate_limit_error", "slow down", Trouble.RATE_LIMIT),
        (429, "", "", Trouble.RATE_LIMIT),
        (500, "api_error", "oops", Trouble.SERVER),
        (502, "", "<html>bad gateway</html>", Trouble.SERVER),
        (504, "timeout_error", "", Trouble.SERVER),
        (408, "", "", Trouble.SERVER),
        (None, "", "", Trouble.SERVER),
        (401, "authentication_error", "invalid x-api-key", Trouble.AUTH),
        (403, "", "", Trouble.AUTH),
        (402, "billing_error", "no credit", Trouble.AUTH),
        (404, "not_found_error", "model: nope", Trouble.INVALID_REQUEST),
        (404, "", "", Trouble.INVALID_REQUEST),
        (None, "api_error", "Internal server error", Trouble.SERVER),
        (None, "rate_limit_error", "slow down", Trouble.RATE_LIMIT),
        (None, "timeout_error", "", Trouble.SERVER),
        (None, "something_new", "", Trouble.SERVER),
        (None, "invalid_request_error", "messages: nonsense", Trouble.INVALID_REQUEST),  # asking again is no use
        (None, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum", Trouble.PROMPT_TOO_LONG),
        (None, "invalid_request_error", "image exceeds 5 MB", Trouble.MEDIA),
        (None, "authentication_error", "", Trouble.AUTH),
        (None, "permission_error", "", Trouble.AUTH),
        (None, "billing_error", "", Trouble.AUTH),
        (None, "not_found_error", "", Trouble.INVALID_REQUEST),
        (None, "request_too_large", "", Trouble.TOO_LARGE),
        (400, "invalid_request_error", "messages: roles must alternate", Trouble.INVALID_REQUEST),
        (400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", Trouble.PROMPT_TOO_LONG),
        (400, "", "This model's maximum context length is 8192 tokens", Trouble.PROMPT_TOO_LONG),
        (413, "request_too_large", "Request exceeds the maximum size", Trouble.TOO_LARGE),
        (413, "", "", Trouble.TOO_LARGE),
        (400, "invalid_request_error", "messages.0.content.1.image: image exceeds 5 MB", Trouble.MEDIA),
        (400, "invalid_request_error", "The PDF has too many pages", Trouble.MEDIA),
    ],
)
def test_every_failure_is_sorted_once(status: int | None, kind: str, message: str, trouble: Trouble) -> None:
    assert classify_failure(status, kind, message) is trouble


def test_pieces_count_as_handed_on() -> None:
    async def attempt() -> AsyncGenerator[Batch, None]:
        yield (BlockDelta(BlockKind.TEXT, "h"),)
        raise ProviderError(OVERLOADED)

    async def main() -> list[Item]:
        stream = stream_with_retries(attempt, FOREGROUND, lambda: 0.5)
        return [item async for batch in stream for item in batch]

    with pytest.raises(ProviderError):
        virtually(main())
