"""Going on from an earlier message only if nothing but one turn is left behind (stream-json 1.2, 1.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.core.errors import UsageError
from mainspring.core.messages import Message, Origin, Text, User
from mainspring.core.updates import CallStarted, Update
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.resume import WouldDropMore, load_session
from mainspring.testing import call, says, virtually
from sessions.scenes import SCENES
from sessions.stage import ENVELOPE, ID, CheckedWorld, Meanwhile, consume, nothing, options, stored
from sessions.test_resume import entry, foreign

REPLIES = (
    says("First.", call("Bash", "c1")),
    says("First is done."),
    says("Second.", call("Bash", "c2")),
    says("Second is done."),
)


def two_turns(file: Path, meanwhile: Meanwhile = nothing) -> list[Message]:
    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(CheckedWorld(REPLIES), journal)
        await consume(session, "one")
        await consume(session, "two", meanwhile=meanwhile)
        journal.close()
        return session

    return list(virtually(main()).state.history)


def named(messages: list[Message], text: str) -> str:
    [found] = [message.id for message in messages if message.text == text]
    return found


def test_the_last_turn_may_be_dropped(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    messages = two_turns(file)
    at, prompt = named(messages, "First is done."), named(messages, "two")
    loaded, journal = FileJournal.resume(file, ENVELOPE, options(), at=at, drops=prompt)
    journal.close()
    assert list(loaded.state.history) == messages[:4]


def test_a_part_of_it_may_be_dropped(tmp_path: Path) -> None:
    """What comes after the point is of that turn, whether its prompt does or not."""
    messages = two_turns(tmp_path / f"{ID}.jsonl")
    loaded = load_session(tmp_path / f"{ID}.jsonl", at=messages[5].id, drops=named(messages, "two"))
    assert list(loaded.state.history) == messages[:7]


def test_nothing_to_drop_is_no_reason_to_refuse(tmp_path: Path) -> None:
    messages = two_turns(tmp_path / f"{ID}.jsonl")
    loaded = load_session(tmp_path / f"{ID}.jsonl", at=messages[-1].id, drops=named(messages, "two"))
    assert list(loaded.state.history) == messages


@pytest.mark.parametrize(
    ("at", "prompt", "why"),
    [
        ("one", "two", "belongs to another prompt, '{one}', and not to '{two}'"),  # the first turn's answer goes, too
        ("First is done.", "one", "belongs to another prompt, '{two}', and not to '{one}'"),
        ("one", "one", "belongs to another prompt, '{two}', and not to '{one}'"),  # two turns
    ],
)
def test_more_than_that_turn_is_refused(at: str, prompt: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    messages = two_turns(file)
    ids = {word: named(messages, word) for word in ("one", "two", "First is done.")}
    before = file.read_bytes()
    with pytest.raises(WouldDropMore) as refused:
        FileJournal.resume(file, ENVELOPE, options(), at=ids[at], drops=ids[prompt])
    assert str(refused.value).startswith("Resume rejected by --resume-drops-turn: '")
    assert str(refused.value).endswith(why.format(**ids))
    assert file.read_bytes() == before
    FileJournal.resume(file, ENVELOPE, options())[1].close()  # and it was given free


@pytest.mark.parametrize(("origin", "name"), [(Origin.PROMPT, "another prompt"), (Origin.REPORT, "an agent's report")])
def test_what_the_session_took_up_meanwhile_is_not_dropped(origin: Origin, name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"

    async def types(session: EngineSession, run: Run, update: Update) -> None:
        if isinstance(update, CallStarted):
            await session.submit("by the way", origin=origin)

    messages = two_turns(file, types)
    typed = named(messages, "by the way")
    with pytest.raises(WouldDropMore, match=f"belongs to {name}, '{typed}'"):
        load_session(file, at=named(messages, "First is done."), drops=named(messages, "two"))


def test_what_we_put_in_belongs_to_the_turn(tmp_path: Path) -> None:
    """Attachments behind the prompt, and the words of an interruption."""
    file, scene = tmp_path / f"{ID}.jsonl", SCENES["interrupt"]

    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(CheckedWorld((says("So."), *scene.replies)), journal)
        await consume(session, "one")
        said = (User((Text("two"),)), User((Text("a file has changed"),), Origin.ATTACHMENT))
        async with session.run(said) as run:
            async for update in run:
                await scene.meanwhile(session, run, update)
        journal.close()
        return session

    messages = list(virtually(main()).state.history)
    origins = [message.origin for message in messages if isinstance(message, User)]
    assert origins == [Origin.PROMPT, Origin.PROMPT, Origin.ATTACHMENT, Origin.INTERRUPTION]
    loaded = load_session(file, at=named(messages, "So."), drops=named(messages, "two"))
    assert list(loaded.state.history) == messages[:2]


def test_a_summary_in_between_is_refused(tmp_path: Path) -> None:
    file, scene = tmp_path / f"{ID}.jsonl", SCENES["compaction"]

    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(scene.world(), journal)
        for prompt in scene.prompts:
            await consume(session, prompt)
        journal.close()
        return session

    messages = list(virtually(main()).state.history)
    with pytest.raises(WouldDropMore):
        load_session(file, at=named(messages, "Fourth."), drops=named(messages, "on"))


def test_a_branch_that_was_left_is_no_place_to_go_on_from(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(
        foreign(
            entry("user", "u1", None, "one"),
            entry("assistant", "a1", "u1", "First."),
            entry("user", "u2", "a1", "two"),
            entry("assistant", "a2", "u2", "Second."),
            entry("user", "u3", "a1", "no, three"),
            entry("assistant", "a3", "u3", "Third."),
        )
    )
    with pytest.raises(WouldDropMore, match="message 'a2' is no longer part of the conversation"):
        load_session(file, at="a2", drops="u3")
    assert [m.text for m in load_session(file, at="a1", drops="u3").state.history] == ["one", "First."]
    with pytest.raises(WouldDropMore, match="belongs to another prompt, 'u3', and not to 'u2'"):
        load_session(file, at="a1", drops="u2")
    with pytest.raises(UsageError, match="of: nowhere"):
        load_session(file, at="nowhere", drops="u2")
