"""Log records, spans and metrics of runs. This module is loaded at every start, and is all that a run without them
needs.

`observe_run` is called once when a run starts and returns None if nothing listens: no logger of `LOGGERS` is enabled
for INFO, and tracing is off. Only then does the driver call an observer (`run_observer.py`), which passes operations to
`log_records.py` and `spans.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from mainspring.core.config import Config
    from mainspring.core.messages import User
    from mainspring.telemetry.run_observer import OperationListener, RunObserver
    from mainspring.telemetry.spans import SpanRecorder

LOGGERS = ("mainspring.session", "mainspring.request", "mainspring.tools", "mainspring.context")

_recorders: dict[bool, SpanRecorder] = {}  # True: that of `instrument`; False: the default one of `tracing=True`


class SessionTelemetry:
    """What the records and spans of a session and its subagents have in common."""

    def __init__(self, session_id: str = "", tracing: bool | None = None, cloud: str = "") -> None:
        """`tracing`: None follows `instrument`, True switches tracing on for this session, False off. `cloud`: where
        models with a plain name are, `bedrock` or `vertex`; empty: at Anthropic."""
        self.session_id, self.cloud = session_id, cloud
        self.tracing = tracing
        self.agent_types: dict[str, str] = {}  # by the id of a subagent
        self._parents: dict[str, object] = {}  # contexts with the parent span, by the id of a prompt

    def remember_parent(self, prompt_id: str) -> None:
        """The run of this prompt is a part of the caller's current span, whichever task reads its updates."""
        recorder = _find_recorder(self.tracing)
        if recorder is not None and (parent := recorder.find_parent()) is not None:
            self._parents[prompt_id] = parent

    def take_parent(self, prompts: Iterable[User]) -> object:
        """None: no parent was remembered. Also drops those of earlier prompts, which got no run."""
        for prompt in prompts:
            if prompt.id in self._parents:
                while True:
                    first = next(iter(self._parents))
                    parent = self._parents.pop(first)
                    if first == prompt.id:
                        return parent
        return None


def instrument(
    *,
    content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Record spans and metrics of all runs that start from now on, in every session of this process.

    `content`: also record prompts, replies, tool inputs and tool results, with secrets redacted. The providers default
    to those that your program has set up with OpenTelemetry. Needs `pip install 'mainspring[otel]'`.

    Example:
        import mainspring

        mainspring.instrument()
    """
    _recorders[True] = _new_recorder(content, tracer_provider, meter_provider)


def uninstrument() -> None:
    """Undo `instrument`: runs that start from now on are not traced."""
    _recorders.pop(True, None)


def _new_recorder(
    content: bool = False, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> SpanRecorder:
    if not has_opentelemetry():
        raise ImportError("OpenTelemetry is not installed. Run: pip install 'mainspring[otel]'")
    from mainspring.telemetry.spans import SpanRecorder

    return SpanRecorder(content, tracer_provider, meter_provider)


def has_opentelemetry() -> bool:
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.trace") is not None


def _find_recorder(tracing: bool | None) -> SpanRecorder | None:
    if tracing is False or (tracing is None and not _recorders):
        return None
    recorder = _recorders.get(True)
    if recorder is None and tracing:
        recorder = _recorders.get(False) or _recorders.setdefault(False, _new_recorder())
    return recorder


def observe_run(
    session: SessionTelemetry, config: Config, prompts: Iterable[User], now: Callable[[], int]
) -> RunObserver | None:
    """The observer of a run that starts now, in the context of the caller; None if nothing listens."""
    recorder = _find_recorder(session.tracing)
    logs = any(logging.getLogger(name).isEnabledFor(logging.INFO) for name in LOGGERS)
    if recorder is None and not logs:
        return None
    from mainspring.telemetry.log_records import LogRecords
    from mainspring.telemetry.run_observer import RunObserver

    content = recorder is not None and recorder.content
    listeners: list[OperationListener] = [LogRecords()] if logs else []
    if recorder is not None:
        listeners.append(recorder.new_run(session.take_parent(prompts)))
    return RunObserver(session, config, now, listeners, content=content)
