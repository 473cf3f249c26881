"""What a search found, looked at again through descriptors of ours (security F1).

ripgrep opens files by their names, and a folder may be swapped for a link while it runs: then it tells of one file by
the name of another. Where Landlock cannot keep it below the folder that was decided on, and where a rule closes some
files in there, its answer only says where to look. Each file is opened by a walk that follows no link, if the rules let
that name be read, and ripgrep searches what was opened.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from mainspring.processes.paths import PathRefused
from mainspring.processes.safe_open import open_below
from mainspring.tools.search_child import SearchOutput
from mainspring.tools.search_output import parse_counts, parse_groups, parse_names
from mainspring.tools.search_request import Mode

MOST = 2_000  # files
AT_ONCE = 100  # descriptors
DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"

Again = Callable[
    [dict[str, int]], SearchOutput
]  # the same search in files that are open, by the names that it then tells


def is_there(folder: int, name: str) -> bool:
    """Whether there is a file of that name below a folder, without a link on the way."""
    try:
        os.close(open_below(folder, name))
    except PermissionError:  # it is there, and closed to us
        return True
    except (OSError, PathRefused):
        return False
    return True


class ConfirmFolder(NamedTuple):
    """Where files are opened, and which."""

    folder: int  # a descriptor
    may_read: Callable[[str], bool]  # by a name below it


def confirm_matches(output: SearchOutput, mode: Mode, below: ConfirmFolder, again: Again) -> SearchOutput:
    """The answer with what is true of files below the folder, by the names that they have there."""
    found = found_in(output, mode)
    allowed = (name for name in found if below.may_read(name))
    chosen = list(islice(allowed, MOST))
    pieces: list[bytes] = []
    late, cut = output.late, output.cut or len(found) > MOST
    for at in range(0, len(chosen), AT_ONCE):
        with open_chosen_files(below.folder, chosen[at : at + AT_ONCE]) as files:
            if not files:
                continue
            told = again({f"{DESCRIPTORS}/{fd}": fd for fd in files})
        late, cut = late or told.late, cut or told.cut
        pieces += rename_matches(told, mode, {f"{DESCRIPTORS}/{fd}": name for fd, name in files.items()})
    between = b"\n" if mode == "content" else b""
    return output._replace(data=between.join(pieces), late=late, cut=cut)


def found_in(output: SearchOutput, mode: Mode) -> list[str]:
    if mode == "count":
        return [name for name, _ in parse_counts(output.data)]
    if mode == "content":
        return [group.name for group in parse_groups(output.data)]
    return parse_names(output.data)


@contextlib.contextmanager
def open_chosen_files(folder: int, chosen: Iterable[str]) -> Generator[dict[int, str]]:
    """Those that can be opened."""
    files: dict[int, str] = {}
    try:
        for name in chosen:
            with contextlib.suppress(OSError, PathRefused):
                files[open_below(folder, name)] = name
        yield files
    finally:
        for fd in files:
            os.close(fd)


def rename_matches(output: SearchOutput, mode: Mode, known: dict[str, str]) -> Iterator[bytes]:
    """Piece by piece, in the form of the first answer."""
    if mode == "count":
        for name, count in parse_counts(output.data):
            yield _head(known[name]) + b"%d\n" % count
    elif mode == "content":
        for group in parse_groups(output.data):
            yield _head(known[group.name]) + group.body
    else:
        for name in os.fsdecode(output.data).split("\0")[:-1]:
            yield _head(known[name])


def _head(name: str) -> bytes:
    return b"./" + os.fsencode(name) + b"\0"
