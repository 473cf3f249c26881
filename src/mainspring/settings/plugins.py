"""Plugins: folders with commands, agents, skills, hooks and MCP servers that the user or the host names.

    my-plugin/.claude-plugin/plugin.json    {"name": "my-plugin", "version": "1.0.0"}; without it, the folder's name
    my-plugin/commands/*.md                 /my-plugin:NAME
    my-plugin/agents/*.md                   the agent type my-plugin:NAME
    my-plugin/skills/NAME/SKILL.md          the skill my-plugin:NAME
    my-plugin/hooks/hooks.json              {"hooks": {...}}, as in a settings file
    my-plugin/.mcp.json                     the MCP servers plugin:my-plugin:NAME

The layout is Claude Code's. The manifest may name further places inside the plugin: "commands", "agents" and "skills"
as paths of folders or files, "hooks" and "mcpServers" as paths of files, or in the manifest itself.

Nothing is loaded from a repository by itself: a plugin counts because the user or the host named its folder, so it is
trusted as the command line is. This module reads hooks and servers; the folders with texts are read as those of the
user are (`context/project_files.py`). A file that cannot be read raises, because a guard may be in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from shlex import quote
from typing import cast

from msgspec.structs import replace

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.processes.paths import is_within
from mainspring.settings.hook_entries import RawHook, check_hooks, place_of
from mainspring.settings.keys import CheckedValue, InvalidSetting, check_table
from mainspring.settings.mcp_servers import ANYWHERE, FILE, KEY, check_mcp_entries
from mainspring.settings.read import UnreadableSettings, parse_settings_text, read_file
from mainspring.settings.values import HookSetting, McpEntry, SettingOrigin, Settings, SettingsSource

MANIFEST = ".claude-plugin/plugin.json"
HOOKS = "hooks/hooks.json"
ROOT = "CLAUDE_PLUGIN_ROOT"  # the folder of the plugin, in its hooks and servers
TEXTS = ("commands", "agents", "skills")  # folders, and keys of a manifest with further ones
PROTECTED = (".claude-plugin", *TEXTS, "hooks", FILE)  # in a plugin that is the workspace itself

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


class Plugin(Bundle):
    name: str
    path: str  # the real one
    version: str = ""
    hooks: tuple[HookSetting, ...] = ()
    servers: tuple[McpEntry, ...] = ()
    problems: tuple[str, ...] = ()  # for the user
    texts: tuple[tuple[str, str], ...] = ()  # "commands", "agents" or "skills", and a folder or file of them
    named: tuple[str, ...] = ()  # the places that its manifest names

    def list_protected(self, workspace: str) -> tuple[str, ...]:
        """Paths that the agent must not change: all of it, or, if the workspace is in it, what is read of it."""
        if not is_within(workspace, self.path):
            return (self.path,)
        return (*[f"{self.path}/{name}" for name in PROTECTED], *self.named)


def load_plugin(folder: str, cwd: str) -> Plugin:
    """Raises `UsageError`."""
    path = os.path.realpath(os.path.join(cwd, os.path.expanduser(folder)))  # noqa: PTH111, PTH118  # pathlib takes 8 ms to load
    if not os.path.isdir(path):  # noqa: PTH112
        raise UsageError(f"there is no folder '{folder}'")
    manifest = _read(f"{path}/{MANIFEST}")
    problems: list[str] = []
    version = manifest.get("version")
    name = _plugin_name(manifest.get("name"), path)
    places = {key: _list_places(manifest, key, path) for key in (*TEXTS, "hooks", KEY)}
    tables = {
        key: _find_tables(manifest, key, path, file, places[key]) for key, file in (("hooks", HOOKS), (KEY, FILE))
    }
    return Plugin(
        name,
        path,
        version if isinstance(version, str) else "",
        tuple([hook for file, table in tables["hooks"] for hook in _read_hooks(path, file, table, problems)]),
        tuple([one for file, table in tables[KEY] for one in _read_servers(name, path, file, table, problems)]),
        tuple(problems),
        tuple([(sort, place) for sort in TEXTS for place in dict.fromkeys((f"{path}/{sort}", *places[sort]))]),
        tuple([place for found in places.values() for place in found]),
    )


def _list_places(manifest: dict[str, object], key: str, path: str) -> tuple[str, ...]:
    """The real paths that the manifest names. Raises `UsageError` for one outside of the plugin: naming its folder is
    no consent to others."""
    given = manifest.get(key, [])
    if isinstance(given, dict) and key not in TEXTS:
        return ()  # the table itself
    entries = cast("list[object]", given if isinstance(given, list) else [given])
    where, found = f"{path}/{MANIFEST}", list[str]()
    for entry in entries:
        if not isinstance(entry, str):
            kinds = "a path or a list of paths" if key in TEXTS else "a path, a list of paths, or a table"
            raise UsageError(f"'{where}': '{key}' must be {kinds}, not {entry!r}")
        named = entry.replace(f"${{{ROOT}}}", path)
        real = os.path.realpath(os.path.join(path, named))  # noqa: PTH118
        if not is_within(real, path):
            raise UsageError(
                f"'{where}': '{key}' has '{entry}', which is outside of the plugin: use a path inside of it"
            )
        if not os.path.exists(real):  # noqa: PTH110
            raise UsageError(f"'{where}': '{key}' has '{entry}', which does not exist")
        found.append(real)
    return tuple(found)


def _find_tables(
    manifest: dict[str, object], key: str, path: str, usual: str, places: tuple[str, ...]
) -> list[tuple[str, dict[str, object]]]:
    """Files of hooks or servers, with what is in each: the usual one, those of the manifest, and the manifest."""
    files = dict.fromkeys((f"{path}/{usual}", *places))
    found = [(file, _read(file)) for file in files]
    if isinstance(manifest.get(key), dict):
        found.append((f"{path}/{MANIFEST}", {key: manifest[key]}))
    return found


def add_plugins(settings: Settings, plugins: Iterable[Plugin]) -> Settings:
    """The settings with the hooks and servers of the plugins. If only the administrator's hooks run, theirs do not."""
    hooks = [hook for plugin in plugins for hook in plugin.hooks if not settings.only_managed_hooks]
    servers = [server for plugin in plugins for server in plugin.servers]
    mcp = replace(settings.mcp, servers=(*settings.mcp.servers, *servers))
    return replace(settings, hooks=(*settings.hooks, *hooks), mcp=mcp)


