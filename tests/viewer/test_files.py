"""Files that grow, are torn, are damaged, are older, or are of other programs: read as far as they can be."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions.stage import CheckedWorld, consume, stored, take_up
from tiers import examples

from mainspring.context.attachments import PreparedContext
from mainspring.core.config import Config
from mainspring.core.messages import ToolCall, result
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.paths import agent_file
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.testing import call, says, virtually
from mainspring.viewer.export import get_span_details
from mainspring.viewer.replay import StepReplay
from mainspring.viewer.spans import SpanKind, SpanOutcome
from mainspring.viewer.text_view import render_axis
from mainspring.viewer.trace import Trace
from viewer.stage import ENVELOPE, FULL, ID, OPTIONS, looked, of, story, write

GOLDEN = Path(__file__).parents[1] / "sessions" / "golden"
OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story(tmp_path_factory.mktemp("story"))


def spans(trace: Trace) -> list[bytes]:
    """All there is to say, but when it was said."""
    made = []
    for span in trace.spans:
        rev, span.rev = span.rev, 0
        made.append(msgspec.json.encode(span))
        span.rev = rev
    return made


# --- growing --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 40_000), max_size=6))
@settings(max_examples=examples(30))
def test_a_file_that_grows_tells_the_same_as_one_that_is_read_at_once(told: Path, cuts: list[int]) -> None:
    data = told.read_bytes()
    growing = told.parent / "growing" / told.name
    shutil.rmtree(growing.parent, ignore_errors=True)
    shutil.copytree(told.parent / ID, growing.parent / ID)
    growing.write_bytes(b"")
    trace = Trace(growing)
    for cut in sorted(cuts):
        growing.write_bytes(data[:cut])
        trace.look()
    growing.write_bytes(data)
    trace.look()
    assert spans(trace) == spans(looked(told))
    assert trace.files[0].lines.epoch == 1, "it was read from the beginning again"


def test_only_what_has_changed_has_a_new_revision(told: Path, tmp_path: Path) -> None:
    data = told.read_bytes()
    lines = data.splitlines(keepends=True)
    growing = tmp_path / told.name
    growing.write_bytes(b"".join(lines[:-30]))
    trace = looked(growing)
    before = {span.key for span in trace.spans}
    growing.write_bytes(data)
    trace.look()
    new = {span.key for span in trace.spans if span.rev == trace.rev}
    assert new - before
    assert len(new & before) <= 4  # the run, the request and the calls that were under way


def test_a_file_that_is_written_anew_is_read_anew(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    file.write_bytes(told.read_bytes())
    trace = looked(file)
    write(tmp_path / "other.jsonl", CheckedWorld([says("Hi.")]), "go").replace(file)
    trace.look()
    assert [span.label for span in of(trace, SpanKind.MODEL)] == ["Hi."]
    assert trace.head().epoch == 2


def test_a_session_under_way_says_so(told: Path, tmp_path: Path) -> None:
    lines = told.read_bytes().splitlines(keepends=True)
    file = tmp_path / told.name
    ends = next(n for n, line in enumerate(lines) if b'"Replied"' in line)
    file.write_bytes(b"".join(lines[:ends]))
    trace = looked(file)
    (model,) = of(trace, SpanKind.MODEL)
    assert (model.how, model.end, trace.head().under_way) == (SpanOutcome.OPEN, None, True)


# --- torn and damaged -------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(told: Path, tmp_path: Path) -> None:
    data, file = told.read_bytes(), tmp_path / told.name
    whole = len(list(looked(told).files[0].tracer.sheet.spans))
    found = []
    for cut in range(0, len(data), 997):
        file.write_bytes(data[:cut])
        trace = looked(file)
        found.append(len(trace.files[0].tracer.sheet.spans))
        torn = cut > 0 and not data[:cut].endswith(b"\n")
        assert any("is incomplete" in note for note in trace.head().notes) == torn
    assert found == sorted(found)
    assert found[-1] <= whole


def test_without_any_one_line_the_rest_is_still_told(told: Path, tmp_path: Path) -> None:
    lines = told.read_bytes().splitlines(keepends=True)
    file = tmp_path / told.name
    models = len(of(looked(told), SpanKind.MODEL))
    for n in range(0, len(lines), 3):
        file.write_bytes(b"".join([*lines[:n], b'{"type":"mainspr', *lines[n + 1 :]]))
        trace = looked(file)
        assert len(of(trace, SpanKind.MODEL)) >= models - 1
        assert trace.head().notes


def test_where_the_core_cannot_follow_spans_say_so(told: Path, tmp_path: Path) -> None:
    lines = told.read_bytes().splitlines(keepends=True)
    n = next(n for n, line in enumerate(lines) if b'"ToolsDone"' in line)
    file = tmp_path / told.name
    file.write_bytes(b"".join([*lines[:n], *lines[n + 1 :]]))
    trace = looked(file)
    whole = of(looked(told), SpanKind.MODEL)
    found = of(trace, SpanKind.MODEL)
    assert [(span.end, span.label) for span in found] == [(span.end, span.label) for span in whole]
    assert found[0].transition == whole[0].transition
    assert all("cannot replay" in "; ".join(span.missing) for span in found[1:])
    assert any("cannot replay from here on: event 5" in note for note in trace.head().notes)
    assert of(trace, SpanKind.RUN)[0].stop == "completed, end_turn"  # the checkpoint at its end has it


@given(st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=12)), min_size=1, max_size=8))
@settings(max_examples=examples(60))
def test_any_damage_is_survived(told: Path, damage: list[tuple[float, bytes]]) -> None:
    """Bytes overwritten anywhere: spans, details, steps and text are made of what is left."""
    data = bytearray(told.read_bytes())
    for where, junk in damage:
        place = int(where * (len(data) - len(junk)))
        data[place : place + len(junk)] = junk
    file = told.parent / "damaged.jsonl"
    file.write_bytes(data)
    trace = looked(file)
    assert_sound(trace)
    for span in trace.spans:
        assert get_span_details(trace, span.key) is not None
    replay = StepReplay(file)
    replay.look()
    assert len(replay.steps(1, 999)) == len(replay)
    assert list(render_axis(trace, 80))


@given(st.randoms(use_true_random=False))
@settings(max_examples=examples(30))
def test_lines_in_any_order_are_survived(told: Path, random: Random) -> None:
    rows = told.read_bytes().splitlines(keepends=True)
    random.shuffle(rows)
    file = told.parent / "shuffled.jsonl"
    file.write_bytes(b"".join(rows))
    assert_sound(looked(file))


def assert_sound(trace: Trace) -> None:
    keys = [span.key for span in trace.spans]
    assert len(set(keys)) == len(keys)
    for span in trace.spans:
        assert span.end is None or span.end >= span.begin, span
        assert not span.parent or span.parent in keys, span


# --- taken up again ---------------------------------------------------------------------------------------------


def taken_up(file: Path, *, damage: bool = False) -> Trace:
    write(file, CheckedWorld([says("First.", call("Read", "c1")), says("Second.")]), "go")
    if damage:
        rows = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(
            b"".join([line for line in rows if b'"ToolsDone"' not in line and b'"checkpoint"' not in line])
        )

    async def main() -> None:
        world = CheckedWorld([says("Third.", call("Read", "c2")), says("Fourth.")])
        world.offset = 1_000
        _, session, journal = take_up(file, world)
        await consume(session, "on")
        journal.close()

    virtually(main())
    return looked(file)


def test_a_session_that_was_taken_up_is_followed_through(tmp_path: Path) -> None:
    trace = taken_up(tmp_path / f"{ID}.jsonl")
    assert [span.transition for span in of(trace, SpanKind.MODEL)] == ["", "next_turn", "", "next_turn"]
    assert trace.head().notes == []


def test_what_a_process_went_on_with_finds_the_way_again(tmp_path: Path) -> None:
    trace = taken_up(tmp_path / f"{ID}.jsonl", damage=True)
    spans = of(trace, SpanKind.MODEL)
    assert [span.label for span in spans] == ["First.", "Second.", "Third.", "Fourth."]
    assert [span.transition for span in spans] == ["", "", "", "next_turn"]
    assert not any("cannot replay" in note for note in trace.head().notes)


def test_a_run_that_broke_off_ends_at_the_last_thing_that_is_known(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    write(file, CheckedWorld([says("First.", call("Bash", "c1", ms=700)), says("Second.")]), "go")
    lines = file.read_bytes().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if b'"IntentRecord"' in line)
    file.write_bytes(b"".join(lines[: begun + 1]))

    async def main() -> None:
        world = CheckedWorld([says("Again.")])
        world.offset = 1_000
        _, session, journal = take_up(file, world)
        await consume(session, "on")
        journal.close()

    virtually(main())
    trace = looked(file)
    first, second = of(trace, SpanKind.RUN)
    (tool,) = of(trace, SpanKind.TOOL)
    assert (first.how, tool.how, second.how) == (SpanOutcome.BROKE_OFF, SpanOutcome.BROKE_OFF, SpanOutcome.OK)
    assert "when it ended" in tool.missing


def test_a_fork_tells_its_own_part(tmp_path: Path) -> None:
    write(tmp_path / f"{ID}.jsonl", CheckedWorld([says("First.")]), "go")
    file = tmp_path / f"{OTHER}.jsonl"
    forked = fork_session_state(load_session(tmp_path / f"{ID}.jsonl"), file)

    async def main() -> None:
        journal = FileJournal.fork(forked, ENVELOPE, OPTIONS)
        world = CheckedWorld([says("Another way.")])
        world.offset = 1_000
        await consume(stored(world, journal, Config(), forked.state), "go on")
        journal.close()

    virtually(main())
    trace = looked(file)
    assert [(span.label, span.run) for span in of(trace, SpanKind.MODEL)] == [("Another way.", 1)]
    assert "of the other session" in of(trace, SpanKind.NOTE)[0].label
    assert trace.head().notes == []


# --- of others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*/*.jsonl")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_file_of_an_earlier_version_is_followed(file: Path) -> None:
    trace = looked(file)
    assert of(trace, SpanKind.MODEL)
    assert trace.head().notes == []
    assert all(span.how is not SpanOutcome.OPEN for span in trace.spans if span.kind is not SpanKind.TYPED)


def test_a_file_of_another_program_has_the_times_of_its_lines(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    lines = told.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([line for line in lines if not line.startswith(b'{"type":"mainspring"')]))
    trace = looked(file)
    first = of(trace, SpanKind.MODEL)[0]
    assert "when the request was sent" in first.missing
    read = of(trace, SpanKind.TOOL)[0]
    assert (read.begin, read.end) == (3_120, 4_020)  # written at, answered at
    assert "when it started (drawn from the call to its result)" in read.missing
    assert [span.label[:20] for span in of(trace, SpanKind.RUN)] == ["Why does the parser ", "And now the rest"]
    assert first.listed
    assert first.price is not None


def test_what_is_no_session_at_all_gives_notes_and_no_spans(tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b"not JSON\n\0\0\0\n[1,2]\n" + b"{" * 10_000 + b"\n")
    head = looked(file).head()
    assert (head.spans, len(head.notes)) == (0, 4)


def test_an_agents_name_is_no_path(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    record = (
        b'{"type":"mainspring","v":1,"record":{"type":"AgentRecord","agent_id":"../../x","background":false,"at":5}}\n'
    )
    (tmp_path / ID / "subagents" / "agent-..").mkdir(parents=True)
    (tmp_path / ID / "subagents" / "x.jsonl").write_bytes(told.read_bytes())
    assert Path(agent_file(file, "../../x")).exists(), "else this shows nothing"
    file.write_bytes(record)
    trace = looked(file)
    assert len(trace.files) == 1
    assert len(of(trace, SpanKind.AGENT)) == 1


# --- how much it takes --------------------------------------------------------------------------------------------


class Wordy(CheckedWorld):
    """Its tools say much."""

    size = 0

    async def _act(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        return ToolOutcome(result(call.id, f"{call.id} " + "x" * self.size))


def long_session(file: Path, turns: int, size: int) -> Path:
    replies = [says("Next.", call("Read")) for _ in range(turns)]
    contexts = [PreparedContext(FULL if n % 21 == 20 else 10) for n in range(turns + turns // 20 + 1)]
    world = Wordy([*replies, says("Done.")], contexts=contexts)
    world.size = size
    return write(file, world, "go", config=Config(max_turns=10 * turns))


def test_content_is_not_kept(tmp_path: Path) -> None:
    """300 turns of 40,000 characters: of 13 MB, what is in view of the model (20 turns) and the spans remain."""
    file = long_session(tmp_path / f"{ID}.jsonl", 300, 40_000)
    tracemalloc.start()
    try:
        trace = looked(file)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.stat().st_size > 12_000_000
    assert len(of(trace, SpanKind.TOOL)) == 300
    assert kept < 5_000_000
    assert most < 9_000_000
