"""The jobs of bench/speed.py and bench/agent_peers.py: one program, one model server on loopback, one figure each.

A `Program` is what is measured: our command and our libraries, an earlier commit of them, the bare client, a peer. Each
measurement is a process of its own with a home of its own. The server (`agent_server.py`) says when a request was
complete and when its reply was written, so the time between turns is measured outside the program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import monotonic_ns
from typing import NamedTuple, Self
from urllib.request import ProxyHandler, build_opener

HERE = Path(__file__).resolve().parent
WORKER = HERE / "agent_worker.py"
PARTS = 300  # files to read
WARM = 3  # turns before those that count: they load what is used first
GAPS, PACED_GAPS = 50, 20  # turns of a run whose gaps are measured
LONG_RUN = 200  # turns
AT_ONCE, SHORT_RUN = 100, 10  # sessions, and their turns
TOKENS, PACED_TOKENS = 60_000, 400
MEGA = 1e6

# Starts a program as the child of a small process, whose own memory does not count as that of the child.
LAUNCH = """
import os, sys
nothing = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, nothing, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, used = os.wait4(pid, 0)
sys.stderr.write(f"{status} {used.ru_maxrss} {used.ru_utime + used.ru_stime}")
"""


VIEW = """
import sys, time
from mainspring.viewer.trace import Trace
began = time.process_time()
Trace(sys.argv[1]).look()
print(time.process_time() - began)
"""


class Program(NamedTuple):
    name: str
    python: str = sys.executable
    source: str = ""  # for PYTHONPATH
    command: tuple[str, ...] = ()  # a terminal agent
    run: str = ""  # names of `agent_worker.LIBRARIES`: the bare loop
    sdk: str = ""  # and the whole agent
    partial: str = ""  # the same with partial messages
    sandbox: bool = True
    at_once: int = AT_ONCE


class Spent(NamedTuple):
    memory: float  # MB
    processor: float  # seconds


class Bench:
    """The server, and a folder for homes and files."""

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server and the folders end with us
        self.folder = Path(tempfile.mkdtemp(prefix="mainspring-speed-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        for number in range(PARTS):
            (self.work / f"part-{number}.txt").write_text("some line of a file\n" * 50, encoding="utf-8")
        command = [sys.executable, str(HERE / "agent_server.py"), str(self.work)]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self.url = f"http://127.0.0.1:{self._server.stdout.readline().strip()}"
        self._open = build_opener(ProxyHandler({})).open
        self._keys = 0
        self._long: Path | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        self._server.wait()
        rmtree(self.folder, ignore_errors=True)

    def new_key(self) -> str:
        self._keys += 1
        return f"k{self._keys}"

    def times(self, key: str) -> list[tuple[int, int]]:
        with self._open(f"{self.url}/times/{key}") as answer:
            return [(received, written) for received, written in json.load(answer)]

    def long_session(self) -> Path:
        """Of 10,000 turns with a result of 2,000 characters each, by the real journal."""
        if self._long is None:
            from bench.journal import made

            self._long = made(self.folder, 1, 10_000, 2_000)[0]
        return self._long

    def home(self, program: Program, name: str = "warm") -> Path:
        home = self.folder / f"{program.name.replace(' ', '-').replace('/', '-')}-{name}"
        if not home.exists():
            home.mkdir()
            if not program.sandbox:
                (home / "settings.json").write_text('{"sandbox": {"enabled": false}}', encoding="utf-8")
        return home

    def environment(self, program: Program, address: str, home: Path) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
        }
        keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
        addresses = {"ANTHROPIC_BASE_URL": f"{self.url}/{address}", "OPENAI_BASE_URL": f"{self.url}/{address}/v1"}
        homes = {"HOME": str(home), "MAINSPRING_HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
        quiet = {
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "AGNO_TELEMETRY": "false",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }
        source = {"PYTHONPATH": program.source} if program.source else {}
        return {**kept, **keys, **addresses, **homes, **quiet, **source}

    def start(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)[:300]} failed:\n{done.stderr[-2_000:] or done.stdout[-2_000:]}")
        return done

    def work_on(self, program: Program, library: str, address: str, *job: str) -> list[float]:
        env = self.environment(program, address, self.home(program))
        done = self.start([program.python, "-P", str(WORKER), library, *job], env)
        found: list[float] = json.loads(done.stdout)
        return found

    def ask(self, program: Program, address: str, *flags: str, home: Path | None = None) -> None:
        words = [*program.command, "-p", "Go.", *FLAGS, *flags]
        self.start(words, self.environment(program, address, home or self.home(program)))

    def spend(self, program: Program, address: str, *flags: str) -> Spent:
        words = [*program.command, "-p", "Go.", *FLAGS, *flags]
        env = self.environment(program, address, self.home(program))
        status, memory, processor = self.start([sys.executable, "-I", "-S", "-c", LAUNCH, *words], env).stderr.split()
        assert status == "0", words
        return Spent(int(memory) * 1_024 / MEGA, float(processor))


FLAGS = ("--permission-mode", "bypassPermissions", "--model", "claude-haiku-4-5")
FRAMES = ("--output-format", "stream-json", "--verbose")
Measure = Callable[[Bench, Program], float | None]


def gaps_of(times: list[tuple[int, int]]) -> list[float]:
    """Milliseconds from the end of each reply to the next request."""
    return [(later[0] - earlier[1]) / MEGA for earlier, later in pairwise(times)]


# --- measurements: None for a program that has no such thing --------------------------------------------------------


def first_of_command(*, fresh: bool) -> Measure:
    def measure(bench: Bench, program: Program) -> float | None:
        if not program.command:
            return None
        key = bench.new_key()
        home = bench.home(program, key if fresh else "warm")
        if not fresh and not (home / "warmed").exists():
            bench.ask(program, f"0/add/0/{bench.new_key()}", *FRAMES, home=home)
            (home / "warmed").touch()
        began = monotonic_ns()
        bench.ask(program, f"0/add/0/{key}", *FRAMES, home=home)
        return (bench.times(key)[0][0] - began) / MEGA

    return measure


def of_library(role: str, work: Callable[[Bench, Program, str], float]) -> Measure:
    """`role` is a field of `Program`."""

    def measure(bench: Bench, program: Program) -> float | None:
        library: str = getattr(program, role)
        return work(bench, program, library) if library else None

    return measure


def first_of_library(role: str) -> Measure:
    def work(bench: Bench, program: Program, library: str) -> float:
        key, began = bench.new_key(), monotonic_ns()
        bench.work_on(program, library, f"0/add/0/{key}", "first")
        return (bench.times(key)[0][0] - began) / MEGA

    return of_library(role, work)


def gap_of_command(play: str, pace: int, *, first: bool = False) -> Measure:
    """The median of a run; with `first`, the one gap that pays for what is used first."""

    def measure(bench: Bench, program: Program) -> float | None:
        if not program.command:
            return None
        key, turns = bench.new_key(), 1 if first else PACED_GAPS if pace else GAPS
        bench.ask(program, f"{pace}/{play}/{turns}/{key}")
        gaps = gaps_of(bench.times(key))
        return gaps[0] if first else median(gaps[WARM:])

    return measure


def turn_of_library(role: str) -> Measure:
    """Of a run of 200 turns, from its prompt to its end."""

    def work(bench: Bench, program: Program, library: str) -> float:
        [took] = bench.work_on(program, library, f"0/add/{LONG_RUN}/{bench.new_key()}", "turns", "1")
        return took / (LONG_RUN + 1)

    return of_library(role, work)


def gap_of_library(role: str, pace: int) -> Measure:
    def work(bench: Bench, program: Program, library: str) -> float:
        key = bench.new_key()
        bench.work_on(program, library, f"{pace}/add/{PACED_GAPS}/{key}", "first")
        return median(gaps_of(bench.times(key))[WARM:])

    return of_library(role, work)


def sessions_at_once(role: str) -> Measure:
    """A second."""

    def work(bench: Bench, program: Program, library: str) -> float:
        address = f"0/add/{SHORT_RUN}/{bench.new_key()}"
        return program.at_once / bench.work_on(program, library, address, "sessions", str(program.at_once))[0]

    return of_library(role, work)


def work_of_sessions(role: str, pace: int) -> Measure:
    """Processor milliseconds of each, of one process: those of a peer's other processes do not count."""

    def work(bench: Bench, program: Program, library: str) -> float:
        address = f"{pace}/add/{SHORT_RUN}/{bench.new_key()}"
        spent = bench.work_on(program, library, address, "sessions", str(program.at_once))[1]
        return 1_000 * spent / program.at_once

    return of_library(role, work)


