"""Folders that the user trusts (security T1): a list of real paths in a file that only the user can read and write.

Trust applies to the folder itself, not to its subfolders, and not to what its git files say. Nothing here asks the
user: a front end that can ask calls `add_trusted_folder` with the answer, and a headless run never does.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import NamedTuple

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.processes.atomic_write import digest, write_atomically
from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.processes.safe_open import read_resolved_file
from mainspring.settings.load import TRUSTED

FILE, FOLDER = 0o600, 0o700
LARGEST = 4 << 20  # bytes; some forty thousand folders


class TrustedFolders(Value, tag="Trusted"):
    """The file. The tag names its format; a later version will have another one."""

    folders: dict[str, int] = msgspec.field(default_factory=dict)  # real path: when, in milliseconds


class _Found(NamedTuple):
    trusted: TrustedFolders
    before: str | None  # the digest of the file; None: there is none


def is_trusted(home: str | None, folder: str) -> bool:
    """False for every folder if the file cannot be read or others can write to it."""
    if home is None:
        return False
    try:
        return real_folder(folder) in _load(_file(home)).trusted.folders
    except (OSError, UsageError, PathRefused):
        return False


def list_trusted_folders(home: str) -> tuple[str, ...]:
    return tuple(_load(_file(home)).trusted.folders)


def add_trusted_folder(home: str, folder: str, *, at: int) -> str:
    """The real path that is trusted from now on. `at` is the time in milliseconds."""
    path = resolve_path(folder, folder if folder.startswith("/") else os.getcwd())  # noqa: PTH109  # 8 ms
    if path.kind != "folder":
        raise UsageError(f"'{folder}' is not a folder")
    os.makedirs(home, FOLDER, exist_ok=True)  # noqa: PTH103  # 8 ms
    _change(home, path.real, at)
    return path.real


def remove_trusted_folder(home: str, folder: str) -> bool:
    """Whether it was trusted. The folder may no longer exist."""
    name = real_folder(folder)
    if name not in list_trusted_folders(home):
        return False
    _change(home, name, None)
    return True


def real_folder(folder: str) -> str:
    return resolve_path(folder, os.getcwd() if not folder.startswith("/") else "/").real  # noqa: PTH109  # 8 ms


def _file(home: str) -> Resolved:
    return resolve_path(f"{home}/{TRUSTED}", "/")


def _load(file: Resolved) -> _Found:
    if file.kind == "missing":
        return _Found(TrustedFolders(), None)
    found = os.stat(file.real)  # noqa: PTH116  # 8 ms
    if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o022:
        raise UsageError(
            f"'{file.real}' can be written by others, so it is not used: check its content, then run 'chmod 600' on it"
        )
    data = read_resolved_file(file, limit=LARGEST)
    try:
        return _Found(msgspec.json.decode(data, type=TrustedFolders), digest(data))
    except msgspec.MsgspecError:
        raise UsageError(f"'{file.real}' cannot be read: remove it, and trust your folders again") from None


def _change(home: str, name: str, at: int | None) -> None:
    """Under a lock: two processes that trust two folders at the same moment lose neither."""
    lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = _file(home)
        found = _load(file)
        kept = {folder: when for folder, when in found.trusted.folders.items() if folder != name}
        if at is not None:
            kept[name] = at
        data = msgspec.json.format(msgspec.json.encode(TrustedFolders(kept)))
        write_atomically(file, data, before=found.before, mode=FILE)
    finally:
        os.close(lock)
