"""What Anthropic's API says when it refuses a request: which trouble it is, when to come back, when a limit lifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.errors import (
    GIVEN,
    LONGEST_WORDS,
    SECOND,
    CurableError,
    UserRemedies,
    parse_number,
    retry_after,
)
from mainspring.providers.retry import UNKNOWN_BLOCK, RequestRefusedError, classify_failure

if TYPE_CHECKING:
    from mainspring.providers.errors import ErrorResponse

THINKING = "thinking"  # the cure: the same request without the thinking blocks may pass
BLOCKS = "blocks"  # the cure: without blocks of a kind that we do not know, though a server sent them


class _ErrorBody(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Body(msgspec.Struct):
    error: _ErrorBody = _ErrorBody()


async def read_refusal(
    response: ErrorResponse, now: float, ways_out: UserRemedies = GIVEN, *, keyed: bool = True
) -> RequestRefusedError:
    """`now` is in seconds since 1970, to turn "in so many seconds" into a time."""
    status, headers = response.status, response.headers
    kind, words = read_error_body(await response.read())
    trouble = classify_failure(status, kind, words)
    wait = retry_after(headers, now)
    resets_at = limit_lifts(headers, now, wait) if trouble is Trouble.RATE_LIMIT else None
    detail = f"{status}: {words}"[:LONGEST_WORDS] + ways_out.behind(trouble, status, keyed=keyed)
    failure = Failure(trouble, detail, status, resets_at)
    if status == 400 and trouble is Trouble.INVALID_REQUEST and is_about_thinking(words):
        return CurableError(failure, THINKING)
    if status == 400 and UNKNOWN_BLOCK in words:
        return CurableError(failure, BLOCKS)
    return RequestRefusedError(failure, wait, final=headers.get("x-should-retry") == "false")


def read_error_body(body: bytes) -> tuple[str, str]:
    try:
        error = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", body[:LONGEST_WORDS].decode(errors="replace").strip() or "the server gave no reason"
    return error.type, error.message or error.type or "the server gave no reason"


def is_about_thinking(words: str) -> bool:
    said = words.lower()
    return "thinking" in said and any(hint in said for hint in ("signature", "expected", "cannot be modified"))


def limit_lifts(headers: Mapping[str, str], now: float, wait: int | None) -> int | None:
    """Milliseconds since 1970."""
    unified = parse_number(headers.get("anthropic-ratelimit-unified-reset"))
    if unified is not None:
        return round(unified * SECOND)
    exhausted = [
        reset
        for name, left in headers.items()
        if name.startswith("anthropic-ratelimit-") and name.endswith("-remaining") and left == "0"
        if (reset := headers.get(name.removesuffix("remaining") + "reset"))
    ]
    if times := [at for at in map(parse_rfc3339, exhausted) if at is not None]:
        return max(times)
    return round(now * SECOND) + wait if wait is not None else None


def parse_rfc3339(text: str) -> int | None:
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(text).timestamp() * SECOND)
    except ValueError:
        return None
