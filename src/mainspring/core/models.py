"""Models: windows, output caps, prices. Data, dated; settings extend it.

Figures as published by Anthropic, read on 2026-11-15. A model that is not listed gets `UNKNOWN`: its window and cap are
ones that most current models reach, and its price is that of the most expensive listed model, so that a money limit
errs on the safe side.
"""

from __future__ import annotations

from functools import lru_cache

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
    thinking_off: str = ""  # the setting that asks for as little as the model allows; empty: leave the setting out
    most_effort: str = ""  # the highest supported level; empty: effort is not supported
    binds_thinking: bool = False  # its thinking becomes invalid when anything before it changes


def per_million(usd: float, output_usd: float, read: float = 0.1) -> Price:
    """A price from the published pair. Cache writes cost 1.25x the input, 2x for an hour; a read costs `read` of it."""
    nanos = round(usd * 1_000)  # a dollar per million tokens is a thousand nano-dollars per token
    return Price(nanos, nanos * 5 // 4, nanos * 2, round(nanos * read), round(output_usd * 1_000))


OPUS_THINKS, SONNET_THINKS, HAIKU_THINKS = 32_000, 16_000, 8_000  # K-06

_HAIKU_5_5 = replace(per_million(0.10, 0.50), above_tokens=100_000, above=per_million(0.50, 2.50))


def adaptive(name: str, price: Price, off: str = "disabled", *, binds: bool = False) -> Model:
    """The current generation: the model decides by itself how much to think."""
    large = Model(name, 1_000_000, 128_000, price)
    return replace(large, adaptive_thinking=True, thinking_off=off, most_effort="max", binds_thinking=binds)


def budgeted_model(name: str, price: Price, thinks: int, most_effort: str = "") -> Model:
    return Model(name, 200_000, 64_000, price, thinking_budget=thinks, most_effort=most_effort)


def openai(  # noqa: PLR0913, PLR0917  # a row of a table
    name: str, usd: float, output_usd: float, read_usd: float, window: int = 400_000, output: int = 128_000,
    most_effort: str = "high",
) -> Model:  # fmt: skip
    nanos = round(usd * 1_000)
    price = Price(nanos, nanos, nanos, round(read_usd * 1_000), round(output_usd * 1_000))
    return Model(name, window, output, price, most_effort=most_effort)


ALWAYS = "adaptive"  # thinking cannot be turned off for these

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        adaptive("claude-fable-5-1", per_million(10, 50, 0.025), ALWAYS, binds=True),
        adaptive("claude-fable-5", per_million(10, 50), ALWAYS),
        adaptive("claude-opus-5-5", per_million(4, 20, 0.05), ALWAYS, binds=True),
        adaptive("claude-opus-5", per_million(5, 25)),
        adaptive("claude-sonnet-5-5", per_million(2, 10, 0.05), "between_tools", binds=True),
        adaptive("claude-sonnet-5", per_million(2, 10)),
        adaptive("claude-haiku-5-5", _HAIKU_5_5, binds=True),
        budgeted_model("claude-opus-4-5", per_million(5, 25), OPUS_THINKS, "high"),
        budgeted_model("claude-sonnet-4-5", per_million(3, 15), SONNET_THINKS),
        budgeted_model("claude-haiku-4-5", per_million(1, 5), HAIKU_THINKS),
        # OpenAI's, as on its page of 2026-11-05. Writing to its cache costs nothing extra; where the page gives no
        # window, this table has the smaller one of the family.
        openai("gpt-5.4", 2.5, 15, 0.25),
        openai("gpt-5.4-mini", 0.75, 4.5, 0.075),
        openai("gpt-5", 1.25, 10, 0.125),
        openai("gpt-5-mini", 0.25, 2, 0.025),
        openai("gpt-4.1", 2, 8, 0.5, 1_000_000, 32_768, most_effort=""),
        openai("gpt-4.1-mini", 0.4, 1.6, 0.1, 1_000_000, 32_768, most_effort=""),
        openai("gpt-4o", 2.5, 10, 1.25, 128_000, 16_384, most_effort=""),
        openai("o4-mini", 1.1, 4.4, 0.275, 200_000, 100_000),
    )
}
DEFAULT_MODEL = MODELS["claude-sonnet-5-5"]
UNKNOWN = Model("unknown", 200_000, 32_000, replace(per_million(10, 50), estimated=True), most_effort="max")


# Names of models on this machine begin so. They cost nothing, whatever hosted model has the same name, and their server
# sets the window, which we do not know.
LOCAL = ("ollama/", "lmstudio/", "vllm/", "llamacpp/", "demo/")
NEAR_WINDOW, NEAR_OUTPUT = 32_768, 8_192  # tokens: what local servers are usually started with


@lru_cache(256)  # asked for several times a turn
def model_named(name: str) -> Model:
    """Find a model by its name. Also accepts a dated name such as `claude-haiku-4-5-20251001`, by the name it begins
    with, a name with a provider prefix, as in `openai/gpt-5`, and the names of Bedrock and Vertex."""
    bare = bare_name(name)
    known = [listed for listed in MODELS if bare == listed or bare.startswith(f"{listed}-20")]
    model = replace(MODELS[known[0]] if known else UNKNOWN, name=name)
    if name.startswith(LOCAL):
        return replace(model, window=NEAR_WINDOW, max_output=NEAR_OUTPUT, price=Price())
    return model


def has_price(model: Model) -> bool:
    """Whether its cost can be shown. It cannot for a model whose price is only assumed, and for one that is free."""
    return not model.price.estimated and model.price != Price()


def bare_name(name: str) -> str:
    """Without the prefix of a provider; and Anthropic's name for one of a cloud, such as
    `us.anthropic.claude-haiku-4-5-20251001-v1:0` of Bedrock or `claude-haiku-4-5@20251001` of Vertex."""
    bare = name.rpartition("/")[2]
    if "anthropic." in bare:
        bare = bare.rpartition("anthropic.")[2].partition(":")[0]
        front, version, number = bare.rpartition("-v")
        bare = front if version and number.isdecimal() else bare
    return bare.removesuffix("@default").replace("@", "-")


def same_model(one: str, other: str) -> bool:
    """A dated name and the name without its date mean the same model; so do names with different provider prefixes."""
    one, other = bare_name(one), bare_name(other)
    return one == other or one.startswith(f"{other}-20") or other.startswith(f"{one}-20")
