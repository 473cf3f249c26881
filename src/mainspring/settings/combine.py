"""Combines layers into settings: which layers count for a key, and how several values combine (security T1, T2, T4).

The order is that of `SettingsSource`: user, project, local, environment, command line, administrator; the later one
wins. The table of `keys.py` says how each key combines and who may set it; this module applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec.structs import replace

from mainspring.settings.effective import fill_effective
from mainspring.settings.keys import (
    BY_NAME,
    EFFORTS,
    OUR_VARIABLES,
    SKILL_STATES,
    MergeRule,
    SettingAuthority,
    SettingKey,
)
from mainspring.settings.layers import SettingsLayer, Values, environment_layers, file_layers, option_layer
from mainspring.settings.load import SettingsPaths
from mainspring.settings.values import (
    TRUST_HINT,
    ApiSettings,
    FeatureSettings,
    HookSetting,
    LimitSettings,
    McpEntry,
    McpServerList,
    McpServerMatch,
    McpSettings,
    ModelEntry,
    ModelRules,
    PermissionSettings,
    ProblemKind,
    SandboxOptions,
    SettingEntry,
    SettingOrigin,
    Settings,
    SettingsError,
    SettingsProblem,
    SettingsSource,
)

if TYPE_CHECKING:
    from mainspring.settings.hook_entries import RawHook
    from mainspring.settings.load import SettingsRequest

WIDE_MODES = ("acceptEdits", "auto", "bypassPermissions")  # they approve calls without asking


# Keys that an explicit source of the host loads without trust (settled 37). They grant no right by themselves.
BY_CONSENT = frozenset({"hooks", "outputStyle"})


def combine_settings(places: SettingsPaths, environ: Mapping[str, str], asked: SettingsRequest) -> Settings:
    """The settings that all layers combine to."""
    said, sources = asked.settings, asked.sources
    files = [*file_layers(places, sources)]
    layers = _in_order([*files, *([] if said is None else [option_layer(said, places.cwd, asked.spell("settings"))])])
    free = BY_CONSENT if asked.consented and sources is not None else frozenset[str]()
    believed, problems = _believed(layers, lambda: _is_trusted(places), free, asked)
    own_env = _env([layer for layer in believed if not layer.origin.source.is_project])
    variables = [*environment_layers({**environ, **own_env})]
    problems += [problem for layer in variables for problem in layer.problems]
    held = _Held([layer for layer in _in_order([*believed, *variables]) if layer.values])
    problems += [*_be_careful_beside_broken_files(held, files), *_overridden_servers(held)]
    return replace(_settings(held, own_env, tuple(problems)), written=tuple(_written(layers)))


def _is_trusted(places: SettingsPaths) -> bool:
    from mainspring.settings import trust  # only needed for a project with settings

    return trust.is_trusted(places.home, places.cwd)


def _in_order(layers: list[SettingsLayer]) -> list[SettingsLayer]:
    order = list(SettingsSource)
    return sorted(layers, key=lambda layer: order.index(layer.origin.source))


# --- which layers count -----------------------------------------------------------------------------


def _believed(
    layers: list[SettingsLayer], is_trusted: Callable[[], bool], free: frozenset[str], asked: SettingsRequest
) -> tuple[list[SettingsLayer], list[SettingsProblem]]:
    """Each layer without the keys that it may not set. Looks trust up once, and only if something depends on it. `free`
    are keys of a project that need no trust.
    """
    trusted: bool | None = None
    kept: list[SettingsLayer] = []
    problems: list[SettingsProblem] = []
    for layer in layers:
        problems += layer.problems
        values, not_its_own = _own_values(layer)
        problems += not_its_own
        if layer.refused:
            trusted = is_trusted() if trusted is None and layer.origin.source.is_project else trusted
            if layer.origin.source.is_project and trusted is False:
                values, refused = _without_refused(layer, values)
            else:
                refused = _stopping(layer, asked)
            problems += refused
        needs_trust = [
            name for name in values if BY_NAME[name].by is not SettingAuthority.UNTRUSTED and name not in free
        ]
        if layer.origin.source.is_project and needs_trust:
            trusted = is_trusted() if trusted is None else trusted
            if not trusted:
                problems.append(_untrusted(layer, needs_trust))
                values = {name: value for name, value in values.items() if name not in needs_trust}
        kept.append(layer._replace(values=values))
    return kept, problems


def _stopping(layer: SettingsLayer, asked: SettingsRequest) -> list[SettingsProblem]:
    """Restrictions that we cannot enforce stop the start (settled 38). With `shows_refused`: problems with advice."""
    way_out = _way_out(layer.origin.source, asked)
    if not asked.shows_refused:
        more = len(layer.refused) - 1
        others = f" ('mainspring config' names {more} more)" if more else ""
        raise SettingsError(f"{layer.refused[0].problem}{others}. mainspring did not start. {way_out}")
    return [replace(one.problem, says=f"{one.problem.says}. {way_out}") for one in layer.refused]


def _without_refused(layer: SettingsLayer, values: Values) -> tuple[Values, list[SettingsProblem]]:
    """An untrusted folder cannot stop the start: the tools that it restricts are denied instead (settled 38)."""
    problems: list[SettingsProblem] = []
    for problem, off in layer.refused:
        without = f", so this session has no {', '.join(off)}" if off else ""
        problems.append(replace(problem, says=f"{problem.says}{without}"))
    tools = [tool for refused in layer.refused for tool in refused.off]
    if not tools:
        return values, problems
    denied = cast("tuple[str, ...]", values.get("permissions.deny", ()))
    return {**values, "permissions.deny": tuple(dict.fromkeys([*denied, *tools]))}, problems


def _way_out(source: SettingsSource, asked: SettingsRequest) -> str:
    if source.is_project:
        return (
            f"Correct or remove it, leave the file out with '{asked.spell('setting_sources', 'user')}', or revoke "
            "trust with 'mainspring trust --remove'"
        )
    if source is SettingsSource.ADMINISTRATOR:
        return "Ask your administrator to correct or remove it"
    return "Correct or remove it"


def _untrusted(layer: SettingsLayer, names: list[str]) -> SettingsProblem:
    says = f"{', '.join(names)}: not used, because this directory is not trusted{TRUST_HINT}"
    return SettingsProblem(ProblemKind.UNTRUSTED, layer.origin.place, says)


def _own_values(layer: SettingsLayer) -> tuple[Values, list[SettingsProblem]]:
    """The values that a layer may set by its source, trusted or not (security T2)."""
    source, place = layer.origin.source, layer.origin.place
    kept: Values = {}
    problems: list[SettingsProblem] = []
    for name, value in layer.values.items():
        if why := _not_its_own(BY_NAME[name], value, source):
            problems.append(SettingsProblem(ProblemKind.NOT_ITS_OWN, place, f"'{name}' is not used: {why}"))
        elif name == "env" and source.is_project:
            kept[name], ours = _without_ours(cast("dict[str, str]", value))
            if ours:
                says = (
                    f"'env' may not set {', '.join(ours)} here: only the user and the administrator choose the provider"
                )
                problems.append(SettingsProblem(ProblemKind.NOT_ITS_OWN, place, says))
        else:
            kept[name] = value
    return kept, problems


def _not_its_own(key: SettingKey, value: object, source: SettingsSource) -> str:
    if key.by is SettingAuthority.ADMINISTRATOR and source is not SettingsSource.ADMINISTRATOR:
        return "only the administrator may set it"
    if key.by is SettingAuthority.USER and source.is_project:
        return "a project may not set it, only the user and the administrator"
    if value in key.users_own and source.is_project:
        return (
            f"a project may not choose '{str(value).lower() if isinstance(value, bool) else value}', only the user may"
        )
    return ""


def _without_ours(env: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    ours = [name for name in env if OUR_VARIABLES.fullmatch(name)]
    return {name: value for name, value in env.items() if name not in ours}, ours


# --- how they combine -------------------------------------------------------------------------------


class _Said(NamedTuple):
    value: object
    origin: SettingOrigin


class _Held:
    """The value of each key: the last one, or all of them, with their origins."""

    def __init__(self, layers: list[SettingsLayer]) -> None:
        self.layers = layers
        self.last: dict[str, _Said] = {}
        for layer in layers:
            for name, value in layer.values.items():
                if self._counts(BY_NAME[name], value, layer.origin.source):
                    self.last[name] = _Said(value, layer.origin)

    def _counts(self, key: SettingKey, value: object, source: SettingsSource) -> bool:
        """A limit: a project can only lower it, and the administrator's is the maximum."""
        before = self.last.get(key.name)
        only_lower = source.is_project or source is SettingsSource.ADMINISTRATOR
        if key.merge is not MergeRule.LEAST or before is None or not only_lower:
            return True
        return cast("int", value) < cast("int", before.value)

    def text(self, name: str) -> str | None:
        said = self.last.get(name)
        return cast("str", said.value) if said else None

    def number(self, name: str) -> int | None:
        said = self.last.get(name)
        return cast("int", said.value) if said else None

    def flag(self, name: str) -> bool | None:
        said = self.last.get(name)
        return cast("bool", said.value) if said else None

    def all(self, name: str) -> list[_Said]:
        return [_Said(layer.values[name], layer.origin) for layer in self.layers if name in layer.values]

    def entries(self, name: str) -> tuple[SettingEntry, ...]:
        """Each text once, with its first origin."""
        found: dict[str, SettingEntry] = {}
        for said in self.all(name):
            for text in cast("tuple[str, ...]", said.value):
                found.setdefault(text, SettingEntry(text, said.origin))
        return tuple(found.values())

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple([entry.text for entry in self.entries(name)])

    def is_set(self, name: str, default: bool = False) -> bool:
        said = self.flag(name)
        return default if said is None else said


