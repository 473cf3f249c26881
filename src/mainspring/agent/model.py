"""Chooses the model and its provider from options, settings and the environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import agent, providers
from mainspring.agent.options import MissingKeyError, SessionOptions, StartError
from mainspring.core.config import DEFAULT, Config, Effort, Siblings
from mainspring.core.errors import UsageError
from mainspring.core.models import DEFAULT_MODEL, MODELS, Model, model_named, per_million
from mainspring.core.value import Bundle
from mainspring.providers.base import Provider
from mainspring.secrets.sources import CREDENTIALS, FILE, KeyRequest, ResolvedKey, find_key
from mainspring.settings.load import home_folder
from mainspring.settings.values import Settings

if TYPE_CHECKING:
    from mainspring.providers.errors import UserRemedies
    from mainspring.providers.http.client import Deadlines, Transport
    from mainspring.providers.retry import RetryLimits

Environment = dict[str, str]
Close = Callable[[], Awaitable[None]]

NO_KEY = """\
no API key found. Run 'mainspring login' to store one, or set one of these:
  ANTHROPIC_API_KEY=...       a key from the Anthropic console
  ANTHROPIC_AUTH_TOKEN=...    a token, sent as 'Authorization: Bearer'
  ANTHROPIC_BASE_URL=...      the address of another server, such as a local one, which may need no key
  OPENAI_API_KEY=...          with '{model}'; 'ollama/NAME' and others need no key: 'mainspring help openai'
  CLAUDE_CODE_USE_BEDROCK=1   Amazon Bedrock; CLAUDE_CODE_USE_VERTEX=1: Google Vertex AI
'mainspring demo' runs without a key"""


class ModelAccess(Bundle):
    """The provider of the session's model, and how to close it."""

    provider: Provider
    close: Close
    key_source: str
    transport: Transport | None = None  # None: the host supplies a provider, for all models


def key_for(settings: Settings, environment: Environment, cwd: str) -> ResolvedKey:
    """Raises `UsageError` for a key that exists and cannot be used."""
    api = settings.api
    home = home_folder(environment)
    address = api.base_url or ""
    return find_key(
        KeyRequest(environment, home, cwd, helper=api.key_helper, lifetime=api.key_lifetime, address=address)
    )


def new_provider(
    options: SessionOptions, settings: Settings, environment: Environment, cwd: str, models: Iterable[str] = ()
) -> ModelAccess:
    """The only place that chooses the provider. `models`: those that the session will certainly call."""
    found = key_for(settings, environment, cwd)
    address = settings.api.base_url or ""
    names = tuple(models)
    elsewhere = [name for name in names if is_elsewhere(name, settings, environment)]
    if not found.is_any and not address and not (names and len(elsewhere) == len(names)):
        raise MissingKeyError(NO_KEY.format(model=options.spell("model", "openai/NAME")))
    providers.split_url(address or providers.HOME)  # raises for an invalid address now, not at the first call
    key = providers.ApiKey(found.value, found.header, found.refresh, found.is_stale)
    transport = providers.Transport(
        deadlines=read_deadlines(environment, address or providers.HOME), environ=environment
    )

    def anthropic() -> Provider:
        return providers.Anthropic(
            key,
            base_url=address or providers.HOME,
            transport=transport,
            betas=options.betas,
            thinking_display=options.thinking_display,
            clearing=providers.ServerSideClearing() if settings.features.server_clearing else None,
            patience=patience_of(options, settings),
            ways_out=ways_out(settings, found.source),
            driver=driver_of(environment) if options.driven else "",
        )

    if not elsewhere and all(takes_tools(name, settings) for name in names):
        return ModelAccess(anthropic(), transport.close, found.source, transport)
    router = agent.build_router(settings, environment, transport, anthropic, patience_of(options, settings))
    for name in elsewhere:
        router.provider(name)  # raises now if something is wrong with it
    return ModelAccess(router, transport.close, found.source, transport)


DRIVEN_BY = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_AGENT_SDK_CLIENT_APP")


def driver_of(environment: Environment) -> str:
    """How the program that drives us names itself (stream-json 1.3), without characters that break the header."""
    said = [environment.get(name, "") for name in DRIVEN_BY]
    return ", ".join(
        ["".join([c for c in one if c.isascii() and c.isprintable() and c not in "()"])[:100] for one in said if one]
    )


TOOLLESS = (
    "set '\"tools\": false' in its entry of 'models' in your settings to use it without tools, or choose another model"
)


def takes_tools(model: str, settings: Settings) -> bool:
    return not any(entry.name == model and entry.tools is False for entry in settings.models)


