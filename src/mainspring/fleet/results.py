"""Results of a fleet, and the file that keeps them: one line per finished task, appended and never rewritten.

A line is on the disk before `append` returns, so a result that a program has seen is never lost. A last line without
its end was never returned by `append`: it is read if it is complete, and skipped if it is not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.value import Bundle
from mainspring.fleet.tasks import FleetTask

RESULTS = "results.jsonl"
NOT_RUN = "not_run"  # in place of a terminal reason: the task could not be started


class TaskResult(Bundle, frozen=True):
    """How a task ended, and what it cost.

    Example:
        results: list[TaskResult] = []
        async for result in Fleet({"model": "haiku"}, max_budget_usd=1).run(["What is 2 + 3?"]):
            results.append(result)
            print(result.id, result.text, result.cost_usd, "failed" if result.is_error else "ok")
    """

    id: str
    digest: str
    """Of the task: a task with the same id and another digest is an error."""
    terminal_reason: str
    """Why the run ended, such as `completed` or `max_turns`; `not_run` if it could not be started."""
    cause: str = ""
    is_error: bool = False
    text: str = ""
    """The last text of the model."""
    output: msgspec.Raw | None = None
    """The structured output as JSON, if the agent has an output type."""
    error: str = ""
    """Why there is no answer, for people."""
    turns: int = 0
    cost_usd: float = 0
    usage: Mapping[str, int] = {}
    """Tokens: input, cache_write, cache_write_1h, cache_read, output."""
    seconds: float = 0
    session_id: str = ""
    transcript: str = ""
    """The session's file; empty if it was not stored."""
    check_code: int | None = None
    diff: str | None = None
    """What the task changed: the path of a file, or the diff itself."""
    tags: tuple[str, ...] = ()
    attempts: int = 1

    @property
    def cost(self) -> int:
        """In nano-dollars."""
        return round(self.cost_usd * NANOS_PER_USD)

    @property
    def failed(self) -> bool:
        """Whether `retry_failed` runs it again: it has no answer, or its check failed."""
        return self.is_error or self.check_code not in (None, 0)


class ResultsFile:
    """The results of one output directory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self.latest: dict[str, TaskResult] = {}  # by task: the last line of an id counts
        self.spent = 0  # by all attempts, in nano-dollars
        self.session_ids: set[str] = set()  # of all attempts
        self._waiting: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._read()

    def _read(self) -> None:
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.write(self._fd, b"\n")  # the next line must not continue a torn one
        for result in parse_results(data):
            self._note(result)

    def _note(self, result: TaskResult) -> None:
        self.latest[result.id] = result
        self.spent += result.cost
        if result.session_id:
            self.session_ids.add(result.session_id)

    def find(self, task: FleetTask) -> TaskResult | None:
        """The result of this task; None: it has none. Raises `UsageError` if the task was changed since."""
        result = self.latest.get(task.id)
        if result is not None and result.digest != task.digest:
            raise UsageError(
                f"task '{task.id}' was changed, but has a result in '{self.path}'. "
                "Restore it, give the changed task another id, or use another output directory"
            )
        return result

    async def append(self, result: TaskResult) -> None:
        """Returns when the line is on the disk. Lines that come meanwhile are written together."""
        self._waiting.append(msgspec.json.encode(result) + b"\n")
        while self._writing is not None and not self._writing.done() and self._waiting:
            await asyncio.shield(self._writing)
        if self._waiting:
            self._writing = asyncio.ensure_future(self._write())
        if self._writing is not None:
            await asyncio.shield(self._writing)
        self._note(result)

    async def _write(self) -> None:
        lines, self._waiting = b"".join(self._waiting), []
        await asyncio.to_thread(write_and_sync, self._fd, lines)

    def close(self) -> None:
        os.close(self._fd)


def parse_results(data: bytes) -> Iterator[TaskResult]:
    """The results in the lines of a file. Lines that a crash has torn are skipped."""
    decoder = msgspec.json.Decoder(TaskResult)
    for line in data.splitlines():
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:
            continue


def write_and_sync(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)
