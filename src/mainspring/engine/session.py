"""The outer layer: many runs over one history (A-15 to A-20).

The inner loop owns a turn; the session owns the conversation: its state, its inbox, its money, its policy. A run reads
what they share and hands back its state when it is over.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import Finish, Priority
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import User, user
from mainspring.core.state import State
from mainspring.core.updates import Update
from mainspring.engine.channel import Channel
from mainspring.engine.deps import Deps
from mainspring.engine.driver import Driver
from mainspring.engine.ledger import Ledger
from mainspring.engine.run import Run
from mainspring.engine.shared import Command, Policy, Shared
from mainspring.sessions.records import NoteRecord


class Session:
    def __init__(self, deps: Deps, config: Config, *, state: State | None = None, ledger: Ledger | None = None) -> None:
        self.deps = deps
        self.config = config
        self.state = state or State(History())
        self.shared = Shared(self.state.history, ledger)
        self.completed_commands: list[Command] = []
        self._run: Run | None = None

    def run(self, prompt: str | tuple[User, ...] = (), *, config: Config | None = None, deltas: bool = True) -> Run:
        """A run on `prompt`; without one it goes on from where the conversation stands. Starts when it is iterated."""
        if self._run is not None:
            raise UsageError("a run of this session is under way: leave it first, or use 'submit' to add to it")
        channel: Channel[Update] = Channel()
        driver = Driver(self._ready(), config or self.config, self.deps, self.shared, channel, deltas=deltas)
        self._run = Run(driver, channel, self._messages(prompt))
        self._run.on_end = self._ended
        return self._run

    def _messages(self, prompt: str | tuple[User, ...]) -> tuple[User, ...]:
        given = (user(prompt),) if isinstance(prompt, str) else prompt
        return tuple([replace(m, id=m.id or self.deps.new_id(), at=m.at or self.deps.now()) for m in given])

    def _ready(self) -> State:
        """After a crash the state still waits for an answer that will never come."""
        waiting = self.state.waiting_for
        return self.state if waiting is None or isinstance(waiting, Finish) else replace(self.state, waiting_for=None)

    def _ended(self, run: Run) -> None:
        self.state = run.state
        self._run = None
        self.completed_commands.extend(run.completed_commands)

    # --- from outside, while a run is under way or not ---

    async def submit(self, text: str, priority: Priority = Priority.NEXT) -> Command:
        """Queue a command: the next turn takes it. It is journaled before this returns."""
        command = Command(self.deps.new_id(), text, priority)
        await self.deps.journal.append(NoteRecord("queued", text, self.deps.now()))
        self.shared.inbox.put(command)
        return command

    async def change(self, policy: Policy) -> None:
        """Takes effect at the next call."""
        await self.deps.journal.append(NoteRecord("policy", repr(policy), self.deps.now()))
        self.shared.policy = policy
