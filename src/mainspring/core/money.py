"""Money: usage, prices, and the arithmetic of reserving before spending.

Amounts are whole nano-dollars, because a cached token costs a fraction of a micro-dollar and sums of floats drift. The
mutable ledger that a tree of agents shares is in `engine/`; its arithmetic is here.
"""

from __future__ import annotations

from mainspring.core.value import Value

NANOS_PER_USD = 1_000_000_000


class Usage(Value):
    """What a model call consumed. The classes are disjoint: no token is counted in two of them."""

    input: int = 0
    cache_write: int = 0  # kept for five minutes
    cache_write_1h: int = 0
    cache_read: int = 0
    output: int = 0
    estimated: bool = False  # at least a part is an estimate, because the server gave no figures
    web_searches: int = 0  # by the model's service, on its side

    @property
    def prompt(self) -> int:
        return self.input + self.cache_write + self.cache_write_1h + self.cache_read

    @property
    def total(self) -> int:
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
            self.cache_read + other.cache_read,
            self.output + other.output,
            self.estimated or other.estimated,
            self.web_searches + other.web_searches,
        )


class Price(Value):
    """Nano-dollars per token, by class. `above` holds the prices of prompts longer than `above_tokens`."""

    input: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    output: int = 0
    above_tokens: int = 0
    above: Price | None = None
    estimated: bool = False  # unknown: a guess on the safe side

    def at(self, prompt_tokens: int) -> Price:
        if self.above is not None and prompt_tokens > self.above_tokens:
            return self.above
        return self

    def dearest_input(self, *, marked: bool = True) -> int:
        """Of a prompt token, in any request of ours: we set no cache mark that lasts an hour, so nothing is written at
        that rate. In a request of the conversation, which has a mark at its newest message, each token may be one that
        is written; in one without a mark (`marked`), none is."""
        return max(self.input, self.cache_write) if marked else self.input


WEB_SEARCH = 10_000_000  # nano-dollars: both Anthropic and OpenAI publish $10 per 1,000 searches, for every model


def cost(usage: Usage, price: Price) -> int:
    return cost_at(usage, price.at(usage.prompt)) + usage.web_searches * WEB_SEARCH


def cost_at(usage: Usage, rates: Price) -> int:
    return (
        usage.input * rates.input
        + usage.cache_write * rates.cache_write
        + usage.cache_write_1h * rates.cache_write_1h
        + usage.cache_read * rates.cache_read
        + usage.output * rates.output
    )


CACHE_LIFETIME = 5 * 60_000  # milliseconds that a server keeps a prefix after its last use


def price_prefix_break(last: Usage, now: Usage, price: Price, *, automatic: bool = False) -> tuple[int, int]:
    """Tokens that a prefix break lost, and its price in nano-dollars: the cost of the prompt `now`, minus its cost with
    an unbroken cache. That cache would have all that it had after the `last` request, as far as this one is as long.

    Both at the rates of the model now: that another model has other prices is not the price of the break. `automatic`:
    the server caches whole prompts. Whether it did is known only if it has read from its cache.
    """
    if automatic:
        unbroken = min(last.prompt, now.prompt) if last.cache_read else 0
    else:
        unbroken = min(last.prompt - last.input, now.prompt - now.input)  # up to the last breakpoint
    lost = max(0, unbroken - now.cache_read)
    hour = min(lost, now.cache_write_1h)  # the order of a prompt: read, written for an hour, for five minutes, plain
    short = min(lost - hour, now.cache_write)
    paid = Usage(input=lost - hour - short, cache_write=short, cache_write_1h=hour)
    rates = price.at(now.prompt)
    return lost, max(0, cost_at(paid, rates) - lost * rates.cache_read)


# --- before a call: what can be paid for ------------------------------------------------------------

LEAST_OUTPUT = 256  # settled 22: a shorter reply is seldom useful, so the loop does not start such a call


class Grant(Value):
    """Permission for one call: how many tokens it may write, and how much to reserve for it."""

    max_output: int
    reserve: int


def grant(  # noqa: PLR0913  # a call as the arithmetic sees it
    funds: int, prompt_tokens: int, wanted: int, price: Price, *, floor: int = LEAST_OUTPUT, marked: bool = True
) -> Grant | None:
    """The largest call that `funds` can pay for even at its highest price; None if its output would be below `floor`.

    The price assumes that every prompt token is written to the cache (if the request has a mark), and none is read from
    it: a call that could exceed the limit is not started (law 5).
    """
    rates = price.at(prompt_tokens)
    prompt = prompt_tokens * rates.dearest_input(marked=marked)
    if rates.output:
        wanted_or_paid_for = min(wanted, (funds - prompt) // rates.output)
    else:
        wanted_or_paid_for = wanted if funds >= prompt else 0
    if wanted_or_paid_for < min(floor, wanted):
        return None
    return Grant(wanted_or_paid_for, prompt + wanted_or_paid_for * rates.output)


def least(prompt_tokens: int, output: int, price: Price) -> int:
    """The funds needed to grant a call with this much output."""
    rates = price.at(prompt_tokens)
    return prompt_tokens * rates.dearest_input() + output * rates.output


def shortfall(left: int, needed: int, prompt_tokens: int, output: int) -> str:
    """The message for a call that the funds cannot cover. Rounds the remainder down and the need up."""
    shown = NANOS_PER_USD // 10_000  # the last of four digits
    has, needs = max(0, left) // shown, -(-needed // shown)
    return (
        f"${has / 10_000:.4f} is left, and the next call may take ${needs / 10_000:.4f} "
        f"({prompt_tokens:,} tokens of prompt, {output:,} of reply): raise the limit"
    )


# --- accounts of a tree of agents -------------------------------------------------------------------


class Account(Value):
    """One agent's money. `limit` None: only its parents limit it."""

    limit: int | None = None
    spent: int = 0
    reserved: int = 0

    @property
    def left(self) -> int | None:
        return None if self.limit is None else self.limit - self.spent - self.reserved


Lineage = tuple[Account, ...]  # an agent's account, its parent's, and so on up to the root


def funds(lineage: Lineage) -> int | None:
    """What an agent can still reserve: a child also draws on the remainder of each of its parents."""
    left = [account.left for account in lineage]
    bounds = [amount for amount in left if amount is not None]
    return min(bounds) if bounds else None


def reserve(lineage: Lineage, amount: int) -> Lineage | None:
    """Reserve `amount` in every account of the lineage, or in none."""
    available = funds(lineage)
    if available is not None and amount > available:
        return None
    return tuple(Account(a.limit, a.spent, a.reserved + amount) for a in lineage)


def settle(lineage: Lineage, reserved: int, spent: int) -> Lineage:
    """Release a reservation and book the actual cost of the call."""
    return tuple(Account(a.limit, a.spent + spent, a.reserved - reserved) for a in lineage)
