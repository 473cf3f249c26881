"""Runs single tasks: opens a session for each, or resumes the one that an earlier process left, and makes its result.

A task and the number of its attempt determine the id of its session. So after a crash the same session is found again:
one that had ended is not run a second time, and one that broke off continues without a new prompt.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

import msgspec
from msgspec.structs import replace

from mainspring.core.effects import Finish
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Assistant, Stop
from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.core.reasons import SUBTYPES, Cause, Subtype
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import Ledger
from mainspring.fleet.checks import SECONDS, CheckRunner
from mainspring.fleet.results import NOT_RUN, TaskResult
from mainspring.fleet.scheduler import GatedProvider, ModelScheduler
from mainspring.fleet.tasks import MODEL, FleetTask, check_task_options
from mainspring.fleet.workspaces import TaskWorkspace, name_of, open_workspace
from mainspring.library.agent import Agent
from mainspring.library.errors import AgentError
from mainspring.library.options import AgentOptions
from mainspring.library.session import AgentChat, SessionPlan
from mainspring.providers.base import shared_limits
from mainspring.providers.http_provider import HttpProvider
from mainspring.sessions.paths import file_of, folder_of, size_of

if TYPE_CHECKING:
    from mainspring.library.answer import Answer
    from mainspring.sessions.decoder import LoadedSession

SESSIONS = "sessions"
ABORTED = frozenset({Cause.HARD, Cause.SUBMIT, Cause.TIMEOUT, Cause.PARENT})


class Unfinished(Bundle):
    """A task that has no result yet, and whose session can be resumed."""

    task: FleetTask
    why: str  # "drain" or "budget_usd"
    cost: int = 0  # of its session so far, in nano-dollars


class PlansSessions(Protocol):
    """What makes the sessions of tasks: an `Agent`, or the command (`command_agent.py`)."""

    def plan(
        self, deps: object, *, once: bool = False, deltas: bool = True, ledger: Ledger | None = None
    ) -> SessionPlan: ...

    def with_options(self, model: str | None = None, /, **options: Unpack[AgentOptions]) -> PlansSessions: ...


class AgentFactory(Bundle):
    """How each process of a fleet makes the agent: a function, and what it is called with."""

    function: str  # "module:function"
    argument: Any  # JSON

    def make(self) -> PlansSessions:
        module, _, name = self.function.partition(":")
        made: PlansSessions = getattr(importlib.import_module(module), name)(self.argument)
        return made


def make_agent(given: PlansSessions | Mapping[str, Any]) -> PlansSessions:
    if not isinstance(given, Mapping):
        return given
    check_task_options({name: value for name, value in given.items() if name != "cwd"}, "Fleet")
    options = dict(given)
    return Agent[Any, Any](options.pop(MODEL, None), **cast("AgentOptions", options))


class TaskRunner:
    """Runs the tasks of one process. All their sessions share the scheduler and the ledger."""

    def __init__(  # noqa: PLR0913  # the last ones are keywords
        self,
        agent: PlansSessions,
        scheduler: ModelScheduler,
        ledger: Ledger,
        folder: Path | None = None,
        *,
        isolate: bool = False,
        check_seconds: float = SECONDS,
    ) -> None:
        """`folder`: of the fleet; None: sessions are stored where the agent stores them. `isolate`: tasks that name no
        directory work in an empty one."""
        self.ledger = ledger
        self.chats: dict[str, AgentChat[Any]] = {}  # of the tasks that run
        self._agent, self._scheduler, self._folder, self._isolate = agent, scheduler, folder, isolate
        self._agents: dict[bytes, PlansSessions] = {b"{}": agent}  # by their options
        self._opening = asyncio.Lock()
        self._stored = dict(find_stored_sessions(folder)) if folder is not None else {}
        self._checks = CheckRunner(folder, check_seconds)
        self._workspaces: dict[str, TaskWorkspace] = {}  # of tasks whose result is not stored

    async def run(self, task: FleetTask, attempt: int = 1) -> TaskResult | Unfinished:
        """Raises nothing that a task can cause."""
        try:
            workspace = await open_workspace(task, self._folder, attempt, isolate=self._isolate)
            self._workspaces[task.id] = workspace
            outcome = await self._run_in(task, attempt, workspace)
        except (MainspringError, OSError) as error:
            return make_failure(task, attempt, str(error))
        if isinstance(outcome, Unfinished):
            del self._workspaces[task.id]  # kept for the next run
            return outcome
        return await self._finish(task, attempt, outcome, workspace)

    async def _finish(self, task: FleetTask, attempt: int, result: TaskResult, workspace: TaskWorkspace) -> TaskResult:
        """The result with the diff and the check's exit code. The diff comes first: a check leaves files behind."""
        try:
            result = replace(result, diff=await workspace.store_diff())
            if task.check is not None:
                plan = self._agent_of(task).plan(None)
                cwd = workspace.cwd or plan.options.cwd or os.getcwd()  # noqa: PTH109  # a string
                code = await self._checks.run(task.check, plan, cwd, name_of(task.id, attempt))
                result = replace(result, check_code=code)
        except (MainspringError, OSError) as error:
            result = replace(result, is_error=True, error="\n".join([one for one in (result.error, str(error)) if one]))
        return result

    async def clean_up(self, task: FleetTask) -> None:
        """The result of the task is stored."""
        if (workspace := self._workspaces.pop(task.id, None)) is not None:
            await workspace.remove()

    @property
    def spent(self) -> int:
        """In nano-dollars, by all runs."""
        return self.ledger.account.spent

    def drain(self) -> None:
        """No session begins another turn."""
        self._scheduler.drain()

    async def close(self) -> None:
        """Nothing is left: sessions close with their tasks."""

    def suspend(self) -> None:
        """Stops all sessions where they are, so that another process can continue them."""
        for chat in list(self.chats.values()):
            chat.suspend()

    # --- one session ---

    async def _run_in(self, task: FleetTask, attempt: int, workspace: TaskWorkspace) -> TaskResult | Unfinished:
        ledger = self.ledger.child()
        plan, resumes = self._plan(task, attempt, workspace, ledger)
        began = time.monotonic()
        limits = self._scheduler.for_session(task.id, lambda: self._suspend(task))
        token = shared_limits.set(limits)
        chat = AgentChat[Any](plan)
        try:
            async with self._opening:  # one at a time: the sessions that run need the event loop, too
                await chat.__aenter__()
                await asyncio.sleep(0)
            try:
                self.chats[task.id] = chat
                loaded = chat.opened.opened.loaded if resumes else None
                if loaded is not None and has_ended(loaded):
                    return make_stored_result(task, attempt, loaded)
                replied = count_turns(loaded) if loaded is not None else 0
                outcome = await self._answer(chat, task, resumes=loaded is not None and len(loaded.state.history) > 0)
                return self._make_result(task, attempt, chat, outcome, replied, time.monotonic() - began)
            finally:
                del self.chats[task.id]
                await chat.__aexit__(None, None, None)
        finally:
            shared_limits.reset(token)

    def _suspend(self, task: FleetTask) -> None:
        if (chat := self.chats.get(task.id)) is not None:
            chat.suspend()

    def _plan(
        self, task: FleetTask, attempt: int, workspace: TaskWorkspace, ledger: Ledger
    ) -> tuple[SessionPlan, bool]:
        """How its session is opened, and whether it is resumed."""
        plan = self._agent_of(task).plan(None, once=True, deltas=False, ledger=ledger)
        options = plan.options if workspace.cwd is None else plan.options.replace(cwd=workspace.cwd)
        resumes = False
        if self._folder is not None:
            home, session_id = str(self._folder / SESSIONS), make_session_id(task, attempt)
            file = file_of(folder_of(home, options.cwd or os.getcwd()), session_id)  # noqa: PTH109  # as sessions do
            resumes = session_id in self._stored or size_of(file) > 0
            options = options.replace(
                sessions_home=home,
                persist=True,
                resume=session_id if resumes else None,
                session_id=None if resumes else session_id,
            )
        provider = plan.provider
        if provider is not None and not isinstance(provider, HttpProvider):
            provider = GatedProvider(provider)
        return replace(plan, options=options, provider=provider), resumes

    def _agent_of(self, task: FleetTask) -> PlansSessions:
        key = msgspec.json.encode(task.options, enc_hook=id, order="sorted")
        found = self._agents.get(key)
        if found is None:
            given = dict(task.options)
            model = given.pop(MODEL, None)
            found = self._agents[key] = self._agent.with_options(model, **cast("AgentOptions", given))
        return found

    async def _answer(self, chat: AgentChat[Any], task: FleetTask, *, resumes: bool) -> Answer[Any] | AgentError:
        try:
            return await (chat.continue_run() if resumes else chat.run(task.prompt))
        except AgentError as error:
            return error

    def _make_result(  # noqa: PLR0913, PLR0917  # what it is made of
        self,
        task: FleetTask,
        attempt: int,
        chat: AgentChat[Any],
        outcome: Answer[Any] | AgentError,
        replied: int,
        seconds: float,
    ) -> TaskResult | Unfinished:
        answer = outcome.answer if isinstance(outcome, AgentError) else outcome
        cause = outcome.cause if isinstance(outcome, AgentError) else outcome.result.cause
        if cause in ABORTED:
            return Unfinished(task, "drain", round(chat.cost_usd * NANOS_PER_USD))
        if cause is Cause.BUDGET_USD and self._is_fleets_budget(chat):
            return Unfinished(task, "budget_usd", round(chat.cost_usd * NANOS_PER_USD))
        failed = isinstance(outcome, AgentError)
        result = answer.result if answer is not None else None
        journal = chat.opened.opened.journal
        return TaskResult(
            task.id,
            task.digest,
            result.terminal if result is not None else NOT_RUN,
            cause or "error",
            is_error=failed,
            text=answer.text if answer is not None else "",
            output=encode_output(result.output) if result is not None else None,
            error=str(outcome) if failed else "",
            turns=replied + (result.turns if result is not None else 0),
            cost_usd=chat.cost_usd,
            usage=list_usage(chat.opened.usage.total),
            seconds=round(seconds, 3),
            session_id=chat.session_id,
            transcript=journal.file if journal is not None else "",
            tags=task.tags,
            attempts=attempt,
        )

    def _is_fleets_budget(self, chat: AgentChat[Any]) -> bool:
        """Whether the fleet's money is what is missing, and not that of the task's own limit."""
        fleet, own = self.ledger.funds, chat.opened.world.session.shared.ledger.account.left
        return fleet is not None and (own is None or fleet <= own)


