"""The JSON Schema of a tool's input, and what can be found out with it about a value.

`json_type.py` writes it: msgspec's own takes 6 ms to load and adds what a model does not need (titles, references,
defaults).
"""

from __future__ import annotations

import re
from typing import Any, cast

from msgspec import Struct

from mainspring.tools.json_type import JsonType


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The schema of an object: fields without a default are required."""
    return JsonType(kind).schema


def subschema_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The subschema at a path of msgspec (`$.tasks[0].status`, `$.named[...]`). Empty below a union: the intended
    alternative is unknown."""
    found = schema
    for step in re.findall(r"\[[^]]*\]|[^.\[]+", path)[1:]:
        inner: Any = (
            found.get("items", found.get("additionalProperties"))
            if step.startswith("[")
            else found.get("properties", {}).get(step)
        )
        if not isinstance(inner, dict):
            return {}
        found = cast("dict[str, Any]", inner)
    return found


def known_part(value: object, schema: dict[str, Any], path: str = "") -> tuple[Any, list[str]]:
    """A value without the fields that its schema does not have, and the names of those. Below a union, all fields are
    kept."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        listed = cast("list[object]", value)
        found = [known_part(one, schema["items"], f"{path}[{place}]") for place, one in enumerate(listed)]
        return [one for one, _ in found], [name for _, names in found for name in names]
    if not isinstance(value, dict) or "properties" not in schema:
        return cast("Any", value), []
    named = cast("dict[str, object]", value)
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, one in named.items():
        whole = f"{path}.{name}" if path else name
        if name in schema["properties"]:
            kept[name], more = known_part(one, schema["properties"][name], whole)
            dropped += more
        else:
            dropped.append(whole)
    return kept, dropped
