"""Types in both directions: what the model is told of each, what a value of JSON becomes, what a result becomes."""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import annotated_types as at
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field

from mainspring.core.errors import InvalidValueError, ToolError, UsageError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.custom import tool
from mainspring.tools.json_schema import Schema
from mainspring.tools.json_type import JsonType, encode_json
from mainspring.tools.type_nodes import make_generic


class City(BaseModel):
    name: str
    zip: Annotated[int, Field(ge=1, le=99_999)] = 1


class Trip(BaseModel):
    model_config = ConfigDict(extra="forbid")
    days: list[dt.date]
    stops: list[City] = []
    note: str | None = Field(None, description="Anything else.", alias="remark")


class Node(BaseModel):
    label: str
    below: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


@pydantic.dataclasses.dataclass
class Checked:
    size: int = Field(gt=0)


@dataclass
class Order:
    """With a member of each kind that msgspec leaves to us."""

    city: City
    stars: Annotated[int, at.Interval(ge=1, le=5)]
    file: Path = Path("a")
    when: dt.datetime | str = ""
    more: list[Order] = field(default_factory=list["Order"])


@dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("'low' is above 'high'")


@dataclass
class Ranges:
    one: Range
    home: Path = Path("/")


class Row(TypedDict):
    city: City
    note: NotRequired[Path]


class Shape(Struct, tag="shape", forbid_unknown_fields=True):
    at: Path
    size: int = msgspec.field(name="theSize", default=1)


class Tree(Struct):
    value: int
    left: Tree | None = None
    right: Tree | None = None


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"
    HALF = 0.5


UTC = dt.UTC
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
ULM = City(name="Ulm", zip=2)
TWO = {"minItems": 2, "maxItems": 2}
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
CITY = {
    "type": "object",
    "properties": {"name": TEXT, "zip": {"type": "integer", "minimum": 1, "maximum": 99_999, "default": 1}},
    "required": ["name"],
}


def text(format: str) -> dict[str, Any]:
    return {"type": "string", "format": format}