def _be_careful_beside_broken_files(held: _Held, files: list[SettingsLayer]) -> list[SettingsProblem]:
    """An invalid file may have asked for a stricter mode: until it is fixed, no other file widens the mode."""
    broken = [layer.origin.place for layer in files if layer.broken]
    said = held.last.get("permissions.defaultMode")
    if not broken or said is None or said.value not in WIDE_MODES:
        return []
    if said.origin.source in (SettingsSource.COMMAND_LINE, SettingsSource.ADMINISTRATOR):
        return []
    held.last["permissions.defaultMode"] = _Said("default", said.origin)
    says = f"the mode '{said.value}' is not used while '{broken[0]}' is invalid: fix that file"
    return [SettingsProblem(ProblemKind.BROKEN, said.origin.place, says)]


def _env(layers: Iterable[SettingsLayer]) -> dict[str, str]:
    found: dict[str, str] = {}
    for layer in layers:
        found |= cast("dict[str, str]", layer.values.get("env", {}))
    return found


def _written(layers: Iterable[SettingsLayer]) -> Iterator[tuple[str, str]]:
    """Variables and headers of all layers, also of overridden and untrusted ones: we know their secrets, and redact
    them.
    """
    for layer in layers:
        yield from cast("dict[str, str]", layer.values.get("env", {})).items()
        servers = cast("dict[str, dict[str, object]]", layer.values.get("mcpServers", {}))
        for entry in servers.values():
            for field in ("env", "headers"):
                found = entry.get(field)
                if isinstance(found, dict):
                    yield from [(name, str(value)) for name, value in cast("dict[str, object]", found).items()]


