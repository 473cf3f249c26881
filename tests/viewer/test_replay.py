"""The replay: what the core decides today over what was recorded, step by step."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions.stage import CheckedWorld
from tiers import examples

from mainspring.context.attachments import PreparedContext
from mainspring.core.updates import RequestStarted, Result, Update
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import Ledger
from mainspring.sessions.journal import FileJournal
from mainspring.testing import call, says, virtually
from mainspring.testing.play import Consumer, RandomWorld, random_config
from mainspring.viewer.replay import ReplayStep, StepReplay
from mainspring.viewer.spans import SpanKind, SpanOutcome
from viewer.stage import ENVELOPE, FULL, ID, OPTIONS, Slow, looked, of, story, write
from viewer.test_files import assert_sound


def replayed(file: Path) -> list[ReplayStep]:
    replay = StepReplay(file)
    replay.look()
    return [msgspec.json.decode(step, type=ReplayStep) for step in replay.steps(1, 10**9)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story(tmp_path_factory.mktemp("story"))


def random_session(file: Path, seed: int) -> tuple[list[Update] | None, EngineSession]:
    """As `mainspring.testing.play` plays them, with a file; and what was shown, if the consumer stayed to the end."""
    random = Random(seed)
    shown: list[Update] = []
    gone = False

    async def main() -> EngineSession:
        nonlocal gone
        journal = FileJournal.create(file, ENVELOPE, OPTIONS)
        world = RandomWorld(random)
        world._journal = journal
        ledger = Ledger(random.choice([None, None, 10**9, 10**7]))
        session = EngineSession(world, random_config(random), ledger=ledger, side_jobs=world.side_jobs)
        for _ in range(random.choice([1, 2])):
            consumer = Consumer(random, session)
            await consumer.consume(session.run("go"))
            shown.extend(consumer.shown)
            gone = gone or consumer.kind == "gone"
        journal.close()
        return session

    session = virtually(main())
    return None if gone else shown, session


@given(st.integers(0, 10**6))
@settings(max_examples=examples(120))
def test_what_is_decided_again_is_what_was_decided(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Every kind of trouble, consumers that are slow, gone or interrupt: no step differs, and at each end of a run the
    whole state is that of the checkpoint. Spans and updates agree about requests and results."""
    file = tmp_path_factory.mktemp("random") / f"{ID}.jsonl"
    shown, session = random_session(file, seed)
    steps = replayed(file)
    assert {step.mark for step in steps[:-1]} <= {"same", "fits"}, [step for step in steps if step.mark == "differs"]
    assert steps[-1].mark == "same"  # the checkpoint at the end of the run
    trace = looked(file)
    if shown is not None:
        asked = [(update.turn, update.transition or "") for update in shown if isinstance(update, RequestStarted)]
        assert [(span.turn, span.transition) for span in of(trace, SpanKind.MODEL)] == asked
        results = [f"{update.terminal}, {update.cause}" for update in shown if isinstance(update, Result)]
        assert [span.stop for span in of(trace, SpanKind.RUN)] == results
    assert trace.head().notes == []
    assert_sound(trace)
    assert trace.head().totals.price == session.shared.ledger.account.spent
    assert not [span for span in trace.spans if span.how is SpanOutcome.OPEN and span.kind is not SpanKind.TYPED]


def test_a_step_tells_event_change_effect_and_updates(tmp_path: Path) -> None:
    file = write(tmp_path / f"{ID}.jsonl", Slow([says("Look.", call("Read", "r", text="it")), says("Done.")]), "go")
    steps = replayed(file)
    assert [step.event for step in steps] == [
        "Submitted", "ContextReady", "Replied", "ToolsDone", "ContextReady", "Replied", "HooksDone",
    ]  # fmt: skip
    assert [step.effect for step in steps] == [
        "PrepareContext", "CallModel", "RunTools", "PrepareContext", "CallModel", "RunStopHooks", "Finish",
    ]  # fmt: skip
    replied = steps[2]
    assert replied.about == 'reply=Assistant "Look." Read'
    assert ("history", "1 message", "2 messages") in replied.changed
    assert ("totals.usage.output", "0", "20") in replied.changed
    assert replied.wants.startswith("calls=[Read {text: it")
    assert steps[4].updates == [("RequestStarted", "turn=2 model=claude-sonnet-5-5 transition=next_turn")]
    assert steps[-1].updates[0][0] == "Result"


def test_steps_are_had_by_their_number(told: Path) -> None:
    replay = StepReplay(told)
    replay.look()
    every = replay.steps(1, 10**9)
    assert len(every) == len(replay) > 20
    for first in (1, 2, 7, len(replay) - 1, len(replay)):
        assert replay.steps(first, 3) == every[first - 1 : first + 2]
    assert replay.steps(len(replay) + 1, 3) == []
    assert [msgspec.json.decode(step)["n"] for step in every] == list(range(1, len(replay) + 1))


