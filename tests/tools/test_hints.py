"""The types that parameters of a custom tool may have: what the model is told of each, that an input which follows it
is taken, and what the function gets."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, Required, TypedDict

import msgspec
import pytest
from msgspec import Meta, Struct

from mainspring.core.errors import ToolError, UsageError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.custom import tool
from mainspring.tools.schema import schema_of


class Circle(Struct, tag="circle"):
    radius: int


class Square(Struct, tag="square", tag_field="shape"):
    side: int


class Box(Struct, tag="box", tag_field="shape"):
    side: int


class Pair(Struct, array_like=True):
    left: int


class Ends(Struct):
    first: int
    last: int | None  # it must be said, and may be null


@dataclass
class Place:
    town: Annotated[str, "Its name."]
    zip: int = 0
    near: list[Place2] = field(default_factory=list)


@dataclass
class Place2:
    town: str


@dataclass
class Box2:
    side: int


class Book(TypedDict):
    title: str
    year: NotRequired[int]


class Shelf(Book, total=False):
    place: str
    books: Required[list[Book]]


class Mood(enum.Enum):
    KIND = "kind"
    CURT = "curt"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Number = NewType("Number", int)

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
NULL: dict[str, Any] = {"type": "null"}


def thing(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def tagged(field: str, tag: str, **properties: Any) -> dict[str, Any]:
    return thing([field, *properties], **{field: {"type": "string", "enum": [tag]}}, **properties)


BOOK = thing(["title"], title=TEXT, year=WHOLE)

# A hint, what the model is told, an input, and what the function gets of it.
KNOWN: dict[str, tuple[Any, Any, Any, Any]] = {
    "tagged struct": (Circle, tagged("type", "circle", radius=WHOLE), {"type": "circle", "radius": 1}, Circle(1)),
    "union of structs": (
        list[Square | Box],
        {"type": "array", "items": {"anyOf": [tagged("shape", one, side=WHOLE) for one in ("square", "box")]}},
        [{"shape": "box", "side": 2}],
        [Box(2)],
    ),
    "dataclass": (
        Place,
        thing(
            ["town"],
            town={"type": "string", "description": "Its name."},
            zip=WHOLE,
            near={"type": "array", "items": thing(["town"], town=TEXT)},
        ),
        {"town": "Ulm", "near": [{"town": "Neu-Ulm"}]},
        Place("Ulm", 0, [Place2("Neu-Ulm")]),
    ),
    "typed dict": (Book, BOOK, {"title": "Emma"}, {"title": "Emma"}),
    "inherited": (
        Shelf,
        thing(["title", "books"], title=TEXT, year=WHOLE, place=TEXT, books={"type": "array", "items": BOOK}),
        {"title": "a", "books": [{"title": "b", "year": 1815}]},
        {"title": "a", "books": [{"title": "b", "year": 1815}]},
    ),
    "dataclasses, the first that fits": (
        Box2 | Place2,
        {"anyOf": [thing(["side"], side=WHOLE), thing(["town"], town=TEXT)]},
        {"town": "Ulm"},
        Place2("Ulm"),
    ),
    "enum": (Mood, {"type": "string", "enum": ["kind", "curt"]}, "curt", Mood.CURT),
    "whole enum": (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
    "new type": (Number, WHOLE, 7, 7),
    "sequence": (Sequence[Number], {"type": "array", "items": WHOLE}, [1], [1]),
    "mapping": (Mapping[str, int], {"type": "object", "additionalProperties": WHOLE}, {"a": 1}, {"a": 1}),
    "keys": (dict[int, str], {"type": "object", "additionalProperties": TEXT}, {"1": "a"}, {1: "a"}),
    "list": (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
    "null": (int | None, {"anyOf": [WHOLE, NULL]}, None, None),
    "optional": (
        Optional[Literal["a"]],  # noqa: UP045  # what many people write
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
        "a",
        "a",
    ),
    "null in a list": (list[int | None], {"type": "array", "items": {"anyOf": [WHOLE, NULL]}}, [None], [None]),
    "null in a struct": (Ends, thing(["first", "last"], first=WHOLE, last={"anyOf": [WHOLE, NULL]}),
                         {"first": 1, "last": None}, Ends(1, None)),
    "described": (
        Annotated[list[Annotated[int, Meta(ge=1)]] | None, "Some."],
        {"anyOf": [{"type": "array", "items": {"type": "integer", "minimum": 1}}, NULL], "description": "Some."},
        [2],
        [2],
    ),
}  # fmt: skip


@pytest.mark.covers("N-09")
@pytest.mark.parametrize("kind", list(KNOWN))
def test_what_is_told_is_taken(kind: str) -> None:
    hint, told, input, given = KNOWN[kind]
    got: list[object] = []

    def keep(it: Any) -> None:
        got.append(it)

    keep.__annotations__["it"] = hint
    made = tool(keep)
    assert made.spec.schema == thing(["it"], it=told)
    FakeToolContext("/").now(made, it=input)
    assert got == [given]
    assert type(got[0]) is type(given)


def test_what_may_be_left_out_need_not_be_null() -> None:
    @tool
    def find(word: str | None = None, most: Annotated[int | None, "How many."] = None) -> str:
        return f"{word} {most}"

    assert find.spec.schema == thing([], word=TEXT, most={"type": "integer", "description": "How many."})
    assert FakeToolContext("/").now(find, word=None).text == "None None"


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (Pair, "'it' is of type <class 'tools.test_hints.Pair'>"),
        (list[Pair], "'it' is of type <class 'tools.test_hints.Pair'>"),
        (Literal[b"x"], "'it' is of type typing.Literal[b'x']"),
        (object, "'it' is of type <class 'object'>"),
    ],
)
def test_what_nobody_could_follow_is_refused_when_it_is_decorated(hint: Any, message: str) -> None:
    def keep(it: Any) -> None: ...

    keep.__annotations__["it"] = hint
    with pytest.raises(UsageError) as error:
        tool(keep)
    assert message in str(error.value)


class Inner(Struct, forbid_unknown_fields=True):
    mood: Mood


class Outer(Struct):
    level: Literal["low", "high"] = "low"
    inner: list[Inner] = []
    named: dict[str, Inner] = {}
    either: Square | Box | None = None


@pytest.mark.parametrize(
    ("it", "said"),
    [
        ({"level": "mid"}, "Invalid enum value 'mid' - at `$.it.level`. It takes 'low', 'high'."),
        ({"inner": [{"mood": "x"}]}, "Invalid enum value 'x' - at `$.it.inner[0].mood`. It takes 'kind', 'curt'."),
        (
            {"named": {"a": {"mood": "x"}}},
            "Invalid enum value 'x' - at `$.it.named[...].mood`. It takes 'kind', 'curt'.",
        ),
        ({"inner": [{"more": 1}]}, "Object contains unknown field `more` - at `$.it.inner[0]`. It takes mood."),
        ({"either": {"shape": "ball"}}, "Invalid value 'ball' - at `$.it.either.shape`."),
    ],
)
def test_a_word_that_is_none_of_those_that_are_known_is_told_which_are(it: Any, said: str) -> None:
    @tool
    def act(it: Outer) -> None: ...

    with pytest.raises(ToolError) as error:
        FakeToolContext("/").now(act, it=it)
    assert str(error.value) == f"The input of 'act' is invalid: {said} Nothing was done: call it again."


def test_a_tool_that_takes_nothing_says_so() -> None:
    @tool
    def look() -> None: ...

    with pytest.raises(ToolError, match=r"unknown field `a`\. It takes nothing\. Nothing was done"):
        FakeToolContext("/").now(look, a=1)


def test_our_own_schemas_say_what_a_struct_is() -> None:
    assert schema_of(Circle) == tagged("type", "circle", radius=WHOLE)
    with pytest.raises(msgspec.ValidationError, match="missing required field `shape`"):
        msgspec.convert({"side": 1}, Square | Box)