# A type, its schema, a value of JSON, and what it becomes. The way back gives the same value of JSON.
BOTH_WAYS: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "datetime": (dt.datetime, text("date-time"), "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "date": (dt.date, text("date"), "2026-01-02", dt.date(2026, 1, 2)),
    "time": (dt.time, text("time"), "03:04:05", dt.time(3, 4, 5)),
    "timedelta": (dt.timedelta, text("duration"), "P1DT3600S", dt.timedelta(days=1, hours=1)),
    "uuid": (uuid.UUID, text("uuid"), str(ID), ID),
    "decimal": (Decimal, text("decimal"), "1.10", Decimal("1.10")),
    "path": (Path, text("path"), "a/b.txt", Path("a/b.txt")),
    "pure path": (list[PurePosixPath], {"type": "array", "items": text("path")}, ["a"], [PurePosixPath("a")]),
    "fixed tuple": (
        tuple[int, str],
        {"type": "array", "prefixItems": [WHOLE, TEXT], "items": {"anyOf": [WHOLE, TEXT]}, **TWO},
        [1, "a"],
        (1, "a"),
    ),
    "pair of one type": (
        tuple[float, float],
        {"type": "array", "items": {"type": "number"}, **TWO},
        [1.5, 2.5],
        (1.5, 2.5),
    ),
    "tuple of paths": (
        tuple[Path, int],
        {
            "type": "array",
            "prefixItems": [text("path"), WHOLE],
            "items": {"anyOf": [text("path"), WHOLE]},
            **TWO,
        },
        ["a", 1],
        (Path("a"), 1),
    ),
    "variadic tuple": (tuple[Path, ...], {"type": "array", "items": text("path")}, ["a", "b"], (Path("a"), Path("b"))),
    "set": (frozenset[Path], {"type": "array", "items": text("path")}, ["a"], frozenset({Path("a")})),
    "model": (City, CITY, {"name": "Ulm", "zip": 89073}, City(name="Ulm", zip=89073)),
    "list of models": (list[City], {"type": "array", "items": CITY}, [{"name": "Ulm", "zip": 2}], [ULM]),
    "table of models": (
        dict[str, City],
        {"type": "object", "additionalProperties": CITY},
        {"a": {"name": "Ulm", "zip": 2}},
        {"a": ULM},
    ),
    "keys": (
        dict[int, Path],
        {"type": "object", "additionalProperties": text("path")},
        {"1": "a"},
        {1: Path("a")},
    ),
    "model or null": (City | None, {"anyOf": [CITY, {"type": "null"}]}, None, None),
    "text or time": (
        dt.datetime | str,
        {"anyOf": [text("date-time"), TEXT]},
        "2026-01-02T03:04:05Z",
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    ),
    "text, no time": (dt.datetime | str, {"anyOf": [text("date-time"), TEXT]}, "soon", "soon"),
    "numbers or model": (
        float | int | City,
        {"anyOf": [{"type": "number"}, WHOLE, CITY]},
        3,
        3,
    ),
    "lists": (
        list[int] | list[str],
        {"anyOf": [{"type": "array", "items": WHOLE}, {"type": "array", "items": TEXT}]},
        ["a"],
        ["a"],
    ),
    "mixed enum": (Mixed, {"enum": [1, "two", 0.5]}, 0.5, Mixed.HALF),
    "literals": (Literal["a", 1, True], {"enum": ["a", 1, True]}, True, True),
    "pydantic's own type": (pydantic.PositiveInt, {"type": "integer", "exclusiveMinimum": 0}, 3, 3),
    "pydantic dataclass": (
        Checked,
        {"type": "object", "properties": {"size": {"type": "integer", "exclusiveMinimum": 0}}, "required": ["size"]},
        {"size": 3},
        Checked(3),
    ),
    "typed dict": (
        Row,
        {"type": "object", "properties": {"city": CITY, "note": text("path")}, "required": ["city"]},
        {"city": {"name": "Ulm", "zip": 2}, "note": "a"},
        {"city": ULM, "note": Path("a")},
    ),
    "struct": (
        Shape,
        {
            "type": "object",
            "properties": {"type": {"type": "string", "enum": ["shape"]}, "at": text("path"), "theSize": WHOLE},
            "required": ["type", "at"],
        },
        {"type": "shape", "at": "a", "theSize": 2},
        Shape(Path("a"), 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(BOTH_WAYS))
def test_a_type_in_both_directions(kind: str) -> None:
    hint, schema, said, meant = BOTH_WAYS[kind]
    found = JsonType(hint)
    assert found.schema == schema
    assert Schema(found.schema).violations(said) == []  # what we say of it is JSON Schema
    decoded = found.decode(said)
    assert (decoded, type(decoded)) == (meant, type(meant))
    back = msgspec.json.decode(encode_json(meant))
    assert found.decode(back) == meant
    assert back == ({**said, "type": "shape"} if isinstance(meant, Shape) else said) or isinstance(meant, dt.timedelta)


@pytest.mark.parametrize("kind", list(BOTH_WAYS))
def test_a_type_as_parameter_and_result_of_a_tool(kind: str) -> None:
    hint, schema, said, meant = BOTH_WAYS[kind]
    got: list[object] = []

    def keep(it: Any) -> Any:
        got.append(it)
        return it

    keep.__annotations__["it"] = hint
    made = tool(keep)
    told = FakeToolContext("/").now(made, it=said)
    assert made.spec.schema == {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    assert got == [meant]
    if not isinstance(meant, str | dt.timedelta) and meant is not None:
        assert told.data == said


def test_a_model_of_many_parts() -> None:
    found = JsonType(Trip)
    assert found.schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "days": {"type": "array", "items": text("date")},
            "stops": {"type": "array", "items": CITY, "default": []},
            "remark": {"anyOf": [TEXT, {"type": "null"}], "default": None, "description": "Anything else."},
        },
        "required": ["days"],
    }
    value = {"days": ["2026-01-02"], "stops": [{"name": "Ulm"}], "remark": "x"}
    trip = found.decode(value)
    assert trip == Trip(days=[dt.date(2026, 1, 2)], stops=[City(name="Ulm")], remark="x")
    assert msgspec.json.decode(encode_json([trip]))[0]["stops"] == [{"name": "Ulm", "zip": 1}]


def test_a_model_that_may_be_left_out() -> None:
    @tool
    def visit(city: City | None = None, days: list[dt.date] | dt.date | None = None) -> str:
        return f"{city!r} {days}"

    days = {"anyOf": [{"type": "array", "items": text("date")}, text("date")]}
    assert visit.spec.schema == {"type": "object", "properties": {"city": CITY, "days": days}, "required": []}
    context = FakeToolContext("/")
    assert context.now(visit).text == context.now(visit, city=None, days=None).text == "None None"
    assert context.now(visit, city={"name": "Ulm"}, days="2026-01-02").text == "City(name='Ulm', zip=1) 2026-01-02"
    with pytest.raises(ToolError, match=r"Field required - at `\$\.city\.name`\. Nothing was done"):
        context.now(visit, city={})


def test_types_that_contain_themselves() -> None:
    """A definition, a reference, and none at the top: servers want an object there."""
    found = JsonType(Node)
    node = {
        "type": "object",
        "properties": {
            "label": TEXT,
            "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
        },
        "required": ["label"],
    }
    assert found.schema == {**node, "$defs": {"Node": node}}
    value: Any = {"label": "a", "below": [{"label": "b", "below": []}]}
    assert found.decode(value) == Node(label="a", below=[Node(label="b")])

    trees = JsonType(list[Tree])
    below = {"$ref": "#/$defs/Tree"}
    tree = {"type": "object", "properties": {"value": WHOLE, "left": below, "right": below}, "required": ["value"]}
    assert trees.schema == {"type": "array", "items": below, "$defs": {"Tree": tree}}
    assert trees.decode([{"value": 1, "left": {"value": 2}}]) == [Tree(1, Tree(2))]
    with pytest.raises(InvalidValueError, match=r"^Expected `int`, got `str` - at `\$\[0\]\.left\.value`$"):
        trees.decode([{"value": 1, "left": {"value": "x"}}])

    @tool
    def grow(tree: Tree, other: Node) -> None: ...

    told = grow.spec.schema
    assert (set(told["$defs"]), told["properties"]["tree"]) == ({"Tree", "Node"}, below)
    Schema(told)  # each reference has its target


def test_two_types_of_one_name_do_not_meet() -> None:
    class Tree(BaseModel):
        leaves: list[Tree] = []

    Tree.model_rebuild(_types_namespace={"Tree": Tree})

    def grow(one: Any, two: Any) -> None: ...

    grow.__annotations__ |= {"one": globals()["Tree"], "two": Tree}
    told = tool(grow).spec.schema
    assert set(told["$defs"]) == {"Tree", "Tree_2"}
    assert told["properties"]["one"] != told["properties"]["two"]


def test_a_dataclass_with_members_that_msgspec_does_not_know() -> None:
    found = JsonType(Order)
    value = {
        "city": {"name": "Ulm"},
        "stars": 5,
        "file": "b",
        "when": "2026-01-02T00:00:00",
        "more": [{"city": {"name": "Bonn"}, "stars": 1}],
    }
    meant = Order(City(name="Ulm"), 5, Path("b"), dt.datetime(2026, 1, 2), [Order(City(name="Bonn"), 1)])  # noqa: DTZ001
    assert found.decode(value) == meant
    assert found.decode(msgspec.json.decode(encode_json(meant))) == meant
    assert found.schema["properties"]["stars"] == {"type": "integer", "minimum": 1, "maximum": 5}
    with pytest.raises(InvalidValueError) as error:
        found.decode({"city": {"name": 7, "zip": 0}, "stars": 6, "more": [{"stars": 1}]})
    assert error.value.problems == (
        "Input should be a valid string - at `$.city.name`",
        "Input should be greater than or equal to 1 - at `$.city.zip`",
        "Expected `int` <= 5 - at `$.stars`",
        "Object missing required field `city` - at `$.more[0]`",
    )


# --- constraints ----------------------------------------------------------------------------------------------------

AFTER = dt.date(2026, 1, 1)

# A hint, what its schema says more, a value that fits, one that does not, and what the model is told of it.
LIMITED: dict[str, tuple[Any, dict[str, Any], Any, Any, str]] = {
    "pydantic": (
        Annotated[int, Field(ge=1, le=5, description="stars")],
        {"type": "integer", "minimum": 1, "maximum": 5, "description": "stars"},
        5, 6, "Expected `int` <= 5 - at `$.it`",
    ),
    "annotated_types": (
        Annotated[int, at.Ge(1)],
        {"type": "integer", "minimum": 1},
        1, 0, "Expected `int` >= 1 - at `$.it`",
    ),
    "interval": (
        Annotated[float, at.Interval(gt=0, lt=1)],
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        0.5, 1.0, "Expected `float` < 1.0 - at `$.it`",
    ),
    "both lower limits": (
        Annotated[int, at.Gt(0), at.Ge(2)],
        {"type": "integer", "exclusiveMinimum": 0, "minimum": 2},
        2, 1, "Expected a value at least 2 - at `$.it`",
    ),
    "the tighter of two": (
        Annotated[int, at.Ge(1), at.Ge(3)],
        {"type": "integer", "minimum": 3},
        3, 2, "Expected `int` >= 3 - at `$.it`",
    ),
    "length": (
        Annotated[list[int], at.Len(1, 2)],
        {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 2},
        [1], [1, 2, 3], "Expected `array` of length <= 2 - at `$.it`",
    ),
    "text": (
        Annotated[str, Field(min_length=2, pattern="^[a-z]+$")],
        {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "ab", "A1", "Expected `str` matching regex '^[a-z]+$' - at `$.it`",
    ),
    "entries": (
        Annotated[dict[str, int], at.MinLen(1)],
        {"type": "object", "additionalProperties": WHOLE, "minProperties": 1},
        {"a": 1}, {}, "Expected `object` of length >= 1 - at `$.it`",
    ),
    "multiple": (
        Annotated[int, at.MultipleOf(5)],
        {"type": "integer", "multipleOf": 5},
        10, 11, "Expected `int` that's a multiple of 5 - at `$.it`",
    ),
    "inside": (
        list[Annotated[int, Field(gt=0)]],
        {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}},
        [1], [1, 0], "Expected `int` >= 1 - at `$.it[1]`",
    ),
    "or null": (
        Annotated[int | None, Field(ge=1)],
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        None, 0, "Expected a value at least 1 - at `$.it`",
    ),
    "date": (
        Annotated[dt.date, at.Ge(AFTER)],
        {"type": "string", "format": "date", "description": "(must be at least 2026-01-01)"},
        "2026-01-01", "2025-12-31", "Expected a value at least 2026-01-01 - at `$.it`",
    ),
    "decimal": (
        Annotated[Decimal, Field(gt=0, description="Price.")],
        {"type": "string", "format": "decimal", "description": "Price. (must be more than 0)"},
        "0.01", "0", "Expected a value more than 0 - at `$.it`",
    ),
    "predicate": (
        Annotated[str, at.Predicate(str.islower)],
        {"type": "string", "description": "(must satisfy islower)"},
        "a", "A", "Expected a value that satisfies islower - at `$.it`",
    ),
    "time zone": (
        Annotated[dt.datetime, at.Timezone(...)],
        {"type": "string", "format": "date-time"},
        "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "Expected `datetime` with a timezone component - at `$.it`",
    ),
    "models": (
        Annotated[list[City], Field(min_length=1)],
        {"type": "array", "items": CITY, "minItems": 1},
        [{"name": "a"}], [], "Expected a value of length 1 or more - at `$.it`",
    ),
    "a validator of pydantic": (
        Annotated[int, pydantic.AfterValidator(math.isqrt)],
        {"type": "integer"},
        9, "x", "Input should be a valid integer, unable to parse string as an integer - at `$.it`",
    ),
    "digits, which only pydantic counts": (
        Annotated[Decimal, Field(max_digits=3)],
        {},
        "1.25", "1.2345", "Decimal input should have no more than 3 digits in total - at `$.it`",
    ),
    "a discriminator": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {},
        {"kind": "cat", "lives": 9}, {"kind": "cat", "lives": "many"},
        "Input should be a valid integer, unable to parse string as an integer - at `$.it.lives`",
    ),
    "msgspec": (
        Annotated[Decimal, Meta(gt=1, description="Price.")],
        {"type": "string", "format": "decimal", "description": "Price. (must be more than 1)"},
        "1.1", 1, "Expected a value more than 1 - at `$.it`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(LIMITED))
def test_a_constraint_is_told_and_enforced(kind: str) -> None:
    hint, schema, fits, breaks, said = LIMITED[kind]
    ran: list[object] = []

    def keep(it: Any) -> None:
        ran.append(it)

    keep.__annotations__["it"] = hint
    made = tool(keep)
    assert schema in ({}, made.spec.schema["properties"]["it"])
    FakeToolContext("/").now(made, it=fits)
    assert len(ran) == 1
    with pytest.raises(ToolError) as error:
        FakeToolContext("/").now(made, it=breaks)
    assert str(error.value) == f"The input of 'keep' is invalid: {said}. Nothing was done: call it again."
    assert len(ran) == 1


def test_fields_of_pydantic_as_defaults() -> None:
    @tool
    def rate(
        stars: int = Field(3, ge=1, le=5, description="How good."),
        words: Annotated[list[str], Field(default_factory=lambda: ["fine"])] = Field(max_length=2),  # noqa: B008
        name: str = Field(description="Of what.", examples=["soup"], json_schema_extra={"x-kind": "name"}),
    ) -> str:
        """Rate it.

        Args:
            stars: Not used, since the field has words.
        """
        return f"{name} {stars} {words}"

    told = rate.spec.schema
    assert told["required"] == ["name"]
    assert told["properties"]["stars"] == {"type": "integer", "minimum": 1, "maximum": 5, "description": "How good."}
    assert told["properties"]["name"] == {
        "type": "string", "description": "Of what.", "examples": ["soup"], "x-kind": "name",
    }  # fmt: skip
    assert FakeToolContext("/").now(rate, name="soup").text == "soup 3 ['fine']"
    with pytest.raises(ToolError, match=r"length <= 2 - at `\$\.words`"):
        FakeToolContext("/").now(rate, name="soup", words=["a", "b", "c"])


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (bytes, "'it' is of type bytes, which JSON cannot hold: take a str, such as base64"),
        (list[bytearray], "'it' is of type bytearray, which JSON cannot hold"),
        (Annotated[int, Field(alias="x")], "'it' has a Field with 'alias': give it the name that the model writes"),
        (Annotated[dt.datetime, at.Timezone("UTC")], "has the constraint Timezone(tz='UTC'), which is not supported"),
        (re.Pattern, "which has no JSON Schema: use str, int"),
        (tuple[()], "which has no JSON Schema"),
        (dict[Path, City], "has keys of type <class 'pathlib.Path'>, which cannot be read from JSON: use str"),
        (pydantic.ImportString | complex, "which has no JSON Schema"),
    ],
)
def test_what_json_cannot_hold_is_refused(hint: Any, message: str) -> None:
    def keep(it: Any) -> None: ...

    keep.__annotations__["it"] = hint
    with pytest.raises(UsageError) as error:
        tool(keep)
    assert str(error.value).startswith("the tool 'keep': the parameter 'it' ")
    assert message in str(error.value)


