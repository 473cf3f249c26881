"""`mainspring models`: list the known models with context windows, output limits and prices.

Without `--ask` no request is sent: a list of prices needs no key and no wait. With `--ask`, it asks the servers that a
run would use for their lists of models: Anthropic's (or the one configured instead of it) and every other configured
server (`agent/endpoints.py`). A list is free, and shows whether the server answers and accepts the key.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring import providers, secrets
from mainspring.agent.config import settings_of
from mainspring.agent.endpoints import (
    ANTHROPIC,
    AZURE_KEY,
    CLOUDS,
    Endpoint,
    find_configured_endpoints,
    key_of,
    named_by,
)
from mainspring.agent.model import Environment, apply_model_settings, key_for, new_config
from mainspring.agent.options import StartError
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.models import AS_OF, MODELS, Model, model_named
from mainspring.core.money import Price
from mainspring.core.reasons import Trouble
from mainspring.core.value import Bundle, Value
from mainspring.settings.values import Settings
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.providers.http_provider import ApiKey


PATIENCE = 20.0  # seconds for a list that takes milliseconds
LARGEST = 8 * 1024 * 1024  # bytes; OpenRouter's list of several hundred models has half a megabyte


class ModelEndpoint(Bundle):
    """A server to ask for its models."""

    named_by: str  # the source of its address
    url: str  # of its list of models
    key: ApiKey
    headers: dict[str, str]
    endpoint: Endpoint | None = None  # None: the server for Anthropic's protocol


class OfferedModels(Value):
    """The answer of a server."""

    url: str
    named_by: str
    models: tuple[tuple[str, int], ...] = ()  # names and context windows; 0 if unknown
    error: str = ""
    status: int = 0  # HTTP status; 0: no answer


def servers_in(settings: Settings, environment: Environment, models: Iterable[str] = ()) -> tuple[ModelEndpoint, ...]:
    """Each server once. `environment` includes `env` of the user's settings; `models`: those that a run would use."""
    ours = find_anthropic_endpoint(settings, environment)
    found = {ours.url: ours} if ours is not None else {}
    for endpoint in find_configured_endpoints(settings, environment, models):
        if endpoint.protocol in CLOUDS:
            continue  # their lists need other rights and other services
        server = server_at(endpoint, environment)
        found.setdefault(server.url, server)
    return tuple(found.values())


