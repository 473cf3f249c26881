"""Every key there is: one table. What it must be, how layers combine, and who may set it (security T1, T2).

JSON users write `defaultMode`, TOML users `default_mode`; both are one key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, cast

from mainspring.core.money import NANOS_PER_USD
from mainspring.settings.claude_code_keys import CLAUDE_CODE_KEYS, NOTHING_TO_RESTRICT, Support
from mainspring.settings.near import near
from mainspring.settings.values import McpServerMatch, ModelEntry, Source

MODES = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
OTHER_MODE_NAMES = {"manual": "default"}  # Z-31
EFFORTS = ("low", "medium", "high", "xhigh", "max")
LONGEST_TEXT = 16_384


class Wrong(Exception):  # noqa: N818  # it reads as what it says
    """A value that is not what its key takes. `path` leads to it from the key. `in_force`: nothing is lost by it, since
    its strict reading is used. `is_detail`: the rest of the value holds, and that is enough."""

    def __init__(self, says: str, *path: str | int, in_force: bool = False, is_detail: bool = False) -> None:
        super().__init__(says)
        self.says, self.path, self.in_force, self.is_detail = says, path, in_force, is_detail


class Merge(Enum):
    OVERRIDE = auto()  # the later layer wins
    ADD = auto()  # all of them, in order
    BY_NAME = auto()  # the later layer wins for each name
    LEAST = auto()  # a limit: files of a project can only lower it, and nobody is above the administrator's


class By(Enum):
    """Who may set a key, at the least."""

    UNTRUSTED = auto()  # any project: it only takes rights away
    PROJECT = auto()  # a project that the user trusts
    USER = auto()  # the user, the command line, the administrator (security T2)
    ADMINISTRATOR = auto()


class Checked(NamedTuple):
    """What is left of a value: the good part, and what was wrong with the rest."""

    value: object
    wrong: tuple[Wrong, ...] = ()


Check = Callable[[object], Checked]


class Key(NamedTuple):
    name: str
    check: Check
    by: By = By.PROJECT
    merge: Merge = Merge.OVERRIDE
    users_own: tuple[object, ...] = ()  # values that only the user's side may choose, though a project may set the key
    must_hold: bool = False  # it restricts: a value that cannot be read stops the start, and so does a broken file
    if_wrong: object = None  # what counts instead of a wrong value, where ignoring it could give more rights


def may_set(key: Key, source: Source) -> bool:
    """Whether this side has a say in a key, trusted or not."""
    if key.by is By.ADMINISTRATOR:
        return source is Source.ADMINISTRATOR
    return key.by is not By.USER or not source.is_project


# --- what a value must be ---------------------------------------------------------------------------


def text(value: object) -> Checked:
    if not isinstance(value, str):
        raise Wrong("it must be a text")
    if len(value) > LONGEST_TEXT or "\0" in value:
        raise Wrong(f"it must have at most {LONGEST_TEXT:,} characters, and no NUL")
    return Checked(value)


def yes_or_no(value: object) -> Checked:
    if not isinstance(value, bool):
        raise Wrong("it must be true or false")
    return Checked(value)


def count(value: object) -> Checked:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**53:
        raise Wrong("it must be a whole number from 1 up")
    return Checked(value)


def count_or_none(value: object) -> Checked:
    return Checked(0) if value == 0 and not isinstance(value, bool) else count(value)


def amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise Wrong("it must be a number above 0")
    return float(value)


def amount_or_none(value: object) -> float:
    """A model on one's own machine costs nothing."""
    return 0.0 if value == 0 and not isinstance(value, bool) else amount(value)


def dollars(value: object) -> Checked:
    """In nano-dollars, as all money here."""
    return Checked(max(1, round(min(amount(value), 1e9) * NANOS_PER_USD)))


def one_of(*words: str) -> Check:
    def check(value: object) -> Checked:
        if value not in words:
            raise Wrong(f"it must be one of {', '.join(words)}{near(str(value), words)}")
        return Checked(value)

    return check


def mode(value: object) -> Checked:
    return one_of(*MODES)(OTHER_MODE_NAMES.get(value, value) if isinstance(value, str) else value)


def texts(value: object) -> Checked:
    """A list. What is no text in it is left out, the rest holds."""
    if not isinstance(value, list):
        raise Wrong("it must be a list of texts")
    good: list[object] = []
    wrong: list[Wrong] = []
    for number, item in enumerate(cast("list[object]", value)):
        try:
            good.append(text(item).value)
        except Wrong as error:
            wrong.append(Wrong(error.says, number))
    return Checked(tuple(good), tuple(wrong))


