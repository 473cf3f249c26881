"""Lines of a big file are counted while nobody waits, and not for a session that is gone."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import Workspace
from mainspring.tools.files import HaltSignal
from mainspring.tools.grep import GREP
from mainspring.tools.read import READ
from mainspring.tools.read_lines import (
    COUNTED,
    LARGEST,
    MOST_AT_ONCE,
    PIECE,
    SETTLED,
    DescriptorBytes,
    LineIndex,
    MemoryBytes,
    count_ahead,
    index_of,
)

ROW = b"r" * 99 + b"\n"
ROWS = COUNTED // len(ROW) + 1_000


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def big(file: Path, data: bytes = ROW * ROWS) -> Path:
    """One whose times tell of any later change."""
    file.write_bytes(data)
    wait_until(lambda: time.time_ns() - file.stat().st_ctime_ns > SETTLED)
    return file


def counted(file: Path) -> bool:
    fd = os.open(file, os.O_RDONLY)
    try:
        with index_of(fd) as index:
            return index.whole
    finally:
        os.close(fd)


def test_who_reads_the_beginning_finds_all_lines_counted_soon_after(tmp_path: Path) -> None:
    file = big(tmp_path / "f")
    calling = FakeToolContext(str(tmp_path))
    first = calling.now(READ, file_path="f", limit=2)
    assert first.data["file"]["totalLines"] is None
    assert first.text.endswith("\n[Lines 1-2 of about 170,000. Go on with offset=3, or search with Grep.]\n")
    wait_until(lambda: counted(file))
    again = calling.now(READ, file_path="f", offset=ROWS // 2, limit=1)
    assert again.data["file"]["totalLines"] == ROWS
    assert again.text.startswith(f"{ROWS // 2}\trrr")


def test_who_searches_a_big_file_finds_it_counted(tmp_path: Path) -> None:
    file = big(tmp_path / "f", b"\xef\xbb\xbf" + ROW * ROWS + b"needle\n")
    calling = FakeToolContext(str(tmp_path))
    assert f"{ROWS + 1}:needle" in calling.now(GREP, pattern="needle", path="f", output_mode="content").text
    wait_until(lambda: counted(file))
    assert calling.now(READ, file_path="f", offset=ROWS + 1).text == f"{ROWS + 1}\tneedle\n"


def test_the_last_lines_tell_how_many_there_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(ROW * ROWS)
    data = FakeToolContext(str(tmp_path)).now(READ, file_path="f", offset=ROWS - 1).data["file"]
    assert (data["numLines"], data["totalLines"]) == (2, ROWS)


def test_a_file_that_changes_is_counted_again(tmp_path: Path) -> None:
    file = big(tmp_path / "f")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f", limit=1)
    wait_until(lambda: counted(file))
    file.write_bytes(b"two\n" + ROW * ROWS)
    data = calling.now(READ, file_path="f", offset=ROWS + 1).data["file"]
    assert (data["numLines"], data["totalLines"]) == (1, ROWS + 1)


def test_a_session_that_ends_ends_the_count(tmp_path: Path) -> None:
    file = big(tmp_path / "f")
    place = Workspace(str(tmp_path))
    fd = os.open(file, os.O_RDONLY)
    try:
        with index_of(fd) as index:
            with index._changed:  # so that it cannot get far before the session is gone
                thread = count_ahead(DescriptorBytes(fd), place)
                assert thread is not None
                del place
                gc.collect()
            thread.join(30)
            assert not thread.is_alive()
            assert not index.whole
            assert len(index.ends) <= PIECE
    finally:
        os.close(fd)


def test_only_few_are_counted_at_once_and_each_only_by_one(tmp_path: Path) -> None:
    files = [big(tmp_path / str(number)) for number in range(MOST_AT_ONCE + 1)]
    place = Workspace(str(tmp_path))
    fds = [os.open(file, os.O_RDONLY) for file in files]
    try:
        with index_of(fds[0]) as first, index_of(fds[1]) as second, first._changed, second._changed:
            begun = [count_ahead(DescriptorBytes(fd), place) for fd in (fds[0], *fds)]
            assert [thread is not None for thread in begun] == [True, False, True, False]
        wait_until(lambda: not any(thread.is_alive() for thread in begun if thread is not None))
        assert [counted(file) for file in files] == [True, True, False]
    finally:
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("size", [COUNTED, LARGEST + 1])
def test_what_is_small_or_huge_is_not_counted_ahead(tmp_path: Path, size: int) -> None:
    with (tmp_path / "f").open("w+b") as file:
        file.truncate(size)
        assert count_ahead(DescriptorBytes(file.fileno()), Workspace(str(tmp_path))) is None


def test_a_look_does_not_fail_for_want_of_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = big(tmp_path / "f")

    def no_thread(thread: threading.Thread) -> None:
        if thread.name == "count-lines":
            raise RuntimeError("can't start new thread")
        start(thread)

    def no_descriptor(_: int) -> int:
        raise OSError(24, "Too many open files")

    start = threading.Thread.start
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        assert FakeToolContext(str(tmp_path)).now(READ, file_path="f", limit=1).text.startswith("1\trrr")
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", no_descriptor)
        assert FakeToolContext(str(tmp_path)).now(READ, file_path="f", limit=1).text.startswith("1\trrr")
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert not counted(file)
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f", limit=1)
    wait_until(lambda: counted(file))  # the place was given free


def test_threads_that_count_together_count_right() -> None:
    data = b"one\ntwo\n\nfour five six\n" * 2_000
    index, source = LineIndex(block=7), MemoryBytes(data)
    threads = [threading.Thread(target=index.count_until, args=(source, None, HaltSignal())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(index.ends) == [data[:end].count(b"\n") for end in (*range(7, len(data), 7), len(data))]
    assert index.whole
