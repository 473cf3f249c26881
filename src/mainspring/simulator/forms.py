"""A small language for JSON schemas: which values are allowed, and the API's message for those that are not.

A kind of value is a type, or a function that looks deeper. Simple types are compared in place, because a body has
hundreds of them. `shapes.py` has the schemas of the Messages API.

The forms that requests of OpenAI's two protocols share are here, too. They follow the types of the official client
(3.49.0, generated from OpenAI's own description of the API) and its documentation, read on 2026-11-15. Only requests of
a coding agent are described: no audio, no files by id, no tools that OpenAI runs itself. Those are refused as unknown.

`Violation` is a rule that a request breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard


class Violation(NamedTuple):
    path: str  # in the API's notation: "messages.3.content.0"; empty for the whole request
    rule: str  # a stable name for tests; it does not change when the message does
    message: str

    @property
    def said(self) -> str:
        """As the API would write it."""
        return f"{self.path}: {self.message}" if self.path else self.message


Found = list[Violation]
Check = Callable[[Any, str, Found], None]  # the value, its path, the violations so far
Kind = type | Check

EXPECTED: dict[type, str] = {
    str: "Input should be a valid string",
    int: "Input should be a valid integer",
    float: "Input should be a valid number",
    bool: "Input should be a valid boolean",
    dict: "Input should be a valid dictionary",
    list: "Input should be a valid list",
}


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return type(value) is dict


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return type(value) is list


def add_violation(rule: str, path: str, message: str, found: Found) -> None:
    found.append(Violation(path, rule, message))


def check_exact_type(kind: Kind) -> Check:
    """The check for a value of this kind. Types are exact: true is not an integer."""
    if not isinstance(kind, type):
        return kind
    expected = EXPECTED[kind]

    def check(value: Any, path: str, found: Found) -> None:
        if type(value) is not kind:
            add_violation("fields.type", path, expected, found)

    return check


def check_optional(kind: Kind) -> Check:
    """The API accepts null for most optional fields."""
    given = check_exact_type(kind)

    def check(value: Any, path: str, found: Found) -> None:
        if value is not None:
            given(value, path, found)

    return check


def check_number(value: Any, path: str, found: Found) -> None:
    if type(value) not in (int, float):
        add_violation("fields.type", path, EXPECTED[float], found)


def accept_anything(value: Any, path: str, found: Found) -> None:
    """Values that the API does not check."""


def one_of(*allowed: str) -> Check:
    quoted = [f"'{name}'" for name in allowed]
    expected = " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else (quoted or ["null"])[0]

    def check(value: Any, path: str, found: Found) -> None:
        if value not in allowed:
            add_violation("fields.value", path, f"Input should be {expected}", found)

    return check


def check_list(kind: Kind) -> Check:
    each = check_exact_type(kind)

    def check(value: Any, path: str, found: Found) -> None:
        if not is_list(value):
            add_violation("fields.type", path, EXPECTED[list], found)
            return
        for position, item in enumerate(value):
            each(item, f"{path}.{position}", found)

    return check


def text_or(other: Check) -> Check:
    def check(value: Any, path: str, found: Found) -> None:
        if type(value) is not str:
            other(value, path, found)

    return check


def check_fields(required: Mapping[str, Kind], more: Mapping[str, Kind] | None = None) -> Check:
    kinds = {**required, **(more or {})}
    checks = {name: check_exact_type(kind) for name, kind in kinds.items()}
    simple = {name: kind for name, kind in kinds.items() if isinstance(kind, type)}  # compared in place, for speed
    needed = required.keys()

    def check(value: Any, path: str, found: Found) -> None:
        if not is_object(value):
            add_violation("fields.type", path, EXPECTED[dict], found)
            return
        for name, item in value.items():
            if type(item) is simple.get(name):
                continue
            if name in checks:
                checks[name](item, join_path(path, name), found)
            else:
                add_violation("fields.unknown", join_path(path, name), "Extra inputs are not permitted", found)
        if not value.keys() >= needed:
            for name in [name for name in required if name not in value]:
                add_violation("fields.missing", join_path(path, name), "Field required", found)

    return check


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def tagged_object(kinds: Mapping[str, Check]) -> Check:
    """An object whose `type` determines its fields."""
    expected = ", ".join([f"'{name}'" for name in kinds])

    def check(value: Any, path: str, found: Found) -> None:
        if not is_object(value):
            add_violation("fields.type", path, EXPECTED[dict], found)
            return
        tag = value.get("type")
        if type(tag) is not str:
            add_violation("fields.kind", path, "Unable to extract tag using discriminator 'type'", found)
        elif tag in kinds:
            kinds[tag](value, f"{path}.{tag}", found)
        else:
            said = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
            add_violation("fields.kind", path, said, found)

    return check


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
BREAKPOINT: dict[str, Kind] = {
    "prompt_cache_breakpoint": check_fields({"mode": one_of("explicit")}, {"ttl": one_of("30m", "12h")})
}
CACHE: dict[str, Kind] = {
    "prompt_cache_key": check_optional(str),
    "prompt_cache_options": check_fields({}, {"mode": one_of("implicit", "explicit"), "ttl": one_of("30m", "12h")}),
    "prompt_cache_retention": check_optional(one_of("in_memory", "24h")),
}


def check_metadata(value: Any, path: str, found: Found) -> None:
    """At most sixteen entries, all of them text."""
    if not is_object(value):
        add_violation("fields.type", path, EXPECTED[dict], found)
    elif len(value) > 16 or not all(type(item) is str for item in value.values()):
        add_violation("fields.value", path, "Input should be at most 16 pairs of strings", found)


# Fields of both protocols.
PARAMETERS: dict[str, Kind] = {
    **CACHE,
    "metadata": check_optional(check_metadata),
    "parallel_tool_calls": check_optional(bool),
    "safety_identifier": check_optional(str),
    "service_tier": check_optional(one_of(*TIERS)),
    "store": check_optional(bool),
    "stream": check_optional(bool),
    "temperature": check_optional(check_number),
    "top_logprobs": check_optional(int),
    "top_p": check_optional(check_number),
    "user": str,
}


def check_by_field(field: str, kinds: Mapping[str, Check], default: str = "") -> Check:
    """An object in which one field determines the others."""
    expected = ", ".join([f"'{name}'" for name in kinds])

    def check(value: Any, path: str, found: Found) -> None:
        if not is_object(value):
            add_violation("fields.type", path, EXPECTED[dict], found)
            return
        tag = value.get(field, default)
        if type(tag) is str and tag in kinds:
            kinds[tag](value, path, found)
        elif field not in value:
            add_violation("fields.missing", join_path(path, field), "Field required", found)
        else:
            add_violation("fields.kind", join_path(path, field), f"Supported values are: {expected}", found)

    return check


def check_non_empty(check: Check) -> Check:
    """A list with something in it."""

    def checked(value: Any, path: str, found: Found) -> None:
        if is_list(value) and not value:
            add_violation("fields.value", path, "Expected an array with minimum length 1", found)
        else:
            check(value, path, found)

    return checked
