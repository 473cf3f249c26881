"""JSON that no protocol has, made readable as far as it can be: looked at only where the usual way has failed.

null where a text, a number or an item should be      {"delta": {"type": "text_delta", "text": null}}
numbers as text, and as broken or endless numbers     {"index": "0", "usage": {"output_tokens": 12.0}}
NaN and its like, which are no JSON at all            {"usage": {"output_tokens": NaN}}
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)
OF_THE_MODEL = ("arguments", "input")  # what a model wrote: null means something there


def decode_loosely(data: bytes) -> Any:
    """The value, with null for NaN and infinities. Raises one of `UNREADABLE`."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        import json

        return msgspec.json.decode(msgspec.json.encode(json.loads(data)))


def repair_json(data: bytes, form: type[T]) -> T | None:
    """None if it cannot be helped."""
    try:
        return convert_loosely(decode_loosely(data), form)
    except UNREADABLE:
        return None


def convert_loosely(value: Any, form: type[T]) -> T:
    """Raises one of `UNREADABLE`."""
    return msgspec.json.decode(msgspec.json.encode(drop_nulls(value)), type=form, strict=False)


def drop_nulls(value: Any) -> Any:
    """Without what is null, and whole numbers only."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: inner if name in OF_THE_MODEL else drop_nulls(inner) for name, inner in pairs if is_there(inner)}
    if isinstance(value, list):
        return [drop_nulls(inner) for inner in as_list(value) if is_there(inner)]
    return round(value) if isinstance(value, float) else value


def as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value)


def is_there(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
