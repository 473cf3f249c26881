"""Where the checkpoints of a session are stored: `$MAINSPRING_HOME/file-history/<session id>`.

    log         one record after the other: each checkpoint, as the difference to the one before it
    packs/      new content of checkpoints, compressed, one piece after the other
    cache       the scan's memory (`scan.py`), so that a later process need not read every file again
    plan        a rewind under way (`restore.py`); beside the folder, `unfinished/<session id>` says that there is one
    lock        held by the process that writes

A pack is complete and synced before the record that names it is appended, and a record counts only if all of it is
there and its checksum is right. So a crash at any point leaves whole checkpoints and perhaps a pack that nothing
names, which the next writer removes. Packs never change: a fork has hard links to them.
"""

# ruff: noqa: PTH123, PTH118, PTH208, PTH108, PTH104, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b

import msgspec
from msgspec import Struct

from mainspring.checkpoints.entries import DIGEST, Cause, FileEntry, GitHead, Tree
from mainspring.core.errors import UsageError
from mainspring.sessions.paths import HISTORY_LOCK, HISTORY_LOG, UNFINISHED, make_folder

VERSION = 1
LEVEL = 1  # of the compression: the faster ones are nearly as small on source code

LOG, LOCK = HISTORY_LOG, HISTORY_LOCK
PACKS, CACHE, PLAN = "packs", "cache", "plan"
_HEAD = 16  # characters before a record: its length and its checksum, in hexadecimal
_PRIVATE = os.O_CLOEXEC | os.O_NOFOLLOW


class PackedContent(Struct, frozen=True, array_like=True, gc=False):
    pack: str
    offset: int
    stored: int  # bytes in the pack
    size: int


class StoredCheckpoint(Struct, frozen=True, omit_defaults=True):
    """A checkpoint, as the difference to the one before it."""

    number: int
    cause: Cause
    at: int
    prompt: str = ""
    text: str = ""
    roots: tuple[str, ...] = ()
    heads: tuple[GitHead, ...] = ()
    changed: dict[bytes, FileEntry] = {}
    removed: tuple[bytes, ...] = ()
    contents: dict[bytes, PackedContent] = {}  # by digest: those that are new in this one
    rests: bool = False  # nothing of the session runs after it: the user makes the changes that follow
    late: dict[bytes, bool] = {}  # changed when the run was over, so by the user; true: before that by a tool, too


class TouchedFile(Struct, frozen=True):
    """The state of a file that no checkpoint covers, before a tool changed it for the first time since a checkpoint."""

    since: int  # number of the checkpoint
    path: bytes
    entry: FileEntry | None  # None: it did not exist
    contents: dict[bytes, PackedContent] = {}


class LogEntry(Struct, frozen=True, omit_defaults=True):
    v: int = VERSION
    checkpoint: StoredCheckpoint | None = None
    touched: TouchedFile | None = None
    dropped: tuple[int, int] | None = None  # the prompts of these checkpoints are not in the conversation any more
    listed: tuple[int, int] | None = None  # they are again: the rewind that dropped them was undone
    resting: int = -1  # the session has changed nothing since this checkpoint: what follows is the user's


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LogEntry).decode


class HistoryInUse(UsageError):  # noqa: N818  # it reads as what it says
    """Another process is writing to this history."""


