"""From the options, the settings and the environment to all that a session is made of: checked, and nothing touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent import rights
from mainspring.agent.mcp_wiring import named_servers
from mainspring.agent.model import Environment, Reached, new_config, new_provider, takes_tools
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.sandbox import Ground, Sandboxing
from mainspring.agent.settings import settings_of, tell
from mainspring.agent.system_prompt import own_blocks
from mainspring.core.config import COMPATIBLE, Config
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.shared import Policy, SessionPolicy
from mainspring.providers.base import Provider
from mainspring.secrets.held import Holder
from mainspring.secrets.sources import FILE_NAME
from mainspring.settings.home import home_folder, users_folder
from mainspring.settings.values import Entry, Settings
from mainspring.tools.base import Offer, Tool, offer
from mainspring.tools.catalog import SPECS
from mainspring.tools.gate import Gate

if TYPE_CHECKING:
    from mainspring.agent.mcp import Found
    from mainspring.permissions.policy import Policy as Rules


class HostSupplied(Bundle):
    """What the program brings that the session lives in."""

    tools: tuple[Tool, ...] = ()
    provider: Provider | None = None  # None: by the settings


class ResolvedConfig(Bundle):
    """Everything that can be known before a session is opened."""

    options: SessionOptions
    given_environment: Environment  # before the settings had their say
    supplied: HostSupplied
    environment: Environment
    cwd: str
    settings: Settings
    loop: Config  # of the engine
    system: tuple[str, ...]  # what the options have for it
    mode: str
    home: str  # the user's
    folders: tuple[str, ...]  # additional directories
    policy: SessionPolicy  # in force in the session
    gate: Gate
    tools: tuple[str, ...]  # built-in ones, by name
    own: tuple[Offer, ...]  # tools of the program, and the one for an answer of a given shape
    model: Reached
    sandboxing: Sandboxing
    holder: Holder  # of the secrets that it learns, to its end
    servers: Found | None = None  # of MCP

    def resolve_again(self, options: SessionOptions) -> ResolvedConfig:
        """For the next conversation of the same program: the settings are read anew. Raises `StartError`."""
        return resolve_config(options, self.given_environment, self.supplied)


def resolve_config(
    options: SessionOptions, environment: Environment, supplied: HostSupplied | None = None
) -> ResolvedConfig:
    """Checks everything and changes nothing: what is wrong is told before anybody waits or pays. Raises `StartError`
    or `UsageError`."""
    holder = Holder()
    try:
        return holder.run(_resolve, options, environment, supplied or HostSupplied(), holder)
    except BaseException:
        holder.release()
        raise


def _resolve(
    options: SessionOptions, environment: Environment, supplied: HostSupplied, holder: Holder
) -> ResolvedConfig:
    given, cwd = environment, working_folder(options)
    settings = settings_of(options, cwd, environment)
    if settings.no_sideloading:
        rights.refuse_sideloading(options)
    environment = environment | settings.own_env
    permissions = resolve_permissions(options, settings, environment, cwd)
    loop = new_config(options, settings)
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
        system=own_blocks(options),
        mode=permissions.policy.current.mode,
        home=permissions.home,
        folders=permissions.folders,
        policy=permissions.policy,
        gate=permissions.gate,
        tools=tuple(offered(options, settings, loop)),
        own=(*brought(supplied, options, settings), *structured(options)),
        model=reached(supplied, options, settings, environment, cwd, loop),
        sandboxing=permissions.sandboxing,
        holder=holder,
        servers=named_servers(options, settings, environment, cwd),
    )
    hold_written(settings, environment)  # last: what belongs to a server was given to it
    tell(settings, options)
    return config


class ResolvedPermissions(Bundle):
    """What the session may do, and where."""

    home: str
    folders: tuple[str, ...]
    policy: SessionPolicy
    gate: Gate
    sandboxing: Sandboxing


def resolve_permissions(
    options: SessionOptions, settings: Settings, environment: Environment, cwd: str
) -> ResolvedPermissions:
    home, ours = users_folder(environment), home_folder(environment)
    folders = rights.folders(options, settings, cwd, home)
    policy = SessionPolicy(Policy(rights.mode(options, settings, environment)))
    grounds = Grounds(cwd, home, folders, lambda: gate.policy(policy.current), lambda: gate.unreadable(cwd, Policy()))
    sandboxing = Sandboxing(grounds.ground(environment, settings, options))
    gate = rights.new_gate(options, settings, cwd, home, (ours,) if ours else (), sandboxing)
    return ResolvedPermissions(home, folders, policy, gate, sandboxing)


def hold_written(settings: Settings, environment: Environment) -> None:
    """Secrets that settings know of, also where nothing uses them: they are covered in all that is stored and shown."""
    others = [name for name in environment if name.endswith("_API_KEY")]
    variables = {*others, *[entry.key_env for entry in settings.models if entry.key_env]} & environment.keys()
    addresses = [one for one in (settings.api.base_url, *[model.base_url for model in settings.models]) if one]
    if not variables and not settings.written and not any("@" in one for one in addresses):
        return
    from mainspring.secrets.held import hold, hold_key
    from mainspring.secrets.named import passwords_in, secrets_in

    for name in variables:
        hold_key(environment[name].strip(), ours=name.startswith("ANTHROPIC"))
    found = [word for pair in settings.written for word in secrets_in(dict([pair]))]
    hold(*found, *passwords_in(addresses), ours=False)


def reached(  # noqa: PLR0913, PLR0917  # what a way depends on
    supplied: HostSupplied,
    options: SessionOptions,
    settings: Settings,
    environment: Environment,
    cwd: str,
    loop: Config,
) -> Reached:
    if supplied.provider is not None:
        return Reached(supplied.provider, nothing_to_close, "none")
    return new_provider(options, settings, environment, cwd, (loop.model.name, *[m.name for m in loop.fallbacks]))


def brought(supplied: HostSupplied, options: SessionOptions, settings: Settings) -> list[Offer]:
    """Tools of the program, but for those that a rule takes away as a whole."""
    away = rights.taken_away(options, settings)
    return [offer(tool) for tool in supplied.tools if tool.name not in away]


async def nothing_to_close() -> None:
    """Who brings a provider closes it."""


def structured(options: SessionOptions) -> tuple[Offer, ...]:
    if options.output_schema is None:
        return ()
    from mainspring.tools.structured import structured_tool

    try:
        return (offer(structured_tool(dict(options.output_schema))),)
    except UsageError as error:
        raise options.error("output_schema", f" cannot be understood: {error}") from None


class Grounds(Bundle):
    """Where commands work, and by whose rules."""

    cwd: str
    home: str
    folders: tuple[str, ...]
    policy: Callable[[], Rules]
    unreadable: Callable[[], tuple[tuple[str, ...], bool]]

    def ground(self, environment: Environment, settings: Settings, options: SessionOptions) -> Ground:
        home = home_folder(environment)
        return Ground(
            settings.sandbox,
            folders=(self.cwd, *self.folders),
            home=home,
            path=environment.get("PATH", ""),
            policy=self.policy,
            unreadable=self.unreadable,
            masked=(*((f"{home}/{FILE_NAME}",) if home else ()), *self._paths(settings.sandbox.unreadable)),
            writable=tuple(dict.fromkeys(self._writable(settings, options))),
            read_only=self._paths(settings.sandbox.read_only),
            tell=options.tell,
        )

    def _paths(self, entries: tuple[Entry, ...]) -> tuple[str, ...]:
        return rights.sandbox_paths(entries, self.cwd, self.home) if entries else ()

    def _writable(self, settings: Settings, options: SessionOptions) -> Iterator[str]:
        for entry in settings.sandbox.writable:
            found = self._paths((entry,))
            out = rights.leading_out(found, (self.cwd, *self.folders))
            for path in out:
                options.tell(rights.left_out(entry.origin.place, "sandbox.filesystem.allowWrite", path, out[path]))
            yield from [path for path in found if path not in out and os.path.isdir(path)]  # noqa: PTH112


def service_searches(loop: Config, settings: Settings) -> bool:
    """Anthropic's own does, for its own models; of what stands at another address nobody knows."""
    return loop.model.name.startswith("claude-") and not settings.api.base_url


def offered(options: SessionOptions, settings: Settings, loop: Config) -> list[str]:
    """The tools that exist for this session. Those that a rule takes away as a whole, the model is not told of."""
    if not takes_tools(loop.model.name, settings):
        return []
    exist = tuple(SPECS) if options.tools is None or "default" in options.tools else options.tools
    if unknown := [name for name in exist if name not in SPECS]:
        raise options.error("tools", f": there is no such tool; there are {', '.join(SPECS)}", unknown[0])
    away = rights.taken_away(options, settings)
    usual = options.tools is None or "default" in options.tools
    if usual and not settings.search_command and not service_searches(loop, settings):
        away = {*away, "WebSearch"}  # nobody is there to search; who names the tool is told so by its answer
    return [name for name in exist if name not in away]


def working_folder(options: SessionOptions) -> str:
    if options.cwd is not None:
        return named_folder(options.cwd)
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load
    except FileNotFoundError:
        raise StartError("the working folder is gone: change into one that is there") from None


def named_folder(path: str) -> str:
    folder = os.path.abspath(path)  # noqa: PTH100  # pathlib takes 8 ms to load
    if not os.path.isdir(folder):  # noqa: PTH112
        raise StartError(f"the working folder '{path}' is not there, or is no folder")
    return folder
