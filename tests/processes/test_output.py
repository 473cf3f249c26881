"""Output is kept within its limits, whatever comes, and what is shown is true."""

from __future__ import annotations

import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.processes.output import OutputSizes, ProcessOutput, StoredOutputs


def fed(pieces: list[bytes], sizes: OutputSizes, *, store_all: bool = False) -> ProcessOutput:
    output = ProcessOutput(sizes, store_all=store_all)
    for piece in pieces:
        output.feed(piece)
    output.close()
    return output


def pieces_of(whole: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    return [whole[start:end] for start, end in pairwise(at)]


CUTS = st.lists(st.integers(0, 600), max_size=8)


@given(st.text(max_size=200), CUTS, st.integers(0, 40), st.integers(1, 40))
def test_both_ends_are_there_however_it_was_cut_into_pieces(text: str, cuts: list[int], head: int, tail: int) -> None:
    whole = text.encode()
    output = fed(pieces_of(whole, cuts), OutputSizes(head, tail))
    assert (output.size, output.lines) == (len(whole), whole.count(b"\n"))
    if len(whole) <= head + tail:
        assert (output.text, output.data) == (text, whole)
    else:
        first, _, rest = output.text.rpartition("[... ")
        last = rest.partition(" ...]\n\n")[2]
        assert text.startswith(first.rstrip())
        assert text.endswith(last)
        assert len(last.encode()) <= tail
        assert "\n" in text.encode()[-tail:].decode(errors="replace") or len(last.encode()) > tail - 4


@given(st.lists(st.binary(max_size=50)), st.integers(0, 40), st.integers(1, 40))
def test_bytes_that_are_no_text_do_no_harm(pieces: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(pieces)
    output = fed(pieces, OutputSizes(head, tail))
    assert output.size == len(whole)
    if len(whole) <= head + tail:
        assert output.text == whole.decode(errors="replace")
    assert len(output.data) <= head + 2 * tail


@given(st.text(max_size=200), CUTS)
def test_text_that_is_taken_piece_by_piece_tears_no_character(text: str, cuts: list[int]) -> None:
    output, taken = ProcessOutput(OutputSizes(1_000, 1_000)), ""
    for piece in pieces_of(text.encode(), cuts):
        output.feed(piece)
        taken += output.take()
    assert taken == text


def test_a_cut_tears_no_character_and_falls_between_lines() -> None:
    assert "�" not in fed(["ä€😀".encode() * 1_000], OutputSizes(1_001, 1_002)).text
    lines = b"".join(b"%06d\n" % number for number in range(10_000))
    text = fed([lines], OutputSizes(1_000, 2_000)).text
    before, note, after = text.partition("\n\n[... 9,573 lines (67,011 bytes) left out here.")
    assert note
    assert before.splitlines() == [f"{number:06d}" for number in range(142)]
    assert after.partition("]\n\n")[2].splitlines() == [f"{number:06d}" for number in range(9_715, 10_000)]


@pytest.mark.parametrize("umask", [0, 0o777])
def test_what_is_left_out_is_in_a_private_file(tmp_path: Path, umask: int) -> None:
    if umask:  # nobody but root could enter a folder that is made under it
        (tmp_path / "spill").mkdir(mode=0o700)
    old = os.umask(umask)
    try:
        output = fed([b"a" * 100, b"b" * 100], OutputSizes(10, 10, str(tmp_path / "spill"), 1_000))
    finally:
        os.umask(old)
    path = Path(output.path)
    assert path.read_bytes() == b"a" * 100 + b"b" * 100
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert f"The whole is in '{path}'" in output.text


def test_nothing_is_stored_unless_something_is_left_out(tmp_path: Path) -> None:
    output = fed([b"a" * 20], OutputSizes(10, 10, str(tmp_path)))
    assert (output.path, list(tmp_path.iterdir())) == ("", [])


def test_the_file_is_capped(tmp_path: Path) -> None:
    output = fed([b"x" * 700] * 10, OutputSizes(10, 10, str(tmp_path), 1_000))
    assert (Path(output.path).stat().st_size, output.stored) == (1_000, 1_000)
    assert f"Its first 1,000 bytes are in '{output.path}'" in output.text


def test_a_full_disk_is_told_and_nothing_else_happens() -> None:
    output = ProcessOutput(OutputSizes(10, 10, "/dev/null/no-folder"))
    output.feed(b"x" * 100)
    assert (output.path, output.size) == ("", 100)
    assert "It is not stored" in output.text


def test_a_running_output_has_its_file_from_the_beginning(tmp_path: Path) -> None:
    output = ProcessOutput(OutputSizes(10, 10, str(tmp_path)), store_all=True)
    assert Path(output.path).read_bytes() == b""
    output.feed(b"one ")
    assert output.take() == "one "
    output.feed(b"two")
    assert output.take() == "two"
    output.close()
    assert Path(output.path).read_bytes() == b"one two"


def test_the_oldest_files_of_a_session_make_room(tmp_path: Path) -> None:
    stored = StoredOutputs(most=250)
    outputs = [fed([b"x" * 100], OutputSizes(10, 10, str(tmp_path))) for _ in range(4)]
    for output in outputs:
        stored.keep(output)
    assert {path.name for path in tmp_path.iterdir()} == {Path(output.path).name for output in outputs[2:]}


@pytest.mark.parametrize("size", [5, 50, 5_000])
def test_somebody_who_watches_sees_the_end(size: int) -> None:
    output = fed([("ü" * 3_000).encode()], OutputSizes(100, 100))
    assert set(output.end(size)) == {"ü"}
