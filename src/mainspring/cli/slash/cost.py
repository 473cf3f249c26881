"""`/cost` in a conversation: what it came to so far, by model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainspring.agent.usage import UsageMeter
from mainspring.core.models import MODELS, same_model
from mainspring.core.money import NANOS_PER_USD, Account


def cost_lines(usage: UsageMeter) -> Iterator[str]:
    rows = usage.by_model()
    passed = f"{format_duration(usage.api_ms)} of waiting for the model, {format_duration(usage.age)} since it began"
    if not rows:
        yield f"Nothing was spent yet. {passed.capitalize()}."
        return
    known = all(has_price(name) for name in rows)
    yield f"{format_cost(usage.cost) if known else 'The price is not known'}. {passed.capitalize()}."
    for name, row in rows.items():
        yield f"  {name}: {format_token_row(row)}" + (f", ${row['costUSD']:.4f}" if has_price(name) else "")


def limit_lines(usage: UsageMeter, account: Account) -> Iterator[str]:
    """Of the process, which may have held other conversations before this one; each of them counts against the
    limit."""
    spent, limit = format_cost(account.spent), account.limit
    others = account.spent != usage.cost
    if limit is not None:
        whose = "since the start, with all conversations, " if others else ""
        yield f"Limit: {whose}{spent} of {format_cost(limit)} spent, {format_cost(max(0, limit - account.spent))} left."
    elif others:
        yield f"Since the start, with all conversations: {spent}."


def format_token_row(row: dict[str, Any]) -> str:
    read, written = row["cacheReadInputTokens"], row["cacheCreationInputTokens"]
    prompt = row["inputTokens"] + read + written
    cached = f" ({read:,} of them from the cache)" if read else ""
    return f"{prompt:,}{cached} + {row['outputTokens']:,} tokens"


def has_price(name: str) -> bool:
    """As far as our table goes."""
    return any(same_model(name, listed) for listed in MODELS)


def format_cost(nanos: int) -> str:
    return f"${nanos / NANOS_PER_USD:.4f}"


def format_duration(milliseconds: int) -> str:
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
