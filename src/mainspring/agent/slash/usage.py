"""`/usage`: what this session has cost by model, what is left of the budget, and the provider's rate limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainspring.agent.slash.info import break_lines, cost_lines, limit_lines
from mainspring.agent.slash.lines import clean_line, tell_all, tell_list
from mainspring.providers.rate_limits import RateLimit, read_rate_limits

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext


async def usage(talk: SlashContext, _: str) -> None:
    meter, account = talk.session.usage, talk.world.session.shared.ledger.account
    tell_all(talk, [*cost_lines(meter), *break_lines(meter), *limit_lines(meter, account)])
    if account.limit is None:
        tell_all(talk, ["No budget is set ('--max-budget-usd')."])
    tell_list(talk, list(rate_limit_lines(talk)))


def rate_limit_lines(talk: SlashContext) -> Iterator[str]:
    found = read_rate_limits(getattr(talk.config.model.provider, "last_headers", {}))
    if not found:
        yield "Rate limits: the provider has reported none."
        return
    yield "Rate limits, as the provider last reported them:"
    yield from [f"  {clean_line(format_rate_limit(one))}" for one in found]


def format_rate_limit(one: RateLimit) -> str:
    left = f"{one.remaining} of {one.limit} left" if one.limit and one.remaining else one.remaining or one.limit
    used = f"{float(one.used):.0%} used" if is_share(one.used) else one.used
    resets = f"resets {one.reset}" if one.reset else ""
    return f"{one.name}: {', '.join([part for part in (left, used, resets) if part])}"


def is_share(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
