"""The MCP servers of a session: from its options, the settings, the user's file for single projects, and the project's
`.mcp.json`. Loaded only if at least one server is configured.

Precedence (security T1): options, settings and the user's file are the user's. A project's `.mcp.json` counts if the
user trusts the directory. Of several servers with the same name the user's wins, so that a rule written for it never
covers another. Servers inside the host come from the option only, and are skipped if no host drives the session.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mainspring import agent, context
from mainspring.agent.model import Environment, key_for, new_config
from mainspring.agent.options import SessionOptions, StartError
from mainspring.core.errors import ToolError
from mainspring.core.messages import Origin as By
from mainspring.core.messages import User
from mainspring.core.models import DEFAULT_MODEL, Model
from mainspring.core.value import Bundle
from mainspring.mcp.base import DYNAMIC, START, McpStatus, McpTimeouts
from mainspring.mcp.resources import (
    build_prompt_content,
    fill_prompt_arguments,
    format_prompt_hint,
    read_mentioned_resources,
)
from mainspring.mcp.server_process import McpServerDefaults, ServerDirectory
from mainspring.mcp.servers import SHARE, McpServers, SchemaPolicy, ToolSearchUse
from mainspring.secrets.held import hold_key, hold_secrets
from mainspring.secrets.redaction import secrets_in
from mainspring.settings.keys import InvalidSetting, check_table
from mainspring.settings.load import home_folder
from mainspring.settings.mcp_servers import (
    ANYWHERE,
    FIELDS,
    FILE,
    KEY,
    LOCAL_FILE,
    NO_DRIVER,
    SDK,
    check_mcp_entries,
    fill_server,
    filled_secrets,
    read_local_table,
)
from mainspring.settings.read import UnreadableSettings, parse_settings_text, read_file
from mainspring.settings.restrictions import explain_server_refusal
from mainspring.settings.trust import real_folder
from mainspring.settings.values import McpEntry, McpServer, McpSettings, SettingOrigin, Settings, SettingsSource

if TYPE_CHECKING:
    from mainspring.mcp.host_transport import Send
    from mainspring.mcp.resources import May
    from mainspring.tools.builtin import BuiltinTools
    from mainspring.tools.toolset import Toolset

RESOURCE_TOOLS = ("ListMcpResourcesTool", "ReadMcpResourceTool")  # see `mcp/resources.py`
LEAST, MOST = 1.0, 86_400.0  # seconds: the range of timeouts


class McpConfig(Bundle):
    servers: tuple[McpServer, ...] = ()
    off: tuple[str, ...] = ()  # names of disabled servers
    problems: tuple[str, ...] = ()  # what was skipped, and why
    secrets: tuple[str, ...] = ()  # expanded into entries, for the servers only
    trusted: bool = False  # whether the working directory is


class McpConfigInput(Bundle):
    options: SessionOptions
    settings: Settings
    environ: Mapping[str, str]
    cwd: str
    is_trusted: Callable[[], bool]  # whether the working directory is


def load_mcp_config(place: McpConfigInput) -> McpConfig:
    """Raises `StartError` if a file named by the option cannot be read; all other errors are in `problems`."""
    problems: list[str] = []
    chosen: dict[str, McpEntry] = {}
    for found in iter_mcp_entries(place, problems):
        before = chosen.setdefault(found.name, found)
        if before is not found and (found.origin.source.is_project or before.entry != found.entry):
            problems.append(
                f"{found.origin.place}: the MCP server '{found.name}' is skipped: "
                f"{describe_entry_origin(before)} also defines it"
            )
    ready: list[McpServer] = []
    off: list[str] = []
    secrets: list[str] = []
    environ = {**place.environ, "CLAUDE_PROJECT_DIR": place.cwd}
    for found in chosen.values():
        try:
            if found.entry.get("disabled") is True:
                off.append(found.name)
            elif why := explain_server_refusal(made := fill_server(found, environ), found.entry, place.settings.mcp):
                problems.append(f"{found.origin.place}: the MCP server '{found.name}' is not started: {why}")
            else:
                ready.append(replace(made, by_host=True) if is_named_by_host(found, place.options) else made)
                secrets += filled_secrets(found, environ)
        except InvalidSetting as wrong:
            problems.append(format_mcp_problem(found.origin.place, found.name, wrong))
    trusted = bool(ready) and place.is_trusted()
    return McpConfig(tuple(ready), tuple(off), tuple(problems), tuple(secrets), trusted)


def iter_mcp_entries(place: McpConfigInput, problems: list[str]) -> Iterable[McpEntry]:
    """In order of precedence: the first entry with a name wins."""
    settings, options = place.settings, place.options
    if not options.strict_mcp_config:
        yield from [one for one in settings.mcp.servers if one.origin.source is SettingsSource.ADMINISTRATOR]
    for given in reversed(options.mcp_servers):
        yield from read_option_entries(given, place, problems)
    if not options.strict_mcp_config:
        yield from read_local_entries(place, problems)
        yield from [one for one in settings.mcp.servers if one.origin.source is not SettingsSource.ADMINISTRATOR]
        yield from read_project_entries(place, problems)


def is_named_by_host(found: McpEntry, options: SessionOptions) -> bool:
    """Whether the program that embeds us wrote the entry itself. A file that it names may be the project's."""
    said = SettingOrigin(SettingsSource.COMMAND_LINE, options.spell("mcp_servers"))
    return options.in_process and found.origin == said


