"""Speed in one table: what a start, a turn, a session, a token and a command cost, beside the floor, the aim and the
commit before.

    make bench                       # this checkout beside the commit before; writes the table into bench/README.md
    make bench BEFORE=v0.1.0         # beside another commit, or a folder with a checkout
    .venv/bin/python bench/speed.py --only Bash,token

Every figure is the best of some rounds, in which our programs, those of the commit before and the floor alternate; the
spread is that of the median over the best. The floor is a bare client (`wire_bare.py`), or the same without a sandbox.
Instructions are counted by valgrind, so they hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found

from wire.counting import counted

from bench.speed_jobs import JOBS, Bench, Job, Program, best, describe_machine, git, measure_job, spread, write_section

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "bench" / "README.md"
TURN, SHORT, LONG = 20, 50, 2_000  # turns before the ones that are counted
WARMING = "budget"  # the first play of a process also pays for what Python does to code that it meets often
TURNS: dict[str, tuple[str, float | None]] = {
    "turn of open_run, one tool": ("adaptive", 1.7),
    "turn of sdk.query, one tool": ("sdk", 4.0),
    "turn of the command, all frames": ("command", None),
}
FLAT = {  # names of plays in tests/wire/turns.py
    "SDK": "sdk",
    "command": "command",
    "two sessions on one provider": "two sessions",
    "adaptive thinking": "adaptive, thinking",
    "budgeted thinking": "budget, thinking",
    "no thinking": "no thinking",
    "chat completions": "chat",
    "responses": "responses",
}
MOST_GROWTH = 1.5
OURS, BEFORE, FLOOR, PLAIN = "ours", "before", "floor", "no sandbox"


class Row(NamedTuple):
    name: str
    pace: str
    unit: str
    ours: float
    noise: float | None = None  # see `spread`
    before: float | None = None
    floor: float | None = None
    aim: float | None = None
    least: bool = False

    @property
    def met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.ours >= self.aim if self.least else self.ours <= self.aim


# --- instructions ---------------------------------------------------------------------------------------------------


def count_turns(names: list[str], sizes: tuple[int, ...], root: Path) -> dict[str, list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(counted([WARMING, *names], sizes, Path(folder), root))


def instruction_rows(before: Path | None) -> Iterator[Row]:
    plays = [play for play, _ in TURNS.values()]
    found = [count_turns(plays, (TURN,), root) for root in (ROOT, before) if root is not None]
    for name, (play, aim) in TURNS.items():
        ours, *others = [counts[play][0] / 1e6 for counts in found]
        yield Row(name, "instant", "M instr", ours, None, others[0] if others else None, None, aim)


def growth_rows(before: Path | None) -> Iterator[Row]:
    found = [count_turns(list(FLAT.values()), (SHORT, LONG), root) for root in (ROOT, before) if root is not None]
    for name, play in FLAT.items():
        ours, *others = [counts[play][1] / counts[play][0] for counts in found]
        title = f"turn {LONG:,} over turn {SHORT}: {name}"
        yield Row(title, "instant", "x instr", ours, None, others[0] if others else None, 1.0, MOST_GROWTH)


# --- times ----------------------------------------------------------------------------------------------------------


def job_row(job: Job, times: dict[str, list[float]]) -> Row:
    ours = best(job, times[OURS])
    known = {name: best(job, found) for name, found in times.items()}
    floor = known.get(PLAIN if job.plain else FLOOR)
    aim = floor + job.over if job.over is not None and floor is not None else job.aim
    return Row(job.name, job.pace, job.unit, ours, spread(job, times[OURS]), known.get(BEFORE), floor, aim, job.least)


def ours_of(root: Path, name: str, *, sandbox: bool = True) -> Program:
    return Program(
        name,
        source=str(root / "src"),
        command=(sys.executable, "-m", "mainspring"),
        run="mainspring.open_run",
        sdk="mainspring.sdk",
        partial="mainspring.sdk, partial",
        sandbox=sandbox,
    )


def time_rows(before: Path | None, jobs: tuple[Job, ...]) -> Iterator[Row]:
    programs = [ours_of(ROOT, OURS), *([ours_of(before, BEFORE)] if before is not None else [])]
    with Bench() as bench:
        for job in jobs:
            beside = [ours_of(ROOT, PLAIN, sandbox=False)] if job.plain else [Program(FLOOR, run="bare")]
            yield job_row(job, measure_job(bench, [*programs, *beside], job))


# --- the commit before ------------------------------------------------------------------------------------------------


@contextmanager
def checkout(given: str) -> Iterator[Path | None]:
    """A folder is used as it is; a commit is checked out for as long as it takes. Both run with our environment."""
    if not given or Path(given).is_dir():
        yield Path(given).resolve() if given else None
        return
    with tempfile.TemporaryDirectory(prefix="mainspring-before-") as folder:
        root = Path(folder) / "before"
        git("worktree", "add", "-q", "--detach", str(root), given)
        try:
            for native in (ROOT / "src/mainspring/tools").glob("_newlines*.so"):
                shutil.copy(native, root / "src/mainspring/tools")
            subprocess.run([sys.executable, "-m", "compileall", "-q", str(root / "src")], check=True)
            yield root
        finally:
            git("worktree", "remove", "--force", str(root))


# --- the table --------------------------------------------------------------------------------------------------------


def write_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


HEAD = f"{'job':<48} {'server':>7} {'ours':>8} {'spread':>6} {'before':>8} {'floor':>8} {'aim':>8} unit"


def format_row(row: Row) -> str:
    verdict = {None: "", True: "met", False: "MISSED"}[row.met]
    noise = "-" if row.noise is None else f"{100 * row.noise:.0f}%"
    others = " ".join([f"{write_number(value):>8}" for value in (row.before, row.floor, row.aim)])
    figures = f"{write_number(row.ours):>8} {noise:>6} {others}"
    return f"{row.name:<48} {row.pace:>7} {figures} {row.unit:<7} {verdict}".rstrip()


def measure(before: Path | None, only: list[str]) -> Iterator[Row]:
    def wanted(name: str) -> bool:
        return not only or any(word in name for word in only)

    yield from time_rows(before, tuple([job for job in JOBS if wanted(job.name)]))
    if wanted("instructions"):
        yield from instruction_rows(before)
    if wanted("growth"):
        yield from growth_rows(before)


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="", help="a commit, or a folder with a checkout")
    parser.add_argument("--only", default="", help="words of the rows to measure; 'instructions' and 'growth', too")
    parser.add_argument("--write", action="store_true", help="write the table into bench/README.md")
    given = parser.parse_args()
    only = [word for word in given.only.split(",") if word]
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src")], check=True)
    began, machine, rows = datetime.now(UTC), describe_machine(), list[Row]()
    with checkout(given.before) as before:
        earlier = git("rev-parse", "--short", "HEAD", root=before) if before is not None else "none"
        print(HEAD, flush=True)
        for row in measure(before, only):
            rows.append(row)
            print(format_row(row), flush=True)
    met = sum(row.met is True for row in rows), sum(row.met is not None for row in rows)
    about = f"{began:%Y-%m-%d}, {machine} (before), {describe_machine().rpartition(', ')[2]} (after); "
    about += f"commit {git('rev-parse', '--short', 'HEAD')}, before: {earlier}. {met[0]} of {met[1]} aims met."
    print(about)
    if given.write:
        table = "\n".join([HEAD, *map(format_row, rows)])
        write_section(README, "bench", f"{about}\n\n```\n{table}\n```\n")
    return met[0] == met[1]


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
