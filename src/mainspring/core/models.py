"""Models: windows, output caps, prices. Data, dated; settings extend it.

Figures as published by Anthropic, read on 2026-11-15. A model that is not listed gets `UNKNOWN`, whose window and
cap are what most current models have at least, and whose price is that of the dearest listed one, so that a money limit
errs on the safe side.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.money import Price
from mainspring.core.value import Value

AS_OF = "2026-11-15"


class Model(Value):
    name: str
    window: int = 200_000
    max_output: int = 64_000
    price: Price = Price()
    adaptive_thinking: bool = False
    thinking_budget: int = 0  # for models without adaptive thinking (K-06); 0: the model does not think
    always_thinks: bool = False  # it refuses a request that switches thinking off


def per_million(usd: float, output_usd: float, read: float = 0.1) -> Price:
    """A price from the published pair. Cache writes cost 1.25x the input, 2x for an hour; a read costs `read` of it."""
    nanos = round(usd * 1_000)  # a dollar per million tokens is a thousand nano-dollars per token
    return Price(nanos, nanos * 5 // 4, nanos * 2, round(nanos * read), round(output_usd * 1_000))


OPUS_THINKS, SONNET_THINKS, HAIKU_THINKS = 32_000, 16_000, 8_000  # K-06

_HAIKU_5_5 = replace(per_million(0.10, 0.50), above_tokens=100_000, above=per_million(0.50, 2.50))

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "claude-fable-5-1",
            1_000_000,
            128_000,
            per_million(10, 50, 0.025),
            adaptive_thinking=True,
            always_thinks=True,
        ),
        Model("claude-fable-5", 1_000_000, 128_000, per_million(10, 50), adaptive_thinking=True, always_thinks=True),
        Model("claude-opus-5-5", 1_000_000, 128_000, per_million(4, 20, 0.05), adaptive_thinking=True),
        Model("claude-opus-5", 1_000_000, 128_000, per_million(5, 25), adaptive_thinking=True),
        Model("claude-sonnet-5-5", 1_000_000, 128_000, per_million(2, 10, 0.05), adaptive_thinking=True),
        Model("claude-sonnet-5", 1_000_000, 128_000, per_million(2, 10), adaptive_thinking=True),
        Model("claude-haiku-5-5", 1_000_000, 128_000, _HAIKU_5_5, adaptive_thinking=True),
        Model("claude-opus-4-5", 200_000, 64_000, per_million(5, 25), thinking_budget=OPUS_THINKS),
        Model("claude-sonnet-4-5", 200_000, 64_000, per_million(3, 15), thinking_budget=SONNET_THINKS),
        Model("claude-haiku-4-5", 200_000, 64_000, per_million(1, 5), thinking_budget=HAIKU_THINKS),
    )
}
DEFAULT_MODEL = MODELS["claude-sonnet-5-5"]
UNKNOWN = Model("unknown", 200_000, 32_000, per_million(10, 50))


def model_named(name: str) -> Model:
    """Also finds a dated name such as `claude-haiku-4-5-20251001` by the name it begins with."""
    known = [listed for listed in MODELS if name == listed or name.startswith(f"{listed}-2")]
    return replace(MODELS[known[0]] if known else UNKNOWN, name=name)
