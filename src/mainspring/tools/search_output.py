"""What a search printed, taken apart. Names begin with `./` and end in NUL, so none is mistaken for anything else.

names, files   name NUL, again and again
count          name NUL number LF
content        name NUL, then lines `12:text` (found) and `13-text` (around it), `--` between parts that are apart;
               an empty line before the next name

With `--crlf`, which makes `$` fit before a carriage return, some of these lines end in one themselves.
"""

import os
import re
from typing import NamedTuple

_LINE = re.compile(rb"(\d+)([:-])(.*)\Z", re.DOTALL)
# What is no row, which would begin with a number: a gap, and a remark of ripgrep about the file ('./f: binary file').
_NO_ROWS = (b"\n--", b"\n.", b"\n<")
_SIGNS = (b"\n--", b" binary file ")  # without these, there is none of them


class SearchLine(NamedTuple):
    number: int  # 0: a gap
    found: bool
    text: str


class FileMatches(NamedTuple):
    """The lines of a file, not yet taken apart: of most files only their number matters."""

    name: str
    body: bytes
    plain: bool = False  # each line is a row

    @property
    def size(self) -> int:
        """How many rows, gaps not counted."""
        if self.plain:
            return self.body.count(b"\n")
        others = sum([self.body.count(mark) for mark in _NO_ROWS]) + self.body.startswith((b".", b"<"))
        return self.body.count(b"\n") - others

    @property
    def rows(self) -> list[SearchLine]:
        """Lines that are cut, and what is no line, are left out."""
        rows: list[SearchLine] = []
        for line in self.body.split(b"\n")[:-1]:
            if line.removesuffix(b"\r") == b"--":
                rows.append(SearchLine(0, found=False, text=""))
            elif parts := _LINE.match(line):
                text = parts[3].removesuffix(b"\r").decode("utf-8", "replace")
                rows.append(SearchLine(int(parts[1]), found=parts[2] == b":", text=text))
        return rows


def parse_names(data: bytes) -> list[str]:
    """Without the last one, if it is cut."""
    whole = os.fsdecode(data[: data.rfind(b"\0") + 1])
    return whole[2:-1].split("\0./") if whole else []


def parse_counts(data: bytes) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    at = 0
    while (end := data.find(b"\0", at)) >= 0 and (stop := data.find(b"\n", end)) >= 0:
        number = data[end + 1 : stop].removesuffix(b"\r")
        if number.isdigit():
            found.append((_name(data[at:end]), int(number)))
        at = stop + 1
    return found


def parse_groups(data: bytes) -> list[FileMatches]:
    found: list[FileMatches] = []
    plain = not any(sign in data for sign in _SIGNS)
    at = 0
    while (end := data.find(b"\0", at)) >= 0:
        stop = data.find(b"\n\n", end)
        body = data[end + 1 :] if stop < 0 else data[end + 1 : stop + 1]
        found.append(FileMatches(_name(data[at:end]), body, plain))
        if stop < 0:
            break
        at = stop + 2
    return found


def _name(data: bytes) -> str:
    return os.fsdecode(data.removeprefix(b"./"))
