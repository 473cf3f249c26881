"""Model calls of many sessions under shared limits: requests and tokens per minute for each model, and running tools.

`RatePacer` is the arithmetic of one limit, without a clock. `ModelScheduler` lets attempts through, evenly over each
minute, and from session to session in turn: a session with many subagents gets no more than one with a single request.
When a server refuses an attempt because of a rate limit, or reports that nothing is left, all sessions wait.

Sessions reach it through `shared_limits` (`providers/base.py`). `GatedProvider` is for other providers than ours.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext, suppress
from datetime import datetime

from mainspring.core.effects import Request
from mainspring.core.errors import UsageError
from mainspring.core.models import Model
from mainspring.core.money import Usage
from mainspring.core.value import Bundle
from mainspring.providers.base import Batch, Conversation, Provider, StreamEnded, list_models, shared_limits
from mainspring.providers.errors import retry_after
from mainspring.providers.rate_limits import read_rate_limits

MINUTE = 60.0
MARGIN = 0.998  # of a limit: clocks differ, and a request that was admitted first may arrive second
SLACK = 0.5  # seconds of unused admissions that may follow at once, when the event loop was late
BYTES_PER_TOKEN = 4  # of a request; the actual number replaces the estimate when the reply ends
FIRST_WAIT = 1.0  # seconds after a refusal that names no time
RECENT = 5.0  # seconds over which the actual rate is measured
BACK_OFF, RECOVER = 0.85, 0.02  # share of the rate after a refusal; and its growth in each second without one
FEW = 0.01  # share of the calls of the last seconds
TICK = 0.000_1  # seconds; a timer for less would not be exact
SLOWEST = 0.2  # requests per second, whatever is refused
UNSLOTTED = "Agent"  # a subagent's own tools take slots


class FleetLimits(Bundle, frozen=True):
    """Limits that all sessions of a fleet share.

    Example:
        limits = FleetLimits(requests_per_minute=4_000, tokens_per_minute=400_000, concurrent_tools=8)
        async for result in Fleet({"model": "haiku"}, limits=limits).run(["What is 2 + 3?"]):
            print(result.text)
    """

    requests_per_minute: int | Mapping[str, int] | None = None
    """For each model, or by the name of the model."""
    tokens_per_minute: int | Mapping[str, int] | None = None
    """Tokens of prompts that are not read from the cache, and of replies. For each model, or by its name."""
    concurrent_tools: int | None = None
    open_files: int | None = None
    """Of this process; by default, as many as the system allows."""


def check_limits(limits: FleetLimits) -> FleetLimits:
    for name in ("requests_per_minute", "tokens_per_minute"):
        given: int | Mapping[str, int] | None = getattr(limits, name)
        for value in given.values() if isinstance(given, Mapping) else (given,):
            if value is not None and value < 1:
                raise UsageError(f"'{name}' must be at least 1, not {value}")
    for name in ("concurrent_tools", "open_files"):
        if (value := getattr(limits, name)) is not None and value < 1:
            raise UsageError(f"'{name}' must be at least 1, not {value}")
    return limits


def limit_of(given: int | Mapping[str, int] | None, model: str) -> int | None:
    return given.get(model) if isinstance(given, Mapping) else given


class RatePacer:
    """A rate per second. Amounts may be larger than what has accumulated: then the next one waits longer."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._level, self._at = 0.0, now

    def wait(self, now: float) -> float:
        """Seconds until the next amount may be taken."""
        self._accumulate(now)
        return max(0.0, -self._level / self.rate)  # of an infinite rate: none

    def take(self, now: float, amount: float) -> None:
        """A negative amount gives back."""
        self._accumulate(now)
        self._level -= amount

    def set_rate(self, rate: float, now: float) -> None:
        self._accumulate(now)
        self.rate = rate

    def _accumulate(self, now: float) -> None:
        if self.rate == float("inf"):
            self._level = 0.0
        elif now > self._at:
            self._level = min(self.rate * SLACK, self._level + (now - self._at) * self.rate)
        self._at = now


