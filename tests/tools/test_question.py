"""`AskUserQuestion`: how a question looks, what an answer means, and what is never asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.testing.world import FakeToolContext
from mainspring.tools.question import ASK_USER_QUESTION, QuestionOption, UserQuestion, match_answer, render_question
from tools.desk import Desk

NAME = "AskUserQuestion"
DATABASE = {
    "question": "Which database?",
    "header": "Storage",
    "options": [{"label": "SQLite", "description": "One file."}, {"label": "PostgreSQL"}],
    "multiSelect": False,
}
COLOURS = {
    "question": "Which colours?",
    "options": [{"label": "Red"}, {"label": "Green"}, {"label": "Blue"}],
    "multiSelect": True,
}


def test_answers_of_the_models_own_making_are_not_taken() -> None:
    desk = Desk([ASK_USER_QUESTION], answers=("2",))
    found = desk.now(NAME, questions=[{**DATABASE, "surprise": 1}], answers={"Which database?": "SQLite"}).answer
    assert found.data["answers"] == {"Which database?": "PostgreSQL"}
    assert "Unknown field 'questions[0].surprise', 'answers'" in found.text


def test_questions_are_asked_one_after_another() -> None:
    desk = Desk([ASK_USER_QUESTION], answers=("2", "1, blue"))
    found = desk.now(NAME, questions=[DATABASE, COLOURS]).answer
    first, second = desk.asked
    assert first == (
        "(1 of 2) Storage\nWhich database?\n  1. SQLite: One file.\n  2. PostgreSQL\nA number, or words of your own."
    )
    assert second == (
        "(2 of 2)\nWhich colours?\n  1. Red\n  2. Green\n  3. Blue\nNumbers, with commas between them, or words of "
        "your own."
    )
    assert found.text == (
        'User has answered your questions: "Which database?"="PostgreSQL", "Which colours?"="Red, Blue"'
    )
    assert found.data["answers"] == {"Which database?": "PostgreSQL", "Which colours?": "Red, Blue"}
    both = [{"label": "SQLite", "description": "One file."}, {"label": "PostgreSQL", "description": ""}]
    assert found.data["questions"][0] == {**DATABASE, "options": both}
    assert found.shown is not None
    assert (found.shown.summary, found.shown.body) == (
        "Ask: Which database? (and 1 more)", "Which database? PostgreSQL\nWhich colours? Red, Blue",
    )  # fmt: skip


def test_one_question_has_no_number() -> None:
    plain = UserQuestion("Go?", [QuestionOption("Yes"), QuestionOption("No")])
    assert render_question(plain) == "Go?\n  1. Yes\n  2. No\nA number, or words of your own."


ONE = UserQuestion("?", [QuestionOption("Red"), QuestionOption("Dark  Green"), QuestionOption("3")])
MANY = msgspec.structs.replace(ONE, multi_select=True)


@pytest.mark.parametrize(
    ("question", "said", "means"),
    [
        (ONE, "1", "Red"),
        (ONE, " 2. ", "Dark  Green"),
        (ONE, "red", "Red"),
        (ONE, "dark green\n", "Dark  Green"),
        (ONE, "3", "3"),
        (ONE, "4", "4"),  # there is none: the words of the person
        (ONE, "1, 2", "1, 2"),
        (ONE, "red or blue", "red or blue"),
        (ONE, "", "(no answer)"),
        (ONE, "  ", "(no answer)"),
        (MANY, "1", "Red"),
        (MANY, "2,1", "Dark  Green, Red"),
        (MANY, "1,red, 1", "Red"),
        (MANY, "1, and pink", "1, and pink"),
        (MANY, "1,", "1,"),
        (MANY, "", "(no answer)"),
    ],
)
def test_what_an_answer_means(question: UserQuestion, said: str, means: str) -> None:
    assert match_answer(question, said) == means


def nested(depth: int) -> Any:
    made: Any = "x"
    for _ in range(depth):
        made = [made]
    return made


def questions(**change: Any) -> dict[str, Any]:
    return {"questions": [{**DATABASE, **change}]}


def options(*labels: str) -> list[dict[str, str]]:
    return [{"label": label} for label in labels]


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "missing required field `questions`"),
        ({"questions": []}, "Expected `array` of length >= 1 - at `$.questions`"),
        ({"questions": [DATABASE] * 5}, "Expected `array` of length <= 4 - at `$.questions`"),
        ({"questions": "Which?"}, "Expected `array`, got `str` - at `$.questions`"),
        ({"questions": [7]}, "Expected `object`, got `int` - at `$.questions[...]`"),
        ({"questions": [DATABASE, DATABASE]}, "Two questions are the same. Nothing was asked"),
        (questions(question=None), "Expected `str`, got `null` - at `$.questions[...].question`"),
        (questions(question=""), "length >= 1 - at `$.questions[...].question`"),
        (questions(question="x" * 10_000_000), "length <= 2000 - at `$.questions[...].question`"),
        (questions(options=options("a")), "Expected `array` of length >= 2 - at `$.questions[...].options`"),
        (questions(options=options(*"abcde")), "Expected `array` of length <= 4 - at `$.questions[...].options`"),
        (questions(options=options("A", " a")), "Two options of 'Which database?' share a label. Nothing was asked"),
        (questions(options=["a", "b"]), "Expected `object`, got `str` - at `$.questions[...].options[...]`"),
        (questions(multiSelect="yes"), "Expected `bool`, got `str` - at `$.questions[...].multiSelect`"),
        (questions(header=nested(40)), "Expected `str`, got `array`"),
        (questions(header=nested(50_000)), "is nested too deeply"),
    ],
)
def test_wrong_inputs(input: dict[str, Any], message: str) -> None:
    desk = Desk([ASK_USER_QUESTION], answers=("1",) * 5)
    found = desk.now(NAME, **input).answer
    assert found.is_error
    assert message.replace("[...]", "[0]") in found.text.replace("[...]", "[0]")
    assert len(found.text) < 500
    assert desk.asked == []


def test_what_is_known_before_it_runs() -> None:
    given = ASK_USER_QUESTION.parse({"questions": [DATABASE]})
    tool = ASK_USER_QUESTION
    assert (tool.is_read_only(given), tool.is_concurrent(given), tool.is_repeatable(given)) == (True, False, True)
    assert tool.line(given) == "Ask: Which database?"
    assert len(msgspec.json.encode(tool.spec)) <= 1_800
    assert (
        FakeToolContext("/", answers=("1",)).now(tool, questions=[DATABASE]).text.endswith('"Which database?"="SQLite"')
    )