def _only_managed_hooks(held: _Held) -> bool:
    off = held.last.get("disableAllHooks")
    return held.is_set("allowManagedHooksOnly") or (off is not None and off.value is True)


def _hooks(held: _Held) -> tuple[HookSetting, ...]:
    """Only the administrator can switch off the administrator's hooks."""
    off = held.last.get("disableAllHooks")
    only_managed = _only_managed_hooks(held)
    if off is not None and off.value is True and off.origin.source is SettingsSource.ADMINISTRATOR:
        return ()
    return tuple(
        [
            HookSetting(hook.event, hook.matcher, hook.command, said.origin, hook.entry, hook.broken)
            for said in held.all("hooks")
            for hook in cast("tuple[RawHook, ...]", said.value)
            if said.origin.source is SettingsSource.ADMINISTRATOR or not only_managed
        ]
    )


def _fallbacks(held: _Held) -> tuple[str, ...]:
    said = held.last.get("fallbackModel")
    return cast("tuple[str, ...]", said.value) if said else ()


def _models(held: _Held) -> tuple[ModelEntry, ...]:
    found: dict[str, ModelEntry] = {}
    for said in held.all("models"):
        found |= cast("dict[str, ModelEntry]", said.value)
    return tuple(found.values())


def _mcp_servers(held: _Held) -> tuple[McpEntry, ...]:
    found: dict[str, McpEntry] = {}
    for said in (*held.all("mcpServers"), *held.all("managedMcpServers")):
        entries = cast("dict[str, dict[str, object]]", said.value)
        found |= {name: McpEntry(name, entry, said.origin) for name, entry in entries.items()}
    return tuple(found.values())


