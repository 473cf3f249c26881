"""A process that is gone after any byte that it wrote: taken up again, nothing that was shown is lost
(security P3, P4)."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tiers import long

from mainspring.core.messages import ToolResult
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.updates import CallDone, Update
from mainspring.core.view import Fold, view
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.resume import load_session
from mainspring.testing import call, says, virtually
from sessions.scenes import SCENES, Scene
from sessions.stage import (
    ENVELOPE,
    ID,
    CheckedWorld,
    Cut,
    Got,
    Remembering,
    Wrote,
    consume,
    lost,
    options,
    stored,
    take_up,
)


async def first_life(scene: Scene, file: Path, disk: Remembering) -> EngineSession:
    journal = FileJournal.create(file, ENVELOPE, options(disk))
    world = scene.world()
    session = stored(world, journal, scene.config)
    for prompt in scene.prompts:
        await consume(session, prompt, log=disk.log, meanwhile=scene.meanwhile)
    world.check()
    journal.close()
    return session


class Moment:
    """What was on the disk, and what the consumer had seen, when a write got so far."""

    def __init__(self, log: list[Wrote | Cut | Got], writes: int, size: int) -> None:
        self.files: dict[str, bytes] = {}
        self.seen: list[Update] = []
        for entry in log:
            match entry:
                case Got():
                    self.seen.append(entry.update)
                case Cut():
                    self.files[entry.name] = b""
                case Wrote():
                    writes -= 1
                    data = entry.data if writes else entry.data[:size]
                    self.files[entry.name] = self.files.get(entry.name, b"") + data
                    if not writes:
                        return

    def lay_out(self, folder: Path) -> Path:
        file = folder / f"{ID}.jsonl"
        file.write_bytes(self.files.get(file.name, b""))
        live = folder / ID / "live.jsonl"
        live.parent.mkdir(exist_ok=True)
        live.write_bytes(self.files.get("live.jsonl", b""))
        return file


def forgotten(seen: list[Update], session: EngineSession) -> list[str]:
    """Results that were shown, and that the conversation has lost: stored is not enough for them."""
    if any(isinstance(edit, Fold) for edit in session.state.edits):
        return []
    kept = [message for message in session.state.history if isinstance(message, ToolResult)]
    return [update.result.id for update in seen if isinstance(update, CallDone) and update.result not in kept]


def read(file: Path) -> bytes:
    return file.read_bytes()


def repeated(file: Path) -> set[str]:
    """Lines that stand twice: a store keeps one of them, and who follows the links from the second meets it again."""
    with JournalReader(file) as reader:
        lines = [line for _, line in reader.lines() if line.uuid]
    assert [line.uuid for line in lines if line.uuid == line.parentUuid] == []
    return {uuid for uuid, count in Counter([line.uuid for line in lines]).items() if count > 1}


async def second_life(seen: list[Update], file: Path, scene: Scene) -> None:
    before = read(file)
    began = {c.split(b'"')[0] for c in before.split(b'"IntentRecord","call":{"type":"ToolCall","id":"')[1:]}
    world = CheckedWorld([says("Where was I?", call("Read", "new")), says("Good.")])
    world.offset = 1 << 20
    loaded, session, journal = take_up(file, world, scene.config)
    waiting = [command.text for command in loaded.commands]
    await consume(session, "go on")
    journal.close()
    world.check()
    assert read(file).startswith(before), "a byte was destroyed"
    assert {call_id.encode() for call_id, _, _ in world.ran}.isdisjoint(began), "a call ran twice"
    assert find_unpaired_ids(view(session.state.history, session.state.edits)) == ()
    assert lost(seen, file) == []
    assert repeated(file) <= {command.id for command in loaded.commands}, "typed, and its event was torn off"
    assert forgotten(seen, session) == []
    assert not {text for text in waiting if text != "one day"} - {m.text for m in session.state.history}
    again = load_session(file)
    assert again.how == "checkpoint", again.warnings
    assert view(again.state.history, again.state.edits) == view(session.state.history, session.state.edits)


ALL = os.environ.get("MAINSPRING_CUTS") == "all"  # `make crash` has the time for it


def points(log: list[Wrote | Cut | Got], *, last_every: int) -> list[tuple[int, int]]:
    """After each write, and in the midst of it; after every byte, or every few, of the last."""
    writes = [entry.data for entry in log if isinstance(entry, Wrote)]
    made = [(n, size) for n, data in enumerate(writes, 1) for size in (1, len(data) // 2, len(data) - 1, len(data))]
    made += [(len(writes), size) for size in range(0, len(writes[-1]) + 1, last_every)]
    return sorted(set(made))


@pytest.mark.covers("L-01", "L-02", "L-03", "L-04")
@pytest.mark.parametrize("one_in", [4, long(1)])
@pytest.mark.parametrize("name", SCENES)
def test_every_cut_can_be_taken_up(name: str, one_in: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene, disk = SCENES[name], Remembering()
    home, folder = tmp_path / "first", tmp_path / "second"
    home.mkdir()
    virtually(first_life(scene, home / f"{ID}.jsonl", disk))
    cuts = points(disk.log, last_every=1 if ALL else 61)[::one_in]
    for writes, size in cuts:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        moment = Moment(disk.log, writes, size)
        file = moment.lay_out(folder)
        if not moment.seen and b'"event"' not in file.read_bytes():
            continue  # nothing has happened yet
        try:
            virtually(second_life(moment.seen, file, scene))
        except Exception as error:
            raise AssertionError(f"'{name}', cut in write {writes} after {size} bytes: {error!r}") from error
    with capsys.disabled():
        print(f"\ncuts of '{name}': {len(cuts)}")


@pytest.mark.parametrize("one_in", [11, long(3)])
@pytest.mark.parametrize("name", SCENES)
def test_a_second_crash_in_the_first_write_after_the_first(name: str, one_in: int, tmp_path: Path) -> None:
    """What the first life left open is still known, though the second had only begun to write it down."""
    scene, disk = SCENES[name], Remembering()
    home, folder = tmp_path / "first", tmp_path / "second"
    home.mkdir()
    virtually(first_life(scene, home / f"{ID}.jsonl", disk))
    for writes, size in points(disk.log, last_every=100_000)[:: 1 if ALL else one_in]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        moment = Moment(disk.log, writes, size)
        file = moment.lay_out(folder)
        if b'"event"' not in file.read_bytes():
            continue
        before, again = file.read_bytes(), Remembering()
        world = CheckedWorld([says("Here.")])
        world.offset = 1 << 24
        _, session, journal = take_up(file, world, scene.config, disk=again)
        virtually(consume(session, "go on"))
        journal.close()
        first = next(entry.data for entry in again.log if isinstance(entry, Wrote) and entry.name == file.name)
        ends = [place + 1 for place, byte in enumerate(first) if byte == 10]
        for end in {*ends[:-1], *[place - 1 for place in ends]}:
            moment.lay_out(folder)
            file.write_bytes(before + first[:end])
            try:
                virtually(second_life(moment.seen, file, scene))
            except Exception as error:
                raise AssertionError(
                    f"'{name}', cut after write {writes}, then after {end} bytes: {error!r}"
                ) from error
