"""One setting by its name, as `config set` and the panel `/config` change it: its key, its value as text, its checks.

A name is that of a key, such as `theme` or `permissions.defaultMode`; in a table it also has the name of one entry:
`env.LANG`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from mainspring.core.errors import UsageError
from mainspring.secrets.redaction import redact
from mainspring.settings.keys import (
    BY_NAME,
    KEYS,
    MODES,
    NOT_OURS,
    SPELLINGS,
    TABLES,
    InvalidSetting,
    MergeRule,
    OneOf,
    SettingAuthority,
    SettingKey,
    check_mode,
    may_set,
    status_line,
    to_snake_case,
    yes_or_no,
)
from mainspring.settings.load import SettingsPaths
from mainspring.settings.read import UnreadableSettings, parse_settings_text, read_file
from mainspring.settings.values import SettingsSource, SettingsWriteError
from mainspring.text import suggest_near_name

Keys = tuple[str, ...]


class SettingName(NamedTuple):
    key: SettingKey
    entry: str = ""  # of a table

    @property
    def keys(self) -> Keys:
        return (*self.key.name.split("."), *([self.entry] if self.entry else []))

    @property
    def spelled(self) -> str:
        return ".".join(self.keys)


def find_setting(name: str) -> SettingName:
    """Raises `UsageError` with the nearest name."""
    found = SPELLINGS.get(name)
    if found in BY_NAME:
        return SettingName(BY_NAME[found])
    for key in KEYS:
        if key.merge is MergeRule.BY_NAME and name.startswith(f"{key.name}.") and name != f"{key.name}.":
            return SettingName(key, name.removeprefix(f"{key.name}."))
    if found in NOT_OURS:
        raise UsageError(
            f"the setting '{name}' of Claude Code has no effect in mainspring: see 'mainspring help settings-keys'"
        )
    raise UsageError(f"there is no setting '{name}'{suggest_near_name(name, tuple(BY_NAME))}")


def words_of(key: SettingKey) -> tuple[str, ...]:
    """The values that a key accepts, if there are few; empty: any, of its type."""
    if key.check is yes_or_no:
        return ("true", "false")
    if key.check is check_mode:
        return MODES
    return key.check.words if isinstance(key.check, OneOf) else ()


def parse_value(setting: SettingName, text: str) -> object:
    """The value that a text stands for: the text itself, or what it says as JSON. Raises `UsageError`."""
    try:
        _check(setting, text)
    except InvalidSetting as error:
        try:
            value: object = msgspec.json.decode(text)
            _check(setting, value)
        except msgspec.DecodeError:
            raise UsageError(f"'{setting.spelled}' cannot be '{shorten(text)}': {error.says}") from None
        except InvalidSetting as wrong:
            raise UsageError(f"'{setting.spelled}' cannot be '{shorten(text)}': {wrong.says}") from None
        return value
    return text


def shorten(text: str) -> str:
    shown = redact(text)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def _check(setting: SettingName, value: object) -> None:
    checked = setting.key.check({setting.entry: value} if setting.entry else value)
    for wrong in checked.wrong:
        where = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.path])
        raise InvalidSetting(f"{wrong.says} ({setting.key.name}{where})" if where else wrong.says)


def check_single_value(keys: Keys, value: object, source: SettingsSource) -> None:
    """Raises `SettingsWriteError` for a value that the key does not accept, or that this source may not set."""
    setting = find_setting(".".join(keys))
    if why := explain_refused_source(setting.key, source):
        raise SettingsWriteError(why)
    try:
        _check(setting, value)
        msgspec.json.encode(value)
    except (InvalidSetting, UnicodeEncodeError) as error:
        raise SettingsWriteError(f"'{setting.spelled}' was not changed: {error}") from None
    if source.is_project and isinstance(value, str) and value in setting.key.users_own:
        raise SettingsWriteError(f"a project may not set '{setting.spelled}' to '{value}', only the user may")
    if source.is_project and any(value is one for one in setting.key.users_own if isinstance(one, bool)):
        shown = str(value).lower()
        raise SettingsWriteError(f"a project may not set '{setting.spelled}' to {shown}, only the user may")
    if source is SettingsSource.PROJECT and isinstance(value, str) and redact(value) != value:
        raise SettingsWriteError(
            f"'{setting.spelled}' was not saved for the project: the value looks like a secret, and others see the "
            "project's files"
        )


def explain_refused_source(key: SettingKey, source: SettingsSource) -> str:
    """Why the files of this source cannot set the key; empty: they can."""
    if may_set(key, source):
        return ""
    if key.by is SettingAuthority.ADMINISTRATOR:
        return f"only the administrator can set '{key.name}'"
    return f"a project cannot set '{key.name}': choose the user settings"


def spell_keys(tree: Mapping[str, object], keys: Keys) -> Keys:
    """As the file spells them: a key in two spellings would be a duplicate, and neither would count. The names of
    entries of a table have one spelling."""
    found: list[str] = []
    inner: Any = tree
    for depth, key in enumerate(keys, 1):
        table = cast("dict[str, object]", inner if isinstance(inner, dict) else {})
        path, other = ".".join(keys[:depth]), to_snake_case(key)
        is_ours = path in BY_NAME or path in TABLES
        found.append(other if is_ours and other in table and key not in table else key)
        inner = table.get(found[-1])
    return tuple(found)


class FileValue(NamedTuple):
    value: object
    path: str


def read_single_value(places: SettingsPaths, source: SettingsSource, setting: SettingName) -> FileValue | None:
    """What the files of a source say, in force or not: the last one wins. None: nothing. Raises `UsageError`."""
    found: FileValue | None = None
    for whose, path in places.files((source,) if source is not SettingsSource.ADMINISTRATOR else ()):
        if whose is source and (tree := _read_tree(path)) is not None:
            inner: Any = tree
            for key in spell_keys(tree, setting.keys):
                inner = inner.get(key) if isinstance(inner, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
            if inner is not None:
                found = FileValue(inner, path)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _read_tree(path: str) -> dict[str, object] | None:
    try:
        data = read_file(path)
        return None if data is None else parse_settings_text(data, toml=path.endswith(".toml")).tree
    except UnreadableSettings as broken:
        raise UsageError(f"'{path}'{broken.where}: {broken.says}") from None


def is_text(key: SettingKey) -> bool:
    """Whether its value is a text of any content."""
    if words_of(key) or key.check is status_line:
        return False
    try:
        return not key.check("a").wrong
    except InvalidSetting:
        return False
