"""What a journal tells of its lines while it writes them (stream-json 14.5): all of them, whole, in order, once."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.core.messages import result
from mainspring.sessions.journal import FileJournal, JournalOptions
from mainspring.sessions.line_format import LARGEST_INLINE
from mainspring.sessions.paths import agent_file
from mainspring.sessions.records import NoteRecord, OutcomeRecord
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.sessions.subagents import meta_file, open_journal
from mainspring.testing import says, virtually
from sessions.scenes import SCENES
from sessions.stage import ENVELOPE, ID, OTHER, CheckedWorld, Remembering, consume, options, stored
from sessions.test_cuts import first_life


class Told:
    """What a mirror was told, by file."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes]] = []

    def __call__(self, file: str, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.pieces.append((file, lines))

    @property
    def files(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for file, lines in self.pieces:
            found[file] = found.get(file, b"") + lines
        return found


def mirrored(told: Told, disk: Remembering | None = None) -> JournalOptions:
    return replace(options(disk), mirror=told)


def note(text: str = "x") -> NoteRecord:
    return NoteRecord("test", text, 5)


@pytest.mark.parametrize("name", SCENES)
def test_every_line_is_told_and_nothing_else(name: str, tmp_path: Path) -> None:
    """Not the file of the reply under way, which is there too. No uuid twice: a store may keep one line of each."""
    file, told, scene = tmp_path / f"{ID}.jsonl", Told(), SCENES[name]

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, mirrored(told))
        session = stored(scene.world(), journal, scene.config)
        for prompt in scene.prompts:
            await consume(session, prompt, meanwhile=scene.meanwhile)
        journal.close()

    virtually(main())
    assert told.files == {str(file): file.read_bytes()}
    assert (tmp_path / ID / "live.jsonl").stat().st_size > 0
    uuids = [json.loads(line).get("uuid") for line in told.files[str(file)].splitlines()]
    named = [uuid for uuid in uuids if uuid is not None]
    assert len(set(named)) == len(named) > 0


def test_a_line_is_told_when_it_stands_in_the_file(tmp_path: Path) -> None:
    file, sizes = tmp_path / f"{ID}.jsonl", list[tuple[int, int]]()
    told = 0

    def hear(_: str, lines: bytes) -> None:
        nonlocal told
        told += len(lines)
        sizes.append((told, file.stat().st_size))

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, replace(options(), mirror=hear))
        for number in range(3):
            await journal.append(note(str(number)))
            assert len(sizes) == number + 1  # and no later
        journal.close()

    asyncio.run(main())
    assert [heard for heard, _ in sizes] == [size for _, size in sizes]


def test_nothing_is_in_the_way_without_a_mirror(tmp_path: Path) -> None:
    """The very call of the system, so a record costs no instruction more."""
    journal = FileJournal.create(tmp_path / f"{ID}.jsonl", ENVELOPE)
    assert journal._write_to is os.write
    journal.close()


def test_large_content_is_not_told_but_its_line_is(tmp_path: Path) -> None:
    file, told = tmp_path / f"{ID}.jsonl", Told()

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, mirrored(told))
        await journal.append(OutcomeRecord(replace(result("c", "x" * (LARGEST_INLINE + 1)), id="r", at=1)))
        journal.close()

    asyncio.run(main())
    assert told.files == {str(file): file.read_bytes()}
    assert len(told.files[str(file)]) < 10_000
    assert len(list((tmp_path / ID / "payloads").iterdir())) == 1


def test_our_own_keys_are_not_told(tmp_path: Path) -> None:
    told, key = Told(), "sk-another-key-of-ours"

    async def main() -> None:
        journal = FileJournal.create(tmp_path / f"{ID}.jsonl", ENVELOPE, replace(mirrored(told), secrets=(key,)))
        await journal.append(note(f"the key is {key}"))
        about = {"agentType": "Explore", "description": f"use {key}", "toolUseId": "toolu_1"}
        open_journal(journal, ENVELOPE, "a1", about).close()
        journal.close()

    asyncio.run(main())
    assert len(told.pieces) == 2
    assert key.encode() not in b"".join([lines for _, lines in told.pieces])
    assert key not in Path(meta_file(agent_file(tmp_path / f"{ID}.jsonl", "a1"))).read_text()


# --- a disk that takes less, or nothing -----------------------------------------------------------------------------


