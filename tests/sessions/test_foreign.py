"""Lines of another program in our file, one kind at a time. What the real one writes is in `test_shared_file.py`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring import open_run
from mainspring.core.messages import Origin, User
from mainspring.core.view import view
from mainspring.sessions.decoder import LoadedSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.resume import load_session
from mainspring.testing import Scripted, says, virtually
from sessions.stage import ENVELOPE, ID, CheckedWorld, consume, take_up


def ours(folder: Path) -> tuple[Path, str]:
    """A session of one run, and the uuid of its last line."""
    file = folder / f"{ID}.jsonl"

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE)
        async with open_run("Hello!", provider=Scripted([says("Hi.")]), journal=journal) as run:
            async for _ in run:
                pass
        journal.close()

    asyncio.run(main())
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return file, [line["uuid"] for line in lines if line["type"] == "assistant"][-1]


def number(n: int) -> str:
    return f"aaaaaaaa-0000-4000-8000-{n:012}"


def line(kind: str, n: int, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{n}", "model": "m", "stop_reason": "end_turn"}
        message["content"] = [{"type": "text", "text": content}]
    return {"type": kind, "uuid": number(n), "parentUuid": parent, "isSidechain": False, "message": message, **more}


def add(file: Path, *lines: dict[str, Any]) -> None:
    with file.open("ab") as end:
        end.write(b"".join([json.dumps(one).encode() + b"\n" for one in lines]))


def seen(loaded: LoadedSession) -> list[str]:
    return [message.text for message in view(loaded.state.history, loaded.state.edits)]


def test_a_turn_is_put_behind_ours_and_each_line_counts_once(tmp_path: Path) -> None:
    file, leaf = ours(tmp_path)
    prompt, reply = line("user", 1, leaf, "theirs"), line("assistant", 2, number(1), "their reply")
    add(file, prompt, reply, prompt, reply)
    assert seen(load_session(file)) == ["Hello!", "Hi.", "theirs", "their reply"]


def test_side_chains_errors_and_what_describes_the_program_are_left_out(tmp_path: Path) -> None:
    file, leaf = ours(tmp_path)
    about = {"type": "attachment", "uuid": number(2), "parentUuid": number(1), "attachment": {"type": "date"}}
    add(
        file,
        line("user", 1, leaf, "theirs"),
        about | {"rendered": [{"content": "Today is a day."}]},
        line("user", 3, number(2), "of an agent", isSidechain=True),
        line("assistant", 4, number(2), "API Error: 500", isApiErrorMessage=True),
    )
    assert seen(load_session(file)) == ["Hello!", "Hi.", "theirs"]


def test_a_prompt_that_was_typed_while_a_turn_ran_is_a_prompt(tmp_path: Path) -> None:
    file, leaf = ours(tmp_path)
    queued = {"type": "queued_command", "prompt": "and quickly"}
    add(
        file,
        line("user", 1, leaf, "theirs"),
        {"type": "attachment", "uuid": number(2), "parentUuid": number(1), "attachment": queued},
        line("assistant", 3, number(2), "their reply"),
    )
    loaded = load_session(file)
    assert seen(loaded)[2:] == ["theirs", "and quickly", "their reply"]
    typed = loaded.state.history[3]
    assert isinstance(typed, User)
    assert typed.origin is Origin.PROMPT


def with_a_turn_of_ours_between(tmp_path: Path) -> Path:
    file, leaf = ours(tmp_path)
    add(file, line("user", 1, leaf, "one"), line("assistant", 2, number(1), "1"))
    add(file, line("user", 3, number(2), "two"), line("assistant", 4, number(3), "2"))
    world = CheckedWorld([says("My reply.")])
    world.offset = 1_000
    loaded, session, journal = take_up(file, world)
    assert seen(loaded)[2:] == ["one", "1", "two", "2"]
    virtually(consume(session, "mine"))
    journal.close()
    return file


def test_going_back_over_its_own_turns_is_obeyed(tmp_path: Path) -> None:
    file = with_a_turn_of_ours_between(tmp_path)
    add(file, line("user", 5, number(2), "instead of two"), line("assistant", 6, number(5), "3"))
    assert seen(load_session(file))[2:] == ["one", "1", "instead of two", "3"]


def test_a_turn_of_ours_that_it_had_not_seen_is_kept(tmp_path: Path) -> None:
    file = with_a_turn_of_ours_between(tmp_path)
    add(file, line("user", 5, number(4), "three"), line("assistant", 6, number(5), "3"))
    assert seen(load_session(file))[2:] == ["one", "1", "two", "2", "mine", "My reply.", "three", "3"]


def test_a_line_behind_a_torn_one_is_read(tmp_path: Path) -> None:
    file, leaf = ours(tmp_path)
    with file.open("ab") as end:
        end.write(b'{"type":"user","uuid":"torn","mess\n')
    add(file, line("user", 1, leaf, "theirs"), line("assistant", 2, number(1), "their reply"))
    assert seen(load_session(file))[2:] == ["theirs", "their reply"]


TORN = [
    b'{"type":"mainspring","v":1,"event":{"type":"Repl',
    b'{"type":"user","uuid":"torn","message":{"role":"user","content":[{"type":"text","text":"half \\"{ a',
    b'{"type":"assistant","uuid":"torn","message":{"content":[{"type":"tool_use","input":{"a":1',
]


@pytest.mark.parametrize("torn", TORN)
def test_a_line_that_is_glued_to_a_torn_one_is_read(tmp_path: Path, torn: bytes) -> None:
    """A crash has left half a line of ours, and the other program appends its own to it."""
    file, leaf = ours(tmp_path)
    with file.open("ab") as end:
        end.write(torn)
    result = line("assistant", 2, number(1), "their reply")
    add(file, line("user", 1, leaf, "theirs", toolUseResult={"type": "x", "inner": {"type": "user"}}), result)
    assert seen(load_session(file))[2:] == ["theirs", "their reply"]


TURNS = [(1, "user", "one"), (2, "assistant", "two \u00e9{}"), (3, "user", 'thr"}{"ee'), (4, "assistant", "four")]


@pytest.mark.parametrize("between", [b"", b" ", b"\0", b"\r"])
@pytest.mark.parametrize("glued", range(16))
def test_whole_lines_without_a_newline_between_them_are_all_read(tmp_path: Path, glued: int, between: bytes) -> None:
    """Each bit of `glued` is a newline that is missing: before the first line of the other program, and so on."""
    file, parent = ours(tmp_path)
    data = file.read_bytes().rstrip(b"\n")
    for place, (n, kind, text) in enumerate(TURNS):
        one = line(kind, n, parent, text)
        data += (between if glued & 1 << place else b"\n") + json.dumps(one, ensure_ascii=False).encode()
        parent = number(n)
    file.write_bytes(data + b"\n")
    loaded = load_session(file)
    assert seen(loaded)[2:] == [text for _, _, text in TURNS]
    assert loaded.warnings == ()
    again, journal = FileJournal.resume(file, ENVELOPE)
    journal.close()
    assert seen(again) == seen(loaded)


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("torn", TORN)
def test_whole_lines_around_a_torn_one_are_read(tmp_path: Path, torn: bytes, before: int) -> None:
    file, leaf = ours(tmp_path)
    lines = [line("user", 1, leaf, "a"), line("assistant", 2, number(1), "b"), line("user", 3, number(2), "c")]
    parts = [json.dumps(one).encode() for one in lines]
    with file.open("ab") as end:
        end.write(b"".join([*parts[:before], torn, *parts[before:]]) + b"\n")
    assert seen(load_session(file))[2:] == ["a", "b", "c"]


def test_a_summary_with_what_it_kept_in_view(tmp_path: Path) -> None:
    file, leaf = ours(tmp_path)
    kept = {"preservedMessages": {"uuids": [number(3), number(4)]}}
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": number(5), "parentUuid": None}
    add(
        file,
        *(line("user", 1, leaf, "one"), line("assistant", 2, number(1), "1")),
        *(line("user", 3, number(2), "two"), line("assistant", 4, number(3), "2")),
        boundary | {"logicalParentUuid": number(4), "compactMetadata": kept},
        line("user", 6, number(5), "All of it.", isCompactSummary=True),
        line("user", 7, number(6), "three"),
    )
    assert seen(load_session(file)) == ["All of it.", "two", "2", "three"]
    loaded, journal = FileJournal.resume(file, ENVELOPE)
    journal.close()
    assert seen(loaded) == ["All of it.", "two", "2", "three"]
