"""The lease protocol: whatever happens in whatever order, the budget is kept, and no money is lost or spent twice.

The model below has workers with a ledger each. Messages between them and the book are delivered in any order that a
socket allows: in order per worker and direction, with any delay. Workers call a model, whose server knows what it has
charged; they die at any moment, with calls on their way that the server may have charged for.
"""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.fleet.leases import LeaseAnswer, LeaseBook

WORKERS = ("a", "b", "c")


class Worker:
    def __init__(self, name: str, number: int) -> None:
        self.id = f"{name}{number}"
        self.limit = self.spent = 0  # leased in all, without what was given back
        self.calls: list[tuple[int, int | None]] = []  # reserved, and what the server charges; None: not yet sent
        self.asking = self.recalled = False
        self.inbox: deque[LeaseAnswer] = deque()
        self.outbox: deque[tuple[str, int, int]] = deque()  # kind, amount, spent in all

    @property
    def left(self) -> int:
        return self.limit - self.spent - sum(reserved for reserved, _ in self.calls)

    def call(self, price: int, charged: int) -> None:
        if self.left >= price:
            self.calls.append((price, min(charged, price)))
        elif not self.asking:
            self.asking = True
            self.outbox.append(("ask", price - self.left, self.spent))

    def finish_call(self) -> None:
        if self.calls:
            self.spent += self.calls.pop(0)[1] or 0
            self.return_idle()

    def return_idle(self) -> None:
        if self.recalled:  # also if nothing is left: what was spent is news
            self.outbox.append(("back", self.left, self.spent))
            self.limit -= self.left

    def hear(self) -> None:
        if not self.inbox:
            return
        answer = self.inbox.popleft()
        if answer.recall:
            self.recalled = True
            self.return_idle()
            return
        self.limit += answer.amount
        self.asking = self.recalled = False


class Play:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.book = LeaseBook(limit, slices=3)
        self.charged = 0  # by the server, in all
        self.deaths = 0
        self.workers = {name: self.new(name) for name in WORKERS}

    def new(self, name: str) -> Worker:
        worker = Worker(name, self.deaths)
        self.book.open(worker.id)
        return worker

    def deliver(self) -> None:
        """The answers are on the disk, and on their way."""
        by_id = {worker.id: worker for worker in self.workers.values()}
        for answer in self.book.answers():
            by_id[answer.worker].inbox.append(answer)
        self.check()

    def receive(self, worker: Worker) -> None:
        if worker.outbox:
            kind, amount, spent = worker.outbox.popleft()
            self.book.report(worker.id, spent)
            if kind == "ask":
                self.book.ask(worker.id, amount)
            else:
                self.book.give_back(worker.id, amount)
            self.deliver()

    def kill(self, name: str) -> None:
        worker = self.workers[name]
        sent = [charged for _, charged in worker.calls if charged]
        self.charged += sum(sent)  # the server charges for calls on their way, or for none: at most what was reserved
        self.book.close(worker.id, worker.spent, sum(reserved for reserved, _ in worker.calls))
        self.deaths += 1
        self.workers[name] = self.new(name)
        self.deliver()

    @property
    def spent(self) -> int:
        """What the server has charged for calls whose outcome is known, and for those of dead workers."""
        return self.charged + sum(worker.spent for worker in self.workers.values())

    def check(self) -> None:
        book = self.book
        assert book.free >= 0
        assert all(held >= 0 for held in book.leases.values())
        assert book.spent + book.unknown + book.free + sum(book.leases.values()) == self.limit  # nothing is lost
        on_their_way = sum(reserved for worker in self.workers.values() for reserved, _ in worker.calls)
        assert self.charged + on_their_way <= self.limit

    def settle(self) -> None:
        """Let everything end: every message arrives, every call ends, every request is answered."""
        for _ in range(200):
            for worker in self.workers.values():
                while worker.calls:
                    worker.finish_call()
                while worker.inbox:
                    worker.hear()
                while worker.outbox:
                    self.receive(worker)


STEP = st.tuples(
    st.sampled_from(["call", "call", "call", "end", "hear", "hear", "receive", "receive", "kill"]),
    st.sampled_from(WORKERS),
    st.integers(1, 60),
    st.integers(0, 60),
)


@given(st.integers(1, 200), st.lists(STEP, max_size=120))
@settings(max_examples=examples(2_000), deadline=None)
def test_no_order_of_messages_and_deaths_exceeds_the_budget(limit: int, steps: list[tuple[str, str, int, int]]) -> None:
    play = Play(limit)
    for kind, name, price, charged in steps:
        worker = play.workers[name]
        match kind:
            case "call":
                worker.call(price, charged)
            case "end":
                worker.finish_call()
            case "hear":
                worker.hear()
            case "receive":
                play.receive(worker)
            case _:
                play.kill(name)
        play.check()
        assert play.spent <= limit
    play.settle()
    assert not any(worker.asking for worker in play.workers.values())  # every request was answered
    for worker in list(play.workers.values()):
        play.book.close(worker.id, worker.spent)
    assert play.book.free == limit - play.book.spent - play.book.unknown
    assert play.book.spent <= play.spent <= play.book.spent + play.book.unknown


def test_a_call_gets_what_other_workers_hold_and_do_not_use() -> None:
    book = LeaseBook(100, slices=2)
    book.open("a")
    book.open("b")
    book.ask("a", 10)
    assert book.answers() == [LeaseAnswer("a", 50, beyond=50)]
    book.ask("b", 80)
    assert book.answers() == [LeaseAnswer("a", recall=True)]
    assert book.answers() == []  # once
    book.report("a", 5)
    book.give_back("a", 35)  # a call of 10 is still on its way, and 50 were never leased
    assert book.answers() == [LeaseAnswer("b", 80, beyond=15)]
    book.close("a", 7, unknown=3)
    book.ask("b", 20)
    assert book.answers() == [LeaseAnswer("b", 10, denied=True)]
    assert (book.spent, book.unknown, book.free) == (7, 3, 0)


def test_a_worker_is_denied_when_no_other_holds_any_money() -> None:
    book = LeaseBook(10)
    book.open("a")
    book.open("b")
    book.ask("a", 10)
    assert book.answers() == [LeaseAnswer("a", 10, beyond=0)]
    book.report("a", 2)
    book.ask("b", 20)
    assert book.answers() == [LeaseAnswer("a", recall=True)]
    book.give_back("a", 8)
    assert book.answers() == [LeaseAnswer("b", 8, denied=True)]
    book.ask("a", 1)
    assert book.answers() == [LeaseAnswer("b", recall=True)]
    book.report("b", 8)
    assert book.answers() == [LeaseAnswer("a", denied=True)]