def explain_missing_search(model: str, settings: Settings, environment: Environment) -> str:
    """Why the model's service has no web search; empty: it has. Another server than the maker's has it if the settings
    say so: a tool that always fails would only cost the model a turn."""
    declared = next((entry.web_search for entry in settings.models if entry.name == model), None)
    if declared is False or not takes_tools(model, settings):
        return f"your settings disable it for '{model}'"
    try:
        elsewhere = is_elsewhere(model, settings, environment)
    except StartError as error:  # an unknown provider
        return str(error)
    if elsewhere:
        return agent.explain_missing_endpoint_search(model, settings, environment, declared=bool(declared))
    if settings.api.base_url and not declared:
        return UNDECLARED.format(url=settings.api.base_url, model=model)
    return ""


UNDECLARED = (
    "the server at '{url}' may have no web search; if it has one, set 'web_search' of 'models.{model}' to true in your "
    "settings"
)


def patience_of(options: SessionOptions, settings: Settings) -> RetryLimits:
    """The retry limits of a session, with the number of retries from the settings."""
    profiles = providers.RetryProfile
    profile = profiles.UNATTENDED if is_unattended(options, settings) else profiles.FOREGROUND
    usual, most = providers.PATIENCE[profile], settings.api.max_retries
    if most is None:
        return usual
    return replace(usual, tries=most + 1, overload_tries=most + 1, near_tries=most + 1)


def is_unattended(options: SessionOptions, settings: Settings) -> bool:
    return (options.retry or settings.api.retry) == "unattended"


STORED = ("keyring", CREDENTIALS)  # sources of keys that `mainspring login` has stored


def ways_out(settings: Settings, source: str) -> UserRemedies:
    """Remedies for Anthropic's protocol, by where the key and the address are set."""
    refused = f"the key was refused: check {'the ' if source == FILE else ''}{source}"
    if source in STORED:
        refused = f"the key in {source} was refused: run 'mainspring login' to store another one"
    ways = replace(providers.WAYS_OUT, refused=refused, toolless=TOOLLESS)
    place = next((value.origin.place for value in settings.effective if value.name == "api.baseUrl"), "")
    if not place:
        return ways
    return replace(
        ways,
        unknown=f"check the model's name and {place}",
        unreached=f"Check the connection, and the address in {place}",
    )


def is_elsewhere(model: str, settings: Settings, environment: Environment) -> bool:
    """Whether the model needs a protocol or server other than Anthropic's. For plain Claude models, loads nothing."""
    plain = model.startswith("claude-") and not any(entry.name == model and entry.base_url for entry in settings.models)
    if plain and not any(environment.get(name) for name in ON_CLOUDS):
        return False
    return agent.endpoint_of(model, settings, environment) is not None


ON_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")  # then plain names are of a cloud
SILENCE = "MAINSPRING_SILENCE_SECONDS"


