"""The file itself: one writer, one write a record, private, and honest about a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.effects import Compact
from mainspring.core.errors import UsageError
from mainspring.core.messages import Image, Origin, Text, ToolCall, User, result, user
from mainspring.core.state import State
from mainspring.core.updates import Result, Update
from mainspring.core.view import Fold, view
from mainspring.sessions.journal import Durability, FileJournal, JournalOptions, JournalWriteError, SessionInUse
from mainspring.sessions.line_format import LARGEST_INLINE
from mainspring.sessions.records import BlockRecord, NoteRecord, OutcomeRecord, StepsRecord, WithdrawnRecord
from mainspring.sessions.resume import load_session
from mainspring.testing import call, says, virtually
from sessions.scenes import SCENES
from sessions.stage import (
    CONFIG,
    ENVELOPE,
    ID,
    OTHER,
    CheckedWorld,
    Remembering,
    Wrote,
    consume,
    lost,
    options,
    stored,
    take_up,
)
from sessions.test_cuts import first_life, read

if TYPE_CHECKING:
    from mainspring.engine.deps import EngineCallContext, ToolOutcome
    from mainspring.engine.session import EngineSession


def file_in(folder: Path) -> Path:
    return folder / f"{ID}.jsonl"


def note(text: str = "x") -> NoteRecord:
    return NoteRecord("test", text, 5)


# --- the file -------------------------------------------------------------------------------------------------------


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "home" / "projects" / "-x" / f"{ID}.jsonl"
    before = os.umask(0)
    try:
        virtually(first_life(SCENES["text"], file, Remembering()))
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert set(modes.values()) == {0o600, 0o700}
    assert all(mode == (0o700 if (tmp_path / path).is_dir() else 0o600) for path, mode in modes.items())


def test_one_write_for_each_record_before_append_returns(tmp_path: Path) -> None:
    disk = Remembering()
    journal = FileJournal.create(file_in(tmp_path), ENVELOPE, options(disk))
    for number in range(3):
        append = journal.append(note(str(number)))
        with pytest.raises(StopIteration):
            append.send(None)  # it never suspends
        assert len(disk.log) == number + 1
        last = disk.log[-1]
        assert isinstance(last, Wrote)
        assert read(Path(journal.file)).endswith(last.data)
        assert last.data.endswith(b"}\n")
    journal.close()


def test_a_session_that_nothing_was_written_to_leaves_nothing(tmp_path: Path) -> None:
    FileJournal.create(file_in(tmp_path), ENVELOPE).close()
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    virtually(first_life(SCENES["text"], file_in(tmp_path), Remembering()))
    with pytest.raises(UsageError, match="already in use"):
        FileJournal.create(file_in(tmp_path), ENVELOPE)
    file_in(tmp_path).with_stem(OTHER).touch()  # an empty one counts as absent
    FileJournal.create(file_in(tmp_path).with_stem(OTHER), ENVELOPE).close()


def test_the_sync_is_real_and_in_a_thread(tmp_path: Path) -> None:
    async def main() -> None:
        for durability in (Durability.PROCESS, Durability.POWER):
            world = CheckedWorld(SCENES["tool"].replies)
            journal = FileJournal.create(file_in(tmp_path / durability), ENVELOPE, JournalOptions(durability))
            updates = await consume(stored(world, journal))
            assert isinstance(updates[-1], Result)
            journal.close()
            assert load_session(file_in(tmp_path / durability)).how == "checkpoint"

    asyncio.run(main())


async def syncs(folder: Path, options: JournalOptions, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the disk is synced by a run of ten turns."""
    made = list[int]()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", made.append)
        journal = FileJournal.create(file_in(folder), ENVELOPE, options)
        world = CheckedWorld([*[says(call("Look", f"c{n}", n=n)) for n in range(9)], says("Done.")])
        updates = await consume(stored(world, journal))
        assert isinstance(updates[-1], Result)
        journal.close()
    return len(made)


