"""Forms that requests of OpenAI's two protocols have in common.

They follow the types of the official client (3.49.0, whose source is OpenAI's own description of the API) and its
documentation, read on 2026-11-15. Only what a coding agent may send is described: no audio, no files by id, none of the
tools that OpenAI runs itself. Whoever sends those is told that they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.simulator.forms import (
    EXPECTED,
    Check,
    Found,
    Kind,
    add_violation,
    check_fields,
    check_number,
    check_optional,
    is_list,
    is_object,
    join_path,
    one_of,
)

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
    """Sixteen at most, all of them text."""
    if not is_object(value):
        add_violation("fields.type", path, EXPECTED[dict], found)
    elif len(value) > 16 or not all(type(item) is str for item in value.values()):
        add_violation("fields.value", path, "Input should be at most 16 pairs of strings", found)


# What both protocols take.
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
    """An object whose field says which others it has."""
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
