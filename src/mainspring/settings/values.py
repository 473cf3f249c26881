"""Settings as values: frozen, typed, each with where it came from."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from mainspring.core.errors import UsageError
from mainspring.core.value import Value


class SettingsError(UsageError):
    """The start must stop: a broken file of the administrator, or one that was named on the command line."""


class WrongOptionError(SettingsError):
    """One of the options of the session that settings depend on. Whoever has them spells its name."""

    def __init__(self, option: str, reason: str) -> None:
        self.option, self.reason = option, reason
        super().__init__(f"'{option}'{reason}")


class SettingsSource(StrEnum):
    """Who asked. In the order in which the later one wins."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"
    ADMINISTRATOR = "administrator"

    @property
    def is_project(self) -> bool:
        """A repository may bring these files. The local one, too: nothing but a habit keeps it out."""
        return self in (SettingsSource.PROJECT, SettingsSource.LOCAL)


class SettingOrigin(Value):
    source: SettingsSource
    place: str  # a file, a variable, a flag


class SettingEntry(Value):
    """One of several: a rule, a folder."""

    text: str
    origin: SettingOrigin


class HookSetting(Value):
    event: str
    matcher: str
    command: dict[str, object]  # as it stands in the file; its shape was checked
    origin: SettingOrigin
    entry: str = ""  # where it is in its file: 'hooks.PreToolUse[0].hooks[1]'
    broken: str = ""  # why it cannot run: then it refuses what it would have guarded


class ModelEntry(Value):
    """A model that our table does not have, or has otherwise. Prices are US dollars a million tokens."""

    name: str
    window: int | None = None
    max_output: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None
    base_url: str | None = None  # its own server,
    protocol: str | None = None  # what that speaks: chat, responses or anthropic; chat unless said
    key_env: str | None = None  # and the variable that holds the key for it
    api_version: str | None = None  # it is Azure's, and the name behind the slash that of a deployment
    tools: bool | None = None  # False: it takes none, and is offered none


class ProblemKind(StrEnum):
    BROKEN = "broken"  # a file, or an entry of it
    WARNING = "warning"  # a part of an entry; nothing is lost, since its strict reading is in force
    UNKNOWN = "unknown"  # a key that nobody knows
    UNTRUSTED = "untrusted"  # needs the user's trust in this folder
    NOT_ITS_OWN = "not its own"  # a project may not set this, trusted or not
    UNSUPPORTED = "unsupported"  # a key of Claude Code that has no effect here
    REFUSED = "refused"  # a key that restricts and that we cannot honour: it stops the start, where it counts


class SettingsProblem(Value):
    """What was passed over, and why. Never quotes a file beyond the names of keys."""

    kind: ProblemKind
    place: str
    says: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.place}{at}: {self.says}"


class EffectiveSetting(Value):
    """A value that holds, for people."""

    name: str
    shown: str
    origin: SettingOrigin


class PermissionSettings(Value):
    allow: tuple[SettingEntry, ...] = ()
    deny: tuple[SettingEntry, ...] = ()
    ask: tuple[SettingEntry, ...] = ()
    directories: tuple[SettingEntry, ...] = ()  # as written; relative ones are meant from the working folder
    default_mode: str | None = None
    bypass_disabled: bool = False
    auto_disabled: str = ""  # the key that switches permission mode auto off
    asks_nobody: bool = False  # what would be asked is denied
    managed_only: bool = False  # allow rules of anybody but the administrator do not count


class ApiSettings(Value):
    base_url: str | None = None
    key_helper: str | None = None
    key_lifetime: int | None = None  # seconds that a key of the helper is used
    max_cost: int | None = None  # nano-dollars a session
    max_retries: int | None = None


class LimitSettings(Value):
    max_turns: int | None = None
    max_tokens: int | None = None
    max_output_tokens: int | None = None


class SandboxOptions(Value):
    enabled: bool | None = None  # None: nobody said
    required: bool = False  # fail if it is not to be had
    auto_allow: bool = False
    may_be_left: bool = True  # whether a command may ask to run outside of it
    excluded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    denied_domains: tuple[SettingEntry, ...] = ()
    managed_domains_only: bool = False  # nobody but the administrator names domains that may be reached
    writable: tuple[SettingEntry, ...] = ()  # beyond the working folders
    unreadable: tuple[SettingEntry, ...] = ()  # paths, as written
    read_only: tuple[SettingEntry, ...] = ()


