"""The money of a fleet: leases of worker processes, and what is on the disk.

`LeaseBook` is the coordinator's account, without I/O. A worker spends only what was leased to it; a lease is recorded
before the worker learns of it. When a worker dies, its lease returns after its journals were read: what they show as
spent is spent, and calls that were on their way count as spent, because the server may have charged for them.

What sessions have spent is in their journals, and in the results of finished tasks. `ledger.jsonl` has what no journal
can say: the leases, and the calls whose outcome is unknown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

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


class LeaseAnswer(Bundle):
    """What to tell a worker: `amount` was leased to it, or it must return what it does not need now."""

    worker: str
    amount: int = 0
    recall: bool = False
    denied: bool = False  # there is no more
    beyond: int = 0  # of the budget: what it may get later, if others do not need it


class LeaseRequest(Bundle):
    worker: str
    needed: int  # for the call that waits
    recalled: bool = False  # the other workers know


class LeaseBook:
    """Who may spend what, in nano-dollars. Spent, unknown and leased money together never exceed the limit."""

    def __init__(self, limit: int, spent: int = 0, *, slices: int = 8) -> None:
        """`slices`: into how many parts the free money is cut, unless a call needs more."""
        self.limit, self.spent, self.unknown = limit, spent, 0
        self.leases: dict[str, int] = {}  # by worker: what it holds and has not spent
        self._reported: dict[str, int] = {}  # by worker: what it has spent in all
        self._waiting: list[LeaseRequest] = []
        self._denied: set[str] = set()
        self._slices = slices

    @property
    def free(self) -> int:
        return self.limit - self.spent - self.unknown - sum(self.leases.values())

    def open(self, worker: str) -> None:
        self.leases[worker] = self._reported[worker] = 0

    def ask(self, worker: str, needed: int) -> None:
        """The worker cannot pay for a call: it needs so much more. It asks again only after an answer."""
        if worker in self.leases and all(one.worker != worker for one in self._waiting):
            self._waiting.append(LeaseRequest(worker, max(1, needed)))

    def report(self, worker: str, spent: int) -> None:
        """What the worker has spent in all since it began."""
        if worker in self.leases:
            more = spent - self._reported[worker]
            self._reported[worker] = spent
            self.leases[worker] -= more
            self.spent += more

    def give_back(self, worker: str, amount: int) -> None:
        if worker in self.leases:
            self.leases[worker] -= amount

    def close(self, worker: str, spent: int, unknown: int = 0) -> None:
        """The worker has ended. `spent`: in all, by its journals; `unknown`: calls that were on their way."""
        self.report(worker, spent)
        self.leases.pop(worker, None)
        self._reported.pop(worker, None)
        self._denied.discard(worker)
        self.unknown += unknown
        self._waiting = [one for one in self._waiting if one.worker != worker]

    def answers(self) -> list[LeaseAnswer]:
        """What to tell the workers now. The amounts are leased from here on."""
        made: list[LeaseAnswer] = []
        while self._waiting:
            first, free = self._waiting[0], self.free
            others = [one for one, held in self.leases.items() if held and one != first.worker]
            if free >= first.needed:
                made.append(self._lease(first.worker, max(first.needed, free // self._slices)))
            elif others:
                if not first.recalled:
                    self._waiting[0] = replace(first, recalled=True)
                    made += [LeaseAnswer(one, recall=True) for one in others]
                break  # until they return something
            elif free > 0:
                made.append(replace(self._lease(first.worker, free), denied=True, beyond=0))
            else:
                self._denied.add(first.worker)
                made.append(LeaseAnswer(first.worker, denied=True))
            del self._waiting[0]
        if self._denied and self.free > 0 and not self._waiting:
            made += [self._lease(worker, 0) for worker in sorted(self._denied)]  # it may ask again
            self._denied.clear()
        return made

    def _lease(self, worker: str, amount: int) -> LeaseAnswer:
        self.leases[worker] += amount
        return LeaseAnswer(worker, amount, beyond=self.beyond(worker))

    def beyond(self, worker: str) -> int:
        """All that is neither spent nor leased to this worker: others may return what they hold."""
        return self.limit - self.spent - self.unknown - self.leases[worker]


class Lease(Value):
    """So much was leased to a worker."""

    worker: str
    amount: int


class LeaseReturned(Value):
    """A worker has ended, and this is what it has spent; the rest of its leases is free."""

    worker: str
    spent: int
    unknown: int


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
        decoder = msgspec.json.Decoder(Lease | LeaseReturned | UnknownOutcome)
        for line in data.splitlines():
            try:
                record = decoder.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(record, UnknownOutcome):
                self._take(record)

    def _take(self, record: UnknownOutcome) -> None:
        self._unknown[record.session_id, record.size] = record.amount

    @property
    def unknown(self) -> int:
        """Counted as spent, though no outcome is known."""
        return sum(self._unknown.values())

    def note_unknown(self, session_id: str, spending: SessionSpending) -> int:
        """Returns the amount that was not recorded before."""
        if not spending.in_flight or (session_id, spending.size) in self._unknown:
            return 0
        record = UnknownOutcome(session_id, spending.size, spending.in_flight)
        self.note(record)
        self._take(record)
        return record.amount

    def note(self, *records: Lease | LeaseReturned | UnknownOutcome) -> None:
        write_and_sync(self._fd, b"".join([msgspec.json.encode(record) + b"\n" for record in records]))

    def close(self) -> None:
        os.close(self._fd)
