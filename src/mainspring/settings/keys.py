"""The table of all settings keys: the type of each, how layers combine, and who may set it (security T1, T2).

`defaultMode` (as JSON users write it) and `default_mode` (as TOML users do) are the same key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, cast

from mainspring import settings
from mainspring.core.money import NANOS_PER_USD
from mainspring.settings.claude_code_keys import CLAUDE_CODE_KEYS, NOTHING_TO_RESTRICT, Support
from mainspring.settings.values import McpServerMatch, ModelEntry, SettingsSource
from mainspring.text import suggest_near_name

MODES = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
OTHER_MODE_NAMES = {"manual": "default"}  # Z-31
EFFORTS = ("low", "medium", "high", "xhigh", "max")
LONGEST_TEXT = 16_384


class InvalidSetting(Exception):  # noqa: N818  # it reads as what it says
    """A value that its key does not accept. `path` leads to it from the key. `in_force`: nothing is lost, since its
    strict reading is used. `is_detail`: the rest of the value is used, and that is enough.
    """

    def __init__(self, says: str, *path: str | int, in_force: bool = False, is_detail: bool = False) -> None:
        super().__init__(says)
        self.says, self.path, self.in_force, self.is_detail = says, path, in_force, is_detail


class MergeRule(Enum):
    OVERRIDE = auto()  # the later layer wins
    ADD = auto()  # all of them, in order
    BY_NAME = auto()  # the later layer wins for each name
    LEAST = auto()  # a limit: files of a project can only lower it, and no layer exceeds the administrator's


class SettingAuthority(Enum):
    """The weakest source that may set a key."""

    UNTRUSTED = auto()  # any project: it only restricts
    PROJECT = auto()  # a project that the user trusts
    USER = auto()  # the user, the command line, the administrator (security T2)
    ADMINISTRATOR = auto()


class CheckedValue(NamedTuple):
    """The valid part of a value, and the problems of the rest."""

    value: object
    wrong: tuple[InvalidSetting, ...] = ()


Check = Callable[[object], CheckedValue]


class SettingKey(NamedTuple):
    name: str
    check: Check
    by: SettingAuthority = SettingAuthority.PROJECT
    merge: MergeRule = MergeRule.OVERRIDE
    users_own: tuple[object, ...] = ()  # values that only the user's side may choose, though a project may set the key
    must_hold: bool = False  # it restricts: an invalid value stops the start, and so does a broken file
    if_wrong: object = None  # replaces a wrong value if ignoring it could grant more rights


def may_set(key: SettingKey, source: SettingsSource) -> bool:
    """Whether this source may set a key, trusted or not."""
    if key.by is SettingAuthority.ADMINISTRATOR:
        return source is SettingsSource.ADMINISTRATOR
    return key.by is not SettingAuthority.USER or not source.is_project


# --- checks of values -------------------------------------------------------------------------------


def check_text(value: object) -> CheckedValue:
    if not isinstance(value, str):
        raise InvalidSetting("it must be a string")
    if len(value) > LONGEST_TEXT or "\0" in value:
        raise InvalidSetting(f"it must have at most {LONGEST_TEXT:,} characters and no NUL character")
    return CheckedValue(value)


def yes_or_no(value: object) -> CheckedValue:
    if not isinstance(value, bool):
        raise InvalidSetting("it must be true or false")
    return CheckedValue(value)


def check_count(value: object) -> CheckedValue:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**53:
        raise InvalidSetting("it must be an integer of at least 1")
    return CheckedValue(value)


def count_or_none(value: object) -> CheckedValue:
    return CheckedValue(0) if value == 0 and not isinstance(value, bool) else check_count(value)


def check_amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise InvalidSetting("it must be a number greater than 0")
    return float(value)


def amount_or_none(value: object) -> float:
    """May be 0: a model on your own machine costs nothing."""
    return 0.0 if value == 0 and not isinstance(value, bool) else check_amount(value)


def check_dollars(value: object) -> CheckedValue:
    """In nano-dollars, as all money here."""
    return CheckedValue(max(1, round(min(check_amount(value), 1e9) * NANOS_PER_USD)))


class OneOf:
    """A check for one of these words."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def __call__(self, value: object) -> CheckedValue:
        if value not in self.words:
            near = suggest_near_name(str(value), self.words)
            raise InvalidSetting(f"it must be one of {', '.join(self.words)}{near}")
        return CheckedValue(value)