def test_notes_of_others_are_ignored() -> None:
    assert JsonType(Annotated[int, object(), None]).schema == WHOLE


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value", "problems"),
    [
        (int, "x", ["Expected `int`, got `str`"]),
        (list[City], {}, ["Expected `array`, got `object`"]),
        (list[City], [{"name": "a"}, 7], ["Input should be an object - at `$[1]`"]),
        (City, {}, ["Field required - at `$.name`"]),
        (Trip, {"days": [], "more": 1}, ["Extra inputs are not permitted - at `$.more`"]),
        (dict[str, City], {"a": {}}, ["Field required - at `$['a'].name`"]),
        (tuple[Path, int], ["a"], ["Expected `array` of length 2, got 1 - at `$`"]),
        (Path, 7, ["Expected `str`, got `int`"]),
        (Shape, {"type": "ball", "at": "a", "b": 1},
         ["Invalid value 'ball' - at `$.type`", "Object contains unknown field `b`"]),
        (Shape, {}, ["Object missing required field `at`", "Object missing required field `type`"]),
        (City | None, {}, ["Field required - at `$.name`"]),
        (City | Shape, 7,
         ["`$` fits none of 2 alternatives (Input should be an object; or Expected `object`, got `int`)"]),
        (Mixed, "one", ["Invalid enum value 'one'"]),
        (Ranges, {"one": {"low": 2, "high": 1}}, ["'low' is above 'high' - at `$.one`"]),
        (list[Path], list(range(12)),
         [*[f"Expected `str`, got `int` - at `$[{n}]`" for n in range(10)], "and 2 more problems"]),
        (str, "\ud800", None),
        (list[City], ["\ud800"], ["The value contains half a character (a lone surrogate)"]),
    ],
)  # fmt: skip
def test_errors_name_the_place_as_the_model_wrote_it(hint: Any, value: Any, problems: list[str] | None) -> None:
    if problems is None:
        assert JsonType(hint).decode(value) == value
        return
    with pytest.raises(InvalidValueError) as error:
        JsonType(hint).decode(value)
    assert list(error.value.problems) == problems


