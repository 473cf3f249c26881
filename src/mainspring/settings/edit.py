"""Changes rules, folders or values in a settings file, and keeps the rest of the file.

A write is atomic (`processes/atomic_write.py`) and holds a lock on the file's folder, which leaves nothing behind and
ends with its holder. If a program without the lock, such as an editor, changes the file, we notice the new content and
start again with it. A file that cannot be parsed is not overwritten. A link is followed, but not out of a folder that
is not trusted: a repository can contain links. Only JSON is written; TOML has comments, which nothing here could keep.

The edit of the text is in `json_text.py`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Generator
from typing import Literal, assert_never

from mainspring.core.value import Value
from mainspring.processes.atomic_write import FileChanged, digest, write_atomically
from mainspring.processes.paths import PathRefused, Resolved, is_within, resolve_path
from mainspring.processes.safe_open import FileMovedError, open_folder, read_resolved_file
from mainspring.settings import persist, trust
from mainspring.settings.json_text import EMPTY, Keys, edit_list, remove_value, set_value
from mainspring.settings.keys import BY_NAME, InvalidSetting
from mainspring.settings.keys import check_text as checked
from mainspring.settings.load import SettingsPaths
from mainspring.settings.read import LARGEST, UnreadableSettings, read_located
from mainspring.settings.read import parse_settings_text as parsed
from mainspring.settings.single_value import check_single_value, spell_keys
from mainspring.settings.values import SettingsSource, SettingsWriteError

TABLE, MODE = "permissions", "defaultMode"
BOM = b"\xef\xbb\xbf"
TRIES = 10  # another process may write between our read and our rename; ten times in a row is no accident
PATIENCE = 5.0  # seconds for the lock, which is held for some milliseconds
PAUSE = 0.005
OWN_FILE, OWN_FOLDER = 0o600, 0o700  # the user's, if they are new


class ListChange(Value):
    """A change to a list of texts. `alone`: other entries are removed."""

    name: Literal["allow", "deny", "ask", "additionalDirectories"]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    alone: bool = False

    def keeps(self, one: object) -> bool:
        """Elements that are no strings are kept."""
        if not isinstance(one, str) or one in self.added:
            return True
        return not self.alone and one not in self.removed


class ModeChange(Value):
    mode: str


class ValueChange(Value):
    """`keys`: names of nested objects, and of the value."""

    keys: Keys
    value: object = None
    unset: bool = False


Change = ListChange | ModeChange | ValueChange


class WriteReport(Value):
    files: tuple[str, ...]  # that were changed
    seen: str = ""  # why git sees the local file; empty: it does not, or there is no git


def write_change(places: SettingsPaths, source: SettingsSource, change: Change) -> WriteReport:
    """Raises `SettingsWriteError`, `PathRefused` and `OSError`."""
    _check(change, source)
    files = [path for whose, path in places.files((source,)) if whose is source and path.endswith(".json")]
    if not files:
        raise SettingsWriteError("there is no home directory for settings: set MAINSPRING_HOME")
    # The last existing file wins over the others, so additions go there; else to Claude Code's.
    target = next((path for path in reversed(files) if os.path.lexists(path)), files[0])
    seen = _hidden(places, target) if source is SettingsSource.LOCAL else ""
    changed = [path for path in files if _in_file(path, _part(change, path == target), source, places)]
    return WriteReport(tuple(changed), seen)


def write_value(path: str, source: SettingsSource, change: ValueChange, places: SettingsPaths) -> bool:
    """The same for another JSON file, such as `.mcp.json`: the caller has checked the value. Returns whether it changed
    the file."""
    return _in_file(path, change, source, places)


def _check(change: Change, source: SettingsSource) -> None:
    match change:
        case ModeChange(mode):
            key = BY_NAME[f"{TABLE}.{MODE}"]
            if source.is_project and mode in key.users_own:
                raise SettingsWriteError(f"a project may not choose the mode '{mode}', only the user may")
            said: tuple[str, ...] = (mode,)
        case ListChange():
            said = change.added
        case ValueChange():
            if not change.unset:
                check_single_value(change.keys, change.value, source)
            return
        case _:
            assert_never(change)
    for one in said:
        try:
            checked(one)
            one.encode()
        except (InvalidSetting, UnicodeEncodeError) as error:
            raise SettingsWriteError(f"'{one[:40]!r}' cannot be written: {error}") from None


def _part(change: Change, is_target: bool) -> Change | None:
    """The part of a change that concerns a file: additions go only to the target."""
    if is_target:
        return change
    if isinstance(change, ValueChange):
        return change if change.unset else None
    if isinstance(change, ListChange) and (change.removed or change.alone):
        return ListChange(change.name, removed=change.removed, alone=change.alone)
    return None


def _in_file(path: str, change: Change | None, source: SettingsSource, places: SettingsPaths) -> bool:
    """Returns whether it changed the file."""
    if change is None or not (os.path.lexists(path) or _adds(change)):
        return False
    mode = OWN_FILE if source is SettingsSource.USER else None
    for _ in range(TRIES):
        folder = _allowed(path, source, places).real.rpartition("/")[0]
        try:
            if mode is not None:
                os.makedirs(folder, OWN_FOLDER, exist_ok=True)  # noqa: PTH103  # pathlib takes 8 ms to load
            with _locked(folder):
                return _once(_allowed(path, source, places), change, mode)
        except (FileChanged, FileMovedError, FileNotFoundError):
            continue
        except OSError:
            if os.path.isdir(folder):  # noqa: PTH112
                raise
            # Else it is gone: while a command runs, the sandbox has an empty placeholder for a missing file.
    raise SettingsWriteError(f"'{path}' keeps changing (another program writes to it): try again later")


def _adds(change: Change) -> bool:
    match change:
        case ModeChange():
            return True
        case ListChange():
            return bool(change.added)
        case ValueChange():
            return not change.unset
        case _:
            assert_never(change)


def _allowed(path: str, source: SettingsSource, places: SettingsPaths) -> Resolved:
    """The resolved path, if it may lead there."""
    file = resolve_path(path, "/")
    if not source.is_project:
        return file
    root = trust.real_folder(places.cwd)
    if places.home is not None and _is_the_users(file.real, trust.real_folder(places.home), root):
        raise SettingsWriteError(f"'{path}' is in the user's own folder: choose the user settings instead")
    if not is_within(file.real, root) and not trust.is_trusted(places.home, places.cwd):
        raise SettingsWriteError(f"'{path}' leads out of this folder, to '{file.real}': 'mainspring trust' allows that")
    return file


def _is_the_users(real: str, home: str, root: str) -> bool:
    """In the user's home itself Claude Code's folder is the user's, too: `.claude` beside `.mainspring`."""
    return is_within(real, home) or root == home.rpartition("/")[0]