def memory_of_command(bench: Bench, program: Program) -> float | None:
    if program.run == "bare":
        return bare_memory(bench, program)
    return bench.spend(program, f"0/read/{WARM}/{bench.new_key()}").memory if program.command else None


def bare_memory(bench: Bench, program: Program) -> float:
    env = bench.environment(program, f"0/add/{WARM}/{bench.new_key()}", bench.home(program))
    words = [program.python, "-P", str(WORKER), "bare", "first"]
    _, memory, _ = bench.start([sys.executable, "-I", "-S", "-c", LAUNCH, *words], env).stderr.split()
    return int(memory) * 1_024 / MEGA


def token_of_command(*flags: str) -> Measure:
    """Processor microseconds: a run with many over one with a single one. A reply at full speed."""

    def measure(bench: Bench, program: Program) -> float | None:
        if program.run == "bare":
            return bench.work_on(program, "bare", f"0/words/{TOKENS}/{bench.new_key()}", "token", str(TOKENS))[0]
        if not program.command:
            return None
        one, many = [
            bench.spend(program, f"0/words/{count}/{bench.new_key()}", *flags).processor for count in (1, TOKENS)
        ]
        return 1e6 * (many - one) / TOKENS

    return measure


def token_of_library(role: str, pace: int) -> Measure:
    def work(bench: Bench, program: Program, library: str) -> float:
        address = f"{pace}/words/{PACED_TOKENS}/{bench.new_key()}"
        return bench.work_on(program, library, address, "token", str(PACED_TOKENS))[0]

    return of_library(role, work)


