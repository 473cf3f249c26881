"""What the runs of one session have in common, beside its history: money, policy, the inbox, the ids in use.

The ledger: one for a whole tree of agents. The arithmetic is the core's; this only remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Origin, User, user
from mainspring.core.models import Model
from mainspring.core.money import Account, Lineage, funds, reserve, settle
from mainspring.core.updates import AgentDone, Update
from mainspring.core.value import Value
from mainspring.sessions.records import CommandRecord, CommandState


class Ledger:
    """An agent's account, with its parents' behind it. All spending of the tree goes through one of these."""

    def __init__(self, limit: int | None = None, parent: Ledger | None = None, *, spent: int = 0) -> None:
        self.account = Account(limit, spent)  # what a resumed session spent before counts against its limit
        self.parent = parent
        self._counted: dict[str, int] = {}  # by session: what of its spending is in `account`
        self._current = "", 0  # the session that draws on this, and what was spent when it began
        self._waiting: list[asyncio.Future[None]] = []  # at the top of the tree: for something to be given back,
        self._claimed: Ledger | None = None  # and who prepares a call with what is left

    def begin_session(self, session_id: str, spent: int, *, source: str = "", limit: int | None = None) -> None:
        """From here on, `session_id` draws on this ledger: a limit is for all sessions of a process. `spent` is what
        its file tells; what of it is not in here yet is added. A fork has the spending of its `source` in its file."""
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
        return funds(self._lineage())

    def reserve(self, amount: int) -> bool:
        """Set `amount` aside here and in all parents. False: somebody in the line cannot afford it."""
        booked = reserve(self._lineage(), amount)
        if booked is not None:
            self._book(booked)
        return booked is not None

    async def share(self) -> int | None:
        """What is left for a call that is about to be prepared; nobody else is told so until it is reserved, or not
        wanted. Where others hold more than what is left, theirs end first: what they do not use is given back, and no
        call is given up that could have been paid for."""
        top = self._top
        while (left := self.funds) is not None:
            held = top.account.reserved
            if (not held or left >= held) and top._claimed in (None, self):  # noqa: SLF001  # our own kind
                top._claimed = self  # noqa: SLF001
                break
            await self._change()
        return left

    async def reserve_in_turn(self, amount: int) -> bool:
        """Like `reserve`, but where another call of the tree holds what is missing, its end is waited for. All of them
        come to one, and none waits while it holds something itself."""
        try:
            while not self.reserve(amount):
                if not self._top.account.reserved:
                    return False
                await self._change()
            return True
        finally:
            self.unclaim()

    def unclaim(self) -> None:
        top = self._top
        if top._claimed is self:  # noqa: SLF001
            top._claimed = None  # noqa: SLF001
            top._wake()  # noqa: SLF001

    async def _change(self) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._top._waiting.append(change)  # noqa: SLF001  # our own kind
        await change

    def settle(self, reserved: int, spent: int) -> None:
        self._book(settle(self._lineage(), reserved, spent))
        self._top._wake()  # noqa: SLF001  # our own kind

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


MOST_COMMANDS = 1_000  # far more than anyone types; a program that queues without end is told so


class EnginePolicy(Value):
    """What may change while a run is under way (settled 29). It is read at each call; changes are journaled."""

    mode: str = "default"
    model: Model | None = None  # None: the configuration's
    rules: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None  # None: all


class SessionPolicy:
    """The policy in force. It exists before the session does, so that whoever decides by it can be made first."""

    def __init__(self, policy: EnginePolicy | None = None) -> None:
        self.current = policy or EnginePolicy()


class InboxPrompt(Value):
    """Something typed while a run was under way."""

    id: str
    text: str
    priority: Priority = Priority.NEXT
    origin: Origin = Origin.PROMPT

    def message(self, at: int) -> User:
        return User(user(self.text).content, self.origin, id=self.id, at=at)

    def record(self, state: CommandState, at: int) -> CommandRecord:
        return CommandRecord(self.id, self.text, self.priority, state, at, self.origin)


class Inbox:
    """Commands wait here until a turn takes them. Looking takes nothing: an abort loses no command."""

    def __init__(self) -> None:
        self._waiting: list[InboxPrompt] = []
        self._held: tuple[InboxPrompt, ...] = ()

    def check_room(self) -> None:
        if len(self._waiting) >= MOST_COMMANDS:
            raise UsageError(f"{MOST_COMMANDS} commands wait already: let a turn take them first")

    def put(self, command: InboxPrompt) -> None:
        self._waiting.append(command)

    def waiting(self, reach: Priority = Priority.LATER) -> tuple[InboxPrompt, ...]:
        """What cannot wait comes first, else in the order of arrival; `later` ones only if a turn reaches that far."""
        reached = [c for c in self._waiting if reach is Priority.LATER or c.priority is not Priority.LATER]
        return tuple(sorted(reached, key=lambda command: command.priority is not Priority.NOW))

    def hold(self, reach: Priority) -> tuple[InboxPrompt, ...]:
        """What waits, for a request that is being made: it cannot be withdrawn any more, and is taken soon."""
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


class SharedState:
    def __init__(
        self,
        history: History,
        ledger: Ledger | None = None,
        above: SharedState | None = None,
        policy: SessionPolicy | None = None,
    ) -> None:
        """`above`: of the session for which this one's agent works. What it may do is what that one may do, at any
        time; model and tools are its own."""
        self.ledger = ledger or Ledger()
        self._policy = policy or SessionPolicy()
        self._above = above
        self.inbox = Inbox()
        self.cleared = 0  # tokens that the service left out of the prompt of the last reply (D-14)
        self._spent_by_agents = 0  # nano-dollars that no event has told of
        self._show: Callable[[Update], None] | None = None  # to whoever follows the run under way,
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
        """Show there what happens between runs."""
        self._between = show
        self.follow(None)

    def follow(self, show: Callable[[Update], None] | None) -> None:
        """A run begins, and shows what it has to show there; None: it is over."""
        self._show = show = show or self._between
        if show is not None:
            unseen, self._unseen = self._unseen, []
            for update in unseen:
                show(update)

    def show(self, update: Update) -> None:
        """What an agent in the background does. Between two runs nobody looks; that it has ended is shown later."""
        if self._show is not None:
            self._show(update)
        elif isinstance(update, AgentDone):
            self._unseen.append(update)

    def agent_spent(self, cost: int) -> None:
        self._spent_by_agents += cost

    def take_agents_cost(self) -> int:
        """What agents have cost since the last time: the next event tells of it."""
        cost, self._spent_by_agents = self._spent_by_agents, 0
        return cost