class WaitingCall(Bundle):
    tokens: float
    admitted: asyncio.Future[None]
    on_drain: Callable[[], object] | None = None  # None: it goes on


class LearnedRate:
    """Requests per second that a server seems to allow: lowered by its refusals, and growing again slowly."""

    def __init__(self) -> None:
        self.rate = float("inf")
        self._at = 0.0  # it grows from here on

    def lower(self, actual: float, now: float, pause: float) -> None:
        self.rate = max(SLOWEST, min(self.rate, actual) * BACK_OFF)
        self._at = now + pause

    def grow(self, now: float) -> None:
        if now > self._at and self.rate != float("inf"):
            self.rate *= (1 + RECOVER) ** (now - self._at)
            self._at = now


class ModelQueue:
    """The calls of one model that wait, by session, and its pacers."""

    def __init__(self, limits: FleetLimits, model: str, share: float, now: float) -> None:
        """`share`: of the limits, for this process."""
        self._requests = limit_of(limits.requests_per_minute, model)
        self._tokens = limit_of(limits.tokens_per_minute, model)
        self._share = share
        self._learned = LearnedRate()
        self._paused_until = self._refused_at = float("-inf")
        self._waiting: OrderedDict[str, deque[WaitingCall]] = OrderedDict()
        self._sent: deque[float] = deque()  # the times of the last seconds,
        self._refused: deque[float] = deque()  # and of refusals
        self._usual_output = 0.0  # tokens of a reply, on average
        self.timer: asyncio.TimerHandle | None = None
        self.requests = RatePacer(self._request_rate, now)
        self.tokens = RatePacer(self._token_rate, now)

    @property
    def _request_rate(self) -> float:
        allowed = self._requests / MINUTE * MARGIN * self._share if self._requests else float("inf")
        return min(allowed, self._learned.rate)

    @property
    def _token_rate(self) -> float:
        return self._tokens / MINUTE * MARGIN * self._share if self._tokens else float("inf")

    def set_share(self, share: float, now: float) -> None:
        self._share = share
        self._adjust(now)

    def _adjust(self, now: float) -> None:
        self.requests.set_rate(self._request_rate, now)
        self.tokens.set_rate(self._token_rate, now)

    # --- who is next ---

    def add(self, session: str, call: WaitingCall) -> None:
        self._waiting.setdefault(session, deque()).append(call)

    def estimate(self, prompt: float) -> float:
        """The tokens of a call with this prompt."""
        return prompt + self._usual_output

    def drain(self) -> None:
        for calls in list(self._waiting.values()):
            for call in calls:
                if call.on_drain is not None:
                    call.on_drain()

    def next_in_turn(self) -> WaitingCall | None:
        """The first call of the session whose turn it is. The session's next call waits for one of each other."""
        while self._waiting:
            session, calls = self._waiting.popitem(last=False)
            call = calls.popleft()
            if calls:
                self._waiting[session] = calls
            if not call.admitted.done():
                return call
        return None

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    # --- when ---

    def wait(self, now: float) -> float:
        """Seconds until the next call may be sent."""
        if self._learned.rate != float("inf"):
            self._learned.grow(now)
            self._adjust(now)
        return max(self._paused_until - now, self.requests.wait(now), self.tokens.wait(now))

    def take(self, now: float, call: WaitingCall) -> None:
        self.requests.take(now, 1)
        self.tokens.take(now, call.tokens)
        self._sent.append(now)
        while self._sent[0] < now - RECENT:
            self._sent.popleft()

    def correct(self, now: float, estimated: float, usage: Usage | None) -> None:
        """A call has ended: what it used replaces the estimate. None: it was refused."""
        if usage is None:
            self.tokens.take(now, -estimated)
            return
        self._usual_output += (usage.output - self._usual_output) / 8
        self.tokens.take(now, usage.prompt - usage.cache_read + usage.output - estimated)

    # --- refusals ---

    def pause(self, now: float, seconds: float) -> None:
        self._paused_until = max(self._paused_until, now + seconds)

    def refuse(self, now: float, seconds: float) -> bool:
        """The server refused a call because of its rate limit. Those that were on their way count as one refusal.
        False: only the call waits. If the limit is known, a few refusals are due to clocks that differ."""
        self._refused.append(now)
        while self._refused[0] < now - RECENT:
            self._refused.popleft()
        few = len(self._refused) <= max(1, FEW * len(self._sent))
        if self._requests and few and seconds <= RECENT:
            return False
        if now - self._refused_at > max(1.0, seconds):
            span = min(RECENT, max(1.0, now - self._sent[0])) if self._sent else 1.0
            self._learned.lower(len(self._sent) / span, now, seconds)
            self._adjust(now)
            self._refused_at = now
        self.pause(now, seconds)
        return True


