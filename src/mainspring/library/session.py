"""A session of an agent: an `AgentSession` in this program, one prompt after the other.

    async with agent.session() as chat:
        await chat.run("My name is Ada.")
        print((await chat.run("What is my name?")).text)

`AgentStream` is a run to iterate over. Both end what they began: a stream that is left early closes itself.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec.structs import replace

from mainspring import library
from mainspring.agent.config import HostSupplied, resolve_config
from mainspring.agent.host import ApprovalRequest, NoHost, Reach
from mainspring.agent.open_session import open_session
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.updates import (
    AnySessionUpdate,
    PromptAnswered,
    PromptBlocked,
    PromptReturned,
    RunBroken,
    SessionUpdate,
)
from mainspring.core.errors import CallerMistakes, UsageError
from mainspring.core.messages import Content, Message, Text
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Cause, Subtype, Terminal
from mainspring.core.updates import BlockDone, BlockKind, Delta, Result, Update
from mainspring.core.value import Bundle
from mainspring.engine.tasks import run_to_completion
from mainspring.library.answer import Answer, OutputT
from mainspring.library.errors import AgentError, Interrupted, make_error
from mainspring.tools.base import Approval, Tool

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession
    from mainspring.checkpoints.entries import FileCheckpoint, PromptChanges, RewindReport
    from mainspring.engine.shared_state import Ledger
    from mainspring.library.hooks import HookFunction
    from mainspring.library.options import Approve
    from mainspring.library.output import OutputType
    from mainspring.providers.base import Provider

ItemT = TypeVar("ItemT")
PromptLike = str | Sequence[str | Content]
BETWEEN = "\n\n"  # between the texts of two replies

BindTools = Callable[["AgentChat[Any]"], tuple[Tool, ...]]


class SessionPlan(Bundle):
    """Everything that a session of an agent is opened with."""

    options: SessionOptions
    environment: dict[str, str]
    bind: BindTools  # returns the program's tools for this session
    provider: Provider | None = None
    output: OutputType | None = None
    approve: Approve | None = None
    hooks: Mapping[str, HookFunction] = {}
    expand: bool = False
    deltas: bool = True
    once: bool = False  # for one run
    ledger: Ledger | None = None  # of the session that pays
    depth: int = 0  # in a tree of agents that call each other


class AgentChat(Generic[OutputT]):
    """A session to run several prompts in. Use it with `async with`.

    Example:
        async with agent.session() as chat:
            await chat.run("My name is Ada.")
            print((await chat.run("What is my name?")).text)
    """

    def __init__(self, plan: SessionPlan) -> None:
        """`Agent.session` makes it."""
        self.plan = plan
        self._session: AgentSession | None = None
        self._closed = self._running = False
        self._output: Any = None  # the `OutputCheck`, if there is an output type
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- life cycle ---

    async def __aenter__(self) -> AgentChat[OutputT]:
        with CallerMistakes():
            if self._session is not None or self._closed:
                raise UsageError("a session is entered once: make another one with 'agent.session()'")
            plan = self.plan
            self._loop = asyncio.get_running_loop()
            try:
                self._session = session = self._open(plan)
            except StartError as error:
                raise UsageError(str(error)) from None
        try:
            await session.start()
        except BaseException:
            self._closed = True
            await session.close()
            raise
        return self

    def _open(self, plan: SessionPlan) -> AgentSession:
        check: Callable[[dict[str, Any]], object] | None = None
        if plan.output is not None:
            self._output = library.OutputCheck(plan.output)
            check = self._output.check
        supplied = HostSupplied(plan.bind(self), plan.provider, check)
        config = resolve_config(plan.options, plan.environment, supplied)
        host = LibraryHost(plan.approve, plan.hooks, plan.options.deps) if plan.approve or plan.hooks else None
        try:
            return open_session(config, host, deltas=plan.deltas, ledger=plan.ledger)
        except BaseException:
            config.holder.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    @property
    def opened(self) -> AgentSession:
        if self._session is None or self._closed:
            raise UsageError("the session is not open: use it inside 'async with agent.session() as chat'")
        return self._session

    # --- what is known of it ---

    @property
    def session_id(self) -> str:
        """For `agent.session(resume=...)`, and for `mainspring trace`."""
        return self.opened.world.about.session_id

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages so far."""
        return tuple(self.opened.world.session.state.history)

    @property
    def cost_usd(self) -> float:
        """What the session has spent so far, in dollars, with its subagents."""
        return self.opened.world.session.shared.ledger.account.spent / NANOS_PER_USD

    # --- runs ---

    async def run(self, prompt: PromptLike) -> Answer[OutputT]:
        """Run one prompt to its answer. Raises `AgentError`."""
        return await self._run(prompt)

    async def continue_run(self) -> Answer[OutputT]:
        """Run the conversation as it is to its answer, without a new prompt: after a resume, when the last run broke
        off. Raises `AgentError`."""
        return await self._run(None)

    async def _run(self, prompt: PromptLike | None) -> Answer[OutputT]:
        found: list[Answer[OutputT]] = []
        async with aclosing(self.updates(prompt, found)) as updates:
            async for _ in updates:
                pass
        return found[0]

    def stream(self, prompt: PromptLike) -> AgentStream[Update, OutputT]:
        """Every update of one run. Raises `AgentError` at its end."""
        found: list[Answer[OutputT]] = []
        return AgentStream(self.updates(prompt, found), found)

    def stream_text(self, prompt: PromptLike) -> AgentStream[str, OutputT]:
        """The model's text of one run, piece by piece. Raises `AgentError` at its end."""
        found: list[Answer[OutputT]] = []
        return AgentStream(pick_text(self.updates(prompt, found)), found)

    async def rewind(
        self,
        to: str,
        *,
        conversation: bool = True,
        files: bool = False,
        dry_run: bool = False,
        include: Collection[str] = (),
    ) -> RewindReport:
        """Goes back to before a prompt: the conversation, the files (with the option `checkpoints=True`), or both. `to`
        is the id of the prompt's message, or of a checkpoint. Files that the user changed since are kept, unless they,
        or a folder that they are in, are in `include`. To undo it, rewind to `report.undo`."""
        try:
            return await self.opened.rewind(
                to, conversation=conversation, files=files, dry_run=dry_run, include=include
            )
        except StartError as error:
            raise UsageError(str(error)) from None

    async def checkpoints(self) -> tuple[FileCheckpoint, ...]:
        """One for each prompt that files can be rewound to, the oldest first."""
        return await self.opened.checkpoints()

    async def changed_files(self, from_prompt: str | None = None) -> tuple[PromptChanges, ...]:
        """What the session changed, by prompt, with diffs."""
        return await self.opened.changed_files(from_prompt)

    def interrupt(self) -> None:
        """End the current run soon: it raises `Interrupted`. The session stays usable."""
        self.opened.interrupt()

    def suspend(self) -> None:
        """End the session where it is, without a notice in the conversation, so that another process can resume it and
        continue its run (`continue_run`). The current run raises `Interrupted`."""
        self.opened.suspend()

    async def updates(self, prompt: PromptLike | None, found: list[Answer[OutputT]]) -> AsyncGenerator[Update, None]:
        """The updates of one run; at its end, its answer is in `found`. None: without a new prompt."""
        session = self.opened
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError("this session was opened in another event loop: use it there")
        if self._running:
            raise UsageError("a run of this session is active: wait for its end, or open another session")
        content, before = make_content("" if prompt is None else prompt), len(session.world.session.state.history)
        results: list[Result] = []
        self._running = True
        over = False
        if prompt is None:
            session.continue_run()
        else:
            session.enqueue(Prompt(content, literal=not self.plan.expand))
        try:
            async for update in session.updates():
                if not isinstance(update, SessionUpdate):
                    if isinstance(update, Result):
                        results.append(update)
                        over = not session.has_more  # else a report of a subagent starts another run
                    yield update
                else:
                    over = over or isinstance(update, ENDS)  # also if it raises: nothing more of this prompt follows
                    result = end_without_run(update)
                    results += [result] if result is not None else []
                if over:
                    break
        finally:
            self._running = False
            if not over and not self._closed:
                await run_to_completion(self._leave(session))
        if not results:
            raise Interrupted("the session was closed during the run")
        found.append(self._answer(session, before, results))

    async def _leave(self, session: AgentSession) -> None:
        """End the run that its reader has left."""
        if self.plan.once:
            session.abandon()  # `close` follows
            return
        session.interrupt()
        async for update in session.updates():
            if isinstance(update, (Result, *ENDS)):
                return

    def _answer(self, session: AgentSession, before: int, results: list[Result]) -> Answer[OutputT]:
        result, history = add_results(results), session.world.session.state.history
        messages = tuple(history.since(before if before <= len(history) else 0))
        partial = Answer[Any](None, result.text, messages, session.world.about.session_id, result)
        if (error := make_error(partial, needs_output=self._output is not None)) is not None:
            raise error
        given = result.output
        output: Any = result.text if self._output is None or given is None else self._output.value_of(given)
        return replace(partial, output=output)


