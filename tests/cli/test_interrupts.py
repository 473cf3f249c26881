"""Ctrl-C, pressed once or many times, early or late."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from mainspring.cli.commands.demo import CtrlC


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """As in a program that was started in the foreground."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


async def work(log: list[str], *, pressed: int) -> None:
    try:
        for _ in range(pressed):
            press()
        await asyncio.Event().wait()
    finally:
        press()
        await asyncio.sleep(0)
        log.append("cleaned up")


@pytest.mark.parametrize("pressed", [1, 3])
def test_it_cancels_once(pressed: int) -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt), CtrlC() as ctrl_c:
        try:
            ctrl_c.run(work(log, pressed=pressed))
        finally:
            press()
            log.append("left")
    assert log == ["cleaned up", "left"]


def test_before_the_work_begins() -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt), CtrlC() as ctrl_c:
        press()
        ctrl_c.run(work(log, pressed=0))
    assert log == ["cleaned up"]


def test_after_the_work_is_done() -> None:
    with pytest.raises(KeyboardInterrupt), CtrlC() as ctrl_c:
        assert ctrl_c.run(asyncio.sleep(0, "done")) == "done"
        press()


def test_without_it_all_is_as_before() -> None:
    with CtrlC() as ctrl_c:
        assert ctrl_c.run(asyncio.sleep(0, "done")) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_in_the_background_does_not_hear_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with CtrlC() as ctrl_c:
        press()
        assert ctrl_c.run(asyncio.sleep(0, "done")) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