def test_turns_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one in each interval, and the one before the result. One at each end of a turn, if power may fail."""

    async def main() -> None:
        hour = JournalOptions(sync_interval=3_600)
        assert await syncs(tmp_path / "hour", hour, monkeypatch) == 1
        assert await syncs(tmp_path / "power", JournalOptions(Durability.POWER), monkeypatch) == 10
        assert await syncs(tmp_path / "none", JournalOptions(Durability.NONE), monkeypatch) == 0

    asyncio.run(main())
    assert JournalOptions().sync_interval == 0.25


def test_a_turn_is_synced_while_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that then waits, for a person or a tool, is synced meanwhile."""
    synced = list[str]()

    async def main() -> None:
        second, done = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def sync(fd: int) -> None:
            synced.append(read(file).decode())
            loop.call_soon_threadsafe(done.set)

        class Waiting(CheckedWorld):
            async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
                if call.id == "c1":
                    second.set()
                    await done.wait()
                return await super().run_tool(call, asking)

        file = file_in(tmp_path)
        journal = FileJournal.create(file, ENVELOPE, JournalOptions(sync_interval=0.01))
        monkeypatch.setattr(os, "fdatasync", sync)
        world = Waiting([says(call("Look", "c0")), says(call("Look", "c1")), says("Done.")])
        await consume(stored(world, journal))
        journal.close()
        assert second.is_set()

    asyncio.run(main())
    assert '"ToolsDone"' in synced[0]
    assert len(synced) >= 2  # and before the result


def test_steps_and_their_outcome_are_one_write(tmp_path: Path) -> None:
    """Nothing is shown between them, so a crash between them would lose nothing either."""
    disk = Remembering()
    journal = FileJournal.create(file_in(tmp_path), ENVELOPE, options(disk))

    async def main() -> None:
        await journal.append(StepsRecord("c1", (("run", 1),), 1))
        assert disk.log == []
        await journal.append(OutcomeRecord(replace(result("c1", "Fine."), id="m1", at=1)))

    virtually(main())
    wrote = [entry.data.count(b"\n") for entry in disk.log if isinstance(entry, Wrote)]
    assert wrote == [2]
    journal.close()


