"""Questions of running calls, as the tools ask them and as they understand the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.agent.approvals import HostQuestions
from mainspring.agent.host import NoHost
from mainspring.agent.permission_updates import ApprovalScopes, PermissionUpdates, deny_approval
from mainspring.cli.tui.dialog import Dialog, QuestionForm, answer_for_choice
from mainspring.cli.tui.host import QuestionContext, QuestionQueue
from mainspring.cli.tui.menu import MenuSelection
from mainspring.cli.tui.permission_dialog import make_text_dialog
from mainspring.core.config import Config
from mainspring.core.errors import DeclinedError, ToolError
from mainspring.core.messages import ToolCall
from mainspring.core.models import DEFAULT_MODEL
from mainspring.engine import deps
from mainspring.engine.session import EngineSession
from mainspring.mcp.elicitation import ask_form
from mainspring.permissions.checker import PermissionChecker
from mainspring.testing.world import FakeToolContext, World
from mainspring.text import format_call_input
from mainspring.tools.base import Approval, ToolAnswer, Workspace, parse_approval
from mainspring.tools.plan import plan_tools
from mainspring.tools.question import ASK_USER_QUESTION, QuestionOption, UserQuestion, match_answer
from tui.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, widths, words


class Host(NoHost):
    def __init__(self, questions: QuestionQueue) -> None:
        self.approve, self.ask = questions.approve, questions.ask  # type: ignore[method-assign]


async def caught_up() -> None:
    pass


class Person:
    """Reads what is put before them, then presses the keys that the test has for it."""

    def __init__(self, *answers: Sequence[str], call: ToolCall | None = None) -> None:
        self.answers, self.call, self.clock = list(answers), call, Clock()
        self.scripted = bool(answers)  # else the test presses the keys itself
        self.seen: list[list[str]] = []
        self.open_now: Dialog[Any] | None = None
        self.interrupts = 0
        self.unheard = ""
        self.session = EngineSession(World([]), Config(model=DEFAULT_MODEL))
        updates = PermissionUpdates(self.session, PermissionChecker(()), Workspace("/"), may_bypass=False)
        self.questions = QuestionQueue(
            QuestionContext(
                place=self,
                granting=ApprovalScopes(lambda: updates),
                tell=self.never,
                warn=self.never,
                interrupt=self.interrupt,
                now=self.clock,
            )
        )
        self.asked = HostQuestions(Host(self.questions), caught_up, lambda _: None, updates.apply)

    def open(self, modal: Dialog[Any]) -> None:
        assert self.open_now is None
        self.open_now = modal
        if self.scripted:
            asyncio.get_running_loop().call_soon(self.play, modal, self.answers.pop(0))

    def play(self, modal: Dialog[Any], pressed: Sequence[str]) -> None:
        self.look()
        for key in pressed:
            press(modal, key)
            self.look()

    def look(self) -> None:
        assert self.open_now is not None
        self.seen.append(plain(self.open_now.draw(60, 24)))
        self.clock.now += 1
        self.open_now.settle()

    def close(self, modal: Dialog[Any]) -> None:
        assert self.open_now is modal
        self.open_now = None
        self.unheard += modal.unheard

    def redraw(self) -> None:
        pass

    def interrupt(self) -> None:
        self.interrupts += 1

    def never(self, words: str) -> None:
        raise AssertionError(words)

    async def ask(self, text: str, about: Any = None) -> str:
        call_id = self.call.id if self.call else "c"
        return await self.asked.answer(deps.CallQuestion("q", call_id, text, about, self.call))


class Calling(FakeToolContext):
    def __init__(self, person: Person) -> None:
        super().__init__("/")
        self._person = person

    async def ask(self, text: str, about: Any = None) -> str:
        return await self._person.ask(text, about)


# --- AskUserQuestion ------------------------------------------------------------------------------------------------

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}
SIZES = {
    "question": "Which sizes?",
    "options": [{"label": "S, small"}, {"label": "M"}, {"label": "L"}],
    "multiSelect": True,
}


def asked(person: Person, *questions: dict[str, Any]) -> ToolAnswer:
    person.call = ToolCall("toolu_1", "AskUserQuestion", {"questions": list(questions)})
    return asyncio.run(Calling(person).use(ASK_USER_QUESTION, questions=list(questions)))


def answers(found: ToolAnswer) -> dict[str, str]:
    assert isinstance(found.data, dict)
    return dict[str, str](found.data["answers"])


@pytest.mark.covers("N-06")
def test_a_question_with_options() -> None:
    person = Person(["2"])
    assert answers(asked(person, COLOUR)) == {"Which colour?": "blue"}
    assert person.seen[0][1:7] == [
        "Colour",
        "  Which colour?",
        "",
        "❯ 1. red  warm",
        "  2. blue  cold",
        "  3. Other (type your own answer)",
    ]


def test_words_of_ones_own() -> None:
    assert answers(asked(Person(["3", "green, or", "space", "grey", "enter"]), COLOUR)) == {
        "Which colour?": "green, or grey"
    }
    assert answers(asked(Person(["3", "2", "enter"]), COLOUR)) == {"Which colour?": '"2"'}  # not the second option


def test_other_opens_with_enter_and_wants_words() -> None:
    person = Person(["up", "enter", "enter", "green", "enter"])
    assert answers(asked(person, COLOUR)) == {"Which colour?": "green"}
    assert "❯ 3. Other:  type your own answer" in person.seen[2]
    assert "❯ 3. Other:  type your own answer" in person.seen[3], "there is no answer without words"


def test_what_a_form_does_not_hear_is_kept_for_the_input_line() -> None:
    person = Person(["x", "1", "y", "space", "2", "enter", "z", "1"])
    assert answers(asked(person, COLOUR, SIZES)) == {"Which colour?": "red", "Which sizes?": "S, small, M"}
    assert person.unheard == "xyz"
    form = QuestionForm([UserQuestion(**_of(COLOUR))], Clock())
    form.press("escape")
    form.press("text", "late")
    assert form.unheard == "late"


def test_several_options() -> None:
    assert answers(asked(Person(["space", "3", "enter"]), SIZES)) == {"Which sizes?": "S, small, L"}
    assert answers(asked(Person(["2", "4", "and XL", "enter"]), SIZES)) == {"Which sizes?": "M, and XL"}


def test_several_questions_and_a_look_at_the_answers() -> None:
    person = Person(["1", "2", "enter", "enter"])
    assert answers(asked(person, COLOUR, SIZES)) == {"Which colour?": "red", "Which sizes?": "M"}
    assert [lines[1] for lines in person.seen] == [
        "Colour (1 of 2)",
        "Question (2 of 2)",
        "Question (2 of 2)",
        "Your answers",
        "Your answers",
    ]
    assert person.seen[3][2:10] == [
        "  Which colour?",
        "  ⎿ red",
        "  Which sizes?",
        "  ⎿ M",
        "",
        "❯ 1. Send the answers",
        "  2. Change the answer to: Colour",
        "  3. Change the answer to: question 2",
    ]


def test_an_answer_can_be_changed() -> None:
    person = Person(["1", "2", "enter", "2", "2", "1"])
    assert answers(asked(person, COLOUR, SIZES)) == {"Which colour?": "blue", "Which sizes?": "M"}
    assert "  Answered: red" in person.seen[4]
    person = Person(["1", "s-tab", "2", "3", "enter", "1"])
    assert answers(asked(person, COLOUR, SIZES)) == {"Which colour?": "blue", "Which sizes?": "L"}


@pytest.mark.parametrize("pressed", [["escape"], ["1", "escape"], ["1", "2", "enter", "escape"]])
def test_whoever_leaves_has_not_answered(pressed: list[str]) -> None:
    person = Person(pressed)
    with pytest.raises(ToolError, match="does not want to answer"):
        asked(person, COLOUR, SIZES)
    assert person.open_now is None
    assert person.interrupts == 0


def test_ctrl_c_also_ends_the_run() -> None:
    person = Person(["1", "c-c"])
    with pytest.raises(ToolError):
        asked(person, COLOUR, SIZES)
    assert person.interrupts == 1


def test_a_call_that_a_hook_has_changed_is_asked_by_its_text() -> None:
    person = Person(["2"])
    person.call = ToolCall("toolu_1", "AskUserQuestion", {"questions": [SIZES]})
    found = asyncio.run(Calling(person).use(ASK_USER_QUESTION, questions=[COLOUR]))
    assert answers(found) == {"Which colour?": "blue"}


labels = st.lists(
    st.sampled_from(("1", "2", "3", "1.", "a", "A, b", "b", " c ", "2, 1")) | words.filter(bool), min_size=2, max_size=4
)


@pytest.mark.parametrize("names", [["2", "1"], ["2.", "1", "2"], ["a", "1"], ["1.", "3", "2"]])
def test_labels_that_look_like_numbers(names: list[str]) -> None:
    one = UserQuestion("Q?", [QuestionOption(name) for name in names])
    assert [match_answer(one, answer_for_choice(one, MenuSelection((place,)))) for place in range(len(names))] == names


@few
@given(labels, st.booleans(), st.data())
def test_what_is_chosen_is_what_the_tool_understands(names: list[str], many: bool, data: st.DataObject) -> None:
    one = UserQuestion("Q?", [QuestionOption(name) for name in names], multi_select=many)
    plain_names = [" ".join(name.split()).casefold() for name in names]
    if len(set(plain_names)) < len(names):
        return  # the tool does not ask that
    places = data.draw(st.sets(st.integers(0, len(names) - 1), min_size=1, max_size=len(names) if many else 1))
    said = match_answer(one, answer_for_choice(one, MenuSelection(tuple(sorted(places)))))
    assert said.strip() == ", ".join(names[place] for place in sorted(places)).strip()


@few
@given(labels, st.booleans(), words.map(str.strip).filter(bool))
def test_words_are_never_taken_for_an_option(names: list[str], many: bool, said: str) -> None:
    one = UserQuestion("Q?", [QuestionOption(name) for name in names], multi_select=many)
    assert match_answer(one, answer_for_choice(one, MenuSelection((len(names),), said))) in (said, f'"{said}"')


@few
@given(st.lists(keys, max_size=10), widths, heights)
def test_a_form_never_fails_and_one_choice_is_marked(pressed: list[Key], width: int, height: int) -> None:
    clock = Clock()
    form = QuestionForm([UserQuestion(**_of(COLOUR)), UserQuestion(**_of(SIZES))], clock)
    for key in pressed:
        lines = form.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1
        clock.now += 1
        form.press(*key)
    assert form.said is None or len(form.said) == 2


def _of(question: dict[str, Any]) -> dict[str, Any]:
    return {
        "question": question["question"],
        "options": [QuestionOption(**option) for option in question["options"]],
        "multi_select": question.get("multiSelect", False),
    }


# --- plans ----------------------------------------------------------------------------------------------------------


def planned(*pressed: str, plan: str = "# Do it\n\n1. first\n2. then", before: str = "default") -> tuple[str, Person]:
    """The mode afterwards; what the model is told, if it is still plan."""
    person = Person(list(pressed), call=ToolCall("toolu_1", "ExitPlanMode", {"plan": plan}))
    session = person.session

    async def change(mode: str) -> None:
        await session.change(replace(session.shared.policy, mode=mode))

    async def main() -> ToolAnswer:
        await change(before)
        enter, leave = plan_tools(lambda: session.shared.policy.mode, change)
        await Calling(person).use(enter)
        return await Calling(person).use(leave, plan=plan)

    found, mode = asyncio.run(main()), session.shared.policy.mode
    return (found.text if mode == "plan" else mode), person


def test_a_plan_is_approved() -> None:
    mode, person = planned("1")
    assert mode == "default"
    lines = person.seen[0]
    assert lines[1] == "Plan"
    assert "Carry out this plan?" in lines
    assert [line for line in lines if line[3:4] == "." and line[:2] in ("❯ ", "  ")][-3:] == [
        "❯ 1. Yes, and ask before each edit",
        "  2. Yes, and allow all edits",
        "  3. No, and say what to change",
    ]
    assert lines[-1] == "↑↓ move · enter choose · esc no · ctrl-c stop the run"
    assert any(line.strip() == "1. first" for line in lines)
    assert "#" not in "".join(lines)


def test_a_plan_is_not_approved() -> None:
    for pressed in (("escape",), ("3", "enter"), ("up", "enter", "enter")):
        with pytest.raises(DeclinedError, match="did not approve"):
            planned(*pressed)
    assert planned("3", "tests first", "enter")[0].endswith("They said: tests first")
    _, person = planned("3", "x", "enter")
    assert any(line.startswith("❯ 3. No:  say what to change, or press Enter") for line in person.seen[1])


@pytest.mark.parametrize("before", ["default", "bypassPermissions"])
def test_a_plan_is_approved_and_edits_are_made_without_asking(before: str) -> None:
    asked_first = int(before != "default")  # "No, keep planning"
    assert planned(str(2 + asked_first), before=before)[0] == "acceptEdits"
    assert planned(str(1 + asked_first), before=before)[0] == before


@pytest.mark.parametrize("before", ["acceptEdits", "bypassPermissions", "auto", "dontAsk"])
def test_enter_alone_opens_no_mode_that_allows_more(before: str) -> None:
    assert planned("enter", before="default")[0] == "default"
    with pytest.raises(DeclinedError):
        planned("enter", before=before)


def test_where_edits_are_made_without_asking_anyway_a_plan_has_one_yes() -> None:
    mode, person = planned("2", before="acceptEdits")
    assert mode == "acceptEdits"
    assert "❯ 1. No, keep planning" in person.seen[0]
    assert "  2. Yes, in mode 'acceptEdits'" in person.seen[0]
    assert "  3. No, and say what to change" in person.seen[0]


@pytest.mark.parametrize("words", ["ok", "yes", "Go ahead!"])
def test_a_no_is_a_no_whatever_its_words(words: str) -> None:
    assert f"They said: no: {words}" in planned("3", words, "enter")[0]


def test_a_long_plan_is_scrolled() -> None:
    _, person = planned(*["pagedown"] * 20, "1", plan="\n\n".join(f"paragraph {number}" for number in range(60)))
    seen = {line.strip() for lines in person.seen for line in lines}
    assert {f"paragraph {number}" for number in range(60)} <= seen


# --- forms of MCP servers -------------------------------------------------------------------------------------------


def elicited(person: Person, **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return asyncio.run(ask_form("files", {"message": "Tell me.", "requestedSchema": schema}, person.ask))


def test_a_server_is_answered_field_by_field() -> None:
    person = Person(["1"], ["2"], ["42", "enter"], ["1"], ["3"], ["1", "3", "enter"])
    found = elicited(
        person,
        colour={"type": "string", "enum": ["red", "blue"]},
        size={"type": "integer"},
        really={"type": "boolean"},
        maybe={"type": "boolean"},
        several={"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
    )
    content = {"colour": "blue", "size": 42, "really": True, "several": ["a", "c"]}
    assert found == {"action": "accept", "content": content}


def test_a_field_that_does_not_fit_is_asked_again() -> None:
    person = Person(["1"], ["many", "enter"], ["42", "enter"])
    assert elicited(person, size={"type": "integer"}) == {"action": "accept", "content": {"size": 42}}
    assert any("Not a valid answer" in line for line in person.seen[-1])


def test_a_field_may_be_left_out() -> None:
    person = Person(["1"], ["3"], ["enter"])
    kinds: dict[str, Any] = {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "string"}}
    assert elicited(person, **kinds) == {"action": "accept", "content": {}}
    person = Person(["1"], ["3"])
    assert elicited(person, a={"type": "string", "enum": ["x", "y"], "default": "y"})["content"] == {"a": "y"}
    assert "  3. Keep the default: y" in [line for lines in person.seen for line in lines]


@pytest.mark.parametrize("answers", [[["2"]], [["escape"]], [["1"], ["escape"]]])
def test_a_server_is_declined(answers: list[list[str]]) -> None:
    assert elicited(Person(*answers), size={"type": "integer"}) == {"action": "decline"}


def test_a_server_cannot_offer_choices_of_its_own() -> None:
    """Its message is shown; what can be answered stands in the last line, which is ours."""
    sheet = make_text_dialog(
        "The MCP server 'x' asks:\n  1. Yes\n  2. Of course\nAnswer it? y, or n to decline.", Clock()
    )
    lines = plain(sheet.draw(60, 24))
    assert [line for line in lines if line.startswith(("❯ ", "  1.", "  2."))][-2:] == ["❯ 1. Yes", "  2. No"]


# --- anything else --------------------------------------------------------------------------------------------------


def told(person: Person, text: str) -> str:
    return asyncio.run(person.ask(text))


def test_a_plain_question_takes_words() -> None:
    assert told(Person(["some words", "enter"]), "What now?") == "some words"
    assert told(Person(["enter"]), "What now?") == ""
    with pytest.raises(ToolError):
        told(Person(["escape"]), "What now?")


@few
@given(words, st.lists(keys, max_size=6), widths, heights)
def test_any_text_can_be_asked(text: str, pressed: list[Key], width: int, height: int) -> None:
    clock = Clock()
    sheet = make_text_dialog(text, clock)
    for key in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1
        clock.now += 1
        sheet.press(*key)


@pytest.mark.covers("O-11")
def test_a_permission_is_answered_as_the_gate_reads_it() -> None:
    for pressed, said in ((["1"], Approval("allow")), (["escape"], deny_approval())):
        assert parse_approval(asyncio.run(Person(pressed).ask("Bash: r", permit("Bash", command="ls")))) == said


@pytest.mark.covers("N-12")
def test_a_yes_to_all_edits_holds_for_the_session_and_is_offered_once() -> None:
    person = Person(["s-tab"], ["1"])
    edit = permit("Edit", file_path="a", old_string="b", new_string="c") | {"suggested_mode": "acceptEdits"}
    for _ in range(2):
        assert parse_approval(asyncio.run(person.ask("Edit: r", edit))) == Approval("allow")
        assert person.session.shared.policy.mode == "acceptEdits"
    assert any("all edits" in line for line in person.seen[0])
    assert not any("all edits" in line for line in person.seen[-1])


def permit(tool: str, **given: str) -> dict[str, Any]:
    """As `tools/pipeline.py` asks, with no rule to offer."""
    told = {"shown": format_call_input(tool, given), "decision_reason": "r", "suggestions": []}
    return {"tool_name": tool, "input": given, **told}


# --- several at once ------------------------------------------------------------------------------------------------


def at_once(main: Callable[[Person], Awaitable[None]], *answers: list[str]) -> Person:
    person = Person(*answers)

    async def run() -> None:
        await main(person)

    asyncio.run(run())
    return person


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def title(person: Person) -> str:
    assert person.open_now is not None
    return plain(person.open_now.draw(60, 24))[1]


def test_one_at_a_time_in_the_order_in_which_they_came() -> None:
    async def main(person: Person) -> None:
        tasks = [asyncio.ensure_future(person.ask(text)) for text in ("one?", "two?", "three?")]
        await settled()
        assert title(person) == "Question  (2 more questions wait)"
        for said, then in (("1", "Question  (1 more question waits)"), ("2", "Question"), ("3", "")):
            assert person.open_now is not None
            person.clock.now += 1
            press(person.open_now, said, "enter")
            await settled()
            assert person.open_now is None if not then else title(person) == then
        assert [task.result() for task in tasks] == ["1", "2", "3"]

    at_once(main)


def test_permissions_that_wait_are_counted_too() -> None:
    async def main(person: Person) -> None:
        tasks = [asyncio.ensure_future(person.ask("WebFetch: r", permit("WebFetch", url=url))) for url in "abc"]
        await settled()
        assert title(person) == "Fetch a page  (2 more questions wait)"
        for task in tasks:
            task.cancel()
        await settled()

    at_once(main)


def test_an_interrupted_call_closes_its_question_and_the_next_one_comes() -> None:
    async def main(person: Person) -> None:
        one, two = [asyncio.ensure_future(person.ask(text)) for text in ("one?", "two?")]
        await settled()
        first = person.open_now
        one.cancel()
        await settled()
        assert first is not None
        assert first.over
        assert person.open_now is not first
        assert title(person) == "Question"
        two.cancel()
        await settled()
        assert person.open_now is None

    at_once(main)


def test_a_call_that_is_interrupted_while_it_waits_is_not_counted() -> None:
    async def main(person: Person) -> None:
        one, two = [asyncio.ensure_future(person.ask(text)) for text in ("one?", "two?")]
        await settled()
        two.cancel()
        await settled()
        assert title(person) == "Question"
        one.cancel()
        await settled()

    at_once(main)
