"""What the runs of one session have in common, beside its history: money, policy, the inbox, the ids in use."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Origin, User, user
from mainspring.core.models import Model
from mainspring.core.updates import AgentDone, Update
from mainspring.core.value import Value
from mainspring.engine.ledger import Ledger
from mainspring.sessions.records import CommandRecord, CommandState

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