class FeatureSettings(Value):
    """What can be switched off, and two that are on only where somebody wants them (O-10)."""

    auto_compact: bool = True
    reactive_compact: bool = True  # a summary after the server said "too long"
    snip: bool = True
    microcompact: bool = True
    collapse: bool = True
    siblings: str = "isolate"  # or 'cascade': a failed command cancels those behind it
    streaming_tools: bool = True  # safe calls start while the model still talks
    server_clearing: bool = False  # old results are cleared by the service itself (D-14)
    auto_memory: bool = True  # notes for later sessions, in conversations,
    suggestions: bool = True  # and what the user may say next: both are asked for at once


class McpEntry(Value):
    """A server as it was written down; its shape was checked (`settings/mcp_servers.py`)."""

    name: str
    entry: dict[str, object]
    origin: SettingOrigin


class McpServerMatch(Value):
    """An entry of `allowedMcpServers` or `deniedMcpServers`; one of the three is set."""

    name: str = ""
    command: tuple[str, ...] = ()  # with its arguments
    url: str = ""  # `*` stands for anything


class McpServerList(Value):
    """One such list, and where it stands."""

    matches: tuple[McpServerMatch, ...]
    origin: SettingOrigin


class McpServer(Value):
    """A server that can be started: its variables are filled in."""

    name: str
    kind: str  # stdio, http, sse or sdk
    origin: SettingOrigin
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class McpSettings(Value):
    """Servers of the user's side, and which of a project's own (`.mcp.json`) may start where it is trusted."""

    servers: tuple[McpEntry, ...] = ()
    enable_all: bool = False
    enabled: tuple[str, ...] = ()  # if there are any: these alone
    disabled: tuple[str, ...] = ()
    allowed: tuple[McpServerList, ...] | None = None  # of the user's side, together; None: every server
    narrowed: tuple[McpServerList, ...] = ()  # of a project: each of them must allow a server, too
    denied: tuple[McpServerList, ...] = ()


class ModelRules(Value):
    """Which models may be asked. Entries are names, the beginnings of names, or families, such as `opus`."""

    available: tuple[str, ...] | None = None  # None: all
    narrowed: tuple[tuple[str, ...], ...] = ()  # of a project: each of them must have it, too
    denied: tuple[str, ...] = ()
    exact: bool = False
    default_too: bool = False  # the default must be available, too
    places: tuple[str, ...] = ()  # files that say so, for messages


class Settings(Value):
    permissions: PermissionSettings = PermissionSettings()
    api: ApiSettings = ApiSettings()
    limits: LimitSettings = LimitSettings()
    sandbox: SandboxOptions = SandboxOptions()
    mcp: McpSettings = McpSettings()
    features: FeatureSettings = FeatureSettings()
    hooks: tuple[HookSetting, ...] = ()
    env: dict[str, str] = field(default_factory=dict)  # for the commands that tools run
    own_env: dict[str, str] = field(default_factory=dict)  # for ourselves, too: from the user's side only
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    model_rules: ModelRules = ModelRules()
    output_style: str | None = None
    status_line: str | None = None  # a command
    rings: bool = False  # the bell of the terminal, when somebody is waited for
    search_command: str | None = None  # that searches the web
    effort: str | None = None
    max_effort: str | None = None
    thinking: bool | None = None
    max_thinking_tokens: int | None = None
    cleanup_days: int | None = None
    written: tuple[tuple[str, str], ...] = ()  # each variable and header in any file, by its name, in force or not
    skill_states: dict[str, str] = field(default_factory=dict)  # by name: name-only, user-invocable-only, off
    memory_excludes: tuple[str, ...] = ()  # patterns of memory files that are not loaded
    no_sideloading: bool = False  # '--agents', '--plugin-dir' and '--mcp-config' are refused

    effective: tuple[EffectiveSetting, ...] = ()
    problems: tuple[SettingsProblem, ...] = ()
