"""Operations as spans and metrics of OpenTelemetry, by its semantic conventions for generative AI.

This is the only module that imports OpenTelemetry. Attributes that the conventions do not have begin with
`mainspring.`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from mainspring.telemetry.run_observer import Operation, OperationKind
from mainspring.version import __version__

NAMES: dict[OperationKind, str] = {
    "run": "invoke_agent",
    "request": "chat",
    "tool": "execute_tool",
    "approval": "approval",  # the conventions have no name for this one
    "compaction": "compaction",  # nor for this one
}

ATTRIBUTES = {
    "session": "gen_ai.conversation.id",
    "run": "mainspring.run.id",
    "agent": "gen_ai.agent.name",
    "agent_id": "gen_ai.agent.id",
    "model": "gen_ai.request.model",
    "max_tokens": "gen_ai.request.max_tokens",
    "turn": "mainspring.turn",
    "request": "mainspring.request.number",
    "reply": "mainspring.reply.id",
    "reply_model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "call": "gen_ai.tool.call.id",
    "tool": "gen_ai.tool.name",
    "cost_usd": "mainspring.cost_usd",
    "estimated": "mainspring.usage.estimated",
    "status": "http.response.status_code",
    "error": "error.type",
}
CONTENT: dict[OperationKind, tuple[str, str]] = {  # of the input and the output
    "run": ("gen_ai.input.messages", "mainspring.run.text"),
    "request": ("gen_ai.input.messages", "gen_ai.output.messages"),
    "tool": ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    "approval": ("mainspring.approval.question", "mainspring.approval.answer"),
    "compaction": ("", ""),
}

# By how a model's name begins, without the prefix of a provider; the conventions ask for the best guess.
PROVIDERS = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai"}

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple([4**power for power in range(14)])  # both as the conventions advise
LABELS = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")


# By the prefix of a model's name, where the conventions have another word.
SERVICES = {"bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai", "gemini": "gcp.gemini"}


def guess_provider(model: str, cloud: str = "") -> str:
    """`cloud`: where plain names of Claude are, `bedrock` or `vertex`; empty: at Anthropic."""
    prefix, _, bare = model.rpartition("/")
    if prefix:
        return SERVICES.get(prefix, prefix)
    if "anthropic." in bare:
        return SERVICES["bedrock"]
    if cloud and bare.startswith("claude"):
        return SERVICES[cloud]
    known = [provider for start, provider in PROVIDERS.items() if bare.startswith(start)]
    return known[0] if known else "unknown"


class SpanRecorder:
    """The tracer and the instruments, for all runs of the process."""

    def __init__(
        self, content: bool, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        self.content = content
        self.tracer = trace.get_tracer("mainspring", __version__, tracer_provider)
        meter = metrics.get_meter("mainspring", __version__, meter_provider)

        def seconds(name: str, what: str) -> metrics.Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=SECONDS)

        self.durations = {
            "run": seconds("gen_ai.invoke_agent.duration", "Duration of a run."),
            "request": seconds("gen_ai.client.operation.duration", "Duration of a model request with its retries."),
            "tool": seconds("gen_ai.execute_tool.duration", "Duration of a tool call."),
            "approval": seconds("mainspring.approval.duration", "Wait for an approval."),
            "compaction": seconds("mainspring.compaction.duration", "Duration of a compaction."),
        }
        self.first_chunk = seconds("gen_ai.client.operation.time_to_first_chunk", "Time to the first chunk of a reply.")
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens used.", explicit_bucket_boundaries_advisory=TOKENS
        )
        self.cost = meter.create_counter("mainspring.cost", "USD", "Cost of model requests, by the price table.")

    def find_parent(self) -> Context | None:
        """The context of the caller, if it has a span."""
        return context.get_current() if trace.get_current_span().get_span_context().is_valid else None

    def new_run(self, parent: object = None) -> RunSpans:
        """`parent`: what `find_parent` returned when the prompt was submitted; None: the caller's context."""
        return RunSpans(self, parent if isinstance(parent, Context) else None)


