"""Resolves options, settings and the environment into the configuration of a session (`ResolvedConfig`).

Resolving checks everything and changes nothing. It reads the settings once, and reports their problems once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring import agent, secrets
from mainspring import settings as settings_package
from mainspring.agent import model as agent_model
from mainspring.agent import permissions
from mainspring.agent.context import is_trusted_folder
from mainspring.agent.model import Environment, ModelAccess, new_config, new_provider, takes_tools
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.sandbox import SandboxConfig, SessionSandbox
from mainspring.context.prompt import IDENTITY
from mainspring.core.config import COMPATIBLE, Config
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import EnginePolicy, SessionPolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.providers.base import Provider, list_models, searches_web
from mainspring.secrets.held import SecretScope, hold_key, hold_secrets
from mainspring.secrets.sources import CREDENTIALS
from mainspring.settings.load import SettingsRequest, home_folder, load_settings, users_folder
from mainspring.settings.values import (
    TRUST_HINT,
    ProblemKind,
    SettingEntry,
    Settings,
    SettingsError,
    SettingsProblem,
    WrongOptionError,
)
from mainspring.telemetry import has_opentelemetry
from mainspring.tools.base import Tool, ToolHandle, make_handle
from mainspring.tools.catalog import SPECS

if TYPE_CHECKING:
    from mainspring.agent.mcp import McpConfig
    from mainspring.settings.plugins import Plugin


MOST_TOLD = 10  # problems; 'mainspring config' has them all


def settings_of(
    options: SessionOptions, cwd: str, environment: Mapping[str, str], *, shows_refused: bool = False
) -> Settings:
    """`shows_refused`: to show the settings; do not start anything with these."""
    asked = asked_by(options, consented=options.driven, shows_refused=shows_refused)
    try:
        return load_settings(cwd, environment, asked)
    except WrongOptionError as error:
        raise options.error(error.option, error.reason) from None
    except SettingsError as error:
        raise StartError(str(error)) from None


def asked_by(options: SessionOptions, *, consented: bool = False, shows_refused: bool = False) -> SettingsRequest:
    return SettingsRequest(
        options.settings,
        options.setting_sources,
        consented=consented,
        shows_refused=shows_refused,
        spell=options.spell,
    )


def list_broken_rules(settings: Settings) -> list[SettingsProblem]:
    """Rules that cannot be parsed. If all brackets look right, as usual, this loads nothing."""
    given = settings.permissions
    texts = [entry.text.strip() for entry in (*given.deny, *given.ask, *given.allow)]
    if all(looks_right(text) for text in texts):
        return []
    return [problem for problem, _ in agent.broken_rules(settings)]


def looks_right(rule: str) -> bool:
    name, bracket, rest = rule.partition("(")
    return bool(name) and not {" ", ")"} & {*name} and rest.endswith(")") is bool(bracket)


def report_settings_problems(settings: Settings, options: SessionOptions) -> None:
    problems = [*settings.problems, *list_broken_rules(settings)]
    for problem in problems[:MOST_TOLD]:
        options.tell(str(problem).removesuffix(TRUST_HINT))
    if len(problems) > MOST_TOLD:
        options.tell(f"and {len(problems) - MOST_TOLD} more: see 'mainspring config'")
    if any(problem.kind is ProblemKind.UNTRUSTED for problem in problems):
        options.tell("Run 'mainspring trust' to use this directory's settings")


MOST_PROMPT = 1_000_000  # bytes of a file
PROMPT_FILE = "system_prompt_file"


class HostSupplied(Bundle):
    """Tools and model provider that the host supplies."""

    tools: tuple[Tool, ...] = ()
    provider: Provider | None = None  # None: by the settings
    check_output: Callable[[dict[str, Any]], object] | None = None  # raises `ToolError` if structured output is wrong


class ResolvedConfig(Bundle):
    """Everything that is known before a session is opened."""

    options: SessionOptions
    given_environment: Environment  # before the settings are applied
    supplied: HostSupplied
    environment: Environment
    cwd: str
    settings: Settings
    loop: Config  # of the engine
    system: tuple[str, ...]  # from the options: see `read_system_prompt_options`
    mode: str
    home: str  # the user's
    folders: tuple[str, ...]  # additional directories
    policy: SessionPolicy  # in force in the session
    gate: PermissionChecker
    tools: tuple[str, ...]  # built-in ones, by name
    own: tuple[ToolHandle, ...]  # the host's tools, and the one for structured output
    model: ModelAccess
    sandboxing: SessionSandbox
    holder: SecretScope  # holds the session's secrets until it ends
    servers: McpConfig | None = None  # MCP servers; None: none is configured
    plugins: tuple[Plugin, ...] = ()

    def explain_missing_search(self, model: str) -> str:
        return explain_missing_search(model, self.supplied, self.settings, self.environment)

    @property
    def may_bypass(self) -> bool:
        """Whether the session may switch to `bypassPermissions`."""
        asked = self.mode == permissions.BYPASS or self.options.allow_dangerously_skip_permissions
        return asked and not self.settings.permissions.bypass_disabled

    def resolve_again(self, options: SessionOptions) -> ResolvedConfig:
        """Reads the settings again, for the next session of this process. Raises `StartError`."""
        return resolve_config(options, self.given_environment, self.supplied)


def resolve_config(
    options: SessionOptions, environment: Environment, supplied: HostSupplied | None = None
) -> ResolvedConfig:
    """Checks everything and changes nothing: errors come before anything waits or costs money. Raises `StartError` or
    `UsageError`."""
    holder = SecretScope()
    try:
        return holder.run(_resolve, options, environment, supplied or HostSupplied(), holder)
    except BaseException:
        holder.release()
        raise


def _resolve(
    options: SessionOptions, environment: Environment, supplied: HostSupplied, holder: SecretScope
) -> ResolvedConfig:
    given, cwd = environment, find_working_directory(options)
    if options.tracing and not has_opentelemetry():
        raise options.error("tracing", " needs OpenTelemetry. Run: pip install 'mainspring[otel]'")
    settings = settings_of(options, cwd, environment)
    if settings.no_sideloading:
        permissions.refuse_sideloading(options)
    plugins = load_named_plugins(options, cwd)
    settings = settings_package.add_plugins(settings, plugins) if plugins else settings
    environment = environment | settings.own_env
    home = users_folder(environment)
    folders = permissions.list_additional_folders(options, settings, cwd, home)
    protected = tuple([path for plugin in plugins for path in plugin.list_protected(cwd)])
    policy, gate, sandboxing = resolve_permissions(options, settings, environment, cwd, home, folders, protected)
    loop = new_config(options, settings, list_models(supplied.provider))
    if options.driven:
        loop = replace(loop, stop_hooks=COMPATIBLE.stop_hooks)
    config = ResolvedConfig(
        options=options,
        given_environment=given,
        supplied=supplied,
        environment=environment,
        cwd=cwd,
        settings=settings,
        loop=loop,
        system=read_system_prompt_options(options),
        mode=policy.current.mode,
        home=home,
        folders=folders,
        policy=policy,
        gate=gate,
        tools=tuple(
            select_builtin_tools(
                options,
                settings,
                loop,
                lambda: explain_missing_search(loop.model.name, supplied, settings, environment),
            )
        ),
        own=(*select_host_tools(supplied, options, settings), *make_structured_output_tool(options, supplied)),
        model=find_model_access(supplied, options, settings, environment, cwd, loop),
        sandboxing=sandboxing,
        holder=holder,
        servers=load_named_servers(options, settings, environment, cwd),
        plugins=plugins,
    )
    hold_settings_secrets(settings, environment)  # last: MCP servers already have the secrets that are theirs
    report_settings_problems(settings, options)
    return config


def resolve_permissions(  # noqa: PLR0913, PLR0917  # their inputs
    options: SessionOptions,
    settings: Settings,
    environment: Environment,
    cwd: str,
    home: str,
    folders: tuple[str, ...],
    protected: tuple[str, ...] = (),
) -> tuple[SessionPolicy, PermissionChecker, SessionSandbox]:
    """The policy in force, the permission checker, and the sandbox. `protected`: paths of plugins."""
    ours, wanted = home_folder(environment), settings.sandbox
    closed = permissions.list_closed_files(ours, environment)
    policy = SessionPolicy(EnginePolicy(permissions.choose_permission_mode(options, settings, environment)))
    ground = SandboxConfig(
        wanted,
        folders=(cwd, *folders),
        home=ours,
        path=environment.get("PATH", ""),
        policy=lambda: gate.policy(policy.current),
        unreadable=lambda: gate.unreadable(cwd, EnginePolicy()),
        masked=(*closed, *sandbox_paths(wanted.unreadable, cwd, home)),
        writable=tuple(dict.fromkeys(writable_paths(options, settings, (cwd, *folders), home))),
        read_only=(*sandbox_paths(wanted.read_only, cwd, home), *[path for path in protected if os.path.exists(path)]),  # noqa: PTH110
        tell=options.tell,
        persist=options.persist,
    )
    sandboxing = SessionSandbox(ground)
    gate = permissions.new_gate(options, settings, cwd, home, ours, protected, sandboxing, closed)
    return policy, gate, sandboxing


def sandbox_paths(entries: tuple[SettingEntry, ...], cwd: str, home: str) -> tuple[str, ...]:
    return permissions.sandbox_paths(entries, cwd, home) if entries else ()


def writable_paths(options: SessionOptions, settings: Settings, folders: tuple[str, ...], home: str) -> Iterator[str]:
    """Writable paths outside the workspace. Skips, with a warning, paths that are links out of it."""
    for entry in settings.sandbox.writable:
        found = sandbox_paths((entry,), folders[0], home)
        out = permissions.leading_out(found, folders)
        for path in out:
            options.tell(permissions.left_out(entry.origin.place, "sandbox.filesystem.allowWrite", path, out[path]))
        yield from [path for path in found if path not in out and os.path.isdir(path)]  # noqa: PTH112


def hold_settings_secrets(settings: Settings, environment: Environment) -> None:
    """Holds the secrets that settings contain, also unused ones, so that they are redacted in stored and shown text.
    So are stored keys."""
    home = home_folder(environment)
    if home is not None and os.path.lexists(f"{home}/{CREDENTIALS}"):
        with suppress(UsageError):  # a file that cannot be used is an error only where a key is needed
            secrets.Credentials(home).sources()
    others = [name for name in environment if name.endswith("_API_KEY")]
    variables = {*others, *[entry.key_env for entry in settings.models if entry.key_env]} & environment.keys()
    addresses = [one for one in (settings.api.base_url, *[model.base_url for model in settings.models]) if one]
    if not variables and not settings.written and not any("@" in one for one in addresses):
        return
    for name in variables:
        hold_key(environment[name].strip(), ours=name.startswith("ANTHROPIC"))
    found = [word for pair in settings.written for word in secrets.secrets_in(dict([pair]))]
    hold_secrets(*found, *secrets.passwords_in(addresses), ours=False)


def find_model_access(  # noqa: PLR0913, PLR0917  # its inputs
    supplied: HostSupplied,
    options: SessionOptions,
    settings: Settings,
    environment: Environment,
    cwd: str,
    loop: Config,
) -> ModelAccess:
    if supplied.provider is not None:
        return ModelAccess(supplied.provider, close_nothing, "none")
    models = (loop.model, *loop.fallbacks)
    for model in models:
        if model.price.estimated and (words := agent.explain_unknown_model(model, settings)):
            options.tell(words)
        if options.max_budget_usd is not None and (words := agent.explain_money_limit(model)):
            options.tell(words)
    return new_provider(options, settings, environment, cwd, [model.name for model in models])


def select_host_tools(supplied: HostSupplied, options: SessionOptions, settings: Settings) -> list[ToolHandle]:
    """The host's tools, except those that a rule denies as a whole."""
    away = permissions.taken_away(options, settings)
    return [make_handle(tool) for tool in supplied.tools if tool.name not in away]


