"""A session taken up on another machine, from the entries that a store has kept (stream-json 14.5).

The client writes them into a file of its own, with its own spelling: other bytes, other places, the same values. What
we keep beside a session's file is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk._internal.session_resume import _write_jsonl
from msgspec.structs import replace

from mainspring.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, User
from mainspring.core.view import view
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import LARGEST_INLINE
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.testing import call, says, virtually
from sessions.scenes import SCENES, Scene
from sessions.stage import ENVELOPE, ID, OTHER, CheckedWorld, consume, options, stored, take_up

WORDS = "Grüße aus Zürich, 東京, 🎈"  # two, three and four bytes each; the client writes six and twelve
BIG = "x" * (LARGEST_INLINE + 1)


def as_it_is(entry: dict[str, Any]) -> dict[str, Any]:
    return entry


def sorted_keys(entry: dict[str, Any]) -> dict[str, Any]:
    """As a store may give them back: PostgreSQL's `jsonb` keeps no order."""
    return json.loads(json.dumps(entry, sort_keys=True))  # type: ignore[no-any-return]


def elsewhere(file: Path, order: Any = as_it_is) -> Path:
    """What the client makes of the lines of a file."""
    entries = [order(json.loads(line)) for line in file.read_bytes().split(b"\n") if line]
    other = file.parent / "elsewhere" / file.name
    _write_jsonl(other, entries)
    return other


def lived(scene: Scene, file: Path, prompts: Iterable[str]) -> EngineSession:
    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(scene.world(), journal, scene.config)
        for prompt in prompts:
            await consume(session, prompt, meanwhile=scene.meanwhile)
        journal.close()
        return session

    return virtually(main())


def go_on(file: Path, number: int) -> EngineSession:
    world = CheckedWorld([says(f"{WORDS} {number}")])
    world.offset = number << 20
    _, session, journal = take_up(file, world)
    virtually(consume(session, f"{WORDS}? {number}"))
    journal.close()
    return session


def seen(session: EngineSession) -> tuple[Message, ...]:
    return tuple(view(session.state.history, session.state.edits))


@pytest.mark.covers("L-05")
@pytest.mark.parametrize("order", [as_it_is, sorted_keys])
@pytest.mark.parametrize("name", SCENES)
def test_the_conversation_is_whole(name: str, order: Any, tmp_path: Path) -> None:
    """Three times from machine to machine; and not a word about places that have moved."""
    file, scene = tmp_path / f"{ID}.jsonl", SCENES[name]
    session = lived(scene, file, [f"{prompt} {WORDS}" for prompt in scene.prompts])
    for number in range(1, 4):
        file = elsewhere(file, order)
        loaded = load_session(file)
        assert loaded.warnings == ()
        assert tuple(view(loaded.state.history, loaded.state.edits)) == seen(session)
        session = go_on(file, number)
    assert seen(session)[-1].text == f"{WORDS} 3"


def test_a_fork_and_an_earlier_message_are_whole_too(tmp_path: Path) -> None:
    file, branch = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl"
    session = lived(SCENES["tool"], file, [WORDS])
    FileJournal.fork(
        fork_session_state(load_session(file), branch), replace(ENVELOPE, session_id=OTHER), options()
    ).close()
    moved = elsewhere(branch)
    assert [m.text for m in load_session(moved).state.history] == [m.text for m in seen(session)]
    after = go_on(moved, 1)
    again = load_session(elsewhere(moved))
    assert again.warnings == ()
    assert tuple(view(again.state.history, again.state.edits)) == seen(after)
    first = seen(session)[0]
    _, journal = FileJournal.resume(file, ENVELOPE, options(), at=first.id)
    journal.close()
    there = load_session(elsewhere(file), at=first.id)
    assert there.state.history[0] == first


# --- what was kept beside the file ------------------------------------------------------------------------------------


def test_large_content_that_stayed_behind_is_named_in_its_place(tmp_path: Path) -> None:
    """Each message is there, with its beginning and a note; a call still says what it was about."""
    file = tmp_path / f"{ID}.jsonl"
    prompt = User((Text("look at this"), Image("image/png", "A" * (LARGEST_INLINE + 1))))
    write = ToolCall("c1", "Write", {"file_path": "a.txt", "content": BIG, "lines": [BIG, "y"], "mode": 3})

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        replies = [says(Thinking(BIG, "signed"), write, call("Read", "c2", text=BIG)), says(Text(BIG))]
        session = stored(CheckedWorld(replies), journal)
        async with session.run((prompt,), deltas=False) as run:
            async for _ in run:
                pass
        journal.close()

    virtually(main())
    loaded = load_session(elsewhere(file))
    asked, reply, wrote, got, answer = loaded.state.history
    assert asked.text == "look at this\n[12 characters and 1 media in all; the rest is kept elsewhere]"
    assert isinstance(reply, Assistant)
    thought, written, _ = reply.blocks
    rest = f"{'x' * 2_000}\n[262,145 characters in all; the rest is kept elsewhere]"
    assert thought == Thinking(rest, "")  # without a signature it is sent to nobody
    assert isinstance(written, ToolCall)
    assert written.input == {
        "file_path": "a.txt",
        "content": rest,
        "lines": "[262,153 bytes; they are kept elsewhere]",
        "mode": 3,
    }
    assert got.text == rest.replace("characters", "characters and 0 media")
    assert answer.text == rest
    assert wrote.text
    assert len(loaded.warnings) == 6  # the prompt, the thought, two calls, a result, the answer
    assert all("only its beginning is used" in warning for warning in loaded.warnings)
    assert go_on(elsewhere(file), 1).state.history[-1].text == f"{WORDS} 1"