def test_a_torn_last_line_is_ended_and_kept(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    virtually(first_life(SCENES["text"], file, Remembering()))
    file.write_bytes(file.read_bytes() + b'{"type":"user","uu')
    world = CheckedWorld([says("Yes.")])
    world.offset = 1 << 20
    _, session, journal = take_up(file, world)
    virtually(consume(session))
    journal.close()
    assert b'{"type":"user","uu\n{"type":"mainspring","v":1,"checkpoint":' in file.read_bytes()


def test_others_may_append_while_we_write(tmp_path: Path) -> None:
    """The client renames a session that is open: its line stays, and ours find their way around it."""
    file = file_in(tmp_path)

    async def main() -> EngineSession:
        world = CheckedWorld([says("One."), says("Two."), says("Three.")])
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(world, journal)
        for number in range(3):
            await consume(session, f"go {number}")
            with file.open("ab") as other:
                other.write(b'{"type":"custom-title","customTitle":"Title %d"}\n' % number)
        journal.close()
        return session

    session = virtually(main())
    loaded = load_session(file)
    assert (loaded.how, loaded.warnings) == ("checkpoint", ())
    assert loaded.state == session.state


# --- one writer -----------------------------------------------------------------------------------------------------

HOLD = """
import sys
from itertools import count
from pathlib import Path
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import Envelope
loaded, journal = FileJournal.resume(Path(sys.argv[1]), Envelope("x", "/", "0"))
print("mine", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    virtually(first_life(SCENES["text"], file, Remembering()))
    before = file.read_bytes()
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "mine\n"
        with pytest.raises(SessionInUse, match=f"is open in process {owner.pid}$"):
            FileJournal.resume(file, ENVELOPE)
        owner.kill()
    loaded, journal = FileJournal.resume(file, ENVELOPE, options())  # the lock died with its owner
    with pytest.raises(SessionInUse, match="is open in this process"):
        FileJournal.resume(file, ENVELOPE)
    journal.close()
    assert loaded.how == "checkpoint"
    assert file.read_bytes() == before


# --- a disk that fails ----------------------------------------------------------------------------------------------

ERRORS = [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT]


def failing(number: int, answer: OSError | int) -> Remembering:
    """A disk whose write of this number fails; and all after it, unless it was only short."""
    disk, counted = Remembering(), count()

    def fails(_: bytes) -> OSError | int | None:
        this = next(counted)
        return answer if this == number or (this > number and isinstance(answer, OSError)) else None

    disk.fails = fails
    return disk


@pytest.mark.parametrize("number", [0, 1, 5, 9])
@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_a_failing_disk_is_reported_once_and_the_run_goes_on(tmp_path: Path, code: int, number: int) -> None:
    told: list[str] = []
    disk = failing(number, OSError(code, os.strerror(code)))

    async def main() -> list[Update]:
        journal = FileJournal.create(file_in(tmp_path), ENVELOPE, replace(options(disk), on_trouble=told.append))
        updates = await consume(stored(CheckedWorld(SCENES["tool"].replies), journal))
        assert not journal.stored
        journal.close()
        return updates

    updates = virtually(main())
    assert isinstance(updates[-1], Result)
    assert len(told) == 1
    assert os.strerror(code) in told[0]
    if number:
        assert file_in(tmp_path).read_bytes().endswith(b"\n"), "what is on disk is a valid prefix"


@pytest.mark.parametrize("number", [0, 1, 5, 9])
def test_a_required_journal_ends_the_run(tmp_path: Path, number: int) -> None:
    disk = failing(number, OSError(errno.ENOSPC, "full"))

    async def main() -> None:
        journal = FileJournal.create(file_in(tmp_path), ENVELOPE, replace(options(disk), require=True))
        try:
            await consume(stored(CheckedWorld(SCENES["tool"].replies), journal))
        finally:
            journal.close()

    with pytest.raises(JournalWriteError, match="require_journal"):
        virtually(main())


@pytest.mark.parametrize("number", [0, 1, 5, 9])
def test_a_short_write_is_completed(tmp_path: Path, number: int) -> None:
    disk = failing(number, 7)

    async def main() -> EngineSession:
        journal = FileJournal.create(file_in(tmp_path), ENVELOPE, options(disk))
        session = stored(CheckedWorld(SCENES["tool"].replies), journal)
        await consume(session)
        journal.close()
        return session

    session = virtually(main())
    assert load_session(file_in(tmp_path)).state == session.state
    assert load_session(file_in(tmp_path)).warnings == ()


def test_a_home_that_cannot_be_written_to(tmp_path: Path) -> None:
    """As root every folder can be written to, so a file stands where the folder should be."""
    told: list[str] = []
    (tmp_path / "home").write_text("no folder")
    journal = FileJournal.create(
        tmp_path / "home" / f"{ID}.jsonl", ENVELOPE, replace(options(), on_trouble=told.append)
    )
    updates = virtually(consume(stored(CheckedWorld([says("Hello.")]), journal)))
    journal.close()
    assert isinstance(updates[-1], Result)
    assert len(told) == 1
    assert "nothing of this session is stored" in told[0]
    with pytest.raises(JournalWriteError):
        FileJournal.create(tmp_path / "home" / f"{ID}.jsonl", ENVELOPE, replace(options(), require=True))


# --- what is large, secret or withdrawn -----------------------------------------------------------------------------


def test_large_content_is_kept_once_beside_the_file(tmp_path: Path) -> None:
    file, big = file_in(tmp_path), "x" * (LARGEST_INLINE + 1)
    image = User((Text("look"), Image("image/png", "A" * (LARGEST_INLINE + 1))))

    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        replies = [
            says(ToolCall("c1", "Read", {"text": big}), ToolCall("c2", "Read", {"text": big})),
            says(Text(big)),
        ]
        session = stored(CheckedWorld(replies), journal)
        async with session.run((image,), deltas=False) as run:
            async for _ in run:
                pass
        journal.close()
        return session

    session = virtually(main())
    assert file.stat().st_size < 30_000
    assert len(list((tmp_path / ID / "payloads").iterdir())) == 6  # the image, two calls, two results, one text
    assert load_session(file).state == session.state
    for path in (tmp_path / ID / "payloads").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_bytes(b"damaged")
    loaded = load_session(file)
    assert len(loaded.warnings) == 6
    assert loaded.state.history[0].text.startswith("look\n[4 characters and 1 media in all; ")
    assert [call.name for call in getattr(loaded.state.history[1], "calls")] == ["Read", "Read"]  # noqa: B009


def test_a_disk_too_full_for_large_content(tmp_path: Path) -> None:
    """Reported once, no line names what is not there, and no half of it is left."""
    told: list[str] = []
    disk = failing(2, OSError(errno.ENOSPC, "full"))

    async def main() -> None:
        journal = FileJournal.create(file_in(tmp_path), ENVELOPE, replace(options(disk), on_trouble=told.append))
        await journal.append(note())
        await journal.append(note())
        await journal.append(OutcomeRecord(replace(result("c", "x" * 300_000), id="r", at=1)))
        journal.close()

    asyncio.run(main())
    assert len(told) == 1
    assert file_in(tmp_path).read_bytes().count(b"\n") == 2
    assert list((tmp_path / ID / "payloads").iterdir()) == []


def test_our_own_keys_are_not_in_the_transcript(tmp_path: Path) -> None:
    key = "sk-secret-key-of-ours"
    file = file_in(tmp_path)

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, replace(options(), secrets=(key,)))
        await consume(stored(CheckedWorld([says(f"The key is {key}.")]), journal), f"print {key}")
        journal.close()

    virtually(main())
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert key.encode() not in everything
    assert load_session(file).how == "checkpoint"


def test_a_withdrawn_reply_is_no_part_of_the_chain(tmp_path: Path) -> None:
    file = file_in(tmp_path)

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        await journal.append(BlockRecord("aaaaaaaa-0000-4000-8000-000000000001", 0, Text("kept"), 1))
        await journal.append(BlockRecord("bbbbbbbb-0000-4000-8000-000000000001", 0, Text("withdrawn"), 2))
        await journal.append(BlockRecord("bbbbbbbb-0000-4000-8000-000000000001", 1, Text("too"), 2))
        await journal.append(WithdrawnRecord("bbbbbbbb-0000-4000-8000-000000000001", "empty"))  # type: ignore[arg-type]
        await journal.append(BlockRecord("cccccccc-0000-4000-8000-000000000001", 0, Text("kept as well"), 3))
        journal.close()

    asyncio.run(main())
    texts = [getattr(message, "text", "") for message in load_session(file).state.history]
    assert texts[1:] == ["kept", "kept as well"]


def test_a_summary_in_the_middle_does_not_cut_the_conversation(tmp_path: Path) -> None:
    """Only a summary of everything before it begins the chain anew."""

    class Collapsing(CheckedWorld):
        async def summarize(self, state: State, effect: Compact) -> Summary:
            first, last = state.history[1].id, state.history[2].id
            words = replace(user("in short", Origin.SUMMARY), id=self.new_id())
            return Summary(edits=(Fold(first, last, words),), before=100_000, after=1_000)

    scene, file = SCENES["compaction"], file_in(tmp_path)

    async def main() -> EngineSession:
        journal = FileJournal.create(file, ENVELOPE, options())
        contexts = [PreparedContext(10), PreparedContext(20), PreparedContext(990_000), PreparedContext(10)]
        session = stored(Collapsing(scene.replies[:4], contexts=contexts), journal)
        await consume(session)
        journal.close()
        return session

    session = virtually(main())
    assert b"compact_boundary" not in file.read_bytes()
    loaded = load_session(file)
    assert loaded.state == session.state
    assert [m.text for m in view(loaded.state.history, loaded.state.edits)][:2] == ["go", "in short"]


def test_outcomes_of_a_call_that_nobody_made_are_kept(tmp_path: Path) -> None:
    async def main() -> None:
        journal = FileJournal.create(file_in(tmp_path), ENVELOPE, options())
        await journal.append(OutcomeRecord(replace(result("c", "text"), id="r", at=1)))
        journal.close()

    asyncio.run(main())
    assert lost([], file_in(tmp_path)) == []
    with pytest.raises(UsageError, match="holds no conversation"):
        load_session(file_in(tmp_path), config=CONFIG)