# --- stored sessions ------------------------------------------------------------------------------------


def make_session_id(task: FleetTask, attempt: int) -> str:
    """Always the same for the same task and attempt: a uuid of version 8, "made by its application"."""
    found = hashlib.sha256(f"{task.id}\n{task.digest}\n{attempt}".encode()).hexdigest()
    return f"{found[:8]}-{found[8:12]}-8{found[13:16]}-a{found[17:20]}-{found[20:32]}"


def find_stored_sessions(folder: Path) -> Iterator[tuple[str, str]]:
    """The ids and files of all sessions of a fleet that have content."""
    projects = folder / SESSIONS / "projects"
    if not projects.is_dir():
        return
    with os.scandir(projects) as found:
        for project in found:
            with os.scandir(project.path) as files:
                for file in files:
                    if file.name.endswith(".jsonl") and not file.name.startswith(".") and file.stat().st_size:
                        yield file.name.removesuffix(".jsonl"), file.path


def has_ended(loaded: LoadedSession) -> bool:
    """Whether its run ended by itself: all but its line in the results was stored."""
    waiting = loaded.state.waiting_for
    return isinstance(waiting, Finish) and waiting.cause not in ABORTED and waiting.cause is not Cause.BUDGET_USD


def count_turns(loaded: LoadedSession) -> int:
    return sum(
        [isinstance(one, Assistant) and one.stop is not Stop.UNFINISHED for one in loaded.state.history.newest_first()]
    )


