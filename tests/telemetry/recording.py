"""Spans and metrics in memory, and runs to record."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import mainspring
from mainspring.telemetry import uninstrument


class StartOrder(SpanProcessor):
    """Spans that start in the same millisecond would be in the order of their ends otherwise."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.ids.append(span.context.span_id)


class Recording:
    def __init__(self) -> None:
        self._spans, self._metrics, self._started = InMemorySpanExporter(), InMemoryMetricReader(), StartOrder()
        self.tracer_provider, self.meter_provider = TracerProvider(), MeterProvider([self._metrics])
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracer_provider.add_span_processor(self._started)
        self.tracer = self.tracer_provider.get_tracer("tests")

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order of their starts. Each of them has ended."""
        ended = {span.context.span_id: span for span in self._spans.get_finished_spans()}
        assert ended.keys() == set(self._started.ids)
        return [ended[id] for id in self._started.ids]

    def span(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[str]:
        """A line per span, indented below its parent, with its events."""
        by_parent: dict[int | None, list[ReadableSpan]] = {}
        for span in self.spans:
            by_parent.setdefault(span.parent.span_id if span.parent is not None else None, []).append(span)

        def lines(parent: int | None, indent: str) -> list[str]:
            made: list[str] = []
            for span in by_parent.get(parent, []):
                failed = "" if span.status.is_unset else f" {span.status.status_code.name}"
                events = "".join([f" +{event.name}" for event in span.events])
                made += [f"{indent}{span.name}{failed}{events}", *lines(span.context.span_id, f"{indent}  ")]
            return made

        return lines(None, "")

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """By name: the attributes and the sum of each data point."""
        found: dict[str, list[tuple[dict[str, Any], float]]] = {}
        data = self._metrics.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points: Any = metric.data.data_points
                    rows = [(dict(one.attributes), one.sum if hasattr(one, "sum") else one.value) for one in points]
                    found[metric.name] = rows
        return found

    def everything(self) -> str:
        """All text in all spans, events and metrics."""
        return repr([span.to_json() for span in self.spans]) + repr(self.metrics())


@contextmanager
def recorded(*, content: bool = False) -> Generator[Recording]:
    recording = Recording()
    mainspring.instrument(
        content=content, tracer_provider=recording.tracer_provider, meter_provider=recording.meter_provider
    )
    try:
        yield recording
    finally:
        uninstrument()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
