"""Errors of Anthropic's API: the kind of failure, when to retry, when a limit resets; and repairs for servers that
imitate it.

Such servers send forms that Anthropic does not document: nulls, other error objects, a reply without a stream. The
repairs run only after the normal decoder has failed (`stream.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from mainspring import providers
from mainspring.core.errors import ProviderError
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
from mainspring.providers.text_tool_calls import UNREADABLE, as_list, convert_loosely, decode_loosely

if TYPE_CHECKING:
    from mainspring.providers.errors import ErrorResponse


THINKING = "thinking"  # cure: the same request without thinking blocks may pass
BLOCKS = "blocks"  # cure: without blocks of unknown types that another server sent


class _ErrorBody(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Body(msgspec.Struct):
    error: _ErrorBody = _ErrorBody()


async def read_refusal(
    response: ErrorResponse, now: float, ways_out: UserRemedies = GIVEN, *, keyed: bool = True
) -> RequestRefusedError:
    """`now` is in seconds since 1970, to turn a relative delay into a time."""
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
    resets_in = max(0, resets_at - round(now * SECOND)) if resets_at is not None else None
    return RequestRefusedError(failure, wait, resets_in=resets_in, final=headers.get("x-should-retry") == "false")


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
    try:
        return round(datetime.fromisoformat(text).timestamp() * SECOND)
    except ValueError:
        return None


T = TypeVar("T")

NO_ANSWER = Failure(Trouble.SERVER, "the server sent an invalid answer")


def odd_event(data: bytes, form: type[T]) -> T | None:
    """None if it cannot be repaired; raises if it is an error in another form."""
    try:
        event = decode_loosely(data)
        complain_of(event)
        if isinstance(event, dict) and isinstance(delta := cast("dict[str, Any]", event).get("delta"), dict):
            put_in_text(cast("dict[str, Any]", delta))
        return convert_loosely(event, form)
    except UNREADABLE:
        return None


def complain_of(event: Any) -> None:
    """llama.cpp's errors in mid-stream have their text where a message would be; other servers send only text."""
    if not isinstance(event, dict):
        return
    fields = cast("dict[str, Any]", event)
    if fields.get("error") or isinstance(fields.get("message"), str):
        raise ProviderError(providers.failure_of(providers.complaint_in(fields)))


def put_in_text(delta: dict[str, Any]) -> None:
    """The input of a call, sent as an object instead of pieces of text."""
    if isinstance(delta.get("partial_json"), dict):
        delta["partial_json"] = msgspec.json.encode(delta["partial_json"]).decode()


# --- no stream --------------------------------------------------------------------------------------------------


def message_to_events(body: bytes) -> Iterator[bytes]:
    """A whole message, as the events of a stream."""
    try:
        message = decode_loosely(body)
    except UNREADABLE:
        raise ProviderError(NO_ANSWER) from None
    complain_of(message)
    content = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        raise ProviderError(NO_ANSWER)
    for event in stream_whole_message(cast("dict[str, Any]", message), as_list(content)):
        yield msgspec.json.encode(event)


def stream_whole_message(message: dict[str, Any], content: list[Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {"usage": message.get("usage")}}
    for index, block in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": message.get("stop_reason")}}
    yield {"type": "message_stop"}