def make_content(prompt: PromptLike) -> tuple[Content, ...]:
    parts = (prompt,) if isinstance(prompt, str) else prompt
    if not isinstance(cast("object", parts), tuple | list):
        raise UsageError(f"a prompt is text, or a list of text, 'Image' and 'Document', not {prompt!r}")
    made = tuple([Text(part) if isinstance(part, str) else part for part in parts])
    if wrong := [part for part in made if not isinstance(cast("object", part), Content)]:
        raise UsageError(f"a prompt has text, 'Image' and 'Document', not {wrong[0]!r}")
    return made


ENDS = (PromptReturned, PromptAnswered, PromptBlocked, RunBroken)  # end a run without a result


def end_without_run(update: AnySessionUpdate) -> Result | None:
    """The result of a prompt that needed no model; None: the update ends nothing. Raises `AgentError`."""
    match update:
        case PromptAnswered(text=text, failed=True):
            raise UsageError(text)
        case PromptAnswered(text=text):
            return Result(Terminal.COMPLETED, Cause.END_TURN, Subtype.SUCCESS, text=text)
        case PromptBlocked(reason=reason):
            raise AgentError(f"a hook blocked the prompt: {reason}", cause=Cause.HOOK)
        case PromptReturned():
            raise Interrupted("the run was interrupted before it began", cause=Cause.HARD)
        case RunBroken(error=error):
            raise AgentError(f"the run broke off: {error}") from error
        case _:
            return None