def describe_entry_origin(found: McpEntry) -> str:
    return f"the {found.origin.source} ({found.origin.place})"


def hold_keys(options: SessionOptions, settings: Settings, environ: Environment, cwd: str) -> None:
    """Holds the keys of the models that the session may call: its own, and all with a server of their own in the user's
    settings. Call it before `load_mcp_config`, which gives no held key to a server (security K2). It does not hold a
    key in the environment for an unused service: that may be an MCP server's."""
    key_for(settings, environ, cwd)  # holds what it finds
    config = new_config(options, settings)
    names = [model.name for model in (config.model, *config.fallbacks)]
    for name in (*names, *[entry.name for entry in settings.models if entry.base_url]):
        endpoint = agent.endpoint_of(name, settings, environ)
        if endpoint is not None:
            agent.key_of(endpoint, environ)


# --- the option -----------------------------------------------------------------------------------------------------


def read_option_entries(given: str | Mapping[str, Any], place: McpConfigInput, problems: list[str]) -> list[McpEntry]:
    options = place.options
    if not isinstance(given, str):
        return list_mcp_entries(
            dict(given), SettingOrigin(SettingsSource.COMMAND_LINE, options.spell("mcp_servers")), problems
        )
    path = os.path.join(place.cwd, given)  # noqa: PTH118  # pathlib takes 8 ms to load
    try:
        data = read_file(path)
        if data is None:
            raise options.error("mcp_servers", f": there is no file '{given}'")
        found = parse_settings_text(data).tree
    except UnreadableSettings as broken:
        raise options.error("mcp_servers", f" cannot be read{broken.where}: {broken.says}", given) from None
    return list_mcp_entries(found, SettingOrigin(SettingsSource.COMMAND_LINE, path), problems)


def list_mcp_entries(found: dict[str, object], origin: SettingOrigin, problems: list[str]) -> list[McpEntry]:
    """A file of another program may have the servers at its top level."""
    kinds = tuple(FIELDS) if origin.source is SettingsSource.COMMAND_LINE else ANYWHERE
    if KEY not in found and not all_tables(found):
        if found:
            listed_names = ", ".join([f"'{name}'" for name in list(found)[:5]])
            problems.append(f"{origin.place}: no server found, because it has no '{KEY}'. It has {listed_names}")
        return []
    try:
        checked = check_mcp_entries(found.get(KEY, found), kinds)
    except InvalidSetting as wrong:
        problems.append(f"{origin.place}: '{KEY}' is not used: {wrong.says}")
        return []
    for odd in checked.wrong:
        name, *path = odd.path
        problems.append(format_mcp_problem(origin.place, str(name), InvalidSetting(odd.says, *path)))
    good = cast("dict[str, dict[str, object]]", checked.value)
    return [McpEntry(name, entry, origin) for name, entry in good.items()]


def all_tables(found: dict[str, object]) -> bool:
    try:
        return bool(found) and all("command" in check_table(one) or "url" in check_table(one) for one in found.values())
    except InvalidSetting:
        return False


def format_mcp_problem(place: str, name: str, wrong: InvalidSetting) -> str:
    field = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.path])
    at = f", field '{field.removeprefix('.')}'" if field else ""
    return f"{place}: the MCP server '{name}'{at}: {wrong.says}"


# --- the project ----------------------------------------------------------------------------------------------------


def read_project_entries(place: McpConfigInput, problems: list[str]) -> list[McpEntry]:
    """The enabled servers of its `.mcp.json`, if the directory is trusted."""
    options, mcp = place.options, place.settings.mcp
    if options.setting_sources is not None and SettingsSource.PROJECT not in (options.setting_sources or ()):
        return []
    path = f"{place.cwd}/{FILE}"
    try:
        data = read_file(path)
        if data is None:
            return []
        found = parse_settings_text(data).tree
    except UnreadableSettings as broken:
        line, column = broken.position
        problems.append(f"{path}{f':{line}:{column}' if line else ''}: {broken.says}. The file is not used")
        return []
    if not place.is_trusted():
        if not names_in(found):
            return []
        names = ", ".join([str(name) for name in names_in(found)])
        problems.append(
            f"{path}: MCP servers ({names}) are not started, because this directory is not trusted. Run 'mainspring "
            "trust' to trust it"
        )
        return []
    return [
        one
        for one in list_mcp_entries(found, SettingOrigin(SettingsSource.PROJECT, path), problems)
        if is_wanted(one.name, mcp)
    ]


