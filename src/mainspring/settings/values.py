"""Settings as frozen, typed values, each with its origin."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from mainspring.core.errors import UsageError
from mainspring.core.value import Value


class SettingsError(UsageError):
    """The start must stop: a file of the administrator, or one named on the command line, is invalid."""


class SettingsWriteError(UsageError):
    """A change of a settings file that was not made: the file is unchanged. The message says why."""


class WrongOptionError(SettingsError):
    """An invalid session option that settings depend on. The front end that has the options spells its name."""

    def __init__(self, option: str, reason: str) -> None:
        self.option, self.reason = option, reason
        super().__init__(f"'{option}'{reason}")


class SettingsSource(StrEnum):
    """The sources of settings, in the order of precedence: the later one wins."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"
    ADMINISTRATOR = "administrator"

    @property
    def is_project(self) -> bool:
        """A repository may contain these files. The local one, too: only a convention keeps it out."""
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
    command: dict[str, object]  # as written in the file; its shape was checked
    origin: SettingOrigin
    entry: str = ""  # its path in the file: 'hooks.PreToolUse[0].hooks[1]'
    broken: str = ""  # why it cannot run: then it denies the calls that it would have guarded


class ModelEntry(Value):
    """A model that our table does not have, or has otherwise. Prices are US dollars per million tokens."""

    name: str
    window: int | None = None
    max_output: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None
    base_url: str | None = None  # its own server,
    protocol: str | None = None  # its protocol: chat (default), responses or anthropic
    key_env: str | None = None  # and the variable that holds the key for it
    api_version: str | None = None  # the server is Azure's, and the name after the slash is a deployment
    tools: bool | None = None  # False: the model supports no tools, and gets none
    web_search: bool | None = None  # whether its service searches the web; None: as is known of the service


class ProblemKind(StrEnum):
    BROKEN = "broken"  # a file, or an entry of it
    WARNING = "warning"  # a part of an entry; nothing is lost, since its strict reading is in force
    UNKNOWN = "unknown"  # an unknown key
    UNTRUSTED = "untrusted"  # needs the user's trust in this folder
    NOT_ITS_OWN = "not its own"  # a project may not set this, trusted or not
    UNSUPPORTED = "unsupported"  # a key of Claude Code that has no effect here
    REFUSED = "refused"  # a restriction that we cannot enforce: it stops the start, where it counts


TRUST_HINT = ". Run 'mainspring trust' to trust it"  # ends each problem of kind UNTRUSTED; a start prints it once


class SettingsProblem(Value):
    """A setting that is not used, and why. Never quotes a file beyond the names of keys."""

    kind: ProblemKind
    place: str
    says: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.place}{at}: {self.says}"


class EffectiveSetting(Value):
    """An effective value, for people."""

    name: str
    shown: str
    origin: SettingOrigin


class PermissionSettings(Value):
    allow: tuple[SettingEntry, ...] = ()
    deny: tuple[SettingEntry, ...] = ()
    ask: tuple[SettingEntry, ...] = ()
    directories: tuple[SettingEntry, ...] = ()  # as written; relative ones are relative to the working folder
    default_mode: str | None = None
    bypass_disabled: bool = False
    auto_disabled: str = ""  # the key that switches permission mode auto off
    asks_nobody: bool = False  # calls that would be asked are denied
    managed_only: bool = False  # only the administrator's allow rules count


class ApiSettings(Value):
    base_url: str | None = None
    key_helper: str | None = None
    key_lifetime: int | None = None  # seconds that a key of the helper is used
    max_cost: int | None = None  # nano-dollars per session
    max_retries: int | None = None
    retry: str | None = None  # 'default' or 'unattended'


class LimitSettings(Value):
    max_turns: int | None = None
    max_tokens: int | None = None
    max_output_tokens: int | None = None


