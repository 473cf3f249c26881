"""Which calls may start, given what runs (F-04 to F-10, Z-23, Z-24), and what a failure takes along (Z-29)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.config import Siblings
from mainspring.core.schedule import DONE, MOST_AT_ONCE, RUNNING, CallStatus, Slot, startable, taken_along


def slots(spec: str) -> tuple[Slot, ...]:
    """`R1 r2 W3`: safe (r) and unsafe (w) calls; capital: executing; `r2?` waits for a person; `r2.` is done."""
    made: list[Slot] = []
    for word in spec.split():
        status = CallStatus.EXECUTING if word[0].isupper() else CallStatus.QUEUED
        status = {"?": CallStatus.WAITING, ".": CallStatus.COMPLETED, "!": CallStatus.YIELDED}.get(word[-1], status)
        made.append(Slot(word.rstrip("?.!").lower(), safe=word[0] in "rR", status=status))
    return tuple(made)


@pytest.mark.covers("F-01", "F-04", "F-05", "F-06", "F-07", "F-08", "F-09", "F-10", "Q-03")
@pytest.mark.parametrize(
    ("spec", "reply_complete", "expected"),
    [
        ("", True, ""),
        ("r1", False, "r1"),  # a safe call starts while the model still talks
        ("r1 r2 r3", False, "r1 r2 r3"),
        ("R1 r2", False, "r2"),
        ("w1", False, ""),  # an unsafe one waits for the whole reply
        ("w1", True, "w1"),
        ("R1 w2", True, ""),  # and for the running batch to drain
        ("r1. w2", True, "w2"),
        ("r1! w2", True, "w2"),
        ("r1 w2", True, "r1"),
        ("R1 r2 w3", True, "r2"),
        ("w1 r2", True, "w1"),  # nothing overtakes an unsafe call
        ("w1 r2", False, ""),
        ("W1 r2 r3", True, ""),
        ("W1 w2", True, ""),
        ("w1. r2 r3 w4 r5", True, "r2 r3"),
        ("r1 w2 r3", False, "r1"),
        ("R1? r2", True, "r2"),  # waiting for a person keeps its place but not the others
        ("w1? r2", True, ""),
        ("r1 r2 r3 w4 w5", True, "r1 r2 r3"),  # three reads and two writes
        ("r1. r2. r3. w4 w5", True, "w4"),
        ("r1. r2. r3. w4. w5", True, "w5"),
    ],
)
def test_which_calls_may_start(spec: str, reply_complete: bool, expected: str) -> None:
    assert startable(slots(spec), reply_complete=reply_complete) == tuple(expected.split())


@pytest.mark.covers("F-02")
def test_the_classic_way_starts_everything_after_the_reply() -> None:
    assert startable(slots("r1 r2"), reply_complete=False, early_safe=False) == ()
    assert startable(slots("r1 r2"), reply_complete=True, early_safe=False) == ("r1", "r2")


@pytest.mark.covers("F-08")
def test_an_unsafe_call_may_start_early_if_told_so() -> None:
    assert startable(slots("w1 r2"), reply_complete=False, early_unsafe=True) == ("w1",)
    assert startable(slots("R1 w2"), reply_complete=False, early_unsafe=True) == ()


@pytest.mark.covers("F-06")
def test_at_most_ten_at_once() -> None:
    queued = slots(" ".join(f"r{n}" for n in range(14)))
    assert len(startable(queued, reply_complete=True)) == MOST_AT_ONCE == 10
    busy = slots(" ".join(f"R{n}" for n in range(9)) + " r9 r10")
    assert startable(busy, reply_complete=True) == ("r9",)
    assert startable(slots("R1 r2 r3"), reply_complete=True, most=2) == ("r2",)


@given(
    st.lists(st.builds(Slot, st.just(""), st.booleans()), max_size=25),
    st.randoms(use_true_random=False),
    st.integers(1, 12),
)
def test_any_schedule_keeps_the_order_and_finishes(made: list[Slot], random: object, most: int) -> None:
    """Run it: start what may start, complete one at random, until all are done."""
    import random as randoms

    assert isinstance(random, randoms.Random)
    state = [replace(slot, id=str(n)) for n, slot in enumerate(made)]
    started: list[int] = []
    while not all(slot.status in DONE for slot in state):
        for id in startable(tuple(state), reply_complete=True, most=most):
            state[int(id)] = replace(state[int(id)], status=CallStatus.EXECUTING)
            started.append(int(id))
        running = [n for n, slot in enumerate(state) if slot.status in RUNNING]
        assert 1 <= len(running) <= most
        assert all(state[n].safe for n in running) or len(running) == 1
        for n in running:  # whatever stands before an unsafe call is done, and it is before whatever follows
            before = state[:n] if not state[n].safe else [slot for slot in state[:n] if not slot.safe]
            assert all(slot.status in DONE for slot in before)
        done = random.choice(running)
        state[done] = replace(state[done], status=CallStatus.COMPLETED)
    assert started == sorted(started)


def shells(spec: str) -> tuple[Slot, ...]:
    """`s1!`: a shell command that failed; `r2`: anything else; capital: it runs."""
    return tuple(
        Slot(
            word.rstrip("!").lower(),
            safe=False,
            shell=word[0] in "sS",
            failed=word.endswith("!"),
            status=CallStatus.COMPLETED
            if word.endswith("!")
            else CallStatus.EXECUTING
            if word[0].isupper()
            else CallStatus.QUEUED,
        )
        for word in spec.split()
    )


@pytest.mark.covers("F-15", "F-16")
@pytest.mark.parametrize(
    ("spec", "failed", "taken"),
    [
        ("s1! s2 s3", "s1", "s2 s3"),
        ("s1! r2 s3", "s1", "s3"),  # reads, fetches and edits go on
        ("s1! S2 s3", "s1", "s3"),  # what runs is not taken back
        ("s1 s2! s3", "s2", "s3"),  # what stands before it neither
        ("r1! s2", "r1", ""),  # a failed read or fetch cancels nobody
        ("s1 s2", "s1", ""),  # "no match" is no failure
    ],
)
def test_what_a_failure_takes_along(spec: str, failed: str, taken: str) -> None:
    assert taken_along(shells(spec), failed, Siblings.CASCADE) == tuple(taken.split())
    assert taken_along(shells(spec), failed, Siblings.ISOLATE) == ()