def test_a_disk_that_takes_a_little_at_a_time(tmp_path: Path) -> None:
    file, told, disk = tmp_path / f"{ID}.jsonl", Told(), Remembering()
    disk.fails = lambda _: 7

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, mirrored(told, disk))
        for number in range(3):
            await journal.append(note(str(number)))
        journal.close()

    asyncio.run(main())
    assert told.files == {str(file): file.read_bytes()}
    assert [lines.count(b"\n") for _, lines in told.pieces] == [1, 1, 1]


def test_a_line_that_the_disk_took_half_of_is_not_told(tmp_path: Path) -> None:
    """The process that goes on with the file ends that line, and tells only what it writes itself."""
    file, told, disk = tmp_path / f"{ID}.jsonl", Told(), Remembering()
    virtually(first_life(SCENES["text"], file, Remembering()))
    before = file.read_bytes()
    answers: list[int | OSError | None] = [None, 20, OSError(errno.ENOSPC, "full")]
    disk.fails = lambda _: answers.pop(0)

    async def main() -> None:
        _, journal = FileJournal.resume(file, ENVELOPE, mirrored(told, disk))
        await journal.append(note("whole"))
        await journal.append(note("half"))
        journal.close()

    asyncio.run(main())
    torn = file.read_bytes()
    assert torn == before + told.files[str(file)] + torn[-20:]
    again = Told()

    async def later() -> None:
        _, journal = FileJournal.resume(file, ENVELOPE, mirrored(again))
        await journal.append(note("later"))
        journal.close()

    asyncio.run(later())
    assert file.read_bytes() == torn + again.files[str(file)]
    assert [json.loads(line)["type"] for line in again.files[str(file)].splitlines() if line] == ["mainspring"] * 2


# --- forks and agents -----------------------------------------------------------------------------------------------


def test_a_fork_is_told_under_its_own_name(tmp_path: Path) -> None:
    """Not under that of the draft, and not before it is there."""
    source, other, told = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl", Told()
    virtually(first_life(SCENES["parallel"], source, Remembering()))

    async def main() -> None:
        world = CheckedWorld([says("Another way.")])
        world.offset = 1 << 20
        forked = fork_session_state(load_session(source), other)
        journal = FileJournal.fork(forked, replace(ENVELOPE, session_id=OTHER), mirrored(told))
        assert told.files == {str(other): other.read_bytes()}
        await consume(stored(world, journal, state=forked.state), "go on")
        journal.close()

    virtually(main())
    assert told.files == {str(other): other.read_bytes()}


def test_a_fork_that_comes_to_nothing_is_not_told(tmp_path: Path) -> None:
    """The disk took some lines of the draft, and no more: there is no such session."""
    source, other, told, disk = tmp_path / f"{ID}.jsonl", tmp_path / f"{OTHER}.jsonl", Told(), Remembering()
    virtually(first_life(SCENES["parallel"], source, Remembering()))
    answers: list[int | OSError] = [1_000, OSError(errno.ENOSPC, "full")]
    disk.fails = lambda _: answers.pop(0)
    heard: list[str] = []
    setting = replace(mirrored(told, disk), on_trouble=heard.append)
    FileJournal.fork(fork_session_state(load_session(source), other), ENVELOPE, setting).close()
    assert len(heard) == 1
    assert answers == []
    assert not other.exists()
    assert told.pieces == []


def test_an_agent_is_told_of_with_whose_it_is(tmp_path: Path) -> None:
    file, told = tmp_path / f"{ID}.jsonl", Told()
    about = {"agentType": "Explore", "description": "look, half a \ud800 character", "toolUseId": "toolu_1"}

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, mirrored(told))
        agent = open_journal(journal, ENVELOPE, "a1", about)
        await consume(stored(CheckedWorld([says("Found.")]), agent), "look")
        inner = open_journal(agent, ENVELOPE, "a2", {**about, "parentAgentId": "a1"})
        await inner.append(note())
        for one in (inner, agent, journal):
            one.close()

    virtually(main())
    names = [agent_file(file, "a1"), agent_file(agent_file(file, "a1"), "a2")]
    assert list(told.files) == names
    for name in names:
        first, rest = told.files[name].split(b"\n", 1)
        meta = json.loads(Path(meta_file(name)).read_bytes())
        assert json.loads(first) == {"type": "agent_metadata", **meta}
        assert rest == Path(name).read_bytes()
    assert json.loads(Path(meta_file(names[0])).read_bytes()) == {**about, "description": "look, half a ? character"}
