"""Spans of scripted sessions: what happened, to the millisecond."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.events import Shrunk, StopDecision
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import Usage, cost
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import CallStarted
from mainspring.engine.session import EngineSession
from mainspring.providers.base import Retry
from mainspring.secrets.redaction import redact
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.resume import load_session
from mainspring.testing import Pause, call, fails, says, virtually
from mainspring.viewer.spans import SpanKind, SpanOutcome, make_label, may_hold_secret
from mainspring.viewer.trace import Trace
from viewer.stage import AGENT, ENVELOPE, FULL, ID, OPTIONS, USAGE, Slow, looked, of, story, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / f"{ID}.jsonl"


def times(trace: Trace, kind: SpanKind) -> list[tuple[int, int | None]]:
    return [(span.begin, span.end) for span in of(trace, kind)]


def test_a_request_lasts_from_asking_to_the_end_of_the_reply(file: Path) -> None:
    world = Slow([says("One.", Pause(300), "Two.", usage=USAGE, pace=10)], takes=40)
    (span,) = of(trace := looked(write(file, world, "go")), SpanKind.MODEL)
    # Opened, one piece, finished: three batches a text and one before and after, each after 10 ms.
    assert (span.begin, span.end) == (40, 40 + 8 * 10 + 300)
    assert [at for _, at in span.blocks] == [40 + 4 * 10, 40 + 7 * 10 + 300]
    assert (span.how, span.stop, span.transition, span.label) == (SpanOutcome.OK, "end_turn", "", "One.")
    assert (span.usage, span.price) == (USAGE, cost(USAGE, DEFAULT_MODEL.price))
    assert times(trace, SpanKind.CONTEXT) == [(0, 40)]
    assert times(trace, SpanKind.HOOKS) == [(420, 460)]
    assert times(trace, SpanKind.RUN) == [(0, 460)]


def test_the_first_token_is_not_invented(file: Path) -> None:
    (span,) = of(looked(write(file, Slow([says("One.")]), "go")), SpanKind.MODEL)
    assert span.missing == ("when the first token arrived",)


def test_a_safe_call_is_early_and_an_unsafe_one_waits_for_the_reply(file: Path) -> None:
    reply = says(call("Read", "r", ms=500), call("Bash", "b", ms=200), Pause(1_000), "More.")
    trace = looked(write(file, Slow([reply, says("Done.")]), "go"))
    read, bash = of(trace, SpanKind.TOOL)
    assert (read.offered, read.begin, read.end, read.early) == (0, 0, 500, True)
    assert (bash.offered, bash.begin, bash.end, bash.early) == (0, 1_000, 1_200, False)
    assert read.parent == bash.parent == of(trace, SpanKind.MODEL)[0].key
    totals = trace.head().totals
    assert (totals.model, totals.tools, totals.overlap) == (1_000, 700, 500)


def test_overlap_counts_only_what_passed_while_the_model_wrote(file: Path) -> None:
    reply = says(call("Read", "r", ms=1_000), Pause(400))
    assert looked(write(file, Slow([reply, says("Done.")]), "go")).head().totals.overlap == 400


def test_a_call_that_asks_tells_how_long_the_person_took(file: Path) -> None:
    world = Slow([says(call("Edit", "e", ask="May I?")), says("Done.")], takes=100, answers=["yes"])
    trace = looked(write(file, world, "go"))
    (question,), (edit,) = of(trace, SpanKind.QUESTION), of(trace, SpanKind.TOOL)
    assert (question.begin, question.end, question.why) == (100, 5_100, "yes")
    assert (question.parent, question.label) == (edit.key, "May I?")
    assert edit.decisions == [("ask", "rule Edit(*)", 100)]
    totals = trace.head().totals
    assert (totals.person, totals.tools) == (5_000, 0)  # it did nothing but wait


def test_a_retry_is_a_wait_within_its_request(file: Path) -> None:
    waits = [Retry(Failure(Trouble.OVERLOADED, "busy"), n, 1_000 * n) for n in (1, 2)]
    reply = says(waits[0], Pause(1_000), waits[1], Pause(1_500), "Here.", pace=0)
    trace = looked(write(file, Slow([reply]), "go"))
    first, second = of(trace, SpanKind.RETRY)
    assert (first.begin, first.end, first.label) == (0, 1_000, "attempt 1, overloaded: busy")
    assert (second.begin, second.end) == (1_000, 2_500)  # announced until 3,000, and the reply came earlier
    (model,) = of(trace, SpanKind.MODEL)
    assert (model.begin, model.end, first.parent) == (0, 2_500, model.key)
    totals = trace.head().totals
    assert (totals.model, totals.retry) == (0, 2_500)


def test_a_wait_for_money_is_no_time_of_the_model(file: Path) -> None:
    """A reply is stamped when its request was paid for; the core had asked for it 300 ms earlier."""
    write(file, Slow([says(Pause(1_000), "Here.")]), "go")
    rows = [json.loads(row) for row in file.read_bytes().splitlines()]
    for row in rows:
        if row.get("event", {}).get("type") == "Replied":
            row["event"]["reply"]["at"] = 300
    file.write_text("".join([json.dumps(row) + "\n" for row in rows]))
    trace = looked(file)
    assert times(trace, SpanKind.QUEUE) == [(0, 300)]
    assert times(trace, SpanKind.MODEL) == [(300, 1_000)]


def test_what_is_typed_waits_until_a_turn_takes_it(file: Path) -> None:
    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, OPTIONS)
        world = Slow([says("Working.", call("Bash", "b", ms=800)), says("Done.")], takes=50)
        world._journal = journal
        session = EngineSession(world, Config())
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    await session.submit("and mind the tests")
        journal.close()

    virtually(main())
    (typed,) = of(looked(file), SpanKind.TYPED)
    assert (typed.label, typed.begin, typed.end, typed.how) == ("and mind the tests", 50, 900, SpanOutcome.OK)


def test_transitions_are_those_of_the_core(file: Path) -> None:
    world = Slow(
        [
            fails(Trouble.NETWORK, "", "half a"),
            says(call("Read", "r")),
            says("Done?"),
            says("Done."),
        ],
        contexts=[PreparedContext(10), PreparedContext(FULL), PreparedContext(10)],
        hooks=[StopDecision(("no",))],
    )
    spans = of(looked(write(file, world, "go")), SpanKind.MODEL)
    assert [span.transition for span in spans] == ["", "stream_retry", "auto_compact", "stop_hook_blocking"]
    assert [span.turn for span in spans] == [1, 1, 2, 2]
    assert (spans[0].how, spans[0].why) == (SpanOutcome.WITHDRAWN, "network: scripted: network")


def test_what_layers_and_summaries_freed_is_told(file: Path) -> None:
    world = Slow(
        [says("Done.")],
        takes=10,
        contexts=[PreparedContext(FULL, shrunk=(Shrunk("trim", 700), Shrunk("snip", 50))), PreparedContext(900)],
        summaries=[Summary(before=FULL, after=900, cost=12, usage=Usage(output=3))],
    )
    trace = looked(write(file, world, "go"))
    first, second = of(trace, SpanKind.CONTEXT)
    assert (first.tokens, first.freed) == (FULL, [("trim", 700), ("snip", 50)])
    assert second.tokens == 900
    (summary,) = of(trace, SpanKind.COMPACTION)
    assert (summary.begin, summary.end, summary.label) == (10, 210, "summary, for near_limit")
    assert (summary.before, summary.after, summary.price) == (FULL, 900, 12)


def test_an_interrupt_ends_what_is_under_way(file: Path) -> None:
    world = Slow([says("Long.", call("Bash", "b", ms=60_000))])
    trace = looked(write(file, world, "go", interrupt="b"))
    (mark,) = of(trace, SpanKind.INTERRUPT)
    (tool,) = of(trace, SpanKind.TOOL)
    (run,) = of(trace, SpanKind.RUN)
    assert (mark.begin, mark.label) == (2_000, "interrupted: hard")
    assert (tool.begin, tool.end, tool.how) == (0, 2_000, SpanOutcome.ERROR)
    assert (run.end, run.how, run.stop) == (2_000, SpanOutcome.INTERRUPTED, "aborted_tools, hard")


def test_a_run_tells_its_terminal_its_cause_and_its_price(file: Path) -> None:
    world = Slow([says(call("Read", "r"), usage=USAGE)])
    (run,) = of(looked(write(file, world, "go", config=Config(max_turns=1))), SpanKind.RUN)
    assert (run.how, run.stop) == (SpanOutcome.ERROR, "max_turns, limit")
    assert run.price == cost(USAGE, DEFAULT_MODEL.price)


def test_the_price_is_what_the_session_says_it_spent(tmp_path: Path) -> None:
    file = story(tmp_path)
    assert looked(file).head().totals.price == load_session(file).spent > 0


def test_an_agent_stands_below_the_call_that_sent_it(tmp_path: Path) -> None:
    trace = looked(story(tmp_path))
    (agent,) = trace.agents
    (span,) = of(trace, SpanKind.AGENT)
    (sender,) = [one for one in of(trace, SpanKind.TOOL) if one.name == "Agent"]
    assert (agent.id, agent.kind, agent.task, agent.parent) == (AGENT, "Explore", "look for the cause", sender.key)
    assert (span.label, span.parent, span.price) == ("Explore: look for the cause", sender.key, 11_450_000)
    (run,) = of(trace, SpanKind.RUN, 1)
    assert (run.begin, run.end) == (span.begin, span.end)
    assert [one.length for one in of(trace, SpanKind.TOOL, 1)] == [400, 400]
    assert all(one.early for one in of(trace, SpanKind.TOOL, 1))


def test_where_a_fork_may_begin_can_be_resumed_from(tmp_path: Path) -> None:
    file = story(tmp_path)
    for span in looked(file).files[0].tracer.sheet.spans:
        if span.uuid:
            loaded = load_session(file, at=span.uuid)
            assert len(loaded.state.history) > 0, span


def test_nothing_a_terminal_obeys_is_in_a_label(tmp_path: Path) -> None:
    for span in looked(story(tmp_path)).spans:
        assert all(text.isprintable() for text in (span.label, span.why, span.name)), span


SECRETS = (
    "sk-ant-0123456789abcdef0123",
    "ghp_0123456789abcdefghij0123",
    "Bearer abcdefgh12345678",
    "PASSWORD=hunter2222",
)


@given(st.text(), st.sampled_from(SECRETS), st.text())
def test_what_would_be_redacted_is_looked_at(before: str, secret: str, after: str) -> None:
    """The short cut for texts that hold no word of a secret passes over nothing."""
    text = f"{before} {secret} {after}"
    assert may_hold_secret(text) or redact(text) == text
    assert secret not in make_label(secret)


def test_a_label_holds_no_secret() -> None:
    assert make_label("export KEY=sk-ant-0123456789abcdef0123") == "export KEY=[redacted]"
