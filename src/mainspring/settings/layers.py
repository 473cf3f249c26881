"""Reads settings files into layers, one for each file (security T4).

A layer has the values of its file that are valid, checked entry by entry. `combine.py` decides which of them count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from mainspring import settings
from mainspring.settings.claude_code_keys import BY_NAME as CLAUDE_CODE
from mainspring.settings.claude_code_keys import EVERYTHING, NOTHING_TO_RESTRICT, Support, is_harmless
from mainspring.settings.keys import (
    BY_NAME,
    KEYS,
    NOT_OURS,
    SPELLINGS,
    TABLES,
    InvalidSetting,
    SettingAuthority,
    SettingKey,
    may_set,
    to_snake_case,
)
from mainspring.settings.load import SETTINGS_VARIABLES, SettingsPaths
from mainspring.settings.read import (
    ParsedFile,
    Path,
    Position,
    UnreadableSettings,
    parse_settings_text,
    read_file,
    salvage_rules,
)
from mainspring.settings.values import (
    ProblemKind,
    SettingOrigin,
    SettingsError,
    SettingsProblem,
    SettingsSource,
    WrongOptionError,
)
from mainspring.text import suggest_near_name

Values = dict[str, object]


class RefusedKey(NamedTuple):
    """A restriction that we cannot enforce (settled 38)."""

    problem: SettingsProblem
    off: tuple[str, ...]  # tools that are denied if the file is not trusted


class SettingsLayer(NamedTuple):
    origin: SettingOrigin
    values: Values
    problems: tuple[SettingsProblem, ...] = ()
    broken: bool = False  # as a whole: only its deny and ask rules were salvaged
    refused: tuple[RefusedKey, ...] = ()  # restrictions of the file that we cannot enforce


def file_layers(places: SettingsPaths, sources: tuple[str, ...] | None) -> Iterator[SettingsLayer]:
    """One for each existing file. An invalid one of the administrator stops the start."""
    for source, path in places.files(sources):
        layer = _file(SettingOrigin(source, path))
        if layer is None or (source.is_project and _is_in_home(path, places.home)):
            continue
        yield _unbroken(layer) if source is SettingsSource.ADMINISTRATOR else layer


def option_layer(said: str | Mapping[str, Any], cwd: str, name: str) -> SettingsLayer:
    """The settings in the option `name`, or in the file that it names, which must exist."""
    if not isinstance(said, str):
        origin = SettingOrigin(SettingsSource.COMMAND_LINE, name)
        return _unbroken(_checked(origin, lambda: ParsedFile(dict(said), _nowhere)))
    path = os.path.join(cwd, said)  # noqa: PTH118  # pathlib takes 8 ms to load
    layer = _file(SettingOrigin(SettingsSource.COMMAND_LINE, path))
    if layer is None:
        raise WrongOptionError("settings", f" names '{said}', which does not exist")
    return _unbroken(layer)


def _nowhere(_: Path) -> Position:
    return 0, 0


def environment_layers(environ: Mapping[str, str]) -> Iterator[SettingsLayer]:
    for variable, name in SETTINGS_VARIABLES.items():
        said = environ.get(variable, "").strip()
        if said:
            origin = SettingOrigin(SettingsSource.ENVIRONMENT, variable)
            yield _from_variable(origin, BY_NAME[name], int(said) if said.isdecimal() else said)


def _from_variable(origin: SettingOrigin, key: SettingKey, said: object) -> SettingsLayer:
    try:
        return SettingsLayer(origin, {key.name: key.check(said).value})
    except InvalidSetting as wrong:
        return SettingsLayer(origin, {}, (SettingsProblem(ProblemKind.BROKEN, origin.place, wrong.says),))


def _is_in_home(file: str, home: str | None) -> bool:
    """If the working folder is the user's own home, its files are the user's, and were already read."""
    folder = os.path.dirname(file)  # noqa: PTH120  # as above
    return home is not None and os.path.realpath(folder) == os.path.realpath(home)


def _unbroken(layer: SettingsLayer) -> SettingsLayer:
    for problem in layer.problems:
        if problem.kind is ProblemKind.BROKEN:
            raise SettingsError(f"{problem}. mainspring does not start with invalid settings: fix them")
    return layer


# --- one file ---------------------------------------------------------------------------------------


def _file(origin: SettingOrigin) -> SettingsLayer | None:
    try:
        data = read_file(origin.place)
    except UnreadableSettings as broken:
        return _broken_layer(origin, broken)
    if data is None:
        return None
    return _checked(origin, partial(parse_settings_text, data, toml=origin.place.endswith(".toml")))


def _checked(origin: SettingOrigin, load: Callable[[], ParsedFile]) -> SettingsLayer:
    try:
        found = load()
    except UnreadableSettings as broken:
        return _broken_layer(origin, broken)
    check = _Checking(origin, found.position)
    check.table(found.tree, (), "")
    check.name_unsupported()
    return SettingsLayer(origin, check.values, tuple(check.problems), refused=tuple(check.refused))


_RESTRICTING = (
    *[key.name for key in KEYS if key.must_hold and key.name not in ("permissions.deny", "permissions.ask")],
    *[key.name for key in CLAUDE_CODE.values() if key.support is Support.REFUSED],
)  # besides the rules and guards, which are salvaged
_AS_KEY = r"""(?<![\w.-])["']?(?:[\w-]+\.)*({})["']?\s*[:=]"""


def _lost_restrictions(origin: SettingOrigin, broken: UnreadableSettings) -> Iterator[RefusedKey]:
    """Keys of an invalid file that restrict. Their values are lost, so they count as refused."""
    last = {spelled.rpartition(".")[2]: name for name in _RESTRICTING for spelled in (name, to_snake_case(name))}
    line, column = broken.position
    found = re.findall(_AS_KEY.format("|".join(map(re.escape, last))), broken.text)
    for name in dict.fromkeys([last[word] for word in found]):
        key = BY_NAME.get(name)
        if key is not None and not may_set(key, origin.source):
            continue
        says = f"{broken.says}. '{name}' in it is a restriction that cannot be read"
        off = EVERYTHING if key is None or key.by is SettingAuthority.UNTRUSTED else ()
        yield RefusedKey(SettingsProblem(ProblemKind.REFUSED, origin.place, says, line, column), off)


def _broken_layer(origin: SettingOrigin, broken: UnreadableSettings) -> SettingsLayer:
    saved = salvage_rules(broken.text, toml=origin.place.endswith(".toml"))
    values: Values = {f"permissions.{name}": tuple(rules) for name, rules in saved.items() if rules}
    kept = f"; {sum(map(len, saved.values()))} deny and ask rules in it apply" if values else ""
    named = '"hooks"' in broken.text or "hooks." in broken.text
    if named and (guards := settings.unreadable_guards(broken.text)):
        values["hooks"] = guards
        kept += ". It has hooks that guard calls: where they would count, every call is denied until you fix it"
    line, column = broken.position
    says = f"{broken.says}. The file is not used{kept}"
    problem = SettingsProblem(ProblemKind.BROKEN, origin.place, says, line, column)
    return SettingsLayer(origin, values, (problem,), broken=True, refused=tuple(_lost_restrictions(origin, broken)))


class _Checking:
    """Checks one tree against the table of keys."""

    def __init__(self, origin: SettingOrigin, position: Callable[[Path], Position]) -> None:
        self.origin, self.position = origin, position
        self.values: Values = {}
        self.problems: list[SettingsProblem] = []
        self.refused: list[RefusedKey] = []
        self.unsupported: dict[str, list[str]] = {}  # by reason

    def table(self, tree: Mapping[str, object], path: Path, prefix: str) -> None:
        for word, value in tree.items():
            spelled = f"{prefix}{word}"
            name = SPELLINGS.get(spelled) if "." not in word else None
            if name in BY_NAME:
                self.key(BY_NAME[name], value, (*path, word))
            elif spelled in TABLES and "." not in word:
                self.inner(TABLES[spelled], value, (*path, word))
            elif name in NOT_OURS:
                self.not_ours(str(name), value, (*path, word))
            else:
                self.unknown(word, prefix, (*path, word))

    def inner(self, name: str, value: object, path: Path) -> None:
        if isinstance(value, dict):
            self.table(cast("dict[str, object]", value), path, f"{name}.")
        else:
            self.say(ProblemKind.BROKEN, f"'{name}' is not used: it must be a table of names and values", path)

    def not_ours(self, name: str, value: object, path: Path) -> None:
        """A key of Claude Code that no row of `KEYS` implements."""
        key = CLAUDE_CODE[name]
        if name in NOTHING_TO_RESTRICT or is_harmless(key, value):
            return
        if key.support is Support.REFUSED and (key.restricts is None or key.restricts(value)):
            line, column = self.position(path)
            says = f"'{name}' restricts {key.note}, and mainspring does not support it"
            problem = SettingsProblem(ProblemKind.REFUSED, self.origin.place, says, line, column)
            self.refused.append(RefusedKey(problem, key.off))
        else:
            why = "mainspring has no such setting" if key.support is Support.REFUSED else key.note
            self.unsupported.setdefault(why, []).append(name)

    def name_unsupported(self) -> None:
        """One line for each reason: a file of Claude Code may have many of them."""
        for why, names in self.unsupported.items():
            has = "has" if len(names) == 1 else "have"
            listed = ", ".join([f"'{name}'" for name in names])
            self.problems.append(
                SettingsProblem(ProblemKind.UNSUPPORTED, self.origin.place, f"{listed} {has} no effect: {why}")
            )

    def key(self, key: SettingKey, value: object, path: Path) -> None:
        if key.name in self.values:
            self.say(ProblemKind.BROKEN, f"'{path[-1]}' is not used: '{key.name}' is a duplicate key", path)
            return
        try:
            checked = key.check(value)
        except InvalidSetting as wrong:
            self.wrong(key, wrong, path)
            if key.if_wrong is not None:
                self.values[key.name] = key.if_wrong
            return
        self.values[key.name] = checked.value
        for word in cast("dict[str, object]", value) if isinstance(value, dict) else ():
            if (inner := f"{key.name}.{word}") in NOT_OURS:  # such as 'statusLine.padding'
                self.not_ours(inner, cast("dict[str, object]", value)[word], (*path, word))
        for part in checked.wrong:
            self.wrong(key, part, path)

    def wrong(self, key: SettingKey, wrong: InvalidSetting, path: Path) -> None:
        where = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.path])
        if key.must_hold and not wrong.is_detail and may_set(key, self.origin.source):
            line, column = self.position((*path, *wrong.path))
            says = f"'{key.name}{where}' is a restriction that cannot be read: {wrong.says}"
            problem = SettingsProblem(ProblemKind.REFUSED, self.origin.place, says, line, column)
            self.refused.append(RefusedKey(problem, EVERYTHING if key.by is SettingAuthority.UNTRUSTED else ()))
            return
        kind = ProblemKind.WARNING if wrong.in_force else ProblemKind.BROKEN
        self.say(kind, f"'{key.name}{where}' is not used as written: {wrong.says}", (*path, *wrong.path))

    def unknown(self, word: str, prefix: str, path: Path) -> None:
        siblings = [key.name.removeprefix(prefix).split(".")[0] for key in KEYS if key.name.startswith(prefix)]
        known = tuple(dict.fromkeys(siblings))
        self.say(ProblemKind.UNKNOWN, f"unknown key '{prefix}{word}'{suggest_near_name(word, known)}", path)

    def say(self, kind: ProblemKind, says: str, path: Path) -> None:
        line, column = self.position(path)
        self.problems.append(SettingsProblem(kind, self.origin.place, says, line, column))
