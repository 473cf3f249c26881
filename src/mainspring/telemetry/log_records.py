"""Operations as log records: their ends at INFO, their starts at DEBUG.

The message is a few words and `name=value` pairs; the record's attribute `mainspring` has the same values as a dict,
for handlers that write JSON. Content, if it is switched on, is in records at DEBUG only.
"""

from __future__ import annotations

import logging
from typing import Any

from mainspring.telemetry import LOGGERS
from mainspring.telemetry.run_observer import Operation, OperationKind

_SESSION, _REQUEST, _TOOLS, _CONTEXT = (logging.getLogger(name) for name in LOGGERS)
_LOGGERS: dict[OperationKind, logging.Logger] = {
    "run": _SESSION,
    "request": _REQUEST,
    "tool": _TOOLS,
    "approval": _TOOLS,
    "compaction": _CONTEXT,
}
_SHARED = ("session", "run", "agent_id")  # fields of the run that every record has


class LogRecords:
    def begin(self, operation: Operation) -> None:
        if operation.kind != "run":  # it has no id yet: see `note`
            _log(operation, logging.DEBUG, "started", operation.fields, operation.content.get("input"))

    def note(self, operation: Operation, name: str, at: int, fields: dict[str, Any]) -> None:  # noqa: ARG002
        if name == "started":
            _log(operation, logging.DEBUG, name, operation.fields, operation.content.get("input"))
            return
        known = {key: operation.fields[key] for key in ("turn", "request") if key in operation.fields}
        _log(operation, logging.INFO, name, known | fields)

    def end(self, operation: Operation) -> None:
        fields = dict(operation.fields)
        if operation.error:
            fields["error"] = operation.error
        if operation.interrupted:
            fields["interrupted"] = True
        fields["ms"] = operation.milliseconds
        _log(operation, logging.INFO, "finished", fields)
        if "output" in operation.content:
            _log(operation, logging.DEBUG, "output", {}, operation.content["output"])


def _log(operation: Operation, level: int, what: str, fields: dict[str, Any], content: Any = None) -> None:
    logger = _LOGGERS[operation.kind]
    if not logger.isEnabledFor(level):
        return
    top = operation
    while top.parent is not None:
        top = top.parent
    said = {name: top.fields[name] for name in _SHARED if top.fields.get(name)} | fields
    if content is not None:
        said["content"] = content
    words = " ".join([f"{name}={_write(value)}" for name, value in said.items() if value != ""])
    logger.log(level, "%s %s %s", operation.kind, what.replace("_", " "), words, extra={"mainspring": said})


def _write(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) and value.isprintable() and " " not in value else repr(value)
