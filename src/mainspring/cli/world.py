"""From the command line and the environment to a session that can run. Nothing else reads either of them."""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.cli.about import About
from mainspring.cli.flags import BY_NAME, Options, StartError
from mainspring.cli.hands import NAMES, Reach, tools
from mainspring.cli.sessions import Opened, new_place, open_session
from mainspring.cli.shell import Shell
from mainspring.cli.system_prompt import system_prompt
from mainspring.core.config import DEFAULT, Config, Effort
from mainspring.core.models import DEFAULT_MODEL, MODELS, Model, model_named
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.value import Bundle
from mainspring.engine.ledger import Ledger
from mainspring.engine.plain import Plain, Tool
from mainspring.engine.session import Session
from mainspring.providers.base import Provider

if TYPE_CHECKING:
    from mainspring.providers.transport import Deadlines

Environment = dict[str, str]
Close = Callable[[], Awaitable[None]]

NO_KEY = """\
there is no key for the model. Any of these helps:
  ANTHROPIC_API_KEY=...       a key from the Anthropic console
  ANTHROPIC_AUTH_TOKEN=...    a token, sent as 'Authorization: Bearer'
  ANTHROPIC_BASE_URL=...      the address of another server, such as one on this machine; it may need no key
'mainspring demo' needs none of them"""


class Reached(Bundle):
    """A way to a model, and how to close it."""

    provider: Provider
    close: Close


class Parts(Bundle):
    """Everything that can be known before a session begins."""

    options: Options
    environment: Environment
    cwd: str
    config: Config
    system: tuple[str, ...]
    shell: Shell
    hands: tuple[Tool, ...]
    model: Reached


class World(Bundle):
    session: Session
    about: About
    close: Close


def prepare(options: Options, environment: Environment) -> Parts:
    """Checks everything and touches nothing: what is wrong is told before anybody waits or pays."""
    refuse_what_is_missing(options)
    cwd = working_folder()
    shell = Shell(cwd, for_commands(environment))
    return Parts(
        options=options,
        environment=environment,
        cwd=cwd,
        config=new_config(options),
        system=system_prompt(options, cwd),
        shell=shell,
        hands=tools(reaches(options, cwd, environment), shell),
        model=new_provider(options, environment),
    )


def begin(parts: Parts) -> World:
    """A session that begins, or goes on, and its file."""
    options, opened = parts.options, open_journal(parts)
    deps = Plain(parts.model.provider, parts.hands, journal=opened.journal, system=parts.system)
    loaded = opened.loaded
    spent = loaded.spent if loaded is not None else 0
    ledger = Ledger(round(options.max_budget_usd * NANOS_PER_USD) if options.max_budget_usd else None, spent=spent)
    about = About(
        session_id=opened.session_id,
        cwd=parts.cwd,
        model=parts.config.model,
        tools=tuple([tool.name for tool in parts.hands]),
        mode=mode_of(options),
        key_source=credentials(parts.environment)[0],
        betas=options.betas,
        ignored=tuple([name for name in options.given if BY_NAME[name].later]),
        spent=spent,
    )
    if loaded is None:
        session = Session(deps, parts.config, ledger=ledger)
    else:
        session = Session.resumed(deps, parts.config, loaded, ledger=ledger, repeatable=deps.is_concurrent)
    gc.freeze()  # all is loaded, and stays: the collector need not look at it again
    gc.enable()
    return World(session, about, parts.model.close)


def open_journal(parts: Parts) -> Opened:
    key = credentials(parts.environment)[1]
    place = new_place(parts.environment, parts.cwd, (key,) if key else ())
    return open_session(parts.options, place, Plain(parts.model.provider).new_id())


def refuse_what_is_missing(options: Options) -> None:
    for name in options.given:
        if BY_NAME[name].refused:
            raise StartError(f"'{name}' is not there yet: it comes with the pipe to an SDK. Leave it out")


def working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load
    except FileNotFoundError:
        raise StartError("the working folder is gone: change into one that is there") from None


# --- the model --------------------------------------------------------------------------------------