def find_anthropic_endpoint(settings: Settings, environment: Environment) -> ModelEndpoint | None:
    """Anthropic's server, or the one configured instead; None without a key and an address."""
    key = key_for(settings, environment, os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load
    address = settings.api.base_url or ""
    if not key.is_any and not address:
        return None
    proof = providers.ApiKey(key.value, key.header, key.refresh)
    return ModelEndpoint(
        "api.baseUrl" if address else key.source, models_url(address or providers.HOME), proof, make_version_headers()
    )


def server_at(endpoint: Endpoint, environment: Environment) -> ModelEndpoint:
    from mainspring.providers.openai.provider import add_version_path, azure_base_url

    value, name = key_of(endpoint, environment), named_by(endpoint)
    if endpoint.protocol == ANTHROPIC:
        return ModelEndpoint(name, models_url(endpoint.url), providers.ApiKey(value), make_version_headers(), endpoint)
    if endpoint.api_version:
        url = f"{azure_base_url(endpoint.url)}/models?api-version={endpoint.api_version}"
        return ModelEndpoint(name, url, providers.ApiKey(value, AZURE_KEY), {}, endpoint)
    return ModelEndpoint(
        name, f"{add_version_path(endpoint.url)}/models", providers.ApiKey(value, "authorization"), {}, endpoint
    )


def models_url(address: str) -> str:
    return f"{address.rstrip('/')}/v1/models?limit=1000"


def make_version_headers() -> dict[str, str]:
    return {"anthropic-version": providers.VERSION}


# --- requests -------------------------------------------------------------------------------------------------


async def ask_model_servers(servers: Iterable[ModelEndpoint]) -> tuple[OfferedModels, ...]:
    """All at once: a silent server does not delay the others."""
    return tuple(await asyncio.gather(*map(fetch_offered_models, servers)))


KEYLESS = "a key is required, and none is set"


async def fetch_offered_models(
    server: ModelEndpoint, environment: Environment | None = None, patience: float = PATIENCE
) -> OfferedModels:
    """`environment`: where proxies and certificates are set; None: that of the process."""
    nothing = OfferedModels(secrets.redact(server.url.partition("?")[0]), server.named_by)
    try:
        key = await resolve_helper_key(server.key)  # before the timeout: the user may have to touch a security key
        async with asyncio.timeout(patience):
            status, body = await fetch_model_list(server, key, environment)
    except ProviderError as error:
        silent = "" if error.failure.kind is Trouble.AUTH else "no answer: "  # else the message is the key helper's
        return replace(nothing, error=f"{silent}{strip_control_characters(error.failure.detail)}")
    except TimeoutError:
        return replace(nothing, error=f"no answer within {patience:.0f} seconds")
    except UsageError as error:
        return replace(nothing, error=str(error))
    answered = replace(nothing, status=status)
    if status in (401, 403):
        why = "the key was not accepted" if key.value else KEYLESS
        return replace(answered, error=f"answered {status}: {why}")
    if status != 200:
        return replace(answered, error=f"answered {status}: no list of models")
    try:
        return replace(answered, models=parse_model_list(msgspec.json.decode(body)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return replace(answered, error="cannot read its list of models")


async def resolve_helper_key(key: ApiKey) -> ApiKey:
    """Runs the key helper, if there is one: its key is not known before."""
    if key.value or key.refresh is None:
        return key
    return replace(key, value=await key.refresh())


async def fetch_model_list(
    server: ModelEndpoint, key: ApiKey, environment: Environment | None = None
) -> tuple[int, bytes]:
    async with (
        providers.Transport(environ=environment) as transport,
        transport.get(server.url, server.headers | key.headers) as response,
    ):
        return response.status, await response.read(LARGEST)


def parse_model_list(body: Any) -> tuple[tuple[str, int], ...]:
    """The names in the server's order. Some servers also send the context window, each in its own field."""
    return tuple([(strip_control_characters(str(entry["id"])), window_of(entry)) for entry in body["data"]])


def window_of(entry: dict[str, Any]) -> int:
    meta: dict[str, Any] = entry.get("meta") or {}
    told = [entry.get(name) for name in ("context_length", "max_model_len", "max_input_tokens")]
    return next((value for value in (*told, meta.get("n_ctx")) if isinstance(value, int)), 0)


NANOS_PER_DOLLAR_A_MILLION = 1_000  # one dollar per million tokens, in nano-dollars per token

NO_SERVER = (
    "no server is configured: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or the address of another server in "
    "ANTHROPIC_BASE_URL or OPENAI_BASE_URL, or name a model of one: '--model ollama/NAME'. See 'mainspring help openai'"
)
PRICES = f"Prices in US dollars per million tokens, as of {AS_OF}. To add models, see 'mainspring help settings'."
MORE = "Run 'mainspring models --ask' to ask the servers which models they offer."


def models(args: Namespace) -> int:
    settings = settings_of(args.session, os.getcwd(), os.environ)  # noqa: PTH109  # pathlib takes 8 ms to load
    offers: tuple[OfferedModels, ...] | None = None
    if args.ask:
        config = new_config(args.session, settings)
        names = [model.name for model in (config.model, *config.fallbacks)]
        servers = servers_in(settings, dict(os.environ) | settings.own_env, names)
        if not servers:
            raise StartError(NO_SERVER)
        offers = asyncio.run(ask_model_servers(servers))
    known = known_models(settings)
    lines = models_to_json(known, settings, offers) if args.json else format_model_table(known, settings, offers)
    for line in lines:
        print(line)
    return 1 if any(offer.error for offer in offers or ()) else 0


def known_models(settings: Settings) -> list[Model]:
    """The built-in table, then the models of the settings."""
    names = [*MODELS, *[entry.name for entry in settings.models if entry.name not in MODELS]]
    return [apply_model_settings(model_named(name), settings) for name in names]


# --- for people -------------------------------------------------------------------------------------------


def format_model_table(
    known: Iterable[Model], settings: Settings, offers: tuple[OfferedModels, ...] | None
) -> Iterable[str]:
    head = ("model", "window", "output", "input $", "cached $", "output $", "")
    rows = [head, *[format_model_row(model, describe_model_source(model, settings)) for model in known]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for each in rows:
        cells = [each[0].ljust(widths[0]), *map(str.rjust, each[1:-1], widths[1:-1]), each[-1]]
        yield "  ".join(cells).rstrip()
    yield PRICES
    for offer in offers or ():
        yield ""
        yield from offer_lines(offer)
    if offers is None:
        yield MORE


def format_model_row(model: Model, source: str) -> tuple[str, ...]:
    price = model.price
    above = (
        f"{format_dollars(price.above.input)}/{format_dollars(price.above.output)} above {price.above_tokens:,}"
        if price.above
        else ""
    )
    figures = (format_dollars(price.input), format_dollars(price.cache_read), format_dollars(price.output))
    return (
        model.name,
        f"{model.window:,}",
        f"{model.max_output:,}",
        *figures,
        ", ".join(filter(None, (above, source))),
    )


def describe_model_source(model: Model, settings: Settings) -> str:
    entry = next((entry for entry in settings.models if entry.name == model.name), None)
    if entry is None:
        return ""
    return "settings, no tools" if entry.tools is False else "settings"


def format_dollars(nanos: int) -> str:
    """Two decimals, or three if needed."""
    usd = nanos / NANOS_PER_DOLLAR_A_MILLION
    return f"{usd:.3f}".removesuffix("0")


def offer_lines(offer: OfferedModels) -> Iterable[str]:
    if offer.error:
        yield f"{offer.url} ({offer.named_by}): {offer.error}"
        return
    yield f"{offer.url} ({offer.named_by}) offers {plural(len(offer.models), 'model')}:"
    for name, window in offer.models:
        yield f"  {name}" + (f"  {window:,}" if window else "")


# --- for programs ---------------------------------------------------------------------------------------------


def models_to_json(
    known: Iterable[Model], settings: Settings, offers: tuple[OfferedModels, ...] | None
) -> Iterable[str]:
    told: dict[str, Any] = {
        "as_of": AS_OF,
        "models": [
            {
                "name": model.name,
                "window": model.window,
                "max_output": model.max_output,
                **prices_to_json(model.price),
                "above_tokens": model.price.above_tokens or None,
                "above": prices_to_json(model.price.above) if model.price.above else None,
                "source": describe_model_source(model, settings) or "table",
            }
            for model in known
        ],
    }
    if offers is not None:
        told["servers"] = [
            {
                "url": offer.url,
                "named_by": offer.named_by,
                "models": [{"name": name, "window": window or None} for name, window in offer.models],
                "error": offer.error or None,
            }
            for offer in offers
        ]
    yield msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def prices_to_json(price: Price) -> dict[str, float]:
    fields = ("input", "cache_write", "cache_write_1h", "cache_read", "output")
    return {f"{name}_usd": getattr(price, name) / NANOS_PER_DOLLAR_A_MILLION for name in fields}
