"""What servers that imitate Anthropic's API send in forms that it does not document: nulls, other errors, no stream.

Looked at only where the usual way has failed (`stream.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.text_tool_calls import UNREADABLE, as_list, convert_loosely, decode_loosely

T = TypeVar("T")

NO_ANSWER = Failure(Trouble.SERVER, "the server sent an answer that is none")


def odd_event(data: bytes, form: type[T]) -> T | None:
    """None if it cannot be helped; raises if it is an error that is told in another way."""
    try:
        event = decode_loosely(data)
        complain_of(event)
        if isinstance(event, dict) and isinstance(delta := cast("dict[str, Any]", event).get("delta"), dict):
            put_in_text(cast("dict[str, Any]", delta))
        return convert_loosely(event, form)
    except UNREADABLE:
        return None


def complain_of(event: Any) -> None:
    """llama.cpp's errors in mid-stream have their words where a message would be; others send nothing but words."""
    if not isinstance(event, dict):
        return
    fields = cast("dict[str, Any]", event)
    if fields.get("error") or isinstance(fields.get("message"), str):
        from mainspring.providers.openai.errors import complaint_in, failure_of

        raise ProviderError(failure_of(complaint_in(fields)))


def put_in_text(delta: dict[str, Any]) -> None:
    """The input of a call, as an object where pieces of its text should be."""
    if isinstance(delta.get("partial_json"), dict):
        delta["partial_json"] = msgspec.json.encode(delta["partial_json"]).decode()


# --- no stream --------------------------------------------------------------------------------------------------


def message_to_events(body: bytes) -> Iterator[bytes]:
    """A whole message, as if it had been streamed."""
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