def narrowing(value: object) -> Checked:
    """Rules that take rights away. One that stands alone, without its list, is meant all the same."""
    if isinstance(value, str):
        return Checked(texts([value]).value, (Wrong("it must be a list of texts; the one text that it is holds"),))
    return texts(value)


def rules(value: object) -> Checked:
    """Each entry by itself: what is no rule is named, and the others hold."""
    found = narrowing(value)
    return Checked(found.value, tuple([Wrong(wrong.says, *wrong.path, is_detail=True) for wrong in found.wrong]))


def each(spelling: re.Pattern[str], says: str) -> Check:
    """A list of texts that restrict: one that could never match anything is wrong."""

    def check(value: object) -> Checked:
        found = narrowing(value)
        items = cast("tuple[str, ...]", found.value)
        odd = [Wrong(says, at) for at, item in enumerate(items) if not spelling.fullmatch(item)]
        return Checked(found.value, (*found.wrong, *odd))

    return check


sandbox_paths = each(
    re.compile(r"(?!~[^/]|\$)[^\x00-\x1f]+"), "it must be a path: absolute, relative, or from your home as in '~/x'"
)
domain_names = each(
    re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)*\.?|\*|[\d.]+|\[?[0-9a-fA-F:]+\]?"),
    "it must be a domain, such as 'example.com' or '*.example.com', without scheme, port and path",
)
model_names = each(
    re.compile(r"[\w.:/@\[\]-]+"), "it must be a model's name, the beginning of one, or a family such as 'opus'"
)


def text_or_texts(value: object) -> Checked:
    return texts([value] if isinstance(value, str) else value)


def table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise Wrong("it must be a table: names with values")
    return cast("dict[str, object]", value)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def environment(value: object) -> Checked:
    """Numbers and true/false are taken as people mean them."""
    good: dict[str, str] = {}
    wrong: list[Wrong] = []
    for name, item in table(value).items():
        try:
            if not _VARIABLE.fullmatch(name):
                raise Wrong("it is no name for a variable")
            spelled = str(item).lower() if isinstance(item, bool) else str(item) if isinstance(item, int) else item
            good[name] = cast("str", text(spelled).value)
        except Wrong as error:
            wrong.append(Wrong(error.says, name))
    return Checked(good, tuple(wrong))


def hooks(value: object) -> Checked:
    from mainspring.settings.hook_entries import check_hooks  # who has none does not pay for it

    return check_hooks(value)


def status_line(value: object) -> Checked:
    line = table(value)
    command = line.get("command")
    if line.get("type") != "command" or not isinstance(command, str) or not command:
        raise Wrong("it must have the type 'command' and a text 'command'")
    return Checked(command)


def models(value: object) -> Checked:
    good: dict[str, ModelEntry] = {}
    wrong: list[Wrong] = []
    for name, item in table(value).items():
        try:
            good[name] = _model(name, table(item))
        except Wrong as error:
            wrong.append(Wrong(error.says, name, *error.path))
    return Checked(good, tuple(wrong))


