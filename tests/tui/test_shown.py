"""What is shown of a run: on paper, and below it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tiers import examples

from mainspring.core.messages import Origin, Stop, Thinking, ToolCall, result, user
from mainspring.core.money import Usage
from mainspring.core.reasons import Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    BlockDone,
    BlockKind,
    BlockStarted,
    Boundary,
    CallDone,
    CallProgress,
    CallStarted,
    Delta,
    Failed,
    Injected,
    MaxTurnsReached,
    QuestionAnswered,
    QuestionAsked,
    Rendering,
    ReplyDone,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    Update,
)
from mainspring.engine.subagents import REPORT
from mainspring.tools.base import INTERRUPTED_AFTER
from tui.seeing import Watching

ENDED = Result(
    Terminal.COMPLETED,
    Cause.END_TURN,
    Subtype.SUCCESS,
    turns=2,
    usage=Usage(1_234, output=56),
    cost=12_300_000,
    duration=3_100,
)
FIGURES = "2 turns · 3.1 s · 1,234 tokens in, 56 out · $0.0123"


# --- text -----------------------------------------------------------------------------------------------------------


def test_text_goes_to_paper_block_by_block_and_its_rest_is_drawn_below() -> None:
    seen = Watching().reply().says("One *word*.\n\n- a\n- b\n\nand the re")
    assert seen.paper.lines == ["", "● One word.", "", "  - a", ""]
    assert seen.drawn() == ["  - b", "  and the re", "· Writing… (0 s · ↓ 8 tokens · esc to interrupt)"]


def test_a_block_that_came_as_a_whole_is_shown_as_well() -> None:
    assert Watching().reply().said("").see(BlockDone("r", 1, user("Hello.").content[0])).paper.said == ["● Hello."]  # type: ignore[arg-type]


def test_text_after_a_call_has_a_bullet_of_its_own() -> None:
    seen = Watching().reply().said("One.").calls("Sleep", "Sleep for 1 s").done("slept").said("Two.", 1)
    assert seen.paper.said == ["● One.", "● Sleep(for 1 s)", "  ⎿  slept", "● Two."]


@given(
    st.text(alphabet="a *`#-|>\n\t日🎉\x1b\x07\x9b\r\u202e\ud800", max_size=200),
    st.integers(20, 50),
    st.integers(1, 12),
)
def test_nothing_that_a_model_writes_leaves_its_lines(text: str, width: int, height: int) -> None:
    seen = Watching(width).reply().says(text)
    seen.drawn(height)
    seen.see(ENDED)
    assert FIGURES[:15] in "".join(seen.paper.lines)


def test_ten_thousand_deltas_and_thirty_drawings_a_second_take_less_than_a_second() -> None:
    """A stream of 250 deltas a second: 40 s of it, and 1,200 drawings."""
    seen = Watching(100).reply().see(BlockStarted("r", 0, BlockKind.TEXT))
    began, next_drawing = time.process_time(), 0.0
    for at in range(10_000):
        seen.time = at / 250
        seen.shown.see(Delta("r", 0, BlockKind.TEXT, "a few word" if at % 60 else "the end.\n\n"))
        if seen.time >= next_drawing:
            seen.shown.draw(100, 20)
            next_drawing += 1 / 30
    assert time.process_time() - began < 2.0  # measured: 0.54 s; the rest is for machines that are busy


# --- thoughts -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("K-07", "O-08")
def test_a_thought_is_shown_while_it_lasts_and_leaves_one_line() -> None:
    seen = Watching().reply().see(BlockStarted("r", 0, BlockKind.THINKING))
    seen.see(
        Delta("r", 0, BlockKind.THINKING, "First this.\nThen that.\nAnd "), Delta("r", 0, BlockKind.THINKING, "so on.")
    )
    seen.time = 4.2
    assert seen.drawn() == ["  Then that.", "  And so on.", "* Thinking… (4 s · ↓ 8 tokens · esc to interrupt)"]
    seen.see(BlockDone("r", 0, Thinking("First this.\nThen that.\nAnd so on.")))
    assert seen.paper.said == ["✻ Thought for 4 s"]
    assert "that" not in repr(vars(seen.shown._saying))
    assert seen.drawn() == ["* Thinking… (4 s · ↓ 8 tokens · esc to interrupt)"]


# --- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("O-07")
def test_calls_are_told_as_they_end_whichever_began_first() -> None:
    seen = Watching().reply().calls("Bash", "make", "1").calls("Bash", "ls", "2").done("a file", id="2")
    assert seen.paper.said == ["● Bash(ls)", "  ⎿  a file"]
    seen.time = 2.5
    assert seen.drawn() == ["● Bash(make) 2 s", "· Running Bash… (2 s · esc to interrupt)"]
    assert seen.done("made", id="1").paper.said[2:] == ["● Bash(make)", "  ⎿  made"]


def test_what_a_call_says_while_it_runs_is_drawn_below_it() -> None:
    seen = (
        Watching().reply().calls("Bash", "make").see(CallProgress("c", "".join([f"{at}\x1b[2J\n" for at in range(9)])))
    )
    assert seen.drawn()[:-1] == ["● Bash(make)", "  ⎿  4", *[f"     {at}" for at in range(5, 9)]]


def test_an_agent_shows_what_it_calls_and_then_what_it_reports() -> None:
    seen = Watching().reply().calls("Agent", "Agent (Explore): find it", subagent_type="Explore", description="find it")
    seen.see(AgentStarted("c", "a", "Explore", "find it", user("go")))
    seen.see(*[AgentUpdate("c", "a", CallStarted(ToolCall(str(at), "Grep", {}), f"Grep {at}")) for at in range(5)])
    seen.see(AgentUpdate("c", "a", CallDone(result("4", "not allowed", is_error=True), denied=True)))
    seen.time = 7.0
    assert seen.drawn()[:-1] == [
        "● Agent(Explore: find it) 5 calls · 7 s",
        "  ⎿  Grep(3)",
        "     Grep(4)",
        "     Denied: not allowed",
    ]
    seen.see(AgentDone("c", "a", None)).done("It is here.\nAnd there.")
    assert seen.paper.said == ["● Agent(Explore: find it)", "  ⎿  5 calls · 7 s", "     It is here.", "     And there."]


@pytest.mark.parametrize("of_agent", [False, True])
def test_a_call_that_waits_for_a_person_says_so_and_esc_is_an_answer_then(of_agent: bool) -> None:
    asked, answered = QuestionAsked("q", "c", "May it?"), QuestionAnswered("q", "yes")
    seen = Watching().reply().calls("Bash", "rm x")
    seen.see(AgentUpdate("c", "a", asked) if of_agent else asked)
    assert seen.drawn()[-1] == "· Waiting for your answer… (0 s)"
    seen.see(AgentUpdate("c", "a", answered) if of_agent else answered)
    assert seen.drawn()[-1] == "· Running Bash… (0 s · esc to interrupt)"


def test_an_agent_that_is_done_asks_no_more() -> None:
    seen = Watching().reply().calls("Bash", "ls").see(AgentUpdate("c", "a", QuestionAsked("q", "c", "May it?")))
    assert seen.see(AgentDone("c", "a", None)).drawn()[-1].startswith("· Running Bash…")


def test_tasks_stand_below_what_is_done_and_can_be_hidden() -> None:
    tasks = [
        {"id": "1", "subject": "Mend", "status": "completed"},
        {"id": "2", "subject": "Test", "status": "in_progress"},
    ]
    seen = (
        Watching()
        .reply()
        .calls("TaskUpdate", "Task 1: completed")
        .done("ok", Rendering("Tasks: 2"), data={"tasks": tasks})
    )
    assert seen.drawn()[1:] == ["  ☒ Mend", "  ❯ Test"]
    assert seen.paper.said == [], "the list shows it"
    seen.shown.tasks_shown = False
    assert len(seen.drawn()) == 1


def test_tasks_leave_one_line_per_turn_and_the_list_at_the_end() -> None:
    def tasks(first: str, second: str) -> dict[str, Any]:
        return {
            "tasks": [
                {"id": "1", "subject": "Mend", "status": first},
                {"id": "2", "subject": "Test", "status": second},
            ]
        }

    seen = Watching().reply()
    for at in range(3):
        seen.calls("TaskCreate", id=f"c{at}").done("ok", id=f"c{at}", data=tasks("pending", "pending"))
    seen.reply()
    assert seen.paper.said == ["● Tasks · 0 of 2 done"]
    seen.calls("TaskUpdate").done("ok", data=tasks("completed", "in_progress")).reply()
    assert seen.paper.said == ["● Tasks · 0 of 2 done", "● Tasks · 1 of 2 done · Test"]
    seen.reply().see(ENDED)
    assert seen.paper.said[2:] == ["● Tasks · 1 of 2 done", "  ⎿  ☒ Mend", "     ❯ Test", FIGURES]


def test_words_for_the_model_are_not_shown() -> None:
    told = "'/home/me/work/a.py' was not read yet. Nothing was done: use Read on it first."
    seen = Watching().reply().calls("Edit", "Edit a.py").done(told, wrong=True)
    assert seen.paper.said == ["● Edit(a.py)", "  ⎿  Failed: 'a.py' was not read yet."]
    assert "Nothing was" in " ".join(seen.whole("c")), "all of it can be seen"
    seen = Watching().reply().calls("X").done("There is no tool 'X'. Available: Bash, Read.", wrong=True)
    assert seen.paper.said == ["● X", "  ⎿  Failed: There is no tool 'X'."]


def test_a_call_that_a_hook_denied_names_the_hook() -> None:
    seen = Watching().reply().calls("Bash", "exit")
    seen.done("no exit here", Rendering("the hook 'mine'"), wrong=True, denied=True)
    assert seen.paper.said == ["● Bash(exit)", "  ⎿  Denied by the hook 'mine': no exit here"]


def test_an_interrupted_command_shows_its_last_lines_once() -> None:
    seen = Watching().reply().calls("Bash", "make").see(CallProgress("c", "one\ntwo"))
    seen.done(f"{INTERRUPTED_AFTER}\none\ntwo", wrong=True)
    assert seen.paper.said == ["● Bash(make)", "  ⎿  Interrupted", "     one", "     two"]


def test_a_context_that_is_too_long_says_what_was_tried_and_what_to_do() -> None:
    failure = Failure(Trouble.PROMPT_TOO_LONG, "prompt is too long", 400)
    tried = RequestStarted(2, "m", Transition.REACTIVE_COMPACT_RETRY)
    ended = replace(ENDED, terminal=Terminal.PROMPT_TOO_LONG, cause=Cause.WINDOW)
    text = " ".join(Watching().reply().see(tried, Failed(failure), ended).paper.said)
    assert "Tried: the server rejected the request: retrying with a summary." in text
    assert "/rewind" in text


# --- the run --------------------------------------------------------------------------------------------------------


def test_the_figures_of_a_run_end_it() -> None:
    seen = Watching().reply().said("Done.").see(ENDED)
    assert seen.paper.said == ["● Done.", FIGURES]
    assert seen.drawn() == []


STARTED = RequestStarted(2, "haiku", Transition.MODEL_FALLBACK)
BUSY = Failure(Trouble.OVERLOADED, "busy", 529)


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ((STARTED,), "(the model does not answer: switching to 'haiku')"),
        ((Boundary("collapse", freed=20_000),), "(older turns were summarized to make room, 20,000 tokens less)"),
        ((Tombstone("r", Trouble.OVERLOADED),), "(a reply was discarded: the server is overloaded)"),
        ((Result(Terminal.ABORTED_TOOLS, Cause.HARD, Subtype.ERROR_DURING_EXECUTION),), "(interrupted)"),
        (
            (MaxTurnsReached(3, 3), Result(Terminal.MAX_TURNS, Cause.LIMIT, Subtype.ERROR_MAX_TURNS, turns=3)),
            "Reached maximum number of turns (3)",
        ),
    ],
)
def test_what_happens_to_a_run_is_told_in_one_line(updates: tuple[Update, ...], words: str) -> None:
    assert Watching(70).reply().see(*updates).paper.said[0] == words


def test_a_failure_is_told_in_its_own_words() -> None:
    failed = Result(Terminal.MODEL_ERROR, Cause.OVERLOADED, Subtype.SUCCESS)
    assert Watching().reply().see(Failed(BUSY), failed).paper.said[0].startswith("API Error: busy")


def test_text_that_is_withdrawn_stays_if_it_was_settled_and_goes_if_it_was_not() -> None:
    seen = Watching().reply().says("Settled.\n\nNot yet").see(Tombstone("r", Trouble.OVERLOADED))
    assert seen.paper.said == ["● Settled.", "(the text above was discarded: the server is overloaded)"]
    assert len(seen.drawn()) == 1


def test_what_was_written_before_an_interruption_stays() -> None:
    ended = Result(Terminal.ABORTED_STREAMING, Cause.HARD, Subtype.ERROR_DURING_EXECUTION)
    assert Watching().reply().says("So far").see(ended).paper.said[:2] == ["● So far", "(interrupted)"]


def test_a_run_that_breaks_off_says_why() -> None:
    seen = Watching().reply().says("So far")
    seen.shown.broke_off("no \x1bmemory")
    assert seen.paper.said == ["● So far", "The run failed: no memory"]
    assert seen.drawn() == []


def test_waiting_for_agents_is_said_until_somebody_stops_it() -> None:
    seen = Watching()
    seen.shown.waits_for(2)
    assert seen.drawn() == ["· Waiting for 2 subagents… (0 s · esc to interrupt)"]
    seen.shown.stops_waiting()
    assert seen.paper.said == ["(the report will arrive in a later turn)"]
    assert seen.drawn() == []


def test_tokens_are_guessed_until_they_are_known() -> None:
    seen = Watching().reply().says("x" * 400)
    assert "↓ 100 tokens" in seen.drawn()[-1]
    assert "↓ 1.3k tokens" in seen.see(ReplyDone("r", Stop.END_TURN, Usage(output=1_321))).drawn()[-1]


# --- at any size ----------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["", "word", "日本語の文", "a\tb", "🎉" * 30, "x" * 300, "two\nlines", "- a\n- b\n\n", "| a | b |\n|-|-|\n"]
)
OWN = ["Write", "ExitPlanMode", "Bash", "Grep"]  # what they tell is drawn in ways of their own
UPDATES = st.one_of(
    WORDS.map(lambda text: Delta("r", 0, BlockKind.TEXT, text)),
    WORDS.map(lambda text: Delta("r", 0, BlockKind.THINKING, text)),
    st.just(BlockDone("r", 0, Thinking(""))),
    WORDS.map(lambda text: CallStarted(ToolCall(text[:3], text, {"a": text}), text)),
    WORDS.map(lambda text: CallProgress(text[:3], text)),
    st.builds(
        lambda of, text, kind, wrong, denied: CallDone(
            result(of[:3], text, is_error=wrong), rendering=Rendering(text, text, kind), denied=denied
        ),
        WORDS, WORDS, st.sampled_from(["text", "diff", "output"]), st.booleans(), st.booleans(),
    ),
    WORDS.map(lambda text: AgentStarted(text[:3], text, text, text, user("go"), background=True)),
    st.sampled_from(OWN).map(lambda name: CallStarted(ToolCall("own", name, {}))),
    st.builds(
        lambda text, wrong: CallDone(
            result("own", text, is_error=wrong),
            {"type": "create", "content": text, "stdout": text, "plan": text, "approved": False, "said": text},
            Rendering(text, text),
        ),
        WORDS, st.booleans(),
    ),
    WORDS.map(lambda text: Injected(user(REPORT.format(id=text[:3], status=text, text=text), Origin.REPORT))),
    WORDS.map(lambda text: AgentUpdate("", text, CallStarted(ToolCall("1", text, {}), text))),
    st.just(RequestStarted(1, "m", Transition.NEXT_TURN)),
    st.just(Retrying(BUSY, 1, 4_000)),
    st.just(ENDED),
)  # fmt: skip


@settings(max_examples=examples(100))
@given(st.lists(UPDATES, max_size=12), st.integers(20, 60), st.integers(1, 10))
def test_nothing_is_wider_or_higher_than_its_place(updates: list[Update], width: int, height: int) -> None:
    seen = Watching(width)
    for update in updates:
        seen.see(update).drawn(height)
    for call_id in ("c", "own", "1"):
        assert max(map(len, seen.whole(call_id)), default=0) <= width
    assert seen.paper.lines is not None