def read_deadlines(environment: Environment, address: str) -> Deadlines | None:
    """How long a server may be silent; None: the default for this address."""
    said = environment.get(SILENCE, "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 86_400:
        raise StartError(f"'{SILENCE}' must be a number of seconds, not '{said}'")
    return replace(providers.deadlines_for(address), headers=seconds, idle=seconds, barren=providers.PER_IDLE * seconds)


def new_config(options: SessionOptions, settings: Settings, listed: tuple[Model, ...] = ()) -> Config:
    """`listed`: the models that the provider describes."""
    try:
        model = chosen_model(options.model or settings.model or "default", options, settings, listed)
        names = options.fallback_model or settings.fallback_models
        fallbacks = tuple([chosen_model(name, options, settings, listed) for name in names])
    except UsageError as error:
        raise StartError(str(error)) from None
    effort = capped_effort(options.effort or settings.effort, settings)
    if options.output_schema is not None and not takes_tools(model.name, settings):
        why = f" needs a model with tools, but your settings disable tools for '{model.name}': choose another model"
        raise options.error("output_schema", why)
    if model.name in [fallback.name for fallback in fallbacks]:
        raise options.error("fallback_model", " is the main model: choose another one as fallback", model.name)
    return replace(
        DEFAULT,
        model=model,
        fallbacks=fallbacks,
        max_turns=least_limit(options.max_turns, settings.limits.max_turns) or DEFAULT.max_turns,
        auto_compact=settings.features.auto_compact,
        reactive_compact=settings.features.reactive_compact,
        siblings=Siblings(settings.features.siblings),
        early_safe=settings.features.streaming_tools,
        max_tokens=settings.limits.max_tokens,
        max_output=least_limit(options.max_output, settings.limits.max_output_tokens),
        task_budget=options.task_budget,
        **retry_limits(options, settings),
        effort=Effort(effort) if effort else None,
        sampling=options.sampling,
        thinking=is_thinking_on(options, settings),
        structured_output=options.output_schema is not None,
    )


def retry_limits(options: SessionOptions, settings: Settings) -> dict[str, int | None]:
    """For the loop: the same limits that the provider has."""
    if not is_unattended(options, settings):  # then nothing is loaded
        return {"max_retries": DEFAULT.max_retries if settings.api.max_retries is None else settings.api.max_retries}
    patience = patience_of(options, settings)
    return {
        "max_retries": patience.tries - 1,
        "retries_before_fallback": DEFAULT.max_retries,
        "max_wait": patience.in_all,
    }


def least_limit(*limits: int | None) -> int | None:
    """The lowest of the limits that are set."""
    return min([limit for limit in limits if limit is not None], default=None)


def is_thinking_on(options: SessionOptions, settings: Settings) -> bool:
    if options.thinking is not None:
        return options.thinking != "disabled"
    said = settings.max_thinking_tokens if options.max_thinking_tokens is None else options.max_thinking_tokens
    return said != 0 and settings.thinking is not False


EFFORTS = tuple(Effort)
USUAL_EFFORT = Effort.HIGH  # the API's default


def capped_effort(effort: str | None, settings: Settings) -> str | None:
    """Capped by `maxEffortLevel`. Without an effort given, the model's default is capped, too."""
    if settings.max_effort is None:
        return effort
    asked, most = Effort(effort) if effort else USUAL_EFFORT, Effort(settings.max_effort)
    return most if EFFORTS.index(asked) > EFFORTS.index(most) else effort


def choose_effort(level: str | None, settings: Settings) -> Effort | None:
    """None: as the settings say. Raises `UsageError` for an unknown level."""
    if level is not None and level not in EFFORTS:
        raise UsageError(f"no effort level '{level}': choose one of {', '.join(EFFORTS)}")
    effort = capped_effort(level or settings.effort, settings)
    return Effort(effort) if effort else None


def chosen_model(name: str, options: SessionOptions, settings: Settings, listed: tuple[Model, ...] = ()) -> Model:
    """`listed`: the models that the provider describes; the first one is its default. Raises `UsageError` for a model
    that the settings do not allow."""
    if name == "default" and listed:
        name = listed[0].name
    rules = settings.model_rules
    if rules.available is not None or rules.narrowed or rules.denied:
        name = available_name(name, settings)
    model = apply_model_settings(find_model(name, listed), settings)
    budget = options.max_thinking_tokens or settings.max_thinking_tokens
    if options.context_window:
        window = options.context_window
        model = replace(model, window=window, max_output=min(model.max_output, window // 4))
    if budget and not model.adaptive_thinking:
        model = replace(model, thinking_budget=budget)
    return model


def find_model(name: str, listed: tuple[Model, ...] = ()) -> Model:
    if name == "default":
        return listed[0] if listed else DEFAULT_MODEL
    whole = resolve_model_alias(name)
    return next((model for model in listed if model.name in (name, whole)), None) or model_named(whole)


def available_name(name: str, settings: Settings) -> str:
    """The same name, or, for `default`, the first available model if the usual one is not. Raises `UsageError`."""
    from mainspring.settings.restrictions import explain_model_refusal, first_available

    rules, is_default = settings.model_rules, name == "default"
    why = explain_model_refusal(
        DEFAULT_MODEL.name if is_default else resolve_model_alias(name), rules, default=is_default
    )
    instead = first_available(rules) if is_default and why else None
    if instead is not None and not explain_model_refusal(resolve_model_alias(instead), rules):
        return instead
    if why:
        raise UsageError(why)
    return name


def apply_model_settings(model: Model, settings: Settings) -> Model:
    """Applies the user's own values for the model over those of our table. A server of the user's has its own prices:
    the table's is only assumed there, except for Azure, which offers the same models."""
    for entry in settings.models:
        if entry.name == model.name:
            is_own = bool(entry.base_url) and not entry.api_version
            price = replace(model.price, estimated=True) if is_own else model.price
            if entry.input_usd is not None and entry.output_usd is not None:
                price = per_million(entry.input_usd, entry.output_usd)
            return replace(
                model,
                window=entry.window or model.window,
                max_output=entry.max_output or model.max_output,
                price=price,
            )
    return model


def resolve_model_alias(name: str) -> str:
    """The model that `opus` and the like mean: the table has the newest first."""
    return next((listed for listed in MODELS if listed.startswith(f"claude-{name}-")), name)
