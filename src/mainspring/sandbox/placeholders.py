"""Placeholders for missing protected paths while a command runs in the sandbox, and their removal.

A mount needs a mount point, so a path that must not be created has to exist. The placeholder is an empty folder, also
for a file: git does not see empty folders, so no `git add -A` adds them. Only within `.git`, where git would notice,
it is a file (`git.py`). Placeholders are removed when the last command has ended, and when we are killed: a shell
outside waits for the end of its input, which only we hold, and removes them then. It has no rights but ours, and
removes only empty folders and small files with the odd bit.

Several sessions may work in one folder, or in folders of one repository: each has a shared lock while it has
placeholders, and only a session with the exclusive lock removes any.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterable, Mapping

from mainspring.processes.environment import find_program
from mainspring.processes.paths import PathRefused
from mainspring.processes.safe_open import open_folder
from mainspring.sandbox.bubblewrap import SandboxError

# The odd bit distinguishes ours from a person's, also after a power cut. We and they can write in it: only the sandbox
# cannot.
MODE = 0o1755
FILE_MODE = 0o1644
LARGEST = 16  # bytes of a file of ours
WAIT = 1  # seconds for a lock: ours to be released, when we are killed, and others' until we give up

# The paths come line by line; at the end all of them are removed. Without `flock`, other sessions are not considered.
REMOVE = """
for path; do
    if [ -d "$path" ]; then rmdir -- "$path"
    elif [ -k "$path" ] && [ "$(wc -c <"$path")" -le LARGEST ]; then rm -f -- "$path"
    fi