def one_of(*words: str) -> Check:
    return OneOf(words)


# How `cli/tui/theme.py` names them; the last two are names of Claude Code.
THEMES = (
    "auto", "dark", "light", "dark-daltonized", "light-daltonized", "ansi", "none", "dark-ansi", "light-ansi",
)  # fmt: skip


# Of the input; 'emacs' is another name of 'normal'.
EDITOR_MODES = ("normal", "vim", "emacs")


def check_mode(value: object) -> CheckedValue:
    return one_of(*MODES)(OTHER_MODE_NAMES.get(value, value) if isinstance(value, str) else value)


def check_texts(value: object) -> CheckedValue:
    """A list. Elements that are not strings are left out, the rest is used."""
    if not isinstance(value, list):
        raise InvalidSetting("it must be a list of strings")
    good: list[object] = []
    wrong: list[InvalidSetting] = []
    for number, item in enumerate(cast("list[object]", value)):
        try:
            good.append(check_text(item).value)
        except InvalidSetting as error:
            wrong.append(InvalidSetting(error.says, number))
    return CheckedValue(tuple(good), tuple(wrong))


def check_narrowing_rules(value: object) -> CheckedValue:
    """Rules that restrict. A single rule without a list is accepted."""
    if isinstance(value, str):
        return CheckedValue(
            check_texts([value]).value, (InvalidSetting("it must be a list of strings; it is used as its only entry"),)
        )
    return check_texts(value)


def check_rules(value: object) -> CheckedValue:
    """Checks each entry by itself: invalid rules are reported, and the others are used."""
    found = check_narrowing_rules(value)
    return CheckedValue(
        found.value, tuple([InvalidSetting(wrong.says, *wrong.path, is_detail=True) for wrong in found.wrong])
    )


def check_each_text(spelling: re.Pattern[str], says: str) -> Check:
    """A list of texts that restrict: one that could never match anything is wrong."""

    def check(value: object) -> CheckedValue:
        found = check_narrowing_rules(value)
        items = cast("tuple[str, ...]", found.value)
        odd = [InvalidSetting(says, at) for at, item in enumerate(items) if not spelling.fullmatch(item)]
        return CheckedValue(found.value, (*found.wrong, *odd))

    return check


sandbox_paths = check_each_text(
    re.compile(r"(?!~[^/]|\$)[^\x00-\x1f]+"), "it must be a path: absolute, relative, or from your home as in '~/x'"
)
domain_names = check_each_text(
    re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)*\.?|\*|[\d.]+|\[?[0-9a-fA-F:]+\]?"),
    "it must be a domain, such as 'example.com' or '*.example.com', without scheme, port and path",
)
model_names = check_each_text(
    re.compile(r"[\w.:/@\[\]-]+"), "it must be a model name, the beginning of one, or a family such as 'opus'"
)


def text_or_texts(value: object) -> CheckedValue:
    return check_texts([value] if isinstance(value, str) else value)


def check_table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidSetting("it must be a table of names and values")
    return cast("dict[str, object]", value)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_environment(value: object) -> CheckedValue:
    """Converts numbers and true/false to text."""
    good: dict[str, str] = {}
    wrong: list[InvalidSetting] = []
    for name, item in check_table(value).items():
        try:
            if not _VARIABLE.fullmatch(name):
                raise InvalidSetting("it is not a valid variable name")
            spelled = str(item).lower() if isinstance(item, bool) else str(item) if isinstance(item, int) else item
            good[name] = cast("str", check_text(spelled).value)
        except InvalidSetting as error:
            wrong.append(InvalidSetting(error.says, name))
    return CheckedValue(good, tuple(wrong))


def check_hooks(value: object) -> CheckedValue:
    from mainspring.settings.hook_entries import check_hooks  # loaded only for files with hooks

    return check_hooks(value)


def status_line(value: object) -> CheckedValue:
    line = check_table(value)
    command = line.get("command")
    if line.get("type") != "command" or not isinstance(command, str) or not command:
        raise InvalidSetting("it must have the type 'command' and a string 'command'")
    return CheckedValue(command)


