"""What the runs of one session share besides its history: money, policy, the inbox, the ids in use.

`Ledger` is one for a whole tree of agents. The core does the arithmetic; the ledger stores the amounts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Origin, User, user
from mainspring.core.models import Model
from mainspring.core.money import (
    CACHE_LIFETIME,
    Account,
    Lineage,
    Price,
    Usage,
    funds,
    price_prefix_break,
    reserve,
    settle,
)
from mainspring.core.updates import AgentDone, PrefixBroken, Update
from mainspring.core.value import Value
from mainspring.providers.base import PrefixBreak
from mainspring.sessions.records import CommandRecord, CommandState
from mainspring.telemetry import SessionTelemetry

if TYPE_CHECKING:  # defining a protocol takes as long as defining ten functions

    class Lender(Protocol):
        """Where the root of a tree gets more money from: another process has the rest of it."""

        @property
        def beyond(self) -> int:
            """What it may still lend."""
            ...

        async def borrow(self, wanted: int) -> bool:
            """Try to raise the limit of the ledger until `wanted` can be reserved. False: it was not raised."""
            ...


class Ledger:
    """An agent's account, backed by its parents'. All spending of the tree goes through a ledger."""

    def __init__(self, limit: int | None = None, parent: Ledger | None = None, *, spent: int = 0) -> None:
        self.account = Account(limit, spent)  # what a resumed session spent before counts against its limit
        self.parent = parent
        self.lender: Lender | None = None  # at the root: see there
        self._counted: dict[str, int] = {}  # by session: how much of its spending is in `account`
        self._current = "", 0  # the session that draws on this ledger, and what was spent when it began
        self._waiting: list[asyncio.Future[None]] = []  # at the root of the tree: for money to be released,
        self._claimed: Ledger | None = None  # the ledger that prepares a call with the remainder,
        self._spare = 0  # what is reserved for calls that no other call waits for,
        self._secured = 0  # and what was borrowed for a call that is not reserved yet

    def begin_session(self, session_id: str, spent: int, *, source: str = "", limit: int | None = None) -> None:
        """From here on, `session_id` draws on this ledger: a limit applies to all sessions of a process. `spent` is the
        amount in its file; the part that is not booked yet is added. A fork has the spending of its `source` in its
        file."""
        self._end_session()
        known = max(self._counted.get(session_id, 0), self._counted.get(source, 0))
        self.account = replace(self.account, limit=limit, spent=self.account.spent + max(0, spent - known))
        self._counted[session_id] = max(self._counted.get(session_id, 0), spent)
        self._current = session_id, self.account.spent

    def _end_session(self) -> None:
        session_id, began = self._current
        if session_id:
            self._counted[session_id] += self.account.spent - began

    def child(self, limit: int | None = None) -> Ledger:
        return Ledger(limit, self)

    @property
    def funds(self) -> int | None:
        """What a call can reserve. A part of it may have to be borrowed first."""
        lender = self._top.lender
        if lender is None:
            return funds(self._lineage())
        *own, root = self._lineage()
        return funds((*own, replace(root, limit=(root.limit or 0) + lender.beyond)))

    def reserve(self, amount: int, *, spare: bool = False) -> bool:
        """Reserve `amount` here and in all parents. False: an account in the lineage cannot afford it. `spare`: no
        other call waits for this money; tell `settle`, too."""
        booked = reserve(self._lineage(), amount)
        if booked is not None:
            self._book(booked)
            self._top._spare += amount if spare else 0  # noqa: SLF001  # our own kind
        return booked is not None

    async def share(self, wanted: int | None = None) -> int | None:
        """Claim the remainder for a call that is about to be prepared. No other ledger gets it until the claim is
        reserved or dropped. If other calls hold more than the remainder, wait for them to end: they release what
        they do not use, so no call is given up that could have been paid for. `wanted`: the price of the largest
        call; if the remainder covers it, there is nothing to wait for."""
        top = self._top
        while (left := self.funds) is not None:
            held = top._held  # noqa: SLF001  # our own kind
            enough = wanted is not None and left >= wanted
            if (enough or not held or left >= held) and top._claimed in (None, self):  # noqa: SLF001  # our own kind
                top._claimed = self  # noqa: SLF001
                break
            await self._change()
        if left is None or top.lender is None:
            return left
        return await self._secure(left if wanted is None else min(left, wanted))

    async def _secure(self, wanted: int) -> int | None:
        """Borrow it now, not when the call is reserved: others may have spent a part of it by then."""
        while (left := funds(self._lineage())) is not None and left < wanted:
            if await self._top._borrow(wanted):  # noqa: SLF001  # our own kind
                continue
            if not self._top._held:  # noqa: SLF001  # our own kind
                return funds(self._lineage())  # all that there is
            await self._change()
        return left

    async def _borrow(self, wanted: int) -> bool:
        """Ask for more money, if this account has only a part of what there is. False: it has not become more."""
        return self.lender is not None and await self.lender.borrow(wanted)

    async def reserve_in_turn(self, amount: int) -> bool:
        """Like `reserve`, but if another call of the tree holds the missing amount, wait for it to end. Every call
        ends, and no call waits while it holds a reservation itself."""
        try:
            while not self.reserve(amount):
                if await self._top._borrow(amount):  # noqa: SLF001  # our own kind
                    continue
                if self.reserve(amount):
                    break
                if not self._top._held:  # noqa: SLF001  # our own kind
                    return False
                await self._change()
            return True
        finally:
            self._top._secured = 0  # noqa: SLF001  # our own kind
            self.unclaim()

    def unclaim(self) -> None:
        top = self._top
        if top._claimed is self:  # noqa: SLF001
            top._claimed = None  # noqa: SLF001
            top._secured = 0  # noqa: SLF001
            top._wake()  # noqa: SLF001

    async def _change(self) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._top._waiting.append(change)  # noqa: SLF001  # our own kind
        await change

    def settle(self, reserved: int, spent: int, *, spare: bool = False) -> None:
        self._book(settle(self._lineage(), reserved, spent))
        self._top._spare -= reserved if spare else 0  # noqa: SLF001  # our own kind
        self._top._wake()  # noqa: SLF001  # our own kind

    def set_limit(self, limit: int) -> None:
        """For a lender: calls that wait for money look again."""
        self.account = replace(self.account, limit=limit)
        self._wake()

    @property
    def _held(self) -> int:
        """What calls have reserved that others may wait for."""
        return self.account.reserved - self._spare

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    @property
    def _top(self) -> Ledger:
        return self if self.parent is None else self.parent._top  # noqa: SLF001  # our own kind

    def _lineage(self) -> Lineage:
        above = self.parent._lineage() if self.parent is not None else ()  # noqa: SLF001  # our own kind
        return (self.account, *above)

    def _book(self, lineage: Lineage) -> None:
        self.account = lineage[0]
        if self.parent is not None:
            self.parent._book(lineage[1:])  # noqa: SLF001  # our own kind


MOST_COMMANDS = 1_000  # far more than a user types; a program that queues without end gets an error


class EnginePolicy(Value):
    """What may change during a run (settled 29). The engine reads it at each call and journals changes."""

    mode: str = "default"
    model: Model | None = None  # None: the configuration's
    rules: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None  # None: all


class SessionPolicy:
    """The current policy. It exists before the session does, so that objects that depend on it can be made first."""

    def __init__(self, policy: EnginePolicy | None = None) -> None:
        self.current = policy or EnginePolicy()


class InboxPrompt(Value):
    """A prompt submitted during a run."""

    id: str
    text: str
    priority: Priority = Priority.NEXT
    origin: Origin = Origin.PROMPT

    def message(self, at: int) -> User:
        return User(user(self.text).content, self.origin, id=self.id, at=at)

    def record(self, state: CommandState, at: int) -> CommandRecord:
        return CommandRecord(self.id, self.text, self.priority, state, at, self.origin)


class Inbox:
    """Prompts wait here until a turn takes them. Looking removes nothing, so an abort loses no prompt."""

    def __init__(self) -> None:
        self._waiting: list[InboxPrompt] = []
        self._held: tuple[InboxPrompt, ...] = ()

    def check_room(self) -> None:
        if len(self._waiting) >= MOST_COMMANDS:
            raise UsageError(f"{MOST_COMMANDS} prompts are already queued: wait until a turn takes them")

    def put(self, command: InboxPrompt) -> None:
        self._waiting.append(command)

    def waiting(self, reach: Priority = Priority.LATER) -> tuple[InboxPrompt, ...]:
        """Urgent prompts first, then in the order of arrival; `later` ones only if a turn reaches that far."""
        if not self._waiting:
            return ()
        reached = [c for c in self._waiting if reach is Priority.LATER or c.priority is not Priority.LATER]
        return tuple(sorted(reached, key=lambda command: command.priority is not Priority.NOW))

    def hold(self, reach: Priority) -> tuple[InboxPrompt, ...]:
        """Return the waiting prompts for a request: they cannot be withdrawn any more, and are taken soon."""
        self._held = self.waiting(reach)
        return self._held

    def release(self) -> None:
        """No request is being made."""
        self._held = ()

    def take(self, commands: tuple[InboxPrompt, ...]) -> None:
        self._waiting = [command for command in self._waiting if command not in commands]
        self._held = tuple([command for command in self._held if command not in commands])

    def can_withdraw(self, command: InboxPrompt) -> bool:
        return command in self._waiting and command not in self._held


class PrefixMeter:
    """Prices the prefix breaks of a session, by what the server reports about its cache.

    A break is found before its request is sent, and priced when a reply begins. If no reply begins, the server has
    cached nothing, and the break is paid for with the next request.
    """

    def __init__(self) -> None:
        self._last: Usage | None = None  # of the last request that the server reported about,
        self._at = 0  # and when
        self._unpaid: list[PrefixBreak] = []
        self._layers: dict[str, None] = {}  # that edited the view since the last request

    def edited(self, layer: str) -> None:
        self._layers[layer] = None

    def found(self, broken: PrefixBreak) -> None:
        self._unpaid.append(broken)

    def read(self, now: Usage, price: Price, at: int) -> list[PrefixBroken]:
        """A reply begins; `now` is the usage of its prompt. Returns the breaks that it paid for."""
        unpaid, self._unpaid = self._unpaid, []
        layers, self._layers = tuple(self._layers), {}
        known = bool(now.prompt) and not now.estimated
        last, kept = self._last, at - self._at <= CACHE_LIFETIME
        if known:
            self._last, self._at = now, at
        if not unpaid:
            return []
        first = min(unpaid, key=lambda broken: broken.block)  # it caused what the others would have caused, too
        tokens, paid = first.tokens, first.price
        if not kept and last is not None:
            tokens, paid = 0, 0  # the cache had expired anyway
        elif known and last is not None:
            tokens, paid = price_prefix_break(last, now, price, automatic=first.automatic)
        return [
            PrefixBroken(
                one.block,
                one.what,
                one.why,
                tokens if one is first else 0,
                paid if one is first else 0,
                one.reason,
                layers if one.reason == "context_edited" else (),
                estimated=not known or last is None,
            )
            for one in unpaid
        ]


class SharedState:
    def __init__(
        self,
        history: History,
        ledger: Ledger | None = None,
        above: SharedState | None = None,
        policy: SessionPolicy | None = None,
        telemetry: SessionTelemetry | None = None,
    ) -> None:
        """`above`: the shared state of the parent session, for a subagent. The subagent always has the parent's
        permissions; model and tools are its own."""
        self.ledger = ledger or Ledger()
        self._policy = policy or SessionPolicy()
        self._above = above
        inherited = above.telemetry if above is not None else None
        self.telemetry: SessionTelemetry = telemetry or inherited or SessionTelemetry()
        self.inbox = Inbox()
        self.prefix = PrefixMeter()
        self.cleared = 0  # tokens that the service removed from the prompt of the last reply (D-14)
        self._spent_by_agents = 0  # nano-dollars that no event has reported yet
        self._show: Callable[[Update], None] | None = None  # to the consumer of the current run,
        self._between: Callable[[Update], None] | None = None  # and between runs
        self._unseen: list[AgentDone] = []
        self.call_ids = {call.id for message in history if isinstance(message, Assistant) for call in message.calls}

    @property
    def policy(self) -> EnginePolicy:
        if self._above is None:
            return self._policy.current
        return replace(self._policy.current, mode=self._above.policy.mode, rules=self._above.policy.rules)

    @policy.setter
    def policy(self, policy: EnginePolicy) -> None:
        self._policy.current = policy

    def watch(self, show: Callable[[Update], None]) -> None:
        """Show updates between runs there."""
        self._between = show
        self.follow(None)

    def follow(self, show: Callable[[Update], None] | None) -> None:
        """A run begins and shows its updates there; None: it is over."""
        self._show = show = show or self._between
        if show is not None:
            unseen, self._unseen = self._unseen, []
            for update in unseen:
                show(update)

    def show(self, update: Update) -> None:
        """Show an update of a background subagent. Between two runs there is no consumer; the end of the subagent is
        shown later."""
        if self._show is not None:
            self._show(update)
        elif isinstance(update, AgentDone):
            self._unseen.append(update)

    def agent_spent(self, cost: int) -> None:
        self._spent_by_agents += cost

    def take_agents_cost(self) -> int:
        """The cost of subagents since the last time: the next event reports it."""
        cost, self._spent_by_agents = self._spent_by_agents, 0
        return cost
