"""`replay`, `fork` and `compare` over recorded sessions: those of the suite, and simulated ones."""

from __future__ import annotations

import doctest
from pathlib import Path
from random import Random

import pytest
from sessions.scenes import SCENES
from sessions.stage import Remembering
from sessions.test_cuts import first_life
from tiers import long

from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.pairing import find_unpaired_ids, open_calls
from mainspring.core.view import view
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.resume import load_session
from mainspring.testing import Scripted, World, call, compare, fork, recorded, replay, says, virtually
from mainspring.viewer.forks import fork_session_at
from mainspring.viewer.transcript import ItemKind, Transcript, read_transcript
from viewer.stage import ENVELOPE, ID, OPTIONS, looked, story, write
from viewer.test_replay import random_session

GOLDEN = sorted((Path(__file__).parents[1] / "sessions" / "golden").glob("*/*.jsonl"))

# Files of earlier versions whose decisions we no longer make: since then a reply that breaks off is withdrawn.
OTHER_DECISIONS = {"trouble": [(3, "the replay shows something that the file does not contain")]}


def assert_forks(file: Path, folder: Path, turns: list[int], transcript: Transcript) -> None:
    """Each fork has exactly what the model saw after that turn, and differs from the session by what came later."""
    before = file.read_bytes()
    for number in turns:
        forked = fork(file, at=number, folder=folder)
        kept = load_session(forked.file)
        done = transcript.turns[number - 1].done
        assert done is not None
        seen = view(done.history, done.edits)
        assert kept.warnings == ()
        assert list(kept.state.history) == list(seen)
        assert set(find_unpaired_ids(kept.state.history)) <= {one.id for one in open_calls(done.history)}
        assert_compared(file, forked.file, number, transcript)
    assert file.read_bytes() == before


def assert_compared(file: Path, forked: str, number: int, transcript: Transcript) -> None:
    found, mirrored = compare(file, Path(forked)), compare(Path(forked), file)
    turn = transcript.turns[number - 1]
    place = find_place(transcript, turn.last_id)
    later = transcript.items[place + 1 :]
    while later and (later[0].kind is ItemKind.END or (later[0].kind is ItemKind.COMPACTION and not later[0].id)):
        del later[0]
        place += 1
    assert (found.shared_turns, found.b.turns, found.b.cost, found.b.calls) == (number, 0, 0, 0)
    assert found.a.turns == len(transcript.turns) - number
    assert found.a.cost == transcript.spent - transcript.items[place].spent
    assert found.same is mirrored.same is (not later)
    if found.first is not None and mirrored.first is not None:
        assert (found.first.kind_a, found.first.kind_b, found.first.turn_a) == (later[0].kind, "", later[0].turn)
        assert (mirrored.first.kind_a, mirrored.first.b) == ("", found.first.a)


def find_place(transcript: Transcript, id: str) -> int:
    return next(place for place, item in enumerate(transcript.items) if item.id == id)


def continue_fork(forked: str) -> None:
    """As a user would, with one more prompt."""

    async def main() -> None:
        loaded, journal = FileJournal.resume(forked, ENVELOPE, OPTIONS)
        world = World([says("In another direction.")], journal=journal)
        world._numbers = iter(range(0x7000_0000, 0x7FFF_0000))  # type: ignore[assignment]  # ids of its own
        session = EngineSession.resumed(world, Config(), loaded)
        async with session.run("and now?") as run:
            async for _ in run:
                pass
        journal.close()

    virtually(main())


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_the_golden_sessions(file: Path, tmp_path: Path) -> None:
    report, transcript = replay(file), read_transcript(file)
    assert [(one.n, one.why) for one in report.differences] == OTHER_DECISIONS.get(file.stem, [])
    assert report.same is (file.stem not in OTHER_DECISIONS)
    assert compare(file, file).same
    assert transcript.spent == looked(file).head().totals.price
    assert_forks(file, tmp_path, [turn.number for turn in transcript.turns], transcript)