def _once(file: Resolved, change: Change, mode: int | None) -> bool:
    data = read_resolved_file(file, limit=LARGEST) if file.kind != "missing" else None
    try:
        new = apply_change(data if data is not None else EMPTY.encode(), change)
    except UnreadableSettings as broken:
        line, column = broken.position
        at = f":{line}:{column}" if line else ""
        raise SettingsWriteError(f"{file.real}{at}: {broken.says}. The file was not changed: fix it first") from None
    if new == data:
        return False
    before = digest(data) if data is not None else None
    write_atomically(file, new, before=before, mode=mode if data is None else None)
    return True


def apply_change(data: bytes, change: Change) -> bytes:
    """The file with the change. Raises `UnreadableSettings`: text that we could not parse again is not written."""
    parsed(data)
    mark = BOM if data.startswith(BOM) else b""
    text = data[len(mark) :].decode()
    match change:
        case ModeChange(mode):
            new = set_value(text, _keys(text, MODE), mode)
        case ListChange(name, added):
            new = edit_list(text, _keys(text, name), change.keeps, added)
        case ValueChange(keys, value):
            spelled = spell_keys(read_located(text).tree, keys)
            new = remove_value(text, spelled) if change.unset else set_value(text, spelled, value)
        case _:
            assert_never(change)
    found = mark + new.encode()
    parsed(found)
    return found


def _keys(text: str, name: str) -> Keys:
    return spell_keys(read_located(text).tree, (TABLE, name))


def _hidden(places: SettingsPaths, path: str) -> str:
    """By the name that git knows: git follows no link. A link that leads out does not belong to the repository."""
    try:
        root, file = trust.real_folder(places.cwd), resolve_path(path, "/").real
        if is_within(file, root):
            persist.hide_from_git(root, file.removeprefix(root).lstrip("/"))
    except (PathRefused, OSError) as error:
        return str(error)
    return ""


@contextlib.contextmanager
def _locked(folder: str) -> Generator[None]:
    os.close(open_folder(folder, make=True))
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _wait(fd, folder)
        yield
    finally:
        os.close(fd)


def _wait(fd: int, folder: str) -> None:
    """With a time limit: the holder of the lock may hang."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise
            if time.monotonic() > deadline:
                raise SettingsWriteError(f"another process holds the lock on '{folder}': try again later") from None
            time.sleep(PAUSE)
        else:
            return
