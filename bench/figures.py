"""Shared by the benchmarks: a figure with its target, the minimum of many times, the yardstick, the table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

REPEATS = 1_000  # enough for minima that differ by 2 % from run to run, on a machine that is not quite idle
REFERENCE = 25.0  # microseconds for the yardstick; a slower machine, or a slow hour of this one, gets more

Key = TypeVar("Key", int, str)


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    aim: float | None = None  # at most; None: only shown

    @property
    def missed(self) -> bool:
        return self.aim is not None and self.value > self.aim


# --- times ----------------------------------------------------------------------------------------------------


def yardstick() -> None:
    """Plain interpreter work, timed beside the figures: it separates the machine's speed from the code's."""
    total = 0
    for number in range(1_000):
        total += number


def scaled(aim: float, speed: float) -> float:
    """A target in microseconds, for a machine on which the yardstick takes `speed`. It is raised, never lowered."""
    return aim * max(1.0, speed / REFERENCE)


def best_time(work: Callable[[], object], repeats: int = REPEATS) -> float:
    return best_times({"": work}, repeats)[""]


def best_speed() -> float:
    """Of the yardstick, in fresh processes: one in eight is slow throughout, which would double every target."""
    code = "from bench.figures import best_time, yardstick; print(best_time(yardstick))"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    runs = [subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True) for _ in range(4)]
    return min(float(run.stdout) for run in runs)


def best_times(works: dict[Key, Callable[[], object]], repeats: int = REPEATS) -> dict[Key, float]:
    """In microseconds. The works alternate, so that a slow moment of the machine does not affect only one of them."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for key, work in works.items():
            start = perf_counter_ns()
            work()
            best[key] = min(best[key], (perf_counter_ns() - start) / 1_000)
    return best


# --- imports --------------------------------------------------------------------------------------------------


def import_figures(needed: str, module: str) -> Iterator[Figure]:
    """In fresh interpreters, over the modules that are needed anyway."""
    with TemporaryDirectory() as cache:
        # Excludes compiling, also if Python is configured to write no bytecode.
        settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache}
        both = (needed, f"{needed}, {module}")
        times = best_times({names: partial(import_afresh, names, settings) for names in both}, repeats=10)
    first, second = [times[names] / 1_000 for names in both]
    yield Figure(f"import {needed}, with the interpreter's start", first, "ms")
    yield Figure(f"import {module}, over that", second - first, "ms")


def import_afresh(names: str, settings: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", f"import {names}"], check=True, env=settings)


# --- the table ------------------------------------------------------------------------------------------------


def row(figure: Figure) -> str:
    value = f"{figure.value:,.0f}" if figure.unit in ("bytes", "") else f"{figure.value:,.2f}"
    aim = "" if figure.aim is None else f"{figure.aim:,.4g}"
    return f"{figure.name:<52} {value:>10} {figure.unit:<6} {aim:>8} {'MISSED' if figure.missed else ''}".rstrip()


def show(figures: Iterable[Figure]) -> bool:
    """Whether every target was met."""
    print(f"{'figure':<52} {'value':>10} {'':<6} {'at most':>8}")
    met = True
    for figure in figures:
        print(row(figure), flush=True)
        met = met and not figure.missed
    return met