def _overridden_servers(held: _Held) -> Iterator[SettingsProblem]:
    """MCP servers of a file that another file defines differently under the same name."""
    for entry in _mcp_servers(held):
        for said in (*held.all("mcpServers"), *held.all("managedMcpServers")):
            other = cast("dict[str, dict[str, object]]", said.value).get(entry.name, entry.entry)
            if said.origin != entry.origin and other != entry.entry:
                says = f"the MCP server '{entry.name}' is not used: '{entry.origin.place}' defines it, too"
                yield SettingsProblem(ProblemKind.WARNING, said.origin.place, says)


def _server_lists(said: Iterable[_Said]) -> tuple[McpServerList, ...]:
    return tuple([McpServerList(cast("tuple[McpServerMatch, ...]", one.value), one.origin) for one in said])


def _mcp(held: _Held) -> McpSettings:
    """Lists of the user's side are combined, as in Claude Code. A project's list only narrows: it may come from
    anywhere.
    """
    lists = held.all("allowedMcpServers")
    own = [said for said in lists if not said.origin.source.is_project]
    if held.is_set("allowManagedMcpServersOnly"):
        own = [said for said in own if said.origin.source is SettingsSource.ADMINISTRATOR]
    return McpSettings(
        servers=_mcp_servers(held),
        enable_all=held.is_set("enableAllProjectMcpServers"),
        enabled=held.texts("enabledMcpjsonServers"),
        disabled=held.texts("disabledMcpjsonServers"),
        allowed=_server_lists(own) or None,
        narrowed=_server_lists([said for said in lists if said.origin.source.is_project]),
        denied=_server_lists(held.all("deniedMcpServers")),
    )


def _model_rules(held: _Held) -> ModelRules:
    """The administrator's list alone, if there is one; else those of the user's side. A project only narrows."""
    lists = held.all("availableModels")
    own = [said for said in lists if not said.origin.source.is_project]
    managed = [said for said in own if said.origin.source is SettingsSource.ADMINISTRATOR]
    names = [name for said in managed or own for name in cast("tuple[str, ...]", said.value)]
    denied = held.entries("deniedModels")
    return ModelRules(
        available=tuple(names) if own else None,
        narrowed=tuple([cast("tuple[str, ...]", said.value) for said in lists if said.origin.source.is_project]),
        denied=tuple([entry.text for entry in denied]),
        exact=held.text("availableModelsMatch") == "exact",
        default_too=held.is_set("enforceAvailableModels") or held.text("availableModelsMatch") == "exact",
        places=tuple(dict.fromkeys([*[said.origin.place for said in lists], *[one.origin.place for one in denied]])),
    )


def _max_effort(held: _Held) -> str | None:
    """The lowest one of all layers."""
    said = [cast("str", one.value) for one in held.all("maxEffortLevel")]
    return min(said, key=EFFORTS.index, default=None)


def _skill_states(held: _Held) -> dict[str, str]:
    """As the user's side sets them; a project can only hide more."""
    found: dict[str, str] = {}
    for said in sorted(held.all("skillOverrides"), key=lambda said: said.origin.source.is_project):
        for name, state in cast("dict[str, str]", said.value).items():
            before = found.get(name, SKILL_STATES[0]) if said.origin.source.is_project else SKILL_STATES[0]
            found[name] = max(before, state, key=SKILL_STATES.index)
    return found


def _domains(held: _Held) -> tuple[str, ...]:
    entries = held.entries("sandbox.network.allowedDomains")
    if held.is_set("sandbox.network.allowManagedDomainsOnly"):
        entries = tuple([entry for entry in entries if entry.origin.source is SettingsSource.ADMINISTRATOR])
    return tuple([entry.text for entry in entries])


DEFAULT_RULES = ("$defaults",)  # of the classifier: the same as no setting


def _auto_disabled(held: _Held) -> str:
    """The key that refuses permission mode auto. Our classifier takes no rules in prose: it could not enforce them."""
    for name in ("disableAutoMode", "permissions.disableAutoMode"):
        if name in held.last:
            return name
    for name in ("autoMode.hard_deny", "autoMode.soft_deny"):
        if set(held.texts(name)) - {*DEFAULT_RULES}:
            return name
    return "autoMode.classifyAllShell" if held.is_set("autoMode.classifyAllShell") else ""


def _status_line(held: _Held) -> str | None:
    """Switched off with the hooks, except the administrator's."""
    line, off = held.last.get("statusLine"), held.last.get("disableAllHooks")
    if line is None:
        return None
    if off is None or off.value is not True:
        return cast("str", line.value)
    only_users = off.origin.source is not SettingsSource.ADMINISTRATOR
    return cast("str", line.value) if only_users and line.origin.source is SettingsSource.ADMINISTRATOR else None