class ModelScheduler:
    """Admits attempts of all sessions of this process, and their tools."""

    def __init__(
        self,
        limits: FleetLimits,
        *,
        share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        on_pause: Callable[[str, float], object] = lambda _model, _seconds: None,
    ) -> None:
        """`share`: of the limits, for this process. `on_pause` is called when a server makes a model wait, with the
        seconds: other processes wait, too."""
        self.limits = limits
        self.draining = False
        self._share, self._clock, self._on_pause = share, clock, on_pause
        self._queues: dict[str, ModelQueue] = {}
        self._slots = asyncio.Semaphore(limits.concurrent_tools) if limits.concurrent_tools else None

    def for_session(self, session: str, on_drain: Callable[[], object]) -> SessionLimits:
        """`on_drain` is called when the session wants to call a model, and the fleet drains."""
        return SessionLimits(self, session, on_drain)

    def queue(self, model: str) -> ModelQueue:
        found = self._queues.get(model)
        if found is None:
            found = self._queues[model] = ModelQueue(self.limits, model, self._share, self._clock())
        return found

    def set_share(self, share: float) -> None:
        self._share = share
        for queue in self._queues.values():
            queue.set_share(share, self._clock())
            self._admit(queue)

    def drain(self) -> None:
        """From now on no session begins another turn: `on_drain` is called when it wants to, and for all that wait."""
        self.draining = True
        for queue in self._queues.values():
            queue.drain()

    # --- admission ---

    async def enter(
        self, session: str, model: str, prompt: float, on_drain: Callable[[], object] | None = None
    ) -> float:
        """Return when the call may be sent, with its estimated tokens. When the fleet drains, it calls
        `on_drain` and never returns, unless there is none."""
        queue, admitted = self.queue(model), asyncio.get_running_loop().create_future()
        if self.draining and on_drain is not None:
            on_drain()
            await admitted  # cancelled with the run
        call = WaitingCall(queue.estimate(prompt), admitted, on_drain)
        queue.add(session, call)
        self._admit(queue)
        try:
            await call.admitted
        finally:
            call.admitted.cancel()
        return call.tokens

    def _admit(self, queue: ModelQueue) -> None:
        while not queue.is_empty:
            now = self._clock()
            if (delay := queue.wait(now)) > TICK:
                if queue.timer is None:
                    queue.timer = asyncio.get_running_loop().call_later(delay, self._wake, queue)
                return
            call = queue.next_in_turn()
            if call is not None and not (self.draining and call.on_drain is not None):
                queue.take(now, call)
                call.admitted.set_result(None)

    def _wake(self, queue: ModelQueue) -> None:
        queue.timer = None
        self._admit(queue)

    # --- what servers say ---

    def note_response(self, model: str, status: int, headers: Mapping[str, str]) -> None:
        if status == 429:
            wait = retry_after(headers, time.time())
            seconds = FIRST_WAIT if wait is None else wait / 1_000
            if self.queue(model).refuse(self._clock(), seconds):
                self._on_pause(model, seconds)
        elif status == 200 and (seconds := seconds_until_reset(headers)) > 0:
            self.pause(model, seconds)
            self._on_pause(model, seconds)

    def pause(self, model: str, seconds: float) -> None:
        self.queue(model).pause(self._clock(), seconds)

    def note_usage(self, model: str, estimated: float, usage: Usage | None) -> None:
        self.queue(model).correct(self._clock(), estimated, usage)

    # --- tools ---

    def slot(self) -> AbstractAsyncContextManager[object]:
        return self._slots if self._slots is not None else nullcontext()


