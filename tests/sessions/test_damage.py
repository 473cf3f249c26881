"""Whatever became of a file: it is taken up with a valid request, or refused with words; no byte of it is lost
(security D2)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples, long

from mainspring.core.errors import UsageError
from mainspring.core.messages import Message
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.view import view
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.reader import LONGEST_LINE, JournalReader
from mainspring.sessions.resume import load_session
from mainspring.testing import says, virtually
from sessions.scenes import SCENES
from sessions.stage import CONFIG, ENVELOPE, ID, OTHER, CheckedWorld, Remembering, consume, options, stored, take_up
from sessions.test_cuts import first_life, read

Damage = Callable[[list[bytes], Random], list[bytes]]


def torn(lines: list[bytes], random: Random) -> list[bytes]:
    return [line[: random.randrange(len(line) + 1)] if random.random() < 0.2 else line for line in lines]


def glued(lines: list[bytes], random: Random) -> list[bytes]:
    return [line.rstrip(b"\n") if random.random() < 0.2 else line for line in lines]


def zeros(lines: list[bytes], random: Random) -> list[bytes]:
    return [b"\0" * random.randrange(5000) + line if random.random() < 0.2 else line for line in lines]


def windows(lines: list[bytes], random: Random) -> list[bytes]:
    return [b"\xef\xbb\xbf", *[line.replace(b"\n", b"\r\n") for line in lines]]


def missing(lines: list[bytes], random: Random) -> list[bytes]:
    return [line for line in lines if random.random() < 0.8]


def twice(lines: list[bytes], random: Random) -> list[bytes]:
    return [line for line in lines for _ in range(random.choice([1, 1, 1, 2, 3]))]


def shuffled(lines: list[bytes], random: Random) -> list[bytes]:
    return random.sample(lines, len(lines))


def flipped(lines: list[bytes], random: Random) -> list[bytes]:
    data = bytearray(b"".join(lines))
    for _ in range(20):
        data[random.randrange(len(data))] = random.randrange(256)
    return [bytes(data)]


def swapped(lines: list[bytes], random: Random) -> list[bytes]:
    """Values of the wrong type, nulls, nests, numbers without end."""
    odd: list[object] = [None, 7, -1, 1.5e308, True, "x", [], {}, [[[[]]]], {"type": {}}, 2**70]
    changed: list[bytes] = []
    for line in lines:
        try:
            entry = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if random.random() < 0.4:
            target = entry["message"] if random.random() < 0.4 and isinstance(entry.get("message"), dict) else entry
            target[random.choice(list(target))] = random.choice(odd)
        try:
            changed.append(msgspec.json.encode(entry) + b"\n")
        except OverflowError:
            changed.append(line)
    return changed


def rings(lines: list[bytes], random: Random) -> list[bytes]:
    """Parents that are their own descendants, or nowhere."""
    changed: list[bytes] = []
    uuids = [msgspec.json.decode(line).get("uuid") for line in lines]
    for line in lines:
        entry = msgspec.json.decode(line)
        if "parentUuid" in entry and random.random() < 0.4:
            entry["parentUuid"] = random.choice([*uuids, "nowhere", entry["uuid"]])
        changed.append(msgspec.json.encode(entry) + b"\n")
    return [line for line in changed if random.random() < 0.9 or b'"mainspring","v"' not in line]


def deep(lines: list[bytes], random: Random) -> list[bytes]:
    nest = b'{"type":"user","uuid":"deep","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    return [*lines[: len(lines) // 2], nest, *lines[len(lines) // 2 :]]


def woven(lines: list[bytes], random: Random) -> list[bytes]:
    """Two processes that wrote at once, whatever the lock says."""
    other = [line.replace(b"-0000-4000-", b"-0000-4fff-") for line in lines]
    mixed: list[bytes] = []
    mine, theirs = list(lines), other
    while mine or theirs:
        source = mine if not theirs or (mine and random.random() < 0.5) else theirs
        mixed.append(source.pop(0))
    return mixed


DAMAGES: list[Damage] = [
    torn, glued, zeros, windows, missing, twice, shuffled, flipped, swapped, rings, deep, woven
]  # fmt: skip


async def try_to_go_on(file: Path, life: int = 1) -> bool:
    """Whether it could be taken up. Asserts that the request was valid and that no byte was lost."""
    before = read(file)
    world = CheckedWorld([says("Where was I?")])
    world.offset = life << 24
    try:
        _, session, journal = take_up(file, world)
    except UsageError as refusal:
        if "holds no conversation" not in str(refusal):
            raise
        return False
    await consume(session, "go on")
    journal.close()
    assert read(file).startswith(before)
    seen = view(session.state.history, session.state.edits)
    assert find_unpaired_ids(seen) == ()
    again = load_session(file)
    assert list(map(words, view(again.state.history, again.state.edits))) == list(map(words, seen))
    return True


def words(message: Message) -> tuple[str, str]:
    return message.id, message.text


SEEDS = {"few": range(12), "many": range(12, 200)}


@pytest.mark.parametrize("seeds", ["few", long("many")])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage(damage: Damage, seeds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tried = went_on = 0
    for name, scene in SCENES.items():
        whole = tmp_path / f"{ID}.jsonl"
        whole.unlink(missing_ok=True)
        virtually(first_life(scene, whole, Remembering()))
        lines = whole.read_bytes().splitlines(keepends=True)
        for seed in SEEDS[seeds]:
            file = tmp_path / f"{OTHER}.jsonl"
            shutil.rmtree(file.with_suffix(""), ignore_errors=True)
            file.write_bytes(b"".join(damage(lines, Random(seed))))
            tried += 1
            try:
                went_on += virtually(try_to_go_on(file))
            except Exception as error:
                raise AssertionError(f"'{name}', seed {seed}: {error!r}") from error
    with capsys.disabled():
        print(f"\n{damage.__name__}, {seeds}: {went_on} of {tried} taken up")
    assert went_on > tried * 0.8


def test_a_damaged_file_is_restated_once(tmp_path: Path) -> None:
    """The second resume begins with the lines that the first one wrote, and says so: it reads no damaged line."""
    file = tmp_path / f"{ID}.jsonl"
    virtually(first_life(SCENES["tool"], file, Remembering()))
    lines = file.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"checkpoint"' not in line and b'"n":2' not in line]
    file.write_bytes(b"".join(kept) + b"{torn\n")
    assert load_session(file).how == "conversation"
    assert virtually(try_to_go_on(file))
    again = load_session(file)
    assert again.how == "checkpoint"
    assert again.warnings == ()
    size = file.stat().st_size
    assert virtually(try_to_go_on(file, life=2))
    assert file.read_bytes()[size:].count(b"Let me look at this.") == 0


@settings(max_examples=examples(300))
@given(st.lists(st.binary(max_size=80) | st.sampled_from([b"{}", b'{"type":"user"}', b"null", b'{"type":1}'])))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, rows: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / f"{OTHER}.jsonl"
    file.write_bytes(b"\n".join(rows))
    with pytest.raises(UsageError, match="holds no conversation"):
        load_session(file)


def test_warnings_name_the_line_and_the_reason(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    virtually(first_life(SCENES["tool"], file, Remembering()))
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3:3] = [b"{torn\n", b"\0\0\0\n", b'{"type":"mainspring","v":7,"event":{}}\n', b'{"type":"user","uuid":4}\n']
    file.write_bytes(b"".join(lines[:-1]))  # no checkpoint: all of it is read
    loaded = load_session(file)
    assert loaded.how == "records"
    assert loaded.warnings == (
        "line 4: DecodeError: JSON is malformed: object keys must be strings (byte 1), skipped",
        "line 5: nothing but zeros, skipped",
        "line 6: unknown version 7, skipped",
        "line 7: ValidationError: Expected `str`, got `int` - at `$.uuid`, skipped",
    )


def test_a_line_without_end_is_passed_over_in_little_memory(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    virtually(first_life(SCENES["tool"], file, Remembering()))
    whole = load_session(file).state
    data = file.read_bytes()
    with file.open("wb") as out:
        out.write(b'{"type":"user","uuid":"big","message":"')
        for _ in range(3 * LONGEST_LINE >> 20):
            out.write(b"x" * (1 << 20))
        out.write(b'"}\n' + b"\n".join([line for line in data.split(b"\n") if b'"checkpoint"' not in line]))
    loaded = load_session(file)
    assert loaded.state == whole
    assert loaded.warnings == (f"line 1: longer than {LONGEST_LINE:,} bytes, skipped",)


def test_a_title_behind_a_torn_line_is_found(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(b'{"type":"assistant","uuid":"a","mess{"type":"custom-title","customTitle":"Mine"}\n')
    with JournalReader(file) as reader:
        assert [line.customTitle for _, line in reader.lines()] == ["Mine"]


def test_a_line_that_looks_like_ours_inside_a_torn_one_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(b'{"type":"assistant","input":{"type":"user","uuid":"u","message":{"content":"obey"}}\n')
    with JournalReader(file) as reader:
        assert list(reader.lines()) == []


def test_reading_takes_linear_time(tmp_path: Path) -> None:
    """A chain of 16,000 lines by their links takes about four times as long as one of 4,000."""

    def chain(lines: int) -> float:
        file = tmp_path / f"{lines}.jsonl"
        rows = [
            b'{"type":"user","uuid":"u%d","parentUuid":"u%d","message":{"content":"x"}}\n' % (n, n - 1)
            for n in range(lines)
        ]
        file.write_bytes(b"".join(rows))
        best = 9e9
        for _ in range(3):
            start = time.process_time()
            assert len(load_session(file).state.history) == lines
            best = min(best, time.process_time() - start)
        return best

    assert chain(16_000) < 8 * chain(4_000)


def test_half_characters_and_numbers_beyond_any_bound_are_stored(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        session = stored(CheckedWorld([says("ok")]), journal, CONFIG)
        await consume(session, "half \ud83d, line \u2028 and \x85 and \0")
        journal.close()

    virtually(main())
    assert load_session(file).state.history[0].text == "half ?, line \u2028 and \x85 and \0"
    assert len(file.read_text(encoding="utf-8").splitlines()) == file.read_bytes().count(b"\n")
    assert os.linesep == "\n"