async def close_nothing() -> None:
    """The host closes its own provider."""


def make_structured_output_tool(options: SessionOptions, supplied: HostSupplied) -> tuple[ToolHandle, ...]:
    if options.output_schema is None:
        return ()
    from mainspring.tools.structured_output import structured_tool

    try:
        return (make_handle(structured_tool(dict(options.output_schema), supplied.check_output)),)
    except UsageError as error:
        raise options.error("output_schema", f" is not valid: {error}") from None


def load_named_plugins(options: SessionOptions, cwd: str) -> tuple[Plugin, ...]:
    found: dict[str, Plugin] = {}
    for folder in options.plugin_dirs:
        try:
            plugin = settings_package.load_plugin(folder, cwd)
        except UsageError as error:
            raise options.error("plugin_dirs", f": {error}") from None
        if (before := found.setdefault(plugin.name, plugin)).path != plugin.path:
            raise options.error("plugin_dirs", f": '{before.path}' and '{plugin.path}' are both named '{plugin.name}'")
        for problem in plugin.problems:
            options.tell(problem)
    return tuple(found.values())


def load_named_servers(
    options: SessionOptions, settings: Settings, environment: Environment, cwd: str
) -> McpConfig | None:
    """Loads nothing if no server is configured."""
    home = home_folder(environment)
    files = [f"{cwd}/.mcp.json", *([f"{home}/mcp.json"] if home else [])]
    if not (options.mcp_servers or settings.mcp.servers or any(os.path.lexists(file) for file in files)):
        return None
    agent.hold_keys(options, settings, environment, cwd)
    found = agent.load_mcp_config(
        agent.McpConfigInput(
            options, settings, environment, cwd, lambda: is_trusted_folder(home_folder(environment), cwd)
        )
    )
    for problem in found.problems:
        options.tell(problem)
    return found if found.servers else None


