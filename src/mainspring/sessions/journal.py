"""The journal on disk: one append-only file per session, one writer, one `write` per record before the loop acts on it
(security D1, D3).

    journal = FileJournal.create(file, envelope)        # or: loaded, journal = FileJournal.resume(file, envelope)
    await journal.append(record)                        # never suspends, unless power loss must be survived, too
    await journal.sync()
    journal.close()

The file is never rewritten and never truncated. A small file beside it keeps what was shown of the current reply, and
is emptied when the next reply begins (docs/decisions/0010).

For a copy elsewhere (stream-json 14.5), pass `JournalOptions.mirror`: it is called with each line that the disk has
taken.

A disk failure is reported once (security D4). From then on nothing is stored, since a missing event would falsify all
that follow; the file stays a valid prefix. With `require` the run ends instead.

If another process removes the file while it is in use, the journal writes it again, completely, because it still has
the file open. If another file has taken its name, that file stays, and the journal reports it like a disk failure.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from mainspring import sessions
from mainspring.core.config import Config
from mainspring.core.errors import MainspringError, UsageError
from mainspring.core.events import ToolsDone
from mainspring.core.value import Bundle
from mainspring.messages_api import Unreadable, as_line
from mainspring.secrets.held import hold_secrets, mask_secrets
from mainspring.sessions.encoder import TranscriptEncoder
from mainspring.sessions.line_format import Envelope, Payload, name_lines
from mainspring.sessions.paths import (
    Place,
    draft_of,
    id_of,
    live_file,
    open_file,
    payload_file,
    place_new,
    remove_session,
    rename_session_file,
    size_of,
)
from mainspring.sessions.records import CheckpointRecord, ConfigRecord, DeltaRecord, EventRecord, Record, StepsRecord

if TYPE_CHECKING:  # reading modules are loaded when needed: a new session starts without them
    from mainspring.sessions.decoder import LoadedSession

SYNC_INTERVAL = 0.25  # seconds: a sync costs a quarter of a turn, above all for waking its thread (decision 0095)
MOST_FOREIGN = 1 << 20  # bytes that are searched for a name that a client has given
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class SessionInUse(UsageError):  # noqa: N818  # it reads as what it says
    """Another process has this session open."""


class JournalWriteError(MainspringError):
    """The journal could not be written, and the run may not continue without it."""


class Durability(StrEnum):
    PROCESS = "process"  # survives the end of this process at any time; synced in the background, `sync_interval`
    # after a turn at the latest, and before a result
    POWER = "power"  # also survives a power loss, up to the last turn
    NONE = "none"  # never synced: for tests on a virtual clock


if TYPE_CHECKING:  # a protocol takes as long to define as ten functions

    class JournalDisk(Protocol):
        """The calls that a test replaces to simulate a disk failure."""

        def write(self, fd: int, data: bytes, /) -> int: ...

        def truncate(self, fd: int, /) -> None: ...


class OsDisk:
    write = staticmethod(os.write)

    @staticmethod
    def truncate(fd: int, /) -> None:
        os.ftruncate(fd, 0)


def ignore_warning(text: str) -> None:
    """The default for callers that ignore disk failures."""


class JournalOptions(Bundle):
    durability: Durability = Durability.PROCESS
    sync_interval: float = SYNC_INTERVAL  # seconds between two background syncs; 0: one at each end of a turn
    require: bool = False
    require_option: str = "require_journal"  # the option that set it, as the user knows it
    on_trouble: Callable[[str], None] = ignore_warning
    secrets: tuple[str, ...] = ()  # our own keys, which no transcript may contain (security K3)
    disk: JournalDisk = OsDisk()
    mirror: Callable[[str, bytes], None] | None = None  # called with the file, and whole lines that are in it now


DEFAULT = JournalOptions()


class FileJournal:
    """Created by `create`, `resume` or `fork`."""

    def __init__(self, file: Place, scribe: TranscriptEncoder, options: JournalOptions) -> None:
        self.file = os.fspath(file)
        self.stored = False  # whether appended records still reach the disk
        self._scribe = scribe
        self.options = options
        hold_secrets(*options.secrets)
        # Chosen once, so that a record costs nothing extra without a mirror.
        self._write_to = options.disk.write if options.mirror is None else self._write_and_tell
        self._untold = b""  # written bytes that the mirror has not received yet
        self._in_place = True  # False: the mirror gets nothing before the file has its name
        self._fd = self._live = -1
        self._live_reply = ""
        self._first = b""  # goes before the first record
        self._payloads_to_sync: list[str] = []
        self._seen = self._looked = 0  # the size of the file if only we write to it, and how far we have checked
        self._identity: tuple[int, int] | None = None  # of the file, once it has its name
        self._syncing: asyncio.Future[None] | None = None
        self._sync_timer: asyncio.TimerHandle | None = None  # of the next background sync
        self._held = b""  # lines that are written with the next record
        self._sync_error: OSError | None = None  # raised in a thread, and not reported yet

    @classmethod
    def create(cls, file: Place, envelope: Envelope, options: JournalOptions = DEFAULT) -> FileJournal:
        """A new session. Raises if the id is taken. Reports a disk failure, here as later."""
        journal = cls(file, TranscriptEncoder(envelope), options)
        journal._open(journal.file)
        if journal.stored and os.fstat(journal._fd).st_size:
            journal.close()
            raise UsageError(f"Session ID '{id_of(file)}' is already in use: resume it, or choose another")
        return journal

    @classmethod
    def resume(  # noqa: PLR0913  # how a session may be taken up
        cls,
        file: Place,
        envelope: Envelope,
        options: JournalOptions = DEFAULT,
        *,
        config: Config | None = None,
        at: str = "",
        drops: str = "",
    ) -> tuple[LoadedSession, FileJournal]:
        """Resume a session (see `load_session`). Locks it before reading, so no other process changes it in between.

        The loaded state is written with the first record.
        """
        journal = cls(file, TranscriptEncoder(envelope), options)
        journal._open(journal.file)
        try:
            loaded = sessions.load_session(file, config=config, at=at, drops=drops)
        except BaseException:
            journal.close()
            raise
        journal._scribe = loaded.scribe(envelope)
        newline = b"\n" if loaded.ends_in_mid_line else b""
        journal._first = newline + journal._scribe.begin_with(loaded.made, loaded.state)
        return loaded, journal

    @classmethod
    def fork(cls, forked: LoadedSession, envelope: Envelope, options: JournalOptions = DEFAULT) -> FileJournal:
        """A new file with the conversation of another session, written completely or not at all."""
        file = forked.file
        if size_of(file):
            raise UsageError(f"Session ID '{id_of(file)}' is already in use: choose another for the fork")
        journal = cls(file, forked.scribe(envelope), options)
        draft = draft_of(file)
        journal._in_place = False
        journal._open(draft)
        if journal.stored:
            journal._first = journal._scribe.begin_with(forked.made, forked.state)
            journal._write_payloads()
        if journal.stored:
            journal._write(b"")
        try:
            if journal.stored:
                rename_session_file(draft, os.fspath(file))
                journal._in_place = True
                journal._tell(b"")
            else:
                remove_session(draft)
        except OSError as error:
            journal._failed(error)
        return journal

    # --- the journal ---

    async def append(self, record: Record) -> None:
        if self._sync_error is not None:
            self._sync_failed()
        if not self.stored:
            self._check_required()
            return
        if isinstance(record, DeltaRecord):
            self._keep_live(record)
            return
        if isinstance(record, EventRecord):
            self._look_for_file()
            if not self.stored:
                return
        if isinstance(record, CheckpointRecord):
            self._before_checkpoint()
        data = self._scribe.lines(record)
        if self._scribe.payloads:
            self._write_payloads()
        if isinstance(record, StepsRecord | ConfigRecord):  # the outcome, or the event, follows at once: nothing is
            self._held += data  # shown or done in between
            return
        if data and self.stored:
            self._write(data)
        if isinstance(record, CheckpointRecord):
            self._scribe.note_checkpoint_end(os.lseek(self._fd, 0, os.SEEK_CUR))
        elif isinstance(record, EventRecord) and isinstance(record.event, ToolsDone):
            await self._turn_ends()

    async def sync(self) -> None:
        """Return when everything appended would survive a power loss."""
        if self.stored:
            self._look_for_file()
        if self._held and self.stored:
            self._write(b"")
        self._forget_timer()
        if self.options.durability is not Durability.NONE and self.stored:
            if self._syncing is not None:
                await self._syncing
            await asyncio.get_running_loop().run_in_executor(None, self._sync)
        if self._sync_error is not None:
            self._sync_failed()
        self._check_required()

    def rename(self, title: str) -> None:
        """Append one more line, as every client that names a session does; the last one counts. Raises `UsageError`."""
        if not size_of(self.file):
            raise UsageError("the session has no prompts yet")
        self._scribe.standing.title = title
        self._write(name_lines(title, "", id_of(self.file)))
        if not self.stored:
            raise UsageError(f"'{self.file}' cannot be written")

    def close(self) -> None:
        """Release the session. Removes a file that nothing was written to."""
        self._forget_timer()
        if self._held and self.stored:
            self._write(b"")
        self.stored = False
        fd, live, self._fd, self._live = self._fd, self._live, -1, -1
        if live >= 0:
            os.close(live)
        if fd >= 0:
            if not os.fstat(fd).st_size and identity_at(self.file) in (self._identity, None):
                remove_session(self.file)
            os.close(fd)

    def _before_checkpoint(self) -> None:
        if self._first:
            self._write(b"")
        size = os.fstat(self._fd).st_size
        if size != self._seen:  # another process has written: a client that names the session
            for line in os.pread(self._fd, MOST_FOREIGN, max(self._looked, size - MOST_FOREIGN)).split(b"\n"):
                if line.startswith((b'{"type":"custom-title"', b'{"type":"tag"')):
                    with suppress(*Unreadable):
                        sessions.note_names(sessions.parse_journal_line(line), self._scribe.standing)
        self._seen = self._looked = size

    # --- opening ---

    def _open(self, file: str) -> None:
        try:
            self._fd = open_file(file, _OPEN)
        except OSError as error:
            self._failed(error)
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = lock_owner(self._fd)
            self.close()
            raise SessionInUse(f"session '{id_of(self.file)}' is open in {owner}") from None
        except OSError:
            pass  # a file system without locks: better unguarded than unstored
        found = os.fstat(self._fd)
        self._seen = self._looked = found.st_size
        self._identity = (found.st_dev, found.st_ino)
        self.stored = True

    # --- removed while in use ---

    def _look_for_file(self) -> None:
        if identity_at(self.file) == self._identity:
            return
        try:
            self._write_again()
        except FileExistsError:
            self._failed(OSError(errno.ESTALE, "another file has taken its place"))
        except OSError as error:
            self._failed(error)
        else:
            self.options.on_trouble(f"'{self.file}' was removed while this session was using it: it was written again")

    def _write_again(self) -> None:
        """A copy of the open file takes its name. Nothing is written to it before it is complete."""
        draft = draft_of(self.file)
        fd = open_file(draft, _OPEN | os.O_TRUNC)
        try:
            at = 0
            while data := os.pread(self._fd, MOST_FOREIGN, at):
                at += os.write(fd, data)
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place_new(draft, self.file)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                remove_session(draft)
            raise
        old, self._fd = self._fd, fd
        os.lseek(fd, 0, os.SEEK_END)
        found = os.fstat(fd)
        self._identity = (found.st_dev, found.st_ino)
        if self._live >= 0:  # the files beside it are gone, too
            os.close(self._live)
            self._live, self._live_reply = -1, ""
        if self._syncing is None or self._syncing.done():
            os.close(old)
        else:  # a thread may be using it
            self._syncing.add_done_callback(lambda _: os.close(old))

    # --- writing ---

    def _write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        if not self._first:
            self._write_all(self._fd, data)
            return
        first, self._first = self._first, b""
        self._write_all(self._fd, first + data)
        self._scribe.note_checkpoint_end(os.lseek(self._fd, 0, os.SEEK_CUR) - len(data))

    def _write_all(self, fd: int, data: bytes) -> None:
        """One `write`. If the disk takes only a part of it, the rest follows. Redacts our own keys (security K3)."""
        data = mask_secrets(data)
        try:
            done = self._write_to(fd, data)
            self._seen += len(data) if fd == self._fd else 0
            while done < len(data):
                data = data[done:]
                done = self._write_to(fd, data)
                if done == 0:
                    raise OSError(errno.EIO, "nothing was written")
        except OSError as error:
            self._failed(error)

    def _write_and_tell(self, fd: int, data: bytes, /) -> int:
        done = self.options.disk.write(fd, data)
        if fd == self._fd:
            self._tell(data[:done])
        return done

    def _tell(self, written: bytes) -> None:
        """Whole lines. A partial line, after which the disk was full, is not reported."""
        self._untold += written
        end = self._untold.rfind(b"\n") + 1
        if end and self._in_place and self.options.mirror is not None:
            lines, self._untold = self._untold[:end], self._untold[end:]
            self.options.mirror(self.file, lines)

    def _failed(self, error: OSError) -> None:
        """Write nothing more; what the disk took stays, and its last line may be torn."""
        self.stored = False
        self.options.on_trouble(
            f"'{self.file}' cannot be written ({error.strerror or error}): "
            + ("the run ends" if self.options.require else "from here on nothing of this session is stored")
        )
        self._check_required()

    def _check_required(self) -> None:
        if self.options.require and not self.stored:
            raise JournalWriteError(f"'{self.file}' cannot be written, and '{self.options.require_option}' was given")

    def _write_payloads(self) -> None:
        payloads, self._scribe.payloads = self._scribe.payloads, []
        try:
            for payload in payloads:
                self._payloads_to_sync.append(write_payload(self.file, payload, self.options.disk))
        except OSError as error:
            self._failed(error)

    def _keep_live(self, record: DeltaRecord) -> None:
        """Store what was shown of an unfinished block. The finished block will be in the session's file."""
        reply_id = record.deltas[0].reply_id
        try:
            if self._live < 0:
                self._live = open_file(live_file(self.file), _OPEN)
            if reply_id != self._live_reply:
                self.options.disk.truncate(self._live)
                self._live_reply = reply_id
        except OSError as error:
            self._failed(error)
            return
        lines = [as_line((delta.reply_id, delta.index, delta.kind, delta.text)) + b"\n" for delta in record.deltas]
        self._write_all(self._live, b"".join(lines))

    # --- syncing ---

    async def _turn_ends(self) -> None:
        if self.options.durability is Durability.POWER:
            await self.sync()
        elif self.options.durability is Durability.PROCESS:
            self._sync_soon()

    def _sync_soon(self) -> None:
        """At most one sync in each interval, at its end: it includes all turns that end until then."""
        loop, interval = asyncio.get_running_loop(), self.options.sync_interval
        if not interval:
            self._start_sync()
        elif self._sync_timer is None or self._sync_timer.when() < loop.time() - interval:  # one of an earlier loop
            self._sync_timer = loop.call_later(interval, self._start_sync)

    def _start_sync(self) -> None:
        self._sync_timer = None
        if self._fd < 0:
            return
        if self._syncing is None or self._syncing.done():
            with suppress(RuntimeError):  # the loop is shutting down: its threads are gone
                self._syncing = asyncio.get_running_loop().run_in_executor(None, self._sync)
        elif self.options.sync_interval:  # the disk is slow: what was written meanwhile needs another one
            self._sync_soon()

    def _forget_timer(self) -> None:
        timer, self._sync_timer = self._sync_timer, None
        if timer is not None:
            timer.cancel()

    def _sync(self) -> None:
        """In a thread. The file's own lines last: they name the payloads."""
        try:
            paths, self._payloads_to_sync = self._payloads_to_sync, []
            for path in paths:
                sync_file(path)
            if self._fd >= 0:
                os.fdatasync(self._fd)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EBADF):  # not supported here, or closed meanwhile
                self._sync_error = error

    def _sync_failed(self) -> None:
        """Back on the event loop: the callback for trouble need not consider threads."""
        error, self._sync_error = self._sync_error, None
        if error is not None and self.stored:
            self._failed(error)


def write_payload(file: str, payload: Payload, disk: JournalDisk) -> str:
    """Completely or not at all: other lines may name the same content."""
    path = payload_file(file, payload.name)
    if not size_of(path):
        draft = draft_of(path)
        fd = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(mask_secrets(payload.data))
            while view:
                view = view[disk.write(fd, bytes(view)) :]
        except OSError:
            remove_session(draft)
            raise
        finally:
            os.close(fd)
        rename_session_file(draft, path)
    return path


def identity_at(file: str) -> tuple[int, int] | None:
    """The file that has this name now; None: there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116  # see paths.py
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock_owner(fd: int) -> str:
    """The holder of the lock, as far as the system says. The lock itself does not depend on this."""
    inode = f":{os.fstat(fd).st_ino}"
    try:
        with open("/proc/locks") as locks:  # noqa: PTH123  # see paths.py
            table = locks.readlines()
    except OSError:
        return "another process"
    for line in table:
        fields = line.split()
        if "FLOCK" in fields and len(fields) > 5 and fields[5].endswith(inode):
            return "this process" if int(fields[4]) == os.getpid() else f"process {fields[4]}"
    return "another process"
