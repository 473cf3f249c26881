"""Writes answers of a person or a host to settings files, for the front ends, and reports the outcome.

Nothing is raised: an answer that cannot be stored still applies to the session. After each change the settings are
read as the next session will read them, so that the report names rules that will not count: in a folder that is not
trusted, in a source that is left out, or overridden by another file.

It also keeps the local settings out of git, with a line in the repository's own `info/exclude`, which is never
committed. It does not run git: before a folder is trusted, its repository could make git run something. So a rule that
hides the file already is recognized only in its usual spellings; a redundant line hides nothing else.
"""

# ruff: noqa: PTH112, PTH114, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, assert_never

from mainspring import secrets
from mainspring.core.errors import MainspringError
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import FileChanged, digest, write_atomically
from mainspring.processes.paths import PathRefused, resolve_path
from mainspring.processes.safe_open import read_resolved_file
from mainspring.settings.load import SettingsPaths, SettingsRequest, home_folder, load_settings
from mainspring.settings.values import SettingEntry, Settings, SettingsError, SettingsSource

if TYPE_CHECKING:
    from mainspring.settings.edit import Change  # few sessions write settings: the others do not pay for it


class PersistReport(Bundle):
    files: tuple[str, ...] = ()  # that were changed
    words: tuple[str, ...] = ()  # for the person: what had no effect


class SettingsWriter:
    def __init__(
        self,
        cwd: str,
        environ: Mapping[str, str],
        asked: SettingsRequest = SettingsRequest(),  # noqa: B008  # a frozen value
    ) -> None:
        """The arguments that the session's own settings were loaded with."""
        self._cwd, self._environ, self._asked = cwd, environ, asked

    def keep(self, source: SettingsSource, change: Change) -> PersistReport:
        """Takes some milliseconds, for the disk; seconds if another process holds the lock."""
        if holds_secret(change):
            return persist_failed(source, "it contains what looks like a secret")
        try:
            return self.write(source, change)
        except (MainspringError, OSError) as error:
            return persist_failed(source, str(error).removesuffix("."))

    @property
    def places(self) -> SettingsPaths:
        return SettingsPaths(home_folder(self._environ), self._cwd)

    def write(self, source: SettingsSource, change: Change) -> PersistReport:
        """Raises `SettingsWriteError`, `PathRefused` and `OSError`."""
        from mainspring.settings.edit import write_change

        done = write_change(self.places, source, change)
        words = [f"git sees the local settings: {done.seen}"] if done.seen else []
        return PersistReport(done.files, (*words, *self._without_effect(source, change)))

    def _without_effect(self, source: SettingsSource, change: Change) -> list[str]:
        """The parts of the change that will not count in the next session, and why."""
        from mainspring.settings.edit import ListChange, ModeChange, ValueChange

        try:
            settings = load_settings(self._cwd, self._environ, self._asked)
        except SettingsError:
            return []  # it will not start, and say why
        match change:
            case ListChange(name, added):
                entries = entries_of(settings, name)
                held = {entry.text for entry in entries}
                missing = [text for text in added if text not in held]
                left = [entry for entry in entries if entry.origin.source is source and not change.keeps(entry.text)]
            case ModeChange(mode):
                missing = [mode] if settings.permissions.default_mode != mode else []
                left = []
            case ValueChange(keys):
                return self._value_without_effect(settings, source, ".".join(keys), unset=change.unset)
            case _:
                assert_never(change)
        words = [f"'{entry.text}' is also in '{entry.origin.place}': remove it there yourself" for entry in left]
        return [*words, *[f"'{text}' was saved, but {self._why(source)}" for text in missing]]

    def _value_without_effect(self, settings: Settings, source: SettingsSource, name: str, *, unset: bool) -> list[str]:
        found = [value.origin for value in settings.effective if f"{value.name}.".startswith(f"{name}.")]
        if unset:
            return [f"'{name}' is still set: {one.source} ({one.place})" for one in found]
        if any(one.source is source for one in found):
            return []
        if found:
            return [f"'{name}' was saved, but {found[0].place} ({found[0].source}) overrides it"]
        return [f"'{name}' was saved, but {self._why(source)}"]

    def _why(self, source: SettingsSource) -> str:
        from mainspring.settings.trust import is_trusted

        if self._asked.sources is not None and source not in self._asked.sources:
            return f"'{self._asked.spell('setting_sources')}' leaves out the {source} settings, so it will not apply"
        if source.is_project and not is_trusted(home_folder(self._environ), self._cwd):
            return "it counts only after 'mainspring trust': this folder is not trusted"
        return "a setting with higher precedence overrides it: see 'mainspring config'"


def persist_failed(source: SettingsSource, why: str) -> PersistReport:
    return PersistReport(words=(f"not saved in the {source} settings, applies to this session only: {why}",))


def holds_secret(change: Change) -> bool:
    return any(secrets.redact(text) != text for text in getattr(change, "added", ()))


