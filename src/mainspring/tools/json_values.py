"""JSON values as a schema sees them: their types, when two are equal, and how to show one or its place in a message."""

from collections.abc import Callable
from typing import Any

import msgspec

LONGEST = 200  # characters of a value in a message


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """1.0 is an integer, too: JSON knows one kind of number."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_whole,
    "number": is_number,
    "string": is_text,
    "array": is_list,
    "object": is_object,
}


def kind_of(value: Any) -> str:
    return next((name for name, holds in TYPES.items() if holds(value)), type(value).__name__)


def key_of(value: Any) -> object:
    """Equal for values that JSON calls equal: 1 is 1.0, and neither is true."""
    if isinstance(value, dict):
        return "object", frozenset([(key, key_of(inner)) for key, inner in object_items(value)])
    if isinstance(value, list):
        return "array", tuple([key_of(inner) for inner in array_elements(value)])
    return ("boolean" if isinstance(value, bool) else "plain"), value


# Strict checkers know nothing of what is in a dict that was `Any`.
def object_items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items())


def array_elements(value: Any) -> list[Any]:
    return list(value)


def shorten_json(value: object) -> str:
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def unescape_pointer(part: str) -> str:
    """Of a JSON pointer in a URI."""
    if "%" in part:
        from urllib.parse import unquote

        part = unquote(part)
    return part.replace("~1", "/").replace("~0", "~")


def join_value_path(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{shorten_json(name)}]"