def test_a_value_without_end() -> None:
    value: Any = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "left": value}
    with pytest.raises(InvalidValueError, match="nested too deeply"):
        JsonType(Tree).decode(value)


# --- every value, there and back --------------------------------------------------------------------------------------

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (bool, st.booleans()),
    (str, st.text()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (dt.datetime, st.datetimes(timezones=st.just(UTC))),
    (dt.timedelta, st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=10_000))),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Path, st.text("ab./", min_size=1).map(Path)),
    (City, st.builds(City, name=st.text(), zip=st.integers(1, 99_999))),
    (Mixed, st.sampled_from(Mixed)),
]


def containers(inner: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    hint, values = inner
    return st.sampled_from(
        [
            (make_generic(list, hint), st.lists(values, max_size=3)),
            (make_generic(tuple, hint, ...), st.lists(values, max_size=3).map(tuple)),
            (make_generic(tuple, hint, int), st.tuples(values, st.integers())),
            (make_generic(dict, str, hint), st.dictionaries(st.text(), values, max_size=3)),
            (hint | None, st.none() | values),
        ]
    )


TYPED = st.recursive(st.sampled_from(LEAVES), lambda inner: inner.flatmap(containers), max_leaves=4)


@given(st.data())
def test_every_value_survives_the_way_to_the_model_and_back(data: st.DataObject) -> None:
    hint, values = data.draw(TYPED)
    value = data.draw(values)
    found = JsonType(hint)
    said = msgspec.json.decode(encode_json(value))
    assert Schema(found.schema).violations(said) == []
    assert found.decode(said) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "zip", "city", "stars"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from([Order, Row, Shape, Tree, list[City] | None, tuple[Path, City], Trip, Mixed]), JSON)
def test_any_value_is_decoded_or_told_what_is_wrong(hint: Any, value: Any) -> None:
    with suppress(InvalidValueError):
        JsonType(hint).decode(value)


def test_pydantic_is_not_loaded_for_other_types() -> None:
    code = (
        "import sys; from dataclasses import dataclass; from pathlib import Path; from mainspring import tool\n"
        "@dataclass\nclass A:\n    p: Path\n"
        "@tool\ndef f(a: A, b: int | None = None) -> None: ...\n"
        "print(f.parse({'a': {'p': 'x'}}).a, {'pydantic', 'annotated_types'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "A(p=PosixPath('x')) set()\n"
