"""The money of a fleet on the disk.

What sessions have spent is in their journals, and in the results of finished tasks. `ledger.jsonl` has what no journal
can say: calls that were on their way when a process was killed. The server may have charged for them, so they count as
spent, up to the amount that was reserved.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring import sessions
from mainspring.core.effects import CallModel, Compact
from mainspring.core.errors import UsageError
from mainspring.core.money import least
from mainspring.core.value import Bundle, Value
from mainspring.fleet.results import write_and_sync
from mainspring.sessions.paths import agent_file

if TYPE_CHECKING:
    from mainspring.core.state import State

LEDGER = "ledger.jsonl"


class UnknownOutcome(Value):
    """A call that was on its way when its process ended."""

    session_id: str
    size: int  # of the session's file: the same call is found again until the session is resumed
    amount: int  # nano-dollars that were reserved


class SessionSpending(Bundle):
    """What a stored session has spent, and what it may have: in nano-dollars."""

    spent: int = 0
    in_flight: int = 0
    size: int = 0


def read_spending(file: str) -> SessionSpending:
    """From its journal, and from those of its subagents. A file without a conversation has spent nothing."""
    try:
        loaded = sessions.load_session(file)
    except (OSError, UsageError):
        return SessionSpending()
    spent, in_flight = loaded.spent + loaded.standing.unbooked, reserved_by(loaded.state)
    for away in loaded.standing.away:
        found = read_spending(agent_file(loaded.file, away.agent_id))
        spent, in_flight = spent + found.spent, in_flight + found.in_flight
    return SessionSpending(spent, in_flight, loaded.size)


def reserved_by(state: State) -> int:
    """For the call that the loop waited for. Without a money limit nothing was reserved: then the most it can cost."""
    match state.waiting_for:
        case CallModel(request):
            return request.reserve or least(state.tokens, request.max_output, state.model.price)
        case Compact(reserve=reserve):
            return reserve or least(state.tokens, 0, state.model.price)
        case _:
            return 0


class LedgerFile:
    """`ledger.jsonl`: a line is on the disk before anything is done that depends on it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER
        self._unknown: dict[tuple[str, int], int] = {}
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.write(self._fd, b"\n")  # the next line must not continue a torn one
        decoder = msgspec.json.Decoder(UnknownOutcome)
        for line in data.splitlines():
            try:
                self._take(decoder.decode(line))
            except msgspec.DecodeError:
                continue

    def _take(self, record: UnknownOutcome) -> None:
        self._unknown[record.session_id, record.size] = record.amount

    @property
    def unknown(self) -> int:
        """Counted as spent, though no outcome is known."""
        return sum(self._unknown.values())

    def note_unknown(self, session_id: str, spending: SessionSpending) -> None:
        if not spending.in_flight or (session_id, spending.size) in self._unknown:
            return
        record = UnknownOutcome(session_id, spending.size, spending.in_flight)
        write_and_sync(self._fd, msgspec.json.encode(record) + b"\n")
        self._take(record)

    def close(self) -> None:
        os.close(self._fd)
