"""Where sessions are stored: directory and file names (stream-json 14.1, settled 31), and opening them safely.

Paths are plain strings here and in the journal: `pathlib` takes 8 ms to load, and every start would pay for it.

Session files are opened for writing through no link that leads out of the state directory. The state directory itself
may be a link, and links within it may lead to other places within it. Everything below it is opened step by step from a
descriptor, following no link: whatever is swapped meanwhile, nothing outside is written.
"""

# ruff: noqa: PTH100, PTH102, PTH104, PTH108, PTH112, PTH116, PTH118, PTH119, PTH120, PTH208  # see paths.py

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress

from mainspring.core.errors import UsageError

Place = str | os.PathLike[str]

LONGEST_KEY = 200  # most file systems allow 255 bytes; the rest is for the hash
FOLDER = 0o700
FILE = 0o600
HISTORY = "file-history"  # in the state directory
HISTORY_LOG, HISTORY_LOCK = "log", "lock"  # of one session
UNFINISHED = "unfinished"  # in there: an empty file for each session that rewinds files
LIVE = "live.jsonl"  # beside a session's file: what was shown of the current reply

_OF_IDS = frozenset("0123456789abcdef-")  # a pattern would be compiled at every start
_ID_PARTS = [8, 4, 4, 4, 12]
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


# --- names ----------------------------------------------------------------------------------------------------


def folder_of(home: Place, cwd: Place) -> str:
    """Where the sessions of a working directory are."""
    return os.path.join(home, "projects", project_key(unicodedata.normalize("NFC", os.path.realpath(cwd))))


def project_key(real_path: str) -> str:
    """The name of a working directory's sessions: the path, with a dash for everything but letters and digits."""
    plain = "".join([char if char.isascii() and char.isalnum() else "-" for char in real_path])
    return plain if len(plain) <= LONGEST_KEY else f"{plain[:LONGEST_KEY]}-{_hash(real_path)}"


def _hash(text: str) -> str:
    """The client's hash: 32 bits, wrapped to a signed number at each character, its absolute value in base 36."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character) + 2**31) % 2**32 - 2**31
    value, digits = abs(value), ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def is_session_id(text: str) -> bool:
    return set(text) <= _OF_IDS and [len(part) for part in text.split("-")] == _ID_PARTS


def check_id(text: str) -> str:
    """Return a session id in its canonical form, or raise."""
    if not is_session_id(text.lower()):
        raise UsageError(f"'{text}' is not a session id. Must be a valid UUID")
    return text.lower()


def file_of(folder: Place, session_id: str) -> str:
    return os.path.join(folder, f"{session_id}.jsonl")


def id_of(file: Place) -> str:
    return os.path.basename(file).removesuffix(".jsonl")


def side_folder(file: Place) -> str:
    """What belongs to a session and is not in its file: large payloads, subagents, the current reply."""
    return os.fspath(file).removesuffix(".jsonl")


def agent_file(file: Place, agent_id: str) -> str:
    return os.path.join(side_folder(file), "subagents", f"agent-{agent_id}.jsonl")


def payload_file(file: Place, name: str) -> str:
    return os.path.join(side_folder(file), "payloads", name)


def live_file(file: Place) -> str:
    return os.path.join(side_folder(file), LIVE)


def read_log(file: Place) -> str:
    """Which files were read, and their state: see `processes/read_log.py`."""
    return os.path.join(side_folder(file), "files-read")


def history_folder(file: Place) -> str:
    """Where the file checkpoints of a session are."""
    return os.path.join(state_folder(os.fspath(file)), HISTORY, id_of(file))


def list_unfinished_rewinds(home: Place) -> list[str]:
    """Ids of sessions that are rewinding files, or were interrupted in that."""
    try:
        return [name for name in os.listdir(os.path.join(home, HISTORY, UNFINISHED)) if is_session_id(name)]
    except OSError:
        return []


def draft_of(file: Place) -> str:
    """Where a file is written that must appear completely or not at all."""
    return os.path.join(os.path.dirname(file), f".{os.path.basename(file)}.{os.getpid()}")


# --- on the disk ----------------------------------------------------------------------------------------------


def size_of(file: Place) -> int:
    """0 also for a missing file: an empty one counts as absent."""
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def find_session_file(home: Place, session_id: str, cwd: Place | None = None) -> str | None:
    """The file of a session: of this working directory, else of any."""
    projects = os.path.join(home, "projects")
    try:
        others = [os.path.join(projects, name) for name in sorted(os.listdir(projects))]
    except OSError:
        others = []
    first = [folder_of(home, cwd)] if cwd is not None else []
    files = [file_of(folder, session_id) for folder in (*first, *others)]
    return next((file for file in files if size_of(file)), None)


def make_folder(folder: str) -> None:
    """With missing parents, all of them private; `makedirs` leaves those to the umask."""
    if not os.path.isdir(folder):
        make_folder(os.path.dirname(folder))
        try:
            os.mkdir(folder, FOLDER)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise


def put_in_place(draft: str, file: Place) -> None:
    os.rename(draft, file)


def remove_session(file: Place) -> None:
    with suppress(FileNotFoundError):
        os.unlink(file)


PROJECTS = "/projects/"  # in the state directory, and not in any name below it
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system that has none
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TOP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def state_folder(file: str) -> str:
    """The state directory of a session's file; for a file elsewhere, its own directory."""
    absolute = os.path.abspath(file)
    home, projects, _ = absolute.rpartition(PROJECTS)
    return home if projects and home else os.path.dirname(absolute)


def open_file(file: str, flags: int) -> int:
    """Open it, and create the missing directories above it. Raises `OSError`."""
    with open_folder_of(file) as (fd, name):
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE, dir_fd=fd)


def rename_session_file(draft: str, file: str) -> None:
    """Both are in one directory."""
    with open_folder_of(file) as (fd, name):
        os.rename(os.path.basename(draft), name, src_dir_fd=fd, dst_dir_fd=fd)


def place_new(draft: str, file: str) -> None:
    """The same, but an existing file stays: then it raises `FileExistsError`."""
    with open_folder_of(file) as (fd, name):
        draft = os.path.basename(draft)
        try:
            os.link(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
            os.unlink(draft, dir_fd=fd)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE, dir_fd=fd))
            os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)


@contextmanager
def open_folder_of(file: str) -> Generator[tuple[int, str]]:
    """A descriptor of the real directory of a file, and the real name in it."""
    state = state_folder(file)
    make_folder(state)
    top, real = os.path.realpath(state), os.path.realpath(file)
    inner = real.removeprefix(f"{top.rstrip('/')}/")
    if inner == real:
        way_out = f"a link leads out of '{state}', to '{real}': remove it, or set MAINSPRING_HOME to that directory"
        raise OSError(errno.ELOOP, way_out, file)
    *folders, name = inner.split("/")
    fd = os.open(top, _TOP)
    try:
        for folder in folders:
            inside = _step(fd, folder)
            os.close(fd)
            fd = inside
        yield fd, name
    finally:
        os.close(fd)


def _step(fd: int, folder: str) -> int:
    try:
        return os.open(folder, _STEP, dir_fd=fd)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(folder, FOLDER, dir_fd=fd)
        return os.open(folder, _STEP, dir_fd=fd)