@pytest.mark.parametrize("name", SCENES)
def test_the_scenes_as_they_are_recorded_today(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    virtually(first_life(SCENES[name], file, Remembering()))
    transcript = read_transcript(file)
    assert replay(file).same
    assert_forks(file, tmp_path / "forks", [turn.number for turn in transcript.turns], transcript)


def test_a_story_with_a_subagent(tmp_path: Path) -> None:
    file = story(tmp_path)
    report, transcript = replay(file), read_transcript(file)
    assert (report.same, len(report.agents), report.notes) == (True, 1, [])
    assert report.steps > len(list(transcript.turns)) * 3
    assert transcript.spent == looked(file).head().totals.price
    assert_forks(file, tmp_path / "forks", [turn.number for turn in transcript.turns], transcript)


@pytest.mark.parametrize("first", [0, *[long(start) for start in range(50, 1_000, 50)]])
def test_a_thousand_simulated_sessions(first: int, tmp_path: Path) -> None:
    """Every kind of fault, and consumers that are slow, gone or interrupt. Each is forked after one turn, and the fork
    is continued."""
    played = 0
    for seed in range(first, first + 50):
        file = tmp_path / str(seed) / f"{ID}.jsonl"
        file.parent.mkdir()
        random_session(file, seed)
        report, transcript = replay(file), read_transcript(file)
        assert (report.same, report.notes) == (True, []), (seed, report.differences)
        assert compare(file, file).same
        assert transcript.spent == looked(file).head().totals.price
        if transcript.turns:
            number = Random(seed).randint(1, len(transcript.turns))
            assert_forks(file, tmp_path, [number], transcript)
            forked = fork(file, at=number, folder=tmp_path)
            continue_fork(forked.file)
            found = compare(file, Path(forked.file))
            assert (found.shared_turns, found.b.turns, found.same) == (number, 1, False)
            assert replay(Path(forked.file)).same
            played += 1
    assert played > 40


# --- differences -------------------------------------------------------------------------------------------------


def record(folder: Path, *replies: object, prompts: tuple[str, ...] = ("go",), config: Config | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    given = replies or (says("Look.", call("Read", "c1", text="old")), says("It is 5."))
    return write(folder / f"{ID}.jsonl", World(given), *prompts, config=config or Config())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "turn", "kind", "a", "b"),
    [
        ((says("Look.", call("Read", "c1", text="old")), says("It is 6.")), 2, "reply", "It is 5.", "It is 6."),
        ((says("Look.", call("Grep", "c1", text="old")), says("It is 5.")), 1, "reply", "Look. Read", "Look. Grep"),
        ((says("Look.", call("Read", "c1", text="old", fails=True)), says("It is 5.")), 1, "reply", '"}', '"fails"'),
        ((says("Look.", call("Read", "c9", text="old", ms=0)), says("It is 5.")), 1, "reply", "{", '"ms":0'),
    ],
)
def test_the_first_difference(tmp_path: Path, other: tuple[object, ...], turn: int, kind: str, a: str, b: str) -> None:
    first = compare(record(tmp_path / "a"), record(tmp_path / "b", *other)).first
    assert first is not None
    assert (first.turn_a, first.turn_b, first.kind_a, first.kind_b) == (turn, turn, kind, kind)
    assert a in first.a
    assert b in first.b


def test_ids_and_models_are_no_difference(tmp_path: Path) -> None:
    from mainspring.core.models import model_named

    a = record(tmp_path / "a", says("Look.", call("Read", "c1", text="x")), says("Done."))
    other = Config(model=model_named("claude-opus-5"))
    b = record(tmp_path / "b", says("Look.", call("Read", "c2", text="x")), says("Done."), config=other)
    found = compare(a, b)
    assert (found.same, found.a.models, found.b.models) == (True, ["claude-sonnet-5-5"], ["claude-opus-5"])
    assert found.a.cost < found.b.cost


def test_another_prompt_another_result_and_another_end(tmp_path: Path) -> None:
    one = record(tmp_path / "a")
    prompt = compare(one, record(tmp_path / "b", prompts=("stop",))).first
    assert prompt is not None
    assert (prompt.kind_a, prompt.a, prompt.b, prompt.turn_a) == ("prompt", "go", "stop", 0)
    short = says("Look.", call("Read", "c1", text="old"))
    end = compare(one, record(tmp_path / "c", short, config=Config(max_turns=1)))
    assert end.first is not None
    assert (end.first.kind_a, end.first.kind_b, end.first.b) == ("reply", "end", "max_turns, limit")
    assert (end.a.outcome, end.b.outcome) == ("completed, end_turn", "max_turns, limit")
    other = tmp_path / "d" / one.name
    other.parent.mkdir()
    other.write_bytes(one.read_bytes().replace(b'"content":"old"', b'"content":"new"'))
    result = compare(one, other).first
    assert result is not None
    assert (result.kind_a, result.turn_a, result.a, result.b) == (
        "result", 1, 'Read {"text":"old"}: old', 'Read {"text":"old"}: new',
    )  # fmt: skip


