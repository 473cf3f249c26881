"""`RunObserver`: the operations of one run, from the events that its driver decides on and the updates that it shows.

An operation is the run itself, a request to the model, a tool call, the wait for an approval, or a compaction. Their
times are those of the driver's clock. Fields hold no text of the conversation unless content is switched on, and then
with secrets redacted.

A subagent's run has an observer of its own. Its span is a child of the call's span, because the call's task has that
span in its context: so do the spans that a tool starts itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Literal, Protocol

from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect
from mainspring.core.events import Aborted, CallFailed, Compacted, ContextReady, Event, Replied, Submitted
from mainspring.core.messages import Assistant
from mainspring.core.money import NANOS_PER_USD, Price, Usage, cost
from mainspring.core.reasons import Subtype
from mainspring.core.state import State
from mainspring.core.updates import (
    AgentStarted,
    CallDone,
    CallStarted,
    QuestionAnswered,
    QuestionAsked,
    ReplyStarted,
    Result,
    Retrying,
    Update,
)
from mainspring.core.view import view
from mainspring.telemetry import SessionTelemetry
from mainspring.telemetry.content import describe_messages, redact_value

OperationKind = Literal["run", "request", "tool", "approval", "compaction"]
AGENT = "mainspring"  # the name of an agent that is no subagent


class Operation:
    """One operation. `fields` grow until its end; `content` is filled only if content is switched on."""

    def __init__(self, kind: OperationKind, name: str, began: int, parent: Operation | None, **fields: Any) -> None:
        self.kind: OperationKind = kind
        self.name, self.parent = name, parent
        self.began, self.ended = began, began  # milliseconds
        self.fields: dict[str, Any] = fields
        self.content: dict[str, Any] = {}
        self.cloud = ""  # of a run: where plain names of Claude are; empty: at Anthropic
        self.error = ""  # the class of an error; empty: there was none
        self.interrupted = False

    @property
    def milliseconds(self) -> int:
        return self.ended - self.began


class OperationListener(Protocol):
    def begin(self, operation: Operation) -> None: ...

    def note(self, operation: Operation, name: str, at: int, fields: dict[str, Any]) -> None:
        """Something happened during the operation."""
        ...

    def end(self, operation: Operation) -> None: ...


def usage_fields(usage: Usage) -> dict[str, Any]:
    found = {
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write + usage.cache_write_1h,
    }
    if usage.web_searches:
        found["web_searches"] = usage.web_searches
    return found | ({"estimated": True} if usage.estimated else {})


class RunObserver:
    def __init__(
        self,
        session: SessionTelemetry,
        config: Config,
        now: Callable[[], int],
        listeners: list[OperationListener],
        *,
        content: bool,
    ) -> None:
        self._session, self._now, self._listeners, self._content = session, now, listeners, content
        self._turn = self._requests = 0
        self._price = Price()
        self._request: Operation | None = None
        self._compaction: Operation | None = None
        self._calls: dict[str, Operation] = {}  # by call id,
        self._approvals: dict[str, Operation] = {}  # and by the id of the question
        self.context: Context = copy_context()  # of the run's task: the run's span is the current one in it
        self._run = self._describe_run(config)
        self.context.run(self._begin, self._run)

    def _describe_run(self, config: Config) -> Operation:
        agent_id = config.source.partition(":")[2] if config.is_subagent else ""
        agent = self._session.agent_types.get(agent_id, "subagent") if agent_id else AGENT
        fields: dict[str, Any] = {"session": self._session.session_id, "agent": agent, "model": config.model.name}
        if agent_id:
            fields["agent_id"] = agent_id
        made = Operation("run", agent, self._now(), None, **fields)
        made.cloud = self._session.cloud
        return made

    # --- called by the driver and by `Run` ---

    def decide(self, event: Event, effect: Effect, state: State) -> None:
        """An event was decided on, and this effect is performed next."""
        at = event.stamp.at
        match event:
            case Submitted():
                self._run.fields["run"] = event.stamp.id
                if self._content and event.messages:
                    self._run.content["input"] = describe_messages(event.messages)
                self._note(self._run, "started")
            case Replied():
                self._end_request(at, event.reply, event.reply.usage)
            case CallFailed():
                self._end_request(at, event.kept, event.usage, str(event.failure.kind), event.failure.status)
            case Compacted():
                self._end_compaction(at, event)
            case Aborted():
                self._interrupt(at, event)
            case ContextReady():
                for one in event.shrunk:
                    self._note(self._run, "context_shrunk", layer=one.layer, freed_tokens=one.freed)
            case _:
                pass
        if isinstance(effect, CallModel):
            self._begin_request(at, effect, state)
        elif isinstance(effect, Compact):
            self._compaction = Operation("compaction", str(effect.how), at, self._run, layer=str(effect.how))
            self._begin(self._compaction)

    def watch(self, show: Callable[[Update], None]) -> Callable[[Update], None]:
        """`show`, for updates that are observed first."""
        observed = self._observed

        def show_observed(update: Update) -> None:
            observe = observed.get(type(update))
            if observe is not None:
                observe(update)
            show(update)

        return show_observed

    def end(self, task: asyncio.Task[None]) -> None:
        """The run's task is over. Ends every operation that is still open."""
        at = self._now()
        for one in (*self._approvals.values(), *self._calls.values(), self._request, self._compaction):
            if one is not None:
                self._end(one, at, interrupted=True)
        self._approvals, self._calls = {}, {}
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._run.error = type(error).__qualname__
        elif "terminal" not in self._run.fields:
            self._run.interrupted = True
        self._end(self._run, at)

    # --- requests and compactions ---

    def _begin_request(self, at: int, effect: CallModel, state: State) -> None:
        request, self._price = effect.request, state.model.price
        self._turn, self._requests = request.turn, self._requests + 1
        self._request = Operation(
            "request",
            request.model,
            at,
            self._run,
            turn=request.turn,
            request=self._requests,
            model=request.model,
            max_tokens=request.max_output,
        )
        if self._content:
            self._request.content["input"] = describe_messages(view(state.history, state.edits))
        self._begin(self._request)

    def _end_request(
        self, at: int, reply: Assistant | None, usage: Usage, error: str = "", status: int | None = None
    ) -> None:
        request = self._request
        if request is None:
            return
        fields = request.fields
        if reply is not None:
            fields |= {"reply": reply.id, "reply_model": reply.model, "stop": str(reply.stop)}
            if self._content:
                request.content["output"] = describe_messages((reply,))
        fields |= usage_fields(usage) | {"cost_usd": cost(usage, self._price) / NANOS_PER_USD}
        if status is not None:
            fields["status"] = status
        request.error, self._request = error, None
        self._end(request, at)

    def _end_compaction(self, at: int, event: Compacted) -> None:
        compaction, self._compaction = self._compaction, None
        if compaction is not None:
            compaction.fields |= {"before_tokens": event.before, "after_tokens": event.after}
            if event.usage.total or event.cost:
                compaction.fields |= usage_fields(event.usage) | {"cost_usd": event.cost / NANOS_PER_USD}
            if event.trigger:
                compaction.fields["trigger"] = event.trigger
            compaction.error = "compaction_failed" if event.failed else ""
            self._end(compaction, at)

    def _interrupt(self, at: int, event: Aborted) -> None:
        if self._request is not None:
            self._request.interrupted = True
            self._end_request(at, event.partial, event.usage)
        if self._compaction is not None:
            compaction, self._compaction = self._compaction, None
            self._end(compaction, at, interrupted=True)

    # --- updates ---

    @property
    def _observed(self) -> dict[type[Any], Callable[[Any], None]]:
        return {
            ReplyStarted: self._reply_started,
            Retrying: self._retrying,
            CallStarted: self._call_started,
            CallDone: self._call_done,
            QuestionAsked: self._question_asked,
            QuestionAnswered: self._question_answered,
            AgentStarted: self._agent_started,
            Result: self._result,
        }

    def _reply_started(self, update: ReplyStarted) -> None:
        if self._request is not None:
            self._request.fields.setdefault("first_chunk_ms", self._now() - self._request.began)
            self._request.fields["reply"] = update.reply_id

    def _retrying(self, update: Retrying) -> None:
        if self._request is not None:
            retries = self._request.fields.get("retries", 0) + 1
            self._request.fields["retries"] = retries
            self._note(
                self._request, "retry", attempt=update.attempt, delay_ms=update.delay, error=str(update.failure.kind)
            )

    def _call_started(self, update: CallStarted) -> None:
        """Called in the call's own task, so that its span becomes the current one there."""
        call = update.call
        operation = Operation("tool", call.name, self._now(), self._run, turn=self._turn, call=call.id, tool=call.name)
        if self._content:
            operation.content["input"] = redact_value(call.input)
        self._calls[call.id] = operation
        self._begin(operation)

    def _call_done(self, update: CallDone) -> None:
        result = update.result
        call = self._calls.pop(result.call_id, None)
        if call is None:
            return  # it never started
        for question, approval in list(self._approvals.items()):
            if approval.parent is call:  # withdrawn
                self._end(self._approvals.pop(question), self._now(), interrupted=True)
        if update.denied:
            call.fields["denied"] = True
        if self._content:
            call.content["output"] = redact_value(result.text)
        call.error = "tool_error" if result.is_error else ""
        self._end(call, self._now())

    def _question_asked(self, update: QuestionAsked) -> None:
        call = self._calls.get(update.call_id)
        name = call.name if call is not None else ""
        approval = Operation("approval", name, self._now(), call or self._run, call=update.call_id, tool=name)
        if self._content:
            approval.content["input"] = redact_value(update.question)
        self._approvals[update.id] = approval
        self._begin(approval)

    def _question_answered(self, update: QuestionAnswered) -> None:
        approval = self._approvals.pop(update.id, None)
        if approval is not None:
            if self._content:
                approval.content["output"] = redact_value(update.answer)
            self._end(approval, self._now())

    def _agent_started(self, update: AgentStarted) -> None:
        self._session.agent_types[update.agent_id] = update.kind

    def _result(self, update: Result) -> None:
        run = self._run
        run.fields |= {
            "terminal": str(update.terminal),
            "cause": str(update.cause),
            "turns": update.turns,
            "requests": update.model_calls,
            **usage_fields(update.usage),
            "cost_usd": update.cost / NANOS_PER_USD,
        }
        if update.stop is not None:
            run.fields["stop"] = str(update.stop)
        if self._content:
            run.content["output"] = redact_value(update.text)
        run.interrupted = update.interrupted
        if update.subtype is not Subtype.SUCCESS and not update.interrupted:
            run.error = str(update.cause)

    # --- to the listeners ---

    # A listener that fails, such as a span processor of the program, must not end the run.

    def _begin(self, operation: Operation) -> None:
        for listener in self._listeners:
            with suppress(Exception):
                listener.begin(operation)

    def _note(self, operation: Operation, name: str, **fields: Any) -> None:
        at = self._now()
        for listener in self._listeners:
            with suppress(Exception):
                listener.note(operation, name, at, fields)

    def _end(self, operation: Operation, at: int, *, interrupted: bool = False) -> None:
        operation.ended = max(at, operation.began)
        operation.interrupted = operation.interrupted or interrupted
        for listener in self._listeners:
            with suppress(Exception):
                listener.end(operation)
