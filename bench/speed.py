"""What a turn, a start and a sandboxed command cost, beside an earlier commit: one table, in some five minutes.

    .venv/bin/python bench/speed.py                      # this checkout
    .venv/bin/python bench/speed.py --before ../main     # and another one, with its own '.venv'

Instructions are counted by valgrind, so they hardly depend on what else the machine does; both checkouts are counted in
turn. Times are ratios of things that alternate in one run. `bench/README.md` explains the rows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found

from bench.sandbox import Kind, once
from mainspring.sandbox.sandbox import Sandbox, SandboxLayout, probe_sandbox

ROOT = Path(__file__).parents[1]
SHORT, LONG = 20, 1_000  # turns before the ones that are counted
WARMING = "budget"  # the first play of a process also pays for what Python does to code that it meets often
TURNS = {  # million instructions: the names of plays in tests/wire/turns.py, and the aims
    "a turn of the engine, one tool": ("adaptive", 1.7),
    "a turn of sdk.query": ("sdk", 4.0),
    "a turn of 'mainspring -p', all frames": ("command", None),
}
FLAT = {
    "engine": "adaptive",
    "budgeted thinking": "budget, thinking",
    "two sessions on one provider": "two sessions",
    "SDK": "sdk",
}
MOST_GROWTH = 1.5  # of a turn, from a short history to a long one
COMMANDS = 60  # of each kind

COUNT = """
import asyncio, json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from wire.counting import counted
names, sizes = json.loads(sys.argv[2]), tuple(json.loads(sys.argv[3]))
with tempfile.TemporaryDirectory() as folder:
    print(json.dumps(asyncio.run(counted(names, sizes, Path(folder)))))
"""
NO_NUMBER = float("nan")


class Row(NamedTuple):
    name: str
    ours: float
    before: float
    floor: float  # the same job without us
    aim: float | None
    unit: str


def counts(root: Path, names: list[str], sizes: tuple[int, ...]) -> dict[str, list[int]]:
    """By play: instructions of a turn behind each history. A checkout that does not know a play has no figures."""
    python = root / ".venv/bin/python"
    command = [str(python), "-c", COUNT, str(root / "tests"), json.dumps([WARMING, *names]), json.dumps(sizes)]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        if root == ROOT:
            sys.exit(f"the turns could not be counted:\n{ended.stderr[-2_000:]}")
        print(f"'{root}' could not be counted: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {name: [0] * len(sizes) for name in names}
    found: dict[str, list[int]] = json.loads(ended.stdout)
    return found


def turn_rows(before: Path | None) -> list[Row]:
    plays = [play for play, _ in TURNS.values()]
    found = [counts(root, plays, (SHORT,)) if root is not None else {} for root in (ROOT, before)]
    return [
        Row(name, found[0][play][0] / 1e6, million(found[1], play), NO_NUMBER, aim, "M instr")
        for name, (play, aim) in TURNS.items()
    ]


def million(found: dict[str, list[int]], play: str) -> float:
    return found[play][0] / 1e6 if found.get(play, [0])[0] else NO_NUMBER


def flat_rows() -> list[Row]:
    found = counts(ROOT, list(FLAT.values()), (SHORT, LONG))
    return [
        Row(
            f"turn {LONG:,} over {SHORT}: {name}",
            found[play][1] / found[play][0],
            NO_NUMBER,
            1.0,
            MOST_GROWTH,
            "x",
        )
        for name, play in FLAT.items()
    ]


async def sandbox_rows() -> list[Row]:
    """From the decision to the end of a command, over the same without a sandbox: the least, and the median."""
    home = next((folder for folder in ("/srv", str(Path.home())) if os.access(folder, os.W_OK)), str(ROOT))
    base = Path(tempfile.mkdtemp(prefix="mainspring-bench-", dir=home))
    try:
        for name in ("work", "temp", "state"):
            (base / name).mkdir()
        answer = probe_sandbox(str(base / "state"))
        if answer.program is None:
            print(f"no sandbox to measure: {answer.reason}", file=sys.stderr)
            return []
        box = Sandbox(answer.program, SandboxLayout((str(base / "work"),), str(base / "temp"), str(base / "state")))
        kinds = {
            "plain": Kind(None),
            "fresh": Kind(box.around),
            "waiting": Kind(box.around, around_waiting=box.around_waiting),
        }
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(COMMANDS):
            for name, kind in kinds.items():
                times[name].append(await once(kind, base / "work"))
        box.close()
    finally:
        shutil.rmtree(base)
    plain = times["plain"]
    return [
        Row(f"{said} over no sandbox, {how}", over(times[name]) - over(plain), NO_NUMBER, over(plain), aim, "ms")
        for said, name, aim in (("a fresh sandbox", "fresh", None), ("a sandbox that waited", "waiting", 1.0))
        for how, over in (("least", min), ("median", median))
    ]


def show(rows: list[Row]) -> bool:
    print(f"{'':<48} {'ours':>9} {'before':>9} {'floor':>9} {'aim':>7}")
    for row in rows:
        numbers = " ".join(["        -" if value != value else f"{value:9.2f}" for value in row[1:4]])  # noqa: PLR0124
        verdict = "" if row.aim is None else "met" if row.ours <= row.aim else "MISSED"
        aim = "" if row.aim is None else f"{row.aim:.2f}"
        print(f"{row.name:<48} {numbers} {aim:>7} {row.unit:<7} {verdict}".rstrip(), flush=True)
    return all(row.aim is None or row.ours <= row.aim for row in rows)


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, in which 'make .venv' was run")
    before: Path | None = parser.parse_args().before
    if before is not None and not (before / ".venv/bin/python").exists():
        parser.error(f"'{before}' has no '.venv': run 'make .venv' there")
    before = before.resolve() if before is not None else None
    return show([*turn_rows(before), *flat_rows(), *asyncio.run(sandbox_rows())])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
