"""Writes files back: a plan, stored before the first file is touched, and its actions.

Each action brings one path from the state that was seen to the one that is wanted, and does nothing if it has that
already. So after a crash the same plan is simply carried out again; it leaves what another program has
changed since, and reports it. No link is followed, on no part of a path.
"""

# ruff: noqa: PTH101, PTH208  # pathlib knows no descriptors

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mainspring.checkpoints.compare import is_same
from mainspring.checkpoints.entries import FileEntry
from mainspring.checkpoints.store import digest_of
from mainspring.core.errors import ToolError
from mainspring.processes.atomic_write import KEPT_BITS, FileChanged, is_draft, make_draft_name, write_atomically
from mainspring.processes.paths import Resolved
from mainspring.processes.safe_open import open_child, open_folder, open_listing, refuse_if_moved

_BLOCK = 1 << 20
MEANWHILE = "another program changed it meanwhile"
NOT_STORED = "its content is not available: it is stored on the machine that took the checkpoint"


class RestoreAction(Struct, frozen=True, array_like=True):
    path: bytes
    have: FileEntry | None
    want: FileEntry | None


class FolderMode(Struct, frozen=True, array_like=True):
    path: bytes
    mode: int


class RestorePlan(Struct, frozen=True):
    to: int  # number of the checkpoint
    undo: int  # of the one that was taken right before
    roots: tuple[str, ...]
    actions: tuple[RestoreAction, ...]
    modes: tuple[FolderMode, ...] = ()  # of the folders that must be writable meanwhile: set at the end
    v: int = 1

    @property
    def paths(self) -> list[str]:
        return [os.fsdecode(one.path) for one in self.actions]

    def without(self, refused: Collection[str]) -> RestorePlan:
        return replace(
            self,
            actions=tuple([one for one in self.actions if os.fsdecode(one.path) not in refused]),
            modes=tuple([one for one in self.modes if os.fsdecode(one.path) not in refused]),
        )


class ActionResult(NamedTuple):
    action: RestoreAction
    why: str = ""  # why it was not done


def make_plan(to: int, undo: int, roots: tuple[str, ...], actions: Iterable[RestoreAction]) -> RestorePlan:
    ordered = sorted(actions, key=_order)
    made = {os.fsdecode(one.path): one.want for one in ordered if one.want is not None and one.want.kind == "folder"}
    parents = {path for action in ordered if (path := os.fsdecode(action.path).rpartition("/")[0])}
    modes: list[FolderMode] = []
    for path in sorted({*parents, *made}, reverse=True):  # the innermost first
        entry = made.get(path) or look_at(path)
        if entry is not None and entry.kind == "folder":
            modes.append(FolderMode(os.fsencode(path), entry.mode))
    return RestorePlan(to, undo, roots, tuple(ordered), tuple(modes))


def _order(action: RestoreAction) -> tuple[int, int, bytes]:
    """First what goes, the innermost first; then folders, the outermost first; then everything else; modes last."""
    depth = action.path.count(b"/")
    if action.want is None or (action.have is not None and action.have.kind == "folder" != action.want.kind):
        return 0, -depth, action.path
    if action.want.kind == "folder" and (action.have is None or action.have.kind != "folder"):
        return 1, depth, action.path
    return (3, -depth, action.path) if action.want.kind == "folder" else (2, depth, action.path)


def carry_out(
    plan: RestorePlan, read: Callable[[bytes], bytes | None], interrupted: Collection[str] | None = None
) -> list[ActionResult]:
    """`read` returns a content by its digest. `interrupted`: this was begun before, when these names were in the
    workspace. Raises nothing that a single path is the reason for."""
    results: list[ActionResult] = []
    for folder in reversed(plan.modes):  # the outermost first
        with suppress(OSError, ToolError):
            _set_mode(os.fsdecode(folder.path), folder.mode | stat.S_IRWXU, "folder")
    if interrupted is not None:
        _remove_drafts(plan, read, interrupted)
    for action in plan.actions:
        try:
            _perform(action, read)
            results.append(ActionResult(action))
        except FileChanged:
            results.append(ActionResult(action, MEANWHILE))
        except ToolError as error:
            results.append(ActionResult(action, str(error)))
        except OSError as error:
            results.append(ActionResult(action, f"it cannot be written: {error.strerror}"))
    wanted = {one.action.path: one.action.want for one in results if not one.why}
    for folder in plan.modes:  # the innermost first: an outer one may close it
        if wanted.get(folder.path, folder) is not None:
            with suppress(OSError, ToolError):
                _set_mode(os.fsdecode(folder.path), folder.mode, "folder")
    _sync_folders({os.fsdecode(one.path).rpartition("/")[0] for one in plan.actions})
    return results


def _sync_folders(folders: Iterable[str]) -> None:
    """Names, too, must be on the disk before the plan goes: a power loss must not undo half of it."""
    for folder in folders:
        with suppress(OSError, ToolError):  # it is gone, or cannot be read
            fd = open_listing(folder or "/")
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _remove_drafts(plan: RestorePlan, read: Callable[[bytes], bytes | None], known: Collection[str]) -> None:
    """What a crash has left between the writing of a file and its renaming: a file with a name of ours, which was not
    there before, and with the content, or the beginning of it, that a file beside it should have."""
    wanted: dict[str, list[FileEntry]] = {}
    for action in plan.actions:
        if action.want is not None and action.want.kind in ("file", "link"):
            wanted.setdefault(os.fsdecode(action.path).rpartition("/")[0], []).append(action.want)
    for folder, entries in wanted.items():
        with suppress(OSError, ToolError):
            fd = open_listing(folder)
            try:
                names = [name for name in os.listdir(fd) if is_draft(name) and f"{folder}/{name}" not in known]
            finally:
                os.close(fd)
            for name in names:
                _remove_draft(f"{folder}/{name}", entries, read)


