"""A workspace that changes at random, and its history."""
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH112, PTH114, PTH115, PTH118, PTH123, PTH211  # names that are bytes

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from random import Random

from mainspring.checkpoints.entries import RewindReport
from mainspring.checkpoints.history import FileHistory

ID = "11111111-2222-4333-8444-555555555555"
NAMES = (b"a", b"b", b"c.py", b"with space", b"\xff not utf-8", "\u00fc".encode(), b"d")
MODES = (0o644, 0o600, 0o755, 0o400, 0o1755)
FOLDER_MODES = (0o755, 0o700, 0o555, 0o711)

Shape = dict[bytes, tuple[object, ...]]


class Bench:
    def __init__(self, folder: Path) -> None:
        self.work, self.file = os.fsencode(folder / "work"), folder / "home" / "projects" / "p" / f"{ID}.jsonl"
        Path(os.fsdecode(self.work)).mkdir(exist_ok=True)
        self.history = FileHistory(str(self.file))
        self.at = 0

    @property
    def roots(self) -> tuple[str, ...]:
        return (os.fsdecode(self.work),)

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(self.work))

    @property
    def store(self) -> Path:
        return self.file.parents[2] / "file-history" / ID

    def prompt(self, id: str) -> None:
        self.at += 1
        self.history.take(self.roots, "prompt", self.at, prompt=id, text=id)

    def end(self) -> None:
        self.history.take(self.roots, "idle", self.at, rests=True)

    def rewind(self, to: str) -> RewindReport:
        planned = self.history.plan(to, self.roots, dry_run=False, at=self.at)
        return self.history.restore(planned, {}, self.at)

    def reopen(self) -> None:
        """As another process would."""
        self.history.close()
        self.history = FileHistory(str(self.file))


def shape_of(folder: bytes) -> Shape:
    """Every name below a folder, with its kind, mode and content."""
    found: Shape = {}
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(here, name)
            look = os.lstat(path)
            mode = stat.S_IMODE(look.st_mode)
            if stat.S_ISLNK(look.st_mode):
                found[path] = ("link", os.readlink(path))
            elif stat.S_ISDIR(look.st_mode):
                found[path] = ("folder", mode)
            else:
                with os.fdopen(os.open(path, os.O_RDONLY), "rb") as file:
                    found[path] = ("file", mode, file.read())
    return found


class RandomChanges:
    """Writes, edits, moves, removals, modes, links and folders."""

    def __init__(self, work: bytes, chance: Random) -> None:
        self._work, self._chance = work, chance

    def some(self, count: int) -> None:
        for _ in range(count):
            what = self._chance.choice(
                [self._write, self._write, self._append, self._move, self._remove, self._mode, self._link, self._folder]
            )
            try:
                what()
            except OSError:  # a folder that is not empty, or not writable: then something else
                continue

    def _folders(self) -> list[bytes]:
        return [self._work, *[path for path, entry in shape_of(self._work).items() if entry[0] == "folder"]]

    def _files(self) -> list[bytes]:
        return [path for path, entry in shape_of(self._work).items() if entry[0] == "file"]

    def _new(self) -> bytes:
        return os.path.join(self._chance.choice(self._folders()), self._chance.choice(NAMES))

    def _any(self) -> bytes:
        return self._chance.choice([*shape_of(self._work), self._new()])

    def _write(self) -> None:
        path = self._new()
        if os.path.islink(path):
            os.unlink(path)
        with open(path, "wb") as file:
            file.write(self._chance.choice([b"", b"text\n", b"\0binary\xff", b"text" * self._chance.randrange(500)]))

    def _append(self) -> None:
        """Within the resolution of the clock the times do not show it, and often not the size."""
        with open(self._chance.choice(self._files() or [self._new()]), "r+b") as file:
            file.write(self._chance.choice([b"T", b"X", b"\n"]))

    def _move(self) -> None:
        os.rename(self._any(), self._new())

    def _remove(self) -> None:
        path = self._any()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def _mode(self) -> None:
        path = self._any()
        if not os.path.islink(path):
            os.chmod(path, self._chance.choice(FOLDER_MODES if os.path.isdir(path) else MODES))

    def _link(self) -> None:
        os.symlink(self._chance.choice([b"a", b"/nonexistent/f", b"../out", b"nowhere\xff"]), self._new())

    def _folder(self) -> None:
        os.mkdir(self._new())
