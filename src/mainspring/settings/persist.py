"""What a person or a program has answered, kept for later sessions: for the doors, which tell what came of it.

Nothing is raised: what cannot be kept holds for the session all the same. After each change the settings are read as
the next session will read them, so that nobody relies on a rule that will not count: a folder that is not trusted, a
source that is left out, another file above.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from mainspring.core.errors import MainspringError
from mainspring.core.value import Bundle
from mainspring.settings.home import home_folder
from mainspring.settings.load import SettingsRequest, load_settings
from mainspring.settings.places import SettingsPaths
from mainspring.settings.values import SettingEntry, Settings, SettingsError, SettingsSource

if TYPE_CHECKING:
    from mainspring.settings.edit import Change  # few are ever asked: who is not does not pay for it


class PersistReport(Bundle):
    files: tuple[str, ...] = ()  # that are others now
    words: tuple[str, ...] = ()  # for the person: what did not come of it


class SettingsWriter:
    def __init__(
        self,
        cwd: str,
        environ: Mapping[str, str],
        asked: SettingsRequest = SettingsRequest(),  # noqa: B008  # a frozen value
    ) -> None:
        """What the session's own settings were read by."""
        self._cwd, self._environ, self._asked = cwd, environ, asked

    def keep(self, source: SettingsSource, change: Change) -> PersistReport:
        """Takes some milliseconds, for the disk; seconds if somebody else holds the lock."""
        from mainspring.settings.edit import write_change

        if holds_secret(change):
            return persist_failed(source, "it holds what looks like a secret")
        try:
            done = write_change(SettingsPaths(home_folder(self._environ), self._cwd), source, change)
        except (MainspringError, OSError) as error:
            return persist_failed(source, str(error).removesuffix("."))
        words = [f"git sees the local settings: {done.seen}"] if done.seen else []
        return PersistReport(done.files, (*words, *self._without_effect(source, change)))

    def _without_effect(self, source: SettingsSource, change: Change) -> list[str]:
        """What the next session will not make of it, and why."""
        from mainspring.settings.edit import ListChange, ModeChange

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
            case _:
                assert_never(change)
        words = [f"'{entry.text}' stands in '{entry.origin.place}', too: take it out there yourself" for entry in left]
        return [*words, *[f"'{text}' is kept, but {self._why(source)}" for text in missing]]

    def _why(self, source: SettingsSource) -> str:
        from mainspring.settings.trust import is_trusted

        if self._asked.sources is not None and source not in self._asked.sources:
            return f"'{self._asked.spell('setting_sources')}' leaves the {source} settings out: then it is not heeded"
        if source.is_project and not is_trusted(home_folder(self._environ), self._cwd):
            return "it counts only after 'mainspring trust': this folder is not trusted"
        return "something above it says otherwise: see 'mainspring config'"


def persist_failed(source: SettingsSource, why: str) -> PersistReport:
    return PersistReport(words=(f"not kept in the {source} settings, it holds for this session: {why}",))


def holds_secret(change: Change) -> bool:
    from mainspring.secrets.redaction import redact

    return any(redact(text) != text for text in getattr(change, "added", ()))


def entries_of(settings: Settings, name: str) -> tuple[SettingEntry, ...]:
    given = settings.permissions
    lists = {"allow": given.allow, "deny": given.deny, "ask": given.ask, "additionalDirectories": given.directories}
    return lists[name]
