"""Types that pydantic reads itself: its models, its dataclasses, and types with its validators.

Loaded only for such a type, so pydantic need not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.core.errors import InvalidValueError, UsageError
from mainspring.tools.json_schema import is_list, is_object, object_items
from mainspring.tools.type_nodes import TypeNode, at

if TYPE_CHECKING:
    from mainspring.tools.json_type import Definitions

REFERENCE = "#/$defs/"


class PydanticNode(TypeNode):
    def __init__(self, hint: Any, where: str, definitions: Definitions) -> None:
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError

        self._error = ValidationError
        try:
            self._adapter: Any = TypeAdapter(hint)
            described: dict[str, Any] = self._adapter.json_schema()
        except (PydanticUserError, NameError, ImportError) as error:
            words = str(error).partition("\n\nFor further")[0]
            raise UsageError(f"{where} cannot be described by pydantic: {words}") from error
        own = described.pop("$defs", {})
        super().__init__(References(drop_titles_of_all(own), definitions).inline(drop_titles(described)))

    def decode(self, value: object, path: str) -> Any:
        """In pydantic's way for JSON: a model that is not strict takes `"5"` for a number."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except self._error as error:
            found = [dict(one) for one in error.errors(include_url=False, include_context=False, include_input=False)]
            raise InvalidValueError([f"{one['msg']}{at(locate(one, value, path))}" for one in found]) from None


def locate(error: dict[str, Any], value: Any, path: str) -> str:
    """Where an error is, as the model wrote it: pydantic also names the alternatives of a union on the way."""
    for step in error["loc"]:
        if isinstance(step, int) and is_list(value) and step < len(value):
            value, path = value[step], f"{path}[{step}]"
        elif is_object(value) and (step in value or error["type"] == "missing"):
            value, path = value.get(step), f"{path}.{step}"
    return path


def is_pydantic_type(kind: object) -> bool:
    """Whether pydantic should read this class, and is there to do so."""
    own = hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__get_pydantic_core_schema__")
    return own and "pydantic" in sys.modules


# --- its schemas, as ours are: without titles, and with references only where a type contains itself ------------------

VALUES = ("default", "examples", "enum", "const")  # keywords that hold values
TABLES = ("properties", "patternProperties", "$defs")  # keywords that hold schemas by name


def drop_titles(schema: Any) -> Any:
    """Also without `discriminator`, which is not of JSON Schema."""
    if is_list(schema):
        return [drop_titles(one) for one in schema]
    if not is_object(schema):
        return schema
    return {
        key: value if key in VALUES else drop_titles_of_all(value) if key in TABLES else drop_titles(value)
        for key, value in object_items(schema)
        if key not in ("title", "discriminator")
    }


def drop_titles_of_all(named: dict[str, Any]) -> dict[str, Any]:
    return {name: drop_titles(one) for name, one in named.items()}


class References:
    """Replaces references to pydantic's definitions by what they refer to. Types that contain themselves go to our
    definitions, under a name that is free there."""

    def __init__(self, own: dict[str, Any], definitions: Definitions) -> None:
        self._own, self._definitions = own, definitions
        self._names: dict[str, str] = {}

    def inline(self, schema: Any) -> Any:
        if is_list(schema):
            return [self.inline(one) for one in schema]
        if not is_object(schema):
            return schema
        rest = {
            key: value if key in VALUES else self._inline_all(value) if key in TABLES else self.inline(value)
            for key, value in object_items(schema)
            if key != "$ref"
        }
        target = get_reference(schema)
        if target not in self._own:
            return rest
        if contains_itself(target, self._own):
            return {"$ref": REFERENCE + self._name(target), **rest}
        return {**self.inline(self._own[target]), **rest}

    def _inline_all(self, named: dict[str, Any]) -> dict[str, Any]:
        return {name: self.inline(one) for name, one in named.items()}

    def _name(self, target: str) -> str:
        if target not in self._names:
            self._names[target] = self._definitions.reserve(target)
            self._definitions.add(self._names[target], self.inline(self._own[target]))
        return self._names[target]


def contains_itself(name: str, own: dict[str, Any]) -> bool:
    seen: set[str] = set()
    waiting = list(list_references(own[name]))
    while waiting:
        one = waiting.pop()
        if one == name:
            return True
        if one in own and one not in seen:
            seen.add(one)
            waiting += list_references(own[one])
    return False


def list_references(schema: Any) -> Iterator[str]:
    if is_list(schema):
        for one in schema:
            yield from list_references(one)
    elif is_object(schema):
        yield get_reference(schema)
        for key, value in object_items(schema):
            if key not in VALUES:
                yield from list_references(list(value.values()) if key in TABLES else value)


def get_reference(schema: dict[str, Any]) -> str:
    target = schema.get("$ref")
    return target.removeprefix(REFERENCE) if isinstance(target, str) else ""
