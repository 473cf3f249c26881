"""Plan mode: entered by the model, left only with a person's yes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.tools.plan import is_approved, plan_tools
from tools.desk import Desk


class Stage:
    """A session's mode, and everything that changed it."""

    def __init__(self, mode: str, *answers: str) -> None:
        self.mode = mode
        self.changes: list[str] = []
        self.fails = False
        self.desk = Desk(plan_tools(lambda: self.mode, self.change), answers=answers)

    async def change(self, mode: str) -> None:
        if self.fails:
            raise OSError("the journal is full")
        self.changes.append(mode)
        self.mode = mode

    def enter(self) -> Any:
        return self.desk.now("EnterPlanMode").answer

    def leave(self, plan: str = "1. Do it.\n") -> Any:
        return self.desk.now("ExitPlanMode", plan=plan).answer


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
def test_a_yes_leads_back_to_the_mode_before(mode: str) -> None:
    stage = Stage(mode, "Yes.")
    entered = stage.enter()
    assert (entered.is_error, entered.data, stage.changes) == (False, {"mode": "plan"}, ["plan"])
    found = stage.leave()
    assert stage.desk.asked == [
        f"1. Do it.\n\nCarry out this plan, in mode '{mode}'? 'yes', or say what should be different."
    ]
    assert found.text == f"The user approved the plan. The mode is now '{mode}': carry it out."
    assert found.data == {"plan": "1. Do it.\n", "approved": True, "mode": mode}
    assert stage.changes == ["plan", mode]


@pytest.mark.parametrize(
    ("said", "words"),
    [("no", ""), ("", ""), ("DENY", ""), ("yes, but test it first", "\nThey said: yes, but test it first")],
)
def test_anything_else_is_a_no(said: str, words: str) -> None:
    stage = Stage("default", said, "yes")
    stage.enter()
    found = stage.leave()
    assert found.text == (
        f"The user did not approve the plan: stay in mode 'plan', revise it, then call ExitPlanMode again.{words}"
    )
    assert (found.is_error, found.data) == (False, {"plan": "1. Do it.\n", "approved": False, "said": said})
    assert (stage.mode, stage.changes) == ("plan", ["plan"])
    stage.leave("better")
    assert stage.mode == "default"  # where to go back to is still known


@pytest.mark.parametrize("said", ["yes", " Y ", "ok", "OK!", "allow", "approve", "Go ahead."])
def test_yes(said: str) -> None:
    assert is_approved(said)


@pytest.mark.parametrize("said", ["", "n", "yes and no", "okay?", "y e s", "{}", "allowed if"])
def test_no(said: str) -> None:
    assert not is_approved(said)


def test_a_session_that_began_in_plan_mode_goes_to_the_default() -> None:
    stage = Stage("plan", "yes")
    stage.leave()
    assert stage.changes == ["default"]


def test_where_to_go_back_to_is_forgotten_once_used() -> None:
    stage = Stage("bypassPermissions", "yes", "yes")
    stage.enter()
    stage.leave()
    stage.mode = "plan"  # by the person
    stage.leave()
    assert stage.changes == ["plan", "bypassPermissions", "default"]


def test_a_mode_that_the_person_chose_meanwhile_is_kept() -> None:
    stage = Stage("default", "yes")
    stage.enter()

    async def ask(text: str, about: Any = None) -> str:
        stage.mode = "acceptEdits"
        return "yes"

    stage.desk.ask = ask  # type: ignore[method-assign]
    found = stage.leave()
    assert (stage.mode, stage.changes) == ("acceptEdits", ["plan"])
    assert found.text == "The user approved the plan. The mode is now 'acceptEdits': carry it out."


def test_outside_of_its_mode() -> None:
    stage = Stage("default")
    found = stage.leave()
    assert (found.is_error, found.text) == (
        True, "The mode is not 'plan', so there is no plan to approve: go on with the work.",
    )  # fmt: skip
    stage.mode = "plan"
    found = stage.enter()
    assert (found.is_error, found.text) == (
        True, "The mode is already 'plan': explore, then call ExitPlanMode with the plan.",
    )  # fmt: skip
    assert (stage.desk.asked, stage.changes) == ([], [])


def test_a_change_that_fails_is_not_remembered() -> None:
    stage = Stage("acceptEdits", "yes")
    stage.fails = True
    assert stage.enter().text == "The tool itself failed: OSError: the journal is full"
    stage.fails, stage.mode = False, "plan"
    stage.leave()
    assert stage.changes == ["default"]


def nested(depth: int) -> Any:
    made: Any = "x"
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("name", "input", "message"),
    [
        ("ExitPlanMode", {}, "missing required field `plan`"),
        ("ExitPlanMode", {"plan": 7}, "Expected `str`, got `int` - at `$.plan`"),
        ("ExitPlanMode", {"plan": ""}, "length >= 1 - at `$.plan`"),
        ("ExitPlanMode", {"plan": " \n"}, "The plan is empty. The user was not asked"),
        ("ExitPlanMode", {"plan": "x" * 50_001}, "length <= 50000 - at `$.plan`"),
        ("ExitPlanMode", {"plan": nested(50)}, "Expected `str`, got `array`"),
        ("ExitPlanMode", {"plan": nested(50_000)}, "is nested too deeply"),
    ],
)
def test_wrong_inputs(name: str, input: dict[str, Any], message: str) -> None:
    stage = Stage("plan" if name == "ExitPlanMode" else "default", "yes")
    found = stage.desk.now(name, **input).answer
    assert found.is_error
    assert message in found.text
    assert len(found.text) < 500
    assert (stage.desk.asked, stage.changes) == ([], [])


def test_what_is_known_before_they_run() -> None:
    enter, leave = plan_tools(lambda: "default", Stage("default").change)
    for tool, input, line in ((enter, {}, "Enter plan mode"), (leave, {"plan": "x"}, "Show the plan")):
        given = tool.parse(input)
        assert (tool.is_read_only(given), tool.is_concurrent(given), tool.line(given)) == (False, False, line)
        assert len(msgspec.json.encode(tool.spec)) <= 500