def viewing(bench: Bench, program: Program) -> float | None:
    """Processor seconds in which the viewer reads a long session."""
    if not program.sdk.startswith("mainspring"):
        return None
    env = bench.environment(program, "0/add/0/none", bench.home(program))
    return float(bench.start([program.python, "-c", VIEW, str(bench.long_session())], env).stdout)


# --- the jobs ---------------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    name: str
    pace: str  # of the server, in tokens a second
    measure: Measure
    unit: str
    rounds: int
    aim: float | None = None  # at most; with `least`: at least
    over: float | None = None  # the aim is the floor and so much
    floor: Measure | None = None  # of the bare client; None: that of the job
    plain: bool = False  # the floor is the same job without a sandbox
    least: bool = False
    difference: bool = False


def best(job: Job, found: list[float]) -> float:
    if job.difference:
        return median(found)  # the least difference of two times is that of a lucky round
    return max(found) if job.least else min(found)


def spread(job: Job, found: list[float]) -> float:
    """Of the median over the best; of a median: half of the way from the least to the most."""
    if job.difference:
        return (max(found) - min(found)) / 2 / median(found)
    return abs(median(found) / best(job, found) - 1)


STARTS, RUNS, FEW = 15, 5, 3  # rounds
INSTANT, SLOW, QUICK = "instant", "200/s", "400/s"
FIRST, TURN, GAP = first_of_library("run"), turn_of_library("run"), gap_of_library("run", 200)
RATE, WORK, TOKEN = sessions_at_once("run"), work_of_sessions("run", 200), token_of_library("run", 200)
PARTIAL = (*FRAMES, "--include-partial-messages")
READ, BASH, READS = "between turns with Read, command", "Bash turn, command", "ten parallel Reads, command"
JOBS = (
    Job("first request: command, fresh home", INSTANT, first_of_command(fresh=True), "ms", STARTS, 88, floor=FIRST),
    Job("first request: command, warm home", INSTANT, first_of_command(fresh=False), "ms", STARTS, 80, floor=FIRST),
    Job("first request: sdk.query, fresh process", INSTANT, first_of_library("sdk"), "ms", STARTS, 110, floor=FIRST),
    Job(READ, INSTANT, gap_of_command("read", 0), "ms", RUNS, 1.4),
    Job(READ, SLOW, gap_of_command("read", 200), "ms", FEW, 1.4),
    Job(BASH, INSTANT, gap_of_command("bash", 0), "ms", RUNS, 10, plain=True),
    Job(BASH, SLOW, gap_of_command("bash", 200), "ms", FEW, over=1, plain=True),
    Job(f"first {BASH}", INSTANT, gap_of_command("bash", 0, first=True), "ms", RUNS, 20, plain=True),
    Job(f"first {BASH}", SLOW, gap_of_command("bash", 200, first=True), "ms", RUNS, 12, plain=True),
    Job(READS, INSTANT, gap_of_command("reads", 0, first=True), "ms", RUNS),
    Job(READS, QUICK, gap_of_command("reads", 400, first=True), "ms", RUNS, 10),
    Job("turn of open_run, one tool, 200 turns", INSTANT, TURN, "ms", RUNS, 0.45),
    Job("turn of open_run, one tool", SLOW, GAP, "ms", FEW),
    Job("turn of sdk.query, one tool, 200 turns", INSTANT, turn_of_library("sdk"), "ms", RUNS, 0.8, floor=TURN),
    Job("turn of sdk.query, one tool", SLOW, gap_of_library("sdk", 200), "ms", FEW, floor=GAP),
    Job("100 sessions at once, open_run", INSTANT, RATE, "/s", FEW, 280, least=True),
    Job("100 sessions at once, open_run", SLOW, WORK, "ms CPU", FEW),
    Job("100 sessions at once, sdk.query", INSTANT, sessions_at_once("sdk"), "/s", FEW, 130, floor=RATE, least=True),
    Job("100 sessions at once, sdk.query", SLOW, work_of_sessions("sdk", 200), "ms CPU", FEW, floor=WORK),
    Job("memory of a headless run", INSTANT, memory_of_command, "MB", FEW, 27),
    Job("a streamed token, command", INSTANT, token_of_command(*FRAMES), "us CPU", RUNS, 2.2, difference=True),
    Job("a streamed token, partial messages", INSTANT, token_of_command(*PARTIAL), "us CPU", RUNS, 5, difference=True),
    Job("a streamed token, sdk.query", SLOW, token_of_library("sdk", 200), "us CPU", FEW, floor=TOKEN),
    Job(
        "a streamed token, partial, sdk.query",
        SLOW,
        token_of_library("partial", 200),
        "us CPU",
        FEW,
        floor=TOKEN,
    ),
    Job("viewer: a session of 10,000 turns", INSTANT, viewing, "s CPU", RUNS, 1),
)