def _plugin_name(given: object, path: str) -> str:
    if given is None:
        given = re.sub(r"[^A-Za-z0-9_.-]+", "-", path.rsplit("/", 1)[-1]).strip("-._")[:32]
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise UsageError(
            f"the name {given!r} of '{path}' may only have letters, digits, '-', '_' and '.', at most 32: "
            f"change 'name' in '{MANIFEST}'"
        )
    return given


def _read(path: str) -> dict[str, object]:
    """Empty: there is no such file."""
    try:
        data = read_file(path)
        return {} if data is None else parse_settings_text(data).tree
    except UnreadableSettings as broken:
        raise UsageError(f"'{path}' cannot be read{broken.where}: {broken.says}") from None


def _read_hooks(path: str, file: str, table: dict[str, object], problems: list[str]) -> Iterable[HookSetting]:
    try:
        checked: CheckedValue = check_hooks(table.get("hooks", {}))
    except InvalidSetting as wrong:
        raise UsageError(f"'{file}' has no valid 'hooks': {wrong.says}") from None
    problems += [f"{file}: '{place_of(wrong.path)}': {wrong.says}" for wrong in checked.wrong]
    origin = SettingOrigin(SettingsSource.COMMAND_LINE, file)
    for hook in cast("tuple[RawHook, ...]", checked.value):
        yield HookSetting(hook.event, hook.matcher, _rooted(hook.command, path), origin, hook.entry, hook.broken)


def _rooted(command: dict[str, object], path: str) -> dict[str, object]:
    """The shell expands the variable, so quotes in the command mean what they say."""
    script = command.get("command")
    return {**command, "command": f"export {ROOT}={quote(path)}\n{script}"} if isinstance(script, str) else command


def _read_servers(name: str, path: str, file: str, found: dict[str, object], problems: list[str]) -> Iterable[McpEntry]:
    try:
        checked = check_mcp_entries(check_table(found.get(KEY, found)), ANYWHERE)
    except InvalidSetting as wrong:
        raise UsageError(f"'{file}' has no valid '{KEY}': {wrong.says}") from None
    problems += [f"{file}: the MCP server '{wrong.path[0]}': {wrong.says}" for wrong in checked.wrong]
    origin = SettingOrigin(SettingsSource.COMMAND_LINE, file)
    for server, entry in cast("dict[str, dict[str, object]]", checked.value).items():
        rooted = cast("dict[str, object]", _with_root(entry, path))
        yield McpEntry(f"plugin:{name}:{server}", rooted, origin)


def _with_root(value: object, path: str) -> object:
    match value:
        case str():
            return value.replace(f"${{{ROOT}}}", path)
        case list():
            return [_with_root(one, path) for one in cast("list[object]", value)]
        case dict():
            return {name: _with_root(one, path) for name, one in cast("dict[str, object]", value).items()}
        case _:
            return value