def test_secrets_and_control_characters_are_not_shown(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 24
    a = record(tmp_path / "a", says(f"The key is {key} \x1b[2J"))
    first = compare(a, record(tmp_path / "b", says("The key is gone"))).first
    assert first is not None
    assert "a1B2" not in first.a
    assert "\x1b" not in first.a


# --- other files -------------------------------------------------------------------------------------------------


def test_a_session_of_another_program(tmp_path: Path) -> None:
    """No events: it can be forked and compared, and not replayed."""
    whole = record(tmp_path / "a")
    file = tmp_path / f"{ID}.jsonl"
    lines = whole.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([line for line in lines if b'"mainspring","v"' not in line]))
    transcript = read_transcript(file)
    assert [(item.kind, item.turn) for item in transcript.items] == [
        ("prompt", 0), ("reply", 1), ("result", 1), ("reply", 2),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no decisions to replay"):
        replay(file)
    forked = fork(file, at=1)
    assert [type(message).__name__ for message in load_session(forked.file).state.history] == [
        "User", "Assistant", "ToolResult",
    ]  # fmt: skip
    first = compare(whole, file).first
    assert first is not None
    assert (first.kind_a, first.kind_b) == ("end", "")


def test_a_damaged_session_tells_what_could_not_be_read(tmp_path: Path) -> None:
    file = record(tmp_path / "a")
    lines = file.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"ToolsDone"' in line)
    broken = tmp_path / file.name
    broken.write_bytes(b"".join([*lines[:place], b"{torn\n", *lines[place + 1 :]]))
    report = replay(broken)
    assert not report.same
    assert [(one.n, one.mark) for one in report.differences] == [
        (3, "differs"), (5, "unknown"), (6, "unknown"), (7, "unknown"),
    ]  # fmt: skip
    assert [note.split(":")[0] for note in report.notes] == [f"line {place + 1}", "cannot replay from here on"]
    transcript = read_transcript(broken)
    assert [turn.number for turn in transcript.turns] == [1, 2]
    assert transcript.notes == report.notes
    forked = fork(broken, at=2, folder=tmp_path / "forks")
    assert load_session(forked.file).state.history[-1].text == "It is 5."


def test_a_fork_at_a_message_and_of_everything(tmp_path: Path) -> None:
    file = record(tmp_path)
    reply = read_transcript(file).items[1].id
    at_message, whole = fork(file, at=reply), fork(file)
    assert (at_message.turns, whole.turns, whole.messages) == (None, 2, 4)
    with pytest.raises(UsageError, match=r"turn 3 does not exist: session '.*' has 2 turns"):
        fork(file, at=3)
    with pytest.raises(UsageError, match="turn 0 does not exist"):
        fork(file, at=0)
    assert len(list(tmp_path.glob("*.jsonl"))) == 3


def test_a_fork_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    file = record(tmp_path / "a")
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(OSError, match="cannot write the fork"):
        fork_session_at(file, 1, folder=blocked)
    assert blocked.read_bytes() == b""


def test_nothing_is_no_session(tmp_path: Path) -> None:
    empty = tmp_path / f"{ID}.jsonl"
    empty.write_bytes(b"no session\n")
    for use in (lambda: read_transcript(empty), lambda: compare(empty, empty), lambda: replay(empty)):
        with pytest.raises(UsageError):
            use()
    with pytest.raises(OSError, match="No such file"):
        replay(tmp_path / "nowhere.jsonl")


def test_the_examples_of_the_functions_run(tmp_path: Path) -> None:
    names = {
        "session": record(tmp_path / "a", prompts=("What is 2 + 3?",)),
        "other": record(
            tmp_path / "b",
            says("Look.", call("Read", "c1", text="old")),
            says("It is five."),
            prompts=("What is 2 + 3?",),
        ),
        "Scripted": Scripted,
        "says": says,
    }
    tried = 0
    for example in doctest.DocTestFinder().find(recorded, extraglobs=names):
        result = doctest.DocTestRunner(verbose=False).run(example)
        assert result.failed == 0, example.name
        tried += result.attempted
    assert tried >= 8
