"""Changes rules, folders or the mode in a settings file, and keeps the rest of the file.

A write is atomic (`processes/atomic_write.py`) and holds a lock on the file's folder, which leaves nothing behind and
ends with its holder. If a program without the lock, such as an editor, changes the file, we notice the new content and
start again with it. A file that cannot be parsed is not overwritten. A link is followed, but not out of a folder that
is not trusted: a repository can contain links. Only JSON is written; TOML has comments, which nothing here could keep.

The edit of a JSON text is pure, and keeps keys, order, white space and unknown parts. New parts take the format of
their neighbours; an empty or new file looks as `json.dumps(indent=2)` writes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Generator
from typing import Literal, NamedTuple, assert_never, cast

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.processes.atomic_write import FileChanged, digest, write_atomically
from mainspring.processes.paths import PathRefused, Resolved, is_within, resolve_path
from mainspring.processes.safe_open import FileMovedError, open_folder, read_resolved_file
from mainspring.settings import persist, trust
from mainspring.settings.keys import BY_NAME, InvalidSetting, to_snake_case
from mainspring.settings.keys import check_text as checked
from mainspring.settings.load import SettingsPaths
from mainspring.settings.read import LARGEST, LocatedJson, UnreadableSettings, line_and_column, read_located
from mainspring.settings.read import parse_settings_text as parsed
from mainspring.settings.values import SettingsSource

EMPTY = "{}\n"

Keys = tuple[str, ...]
_INDENT = re.compile(r"[ \t]*")


class JsonLayout(NamedTuple):
    """The layout of a bracketed value: where its lines begin."""

    newline: str
    indent: str  # of the line with the bracket
    unit: str

    @property
    def deeper(self) -> JsonLayout:
        return self._replace(indent=self.indent + self.unit)


def set_value(text: str, keys: Keys, value: object) -> str:
    """Sets one key in nested objects; creates those that are missing."""
    found = read_located(text)
    for depth in range(len(keys)):
        outer = keys[:depth]
        if not isinstance(_value(found.tree, outer), dict):
            raise _broken(text, found, outer, "it must be a table of names and values")
        if keys[: depth + 1] not in found.spans:
            return _with_member(text, found, keys[: depth + 1], _nested(keys[depth + 1 :], value))
    start, end = found.spans[keys]
    return text[:start] + _rendered(value, _layout(text, found, keys[:-1])) + text[end:]


def edit_list(text: str, keys: Keys, keep: Callable[[object], bool], added: tuple[str, ...]) -> str:
    """Removes the elements that are not kept, and appends `added` without those that are already in the list."""
    found = read_located(text)
    old = _value(found.tree, keys)
    if isinstance(old, str):  # a single rule without a list is accepted, too (`keys.narrowing`)
        kept = [old] if keep(old) else []
        new = [*kept, *[one for one in added if one not in kept]]
        return text if new == [old] else set_value(text, keys, new)
    if old is None and keys not in found.spans:
        return set_value(text, keys, [*added]) if added else text
    if not isinstance(old, list):
        raise _broken(text, found, keys, "it must be a list of strings")
    return _with_elements(text, found, keys, _Elements(cast("list[object]", old), keep, added))


class _Elements(NamedTuple):
    old: list[object]
    keep: Callable[[object], bool]
    added: tuple[str, ...]

    @property
    def kept(self) -> list[int]:
        return [number for number, one in enumerate(self.old) if self.keep(one)]

    @property
    def new(self) -> list[str]:
        kept = [self.old[number] for number in self.kept]
        return [_quoted(one) for one in dict.fromkeys(self.added) if one not in kept]


def _with_elements(text: str, found: LocatedJson, keys: Keys, elements: _Elements) -> str:
    """Copies elements that stay as they were written: a number may be larger than Python can represent."""
    start, end = found.spans[keys]
    kept, new = elements.kept, elements.new
    spans = [found.spans[*keys, number] for number in range(len(elements.old))]
    if len(kept) < len(spans) or not spans:
        if not new and len(kept) == len(spans):
            return text
        one_line = bool(spans) and "\n" not in text[start:end]
        layout = None if one_line else _layout(text, found, keys[:-1])
        items = [*[text[slice(*spans[number])] for number in kept], *new]
        return text[:start] + _bracketed("[", items, "]", layout) + text[end:]
    before = text[start + 1 : spans[0][0]]  # the text before the first element is also put before each new one
    gap = f",{before}" if "\n" in before else ", "
    last = spans[-1][1]
    return text[:last] + "".join([gap + one for one in new]) + text[last:]


def _with_member(text: str, found: LocatedJson, keys: Keys, value: object) -> str:
    start, end = found.spans[keys[:-1]]
    inner = [span for path, span in found.spans.items() if len(path) == len(keys) and path[:-1] == keys[:-1]]
    if not inner:
        return text[:start] + _rendered({keys[-1]: value}, _outer_layout(text, found, keys[:-1])) + text[end:]
    layout = _layout(text, found, keys[:-1])
    gap = ", " if layout is None else f",{layout.newline}{layout.indent}"
    last = max([ends for _, ends in inner])
    return f"{text[:last]}{gap}{_quoted(keys[-1])}: {_rendered(value, layout)}{text[last:]}"


def _nested(keys: Keys, value: object) -> object:
    return {keys[0]: _nested(keys[1:], value)} if keys else value


def _value(tree: object, keys: Keys) -> object:
    if not keys or not isinstance(tree, dict):
        return None if keys else tree
    return _value(cast("dict[str, object]", tree).get(keys[0]), keys[1:])


# --- layout -----------------------------------------------------------------------------------------


def _layout(text: str, found: LocatedJson, keys: Keys) -> JsonLayout | None:
    """Of the members of an object; None: it is in one line."""
    start, end = found.spans[keys]
    if "\n" not in text[start:end]:
        return None
    first = min([at for path, at in found.starts.items() if len(path) == len(keys) + 1 and path[:-1] == keys])
    return JsonLayout(_newline(text), _indent(text, first), _unit(text, found))


def _outer_layout(text: str, found: LocatedJson, keys: Keys) -> JsonLayout | None:
    """Of an empty object: derived from its surroundings."""
    if not keys:
        return JsonLayout(_newline(text), "", _unit(text, found))
    return _layout(text, found, keys[:-1])


def _unit(text: str, found: LocatedJson) -> str:
    first = min([at for path, at in found.starts.items() if len(path) == 1], default=0)
    return _indent(text, first) or "  "


def _indent(text: str, offset: int) -> str:
    """The white space that the line begins with."""
    found = _INDENT.match(text, text.rfind("\n", 0, offset) + 1)
    return found[0] if found else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rendered(value: object, layout: JsonLayout | None) -> str:
    inner = None if layout is None else layout.deeper
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return _bracketed("{", [f"{_quoted(key)}: {_rendered(one, inner)}" for key, one in pairs], "}", layout)
    if isinstance(value, list):
        return _bracketed("[", [_rendered(one, inner) for one in cast("list[object]", value)], "]", layout)
    return _quoted(value)


def _bracketed(opening: str, items: list[str], closing: str, layout: JsonLayout | None) -> str:
    if layout is None or not items:
        return opening + ", ".join(items) + closing
    line = layout.newline + layout.deeper.indent
    return opening + line + f",{line}".join(items) + layout.newline + layout.indent + closing


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _broken(text: str, found: LocatedJson, keys: Keys, says: str) -> UnreadableSettings:
    return UnreadableSettings(f"'{'.'.join(keys)}': {says}", line_and_column(text, found.starts.get(keys, 0)), text)


TABLE, MODE = "permissions", "defaultMode"
BOM = b"\xef\xbb\xbf"
TRIES = 10  # another process may write between our read and our rename; ten times in a row is no accident
PATIENCE = 5.0  # seconds for the lock, which is held for some milliseconds
PAUSE = 0.005
OWN_FILE, OWN_FOLDER = 0o600, 0o700  # the user's, if they are new


class SettingsWriteError(UsageError):
    """The file is unchanged. The message says why."""


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


Change = ListChange | ModeChange


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


def _check(change: Change, source: SettingsSource) -> None:
    match change:
        case ModeChange(mode):
            key = BY_NAME[f"{TABLE}.{MODE}"]
            if source.is_project and mode in key.users_own:
                raise SettingsWriteError(f"a project may not choose the mode '{mode}', only the user may")
            said: tuple[str, ...] = (mode,)
        case ListChange():
            said = change.added
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
    return isinstance(change, ModeChange) or bool(change.added)


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
        case _:
            assert_never(change)
    found = mark + new.encode()
    parsed(found)
    return found


def _keys(text: str, name: str) -> tuple[str, str]:
    """As the file spells it: a key in two spellings would be a duplicate, and neither would count."""
    inner = read_located(text).tree.get(TABLE)
    return TABLE, to_snake_case(name) if isinstance(inner, dict) and to_snake_case(name) in inner else name


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