def add_results(results: list[Result]) -> Result:
    """One result of a run and of those that reports of its subagents started."""
    last = results[-1]
    for earlier in results[:-1]:
        last = replace(
            last,
            turns=last.turns + earlier.turns,
            model_calls=last.model_calls + earlier.model_calls,
            usage=earlier.usage + last.usage,
            cost=last.cost + earlier.cost,
            estimated=last.estimated or earlier.estimated,
            duration=last.duration + earlier.duration,
        )
    return last


# --- streams ---


class AgentStream(Generic[ItemT, OutputT]):
    """A run to iterate over. When you leave the loop early and drop the stream, the run is interrupted and closed; with
    `async with` that has happened when the block ends. After the loop, `answer` has the answer.

    Example:
        async for text in agent.stream_text("Tell me a story."):
            print(text, end="")
    """

    def __init__(self, items: AsyncGenerator[ItemT, None], found: list[Answer[OutputT]]) -> None:
        # It refers to no stream itself: when the last reference to this object goes, the generator is closed.
        self._items, self._found = items, found

    def __aiter__(self) -> AgentStream[ItemT, OutputT]:
        return self

    async def __anext__(self) -> ItemT:
        return await self._items.__anext__()

    @property
    def answer(self) -> Answer[OutputT]:
        if not self._found:
            raise UsageError("the stream has no answer yet: iterate it to its end first")
        return self._found[0]

    async def aclose(self) -> None:
        """End the run now."""
        await self._items.aclose()

    async def __aenter__(self) -> AgentStream[ItemT, OutputT]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def pick_text(updates: AsyncGenerator[Update, None]) -> AsyncGenerator[str, None]:
    """The text of the replies; a blank line is between two of them."""
    shown, last = set[tuple[str, int]](), ""  # blocks that have had deltas; the reply of the last piece
    async with aclosing(updates):
        async for update in updates:
            match update:
                case Delta(kind=BlockKind.TEXT, text=text):
                    shown.add((update.reply_id, update.index))
                case BlockDone(block=Text(text=text)) if (update.reply_id, update.index) not in shown:
                    pass  # a server that does not stream
                case _:
                    continue
            if text:
                yield f"{BETWEEN}{text}" if last not in ("", update.reply_id) else text
                last = update.reply_id


# --- approvals and hooks ---


class LibraryHost(NoHost):
    """The program's functions as the host of a session."""

    def __init__(self, approve: Approve | None, hooks: Mapping[str, HookFunction], deps: object) -> None:
        self._approve, self._hooks, self._deps = approve, hooks, deps
        self.reach: Reach = "never" if approve is None else "always"

    async def run_hook(self, hook_id: str, payload: dict[str, Any]) -> object:
        function = self._hooks[hook_id]
        name = getattr(function, "__name__", hook_id)
        asked = library.HookCall[Any](str(payload.get("hook_event_name", "")), copy.deepcopy(payload), self._deps)
        try:
            return library.check_reply(await call_function(function, asked), name)
        except Exception as error:
            log_failure(f"the hook '{name}' failed", error)
            raise

    async def approve(self, request: ApprovalRequest) -> Approval:
        if self._approve is None:
            return await super().approve(request)
        request = replace(request, deps=self._deps)
        try:
            said: object = await call_function(self._approve, request)
        except Exception as error:  # noqa: BLE001  # the program's function may raise anything
            log_failure("'approve' failed, and the call is denied", error)
            return Approval("deny", message="The approval function failed.")
        if isinstance(said, Approval):
            return said
        if isinstance(said, bool):
            return Approval("allow" if said else "deny", message="" if said else "The call was not approved.")
        log_failure(f"'approve' must return True, False or an 'Approval', not {said!r}: the call is denied", None)
        return Approval("deny", message="The approval function failed.")


async def call_function(function: Callable[[Any], Any], given: object) -> object:
    """A plain function runs in a thread: it may wait for a person."""
    if inspect.iscoroutinefunction(function):
        return await function(given)
    said = await asyncio.to_thread(function, given)
    return await said if inspect.isawaitable(said) else said


def log_failure(words: str, error: BaseException | None) -> None:
    import logging

    logging.getLogger("mainspring.library").error("%s", words, exc_info=error)