def _permissions(held: _Held) -> PermissionSettings:
    allow = held.entries("permissions.allow")
    managed_only = held.is_set("allowManagedPermissionRulesOnly")
    if managed_only:
        allow = tuple([entry for entry in allow if entry.origin.source is SettingsSource.ADMINISTRATOR])
    return PermissionSettings(
        allow=allow,
        deny=held.entries("permissions.deny"),
        ask=held.entries("permissions.ask"),
        directories=held.entries("permissions.additionalDirectories"),
        default_mode=held.text("permissions.defaultMode"),
        bypass_disabled="permissions.disableBypassPermissionsMode" in held.last,
        auto_disabled=_auto_disabled(held),
        asks_nobody=any(said.value is True for said in held.all("permissions.denyInsteadOfPrompting")),
        managed_only=managed_only,
    )


def _settings(held: _Held, own_env: dict[str, str], problems: tuple[SettingsProblem, ...]) -> Settings:
    env = _env(held.layers)
    settings = Settings(
        permissions=_permissions(held),
        api=ApiSettings(
            base_url=held.text("api.baseUrl"),
            key_helper=held.text("apiKeyHelper"),
            key_lifetime=held.number("api.keyLifetimeSeconds"),
            max_cost=held.number("api.maxCostUsd"),
            max_retries=held.number("api.maxRetries"),
            retry=held.text("api.retry"),
        ),
        limits=LimitSettings(
            max_turns=held.number("limits.maxTurns"),
            max_tokens=held.number("limits.maxTokens"),
            max_output_tokens=held.number("limits.maxOutputTokens"),
        ),
        sandbox=SandboxOptions(
            enabled=held.flag("sandbox.enabled"),
            required=held.is_set("sandbox.failIfUnavailable"),
            auto_allow=held.is_set("sandbox.autoAllowBashIfSandboxed"),
            may_be_left=held.is_set("sandbox.allowUnsandboxedCommands", default=True),
            excluded=held.texts("sandbox.excludedCommands"),
            domains=_domains(held),
            managed_domains_only=held.is_set("sandbox.network.allowManagedDomainsOnly"),
            denied_domains=held.entries("sandbox.network.deniedDomains"),
            writable=held.entries("sandbox.filesystem.allowWrite"),
            unreadable=held.entries("sandbox.filesystem.denyRead"),
            read_only=held.entries("sandbox.filesystem.denyWrite"),
        ),
        features=FeatureSettings(
            auto_compact=held.is_set("autoCompactEnabled", default=True),
            reactive_compact=held.is_set("features.reactiveCompact", default=True),
            snip=held.is_set("features.snip", default=True),
            microcompact=held.is_set("features.microcompact", default=True),
            collapse=held.is_set("features.collapse", default=True),
            siblings=held.text("features.siblings") or "isolate",
            streaming_tools=held.is_set("features.streamingTools", default=True),
            server_clearing=held.is_set("features.serverClearing"),
            auto_memory=held.is_set("autoMemoryEnabled", default=True),
            suggestions=held.is_set("promptSuggestionEnabled", default=True),
            tool_use_summaries=held.is_set("features.toolUseSummaries"),
        ),
        mcp=_mcp(held),
        hooks=_hooks(held),
        only_managed_hooks=_only_managed_hooks(held),
        env=env,
        own_env=own_env,
        model=held.text("model"),
        fallback_models=_fallbacks(held),
        models=_models(held),
        model_rules=_model_rules(held),
        output_style=held.text("outputStyle"),
        checkpoints=held.flag("fileCheckpointingEnabled"),
        status_line=_status_line(held),
        notifications=held.text("preferredNotifChannel") or "",
        theme=held.text("theme") or "auto",
        editor_mode="vim" if held.text("editorMode") == "vim" else "normal",
        search_command=held.text("webSearch.command"),
        effort=held.text("effortLevel"),
        max_effort=_max_effort(held),
        thinking=held.flag("alwaysThinkingEnabled"),
        max_thinking_tokens=held.number("maxThinkingTokens"),
        cleanup_days=held.number("cleanupPeriodDays"),
        skill_states=_skill_states(held),
        memory_excludes=held.texts("claudeMdExcludes"),
        no_sideloading=held.is_set("disableSideloadFlags"),
        problems=problems,
    )
    return fill_effective(settings, {name: (said.value, said.origin) for name, said in held.last.items()}, held.layers)