class RunSpans:
    """The spans of one run."""

    def __init__(self, recorder: SpanRecorder, parent: Context | None) -> None:
        self._recorder, self._parent = recorder, parent
        self._spans: dict[Operation, Span] = {}

    def begin(self, operation: Operation) -> None:
        """The span of a run or of a call becomes the current one in this context. Each of them has a task of its own,
        so nothing has to be detached."""
        parent = self._parent
        if operation.parent is not None:
            parent = trace.set_span_in_context(self._spans[operation.parent])
        kind = operation.kind
        span = self._recorder.tracer.start_span(
            f"{NAMES[kind]} {operation.name}".rstrip(),
            parent,  # None: the current span of the caller
            SpanKind.CLIENT if kind == "request" else SpanKind.INTERNAL,
            self._attributes(operation),
            start_time=nanoseconds(operation.began),
        )
        self._spans[operation] = span
        if kind in ("run", "tool"):
            context.attach(trace.set_span_in_context(span))

    def note(self, operation: Operation, name: str, at: int, fields: dict[str, Any]) -> None:
        if name != "started":
            span = self._spans[operation]
            span.add_event(f"mainspring.{name}", rename_fields(operation.kind, fields), nanoseconds(at))

    def end(self, operation: Operation) -> None:
        span = self._spans[operation] if operation.kind == "run" else self._spans.pop(operation)
        attributes = self._attributes(operation)
        if operation.error:
            attributes["error.type"] = operation.error
            span.set_status(Status(StatusCode.ERROR, operation.error))
        if operation.interrupted:
            attributes["mainspring.interrupted"] = True
        span.set_attributes(attributes)
        span.end(nanoseconds(operation.ended))
        self._measure(operation, attributes)

    def _attributes(self, operation: Operation) -> dict[str, Any]:
        kind, top = operation.kind, operation
        while top.parent is not None:
            top = top.parent
        shared = {name: top.fields[name] for name in ("session", "run") if top.fields.get(name)}
        found = rename_fields(kind, shared | operation.fields)
        if kind in ("run", "request", "tool"):
            found["gen_ai.operation.name"] = NAMES[kind]
        if kind in ("run", "request"):
            found["gen_ai.provider.name"] = guess_provider(operation.fields["model"], top.cloud)
        if kind == "tool":
            found["gen_ai.tool.type"] = "function"
        for place, name in zip(("input", "output"), CONTENT[kind], strict=True):
            if name and place in operation.content:
                found[name] = as_text(operation.content[place])
        return found

    def _measure(self, operation: Operation, attributes: dict[str, Any]) -> None:
        recorder, kind, fields = self._recorder, operation.kind, operation.fields
        labels = {name: attributes[name] for name in LABELS if name in attributes}
        named = {"run": "gen_ai.agent.name", "tool": "gen_ai.tool.name", "approval": "gen_ai.tool.name"}.get(kind)
        if named is not None:
            labels[named] = attributes[named]
        failed = labels | ({"error.type": operation.error} if operation.error else {})
        recorder.durations[kind].record(operation.milliseconds / 1_000, failed)
        if kind == "request":
            if "first_chunk_ms" in fields:
                recorder.first_chunk.record(fields["first_chunk_ms"] / 1_000, labels)
            for type_ in ("input", "output"):
                if fields[f"{type_}_tokens"]:
                    recorder.tokens.record(fields[f"{type_}_tokens"], labels | {"gen_ai.token.type": type_})
        if kind in ("request", "compaction") and fields.get("cost_usd"):
            recorder.cost.add(fields["cost_usd"], labels)


def rename_fields(kind: OperationKind, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields by the names of the conventions. An empty value is left out."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if value == "":
            continue
        if name == "stop":
            found["gen_ai.response.finish_reasons"] = (value,)
        elif name == "first_chunk_ms":
            found["gen_ai.response.time_to_first_chunk"] = value / 1_000
        else:
            found[ATTRIBUTES.get(name) or f"mainspring.{kind}.{name}"] = value
    return found


def as_text(content: Any) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def nanoseconds(milliseconds: int) -> int:
    return milliseconds * 1_000_000