def test_a_replay_goes_on_where_the_file_has_grown(told: Path, tmp_path: Path) -> None:
    data, file = told.read_bytes(), tmp_path / told.name
    file.write_bytes(data[: len(data) // 2])
    replay = StepReplay(file)
    replay.look()
    half = len(replay)
    file.write_bytes(data)
    replay.look()
    whole = StepReplay(told)
    whole.look()
    assert (0 < half < len(replay), replay.steps(1, 999)) == (True, whole.steps(1, 999))


# --- what another version would have decided ---------------------------------------------------------------------


def test_a_checkpoint_that_says_otherwise_is_marked(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    data = told.read_bytes()
    place = data.index(b'"checkpoint":')
    file.write_bytes(data[:place] + data[place:].replace(b'"turn":5', b'"turn":6', 1))
    wrong = [step for step in replayed(file) if step.mark == "differs"]
    assert [(step.event, step.why) for step in wrong] == [("Replied", "the checkpoint has a different 'turn'")]


def test_a_message_that_was_not_recorded_is_marked(told: Path, tmp_path: Path) -> None:
    """A stop hook's objection, which the core makes a message of."""
    file = tmp_path / told.name
    lines = told.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([line for line in lines if b'"origin":"hook"' not in line]))
    wrong = [step for step in replayed(file) if step.mark == "differs"]
    assert [(step.event, step.why) for step in wrong] == [
        ("HooksDone", "the replay shows something that the file does not contain")
    ]


def test_a_message_that_is_not_made_any_more_is_marked(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    lines = told.read_bytes().splitlines(keepends=True)
    (hook,) = [line for line in lines if b'"origin":"hook"' in line]
    tools = next(n for n, line in enumerate(lines) if b'"ToolsDone"' in line)
    other = hook.replace(b'"origin":"hook"', b'"origin":"advice"').replace(b'"uuid":"0', b'"uuid":"7')
    file.write_bytes(b"".join([*lines[: tools + 1], other, *lines[tools + 1 :]]))
    wrong = [step for step in replayed(file) if step.mark == "differs"]
    assert [(step.event, step.why) for step in wrong] == [
        ("ToolsDone", "the file adds a message of kind 'advice', the replay does not")
    ]


def test_a_model_that_was_not_asked_is_marked(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    data = told.read_bytes()
    place = data.index(b'"event":{"type":"Replied"')
    file.write_bytes(data[:place] + data[place:].replace(b'"model":"claude-sonnet-5-5"', b'"model":"claude-opus-9"', 1))
    wrong = [step for step in replayed(file) if step.mark == "differs"]
    assert [(step.event, step.why) for step in wrong] == [("ContextReady", "'claude-opus-9' answered")]


def test_where_the_core_cannot_follow_steps_are_unknown(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    lines = told.read_bytes().splitlines(keepends=True)
    n = next(n for n, line in enumerate(lines) if b'"ToolsDone"' in line)
    file.write_bytes(b"".join([*lines[:n], *lines[n + 1 :]]))
    marks = [step.mark for step in replayed(file)]
    assert marks[:2] == ["fits", "fits"]
    assert set(marks[3:]) == {"unknown"}


def test_a_session_resumed_from_an_earlier_message_is_followed(tmp_path: Path) -> None:
    """What was let go is needed again: the file is read a second time, and everything is kept."""
    file = tmp_path / f"{ID}.jsonl"
    contexts = [PreparedContext(FULL if n == 3 else 10) for n in range(6)]
    world = CheckedWorld([says(f"{n}", call("Read", f"c{n}")) for n in range(4)] + [says("End.")], contexts=contexts)
    write(file, world, "go")
    first = of(looked(file), SpanKind.MODEL)[0].uuid

    async def main() -> None:
        loaded, journal = FileJournal.resume(file, ENVELOPE, OPTIONS, at=first)
        other = CheckedWorld([says("Another way.")])
        other.offset = 1_000
        other._journal = journal
        session = EngineSession(other, random_config(Random(1)), state=loaded.state)
        session._salvaged = (loaded.partial, loaded.answers(other.new_id, 0))
        async with session.run("try again") as run:
            async for _ in run:
                pass
        journal.close()

    virtually(main())
    trace = looked(file)
    assert trace.head().notes == []
    assert trace.files[0].lines.epoch == 2
    assert of(trace, SpanKind.MODEL)[-1].label == "Another way."
    assert {step.mark for step in replayed(file)} <= {"same", "fits"}
