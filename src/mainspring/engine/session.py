"""The outer layer: many runs over one history (A-15 to A-20).

A run owns its turns; the session owns the conversation: its state, its inbox, its money, its policy. A run uses what
they share and returns its state when it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.events import Submitted
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Origin, ToolCall, ToolResult, User, user
from mainspring.core.reasons import AbortReason
from mainspring.core.state import State
from mainspring.core.updates import Update
from mainspring.engine.deps import Deps
from mainspring.engine.driver import Driver
from mainspring.engine.run import Run
from mainspring.engine.shared_state import EnginePolicy, InboxPrompt, Ledger, SessionPolicy, SharedState
from mainspring.engine.tasks import NO_SIDE_JOBS, Channel, SideJobs
from mainspring.sessions.records import CommandState, PolicyRecord
from mainspring.telemetry import SessionTelemetry, observe_run

if TYPE_CHECKING:
    from mainspring.engine.executor import Describe
    from mainspring.sessions.decoder import LoadedSession  # only a resumed session pays for this import


class EngineSession:
    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        deps: Deps,
        config: Config,
        *,
        state: State | None = None,
        ledger: Ledger | None = None,
        above: SharedState | None = None,
        policy: SessionPolicy | None = None,
        side_jobs: SideJobs = NO_SIDE_JOBS,
        describe: Describe | None = None,
        telemetry: SessionTelemetry | None = None,
    ) -> None:
        """`above`: the shared state of the parent session, for a subagent. `policy` may also be changed from outside.
        `describe`: returns one line about a call, for `CallStarted`; without it the line is the tool's name.
        `telemetry`: for log records and spans; a subagent has its parent's."""
        self.deps = deps
        self.config = config
        self._side_jobs, self._describe = side_jobs, describe
        self.state = state or State(History())
        self.shared = SharedState(self.state.history, ledger, above, policy, telemetry)
        self.completed_commands: list[InboxPrompt] = []
        self._under_way: Driver | None = None
        self._salvaged: tuple[Assistant | None, tuple[ToolResult, ...]] = (None, ())

    @classmethod
    def resumed(  # noqa: PLR0913  # keywords, most of them
        cls,
        deps: Deps,
        config: Config,
        loaded: LoadedSession,
        *,
        ledger: Ledger | None = None,
        policy: SessionPolicy | None = None,
        restored: EnginePolicy | None = None,
        repeatable: Callable[[ToolCall], bool] = lambda _: False,
        side_jobs: SideJobs = NO_SIDE_JOBS,
        describe: Describe | None = None,
        telemetry: SessionTelemetry | None = None,
    ) -> EngineSession:
        """Resume a session. The model is notified of every call whose outcome is unknown (security P4). `restored`: the
        policy from now on; None: the stored one."""
        session = cls(
            deps,
            config,
            state=loaded.state,
            ledger=ledger,
            policy=policy,
            side_jobs=side_jobs,
            describe=describe,
            telemetry=telemetry,
        )
        session._salvaged = (loaded.partial, loaded.answers(deps.new_id, deps.now(), repeatable))
        for waiting in loaded.commands:
            session.shared.inbox.put(InboxPrompt(waiting.id, waiting.text, waiting.priority, waiting.origin))
        if restored is not None:
            session.shared.policy = restored
        elif (changed := loaded.policy) is not None:
            session.shared.policy = EnginePolicy(changed.mode, changed.model, changed.rules, changed.tools)
        return session

    def run(self, prompt: str | tuple[User, ...] = (), *, config: Config | None = None, deltas: bool = True) -> Run:
        """Start a run with `prompt`; without one it continues the conversation. The run starts when it is iterated."""
        return self._new_run(self._messages(prompt), config or self.config, deltas=deltas)

    def compact(self, instructions: str = "") -> Run:
        """Compact the conversation now, with these instructions (D-36). The run's cause says whether it succeeded."""
        return self._new_run((), self.config, deltas=False, compact=instructions)

    def _new_run(self, messages: tuple[User, ...], chosen: Config, *, deltas: bool, compact: str | None = None) -> Run:
        def start(channel: Channel[Update]) -> tuple[Driver, Submitted]:
            if self._under_way is not None:
                raise UsageError("a run of this session is active: leave it first, or use 'submit' to add to it")
            partial, results = self._salvaged
            submitted = Submitted(messages, partial, results, compact)
            self._under_way = Driver(
                self.state,
                chosen,
                self.deps,
                self.shared,
                channel,
                side_jobs=self._side_jobs,
                describe=self._describe,
                deltas=deltas,
                observer=observe_run(self.shared.telemetry, chosen, messages, self.deps.now),
            )
            return self._under_way, submitted

        return Run(start, self._ended, leaving=AbortReason.PARENT if chosen.depth else AbortReason.HARD)

    @property
    def current_state(self) -> State:
        """Also during a run, whose state is the session's only when it is over."""
        return self._under_way.state if self._under_way is not None else self.state

    def _messages(self, prompt: str | tuple[User, ...]) -> tuple[User, ...]:
        given = (user(prompt),) if isinstance(prompt, str) else prompt
        return tuple([replace(m, id=m.id or self.deps.new_id(), at=m.at or self.deps.now()) for m in given])

    def _ended(self, driver: Driver, result_seen: bool) -> None:  # a callback
        """Mark the prompts that a run took as completed, but only if the run ended by itself (A-16, A-17)."""
        self.state = driver.state
        self._under_way = None
        self.shared.inbox.release()
        self._salvaged = driver.salvaged
        if result_seen and driver.completed:
            self.completed_commands.extend(driver.commands)

    @property
    def current(self) -> State:
        """The state now, also during a run."""
        return self._under_way.state if self._under_way is not None else self.state

    # --- from outside, during a run or between runs ---

    async def submit(
        self, text: str, priority: Priority = Priority.NEXT, origin: Origin = Origin.PROMPT, *, id: str = ""
    ) -> InboxPrompt:
        """Queue a prompt for the next turn. It is journaled before this returns. `id`: of the client; empty: a new one.

        An urgent one (`now`) ends the current run: continue with `run()`, which begins with it (J-05).
        """
        command = InboxPrompt(id or self.deps.new_id(), text, priority, origin)
        self.shared.inbox.check_room()
        await self.deps.journal.append(command.record(CommandState.QUEUED, self.deps.now()))
        self.shared.inbox.put(command)
        if priority is Priority.NOW and self._under_way is not None:
            self._under_way.interrupt(AbortReason.SUBMIT)
        return command

    async def withdraw(self, command: InboxPrompt) -> bool:
        """Take a queued prompt back. False: it is on its way to the model, or was sent."""
        if not self.shared.inbox.can_withdraw(command):
            return False
        self.shared.inbox.take((command,))
        await self.deps.journal.append(command.record(CommandState.WITHDRAWN, self.deps.now()))
        return True

    async def change(self, policy: EnginePolicy) -> None:
        """Takes effect at the next call."""
        record = PolicyRecord(policy.mode, policy.model, policy.rules, policy.tools, self.deps.now())
        await self.deps.journal.append(record)
        self.shared.policy = policy


# Former names, for one release.
Session = EngineSession
