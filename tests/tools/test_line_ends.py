"""Counting the ends of lines: natively and in Python, alone and together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import tools
from mainspring.core.errors import ToolError
from mainspring.tools import _newlines
from mainspring.tools.files import HaltSignal
from mainspring.tools.read_lines import (
    AHEAD,
    ALONE,
    NATIVE_BLOCK,
    PIECE,
    DescriptorBytes,
    LineEnds,
    LineIndex,
    MemoryBytes,
    counted_in_python,
    native_count,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def plain(data: bytes, block: int) -> list[int]:
    """How many lines end before the end of each block."""
    return list(accumulate([data.count(b"\n", start, start + block) for start in range(0, len(data), block)]))


# --- the native part --------------------------------------------------------------------------------


def test_it_is_there() -> None:
    """Where it is not, everything works, only slower: nobody would see it but for this."""
    assert native_count() is _newlines.count


@given(
    st.lists(
        st.sampled_from([b"\n", b"x", b"\n" * 70, b"\x00\xff\n", b"y" * 200, b"\n" * 40_000, b"z" * 70_000]),
        max_size=12,
    ),
    st.integers(0, 100),
    st.integers(1, 9),
    st.sampled_from([1, 63, 64, 65, 1_000, 1 << 16, (1 << 16) + 1, 1 << 18]),
)
def test_it_counts_what_python_counts(parts: list[bytes], start: int, blocks: int, block: int) -> None:
    data = b"".join(parts)
    file = os.memfd_create("lines")
    try:
        os.write(file, data)
        counts, size = _newlines.count(file, start, blocks, block)
    finally:
        os.close(file)
    expected = counted_in_python(MemoryBytes(data), start, blocks, block)
    assert list(memoryview(counts).cast("Q")) == list(expected.counts)
    assert size == expected.size


def test_a_block_of_nothing_but_line_ends_is_counted_right(fd: int) -> None:
    """More than a lane of one byte can hold."""
    os.write(fd, b"\n" * (1 << 19))
    counts, _ = _newlines.count(fd, 0, 2, 1 << 18)
    assert list(memoryview(counts).cast("Q")) == [1 << 18, 1 << 18]


@pytest.mark.parametrize("given", [(-1, 1, 1), (0, 0, 1), (0, 1, 0), (0, 1 << 62, 1 << 62), (1 << 62, 2, 1 << 62)])
def test_what_makes_no_sense_is_refused(fd: int, given: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="'start' is at least 0"):
        _newlines.count(fd, *given)


def test_an_error_of_the_system_is_told(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            _newlines.count(folder, 0, 1, 10)
    finally:
        os.close(folder)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _newlines.count(folder, 0, 1, 10)


def test_it_lets_others_run(fd: int) -> None:
    """Another thread's steps go on during one long call."""
    os.ftruncate(fd, 1 << 28)
    done = threading.Event()
    steps: list[int] = []

    def work() -> None:
        while not done.is_set():
            steps.append(1)

    other = threading.Thread(target=work)
    other.start()
    try:
        before = len(steps)
        _newlines.count(fd, 0, 1, 1 << 28)
        assert len(steps) - before > 1_000
    finally:
        done.set()
        other.join()


# --- an index ---------------------------------------------------------------------------------------


