"""Prompts that were typed, across sessions and processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.cli.tui.history import KEPT, LARGEST, LONGEST, NAME, StoredHistory
from mainspring.secrets.held import SecretScope, hold_secrets

KEY = "sk-" + "a1b2" * 8  # as keys look; put together, so that no scanner takes it for one


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"  # not there yet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def past_of(home: Path, folder: Path) -> StoredHistory:
    return StoredHistory(str(home), str(folder), now=lambda: 1_700_000_000.5)


def fill(file: Path, folder: Path, count: int, size: int = 100) -> None:
    file.parent.mkdir(exist_ok=True)
    lines = [
        json.dumps({"text": f"{number} {'x' * size}", "folder": str(folder), "time": 1}) for number in range(count)
    ]
    file.write_text("\n".join(lines) + "\n")


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_another_session_finds_what_was_typed_the_newest_first(home: Path, folder: Path) -> None:
    past = past_of(home, folder)
    for text in ("one", "two\nlines", "drei: süß 漢"):
        past.add(text)
    assert list(past_of(home, folder).newest()) == ["drei: süß 漢", "two\nlines", "one"]
    first = json.loads((home / NAME).read_text().splitlines()[0])
    assert first == {"text": "one", "folder": str(folder), "time": 1_700_000_000_500}


def test_each_folder_has_its_own_by_whatever_name_it_is_reached(home: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    past_of(home, folder).add("here")
    past_of(home, tmp_path).add("above")
    assert list(past_of(home, tmp_path / "link").newest()) == ["here"]


def test_the_same_twice_in_a_row_is_kept_once(home: Path, folder: Path) -> None:
    past, other = past_of(home, folder), past_of(home, folder)
    for text in ("a", "a", "b", "a"):
        past.add(text)
    other.add("a")  # another process does not know what was last
    assert list(past.newest()) == ["a", "b", "a"]
    assert [past.keeps(text) for text in ("a", "b")] == [False, True]


def test_what_begins_with_a_blank_or_is_empty_is_not_kept(home: Path, folder: Path) -> None:
    past = past_of(home, folder)
    for text in (" secret plan", "", "\n\t"):
        past.add(text)
    assert list(past.newest()) == []
    assert not (home / NAME).exists()


def test_no_secret_is_written(home: Path, folder: Path) -> None:
    past = past_of(home, folder)
    holder = SecretScope()
    holder.run(hold_secrets, "hunter2hunter2")
    past.add(f"use hunter2hunter2 and {KEY}")
    holder.release()
    written = (home / NAME).read_text()
    assert "hunter2" not in written
    assert KEY not in written
    assert list(past.newest()) == ["use [redacted] and [redacted]"]


def test_the_file_and_its_folder_are_private(home: Path, folder: Path) -> None:
    past = past_of(home, folder)
    past.add("one")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (home, home / NAME)] == [0o700, 0o600]
    (home / NAME).chmod(0o644)
    past.add("two")
    assert stat.S_IMODE((home / NAME).stat().st_mode) == 0o600


def test_a_very_long_prompt_is_remembered_by_this_session_only(home: Path, folder: Path) -> None:
    past = past_of(home, folder)
    past.add("x" * (LONGEST + 1))
    past.add("short")
    assert sorted(map(len, past.newest())) == [5, LONGEST + 1]
    assert list(past_of(home, folder).newest()) == ["short"]


# --- where nothing can be written -------------------------------------------------------------------------------------


def test_without_a_home_the_session_remembers(folder: Path) -> None:
    past = StoredHistory(None, str(folder))
    past.trim()
    past.add("one")
    past.add("two")
    assert list(past.newest()) == ["two", "one"]


@pytest.mark.parametrize("kind", ["file for a home", "folder", "pipe", "link to itself"])
def test_whatever_is_in_the_way_nothing_is_raised(home: Path, folder: Path, kind: str) -> None:
    if kind == "file for a home":
        home.touch()
    else:
        home.mkdir()
        make: dict[str, Callable[[Path], None]] = {
            "folder": Path.mkdir,
            "pipe": os.mkfifo,
            "link to itself": lambda file: file.symlink_to(file),
        }
        make[kind](home / NAME)
    past = past_of(home, folder)
    past.trim()
    past.add("one")
    past.add("two")
    assert list(past.newest()) == ["two", "one"]


# --- torn and foreign lines -------------------------------------------------------------------------------------------


def test_a_torn_line_is_skipped_and_the_next_one_begins_anew(home: Path, folder: Path) -> None:
    past_of(home, folder).add("one")
    whole = (home / NAME).read_bytes()
    for size in range(1, len(whole)):
        (home / NAME).write_bytes(whole + whole[:-size])
        past = past_of(home, folder)
        past.add("two")
        # All of a line but its line feed is a whole one.
        assert list(past.newest()) == ["two", "one"], size
        assert (home / NAME).read_bytes().count(b"\n") == 3


@settings(max_examples=examples(50))  # each has a folder of its own
@given(
    st.lists(
        st.one_of(st.binary(max_size=200), st.sampled_from([b"[1]", b"{}", b'{"text":1,"folder":"x"}'])), max_size=5
    )
)
def test_foreign_lines_are_passed_over(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    home = tmp_path_factory.mktemp("home")
    past = past_of(home, home)
    past.add("one")
    with (home / NAME).open("ab") as file:
        file.write(b"\n".join(lines))
    past.add("two")
    assert list(past_of(home, home).newest()) == ["two", "one"]


def test_what_comes_out_of_the_file_is_harmless(home: Path, folder: Path) -> None:
    home.mkdir()
    (home / NAME).write_text(json.dumps({"text": "a\x1b]0;b\x07", "folder": str(folder), "time": 0}) + "\n")
    assert list(past_of(home, folder).newest()) == ["a]0;b"]


@settings(max_examples=examples(50))  # each has a folder of its own
@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs")), min_size=1, max_size=300), max_size=20))
def test_all_comes_back_whatever_the_size_of_a_block(texts: list[str]) -> None:
    import tempfile

    from mainspring.cli.tui import history

    kept = [text for text in dict.fromkeys(texts) if text.strip() and not text.startswith(" ")]
    with tempfile.TemporaryDirectory() as name:
        past = past_of(Path(name), Path(name))
        for text in kept:
            past.add(text)
        stored = [history._storable(text) for text in reversed(kept)]
        fd = os.open(f"{name}/{NAME}", os.O_RDONLY | os.O_CREAT)
        try:
            whole = os.read(fd, 1 << 20).split(b"\n")[::-1]
            for size in (1, 7, 64):
                assert list(history._backwards(fd, b"", size)) == whole
                marked = history._backwards(fd, b"a", size)
                assert [line for line in marked if b"a" in line] == [line for line in whole if b"a" in line]
        finally:
            os.close(fd)
        assert list(past.newest()) == [one for at, one in enumerate(stored) if stored[at - 1 : at] != [one]]


# --- size -------------------------------------------------------------------------------------------------------------


def test_a_large_file_is_cut_to_its_newest_lines(home: Path, folder: Path) -> None:
    fill(home / NAME, folder, 2_500, 1_000)
    before = list(past_of(home, folder).newest())
    past = past_of(home, folder)
    past.trim()
    assert KEPT - 2_000 < (home / NAME).stat().st_size <= KEPT
    after = list(past.newest())
    assert after == before[: len(after)]
    assert stat.S_IMODE((home / NAME).stat().st_mode) == 0o600
    assert [place.name for place in home.iterdir()] == [NAME]


def test_a_file_of_the_usual_size_is_left_alone(home: Path, folder: Path) -> None:
    fill(home / NAME, folder, 100)
    before = (home / NAME).stat().st_ino
    past_of(home, folder).trim()
    assert (home / NAME).stat().st_ino == before


def test_the_newest_hundred_of_a_folder_are_there_within_milliseconds(home: Path, folder: Path, tmp_path: Path) -> None:
    """Also when all of them are at the beginning of 2 MB of others. The bound is ten times what it takes."""
    fill(home / NAME, folder, 120)
    mine = (home / NAME).read_text()
    fill(home / NAME, tmp_path, 12_000, 80)
    (home / NAME).write_text(mine + (home / NAME).read_text())
    assert (home / NAME).stat().st_size > LARGEST * 0.9
    past, times = past_of(home, folder), list[float]()
    for _ in range(5):
        began = time.thread_time()
        assert len(list(islice(past.newest(), 100))) == 100
        times.append(time.thread_time() - began)
    assert min(times) < 0.02, times


# --- several processes ------------------------------------------------------------------------------------------------

WRITER = """
import sys
from mainspring.cli.tui.history import StoredHistory
home, folder, name, count = sys.argv[1:]
past = StoredHistory(home, folder)
past.trim()
for number in range(int(count)):
    past.add(f"{name} {number} " + "x" * 3000)
    past.trim()
