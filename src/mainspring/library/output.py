"""`OutputType`: the type of an answer, as the schema for the model and as the decoder of what the model gives.

The model gives its output by a tool call, whose input is an object. A type that is no object (a list, a union, an enum,
a number) is the one property of an object.
"""

from __future__ import annotations

from typing import Any

from mainspring.core.errors import InvalidValueError, ToolError, UsageError
from mainspring.tools.json_type import JsonType
from mainspring.tools.structured_output import FOREIGN

VALUE = "value"  # the property of a wrapped type


class OutputType:
    def __init__(self, kind: Any) -> None:
        """Raises `UsageError` for a type that JSON cannot hold."""
        self._type = JsonType(kind, "'output'")
        found = self._type.schema
        self._wrapped = found.get("type") != "object" or any(key in found for key in FOREIGN)
        self.schema = wrap_schema(found) if self._wrapped else found

    def decode(self, given: dict[str, Any]) -> Any:
        """Raises `InvalidValueError`."""
        return self._type.decode(given[VALUE] if self._wrapped else given)


def wrap_schema(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    made: dict[str, Any] = {"type": "object", "properties": {VALUE: inner}, "required": [VALUE]}
    made["additionalProperties"] = False
    return {**made, "$defs": schema["$defs"]} if "$defs" in schema else made


class OutputCheck:
    """Checks each output of a run, and keeps the last valid one."""

    def __init__(self, kind: OutputType) -> None:
        self._kind = kind
        self._given: dict[str, Any] | None = None
        self._value: Any = None

    def check(self, given: dict[str, Any]) -> None:
        """Raises `ToolError` with a message for the model."""
        try:
            self._value, self._given = self._kind.decode(given), given
        except InvalidValueError as error:
            raise ToolError(f"The output is invalid: {error}. Call the tool again with a valid one.") from None

    def value_of(self, given: dict[str, Any]) -> Any:
        """The value of an output that was accepted, decoded once."""
        if self._given == given:
            return self._value
        try:
            return self._kind.decode(given)  # of a run that another process finished
        except InvalidValueError as error:
            raise UsageError(f"the stored output does not fit 'output': {error}") from None
