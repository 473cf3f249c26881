"""`mainspring models`: the models that are known, with windows, caps and prices; with `--ask`, what servers offer.

Nobody is asked without `--ask`: a list of prices should cost no key and no wait. The servers are those that a run would
turn to: Anthropic's, or whatever stands in its place, and OpenAI's, or whatever stands in its place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring.cli.flags import Options, StartError
from mainspring.cli.harmless import harmless
from mainspring.cli.model import as_set, key_for
from mainspring.cli.settings import settings_of
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.models import AS_OF, MODELS, Model, model_named
from mainspring.core.money import Price
from mainspring.core.value import Bundle, Value
from mainspring.settings.values import Settings

NANOS_PER_DOLLAR_A_MILLION = 1_000  # a dollar for a million tokens is so many nano-dollars for one
PATIENCE = 20.0  # seconds for a list that takes milliseconds
LARGEST = 8 * 1024 * 1024  # bytes; OpenRouter's, with some hundred models, has half of one

NO_SERVER = (
    "no server is configured: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or the address of another server in "
    "ANTHROPIC_BASE_URL or OPENAI_BASE_URL"
)
PRICES = f"Prices are US dollars a million tokens, as of {AS_OF}. 'models' in settings has your own: docs/settings.md"
MORE = "'mainspring models --ask' asks the servers what they offer"


class Server(Bundle):
    """Who is asked, and how."""

    named_by: str  # where its address came from
    url: str  # of its list of models
    headers: dict[str, str]


class Offered(Value):
    """What a server said."""

    url: str
    named_by: str
    models: tuple[tuple[str, int], ...] = ()  # names, and windows where it tells; else 0
    error: str = ""


def models(options: Options) -> int:
    if len(options.words) > 1:
        raise StartError(f"'mainspring models' knows no '{options.words[1]}': use '--ask', '--json', or nothing")
    settings = settings_of(options, os.getcwd(), os.environ)  # noqa: PTH109  # pathlib takes 8 ms to load
    offers: tuple[Offered, ...] | None = None
    if "--ask" in options.given:
        servers = servers_in(settings, os.environ)
        if not servers:
            raise StartError(NO_SERVER)
        offers = asyncio.run(asked(servers))
    known = known_models(settings)
    lines = as_json(known, settings, offers) if "--json" in options.given else as_table(known, settings, offers)
    for line in lines:
        print(line)
    return 1 if any(offer.error for offer in offers or ()) else 0


def known_models(settings: Settings) -> list[Model]:
    """Our table, then what settings add to it."""
    names = [*MODELS, *[entry.name for entry in settings.models if entry.name not in MODELS]]
    return [as_set(model_named(name), settings) for name in names]


# --- for people -------------------------------------------------------------------------------------------


def as_table(known: Iterable[Model], settings: Settings, offers: tuple[Offered, ...] | None) -> Iterable[str]:
    head = ("model", "window", "output", "input $", "cached $", "output $", "")
    rows = [head, *[row(model, source(model, settings)) for model in known]]
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


def row(model: Model, source: str) -> tuple[str, ...]:
    price = model.price
    above = (
        f"{dollars(price.above.input)}/{dollars(price.above.output)} above {price.above_tokens:,}"
        if price.above
        else ""
    )
    figures = (dollars(price.input), dollars(price.cache_read), dollars(price.output))
    return (
        model.name,
        f"{model.window:,}",
        f"{model.max_output:,}",
        *figures,
        ", ".join(filter(None, (above, source))),
    )


def source(model: Model, settings: Settings) -> str:
    return "settings" if model.name in [entry.name for entry in settings.models] else ""


def dollars(nanos: int) -> str:
    """At least cents, and no more digits than there are."""
    usd = nanos / NANOS_PER_DOLLAR_A_MILLION
    return f"{usd:.3f}".removesuffix("0")


def offer_lines(offer: Offered) -> Iterable[str]:
    if offer.error:
        yield f"{offer.url} ({offer.named_by}): {offer.error}"
        return
    yield f"{offer.url} ({offer.named_by}) offers {len(offer.models)}:"
    for name, window in offer.models:
        yield f"  {name}" + (f"  {window:,}" if window else "")


# --- for programs ---------------------------------------------------------------------------------------------


def as_json(known: Iterable[Model], settings: Settings, offers: tuple[Offered, ...] | None) -> Iterable[str]:
    told: dict[str, Any] = {
        "as_of": AS_OF,
        "models": [
            {
                "name": model.name,
                "window": model.window,
                "max_output": model.max_output,
                **prices(model.price),
                "above_tokens": model.price.above_tokens or None,
                "above": prices(model.price.above) if model.price.above else None,
                "source": source(model, settings) or "table",
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


def prices(price: Price) -> dict[str, float]:
    fields = ("input", "cache_write", "cache_write_1h", "cache_read", "output")
    return {f"{name}_usd": getattr(price, name) / NANOS_PER_DOLLAR_A_MILLION for name in fields}


# --- asking ---------------------------------------------------------------------------------------------------


def servers_in(settings: Settings, environment: Mapping[str, str]) -> tuple[Server, ...]:
    from mainspring.providers.anthropic import HOME, VERSION
    from mainspring.providers.asking import Key
    from mainspring.providers.openai import HOME as OPENAI_HOME
    from mainspring.providers.openai import with_version

    found: list[Server] = []
    ours = key_for(settings, dict(environment), os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load
    address = settings.api.base_url or ""
    if ours.is_any or address:
        named_by = "api.baseUrl" if address else ours.source
        url = f"{(address or HOME).rstrip('/')}/v1/models?limit=1000"
        proof = Key(ours.value, ours.header).headers
        found.append(Server(named_by, url, {"anthropic-version": VERSION, **proof}))
    key = environment.get("OPENAI_API_KEY", "").strip()
    address = environment.get("OPENAI_BASE_URL", "").strip()
    if key or address:
        url = f"{with_version(address or OPENAI_HOME)}/models"
        named_by = "OPENAI_BASE_URL" if address else "OPENAI_API_KEY"
        found.append(Server(named_by, url, {"authorization": f"Bearer {key}"} if key else {}))
    return (*found, *of_models(settings, environment, {server.url for server in found}))


def of_models(settings: Settings, environment: Mapping[str, str], known: set[str]) -> Iterable[Server]:
    """The servers of single models, each once."""
    from mainspring.cli.endpoints import key_of, own
    from mainspring.providers.openai import with_version

    for entry in settings.models:
        url = f"{with_version(entry.base_url)}/models" if entry.base_url else ""
        if url and url not in known:
            known.add(url)
            key = key_of(own(entry), environment)
            yield Server(f"models.{entry.name}.base_url", url, {"authorization": f"Bearer {key}"} if key else {})


async def asked(servers: Iterable[Server]) -> tuple[Offered, ...]:
    """All of them at once: one that is silent keeps nobody else waiting."""
    return tuple(await asyncio.gather(*map(offered, servers)))


async def offered(server: Server) -> Offered:
    from mainspring.secrets.redaction import redact

    shown = redact(server.url.partition("?")[0])
    try:
        async with asyncio.timeout(PATIENCE):
            status, body = await fetched(server)
    except ProviderError as error:
        return Offered(shown, server.named_by, error=f"no answer: {harmless(error.failure.detail)}")
    except TimeoutError:
        return Offered(shown, server.named_by, error=f"no answer within {PATIENCE:.0f} seconds")
    except UsageError as error:
        return Offered(shown, server.named_by, error=str(error))
    if status in (401, 403):
        return Offered(shown, server.named_by, error=f"answered {status}: it does not take the key")
    if status != 200:
        return Offered(shown, server.named_by, error=f"answered {status}: it has no list of models")
    try:
        return Offered(shown, server.named_by, listed(msgspec.json.decode(body)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Offered(shown, server.named_by, error="its list of models cannot be read")


async def fetched(server: Server) -> tuple[int, bytes]:
    from mainspring.providers.transport import Transport

    async with Transport() as transport, transport.get(server.url, server.headers) as response:
        return response.status, await response.read(LARGEST)


def listed(body: Any) -> tuple[tuple[str, int], ...]:
    """The names in their order. Some servers also say how much a model can read, each in its own field."""
    return tuple([(harmless(str(entry["id"])), window_of(entry)) for entry in body["data"]])


def window_of(entry: dict[str, Any]) -> int:
    meta: dict[str, Any] = entry.get("meta") or {}
    told = [entry.get(name) for name in ("context_length", "max_model_len", "max_input_tokens")]
    return next((value for value in (*told, meta.get("n_ctx")) if isinstance(value, int)), 0)