"""


def test_several_processes_lose_and_tear_nothing_but_the_oldest(home: Path, folder: Path) -> None:
    """Four of them write 300 KB each into a file of nearly 2 MB, and cut it on the way."""
    fill(home / NAME, folder, LARGEST // 1_100, 1_000)
    command = [sys.executable, "-c", WRITER, str(home), str(folder)]
    writers = [subprocess.Popen([*command, name, "100"]) for name in "abcd"]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = (home / NAME).read_bytes().splitlines()
    assert all(json.loads(line)["folder"] == str(folder) for line in lines)
    assert (home / NAME).stat().st_size < LARGEST
    found = list(past_of(home, folder).newest())
    for name in "abcd":
        mine = [int(text.split()[1]) for text in found if text.startswith(f"{name} ")]
        assert mine == list(range(99, 99 - len(mine), -1))
    assert sum(text[0] in "abcd" for text in found) >= 300  # 1 MB of 1.2: the rest of it was the oldest


HOLDER = """
import fcntl, os, sys, signal
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
signal.pause()
"""


def test_somebody_who_never_lets_go_keeps_nobody_from_writing(home: Path, folder: Path) -> None:
    fill(home / NAME, folder, 2_500, 1_000)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(home / NAME)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        size = (home / NAME).stat().st_size
        past = past_of(home, folder)
        past.trim()
        assert (home / NAME).stat().st_size == size
        past.add("all the same")
        assert next(past_of(home, folder).newest()) == "all the same"
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def test_what_is_added_while_the_file_is_replaced_is_in_the_new_one(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file is held alone, as by somebody who cuts it; the lock goes when the new one has its place."""
    fill(home / NAME, folder, 10)
    old = os.open(home / NAME, os.O_RDWR)
    fcntl.flock(old, fcntl.LOCK_EX)
    waits, sleep = threading.Event(), time.sleep

    def asleep(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", asleep)
    monkeypatch.setattr("mainspring.cli.tui.history.PATIENCE", 60.0)
    adding = threading.Thread(target=past_of(home, folder).add, args=("new",))
    adding.start()
    assert waits.wait(60)
    (home / "draft").write_bytes((home / NAME).read_bytes())
    (home / "draft").rename(home / NAME)
    os.close(old)
    adding.join()
    assert next(past_of(home, folder).newest()) == "new"


def test_who_comes_late_to_cut_the_file_leaves_the_new_one_alone(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and holding it, another process cuts it, and something new is added."""
    fill(home / NAME, folder, 2_500, 1_000)
    flock, late = fcntl.flock, list[int]()

    def after_another(fd: int, how: int) -> None:
        if not late:
            late.append(fd)
            other = past_of(home, folder)
            other.trim()
            other.add("new")
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", after_another)
    past_of(home, folder).trim()
    assert late
    assert next(past_of(home, folder).newest()) == "new"