def read_local_entries(place: McpConfigInput, problems: list[str]) -> list[McpEntry]:
    """The user's own servers for this folder, which are in the user's folder: a repository cannot contain them."""
    home, options = home_folder(place.environ), place.options
    if home is None or (options.setting_sources is not None and SettingsSource.LOCAL not in options.setting_sources):
        return []
    path = f"{home}/{LOCAL_FILE}"
    try:
        data = read_file(path)
        found = parse_settings_text(data).tree if data is not None else {}
    except UnreadableSettings as broken:
        problems.append(f"{path}{broken.where}: {broken.says}. The file is not used")
        return []
    table = read_local_table(found, real_folder(place.cwd))
    return list_mcp_entries({KEY: table}, SettingOrigin(SettingsSource.USER, path), problems) if table else []


MOST_NAMED = 20  # servers of a file


def names_in(found: dict[str, object]) -> list[str]:
    return [name for name, _ in list_servers_in(found)]


def list_servers_in(found: dict[str, object]) -> list[tuple[str, object]]:
    """The servers of an `.mcp.json`, by name, as they are written there."""
    servers = found.get(KEY)
    return list(cast("dict[str, object]", servers).items())[:MOST_NAMED] if isinstance(servers, dict) else []


def is_wanted(name: str, mcp: McpSettings) -> bool:
    if name in mcp.disabled:
        return False
    return mcp.enable_all or not mcp.enabled or name in mcp.enabled


# --- ready to start -------------------------------------------------------------------------------------------------


def without_host_servers(found: McpConfig) -> McpConfig:
    """For sessions that no host drives: without the servers inside the host."""
    here = tuple([server for server in found.servers if server.kind != SDK])
    gone = [
        format_mcp_problem(server.origin.place, server.name, InvalidSetting(NO_DRIVER, "type"))
        for server in found.servers
        if server.kind == SDK
    ]
    return replace(found, servers=here, problems=(*found.problems, *gone)) if gone else found


def new_servers(  # noqa: PLR0913  # keywords, most of them
    found: McpConfig,
    kit: BuiltinTools,
    environ: Mapping[str, str],
    *,
    model: Model = DEFAULT_MODEL,
    is_away: Callable[[str], bool],
    warn: Callable[[str], object],
    relay: Send | None = None,
) -> McpServers:
    """`McpServers.start` starts them, inside an event loop. `relay` reaches servers inside the host; None: no host
    drives the session."""
    if relay is None:
        known, found = found.problems, without_host_servers(found)
        for problem in found.problems[len(known) :]:
            warn(problem)
    hold_secrets(
        *[secret for server in found.servers for secret in secrets_in({**server.headers, **server.env})], ours=False
    )
    for secret in found.secrets:
        hold_key(secret, ours=False)
    usual, place = McpTimeouts(), kit.place
    ground = ServerDirectory(place.root, trusted=found.trusted, home=home_folder(environ), folders=place.folders)
    limits = McpTimeouts(
        start=read_seconds(environ, "MCP_TIMEOUT", usual.start),
        call=read_seconds(environ, "MCP_TOOL_TIMEOUT", usual.call),
    )
    host = McpServerDefaults(
        lambda: kit.children,
        lambda: kit.env,
        ground,
        relay,
        limits=limits,
        folders=lambda: (place.root, *place.folders),
    )
    use, share = read_tool_search(environ)
    schemas = SchemaPolicy(model.window, model.price, use, share)
    return McpServers(found.servers, host, schemas=schemas, is_away=is_away, warn=warn)


