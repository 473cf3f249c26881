"""`mainspring models`: the models that are known, with windows, caps and prices; with `--ask`, what servers offer.

Nobody is asked without `--ask`: a list of prices should cost no key and no wait. Who is asked then is in `models.py`.

What servers offer: who is asked for a list of models, and what they say.

The servers are those that a run would turn to: Anthropic's, or whatever stands in its place, and all that somebody has
set up beside it (`endpoints.py`). A list costs nothing, and tells whether the server is there and takes the key.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.agent.config import settings_of
from mainspring.agent.endpoints import ANTHROPIC, AZURE_KEY, Endpoint, find_configured_endpoints, key_of, named_by
from mainspring.agent.model import Environment, apply_model_settings, key_for, new_config
from mainspring.agent.options import StartError
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.models import AS_OF, MODELS, Model, model_named
from mainspring.core.money import Price
from mainspring.core.reasons import Trouble
from mainspring.core.value import Bundle, Value
from mainspring.settings.values import Settings
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.providers.http_provider import ApiKey


PATIENCE = 20.0  # seconds for a list that takes milliseconds
LARGEST = 8 * 1024 * 1024  # bytes; OpenRouter's, with some hundred models, has half of one


class ModelEndpoint(Bundle):
    """Who is asked, and how."""

    named_by: str  # where its address came from
    url: str  # of its list of models
    key: ApiKey
    headers: dict[str, str]
    endpoint: Endpoint | None = None  # None: the one that is set for Anthropic's protocol


class OfferedModels(Value):
    """What a server said."""

    url: str
    named_by: str
    models: tuple[tuple[str, int], ...] = ()  # names, and windows where it tells; else 0
    error: str = ""
    status: int = 0  # of its answer; 0: there was none


def servers_in(settings: Settings, environment: Environment, models: Iterable[str] = ()) -> tuple[ModelEndpoint, ...]:
    """Each once. `environment`: with what the user's settings add. `models` are those that a run would ask."""
    ours = find_anthropic_endpoint(settings, environment)
    found = {ours.url: ours} if ours is not None else {}
    for endpoint in find_configured_endpoints(settings, environment, models):
        server = server_at(endpoint, environment)
        found.setdefault(server.url, server)
    return tuple(found.values())


def find_anthropic_endpoint(settings: Settings, environment: Environment) -> ModelEndpoint | None:
    """Anthropic's, or what stands in its place; None if neither a key nor an address is there."""
    from mainspring.providers.anthropic.provider import HOME
    from mainspring.providers.http_provider import ApiKey

    key = key_for(settings, environment, os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load
    address = settings.api.base_url or ""
    if not key.is_any and not address:
        return None
    proof = ApiKey(key.value, key.header, key.refresh)
    return ModelEndpoint(
        "api.baseUrl" if address else key.source, models_url(address or HOME), proof, make_version_headers()
    )


def server_at(endpoint: Endpoint, environment: Environment) -> ModelEndpoint:
    from mainspring.providers.http_provider import ApiKey
    from mainspring.providers.openai.provider import add_version_path, azure_base_url

    value, name = key_of(endpoint, environment), named_by(endpoint)
    if endpoint.protocol == ANTHROPIC:
        return ModelEndpoint(name, models_url(endpoint.url), ApiKey(value), make_version_headers(), endpoint)
    if endpoint.api_version:
        url = f"{azure_base_url(endpoint.url)}/models?api-version={endpoint.api_version}"
        return ModelEndpoint(name, url, ApiKey(value, AZURE_KEY), {}, endpoint)
    return ModelEndpoint(name, f"{add_version_path(endpoint.url)}/models", ApiKey(value, "authorization"), {}, endpoint)


def models_url(address: str) -> str:
    return f"{address.rstrip('/')}/v1/models?limit=1000"


def make_version_headers() -> dict[str, str]:
    from mainspring.providers.anthropic.provider import VERSION

    return {"anthropic-version": VERSION}


# --- asking ---------------------------------------------------------------------------------------------------


async def ask_model_servers(servers: Iterable[ModelEndpoint]) -> tuple[OfferedModels, ...]:
    """All of them at once: one that is silent keeps nobody else waiting."""
    return tuple(await asyncio.gather(*map(fetch_offered_models, servers)))


async def fetch_offered_models(server: ModelEndpoint) -> OfferedModels:
    from mainspring.secrets.redaction import redact

    nothing = OfferedModels(redact(server.url.partition("?")[0]), server.named_by)
    try:
        key = await resolve_helper_key(server.key)  # before the clock: somebody may have to touch something
        async with asyncio.timeout(PATIENCE):
            status, body = await fetch_model_list(server, key)
    except ProviderError as error:
        silent = "" if error.failure.kind is Trouble.AUTH else "no answer: "  # else the helper has spoken
        return replace(nothing, error=f"{silent}{strip_control_characters(error.failure.detail)}")
    except TimeoutError:
        return replace(nothing, error=f"no answer within {PATIENCE:.0f} seconds")
    except UsageError as error:
        return replace(nothing, error=str(error))
    answered = replace(nothing, status=status)
    if status in (401, 403):
        why = "it does not take the key" if key.value else "it wants a key, and none was sent"
        return replace(answered, error=f"answered {status}: {why}")
    if status != 200:
        return replace(answered, error=f"answered {status}: it has no list of models")
    try:
        return replace(answered, models=parse_model_list(msgspec.json.decode(body)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return replace(answered, error="its list of models cannot be read")


async def resolve_helper_key(key: ApiKey) -> ApiKey:
    """A helper is asked only here: its key is not known before."""
    if key.value or key.refresh is None:
        return key
    return replace(key, value=await key.refresh())


async def fetch_model_list(server: ModelEndpoint, key: ApiKey) -> tuple[int, bytes]:
    from mainspring.providers.http.client import Transport

    async with Transport() as transport, transport.get(server.url, server.headers | key.headers) as response:
        return response.status, await response.read(LARGEST)


def parse_model_list(body: Any) -> tuple[tuple[str, int], ...]:
    """The names in their order. Some servers also say how much a model can read, each in its own field."""
    return tuple([(strip_control_characters(str(entry["id"])), window_of(entry)) for entry in body["data"]])


def window_of(entry: dict[str, Any]) -> int:
    meta: dict[str, Any] = entry.get("meta") or {}
    told = [entry.get(name) for name in ("context_length", "max_model_len", "max_input_tokens")]
    return next((value for value in (*told, meta.get("n_ctx")) if isinstance(value, int)), 0)


NANOS_PER_DOLLAR_A_MILLION = 1_000  # a dollar for a million tokens is so many nano-dollars for one

NO_SERVER = (
    "no server is configured: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or the address of another server in "
    "ANTHROPIC_BASE_URL or OPENAI_BASE_URL, or name a model of one: '--model ollama/NAME'. More: docs/openai.md"
)
PRICES = f"Prices are US dollars a million tokens, as of {AS_OF}. 'models' in settings has your own: docs/settings.md"
MORE = "'mainspring models --ask' asks the servers what they offer"


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
    """Our table, then what settings add to it."""
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
    """At least cents, and no more digits than there are."""
    usd = nanos / NANOS_PER_DOLLAR_A_MILLION
    return f"{usd:.3f}".removesuffix("0")


def offer_lines(offer: OfferedModels) -> Iterable[str]:
    if offer.error:
        yield f"{offer.url} ({offer.named_by}): {offer.error}"
        return
    yield f"{offer.url} ({offer.named_by}) offers {len(offer.models)}:"
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
