"""`StructuredOutput`: the answer of a run in the shape that its caller wants (stream-json 13).

Its input is the caller's JSON Schema. This module only checks a call. The core ends the run after a valid one, by the
name and by `Config.structured_output`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.updates import Rendering
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, half_characters, make_answer
from mainspring.tools.json_schema import Schema, SchemaValueTooLargeError

NAME = "StructuredOutput"
FOREIGN = ("anyOf", "oneOf", "allOf", "$ref")  # providers reject them at the top of a tool's input


class SchemaTool(Tool, frozen=True, kw_only=True):
    """A tool whose input has a JSON Schema from outside: the input is checked against it and stays a dict."""

    schema: Schema
    input: type[Input] = Input

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.about, self.schema.root)

    def parse(self, input: dict[str, Any]) -> dict[str, Any]:
        why = explain_schema_failure(self.schema, input)
        if why:
            raise ToolError(f"The input of '{self.name}' {why}. Nothing was done: call it again.")
        return input


def explain_schema_failure(schema: Schema, input: dict[str, Any]) -> str:
    """Why an input is invalid, for the model; empty if it is valid."""
    try:
        halves = half_characters(input)
        if halves:
            return f"is invalid: {halves}"
        found = schema.violations(input)
    except RecursionError:
        return "is nested too deeply"
    except SchemaValueTooLargeError:
        return "is too large to be checked: send less"
    return f"is invalid: {'; '.join(found)}" if found else ""


def structured_tool(schema: Mapping[str, Any], check: Callable[[dict[str, Any]], object] | None = None) -> Tool:
    """Raises `UsageError` if the schema is invalid, or does not describe an object. `check` is called with an input
    that fits the schema; its `ToolError` goes to the model."""

    async def run(given: dict[str, Any], calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        if check is not None:
            check(given)
        return make_answer("The output was accepted.", given, Rendering("Structured output"))

    understood = Schema(dict(schema))
    check_top(understood.root)
    return SchemaTool(
        name=NAME,
        about=(
            "Give your final answer with this tool: its input is the answer, and the caller reads nothing else. Call "
            "it once, when the work is done. If it says that something does not fit, fix that and call it again."
        ),
        schema=understood,
        run=run,
        read_only=True,
        summary=lambda _: "Structured output",
    )


def check_top(root: dict[str, Any]) -> None:
    if root.get("type") != "object":
        raise UsageError(
            'the schema of structured output must say \'"type": "object"\' at its top: put what you want into a '
            "property of an object"
        )
    for key in FOREIGN:
        if key in root:
            raise UsageError(f"the schema of structured output has '{key}' at its top: put it into a property")