class SessionMcpServers:
    """Connects the MCP servers of a session with its toolset."""

    def __init__(self, servers: McpServers, hands: Toolset) -> None:
        self.servers, self._hands = servers, hands
        self.instructions = ""  # of the servers for the model, as of the last turn
        self._one = asyncio.Lock()  # a second `settle` finds the tools that the first one added

    async def open(self, *, wait: bool) -> None:
        """`wait`: return when their tools are available, or after the timeout. Else the first turn waits."""
        self.servers.start()
        if wait:
            await self.settle()

    async def settle(self) -> None:
        """Adds the tools of newly connected servers. Called before each turn."""
        async with self._one:
            self._hands.add(await self.servers.settle())
            self.instructions = self.servers.instructions() or self.instructions

    async def arrive(self, tool: str) -> str:
        """Waits for the server of this tool if it is still connecting, up to its timeout. Returns the error, if any."""
        server = self.servers.speaker(tool)
        if server is None:
            return ""
        if server.status is McpStatus.PENDING:
            await server.settled()
        await self.settle()
        if server.status is McpStatus.CONNECTED:
            return ""
        why = server.error or f"it is {server.status}"
        return f"There is no tool '{tool}': the MCP server '{server.name}' cannot be used: {why}."

    async def close(self) -> None:
        await self.servers.close()

    # --- MCP prompts and resources in the user's prompts ---

    def words(self) -> tuple[context.SlashEntry, ...]:
        """Prompts of servers, as slash commands."""
        found = self.servers.prompts().items()
        return tuple(
            [context.SlashEntry(name, prompt.about, format_prompt_hint(prompt)) for name, (_, prompt) in found]
        )

    def knows(self, word: str, words: str) -> bool:
        """Whether it is a prompt of a server, or may be: a server that is still connecting may have it. Raises
        `ToolError` if arguments are missing."""
        found = self.servers.prompts().get(word)
        if found is not None:
            fill_prompt_arguments(found[1], word, words)
            return True
        speaker = self.servers.speaker(word)
        return speaker is not None and speaker.status is McpStatus.PENDING

    async def brought(self, said: str, may: May, *, mentions: bool = True) -> tuple[User, ...]:
        """The MCP prompt that it expands to and, with `mentions`, the resources that it mentions. Raises `ToolError` if
        there is no such prompt, or its server does not return it."""
        prompt = await self._prompted(said) if said.startswith(f"/{START}") else ()
        if not mentions or "@" not in said or ":" not in said:
            return prompt
        return (*prompt, *await read_mentioned_resources(context.find_mentions(said), self.servers, may))

    async def _prompted(self, said: str) -> tuple[User, ...]:
        word, words = (*said[1:].split(None, 1), "")[:2]
        speaker = self.servers.speaker(word)
        if speaker is not None:
            await self.servers.there(speaker)
        found = self.servers.prompts().get(word)
        if found is None:
            raise ToolError(f"No MCP server has the prompt '/{word}'.")
        server, prompt = found
        result = await server.prompt(prompt.name, fill_prompt_arguments(prompt, word, words))
        return (User(build_prompt_content(word, server.name, result), By.ATTACHMENT),)

    @property
    def tools(self) -> tuple[str, ...]:
        """Without those of disabled servers."""
        off = tuple(
            [f"{START}{one.name}__" for one in self.servers.servers.values() if one.status is McpStatus.DISABLED]
        )
        ours = [name for name in self._hands.offers if name.startswith(START) or name in RESOURCE_TOOLS]
        return tuple([name for name in ours if not name.startswith(off)])

    def states(self) -> list[dict[str, str]]:
        """For `init` (stream-json 6)."""
        return [
            {"name": one["name"], "status": one["status"], "source": SDK if one["scope"] == DYNAMIC else one["scope"]}
            for one in self.servers.status()
        ]


def read_seconds(environ: Mapping[str, str], name: str, usual: float) -> float:
    """Reads a variable in milliseconds. Raises `StartError` if it is not a number in range."""
    said = environ.get(name, "").strip()
    if not said:
        return usual
    if not (said.isascii() and said.isdigit()) or not LEAST * 1_000 <= int(said) <= MOST * 1_000:
        raise StartError(f"'{name}' must be milliseconds from {LEAST * 1_000:.0f} to {MOST * 1_000:.0f}, not '{said}'")
    return int(said) / 1_000


TOOL_SEARCH, MOST_SHARE = "ENABLE_TOOL_SEARCH", 100


def read_tool_search(environ: Mapping[str, str]) -> tuple[ToolSearchUse, int]:
    """When tools are deferred, and from which percentage of the window on; the values are those of Claude Code. Raises
    `StartError` for any other."""
    said = environ.get(TOOL_SEARCH, "").strip().lower()
    chosen = {"": ToolSearchUse.BY_PRICE, "auto": ToolSearchUse.BY_PRICE}
    chosen |= dict.fromkeys(("1", "true"), ToolSearchUse.ALWAYS) | dict.fromkeys(("0", "false"), ToolSearchUse.NEVER)
    if said in chosen:
        return chosen[said], SHARE
    part = said.removeprefix("auto:")
    if part == said or not (part.isascii() and part.isdigit()) or int(part) > MOST_SHARE:
        raise StartError(f"'{TOOL_SEARCH}' must be 'true', 'false', 'auto' or 'auto:' and 0 to 100, not '{said}'")
    return ToolSearchUse.BY_SIZE, int(part)


def taken_away(rules: Iterable[str]) -> Callable[[str], bool]:
    """Returns a check whether a rule denies a tool, or its whole server."""
    bare = tuple([rule for rule in rules if rule.startswith("mcp__") or rule in RESOURCE_TOOLS])

    def is_away(name: str) -> bool:
        return any(name == rule or (rule.count("__") == 1 and name.startswith(f"{rule}__")) for rule in bare)

    return is_away