PER_MINUTE = ("requests", "tokens", "input", "output")  # limits with other names last for hours
MOST_PAUSED = 60.0  # seconds that a header can make all sessions wait


def seconds_until_reset(headers: Mapping[str, str]) -> float:
    """If a header says that no request or token is left, the seconds until some are; else 0."""
    used_up = [limit for limit in read_rate_limits(headers) if limit.remaining == "0"]
    waits = [parse_reset(limit.reset, time.time()) for limit in used_up if limit.name.split()[0] in PER_MINUTE]
    return min(MOST_PAUSED, max(waits, default=0.0))


def parse_reset(text: str, now: float) -> float:
    """Seconds from now: Anthropic sends a time in RFC 3339, OpenAI a duration such as `6m0s` or `120ms`."""
    if found := re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:(\d+)ms)?", text):
        hours, minutes, seconds, thousandths = [float(part or 0) for part in found.groups()]
        return hours * 3_600 + minutes * 60 + seconds + thousandths / 1_000
    with suppress(ValueError):
        return max(0.0, datetime.fromisoformat(text).timestamp() - now)
    return 0.0


class SessionLimits:
    """`SharedLimits` of one session. A tool that runs gets one for what it calls itself: that belongs to a turn that
    has begun, so it goes on when the fleet drains, and it waits for no second slot."""

    def __init__(
        self,
        scheduler: ModelScheduler,
        session: str,
        on_drain: Callable[[], object],
        *,
        in_tool: bool = False,
        slotted: bool = True,
    ) -> None:
        self._scheduler, self._session, self._on_drain = scheduler, session, on_drain
        self._in_tool, self._slotted = in_tool, slotted
        self._estimates: dict[str, deque[float]] = {}

    async def enter_attempt(self, model: str, size: int) -> None:
        on_drain = None if self._in_tool else self._on_drain
        estimated = await self._scheduler.enter(self._session, model, size / BYTES_PER_TOKEN, on_drain)
        self._estimates.setdefault(model, deque(maxlen=MOST_OPEN)).append(estimated)

    def note_response(self, model: str, status: int, headers: Mapping[str, str]) -> None:
        if status != 200:
            self._end_attempt(model, None)
        self._scheduler.note_response(model, status, headers)

    def note_usage(self, model: str, usage: Usage) -> None:
        self._end_attempt(model, usage)

    def _end_attempt(self, model: str, usage: Usage | None) -> None:
        estimates = self._estimates.get(model)
        self._scheduler.note_usage(model, estimates.popleft() if estimates else 0.0, usage)

    @asynccontextmanager
    async def tool_slot(self, tool: str) -> AsyncGenerator[None]:
        takes = self._slotted and tool != UNSLOTTED
        async with self._scheduler.slot() if takes else nullcontext():
            inside = SessionLimits(
                self._scheduler,
                self._session,
                self._on_drain,
                in_tool=True,
                slotted=self._slotted and not takes,
            )
            token = shared_limits.set(inside)
            try:
                yield
            finally:
                shared_limits.reset(token)


MOST_OPEN = 64  # calls of one session and model at once


class GatedProvider:
    """A provider that is asked for one attempt at a time: for custom and scripted ones, which do not know of limits."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.models: tuple[Model, ...] = list_models(provider)

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        limits = shared_limits.get()
        if limits is not None:
            await limits.enter_attempt(request.model, sum([len(message.text) for message in conversation.history]))
        async with aclosing(self._provider.stream(request, conversation)) as batches:
            async for batch in batches:
                if limits is not None and isinstance(last := batch[-1], StreamEnded):
                    limits.note_usage(request.model, last.usage)
                yield batch
