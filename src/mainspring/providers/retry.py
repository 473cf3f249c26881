"""Retries below the loop: only until the first item of a reply was passed on (settled 9). A retry is not a turn.

`next_delay` is pure; `stream_with_retries` sleeps, reports the wait, and sends signs of life during a long one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum

from msgspec.structs import replace

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import PASSING, Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.base import Batch, Retry

SECOND = 1_000  # delays are in milliseconds
MINUTE = 60 * SECOND
HEARTBEAT = 30 * SECOND  # G-24


class RetryLimits(Bundle):
    """How long a caller is willing to wait."""

    tries: int  # in all, including the first one (G-18, Z-09)
    base: int  # before the second attempt, then doubled,
    cap: int  # up to this
    longest_asked: int  # the maximum retry-after; for more, we give up at once
    overload_tries: int = 10  # of an overloaded model, in a row; the request may ask for fewer (settled 9)
    near_tries: int = 4  # of a local server that refuses connections, in a row: it starts soon, or does not run
    in_all: int | None = None  # give up after this total wait
    until_reset: bool = False  # wait until a rate limit resets, also if the server asks for no wait
    jitter: float = 0.25  # random extra share, so that clients who failed together do not retry together (Z-10)


class RetryProfile(StrEnum):
    FOREGROUND = "foreground"  # a user is waiting
    BACKGROUND = "background"  # a side job: it is optional
    UNATTENDED = "unattended"  # no user can restart it


PATIENCE: dict[RetryProfile, RetryLimits] = {
    RetryProfile.FOREGROUND: RetryLimits(tries=10, base=500, cap=32 * SECOND, longest_asked=5 * MINUTE),
    RetryProfile.BACKGROUND: RetryLimits(tries=3, base=500, cap=4 * SECOND, longest_asked=5 * SECOND, overload_tries=0),
    RetryProfile.UNATTENDED: RetryLimits(  # G-23
        tries=81,  # as many as fit into six hours: law 1 counts them
        base=500,
        cap=5 * MINUTE,
        longest_asked=6 * 60 * MINUTE,
        overload_tries=81,
        near_tries=81,
        in_all=6 * 60 * MINUTE,
        until_reset=True,
    ),
}


class AttemptCounts(Bundle):
    """The attempts so far."""

    times: int = 1
    overloads: int = 0  # in a row, including this one
    waited: int = 0
    refused: int = 0  # refused connections to a local server, in a row, including this one

    def then(self, failure: Failure, *, near: bool = False) -> AttemptCounts:
        """The counts including this failure."""
        overloads = self.overloads + 1 if failure.kind is Trouble.OVERLOADED else 0
        return replace(self, overloads=overloads, refused=self.refused + 1 if near else 0)


def most_attempts(tried: AttemptCounts, failure: Failure, patience: RetryLimits) -> int:
    """The maximum number of attempts, if it keeps failing like this. The same number is shown and applied."""
    most = patience.tries
    if failure.kind is Trouble.OVERLOADED:
        most = min(most, tried.times - tried.overloads + patience.overload_tries)
    if tried.refused:
        most = min(most, tried.times - tried.refused + patience.near_tries)
    return most


def next_delay(
    tried: AttemptCounts, failure: Failure, patience: RetryLimits, *, asked: int | None, jitter: float
) -> int | None:
    """Milliseconds until the next attempt; None to give up.

    A server's `retry-after` applies, but never below our own backoff: a small one once used up all attempts in 13
    seconds (Z-09). `jitter` is between 0 and 1, drawn by the caller.
    """
    if failure.kind not in PASSING or tried.times >= most_attempts(tried, failure, patience):
        return None
    if asked is not None and asked > patience.longest_asked:
        return None
    delay = max(backoff(tried.times, patience, jitter), asked or 0)
    if patience.in_all is not None and tried.waited + delay > patience.in_all:
        return None
    return delay


def patience_for(overload_tries: int, patience: RetryLimits) -> RetryLimits:
    """The limits for a request that allows so many attempts at an overloaded model. If there is an alternative to
    waiting, such as another model, it comes first, so hours of patience are not needed.
    """
    if overload_tries < patience.overload_tries and patience.in_all is not None:
        patience = replace(PATIENCE[RetryProfile.FOREGROUND], jitter=patience.jitter)
    if patience.overload_tries <= overload_tries:
        return patience
    return replace(patience, overload_tries=overload_tries)


def backoff(attempts: int, patience: RetryLimits, jitter: float) -> int:
    """Milliseconds to wait after so many failed attempts."""
    delay = min(patience.base << min(attempts - 1, 30), patience.cap)
    return delay + round(delay * patience.jitter * jitter)


class RequestRefusedError(ProviderError):
    """A failure with the wait that the server asked for."""

    def __init__(
        self,
        failure: Failure,
        retry_after: int | None = None,
        *,
        resets_in: int | None = None,
        final: bool = False,
        near: bool = False,
    ) -> None:
        super().__init__(failure)
        self.near = near  # a local server refused the connection
        self.retry_after = retry_after  # milliseconds
        self.resets_in = resets_in  # milliseconds until the rate limit resets
        self.final = final  # the server says that a retry is useless


class RetryPlan:
    """The attempts of one request. `before`: earlier ones that broke off, and count; `waited`: milliseconds until
    now."""

    def __init__(self, patience: RetryLimits, random: Callable[[], float], before: int = 0, waited: int = 0) -> None:
        self._patience, self._random = patience, random
        self._tried = AttemptCounts(before + 1, waited=waited)

    def waits_after(self, error: ProviderError) -> list[Retry] | None:
        """What to wait before the next attempt; None to give up."""
        refused = error if isinstance(error, RequestRefusedError) else RequestRefusedError(error.failure)
        failure, patience = error.failure, self._patience
        tried = self._tried.then(failure, near=refused.near)
        asked = refused.retry_after
        if asked is None and patience.until_reset:
            asked = refused.resets_in
        delay = next_delay(tried, failure, patience, asked=asked, jitter=self._random())
        if delay is None or refused.final:
            return None
        self._tried = replace(tried, times=tried.times + 1, waited=tried.waited + delay)
        return plan_heartbeats(failure, tried.times, delay, most_attempts(tried, failure, patience))


async def stream_with_retries(
    attempt: Callable[[], AsyncGenerator[Batch, None]],
    patience: RetryLimits,
    random: Callable[[], float],
    before: int = 0,
    waited: int = 0,
) -> AsyncGenerator[Batch, None]:
    """The items of the first attempt that succeeds. Each wait is reported before it begins. `before`: earlier attempts
    that broke off, and count; `waited`: milliseconds until now.
    """
    tries = RetryPlan(patience, random, before, waited)
    while True:
        handed_on = False
        try:
            async with aclosing(attempt()) as stream:
                async for batch in stream:
                    handed_on = True
                    yield batch
            return
        except ProviderError as error:
            waits = None if handed_on else tries.waits_after(error)
            if waits is None:
                raise
        for wait in waits:
            yield (wait,)
            await asyncio.sleep(min(wait.delay, HEARTBEAT) / SECOND)


def plan_heartbeats(failure: Failure, attempt: int, delay: int, most: int) -> list[Retry]:
    """The wait after a failed attempt, and its heartbeats, each with the rest of the wait."""
    return [Retry(failure, attempt, left, most, beat) for beat, left in enumerate(plan_countdown(delay))]


def plan_countdown(delay: int) -> list[int]:
    """The rest of a wait at its beginning and at each heartbeat."""
    return list(range(delay, 0, -HEARTBEAT))


# --- classification of failures ---------------------------------------------------------------------

BY_TYPE: dict[str, Trouble] = {
    "overloaded_error": Trouble.OVERLOADED,
    "rate_limit_error": Trouble.RATE_LIMIT,
    "authentication_error": Trouble.AUTH,
    "permission_error": Trouble.AUTH,
    "billing_error": Trouble.AUTH,
    "request_too_large": Trouble.TOO_LARGE,
    "not_found_error": Trouble.INVALID_REQUEST,
    "api_error": Trouble.SERVER,
    "timeout_error": Trouble.SERVER,
}
IN_MID_STREAM = {"invalid_request_error": 400}  # the HTTP status for an error event, where its type says too little
BY_STATUS: dict[int, Trouble] = {
    401: Trouble.AUTH,
    402: Trouble.AUTH,
    403: Trouble.AUTH,
    408: Trouble.SERVER,
    409: Trouble.SERVER,
    413: Trouble.TOO_LARGE,
    429: Trouble.RATE_LIMIT,
    529: Trouble.OVERLOADED,
}
# Texts in a 400 that say which part of the request was too large: a recovery rung can fix those.
TOO_LONG = (
    *("prompt is too long", "input length and `max_tokens` exceed", "maximum context length", "context window"),
    "input is too long for requested model",  # Bedrock
)
UNKNOWN_BLOCK = "does not match any of the expected tags"  # which it then lists, image and document among them
BAD_MEDIA = ("image", "pdf", "document", "media")


def classify_failure(status: int | None, kind: str, message: str) -> Trouble:
    """The failure for a status, the error's type and its text; an error event in mid-stream has no status."""
    said, status = message.lower(), status or IN_MID_STREAM.get(kind)
    if status in (None, 400, 413) and any(words in said for words in TOO_LONG):
        return Trouble.PROMPT_TOO_LONG
    if status == 400 and UNKNOWN_BLOCK not in said and any(words in said for words in BAD_MEDIA):
        return Trouble.MEDIA
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status is None or status >= 500:
        return Trouble.SERVER
    return Trouble.INVALID_REQUEST
