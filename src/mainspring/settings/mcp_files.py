"""The files that configure MCP servers, for commands that add and remove them.

| scope | file | where in it |
|---|---|---|
| local | `mcp.json` in our folder: for you, in one project | `projects.<folder>.mcpServers` |
| project | `.mcp.json` in the project: for all who trust it | `mcpServers` |
| user | `settings.json` in our folder: for you, everywhere | `mcpServers` |

Entries have the shape that Claude Code gives them, in `.mcp.json` and in its own `.claude.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

from mainspring.core.errors import UsageError
from mainspring.secrets.redaction import is_secret, redact
from mainspring.settings.edit import ValueChange, write_change, write_value
from mainspring.settings.keys import InvalidSetting
from mainspring.settings.load import SettingsPaths
from mainspring.settings.mcp_servers import FILE, KEY, LOCAL_FILE, PROJECTS, check_mcp_entry, read_local_table
from mainspring.settings.read import UnreadableSettings, parse_settings_text, read_file
from mainspring.settings.trust import real_folder
from mainspring.settings.values import SettingsSource

McpScope = Literal["local", "project", "user"]
SCOPES: tuple[McpScope, ...] = ("local", "user", "project")  # the first one with a server's name wins
ABOUT_SCOPES = {
    "local": "only you, in this folder",
    "project": "everyone in this project, once they trust it",
    "user": "you, in every folder",
}


class ConfiguredServer(NamedTuple):
    name: str
    entry: dict[str, object]
    scope: McpScope
    path: str


def list_configured_servers(places: SettingsPaths) -> list[ConfiguredServer]:
    """As the files have them, valid or not. Raises `UsageError` for a file that cannot be read."""
    return [
        ConfiguredServer(name, cast("dict[str, object]", entry), scope, path)
        for scope in SCOPES
        for path, table in _tables(places, scope)
        for name, entry in table.items()
        if isinstance(entry, dict)
    ]


def find_configured_server(places: SettingsPaths, name: str, scope: McpScope | None = None) -> ConfiguredServer:
    found = [one for one in list_configured_servers(places) if one.name == name and scope in (None, one.scope)]
    if not found:
        where = f" in the {scope} scope" if scope else ""
        raise UsageError(f"no MCP server '{name}'{where}. 'mainspring mcp list' shows the servers of this folder")
    if len(found) > 1 and scope is None:
        scopes = " and ".join([one.scope for one in found])
        raise UsageError(f"'{name}' is configured in the scopes {scopes}: name one with '--scope'")
    return found[0]


def add_configured_server(
    places: SettingsPaths, scope: McpScope, name: str, entry: dict[str, object], *, replace: bool = False
) -> str:
    """Returns the file. Raises `UsageError`, `OSError`."""
    try:
        check_mcp_entry(name, entry)
    except InvalidSetting as wrong:
        field = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.path])
        at = f", field '{field.removeprefix('.')}'" if field else ""
        raise UsageError(f"the MCP server '{name}'{at} was not added: {wrong.says}") from None
    if scope == "project":
        _refuse_secrets(name, entry)
    there = [one for one in list_configured_servers(places) if one.name == name and one.scope == scope]
    if there and not replace:
        raise UsageError(
            f"there is already an MCP server '{name}' in '{there[0].path}': remove it first, or choose another name"
        )
    return _write(places, scope, name, entry)


def remove_configured_server(places: SettingsPaths, found: ConfiguredServer) -> str:
    return _write(places, found.scope, found.name, None)


def switch_configured_server(places: SettingsPaths, found: ConfiguredServer, *, enabled: bool) -> str:
    """Writes 'disabled' into its entry, or takes it out."""
    entry = {name: value for name, value in found.entry.items() if name != "disabled"}
    return _write(places, found.scope, found.name, entry if enabled else {**entry, "disabled": True})


def _refuse_secrets(name: str, entry: dict[str, object]) -> None:
    """Others see the files of a project."""
    for field in ("env", "headers"):
        table = entry.get(field)
        for key, value in cast("dict[str, object]", table).items() if isinstance(table, dict) else ():
            text = str(value)
            if "${" not in text and (is_secret(key) or redact(text) != text):
                raise UsageError(
                    f"'{name}' was not added: '{key}' may be a secret, and others see '{FILE}'. Write "
                    f"'${{{key if field == 'env' else 'VARIABLE'}}}' to take it from the environment, or use "
                    "'--scope local'"
                )


def _write(places: SettingsPaths, scope: McpScope, name: str, entry: dict[str, object] | None) -> str:
    unset = entry is None
    if scope == "user":
        done = write_change(places, SettingsSource.USER, ValueChange((KEY, name), entry, unset))
        return (*done.files, "")[0]
    path, keys = _place(places, scope)
    source = SettingsSource.PROJECT if scope == "project" else SettingsSource.USER
    return path if write_value(path, source, ValueChange((*keys, name), entry, unset), places) else ""


def _place(places: SettingsPaths, scope: McpScope) -> tuple[str, tuple[str, ...]]:
    if scope == "project":
        return f"{places.cwd}/{FILE}", (KEY,)
    if places.home is None:
        raise UsageError("there is no home directory for settings: set MAINSPRING_HOME")
    return f"{places.home}/{LOCAL_FILE}", (PROJECTS, real_folder(places.cwd), KEY)


def _tables(places: SettingsPaths, scope: McpScope) -> Iterator[tuple[str, dict[str, object]]]:
    if scope == "user":
        for source, path in places.files((SettingsSource.USER,)):
            if source is SettingsSource.USER:
                yield path, _table(_read(path), (KEY,)) or _table(_read(path), ("mcp_servers",))
    elif scope == "project":
        yield f"{places.cwd}/{FILE}", _table(_read(f"{places.cwd}/{FILE}"), (KEY,))
    elif places.home is not None:
        path = f"{places.home}/{LOCAL_FILE}"
        yield path, read_local_table(_read(path), real_folder(places.cwd))


def _table(tree: dict[str, object], keys: tuple[str, ...]) -> dict[str, object]:
    found: Any = tree
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _read(path: str) -> dict[str, object]:
    try:
        data = read_file(path)
        return {} if data is None else parse_settings_text(data, toml=path.endswith(".toml")).tree
    except UnreadableSettings as broken:
        raise UsageError(f"'{path}'{broken.where}: {broken.says}") from None
