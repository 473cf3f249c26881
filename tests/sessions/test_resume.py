"""A session is what its file says: by its last checkpoint, by its events, or by its conversation alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User, user
from mainspring.core.pairing import NeverRan, find_unpaired_ids
from mainspring.core.reasons import Terminal
from mainspring.core.state import MAX_FAILURES, Compaction, breaker_is_open
from mainspring.core.updates import CallStarted, Result, Update
from mainspring.core.view import view
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy
from mainspring.sessions.decoder import REPEATABLE, LoadedSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.parent_links import NOT_STARTED
from mainspring.sessions.records import PolicyRecord
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.testing import call, says, virtually
from sessions.scenes import SCENES
from sessions.stage import CONFIG, ENVELOPE, ID, OTHER, CheckedWorld, Remembering, consume, options, stored, take_up
from sessions.test_cuts import first_life, read


def played(name: str, file: Path) -> EngineSession:
    return virtually(first_life(SCENES[name], file, Remembering()))


def without(file: Path, *kinds: str) -> Path:
    """A copy that lacks the lines with these words."""
    copy = file.with_name(f"{OTHER}.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join([line for line in lines if not any(kind.encode() in line for kind in kinds)]))
    return copy


def seen(loaded: LoadedSession) -> tuple[Message, ...]:
    return view(loaded.state.history, loaded.state.edits)


@pytest.mark.covers("L-04", "L-05", "L-09")
@pytest.mark.parametrize("name", SCENES)
def test_three_ways_to_one_state(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played(name, file)
    by_checkpoint = load_session(file)
    assert (by_checkpoint.how, by_checkpoint.warnings) == ("checkpoint", ())
    by_records = load_session(without(file, '"checkpoint":'))
    assert (by_records.how, by_records.warnings) == ("records", ())
    assert by_records.state == session.state
    assert replace(by_checkpoint.state, history=session.state.history) == session.state
    expected = view(session.state.history, session.state.edits)
    assert seen(by_checkpoint) == seen(by_records) == expected
    by_conversation = load_session(without(file, '"mainspring","v"'))
    assert by_conversation.how == "conversation"
    if name != "trouble":  # what was withdrawn is still in the conversation lines
        texts = [getattr(message, "text", "") for message in seen(by_conversation)]
        assert texts == [getattr(message, "text", "") for message in expected]


def test_an_unknown_checkpoint_is_rebuilt_from_the_records(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played("tool", file)
    file.write_bytes(file.read_bytes().replace(b'"Checkpoint","version":1', b'"Checkpoint","version":9'))
    loaded = load_session(file)
    assert loaded.how == "records"
    assert loaded.state == session.state
    assert "of another version" in loaded.warnings[0]


def test_only_what_is_in_view_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played("compaction", file)
    loaded = load_session(file)
    assert len(loaded.state.history) < len(session.state.history)
    assert seen(loaded) == view(session.state.history, session.state.edits)


async def go_on(
    file: Path, *replies: str, config: Config = CONFIG
) -> tuple[LoadedSession, EngineSession, list[Update]]:
    world = CheckedWorld([says(text) for text in replies])
    world.offset = len(read(file)) * 64  # ids of its own
    loaded, session, journal = take_up(file, world, config)
    updates = await consume(session, "go on")
    journal.close()
    world.check()
    return loaded, session, updates


@pytest.mark.covers("L-04")
def test_many_lives(tmp_path: Path) -> None:
    """Each takes up where the last one ended, and a replay of the whole file agrees with all of them."""
    file = tmp_path / f"{ID}.jsonl"
    played("compaction", file)
    for number in range(5):
        _, session, _ = virtually(go_on(file, f"Life {number}."))
        assert load_session(file).how == "checkpoint"
        assert seen(load_session(file)) == view(session.state.history, session.state.edits)
        by_records = load_session(without(file, '"checkpoint":{"type":"Checkpoint","version":1,"nothing"'))
        assert seen(by_records) == view(session.state.history, session.state.edits)


@pytest.mark.covers("L-08")
def test_after_the_turn_limit_the_session_goes_on_with_a_higher_one(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"

    async def main() -> Result:
        journal = FileJournal.create(file, ENVELOPE, options())
        world = CheckedWorld([says(call("Read", "c1")), says(call("Read", "c2"))])
        updates = await consume(stored(world, journal, replace(CONFIG, max_turns=1)))
        journal.close()
        assert isinstance(updates[-1], Result)
        return updates[-1]

    assert virtually(main()).terminal is Terminal.MAX_TURNS
    loaded, session, updates = virtually(go_on(file, "Done."))
    assert isinstance(updates[-1], Result)
    assert updates[-1].terminal is Terminal.COMPLETED
    assert loaded.config is not None
    assert loaded.config.max_turns == 1
    assert [type(message).__name__ for message in session.state.history] == [
        "User",
        "Assistant",
        "ToolResult",
        "User",
        "Assistant",
    ]


def crash_in_a_tool(file: Path) -> None:
    """One call is done, one runs, one has not begun."""

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        reply = says(call("Read", "done"), call("Bash", "running", ms=1000), call("Bash", "waiting"))
        session = stored(CheckedWorld([reply]), journal)

        async def kill(session: EngineSession, run: Run, update: Update) -> None:
            if isinstance(update, CallStarted) and update.call.id == "running":
                file.with_name("copy").write_bytes(read(file))

        await consume(session, meanwhile=kill)
        journal.close()

    virtually(main())
    file.with_name("copy").replace(file)


def test_a_call_without_an_outcome_is_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    crash_in_a_tool(file)
    loaded, session, _ = virtually(go_on(file, "I see."))
    assert [c.id for c in loaded.unfinished] == ["running"]
    assert [c.id for c in loaded.unstarted] == ["waiting"]
    results = {m.call_id: m for m in session.state.history if isinstance(m, ToolResult)}
    assert results["done"].text == "Read is done"
    assert (results["running"].text, results["running"].synthetic) == (NeverRan.LOST, True)
    assert results["waiting"].text == NOT_STARTED
    assert find_unpaired_ids(session.state.history) == ()


def test_a_repeatable_call_may_be_made_again(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    crash_in_a_tool(file)
    made = load_session(file).answers(lambda: "an-id", 5, lambda call: call.name == "Bash")
    assert [result.text for result in made] == ["Read is done", REPEATABLE, NOT_STARTED]


def test_what_was_typed_waits_over_a_crash(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(CheckedWorld([says("Hello.")]), journal)
        await consume(session)
        await session.submit("first")
        await session.submit("second")
        await session.change(EnginePolicy(mode="plan", rules=("Read",)))
        journal.close()

    virtually(main())
    loaded, session, _ = virtually(go_on(file, "Both."))
    assert [command.text for command in loaded.commands] == ["first", "second"]
    assert isinstance(loaded.policy, PolicyRecord)
    assert (loaded.policy.mode, loaded.policy.rules) == ("plan", ("Read",))
    assert [m.text for m in session.state.history if isinstance(m, User)] == ["go", "go on", "first", "second"]
    assert load_session(file).commands == ()


def test_what_was_typed_and_taken_back_does_not_come_again(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(CheckedWorld([says("Hello.")]), journal)
        await consume(session)
        await session.submit("first")
        second = await session.submit("second")
        assert await session.withdraw(second)
        journal.close()

    virtually(main())
    assert [command.text for command in load_session(file).commands] == ["first"]


def test_money_is_added_up(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played("text", file)
    last = session.state.totals.cost
    assert load_session(file).spent == 2 * last
    virtually(go_on(file, "More."))
    assert load_session(file).spent == 3 * last
    assert load_session(file).standing.turns == 3


# --- forks and branches ---------------------------------------------------------------------------------------------


@pytest.mark.covers("L-06")
@pytest.mark.parametrize("name", SCENES)
def test_a_fork_is_a_session_of_its_own(name: str, tmp_path: Path) -> None:
    file, other = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl"
    played(name, file)
    before = file.read_bytes()
    source = load_session(file)
    FileJournal.fork(fork_session_state(source, other), replace(ENVELOPE, session_id=OTHER), options()).close()
    assert file.read_bytes() == before
    forked = load_session(other)
    assert forked.how == "checkpoint"
    assert seen(forked) == seen(source)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == sorted([file.name, other.name])
    _, session, _ = virtually(go_on(other, "Another way."))
    assert seen(load_session(other)) == view(session.state.history, session.state.edits)
    without_records = load_session(without_into(other, tmp_path / "third.jsonl"))
    assert len(seen(without_records)) == len(session.state.history)


def without_into(file: Path, to: Path) -> Path:
    lines = file.read_bytes().splitlines(keepends=True)
    to.write_bytes(b"".join([line for line in lines if b'"mainspring","v"' not in line]))
    return to


@pytest.mark.covers("D-30")
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_fork_keeps_the_compaction_breaker(is_rewritten: bool, tmp_path: Path) -> None:
    """Its first checkpoint alone has it, from the session before: no event of the fork's own file says so. A client
    that rewrites the file moves its lines, so that it is read from its records."""
    source, file = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl"
    played("tool", source)
    loaded = load_session(source)
    open_breaker = Compaction(MAX_FAILURES, CONFIG.model.name)
    forked = fork_session_state(loaded._replace(state=replace(loaded.state, compaction=open_breaker)), file)
    assert forked.state.compaction == open_breaker

    async def main() -> None:
        world = CheckedWorld([says("Going on.")])
        journal = FileJournal.fork(forked, replace(ENVELOPE, session_id=OTHER), options())
        world.offset = 1 << 20
        await consume(stored(world, journal, CONFIG, forked.state), "go on")
        journal.close()

    virtually(main())
    if is_rewritten:
        file.write_bytes(b"".join([line.replace(b":", b": ", 1) for line in file.read_bytes().splitlines(True)]))
    again = load_session(file)
    assert again.how == ("records" if is_rewritten else "checkpoint")
    assert again.state.compaction == open_breaker
    assert breaker_is_open(again.state.compaction, CONFIG.model.name)


def test_a_fork_in_mid_reply_takes_what_was_shown_along(tmp_path: Path) -> None:
    file, other = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl"
    crash_in_a_tool(file)
    forked = fork_session_state(load_session(file), other)
    journal = FileJournal.fork(forked, ENVELOPE, options())
    world = CheckedWorld([says("On.")])
    world.offset = 1 << 20
    session = stored(world, journal, CONFIG, forked.state)
    session._salvaged = (forked.partial, forked.answers(world.new_id, 0))
    virtually(consume(session, "go on"))
    journal.close()
    assert [m.text for m in session.state.history if isinstance(m, ToolResult)][:2] == ["Read is done", NeverRan.LOST]
    assert load_session(other).state == session.state


@pytest.mark.covers("L-06")
def test_resume_at_a_message(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played("parallel", file)
    reply = session.state.history[1]
    assert isinstance(reply, Assistant)
    loaded, journal = FileJournal.resume(file, ENVELOPE, options(), at=reply.id)
    journal.close()
    assert seen(loaded) == tuple(session.state.history)[:5], "the reply, with its results"
    with pytest.raises(UsageError, match="No message found with message"):
        load_session(file, at="nowhere")


def test_a_branch_goes_on_from_where_it_was_cut(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = played("text", file)
    first = session.state.history[1]
    loaded, journal = FileJournal.resume(file, ENVELOPE, options(), at=first.id)
    world = CheckedWorld([says("Otherwise.")])
    world.offset = 1 << 20
    branch = stored(world, journal, CONFIG, loaded.state)
    virtually(consume(branch, "no, this"))
    journal.close()
    texts = [m.text for m in branch.state.history if not isinstance(m, ToolResult)]
    assert texts == ["go", "A short answer, in a few pieces.", "no, this", "Otherwise."]
    assert load_session(file).state == branch.state
    by_conversation = load_session(without(file, '"mainspring","v"'))
    assert [getattr(m, "text", "") for m in seen(by_conversation)] == texts, "the newest branch"


# --- files of others ------------------------------------------------------------------------------------------------


def foreign(*entries: dict[str, object]) -> bytes:
    return b"".join([msgspec.json.encode(entry) + b"\n" for entry in entries])


def entry(kind: str, uuid: str, parent: str | None, content: object, **more: object) -> dict[str, object]:
    message = {"role": kind, "content": content, **({"id": more.pop("id", uuid)} if kind == "assistant" else {})}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID, "message": message, **more}


def test_parallel_calls_that_fork_the_tree(tmp_path: Path) -> None:
    """As Claude Code writes them: each result follows its own call, so the walk from the leaf misses some."""
    file = tmp_path / f"{ID}.jsonl"

    def use(id: str) -> list[dict[str, object]]:
        return [{"type": "tool_use", "id": id, "name": "Read", "input": {}}]

    def answer(id: str) -> list[dict[str, object]]:
        return [{"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}]

    file.write_bytes(
        foreign(
            entry("user", "u1", None, "hello"),
            entry("assistant", "a1", "u1", use("c1"), id="m"),
            entry("assistant", "a2", "a1", use("c2"), id="m"),
            entry("user", "r1", "a1", answer("c1")),
            entry("user", "r2", "a2", answer("c2")),
            entry("assistant", "a3", "r1", [{"type": "text", "text": "done"}], id="n"),
        )
    )
    messages = seen(load_session(file))
    assert [type(message).__name__ for message in messages] == [
        "User",
        "Assistant",
        "ToolResult",
        "ToolResult",
        "Assistant",
    ]
    reply = messages[1]
    assert isinstance(reply, Assistant)
    assert reply.blocks == (ToolCall("c1", "Read", {}), ToolCall("c2", "Read", {}))
    assert [m.text for m in messages if isinstance(m, ToolResult)] == ["of c1", "of c2"]


def test_a_file_of_another_program_is_taken_up(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(
        foreign(
            {"type": "summary", "summary": "of old"},
            entry("user", "u1", None, "hello"),
            entry("assistant", "a1", "u1", [{"type": "text", "text": "hi"}]),
            entry("user", "u2", "a1", [{"type": "text", "text": "and"}, {"type": "odd", "x": 1}]),
        )
    )
    loaded, session, _ = virtually(go_on(file, "Yes."))
    assert loaded.how == "conversation"
    assert loaded.state.history[0] == User(user("hello").content, id="u1")
    assert loaded.state.history[2] == User((Text("and"), Text("[odd]")), id="u2")
    assert load_session(file).state == session.state
    assert load_session(file).how == "checkpoint"


def test_nothing_to_take_up(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(b'{"type":"custom-title","customTitle":"x"}\n')
    with pytest.raises(UsageError, match="holds no conversation"):
        load_session(file)