def _remove_draft(path: str, wanted: Iterable[FileEntry], read: Callable[[bytes], bytes | None]) -> None:
    data: list[bytes] = []
    now = look_at(path, data=data, most=max([one.size for one in wanted]))
    if now is None or now.why:
        return
    if any(
        one.target == now.target if now.kind == "link" else bool(data) and (read(one.digest) or b"").startswith(data[0])
        for one in wanted
        if one.kind == now.kind
    ):
        _remove(path, now)


def _perform(action: RestoreAction, read: Callable[[bytes], bytes | None]) -> None:
    path, want = os.fsdecode(action.path), action.want
    now = look_at(path)
    if is_same(now, want):
        return
    if not is_same(now, action.have) and not _is_halfway(action, now):
        raise FileChanged(MEANWHILE)
    if want is None:
        _remove(path, now)
    elif now is not None and now.kind != want.kind:
        if want.kind == "file":
            _content(want, read)  # it must be there before the other goes
        _remove(path, now)
        _create(path, want, None, read)
    elif now is not None and want.kind == "folder":
        _set_mode(path, want.mode | stat.S_IRWXU, "folder")  # more is set at the end: see `RestorePlan.modes`
    elif now is not None and want.kind != "link" and now.digest == want.digest:
        _set_mode(path, want.mode, want.kind)
    else:
        _create(path, want, now, read)


def _is_halfway(action: RestoreAction, now: FileEntry | None) -> bool:
    """A crash came between the removal of one kind and the creation of another, or before the mode was right."""
    have, want = action.have, action.want
    if now is None:
        return have is not None and want is not None and have.kind != want.kind
    if now.kind == "folder":  # its mode may be ours: see `RestorePlan.modes`
        return (have is not None and have.kind == "folder") or (want is not None and want.kind == "folder")
    return have is not None and bool(have.why) and have.kind == now.kind


def _create(path: str, want: FileEntry, now: FileEntry | None, read: Callable[[bytes], bytes | None]) -> None:
    if want.kind == "file":
        before = now.digest.hex() if now is not None else None
        found = Resolved(path, path, kind="missing" if now is None else "file")
        write_atomically(found, _content(want, read), before=before, mode=want.mode)
        return
    with _parent(path, make=True) as (folder, name):
        if want.kind == "folder":
            os.mkdir(name, 0o700, dir_fd=folder)
        elif now is None:
            os.symlink(want.target, os.fsencode(name), dir_fd=folder)
        else:
            draft = make_draft_name()
            os.symlink(want.target, draft, dir_fd=folder)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    if want.kind == "folder":
        _set_mode(path, want.mode | stat.S_IRWXU, "folder")


def _content(want: FileEntry, read: Callable[[bytes], bytes | None]) -> bytes:
    data = read(want.digest)
    if data is None:
        raise ToolError(NOT_STORED)
    return data


def _remove(path: str, now: FileEntry | None) -> None:
    assert now is not None
    with _parent(path) as (folder, name):
        if now.kind == "folder":
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _set_mode(path: str, mode: int, kind: str) -> None:
    """Also of a file that we may not open. Not of a link, and of nothing else that has come in its place."""
    with _parent(path) as (folder, name):
        handle = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, handle, dir_fd=folder)
        try:
            found = os.fstat(fd).st_mode
            if kind == "folder":
                mode |= found & stat.S_ISGID  # which group new files in it get is not ours to change
            if not (stat.S_ISDIR(found) if kind == "folder" else stat.S_ISREG(found)):
                raise FileChanged(MEANWHILE)
            if stat.S_IMODE(found) & (KEPT_BITS | stat.S_ISGID) == mode:
                return
            if hasattr(os, "O_PATH"):
                os.chmod(f"/proc/self/fd/{fd}", mode)
            else:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)


@contextmanager
def _parent(path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
    folder_name, _, name = path.rpartition("/")
    folder = open_folder(folder_name, make=make)
    try:
        refuse_if_moved(folder, folder_name or "/")
        yield folder, name
    finally:
        os.close(folder)


def look_at(path: str, *, data: list[bytes] | None = None, most: int = 0) -> FileEntry | None:
    """The state of a path; None: nothing is there. `data` gets the content of a file of at most `most` bytes."""
    try:
        with _parent(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            mode = stat.S_IMODE(found.st_mode) & KEPT_BITS
            if stat.S_ISLNK(found.st_mode):
                return FileEntry("link", target=os.fsencode(os.readlink(name, dir_fd=folder)))
            if stat.S_ISDIR(found.st_mode):
                return FileEntry("folder", mode)
            if not stat.S_ISREG(found.st_mode):
                return FileEntry("other", why="it is not a regular file now")
            return _look_into(folder, name, path, mode, data, most)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ToolError as error:
        return FileEntry("other", why=str(error))
    except OSError as error:
        return FileEntry("other", why=f"it cannot be read: {error.strerror}")


def _look_into(  # noqa: PLR0913, PLR0917  # as `look_at`
    folder: int, name: str, path: str, mode: int, data: list[bytes] | None, most: int
) -> FileEntry:
    try:
        fd = open_child(folder, name, path)
    except PermissionError as error:
        return FileEntry("file", mode, why=f"it cannot be read: {error.strerror}")
    try:
        pieces: list[bytes] = []
        while piece := os.read(fd, _BLOCK):
            pieces.append(piece)
        whole = b"".join(pieces)
        if data is not None and len(whole) <= most:
            data.append(whole)
        return FileEntry("file", stat.S_IMODE(os.fstat(fd).st_mode) & KEPT_BITS, digest_of(whole), len(whole))
    finally:
        os.close(fd)
