"""The terminal, compared with Claude Code's: time to the prompt, key latency, and the cost of following a reply.

Each runs in its own terminal (80 by 24), with a model server on loopback; they alternate in one run. Times are
wall-clock times, the minimum of several, or the median where it says so; processor time is the process's own.

`bench/terminal.py --before FOLDER` compares with another checkout of mainspring, too, and shows ratios of medians.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import claude_agent_sdk

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, show

STARTS = 7
BEFORE = "before"
# to newer models Claude Code sends requests that our server rejects, according to the API's documentation
MODEL = "claude-sonnet-4-5"
COMMAND = str(Path(sys.executable).parent / "mainspring")
BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
WORDS = "Some words of a long answer, with `code` in them and **bold** ones, as models like to write. "
KEY = "sk-ant-bench-key-0000000000000"
PARAGRAPHS = 150
END = "Zwiebelfisch"  # one word: screens are drawn in pieces
SEEN_ALONE = "äöüßéèñçåø"  # keys that no control sequence contains
LONG = "\n\n".join([WORDS * 3] * PARAGRAPHS) + f"\n\n{END}"
PATIENCE = 60.0
TAKE_IT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Way(NamedTuple):
    name: str
    command: tuple[str, ...]
    prompt: bytes  # shown when the user can type
    whole: bytes  # shown when everything is loaded
    source: str = ""  # another checkout


WAYS = [
    Way("ours", (COMMAND, "--model", MODEL), "❯".encode(), b"? for shortcuts"),
    *(
        [Way("Claude Code", (str(BUNDLED), "--model", MODEL), "❯\xa0".encode(), "❯\xa0".encode())]
        if BUNDLED.exists()
        else []
    ),
]


def answer(request: ReceivedRequest) -> Reply:
    if "long answer" in str(request.body["messages"][-1]):
        return Say.of(LONG, pace_ms=1)
    return Say.of("Hello.")


class Terminal:
    def __init__(self, way: Way, url: str, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE"))}
        env = kept | {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "IS_SANDBOX": "1"}
        env |= {"CLAUDE_CONFIG_DIR": str(folder / "home"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        env |= {"TERM": "xterm-256color", "DISABLE_AUTOUPDATER": "1", "HOME": str(folder)}
        env |= {"PYTHONPATH": f"{way.source}/src"} if way.source else {}
        self.began, self.seen = perf_counter(), b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_IT, *way.command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder / "work",
            env=env,
            start_new_session=True,
        )
        os.close(theirs)

    def see(self, words: bytes) -> float:
        """Milliseconds from the start until this is shown."""
        deadline = perf_counter() + PATIENCE
        while words not in self.seen:
            assert perf_counter() < deadline, f"{words!r} did not appear: {self.seen[-2000:]!r}"
            if select.select([self._ours], [], [], 0.5)[0]:
                self.seen += os.read(self._ours, 65_536)
        return 1_000 * (perf_counter() - self.began)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def echo(self, key: str) -> float:
        """Milliseconds until a key is shown."""
        self.drain(0.02)
        began, self.seen = perf_counter(), b""
        self.type(key)
        self.began = began
        return self.see(key.encode())

    def drain(self, seconds: float) -> None:
        end = perf_counter() + seconds
        while (left := end - perf_counter()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                os.read(self._ours, 65_536)

    @property
    def megabytes(self) -> float:
        """Not shared with other processes."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1_000

    @property
    def processor(self) -> float:
        """Milliseconds of processor time, of the process itself."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return 1_000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)


@contextmanager
def serving() -> Iterator[str]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    server = ModelServer(choose=answer)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    yield server.url
    asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()


def prepare(folder: Path) -> None:
    """Answers the questions for new users in advance."""
    (folder / "home").mkdir()
    work = folder / "work"
    work.mkdir()
    known = {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
    known |= {"customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}}
    known |= {"projects": {str(work): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}}
    for place in (folder / "home" / ".claude.json", folder / ".claude.json"):
        place.write_text(json.dumps(known), encoding="utf-8")


class Started(NamedTuple):
    prompt: float  # milliseconds
    whole: float
    megabytes: float


def starts(way: Way, url: str, folder: Path) -> Started:
    terminal = Terminal(way, url, folder)
    try:
        ready, whole = terminal.see(way.prompt), terminal.see(way.whole)
        terminal.drain(1.0)
        return Started(ready, whole, terminal.megabytes)
    finally:
        terminal.close()


class Followed(NamedTuple):
    processor: float  # milliseconds for the long answer
    echo: list[float]  # of keys pressed while it streams
    quiet: list[float]  # and while nothing happens
    megabytes: float


def follows(way: Way, url: str, folder: Path) -> Followed:
    terminal = Terminal(way, url, folder)
    try:
        terminal.see(way.whole)
        terminal.drain(1.0)
        quiet = [terminal.echo(key) for key in SEEN_ALONE * 2]
        terminal.type("\x15")
        terminal.type("a long answer please")
        terminal.drain(0.3)
        before = terminal.processor
        terminal.type("\r")
        terminal.drain(0.5)
        echo = [terminal.echo(key) for key in SEEN_ALONE]
        terminal.see(END.encode())
        terminal.drain(1.0)
        return Followed(terminal.processor - before, echo, quiet, terminal.megabytes)
    finally:
        terminal.close()


def compare(before: str, found: dict[str, list[Started]], followed: dict[str, Followed]) -> list[Figure]:
    """Ratios of medians."""

    def figures_of(name: str) -> dict[str, float]:
        prompt, whole, used = [statistics.median(times) for times in zip(*found[name], strict=True)]
        seen = followed[name]
        return {
            "start to prompt": prompt,
            "until all is loaded": whole,
            "memory at the prompt": used,
            "memory after a long answer": seen.megabytes,
            "key to echo, at rest": statistics.median(seen.quiet),
            "key to echo, during a reply": statistics.median(seen.echo),
            "processor for a long answer": seen.processor,
        }

    ours, others = figures_of("ours"), {name: figures_of(name) for name in found if name != "ours"}
    names = {BEFORE: before, **{name: name for name in others if name != BEFORE}}
    return [
        Figure(f"{figure}: ours in % of {names[name]}", 100 * value / others[name][figure], "%")
        for figure, value in ours.items()
        for name in others
    ]


def read_arguments() -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="", metavar="FOLDER", help="another checkout of mainspring")
    return str(parser.parse_args().before)


def main() -> bool:
    figures: list[Figure] = []
    if before := read_arguments():
        command = (sys.executable, "-m", "mainspring", "--model", MODEL)
        WAYS[0] = WAYS[0]._replace(command=command)  # started in the same way as the other
        WAYS.append(Way(BEFORE, command, "❯".encode(), b"? for ", source=str(Path(before).resolve())))
    with serving() as url, TemporaryDirectory() as name:
        prepare(Path(name))
        found: dict[str, list[Started]] = {way.name: [] for way in WAYS}
        for _ in range(STARTS):
            for way in WAYS:
                found[way.name].append(starts(way, url, Path(name)))
        followed = {way.name: follows(way, url, Path(name)) for way in WAYS}
    theirs = min([one.prompt for one in found["Claude Code"]]) if "Claude Code" in found else None
    for way in WAYS:
        ready, whole, used = [min(times) for times in zip(*found[way.name], strict=True)]
        seen, ours = followed[way.name], way.name == "ours"
        figures += [
            Figure(f"{way.name}: from the start to the prompt", ready, "ms", theirs * 0.4 if theirs and ours else None),
            Figure(f"{way.name}: until all is loaded", whole, "ms", theirs * 0.75 if theirs and ours else None),
            Figure(f"{way.name}: memory at the prompt", used, "MB", 40 if ours else None),
            Figure(f"{way.name}: memory after a long answer", seen.megabytes, "MB"),
            Figure(f"{way.name}: a key is seen, at rest, the median", statistics.median(seen.quiet), "ms"),
            Figure(f"{way.name}: a key is seen, during a reply, the median", statistics.median(seen.echo), "ms"),
            Figure(f"{way.name}: a key is seen, during a reply, the slowest", max(seen.echo), "ms"),
            Figure(f"{way.name}: processor for {len(LONG) // 1_000} kB of reply", seen.processor, "ms"),
        ]
    return not show([*figures, *(compare(Path(before).name, found, followed) if before else [])])


if __name__ == "__main__":
    sys.exit(main())