def measure_job(bench: Bench, programs: list[Program], job: Job, *, tolerant: bool = False) -> dict[str, list[float]]:
    """The times of each program that can do it. They alternate, so that a slow moment affects all. `tolerant`: one that
    fails or takes minutes is left out, and named."""
    times: dict[str, list[float]] = {}
    failed: set[str] = set()
    for _ in range(job.rounds):
        for program in [one for one in programs if one.name not in failed]:
            measure = job.floor if job.floor is not None and program.run == "bare" else job.measure
            try:
                took = measure(bench, program)
            except (SystemExit, subprocess.TimeoutExpired) as error:
                if not tolerant:
                    raise
                print(f"{program.name} failed at '{job.name}': {str(error)[-500:]}", file=sys.stderr)
                failed.add(program.name)
                times.pop(program.name, None)
                continue
            if took is not None:
                times.setdefault(program.name, []).append(took)
    return times


def write_section(page: Path, name: str, text: str) -> None:
    """Replaces what is between the markers of a page."""
    begin, end = f"<!-- {name}: written by `make {name}` -->\n", f"<!-- end of {name} -->\n"
    whole = page.read_text(encoding="utf-8")
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"'{page}' has no section '{name}'")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def describe_machine() -> str:
    load = " ".join([f"{one:.1f}" for one in os.getloadavg()])
    return f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {load}"


def git(*words: str, root: Path = HERE.parent) -> str:
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True).stdout.strip()