def read_system_prompt_options(options: SessionOptions) -> tuple[str, ...]:
    """The text that replaces our system prompt, and the text appended to it; each may be empty."""
    if options.system_prompt is not None and options.system_prompt_file is not None:
        raise options.error("system_prompt", f" and '{options.spell(PROMPT_FILE)}' cannot be combined: give only one")
    own = options.system_prompt
    if options.system_prompt_file is not None:
        own = read_prompt_file(options, options.system_prompt_file)
    instead = "" if own is None else own.strip() or ("" if options.bare else IDENTITY)
    return instead, options.append_system_prompt or ""


def read_prompt_file(options: SessionOptions, path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes 8 ms to load
            data = file.read(MOST_PROMPT + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise options.error(PROMPT_FILE, f" cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise options.error(PROMPT_FILE, " cannot be read: it is not text in UTF-8", path) from None
    if len(data) > MOST_PROMPT:
        much = f" is larger than {MOST_PROMPT:,} bytes. The system prompt is sent with every request: shorten it"
        raise options.error(PROMPT_FILE, much, path)
    return text


def explain_missing_search(model: str, supplied: HostSupplied, settings: Settings, environment: Environment) -> str:
    """Why nothing searches the web for the model except a command of the user; empty: its service does."""
    if supplied.provider is None:
        return agent_model.explain_missing_search(model, settings, environment)
    return "" if searches_web(supplied.provider) else "the model provider of this program has no web search"


def select_builtin_tools(
    options: SessionOptions, settings: Settings, loop: Config, why_no_search: Callable[[], str]
) -> list[str]:
    """The built-in tools of this session, without those that a rule denies as a whole."""
    if not takes_tools(loop.model.name, settings):
        return []
    exist = tuple(SPECS) if options.tools is None or "default" in options.tools else options.tools
    if unknown := [name for name in exist if name not in SPECS]:
        raise options.error("tools", f": there is no such tool. Available tools: {', '.join(SPECS)}", unknown[0])
    away = permissions.taken_away(options, settings)
    usual = options.tools is None or "default" in options.tools
    if usual and "WebSearch" not in away and not settings.search_command and why_no_search():
        away = {*away, "WebSearch"}  # named explicitly, the tool returns an error with the reason
    return [name for name in exist if name not in away]


def find_working_directory(options: SessionOptions) -> str:
    if options.cwd is not None:
        return check_working_directory(options.cwd)
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load
    except FileNotFoundError:
        raise StartError("the working directory no longer exists: change to another one") from None


def check_working_directory(path: str) -> str:
    folder = os.path.abspath(path)  # noqa: PTH100  # pathlib takes 8 ms to load
    if not os.path.isdir(folder):  # noqa: PTH112
        raise StartError(f"the working directory '{path}' does not exist or is not a directory")
    return folder
