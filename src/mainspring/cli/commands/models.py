"""`mainspring models`: the models that are known, with windows, caps and prices; with `--ask`, what servers offer.

Nobody is asked without `--ask`: a list of prices should cost no key and no wait. Who is asked then is in `offers.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.agent.config import settings_of
from mainspring.agent.model import apply_model_settings, new_config
from mainspring.agent.options import StartError
from mainspring.cli.commands.offers import OfferedModels, ask_model_servers, servers_in
from mainspring.cli.subcommands import Namespace
from mainspring.core.models import AS_OF, MODELS, Model, model_named
from mainspring.core.money import Price
from mainspring.settings.values import Settings

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
