"""Typed answers: the schema that the model gets, the value that comes back, and what happens to wrong ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from mainspring import Agent, Answer, OutputError, UsageError, ask
from mainspring.core.reasons import Cause
from mainspring.testing import Scripted, ScriptedReply, TestModel, call, says


@dataclass
class Weather:
    city: str
    celsius: float


class Reading(msgspec.Struct):
    celsius: float


class Forecast(TypedDict):
    days: list[int]


class Report(pydantic.BaseModel):
    title: str
    stars: Annotated[int, pydantic.Field(ge=1, le=5)]

    @pydantic.field_validator("title")
    @classmethod
    def has_words(cls, title: str) -> str:
        if " " not in title:
            raise ValueError("a title has two words")
        return title


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def gives(**output: Any) -> ScriptedReply:
    return says(call("StructuredOutput", **output))


def ask_now(output: Any, *replies: ScriptedReply) -> tuple[Answer[Any], Scripted]:
    model = Scripted(replies)
    return asyncio.run(ask("go", model=model, output=output)), model


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Weather, {"city": "Bonn", "celsius": 7}, Weather("Bonn", 7)),
        (Reading, {"celsius": 7.5}, Reading(7.5)),
        (Forecast, {"days": [1, 2]}, {"days": [1, 2]}),
        (Report, {"title": "Good work", "stars": 5}, Report(title="Good work", stars=5)),
        (Colour, {"value": "red"}, Colour.RED),
        (list[Weather], {"value": [{"city": "Bonn", "celsius": 7}]}, [Weather("Bonn", 7)]),
        (Weather | Report, {"value": {"title": "Good work", "stars": 1}}, Report(title="Good work", stars=1)),
        (int | None, {"value": None}, None),
        (int, {"value": 5}, 5),
        (bool, {"value": True}, True),
        (Literal["yes", "no"], {"value": "no"}, "no"),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Annotated[int, msgspec.Meta(ge=3)], {"value": 3}, 3),
    ],
    ids=str,
)
def test_a_type_and_its_value(kind: Any, given: dict[str, Any], value: Any) -> None:
    answer, model = ask_now(kind, gives(**given))
    assert (answer.output, type(answer.output)) == (value, type(value))
    schema = model.conversations[0].tools[0].schema
    assert schema["type"] == "object"
    assert msgspec.json.decode(answer.text) == given


def test_what_is_wrong_goes_back_to_the_model() -> None:
    replies = (gives(title="Work", stars=5), gives(title="Good work", stars=6), gives(title="Good work", stars=5))
    answer, model = ask_now(Report, *replies)
    assert answer.output.stars == 5
    told = [model.conversations[number].results[0].text for number in (1, 2)]
    assert "a title has two words" in told[0]
    assert "stars" in told[1]


def test_text_is_not_enough() -> None:
    answer, _ = ask_now(int, says("It is five."), gives(value=5))
    assert answer.output == 5


def test_the_attempts_are_bounded() -> None:
    model = Scripted([gives(value="five")] * 9)
    with pytest.raises(OutputError, match="no valid output") as raised:
        asyncio.run(ask("go", model=model, output=int))
    assert raised.value.cause is Cause.STRUCTURED_OUTPUT
    assert len(model.requests) == 5
    assert raised.value.answer is not None
    assert len(raised.value.answer.messages) > 5


def test_a_type_that_json_cannot_hold_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="output"):
        Agent(output=asyncio.Event)
    with pytest.raises(UsageError, match="'output' needs a tool call, so 'tool_choice' cannot be 'none'"):
        Agent(output=int, tool_choice="none")


def test_the_validators_of_the_program_run_once() -> None:
    seen: list[str] = []

    class Counted(pydantic.BaseModel):
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def count(cls, name: str) -> str:
            seen.append(name)
            return name

    ask_now(Counted, gives(name="a"))
    assert seen == ["a"]


@pytest.mark.parametrize(
    "kind", [Weather, Reading, Forecast, Colour, list[Weather], Weather | Report, int, Literal["a"]]
)
def test_the_test_model_fills_any_type(kind: Any) -> None:
    assert Agent(TestModel(), output=kind).run_sync("go").output is not None
