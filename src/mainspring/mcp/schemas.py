"""The schema of a tool that a server brings: whether it can be offered, and how inputs are checked against it."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.core.errors import UsageError
from mainspring.tools.json_schema import Schema
from mainspring.tools.structured_output import FOREIGN

LARGEST = 100_000  # characters of one schema: 30,000 tokens


def compile_input_schema(schema: dict[str, Any]) -> Schema:
    """What an input is checked against. Raises `UsageError`, with why the tool cannot be offered.

    Regular expressions are left to the server: they are in the dialect of another language, and one that takes for
    ever would stop us, not the server.
    """
    if schema.get("type") != "object":
        raise UsageError('its schema does not say \'"type": "object"\' at the top')
    for key in FOREIGN:
        if key in schema:
            raise UsageError(f"its schema has '{key}' at the top, which no model's service takes")
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"its schema is no JSON: {error}") from None
    if size > LARGEST:
        raise UsageError(f"its schema has {size:,} bytes; {LARGEST:,} is the most")
    return Schema(without_patterns(schema))


def without_patterns(schema: Any, depth: int = 0) -> Any:
    """A name in `properties` may be 'pattern', too: that is no keyword."""
    if depth > 100 or not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "pattern" and isinstance(value, str):
            continue
        if key == "patternProperties" or (key == "additionalProperties" and "patternProperties" in given):
            continue
        found[key] = _inner(key, value, depth)
    return found


NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})  # names with schemas
LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
ONE = frozenset({"items", "additionalProperties", "not", "propertyNames", "contains", "if", "then", "else"})


def _inner(key: str, value: Any, depth: int) -> Any:
    if key in NAMED and isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return {name: without_patterns(one, depth + 1) for name, one in inner.items()}
    if key in LISTS and isinstance(value, list):
        return [without_patterns(one, depth + 1) for one in cast("list[object]", value)]
    return without_patterns(value, depth + 1) if key in ONE else value
