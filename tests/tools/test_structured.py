"""`StructuredOutput` and the JSON Schema it checks by: truth tables, laws, and a run that ends with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.core.config import Config
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.reasons import Subtype
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.providers.scripted import Scripted, call, says
from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import Workspace
from mainspring.tools.json_schema import KEYWORDS, MOST_SAID, Schema
from mainspring.tools.structured_output import NAME, structured_tool
from mainspring.tools.toolset import Toolset
from tools.desk import Desk

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "in": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}

# A schema, what fits it, what does not.
TABLE: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "true": (True, [None, 1, {}], []),
    "false": (False, [], [None, 1, {}]),
    "nothing said": ({}, [None, True, 1, "", [], {}], []),
    "unknown words": ({"format": "date", "if": {}, "x-mine": 7, "title": "T"}, [None, 1, "no date"], []),
    "null": ({"type": "null"}, [None], [False, 0, "", [], {}]),
    "boolean": ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
    "integer": ({"type": "integer"}, [0, -5, 10**30, 2.0], [1.5, True, "1", None]),
    "number": ({"type": "number"}, [0, 1.5, -2.0], [True, "1", None]),
    "string": ({"type": "string"}, ["", "a"], [1, None, ["a"]]),
    "array": ({"type": "array"}, [[], [1, "a"]], [{}, "[]", None]),
    "object": ({"type": "object"}, [{}, {"a": 1}], [[], "{}", None]),
    "two types": ({"type": ["string", "null"]}, ["", None], [0, False, []]),
    "enum": ({"enum": ["a", 1, None, [1]]}, ["a", 1, 1.0, None, [1.0]], ["b", True, 0, [], [True]]),
    "enum of truths": ({"enum": [True, 0]}, [True, 0, 0.0], [1, False]),
    "const": ({"const": {"a": [1]}}, [{"a": [1]}, {"a": [1.0]}], [{"a": [True]}, {"a": 1}, {}, None]),
    "required": ({"required": ["a", "b"]}, [{"a": 1, "b": None}, 7, []], [{}, {"a": 1}]),
    "properties": ({"properties": {"a": {"type": "string"}}}, [{}, {"a": "x"}, {"b": 1}, 7], [{"a": 1}]),
    "no others": (
        {"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}, 7], [{"b": 1}, {"a": 1, "b": 1}],
    ),
    "others of a kind": (
        {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, [{"a": "x", "b": 1}], [{"b": "x"}],
    ),
    "by pattern": (
        {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False},
        [{}, {"n_a": 1}], [{"n_a": "x"}, {"x": 1}, {"an_": 1}],
    ),
    "items": ({"items": {"type": "integer"}}, [[], [1, 2], "text"], [["a"], [1, None]]),
    "no items": ({"items": False}, [[]], [[1]]),
    "first items": (
        {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        [[], ["a"], ["a", 1]], [[1], ["a", "b"], ["a", 1, 2]],
    ),
    "unique": ({"uniqueItems": True}, [[], [1, True, "1"], [[1], [2]]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    "not unique": ({"uniqueItems": False}, [[1, 1]], []),
    "any": ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["a", 5, None], [4, 4.5]),
    "one": ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [4, 5.5, "a"], [5, 4.5]),
    "all": ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, [5], [4, 5.5, "a"]),
    "not": ({"not": {"type": "string"}}, [1, None], ["a"]),
    "minimum": ({"minimum": 3}, [3, 3.5, "a", True], [2, 2.9]),
    "maximum": ({"maximum": 3}, [3, 2.5, "a"], [4, 3.1]),
    "more than": ({"exclusiveMinimum": 3}, [3.1, 4], [3, 3.0]),
    "less than": ({"exclusiveMaximum": 3}, [2.9, 2], [3, 3.0]),
    "multiple": ({"multipleOf": 3}, [0, 3, -6, 3.0, "a"], [1, 4.5]),
    "multiple of a part": ({"multipleOf": 0.1}, [0.3, 1, 0], [0.35]),
    "shortest": ({"minLength": 2}, ["ab", "\U0001f600b", 1], ["", "a", "\U0001f600"]),
    "longest": ({"maxLength": 2}, ["", "ab", 123], ["abc"]),
    "fewest": ({"minItems": 1}, [[1], "a", {}], [[]]),
    "most": ({"maxItems": 1}, [[], [1]], [[1, 2]]),
    "fewest fields": ({"minProperties": 1}, [{"a": 1}, []], [{}]),
    "most fields": ({"maxProperties": 1}, [{}, {"a": 1}], [{"a": 1, "b": 2}]),
    "pattern": ({"pattern": "^a+$"}, ["a", "aaa", 7], ["", "b", "ba"]),
    "pattern anywhere": ({"pattern": "b"}, ["abc"], ["ac"]),
    "tree": (
        TREE, [{"name": "a"}, {"name": "a", "in": [{"name": "b", "in": []}]}],
        [{}, {"name": "a", "in": [{}]}, {"name": "a", "in": [{"name": "b", "in": [{"name": 1}]}]}, {"name": "", "": 1}],
    ),
    "older name": (
        {"properties": {"a": {"$ref": "#/definitions/b c"}}, "definitions": {"b c": {"type": "null"}}},
        [{"a": None}, {}], [{"a": 1}],
    ),
    "signs in a name": (
        {"properties": {"a": {"$ref": "#/$defs/x~1y~0z%20"}}, "$defs": {"x/y~z ": {"type": "null"}}},
        [{"a": None}], [{"a": 1}],
    ),
    "itself": ({"properties": {"a": {"$ref": "#"}}, "maxProperties": 1}, [{"a": {"a": {}}}], [{"a": {"a": 1, "b": 1}}]),
    "words beside a reference": (
        {"properties": {"a": {"$ref": "#/$defs/n", "minimum": 3}}, "$defs": {"n": {"type": "integer"}}},
        [{"a": 3}], [{"a": 2}, {"a": 3.5}],
    ),
}  # fmt: skip


def fits(schema: Any, value: Any) -> bool:
    return not Schema(schema).violations(value)


@pytest.mark.parametrize("name", TABLE)
def test_truth_table(name: str) -> None:
    schema, right, wrong = TABLE[name]
    understood = Schema(schema)
    for value in right:
        assert understood.violations(value) == [], value
    for value in wrong:
        found = understood.violations(value)
        assert found, value
        assert all(text.startswith("`$") and len(text) < 1_000 for text in found)


def test_every_keyword_has_a_row_in_the_table() -> None:
    said = repr([schema for schema, _, _ in TABLE.values()])
    assert [key for key in KEYWORDS if f"'{key}'" not in said] == []


# --- laws -----------------------------------------------------------------------------------------------------------

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.5]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abn_"), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.sampled_from([schema for schema, _, _ in TABLE.values() if "#" not in repr(schema)])


@settings(max_examples=examples(400), deadline=None)
@given(SCHEMAS, SCHEMAS, JSON)
def test_how_schemas_combine(one: Any, other: Any, value: Any) -> None:
    a, b = fits(one, value), fits(other, value)
    assert fits({"anyOf": [one, other]}, value) == (a or b)
    assert fits({"allOf": [one, other]}, value) == (a and b)
    assert fits({"oneOf": [one, other]}, value) == (a != b)
    assert fits({"not": one}, value) == (not a)
    assert fits({"$ref": "#/$defs/x", "$defs": {"x": one}}, value) == a
    assert fits({"items": one}, [value, value]) == a
    assert fits({"prefixItems": [one, other]}, [value, value]) == (a and b)
    assert fits({"properties": {"p": one}, "additionalProperties": other}, {"p": value, "q": value}) == (a and b)


@settings(max_examples=examples(400), deadline=None)
@given(JSON, JSON)
def test_what_is_equal(one: Any, other: Any) -> None:
    import json

    def canonical(value: Any) -> str:
        return json.dumps(value, sort_keys=True).replace(".0", "")

    assert fits({"const": one}, one)
    assert fits({"enum": [other, one]}, one)
    assert fits({"const": one}, other) == (canonical(one) == canonical(other))
    assert fits({"uniqueItems": True}, [one, other]) == (canonical(one) != canonical(other))


@settings(max_examples=examples(200), deadline=None)
@given(JSON)
def test_every_value_has_a_type(value: Any) -> None:
    kinds = [kind for kind in ("null", "boolean", "number", "string", "array", "object") if fits({"type": kind}, value)]
    names = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    assert kinds == [names.get(type(value), "object")]


# --- schemas that are refused ---------------------------------------------------------------------------------------


LOOP = {
    "$ref": "#/$defs/a",
    "$defs": {"a": {"anyOf": [{}, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
}


def deep(depth: int, key: str = "items") -> Any:
    made: Any = {}
    for _ in range(depth):
        made = {key: made}
    return made


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strng"}, "'#/type' must be one of null, boolean, integer, "),
        ({"type": []}, "'#/type' must be one of "),
        ({"properties": {"a": {"type": 7}}}, "'#/properties/a/type' must be one of "),
        ({"properties": ["a"]}, "'#/properties' must be an object of schemas, not [\"a\"]"),
        ({"properties": {"a": "string"}}, "'#/properties' must be an object of schemas, not {\"a\":\"string\"}"),
        ({"required": "a"}, "'#/required' must be a list of names, not \"a\""),
        ({"enum": "a"}, "'#/enum' must be a list of values"),
        ({"items": [{}]}, "'#/items' must be a schema (use 'prefixItems' for a list of them)"),
        ({"anyOf": []}, "'#/anyOf' must be a list of schemas, not empty"),
        ({"anyOf": [{}, {"allOf": [{"minLength": -1}]}]}, "'#/anyOf/1/allOf/0/minLength' must be a whole number"),
        ({"minimum": "3"}, "'#/minimum' must be a number"),
        ({"exclusiveMinimum": True}, "'#/exclusiveMinimum' must be a number, not true"),
        ({"multipleOf": 0}, "'#/multipleOf' must be a number above 0"),
        ({"pattern": "("}, "'#/pattern' is not a regular expression: missing )"),
        ({"patternProperties": {"[": {}}}, "'#/patternProperties' is not a regular expression: "),
        ({"$ref": "#/$defs/a"}, "'#/$ref' refers to '#/$defs/a', which is not in it"),
        ({"$ref": "https://example.com/x.json"}, "'#/$ref' must be a place in the same schema"),
        ({"$ref": "#"}, "'#' refers to itself"),
        (LOOP, "refers to itself"),
        ({"$ref": "#/x", "x": {"type": 1}}, "'#/x/type' must be one of "),
        ({"$ref": "#/required", "required": ["a"]}, "'#/required' must be an object, or true or false"),
        (deep(101), "/items/items' is nested too deeply"),
        (deep(50_000), "invalid schema: it is not JSON"),
        ({"enum": [object()]}, "invalid schema: it is not JSON"),
        ([], "'#' must be an object"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_understood(schema: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        Schema(schema)
    assert message in str(error.value)


def test_a_long_chain_of_references_is_no_deep_schema() -> None:
    defs = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(2_000)}
    assert fits({"$ref": "#/$defs/d0", "$defs": {**defs, "d2000": {"type": "null"}}}, {"a": {"a": {}}})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, 'must say \'"type": "object"\' at its top'),
        ({"type": "array"}, 'must say \'"type": "object"\' at its top'),
        ({"type": "object", "anyOf": [{}]}, "has 'anyOf' at its top: put it into a property"),
        ({"type": "object", "properties": {"a": {"type": "x"}}}, "'#/properties/a/type' must be"),
    ],
)
def test_schemas_that_no_tool_can_have(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        structured_tool(schema)
    assert message in str(error.value)


# --- the tool -------------------------------------------------------------------------------------------------------

BUG: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "severity": {"enum": ["low", "high"]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "by": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]},
        "child": {"$ref": "#"},
    },
    "required": ["title", "severity"],
    "additionalProperties": False,
}
FINE: dict[str, Any] = {"title": "t", "severity": "low"}


def nested(depth: int) -> dict[str, Any]:
    made = FINE
    for _ in range(depth):
        made = {**FINE, "child": made}
    return made


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "`$.title` is missing; `$.severity` is missing"),
        ({**FINE, "title": 7}, "`$.title` must be of type string, not integer"),
        ({**FINE, "title": ""}, "`$.title` must have a length of at least 1"),
        ({**FINE, "severity": "medium"}, '`$.severity` must be one of "low","high", not "medium"'),
        ({**FINE, "lines": [1, "2", None]}, "`$.lines[1]` must be of type integer, not string; `$.lines[2]` must be"),
        ({**FINE, "by": 3}, "`$.by` fits none of 2 alternatives (`$.by` must be of type string, not integer; or `$"),
        ({**FINE, "more": 1, "a b": 2}, '`$.more` is unknown: leave it out; `$["a b"]` is unknown: leave it out'),
        ({**FINE, "child": {**FINE, "child": {}}}, "`$.child.child.title` is missing; `$.child.child.severity` is"),
        ({**FINE, "title": ["x" * 1_000_000]}, "`$.title` must be of type string, not array"),
        ({**FINE, "severity": "x" * 1_000_000}, '`$.severity` must be one of "low","high", not "xxx'),
        ({**FINE, "lines": ["x"] * 100_000}, "`$.lines[9]` must be of type integer"),
        ({**FINE, **{f"f{n}": n for n in range(50_000)}}, "`$.f9` is unknown"),
    ],
)  # fmt: skip
def test_wrong_inputs(input: dict[str, Any], message: str) -> None:
    desk = Desk([structured_tool(BUG)])
    done = desk.now(NAME, **input)
    assert (done.answer.is_error, desk.decisions) == (True, [])
    assert done.answer.text.startswith("The input of 'StructuredOutput' is invalid: ")
    assert message in done.answer.text
    assert done.answer.text.endswith("Nothing was done: call it again.")
    assert len(done.answer.text) < 2_000
    assert done.answer.text.count(";") <= MOST_SAID


def test_half_characters_cannot_be_handed_on() -> None:
    done = Desk([structured_tool(BUG)]).now(NAME, **FINE | {"title": "a\ud800"})
    assert done.answer.is_error
    assert "is invalid: 'title' contains half a character (a lone surrogate). Nothing was done" in done.answer.text


@pytest.mark.parametrize("depth", [100, 50_000])
def test_deeply_nested_inputs(depth: int) -> None:
    assert "is nested too deeply" in Desk([structured_tool(BUG)]).now(NAME, **nested(depth)).answer.text


def test_a_recursive_schema_and_a_value_deeper_than_python_follows() -> None:
    with pytest.raises(ToolError, match="is nested too deeply"):
        structured_tool(BUG).parse(nested(50_000))


def test_alternatives_that_multiply_have_an_end() -> None:
    twice = {"type": "array", "items": {"$ref": "#/$defs/x"}}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"anyOf": [twice, {**twice}, {"type": "null"}]}},
    }
    value: Any = 7
    for _ in range(40):
        value = [value]
    with pytest.raises(ToolError, match="is too large to be checked: send less"):
        structured_tool(schema).parse({"a": value})


def test_a_valid_input_is_taken() -> None:
    tool = structured_tool(BUG)
    done = Desk([tool]).now(NAME, **FINE, lines=[1, 2.0], by={"name": "x"})
    assert (done.answer.text, done.answer.is_error) == ("The output was accepted.", False)
    assert done.answer.data == {**FINE, "lines": [1, 2.0], "by": {"name": "x"}}
    assert FakeToolContext("/").now(tool, **FINE).data == FINE
    assert (tool.spec.name, tool.spec.schema) == (NAME, BUG)
    assert (tool.is_read_only({}), tool.is_concurrent({}), tool.line({})) == (True, True, "Structured output")


def test_the_schema_is_a_copy() -> None:
    mine = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = structured_tool(mine)
    mine["properties"] = {"a": {"type": "integer"}}
    assert tool.parse({"a": "x"}) == {"a": "x"}


# --- a run ----------------------------------------------------------------------------------------------------------


def test_a_run_ends_with_the_output() -> None:
    """The first call does not fit; the model is told what is wrong, and the second one ends the run."""
    model = Scripted([says(call(NAME, title=7)), says(call(NAME, **FINE))])

    async def main() -> EngineSession:
        gate = PermissionChecker((RuleText("allow", NAME, "session"),))
        hands = Toolset([structured_tool(BUG)], place=Workspace("/"), gate=gate)
        session = EngineSession(AgentDeps(model, hands), Config(structured_output=True))
        async with session.run("What is the bug?") as run:
            async for _ in run:
                pass
        assert (run.result.subtype, run.result.output) == (Subtype.SUCCESS, FINE)
        return session

    session = asyncio.run(main())
    assert model.left_over == 0
    told = [message.text for message in session.state.history]
    assert any("`$.title` must be of type string, not integer; `$.severity` is missing" in text for text in told)
