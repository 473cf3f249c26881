"""The usage of a session so far: cost and tokens by model, and time spent waiting for the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mainspring.agent.updates import RunStarted
from mainspring.core.models import Model, model_named
from mainspring.core.money import NANOS_PER_USD, Usage, cost
from mainspring.core.updates import AgentDone, AgentUpdate, PrefixBroken, ReplyDone, RequestStarted, Result

OBSERVED = frozenset({RunStarted, RequestStarted, ReplyDone, PrefixBroken, AgentUpdate, AgentDone, Result})


class UsageMeter:
    """Observes the updates on their way to the front end. They carry no timestamps, so it reads the clock then."""

    def __init__(
        self,
        model: Model,
        now: Callable[[], int],
        before: int = 0,
        used: Iterable[tuple[str, Usage]] = (),
        breaks: Iterable[tuple[str, int, int]] = (),
    ) -> None:
        """`before`: the cost of the session when it was resumed; `used`: its usage by model until then; `breaks`: its
        prefix breaks until then."""
        self._models = {model.name: model}
        self._now, self._began = now, now()
        self._model = model.name  # of the last request
        self._asked: int | None = None  # when the open request began
        self._used: dict[str, Usage] = dict(used)
        self._cost = {name: cost(one, self.find_model(name).price) for name, one in self._used.items()}
        self._before = before - sum(self._cost.values())  # the part that no reply accounts for
        self._run_used, self._run_cost = Usage(), 0
        self._ahead = 0  # cost of subagents that no result has included yet
        # By event: how often the prefix broke, and nano-dollars.
        self.breaks: dict[str, tuple[int, int]] = {event: (times, price) for event, times, price in breaks}
        self.api_ms = 0

    def observe(self, update: object) -> None:
        match update:
            case RequestStarted():
                self.asked(update.model)
            case ReplyDone():
                self.book_reply(update.usage)
            case PrefixBroken() as broken:
                self.book_break(broken)
            case AgentUpdate(update=PrefixBroken() as broken):
                self.book_break(broken)
            case AgentDone():
                self.agent_ended(update.used)
            case Result():
                self.ended(update)
            case RunStarted():
                self.begin()
            case _:
                pass  # it costs nothing

    @property
    def age(self) -> int:
        """Milliseconds since the conversation began here."""
        return self._now() - self._began

    @property
    def cost(self) -> int:
        return self._before + sum(self._cost.values())

    @property
    def total(self) -> Usage:
        """Of all models."""
        return sum(self._used.values(), Usage())

    def begin(self) -> None:
        self._run_used, self._run_cost = Usage(), 0

    def asked(self, model: str) -> None:
        self._stop_clock()
        self._model, self._asked = model, self._now()

    def book_reply(self, used: Usage) -> None:
        self._stop_clock()
        self._book(used, cost(used, self.find_model(self._model).price))

    def book_break(self, broken: PrefixBroken) -> None:
        """Its price is part of the cost of its reply."""
        times, price = self.breaks.get(broken.event, (0, 0))
        self.breaks[broken.event] = times + 1, price + broken.price

    @property
    def break_cost(self) -> int:
        """The part of the cost that is due to prefix breaks, in nano-dollars."""
        return sum([price for _, price in self.breaks.values()])

    def agent_ended(self, used: Iterable[tuple[str, Usage]]) -> None:
        """The usage of subagents is not in the usage of a run, but in the cost of this run or, for the background, of
        a later one (6.4)."""
        for model, one in used:
            spent = cost(one, self.find_model(model).price)
            self._used[model] = self._used.get(model, Usage()) + one
            self._cost[model] = self._cost.get(model, 0) + spent
            self._ahead += spent

    def ended(self, result: Result) -> None:
        """Books the rest that no reply accounts for (failed attempts, summaries) on the model of the last request."""
        self._stop_clock()
        rest, spent = subtract_usage(result.usage, self._run_used), result.cost - self._run_cost
        by_agents = min(self._ahead, max(0, spent))
        self._ahead -= by_agents
        if rest.total or rest.web_searches or spent != by_agents:
            self._book(rest, spent - by_agents)
        self.begin()  # another run may follow by itself

    def by_model(self) -> dict[str, dict[str, Any]]:
        return {name: self._row(name, used) for name, used in self._used.items()}

    def _row(self, name: str, used: Usage) -> dict[str, Any]:
        model = self.find_model(name)
        return {
            "inputTokens": used.input,
            "outputTokens": used.output,
            "cacheReadInputTokens": used.cache_read,
            "cacheCreationInputTokens": used.cache_write + used.cache_write_1h,
            "webSearchRequests": used.web_searches,
            "costUSD": self._cost[name] / NANOS_PER_USD,
            "contextWindow": model.window,
            "maxOutputTokens": model.max_output,
        }

    def find_model(self, name: str) -> Model:
        """With the session's own values."""
        return self._models.get(name) or model_named(name)

    def _book(self, used: Usage, spent: int) -> None:
        self._used[self._model] = self._used.get(self._model, Usage()) + used
        self._cost[self._model] = self._cost.get(self._model, 0) + spent
        self._run_used, self._run_cost = self._run_used + used, self._run_cost + spent

    def _stop_clock(self) -> None:
        if self._asked is not None:
            self.api_ms += max(0, self._now() - self._asked)
            self._asked = None


def subtract_usage(all_: Usage, part: Usage) -> Usage:
    return Usage(
        all_.input - part.input,
        all_.cache_write - part.cache_write,
        all_.cache_write_1h - part.cache_write_1h,
        all_.cache_read - part.cache_read,
        all_.output - part.output,
        web_searches=all_.web_searches - part.web_searches,
    )