class SandboxOptions(Value):
    enabled: bool | None = None  # None: not set
    required: bool = False  # fail if it is not available
    auto_allow: bool = False
    may_be_left: bool = True  # whether a command may ask to run outside of it
    excluded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    denied_domains: tuple[SettingEntry, ...] = ()
    managed_domains_only: bool = False  # only the administrator's allowed domains count
    writable: tuple[SettingEntry, ...] = ()  # besides the working folders
    unreadable: tuple[SettingEntry, ...] = ()  # paths, as written
    read_only: tuple[SettingEntry, ...] = ()


class FeatureSettings(Value):
    """Features that can be switched off, and some that are off by default (O-10)."""

    auto_compact: bool = True
    reactive_compact: bool = True  # a summary after the server said "too long"
    snip: bool = True
    microcompact: bool = True
    collapse: bool = True
    siblings: str = "isolate"  # or 'cascade': a failed command cancels those after it
    streaming_tools: bool = True  # safe calls start while the model is still replying
    server_clearing: bool = False  # the API itself clears old results (D-14)
    auto_memory: bool = True  # notes for later sessions, in interactive sessions,
    suggestions: bool = True  # and suggestions for the next prompt: one request for both
    tool_use_summaries: bool = False  # one line about each batch of tool calls, by the small model (B-31)


class McpEntry(Value):
    """A server as written in a file; its shape was checked (`settings/mcp_servers.py`)."""

    name: str
    entry: dict[str, object]
    origin: SettingOrigin


class McpServerMatch(Value):
    """An entry of `allowedMcpServers` or `deniedMcpServers`; one of the three is set."""

    name: str = ""
    command: tuple[str, ...] = ()  # with its arguments
    url: str = ""  # `*` matches anything


class McpServerList(Value):
    """One such list, and its origin."""

    matches: tuple[McpServerMatch, ...]
    origin: SettingOrigin


class McpServer(Value):
    """A server that can be started: its variables are expanded."""

    name: str
    kind: str  # stdio, http, sse or sdk
    origin: SettingOrigin
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    by_host: bool = False  # the program that embeds us names it, so it starts in the working directory, trusted or not


class McpSettings(Value):
    """Servers of the user's side, and which of a project's own (`.mcp.json`) may start where it is trusted."""

    servers: tuple[McpEntry, ...] = ()
    enable_all: bool = False
    enabled: tuple[str, ...] = ()  # if there are any: only these
    disabled: tuple[str, ...] = ()
    allowed: tuple[McpServerList, ...] | None = None  # of the user's side, combined; None: every server
    narrowed: tuple[McpServerList, ...] = ()  # of projects: each of them must allow a server, too
    denied: tuple[McpServerList, ...] = ()


class ModelRules(Value):
    """Which models may be used. Entries are names, beginnings of names, or families, such as `opus`."""

    available: tuple[str, ...] | None = None  # None: all
    narrowed: tuple[tuple[str, ...], ...] = ()  # of projects: each of them must have it, too
    denied: tuple[str, ...] = ()
    exact: bool = False
    default_too: bool = False  # the default must be available, too
    places: tuple[str, ...] = ()  # files that set it, for messages


class Settings(Value):
    permissions: PermissionSettings = PermissionSettings()
    api: ApiSettings = ApiSettings()
    limits: LimitSettings = LimitSettings()
    sandbox: SandboxOptions = SandboxOptions()
    mcp: McpSettings = McpSettings()
    features: FeatureSettings = FeatureSettings()
    hooks: tuple[HookSetting, ...] = ()
    only_managed_hooks: bool = False  # no hooks but the administrator's
    env: dict[str, str] = field(default_factory=dict)  # for the commands that tools run
    own_env: dict[str, str] = field(default_factory=dict)  # for mainspring itself, too: from the user's side only
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    model_rules: ModelRules = ModelRules()
    output_style: str | None = None
    checkpoints: bool | None = None  # of files; False: in no front end
    status_line: str | None = None  # a command
    notifications: str = ""  # the channel, as Claude Code names it; empty: by the terminal
    theme: str = "auto"  # colours of the terminal
    editor_mode: str = "normal"  # of the input: normal, vim
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