def make_stored_result(task: FleetTask, attempt: int, loaded: LoadedSession) -> TaskResult:
    """The result of a session that ended just before its process did."""
    state, ended = loaded.state, loaded.state.waiting_for
    assert isinstance(ended, Finish)
    text = next((one.text for one in state.history.newest_first() if isinstance(one, Assistant)), "")
    failed = SUBTYPES[ended.cause] is not Subtype.SUCCESS
    used = sum([usage for _, usage in loaded.standing.used or ()], Usage())
    return TaskResult(
        task.id,
        task.digest,
        ended.terminal,
        ended.cause,
        is_error=failed,
        text=text,
        output=encode_output(state.output),
        error=(ended.detail or f"the run ended without an answer: {ended.cause}") if failed else "",
        turns=count_turns(loaded),
        cost_usd=(loaded.spent + loaded.standing.unbooked) / NANOS_PER_USD,
        usage=list_usage(used),
        seconds=max(0, state.now.at - state.started) / 1_000,
        session_id=loaded.session_id,
        transcript=str(loaded.file),
        tags=task.tags,
        attempts=attempt,
    )


def make_failure(task: FleetTask, attempt: int, why: str) -> TaskResult:
    """The result of a task that could not be run."""
    return TaskResult(
        task.id, task.digest, NOT_RUN, "error", is_error=True, error=why, tags=task.tags, attempts=attempt
    )


def encode_output(output: Mapping[str, Any] | None) -> msgspec.Raw | None:
    return msgspec.Raw(msgspec.json.encode(output)) if output is not None else None


def list_usage(used: Usage) -> dict[str, int]:
    return {
        "input": used.input,
        "cache_write": used.cache_write,
        "cache_write_1h": used.cache_write_1h,
        "cache_read": used.cache_read,
        "output": used.output,
    }
