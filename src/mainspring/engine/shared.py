"""What the runs of one session have in common, beside its history: money, policy, the inbox, the ids in use."""

from __future__ import annotations

from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, User, user
from mainspring.core.models import Model
from mainspring.core.value import Value
from mainspring.engine.ledger import Ledger
from mainspring.sessions.records import CommandRecord, CommandState

MOST_COMMANDS = 1_000  # far more than anyone types; a program that queues without end is told so


class Policy(Value):
    """What may change while a run is under way (settled 29). It is read at each call; changes are journaled."""

    mode: str = "default"
    model: Model | None = None  # None: the configuration's
    rules: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None  # None: all


class Command(Value):
    """Something typed while a run was under way."""

    id: str
    text: str
    priority: Priority = Priority.NEXT

    def message(self, at: int) -> User:
        return User(user(self.text).content, id=self.id, at=at)

    def record(self, state: CommandState, at: int) -> CommandRecord:
        return CommandRecord(self.id, self.text, self.priority, state, at)


class Inbox:
    """Commands wait here until a turn takes them. Looking takes nothing: an abort loses no command."""

    def __init__(self) -> None:
        self._waiting: list[Command] = []

    def check_room(self) -> None:
        if len(self._waiting) >= MOST_COMMANDS:
            raise UsageError(f"{MOST_COMMANDS} commands wait already: let a turn take them first")

    def put(self, command: Command) -> None:
        self._waiting.append(command)

    def waiting(self, reach: Priority = Priority.LATER) -> tuple[Command, ...]:
        """What cannot wait comes first, else in the order of arrival; `later` ones only if a turn reaches that far."""
        reached = [c for c in self._waiting if reach is Priority.LATER or c.priority is not Priority.LATER]
        return tuple(sorted(reached, key=lambda command: command.priority is not Priority.NOW))

    def take(self, commands: tuple[Command, ...]) -> None:
        self._waiting = [command for command in self._waiting if command not in commands]


class Shared:
    def __init__(self, history: History, ledger: Ledger | None = None, policy: Policy = Policy()) -> None:  # noqa: B008  # frozen
        self.ledger = ledger or Ledger()
        self.policy = policy
        self.inbox = Inbox()
        self.call_ids = {call.id for message in history if isinstance(message, Assistant) for call in message.calls}
