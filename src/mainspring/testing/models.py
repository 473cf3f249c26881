"""`TestModel`: a model without a key that calls every function tool once and then answers.

    with agent.override(model=TestModel()):
        answer = agent.run_sync("anything")

It shows that the tools of an agent can be called and that its output type can be filled. It never calls built-in tools:
a test must not run commands by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mainspring.core.messages import Assistant
from mainspring.core.value import as_json
from mainspring.providers.base import ToolSpec
from mainspring.providers.scripted import PlayedModel, ScriptedReply, call, says
from mainspring.tools.catalog import SPECS

OUTPUT = "StructuredOutput"
OURS = {*SPECS, OUTPUT, "Task", "ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool"}
DEEPEST = 20  # schemas inside schemas: more is a circle

FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00",
    "duration": "PT0S",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "decimal": "0",
    "email": "a@example.com",
    "uri": "https://example.com/",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}


class TestModel(PlayedModel):
    """Calls every function tool once, with values that fit its schema, then gives the output or a text."""

    __test__ = False  # pytest collects classes of this name otherwise

    def __init__(
        self,
        *,
        text: str | None = None,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        """`text`: the answer; None: the results of the calls, as JSON. `arguments`: of calls, by the name of the tool.
        `output`: the structured output, as JSON values."""
        super().__init__()
        self._text, self._arguments, self._output = text, arguments or {}, output

    async def _make_reply(self) -> ScriptedReply:
        shown = self.conversations[-1]
        made = [one for message in shown.messages if isinstance(message, Assistant) for one in message.calls]
        called = {one.name for one in made}
        left = [spec for spec in shown.tools if is_function_tool(spec) and spec.name not in called]
        if left:
            return says(*[call(spec.name, **self._input(spec)) for spec in left])
        wanted = next((spec for spec in shown.tools if spec.name == OUTPUT), None)
        if wanted is not None:
            return says(call(OUTPUT, **(dict(self._output) if self._output is not None else self._input(wanted))))
        names = {one.id: one.name for one in made}
        told = {names.get(one.call_id, "tool"): one.text for one in shown.results}
        return says(as_json(told).decode() if self._text is None else self._text)

    def _input(self, spec: ToolSpec) -> dict[str, Any]:
        given = self._arguments.get(spec.name)
        return dict(given) if given is not None else cast("dict[str, Any]", make_value(spec.schema, spec.schema))


def is_function_tool(spec: ToolSpec) -> bool:
    return spec.name not in OURS and not spec.name.startswith("mcp__") and spec.search is None


def make_value(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """The plainest value that fits a JSON Schema, as far as its keywords tell."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return None
    given = cast("dict[str, Any]", schema)
    if "$ref" in given:
        return make_value(find_definition(given["$ref"], root), root, depth + 1)
    for key in ("const", "default"):
        if key in given:
            return given[key]
    if given.get("enum"):
        return given["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if given.get(key):
            return make_value(given[key][0], root, depth + 1)
    return make_plain_value(given, root, depth)


def make_plain_value(given: dict[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kinds: Any = given.get("type", "object" if "properties" in given else "string")
    first_kind: str = kinds if isinstance(kinds, str) else kinds[0]
    match first_kind:
        case "object":
            needed, known = given.get("required", ()), given.get("properties", {})
            return {name: make_value(known.get(name, {}), root, depth + 1) for name in needed}
        case "array":
            first = given.get("prefixItems", [])
            more = [given.get("items", {})] * max(0, given.get("minItems", len(first)) - len(first))
            return [make_value(one, root, depth + 1) for one in (*first, *more)]
        case "integer" | "number" as kind:
            return make_number(given, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return FORMATS.get(given.get("format", ""), "a" * max(1, given.get("minLength", 1)))


def make_number(given: dict[str, Any], *, whole: bool) -> float:
    least, above = given.get("minimum"), given.get("exclusiveMinimum")
    most, below = given.get("maximum"), given.get("exclusiveMaximum")
    value: float = 0
    if least is not None or above is not None:
        value = max([bound for bound in (least, above + 1 if above is not None else None) if bound is not None])
        if above is not None and (below or most or value) < value:
            value = (above + (below or most)) / 2
    elif (most is not None and most < 0) or (below is not None and below <= 0):
        value = min([bound for bound in (most, below - 1 if below is not None else None) if bound is not None])
    if (step := given.get("multipleOf")) and value % step:
        value += step - value % step
    return int(value) if whole else value


def find_definition(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = cast("dict[str, Any]", found).get(part, {}) if isinstance(found, dict) else {}
    return found