def _model(name: str, entry: dict[str, object]) -> ModelEntry:
    checks: dict[str, Callable[[object], object]] = {
        "window": lambda value: count(value).value,
        "max_output": lambda value: count(value).value,
        "input_usd": amount_or_none,
        "output_usd": amount_or_none,
        "base_url": lambda value: text(value).value,
        "protocol": lambda value: one_of("chat", "responses", "anthropic")(value).value,
        "key_env": lambda value: text(value).value,
        "api_version": lambda value: text(value).value,
        "tools": lambda value: yes_or_no(value).value,
    }
    fields: dict[str, object] = {}
    for field, value in entry.items():
        if snake(field) not in checks:
            raise Wrong(f"its fields are {', '.join(checks)}{near(field, tuple(checks))}", field)
        try:
            fields[snake(field)] = checks[snake(field)](value)
        except Wrong as error:
            raise Wrong(error.says, field) from None
    return ModelEntry(name, **fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked above


def mcp_servers(value: object) -> Checked:
    from mainspring.settings.mcp import entries  # who has none does not pay for it

    return entries(value)


def managed_mcp_servers(value: object) -> Checked:
    from mainspring.settings.mcp import entries

    return entries(value, ("http", "sse"))


MATCHES = ("serverName", "serverCommand", "serverUrl")


def mcp_server_matches(value: object) -> Checked:
    """Entries with one of `MATCHES`. In a list that restricts, a wrong entry is no detail: the whole list is wrong."""
    if not isinstance(value, list):
        raise Wrong(f"it must be a list of tables, each with one of {', '.join(MATCHES)}")
    return Checked(tuple([_server_match(item, at) for at, item in enumerate(cast("list[object]", value))]))


def _server_match(value: object, at: int) -> McpServerMatch:
    try:
        entry = table(value)
        if len(entry) != 1 or not set(entry) <= {*MATCHES}:
            raise Wrong(f"it must have exactly one of {', '.join(MATCHES)}")
        if "serverCommand" in entry:
            words = texts(entry["serverCommand"])
            if words.wrong or not words.value:
                raise Wrong("it must be a list of texts: the command, then its arguments", "serverCommand")
            return McpServerMatch(command=cast("tuple[str, ...]", words.value))
        name, said = next(iter(entry.items()))
        if not isinstance(said, str) or not said.strip():
            raise Wrong("it must be a text", name)
        return McpServerMatch(name=said) if name == "serverName" else McpServerMatch(url=said)
    except Wrong as error:
        raise Wrong(error.says, at, *error.path) from None


SKILL_STATES = ("on", "name-only", "user-invocable-only", "off")  # the later one takes more away


def skill_states(value: object) -> Checked:
    for name, state in table(value).items():
        if state not in SKILL_STATES:
            raise Wrong(f"it must be one of {', '.join(SKILL_STATES)}", name)
    return Checked(value)


# --- the table --------------------------------------------------------------------------------------

KEYS: tuple[Key, ...] = (
    Key("permissions.deny", rules, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("permissions.ask", rules, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("permissions.allow", texts, By.PROJECT, Merge.ADD),
    Key("permissions.additionalDirectories", texts, By.PROJECT, Merge.ADD),
    Key("permissions.defaultMode", mode, users_own=("bypassPermissions", "auto"), if_wrong="default"),
    Key("permissions.disableBypassPermissionsMode", one_of("disable"), By.UNTRUSTED, must_hold=True),
    Key("permissions.disableAutoMode", one_of("disable"), By.UNTRUSTED, must_hold=True),
    Key("permissions.denyInsteadOfPrompting", yes_or_no, By.USER, must_hold=True),
    Key("disableAutoMode", one_of("disable"), By.UNTRUSTED, must_hold=True),
    Key("autoMode.hard_deny", narrowing, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("autoMode.soft_deny", narrowing, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("autoMode.classifyAllShell", yes_or_no, By.UNTRUSTED, users_own=(False,), must_hold=True),
    Key("allowManagedPermissionRulesOnly", yes_or_no, By.ADMINISTRATOR, must_hold=True),
    Key("hooks", hooks, By.PROJECT, Merge.ADD),
    Key("disableAllHooks", yes_or_no, By.USER, must_hold=True),  # the user's hooks may be what holds a project back
    Key("allowManagedHooksOnly", yes_or_no, By.ADMINISTRATOR, must_hold=True),
    Key("env", environment, By.PROJECT, Merge.BY_NAME),
    Key("statusLine", status_line),
    Key("model", text),
    Key("fallbackModel", text_or_texts),
    Key("availableModels", model_names, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("availableModelsMatch", one_of("prefix", "exact"), By.UNTRUSTED, users_own=("prefix",), must_hold=True),
    Key("enforceAvailableModels", yes_or_no, By.UNTRUSTED, users_own=(False,), must_hold=True),
    Key("deniedModels", model_names, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("models", models, By.USER, Merge.BY_NAME),  # prices: a low one would undo a money limit
    Key("effortLevel", one_of(*EFFORTS)),
    Key("maxEffortLevel", one_of(*EFFORTS), By.UNTRUSTED, must_hold=True),  # the lowest of all counts
    Key("alwaysThinkingEnabled", yes_or_no),
    Key("maxThinkingTokens", count_or_none),
    Key("outputStyle", text),
    Key("claudeMdExcludes", texts, By.PROJECT, Merge.ADD),
    Key("skillOverrides", skill_states, By.UNTRUSTED, Merge.BY_NAME, must_hold=True),
    Key("cleanupPeriodDays", count, By.USER),
    Key("api.baseUrl", text, By.USER),
    Key("apiKeyHelper", text, By.USER),
    Key("api.keyLifetimeSeconds", count, By.USER),
    Key("api.maxCostUsd", dollars, merge=Merge.LEAST, must_hold=True),
    Key("api.maxRetries", count_or_none, merge=Merge.LEAST),
    Key("limits.maxTurns", count, merge=Merge.LEAST, must_hold=True),
    Key("limits.maxTokens", count, merge=Merge.LEAST, must_hold=True),
    Key("limits.maxOutputTokens", count, merge=Merge.LEAST, must_hold=True),
    Key("sandbox.enabled", yes_or_no, users_own=(False,)),
    Key("sandbox.failIfUnavailable", yes_or_no, users_own=(False,), must_hold=True),
    Key("sandbox.allowUnsandboxedCommands", yes_or_no, users_own=(True,), must_hold=True),
    Key("sandbox.autoAllowBashIfSandboxed", yes_or_no, users_own=(True,)),
    Key("sandbox.excludedCommands", texts, By.USER, Merge.ADD),
    Key("sandbox.network.allowedDomains", texts, By.USER, Merge.ADD),
    Key("sandbox.network.deniedDomains", domain_names, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("sandbox.network.allowManagedDomainsOnly", yes_or_no, By.ADMINISTRATOR, must_hold=True),
    Key("sandbox.filesystem.allowWrite", texts, By.USER, Merge.ADD),
    Key("sandbox.filesystem.denyRead", sandbox_paths, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("sandbox.filesystem.denyWrite", sandbox_paths, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("webSearch.command", text, By.USER),
    Key("autoCompactEnabled", yes_or_no),
    Key("autoMemoryEnabled", yes_or_no),
    Key("promptSuggestionEnabled", yes_or_no),
    Key("preferredNotifChannel", text),
    Key("features.reactiveCompact", yes_or_no),
    Key("features.snip", yes_or_no),
    Key("features.microcompact", yes_or_no),
    Key("features.collapse", yes_or_no),
    Key("features.streamingTools", yes_or_no),
    Key("features.serverClearing", yes_or_no),
    Key("features.siblings", one_of("isolate", "cascade")),
    Key("mcpServers", mcp_servers, By.USER, Merge.BY_NAME),  # a project has '.mcp.json' for its own
    Key("enableAllProjectMcpServers", yes_or_no, By.USER),
    Key("enabledMcpjsonServers", texts, By.USER, Merge.ADD, must_hold=True),
    Key("disabledMcpjsonServers", texts, By.PROJECT, Merge.ADD, must_hold=True),
    Key("allowedMcpServers", mcp_server_matches, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("deniedMcpServers", mcp_server_matches, By.UNTRUSTED, Merge.ADD, must_hold=True),
    Key("allowManagedMcpServersOnly", yes_or_no, By.ADMINISTRATOR, must_hold=True),
    Key("managedMcpServers", managed_mcp_servers, By.ADMINISTRATOR, Merge.BY_NAME),
    Key("disableSideloadFlags", yes_or_no, By.USER, must_hold=True),
)

# What Claude Code has and we do not: see `claude_code_keys.py`. Theirs that need nothing done are accepted as they are.
NOT_OURS = frozenset(
    key.name for key in CLAUDE_CODE_KEYS if key.support is not Support.HONOURED or key.name in NOTHING_TO_RESTRICT
)

# Variables by which we and our like find the provider, its keys or the way there (security T2): a project cannot set
# them.
OUR_VARIABLES = re.compile(
    r"(?i)(ANTHROPIC|OPENAI|MAINSPRING|CLAUDE|VERTEX)_.*|CLAUDECODE|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)"
    r"|SSLKEYLOGFILE|NODE_EXTRA_CA_CERTS|AWS_BEARER_TOKEN_BEDROCK|IS_SANDBOX|MAX_THINKING_TOKENS"
)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: "_" + letter[0].lower(), name)


BY_NAME = {key.name: key for key in KEYS}
SPELLINGS = {spelled: name for name in (*BY_NAME, *NOT_OURS) for spelled in (name, snake(name))}
TABLES = {
    spelled: ".".join(name.split(".")[:depth])
    for name in SPELLINGS.values()
    for depth in range(1, name.count(".") + 1)
    for spelled in (".".join(name.split(".")[:depth]), snake(".".join(name.split(".")[:depth])))
}