def rows(size: int) -> bytes:
    some = b"".join(b"%d %s\n" % (number, b"x" * (number * 7 % 90)) for number in range(997))
    return (some * (size // len(some) + 1))[:size]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("rest", [0, 1, 12_345])
def test_one_who_waits_gets_help_and_the_same_numbers(
    fd: int, native: bool, rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setitem(sys.modules, "mainspring.tools._newlines", None)
        monkeypatch.delattr(tools, "_newlines")
    data = rows(ALONE * 2 + rest)
    os.write(fd, data)
    index = LineIndex()
    index.count_at_once(DescriptorBytes(fd), None, HaltSignal())
    assert index.whole
    assert list(index.ends) == plain(data, index.block)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("count-lines")]


def test_it_goes_no_farther_than_it_must(fd: int) -> None:
    data = rows(ALONE * 4)
    os.write(fd, data)
    index = LineIndex()
    index.count_at_once(DescriptorBytes(fd), data[: NATIVE_BLOCK * PIECE * 2].count(b"\n"), HaltSignal())
    assert 2 * PIECE <= len(index.ends) <= (2 + AHEAD) * PIECE
    assert list(index.ends) == plain(data, index.block)[: len(index.ends)]
    index.count_until(DescriptorBytes(fd), None, HaltSignal())
    assert list(index.ends) == plain(data, index.block)


def test_a_mark_at_the_beginning_is_not_counted(fd: int) -> None:
    os.write(fd, b"\n\n\n" + rows(ALONE))
    index = LineIndex()
    index.count_at_once(DescriptorBytes(fd, skip=3), None, HaltSignal())
    assert index.ends[-1] == rows(ALONE).count(b"\n")


def test_a_file_that_is_cut_short_meanwhile_ends_there(fd: int) -> None:
    os.write(fd, rows(ALONE * 2))
    source = DescriptorBytes(fd)
    os.ftruncate(fd, NATIVE_BLOCK * 3 + 100)
    index = LineIndex()
    index.count_at_once(source, None, HaltSignal())
    assert index.whole
    assert index.ends[-1] == rows(ALONE)[: NATIVE_BLOCK * 3 + 100].count(b"\n")


class Failing(MemoryBytes):
    """Fails once, in the piece that comes as this one."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self.left = piece

    def ends(self, start: int, blocks: int, block: int) -> LineEnds:
        self.left -= 1
        if self.left == -1:
            raise OSError(5, "Input/output error")
        return super().ends(start, blocks, block)


@pytest.mark.parametrize("piece", range(5))
def test_what_failed_is_counted_by_the_next_one(piece: int) -> None:
    data = rows(10 * PIECE * 4 * 4 + 3)
    index, source = LineIndex(block=10), Failing(data, piece)
    with pytest.raises(OSError, match="Input/output error"):
        index.count_until(source, None, HaltSignal())
    index.count_until(source, None, HaltSignal())
    assert list(index.ends) == plain(data, 10)


class Stuck(MemoryBytes):
    """The first piece takes until it is told to go on."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.began, self.go_on = threading.Event(), threading.Event()

    def ends(self, start: int, blocks: int, block: int) -> LineEnds:
        if start == 0:
            self.began.set()
            assert self.go_on.wait(30)
        return super().ends(start, blocks, block)


def test_one_who_waits_for_another_can_be_stopped() -> None:
    index, source, halt = LineIndex(block=10), Stuck(b"x\n" * 10), HaltSignal()
    other = threading.Thread(target=index.count_until, args=(source, None, HaltSignal()))
    other.start()
    assert source.began.wait(30)
    waiting = threading.Timer(0.01, halt.now)
    waiting.start()
    with pytest.raises(ToolError, match="cancelled"):
        index.count_until(source, None, halt)
    source.go_on.set()
    waiting.join()
    other.join()
    assert index.whole


# --- the package ------------------------------------------------------------------------------------


def built(to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(to)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_wheel_has_it_if_that_is_asked_for(tmp_path: Path) -> None:
    """Then it is for every Python from 3.11 on. The usual wheel is for all machines: tests/packaging."""
    assert built(tmp_path, MAINSPRING_NATIVE="require").returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as files:
        assert [name for name in files.namelist() if name.endswith(".so")] == ["mainspring/tools/_newlines.abi3.so"]
    shutil.rmtree(tmp_path)
    made = built(tmp_path, CC="no-such-compiler", MAINSPRING_NATIVE="require")
    assert made.returncode != 0
    assert "there is no C compiler 'no-such-compiler'" in made.stdout + made.stderr