class CheckpointStore:
    """Reads and writes one folder. Not safe for several threads at once: its owner has one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.records: list[StoredCheckpoint] = []
        self.touched: list[TouchedFile] = []
        self.resting: set[int] = set()  # checkpoints after which the session changed nothing
        self.dropped: list[tuple[int, int]] = []
        self.contents: dict[bytes, PackedContent] = {}
        self.stored = 0  # bytes of all packs
        self._end = 0  # of the last whole record
        self._lock = -1
        self._load()

    # --- reading ---

    def _load(self) -> None:
        try:
            with open(self._path(LOG), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        for end, said in read_log(data):
            self._end = end
            self._take(said)

    def _take(self, said: LogEntry) -> None:
        if said.checkpoint is not None:
            self.records.append(said.checkpoint)
            self._know(said.checkpoint.contents)
            if said.checkpoint.rests:
                self.resting.add(said.checkpoint.number)
        if said.touched is not None:
            self.touched.append(said.touched)
            self._know(said.touched.contents)
        if said.dropped is not None:
            self.dropped.append(said.dropped)
        if said.listed in self.dropped:
            self.dropped.remove(said.listed)
        if said.resting >= 0:
            self.resting.add(said.resting)

    def _know(self, contents: dict[bytes, PackedContent]) -> None:
        self.contents |= contents
        self.stored += sum([one.stored for one in contents.values()])

    def tree(self, number: int) -> Tree:
        """The workspace at this checkpoint."""
        found: dict[bytes, FileEntry] = {}
        for record in self.records:
            if record.number > number:
                break
            for path in record.removed:
                found.pop(path, None)
            found.update(record.changed)
        return {os.fsdecode(path): entry for path, entry in found.items()}

    def read(self, digest: bytes) -> bytes | None:
        """A content; None: it is not stored, or damaged."""
        place = self.contents.get(digest)
        if place is None:
            return None
        try:
            with open(self._path(PACKS, place.pack), "rb") as pack:
                pack.seek(place.offset)
                data = zlib.decompress(pack.read(place.stored))
        except (OSError, zlib.error):
            return None
        return data if digest_of(data) == digest else None

    def has(self, digest: bytes) -> bool:
        return digest in self.contents

    def _path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    # --- writing ---

    def lock(self) -> None:
        """Before the first change. Raises `HistoryInUse`."""
        if self._lock >= 0:
            return
        make_folder(self._path(PACKS))
        fd = os.open(self._path(LOCK), os.O_RDWR | os.O_CREAT | _PRIVATE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise HistoryInUse("another process is using the file checkpoints of this session") from None
            raise
        self._lock = fd
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Packs of a writer that was killed."""
        used = {one.pack for one in self.contents.values()}
        for name in os.listdir(self._path(PACKS)):
            if name not in used:
                os.unlink(self._path(PACKS, name))

    def close(self) -> None:
        fd, self._lock = self._lock, -1
        if fd >= 0:
            os.close(fd)

    def append(self, said: LogEntry) -> None:
        """Stores it for good: returns when a power loss would not undo it."""
        self.lock()
        data = encode_entry(said)
        fd = os.open(self._path(LOG), os.O_WRONLY | os.O_CREAT | _PRIVATE, 0o600)
        try:
            os.ftruncate(fd, self._end)  # what a crash has left
            os.lseek(fd, self._end, os.SEEK_SET)
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        if not self._end:
            sync_folder(self.folder)
        self._end += len(data)
        self._take(said)

    def new_pack(self) -> PackWriter:
        self.lock()
        return PackWriter(self._path(PACKS), os.urandom(8).hex(), self.contents)

    def read_file(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_file(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Whole, or not at all."""
        self.lock()
        _write_whole(self._path(name), data, sync=sync)

    # --- a rewind ---

    def begin_rewind(self, plan: bytes) -> None:
        """Every start of a session in that workspace looks for the mark, so it is there before the plan."""
        self.lock()
        make_folder(os.path.dirname(self._mark))
        os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | _PRIVATE, 0o600))
        sync_folder(os.path.dirname(self._mark))
        self.write_file(PLAN, plan)

    def end_rewind(self) -> None:
        self.lock()
        with suppress(FileNotFoundError):
            os.unlink(self._path(PLAN))
        sync_folder(self.folder)
        with suppress(FileNotFoundError):
            os.unlink(self._mark)

    def forget_rewind(self) -> None:
        """Removes the mark, if there is no plan: another process may be about to store one."""
        if os.path.lexists(self._mark):
            self.lock()
            if self.read_file(PLAN) is None:
                with suppress(FileNotFoundError):
                    os.unlink(self._mark)

    @property
    def _mark(self) -> str:
        above, _, name = self.folder.rpartition("/")
        return f"{above}/{UNFINISHED}/{name}"


class PackWriter:
    """New contents. Nothing counts before the record that names them."""

    def __init__(self, folder: str, name: str, known: dict[bytes, PackedContent]) -> None:
        self._folder, self.name, self._known = folder, name, known
        self._fd = -1
        self.size = 0
        self.contents: dict[bytes, PackedContent] = {}

    def add(self, digest: bytes, data: bytes) -> None:
        if digest in self._known or digest in self.contents:
            return
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PRIVATE
            self._fd = os.open(os.path.join(self._folder, self.name), flags, 0o600)
        packed = zlib.compress(data, LEVEL)
        _write_all(self._fd, packed)
        self.contents[digest] = PackedContent(self.name, self.size, len(packed), len(data))
        self.size += len(packed)

    def finish(self) -> dict[bytes, PackedContent]:
        """What it holds, synced."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1
            sync_folder(self._folder)
        return self.contents

    def drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, self.name))


def encode_entry(said: LogEntry) -> bytes:
    body = zlib.compress(_encode(said), LEVEL)
    return b"%08x%08x" % (len(body), zlib.crc32(body)) + body


def read_log(data: bytes) -> Iterator[tuple[int, LogEntry]]:
    """The whole records, each with its end. Stops at the first that a crash has cut off, or of an unknown version."""
    at = 0
    while at + _HEAD <= len(data):
        try:
            size, checksum = int(data[at : at + 8], 16), int(data[at + 8 : at + _HEAD], 16)
            body = data[at + _HEAD : at + _HEAD + size]
            if len(body) < size or zlib.crc32(body) != checksum:
                return
            said = _decode(zlib.decompress(body))
        except (ValueError, zlib.error, msgspec.MsgspecError):
            return
        if said.v != VERSION:
            return
        at += _HEAD + size
        yield at, said


def link_history(old: str, new: str, more: bytes = b"") -> None:
    """Gives a fork the checkpoints of the session that it continues: packs as hard links, the rest as a copy. `more`:
    further entries of the log."""
    try:
        with open(os.path.join(old, LOG), "rb") as file:
            log = file.read()
    except FileNotFoundError:
        return
    make_folder(os.path.join(new, PACKS))
    for name in os.listdir(os.path.join(old, PACKS)):
        _link(os.path.join(old, PACKS, name), os.path.join(new, PACKS, name))
    if cache := read_bytes(os.path.join(old, CACHE)):
        _write_whole(os.path.join(new, CACHE), cache, sync=False)
    _write_whole(os.path.join(new, LOG), log + more, sync=True)  # at the end: then all is there


def _link(old: str, new: str) -> None:
    with suppress(FileExistsError):
        try:
            os.link(old, new, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PRIVATE, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(read_bytes(old))


def read_bytes(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return b""


def digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST).digest()


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _write_whole(file: str, data: bytes, *, sync: bool) -> None:
    draft = f"{file}.new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PRIVATE, 0o600)
    try:
        _write_all(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(draft, file)
    if sync:
        sync_folder(os.path.dirname(file))


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def open_store(folder: str) -> Generator[CheckpointStore]:
    store = CheckpointStore(folder)
    try:
        yield store
    finally:
        store.close()