done
""".replace("LARGEST", str(LARGEST))
SCRIPT = """
lock=$1 flock=$2 shell=$3 remove=$4; shift 4
while IFS= read -r path; do set -- "$@" "$path"; done
[ $# = 0 ] && exit
if [ -n "$flock" ]; then exec "$flock" -w WAIT "$lock" "$shell" -c "$remove" "$shell" "$@" 2>/dev/null; fi
exec "$shell" -c "$remove" "$shell" "$@" 2>/dev/null
""".replace("WAIT", str(WAIT))


CLOSED = frozenset((
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
    errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS,
))  # fmt: skip  # why a place cannot be made, by anybody


class Placeholders:
    """Of one workspace, or of one repository: other sessions may work in it from another workspace.

    `state` is a folder of ours. `outside`: programs in there are not trusted.
    """

    def __init__(self, folder: str, state: str, outside: tuple[str, ...] = ()) -> None:
        self._lock_path = f"{state}/held-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
        self._outside = (folder, *outside)
        self._lock = -1
        self._guard: subprocess.Popen[bytes] | None = None
        self._told: set[str] = set()  # what the guard removes if we cannot
        self._paths: set[str] = set()  # current placeholders
        self._holding = 0  # running commands

    def hold(self, paths: Iterable[str], files: Mapping[str, bytes] | None = None) -> set[str]:
        """Creates what is missing; returns the placeholders. Where we cannot write, a command cannot either.

        For each call one of `release`, unless it raises.
        """
        if self._guard is not None and self._guard.poll() is not None:
            self.close()  # the guard was killed: there must be one while there are placeholders
        self._guard = self._guard or self._start()
        self._share()
        self._holding += 1
        held = set[str]()
        try:
            for path in paths:
                self._note(held, path, self._hold_folder(path))
            for path, data in (files or {}).items():
                self._note(held, path, self._hold_file(path, data))
        except BaseException:
            self.release()
            raise
        return held

    def _note(self, held: set[str], path: str, is_held: bool) -> None:
        if is_held:
            held.add(path)
            self._paths.add(path)

    def _share(self) -> None:
        """Others have the exclusive lock for milliseconds. The wait is bounded: it blocks everything that we do."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxError(f"another session is working in '{self._outside[0]}': try again") from None
                time.sleep(0.005)

    def alone(self) -> bool:
        """Whether no other session has placeholders here. If so, none of them can until this is released."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._share()  # the attempt lost it
            return False
        return True

    def release(self) -> None:
        """A command has ended."""
        self._holding -= 1
        if self._holding:
            return
        with contextlib.suppress(BlockingIOError):  # another session: it removes them in the end
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in self._paths:
                with contextlib.suppress(OSError):  # another process put something into it
                    _remove(path)
        self._paths.clear()
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._guard is None:
            return
        os.close(self._lock)  # first: the guard wants it
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        self._guard = None
        self._told.clear()

    def _hold_folder(self, path: str) -> bool:
        self._tell(path)  # before it is created: whatever happens then, the guard removes it
        try:
            parent, _, name = path.rpartition("/")
            folder = open_parent(parent)
            try:
                os.mkdir(name, MODE, dir_fd=folder)
            finally:
                os.close(folder)
        except FileExistsError:
            return True
        except OSError as error:
            return _is_closed_to_all(error, path)
        return True

    def _hold_file(self, path: str, data: bytes) -> bool:
        self._tell(path)
        try:
            _make_file(path, data)
        except FileExistsError:
            return True
        except OSError as error:
            return _is_closed_to_all(error, path)
        return True

    def _tell(self, path: str) -> None:
        if path in self._told:
            return
        if "\n" in path:
            raise SandboxError(f"the name of '{path}' contains a line break: rename the folder to use the sandbox")
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.write(os.fsencode(path) + b"\n")
        self._guard.stdin.flush()
        self._told.add(path)

    def _start(self) -> subprocess.Popen[bytes]:
        shell = find_program("sh", outside=self._outside)
        if shell is None:
            raise SandboxError("'sh' was not found outside the working folders: install it")
        flock = find_program("flock", outside=self._outside) or ""
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return subprocess.Popen(  # noqa: S603  # our own script
            [shell, "-c", SCRIPT, "mainspring-held", self._lock_path, flock, shell, REMOVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,  # Ctrl-C is for us
        )


class AssumedPlaceholders(Placeholders):
    """Creates none."""

    def __init__(self) -> None:
        super().__init__("", "")

    def hold(self, paths: Iterable[str], files: Mapping[str, bytes] | None = None) -> set[str]:
        return {*paths, *(files or {})}

    def release(self) -> None:
        pass


def _is_closed_to_all(error: OSError, path: str) -> bool:
    """False: a command cannot create it either. On a full disk it can, after freeing space: then it must not run."""
    if error.errno in CLOSED:
        return False
    raise SandboxError(f"no placeholder could be created at '{path}' ({error.strerror}): free space, and try again")


def open_parent(folder: str) -> int:
    """A descriptor of a folder, for names in it. Raises `OSError`, also if there is a link on the way: commands that
    still run could lead us out of the workspace by one.
    """
    try:
        return open_folder(folder)
    except PathRefused as error:
        raise OSError(errno.ELOOP, str(error)) from None


def _remove(path: str) -> None:
    parent, _, name = path.rpartition("/")
    folder = open_parent(parent)
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(mode.st_mode) and _has_odd_bits(mode):
            os.rmdir(name, dir_fd=folder)
        elif _is_small_and_odd(mode):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def is_ours(path: str) -> bool:
    """Whether it is a placeholder of a session, running or not: an empty folder with the odd bit."""
    with contextlib.suppress(OSError):
        return _is_odd(path) and not os.listdir(path)  # noqa: PTH208
    return False


def is_our_file(path: str) -> bool:
    """The same for a file."""
    with contextlib.suppress(OSError):
        return _is_small_and_odd(os.lstat(path))
    return False


def _is_small_and_odd(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & stat.S_ISVTX) and found.st_size <= LARGEST


def _make_file(path: str, data: bytes) -> None:
    """Complete from the first moment, where the file system can: git outside may be reading it."""
    folder = os.path.dirname(path)  # noqa: PTH120
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        named = False
    except OSError:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        named = True
    try:
        os.fchmod(descriptor, FILE_MODE)
        os.write(descriptor, data)
        if not named:
            os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)  # the number makes it follow the link
    finally:
        os.close(descriptor)


def _is_odd(path: str) -> bool:
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and _has_odd_bits(found)


def _has_odd_bits(found: os.stat_result) -> bool:
    return stat.S_IMODE(found.st_mode) & 0o7000 == MODE & 0o7000  # the rest depends on the umask