def check_models(value: object) -> CheckedValue:
    good: dict[str, ModelEntry] = {}
    wrong: list[InvalidSetting] = []
    for name, item in check_table(value).items():
        try:
            good[name] = _model(name, check_table(item))
        except InvalidSetting as error:
            wrong.append(InvalidSetting(error.says, name, *error.path))
    return CheckedValue(good, tuple(wrong))


def _model(name: str, entry: dict[str, object]) -> ModelEntry:
    checks: dict[str, Callable[[object], object]] = {
        "window": lambda value: check_count(value).value,
        "max_output": lambda value: check_count(value).value,
        "input_usd": amount_or_none,
        "output_usd": amount_or_none,
        "base_url": lambda value: check_text(value).value,
        "protocol": lambda value: one_of("chat", "responses", "anthropic")(value).value,
        "key_env": lambda value: check_text(value).value,
        "api_version": lambda value: check_text(value).value,
        "tools": lambda value: yes_or_no(value).value,
        "web_search": lambda value: yes_or_no(value).value,
    }
    fields: dict[str, object] = {}
    for field, value in entry.items():
        if to_snake_case(field) not in checks:
            raise InvalidSetting(f"its fields are {', '.join(checks)}{suggest_near_name(field, tuple(checks))}", field)
        try:
            fields[to_snake_case(field)] = checks[to_snake_case(field)](value)
        except InvalidSetting as error:
            raise InvalidSetting(error.says, field) from None
    return ModelEntry(name, **fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked above


def mcp_servers(value: object) -> CheckedValue:
    return settings.check_mcp_entries(value)


def managed_mcp_servers(value: object) -> CheckedValue:
    return settings.check_mcp_entries(value, ("http", "sse"))


MATCHES = ("serverName", "serverCommand", "serverUrl")


def mcp_server_matches(value: object) -> CheckedValue:
    """Entries with one of `MATCHES`. In a list that restricts, a wrong entry is no detail: the whole list is wrong."""
    if not isinstance(value, list):
        raise InvalidSetting(f"it must be a list of tables, each with one of {', '.join(MATCHES)}")
    return CheckedValue(tuple([_server_match(item, at) for at, item in enumerate(cast("list[object]", value))]))


def _server_match(value: object, at: int) -> McpServerMatch:
    try:
        entry = check_table(value)
        if len(entry) != 1 or not set(entry) <= {*MATCHES}:
            raise InvalidSetting(f"it must have exactly one of {', '.join(MATCHES)}")
        if "serverCommand" in entry:
            words = check_texts(entry["serverCommand"])
            if words.wrong or not words.value:
                raise InvalidSetting("it must be a list of strings: the command, then its arguments", "serverCommand")
            return McpServerMatch(command=cast("tuple[str, ...]", words.value))
        name, said = next(iter(entry.items()))
        if not isinstance(said, str) or not said.strip():
            raise InvalidSetting("it must be a string", name)
        return McpServerMatch(name=said) if name == "serverName" else McpServerMatch(url=said)
    except InvalidSetting as error:
        raise InvalidSetting(error.says, at, *error.path) from None


SKILL_STATES = ("on", "name-only", "user-invocable-only", "off")  # the later one hides more


def skill_states(value: object) -> CheckedValue:
    for name, state in check_table(value).items():
        if state not in SKILL_STATES:
            raise InvalidSetting(f"it must be one of {', '.join(SKILL_STATES)}", name)
    return CheckedValue(value)


# --- the table --------------------------------------------------------------------------------------

KEYS: tuple[SettingKey, ...] = (
    SettingKey("permissions.deny", check_rules, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("permissions.ask", check_rules, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("permissions.allow", check_texts, SettingAuthority.PROJECT, MergeRule.ADD),
    SettingKey("permissions.additionalDirectories", check_texts, SettingAuthority.PROJECT, MergeRule.ADD),
    SettingKey("permissions.defaultMode", check_mode, users_own=("bypassPermissions", "auto"), if_wrong="default"),
    SettingKey(
        "permissions.disableBypassPermissionsMode", one_of("disable"), SettingAuthority.UNTRUSTED, must_hold=True
    ),
    SettingKey("permissions.disableAutoMode", one_of("disable"), SettingAuthority.UNTRUSTED, must_hold=True),
    SettingKey("permissions.denyInsteadOfPrompting", yes_or_no, SettingAuthority.USER, must_hold=True),
    SettingKey("disableAutoMode", one_of("disable"), SettingAuthority.UNTRUSTED, must_hold=True),
    SettingKey("autoMode.hard_deny", check_narrowing_rules, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("autoMode.soft_deny", check_narrowing_rules, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("autoMode.classifyAllShell", yes_or_no, SettingAuthority.UNTRUSTED, users_own=(False,), must_hold=True),
    SettingKey("allowManagedPermissionRulesOnly", yes_or_no, SettingAuthority.ADMINISTRATOR, must_hold=True),
    SettingKey("hooks", check_hooks, SettingAuthority.PROJECT, MergeRule.ADD),
    SettingKey(
        "disableAllHooks", yes_or_no, SettingAuthority.USER, must_hold=True
    ),  # the user's hooks may be what restricts a project
    SettingKey("allowManagedHooksOnly", yes_or_no, SettingAuthority.ADMINISTRATOR, must_hold=True),
    SettingKey("env", check_environment, SettingAuthority.PROJECT, MergeRule.BY_NAME),
    SettingKey("statusLine", status_line),
    SettingKey("model", check_text),
    SettingKey("fallbackModel", text_or_texts),
    SettingKey("availableModels", model_names, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey(
        "availableModelsMatch",
        one_of("prefix", "exact"),
        SettingAuthority.UNTRUSTED,
        users_own=("prefix",),
        must_hold=True,
    ),
    SettingKey("enforceAvailableModels", yes_or_no, SettingAuthority.UNTRUSTED, users_own=(False,), must_hold=True),
    SettingKey("deniedModels", model_names, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey(
        "models", check_models, SettingAuthority.USER, MergeRule.BY_NAME
    ),  # prices: a low one would defeat a cost limit
    SettingKey("effortLevel", one_of(*EFFORTS)),
    SettingKey(
        "maxEffortLevel", one_of(*EFFORTS), SettingAuthority.UNTRUSTED, must_hold=True
    ),  # the lowest of all counts
    SettingKey("alwaysThinkingEnabled", yes_or_no),
    SettingKey("maxThinkingTokens", count_or_none),
    SettingKey("outputStyle", check_text),
    SettingKey("fileCheckpointingEnabled", yes_or_no, users_own=(False,)),
    SettingKey("claudeMdExcludes", check_texts, SettingAuthority.PROJECT, MergeRule.ADD),
    SettingKey("skillOverrides", skill_states, SettingAuthority.UNTRUSTED, MergeRule.BY_NAME, must_hold=True),
    SettingKey("cleanupPeriodDays", check_count, SettingAuthority.USER),
    SettingKey("api.baseUrl", check_text, SettingAuthority.USER),
    SettingKey("apiKeyHelper", check_text, SettingAuthority.USER),
    SettingKey("api.keyLifetimeSeconds", check_count, SettingAuthority.USER),
    SettingKey("api.maxCostUsd", check_dollars, merge=MergeRule.LEAST, must_hold=True),
    SettingKey("api.maxRetries", count_or_none, merge=MergeRule.LEAST),
    SettingKey("api.retry", one_of("default", "unattended")),
    SettingKey("limits.maxTurns", check_count, merge=MergeRule.LEAST, must_hold=True),
    SettingKey("limits.maxTokens", check_count, merge=MergeRule.LEAST, must_hold=True),
    SettingKey("limits.maxOutputTokens", check_count, merge=MergeRule.LEAST, must_hold=True),
    SettingKey("sandbox.enabled", yes_or_no, users_own=(False,)),
    SettingKey("sandbox.failIfUnavailable", yes_or_no, users_own=(False,), must_hold=True),
    SettingKey("sandbox.allowUnsandboxedCommands", yes_or_no, users_own=(True,), must_hold=True),
    SettingKey("sandbox.autoAllowBashIfSandboxed", yes_or_no, users_own=(True,)),
    SettingKey("sandbox.excludedCommands", check_texts, SettingAuthority.USER, MergeRule.ADD),
    SettingKey("sandbox.network.allowedDomains", check_texts, SettingAuthority.USER, MergeRule.ADD),
    SettingKey(
        "sandbox.network.deniedDomains", domain_names, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True
    ),
    SettingKey("sandbox.network.allowManagedDomainsOnly", yes_or_no, SettingAuthority.ADMINISTRATOR, must_hold=True),
    SettingKey("sandbox.filesystem.allowWrite", check_texts, SettingAuthority.USER, MergeRule.ADD),
    SettingKey("sandbox.filesystem.denyRead", sandbox_paths, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey(
        "sandbox.filesystem.denyWrite", sandbox_paths, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True
    ),
    SettingKey("webSearch.command", check_text, SettingAuthority.USER),
    SettingKey("autoCompactEnabled", yes_or_no),
    SettingKey("autoMemoryEnabled", yes_or_no),
    SettingKey("promptSuggestionEnabled", yes_or_no),
    SettingKey("preferredNotifChannel", check_text),
    SettingKey("theme", one_of(*THEMES)),
    SettingKey("editorMode", one_of(*EDITOR_MODES)),
    SettingKey("features.reactiveCompact", yes_or_no),
    SettingKey("features.snip", yes_or_no),
    SettingKey("features.microcompact", yes_or_no),
    SettingKey("features.collapse", yes_or_no),
    SettingKey("features.streamingTools", yes_or_no),
    SettingKey("features.serverClearing", yes_or_no),
    SettingKey("features.toolUseSummaries", yes_or_no),
    SettingKey("features.siblings", one_of("isolate", "cascade")),
    SettingKey(
        "mcpServers", mcp_servers, SettingAuthority.USER, MergeRule.BY_NAME
    ),  # a project uses '.mcp.json' instead
    SettingKey("enableAllProjectMcpServers", yes_or_no, SettingAuthority.USER),
    SettingKey("enabledMcpjsonServers", check_texts, SettingAuthority.USER, MergeRule.ADD, must_hold=True),
    SettingKey("disabledMcpjsonServers", check_texts, SettingAuthority.PROJECT, MergeRule.ADD, must_hold=True),
    SettingKey("allowedMcpServers", mcp_server_matches, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("deniedMcpServers", mcp_server_matches, SettingAuthority.UNTRUSTED, MergeRule.ADD, must_hold=True),
    SettingKey("allowManagedMcpServersOnly", yes_or_no, SettingAuthority.ADMINISTRATOR, must_hold=True),
    SettingKey("managedMcpServers", managed_mcp_servers, SettingAuthority.ADMINISTRATOR, MergeRule.BY_NAME),
    SettingKey("disableSideloadFlags", yes_or_no, SettingAuthority.USER, must_hold=True),
)

# Keys of Claude Code that we do not have: see `claude_code_keys.py`. Those that need no support are accepted.
NOT_OURS = frozenset(
    key.name for key in CLAUDE_CODE_KEYS if key.support is not Support.HONOURED or key.name in NOTHING_TO_RESTRICT
)

# Variables by which we and similar programs find the provider, its keys or the way there (security T2): a project
# cannot set them.
OUR_VARIABLES = re.compile(
    r"(?i)(ANTHROPIC|OPENAI|MAINSPRING|CLAUDE|VERTEX)_.*|CLAUDECODE|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)"
    r"|SSLKEYLOGFILE|NODE_EXTRA_CA_CERTS|AWS_BEARER_TOKEN_BEDROCK|IS_SANDBOX|MAX_THINKING_TOKENS"
)


def to_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: "_" + letter[0].lower(), name)


BY_NAME = {key.name: key for key in KEYS}
SPELLINGS = {spelled: name for name in (*BY_NAME, *NOT_OURS) for spelled in (name, to_snake_case(name))}
TABLES = {
    spelled: ".".join(name.split(".")[:depth])
    for name in SPELLINGS.values()
    for depth in range(1, name.count(".") + 1)
    for spelled in (".".join(name.split(".")[:depth]), to_snake_case(".".join(name.split(".")[:depth])))
}