def credentials(environment: Environment) -> tuple[str, str]:
    """Where the key was found, and the key."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        if value := environment.get(name, "").strip():
            return name, value
    return "none", ""


def new_provider(options: Options, environment: Environment) -> Reached:
    """The one place that knows which provider it is."""
    source, value = credentials(environment)
    address = environment.get("ANTHROPIC_BASE_URL", "").strip()
    if not value and not address:
        raise StartError(NO_KEY)
    from mainspring.providers.anthropic import HOME, Anthropic, Key
    from mainspring.providers.proxies import split
    from mainspring.providers.transport import Transport

    split(address or HOME)  # an address that is none is told now, and not at the first call
    key = Key(value, "authorization" if source == "ANTHROPIC_AUTH_TOKEN" else "x-api-key")
    transport = Transport(deadlines=deadlines(environment, address or HOME))
    provider = Anthropic(
        key,
        base_url=address or HOME,
        transport=transport,
        betas=options.betas,
        thinking_display=options.thinking_display,
    )
    return Reached(provider, transport.close)


SILENCE = "MAINSPRING_SILENCE_SECONDS"


def deadlines(environment: Environment, address: str) -> Deadlines | None:
    """How long a server may be silent; None: what is usual for such an address."""
    said = environment.get(SILENCE, "").strip()
    if not said:
        return None
    from mainspring.providers.transport import deadlines_for

    try:
        seconds = float(said)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 86_400:
        raise StartError(f"'{SILENCE}' is a number of seconds, not '{said}'")
    return replace(deadlines_for(address), first_byte=seconds, idle=seconds)


def new_config(options: Options) -> Config:
    model = chosen_model(options.model or "default", options)
    fallbacks = tuple([chosen_model(name, options) for name in options.fallback_model])
    if model.name in [fallback.name for fallback in fallbacks]:
        raise StartError(f"'--fallback-model {model.name}' is the model that it should stand in for: name another one")
    return replace(
        DEFAULT,
        model=model,
        fallbacks=fallbacks,
        max_turns=options.max_turns or DEFAULT.max_turns,
        task_budget=options.task_budget,
        effort=Effort(options.effort) if options.effort else None,
        thinking=options.thinking != "disabled" and options.max_thinking_tokens != 0,
    )


def chosen_model(name: str, options: Options) -> Model:
    model = DEFAULT_MODEL if name == "default" else model_named(newest(name))
    if options.context_window:
        window = options.context_window
        model = replace(model, window=window, max_output=min(model.max_output, window // 4))
    if options.max_thinking_tokens and not model.adaptive_thinking:
        model = replace(model, thinking_budget=options.max_thinking_tokens)
    return model


def newest(name: str) -> str:
    """What `opus` and the like stand for: the table has the newest first."""
    return next((listed for listed in MODELS if listed.startswith(f"claude-{name}-")), name)


# --- the tools --------------------------------------------------------------------------------------

# Nobody can be asked yet, so a mode says beforehand what may be used without asking.
BYPASS = "bypassPermissions"
OFFERED: dict[str, tuple[str, ...]] = {"acceptEdits": ("Read", "Edit", "Write"), BYPASS: NAMES}


def mode_of(options: Options) -> str:
    return BYPASS if options.dangerously_skip_permissions else options.permission_mode or "default"


def reaches(options: Options, cwd: str, environment: Environment) -> dict[str, Reach]:
    """The tools that exist for this session, and how far each may go."""
    mode = mode_of(options)
    if mode == BYPASS and os.geteuid() == 0 and environment.get("IS_SANDBOX") != "1":
        raise StartError(
            f"'{BYPASS}' is refused for root, for whom nothing is out of reach: use another user, or set IS_SANDBOX=1 "
            "where nothing can be harmed"
        )
    allowed = set(options.allowed_tools)  # a rule with parentheses is none of the names
    denied = {rule.partition("(")[0] for rule in options.disallowed_tools}
    roots = tuple([os.path.realpath(os.path.join(cwd, folder)) for folder in (cwd, *options.add_dir)])  # noqa: PTH118
    exist = NAMES if options.tools is None or "default" in options.tools else options.tools
    return {
        name: Reach(cwd, None if mode == BYPASS or name in allowed else roots)
        for name in NAMES
        if name in exist and name not in denied and (name in OFFERED.get(mode, ("Read",)) or name in allowed)
    }


SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def for_commands(environment: Environment) -> Environment:
    """What a command gets: no name that sounds like a secret (K2)."""
    kept = {name: value for name, value in environment.items() if not any(word in name.upper() for word in SECRET)}
    return kept | {"CLAUDECODE": "1"}