def entries_of(settings: Settings, name: str) -> tuple[SettingEntry, ...]:
    given = settings.permissions
    lists = {"allow": given.allow, "deny": given.deny, "ask": given.ask, "additionalDirectories": given.directories}
    return lists[name]


EXCLUDE = "info/exclude"
LARGEST = 1 << 20  # bytes of a file with patterns
SMALL = 64_000  # of one that says where a repository is
DEEPEST = 64  # parent folders
TRIES = 10

_SPECIAL = re.compile(r"([\\*?\[\] ])")
_WORKTREE = re.compile(r"(?m)^\s*worktree\s*=\s*(.+)$")


def hide_from_git(folder: str, name: str) -> None:
    """`name`: the file's name in that folder. Does nothing without a repository. Raises `PathRefused`, `OSError`."""
    if not name.isprintable():  # a line break in it would start another pattern
        raise PathRefused(f"{name!r} cannot be a git ignore pattern")
    real = resolve_path(folder, "/").real
    top, git = _repository(real)
    if not git or _is_hidden(GitExclude(top, git, real), name):
        return
    for _ in range(TRIES):
        with contextlib.suppress(FileChanged):
            _add(git, "**/" + _SPECIAL.sub(r"\\\1", name))
            return
    raise FileChanged(f"'{git}/{EXCLUDE}' keeps changing (another program writes to it)")


def _add(git: str, line: str) -> None:
    path = resolve_path(f"{git}/{EXCLUDE}", "/")
    if path.via:
        raise PathRefused(f"'{git}/{EXCLUDE}' is a link: add '{line}' to it yourself, or git sees the local settings")
    data = read_resolved_file(path, limit=LARGEST) if path.kind != "missing" else None
    text = data or b""
    if line.encode() in text.splitlines():
        return
    gap = b"" if text.endswith(b"\n") or not text else b"\n"
    write_atomically(path, text + gap + line.encode() + b"\n", before=digest(data) if data is not None else None)


class GitExclude(NamedTuple):
    top: str  # of the repository
    git: str
    folder: str  # of the file, relative to the top


def _is_hidden(ground: GitExclude, name: str) -> bool:
    """By a pattern on the way. With an exception among them nothing is certain."""
    inner, slash, base = name.rpartition("/")
    anywhere, here = {base, "*.local.json", f"**/{name}"}, {name, f"/{name}"}
    if slash:
        anywhere |= {inner, f"{inner}/", f"**/{inner}", f"**/{inner}/"} if "/" not in inner else set()
        here |= {f"/{inner}", f"/{inner}/", f"{inner}/*", f"/{inner}/*", f"{inner}/**"}
    found = [(place, {line.strip() for line in text.splitlines()}) for place, text in _ignoring(ground)]
    if any(line.startswith("!") for _, lines in found for line in lines):
        return False
    return any(lines & (anywhere | here if place == ground.folder else anywhere) for place, lines in found)


def _ignoring(ground: GitExclude) -> Iterator[tuple[str, str]]:
    """Patterns, and the folder that they apply to."""
    yield ground.top, _text(f"{ground.git}/{EXCLUDE}", LARGEST)
    place = ground.folder
    while True:
        yield place, _text(f"{place}/.gitignore", LARGEST)
        if place == ground.top:
            return
        place = os.path.dirname(place)  # the top is above: it was found by going up


def _repository(folder: str) -> tuple[str, str]:
    """Its top folder, and the git folder that its worktrees share; empty: there is none."""
    for _ in range(DEEPEST):
        git = f"{folder}/.git"
        if not os.path.isdir(git) or os.path.islink(git):
            if os.path.lexists(git):
                return folder, _pointed_to(folder)
        elif os.path.lexists(f"{git}/HEAD"):  # else git ignores it, and looks further up
            return folder, git
        if folder == "/":
            break
        folder = os.path.dirname(folder)
    return "", ""


def _pointed_to(folder: str) -> str:
    """By a file `.git`, of a worktree or a submodule. The target must point back, or it may belong to another
    repository.
    """
    said = _text(f"{folder}/.git", SMALL)
    if not said.startswith("gitdir: "):
        raise PathRefused(f"'{folder}/.git' is not a git folder: keep the local settings out of git yourself")
    own = resolve_path(said.removeprefix("gitdir: ").strip(), folder).real
    common = _text(f"{own}/commondir", SMALL).strip()
    if common:
        shared = resolve_path(common, own).real
        back = _text(f"{own}/gitdir", SMALL).strip()
        if back and resolve_path(back, own).real == f"{folder}/.git" and os.path.dirname(own) == f"{shared}/worktrees":
            return shared
    elif (found := _WORKTREE.search(_text(f"{own}/config", SMALL))) and resolve_path(
        found[1].strip(), own
    ).real == folder:
        return own
    raise PathRefused(f"'{folder}/.git' points to '{own}', which does not belong to it: nothing is written there")


def _text(path: str, limit: int) -> str:
    """Empty if there is no readable file."""
    try:
        return read_resolved_file(resolve_path(path, "/"), limit=limit).decode(errors="replace")
    except (PathRefused, OSError):
        return ""
