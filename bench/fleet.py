"""A thousand sessions in one process: CPU, memory and latency, and a rate limit that is used up and kept.

    .venv/bin/python bench/fleet.py                     # 1,000 sessions of 10 turns, 3 s a reply, and 100 beside them
    .venv/bin/python bench/fleet.py --peers             # the same with other libraries (`make peers-agents` first)
    .venv/bin/python bench/fleet.py --rate              # 6,000 requests a minute, 200 sessions, 60 s

The server is a process of its own (agent_server.py). A turn's latency is the time between two requests
of a session, as the server sees them; it includes the server's own time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = ("pydantic-ai", "openai-agents")
SESSION = re.compile(rb"session (\d+) begins")
WARM_UP = 3  # sessions before the first measurement


# --- the server -----------------------------------------------------------------------------------------


async def serve(delay: float, per_minute: int) -> None:
    """Prints its port; for each line on its input, its counts. `per_minute`: refuse what is beyond, 0: nothing."""
    sys.path.insert(0, str(HERE.parent))
    from bench.agent_server import Asked, answer_at_once

    rate = per_minute / 60
    level, at = rate / 2, time.monotonic()  # a bucket that holds half a second
    answered, refused = 0, 0
    gaps: list[float] = []  # between two requests of a session: the turns, as the server sees them
    last: dict[bytes, float] = {}

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal level, at, answered, refused
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)^content-length: *(\d+)", head, re.MULTILINE)
                body = await reader.readexactly(int(length[1])) if length else b""
                now = time.monotonic()
                level, at = min(rate / 2, level + (now - at) * rate), now
                if per_minute and level < 1:
                    refused += 1
                    said = b'{"type":"error","error":{"type":"rate_limit_error","message":"too many requests"}}'
                    writer.write(
                        b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
                        b"content-length: %d\r\n\r\n%s" % (len(said), said)
                    )
                    continue
                level -= 1
                answered += 1
                session = SESSION.search(body)
                if session:
                    if (before := last.get(session[1])) is not None:
                        gaps.append(now - before)
                    last[session[1]] = now
                path = head.split(" ", 2)[1].partition("?")[0]
                if session:
                    await asyncio.sleep(delay)
                writer.write(answer_at_once(Asked.read(path), path, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"answered": answered, "refused": refused, "gaps": gaps}), flush=True)
        answered, refused, gaps = 0, 0, []


class Server:
    def __init__(self, delay: float, per_minute: int = 0) -> None:
        command = [sys.executable, __file__, "--serve", str(delay), str(per_minute)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def counts(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


# --- sessions -------------------------------------------------------------------------------------------


def memory() -> int:
    """Bytes that are resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Meter:
    """Time, CPU and memory of this process."""

    def __init__(self) -> None:
        self._began, self._cpu, self._before = time.monotonic(), time.process_time(), memory()
        self._most = self._before
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            self._most = max(self._most, memory())
            await asyncio.sleep(0.25)

    def stop(self, sessions: int, turns: int) -> dict[str, float]:
        self._watching.cancel()
        wall, cpu = time.monotonic() - self._began, time.process_time() - self._cpu
        beyond = (self._most - self._before) / max(1, sessions - WARM_UP)
        return {"wall": wall, "core": cpu / wall, "ms": cpu / sessions / turns * 1_000, "kb": beyond / 1_024}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def measure(library: str, sessions: int, turns: int) -> dict[str, float]:
    prompts = [f"session {number} begins" for number in range(sessions)]
    if library != "mainspring":
        sys.path.insert(0, str(HERE.parent))
        from bench.agent_worker import LIBRARIES

        ask = LIBRARIES[library]()
        for _ in range(WARM_UP):
            await ask("warm up")
        meter = Meter()
        texts = await asyncio.gather(*[ask(prompt) for prompt in prompts])
        assert set(texts) == {"Done."}
        return meter.stop(sessions, turns)
    from mainspring import Agent, Fleet

    agent = Agent("claude-haiku-4-5", tools=[add])
    with tempfile.TemporaryDirectory() as out:
        async for result in Fleet(agent, out=f"{out}/first").run(["warm up"] * WARM_UP):
            assert not result.is_error, result
        meter, done = Meter(), 0
        fleet = Fleet(agent, max_concurrent=sessions, out=f"{out}/out")
        async for result in fleet.run(prompts):
            assert (result.text, result.turns) == ("Done.", turns), result
            done += 1
        assert done == sessions, fleet.stats
        return meter.stop(sessions, turns)


def run_measured(library: str, sessions: int, turns: int, delay: float) -> dict[str, float]:
    """In a process of its own."""
    python = HERE.parent / (".venv" if library == "mainspring" else ".venv-agents") / "bin/python"
    server = Server(delay)
    try:
        url = f"{server.url}/0/add/{turns - 1}/k"
        env = {**os.environ, "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}
        env |= {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        command = [str(python), __file__, "--measure", library, str(sessions), str(turns)]
        found: dict[str, float] = json.loads(
            subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout
        )
        return found | {"p99": p99(server.counts()["gaps"])}
    finally:
        server.stop()


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def compare(libraries: tuple[str, ...], counts: tuple[int, ...], turns: int, delay: float) -> None:
    print(f"{turns} turns, {delay:g} s a reply")
    print(f"{'library':16} {'sessions':>8} {'s':>6} {'core':>6} {'ms/turn':>8} {'KB each':>8} {'p99 s':>6}")
    for library in libraries:
        for sessions in counts:
            found = run_measured(library, sessions, turns, delay)
            figures = (
                f"{found['wall']:6.1f} {found['core']:6.0%} {found['ms']:8.2f} {found['kb']:8.0f} {found['p99']:6.2f}"
            )
            print(f"{library:16} {sessions:8,} {figures}", flush=True)


# --- a rate limit ---------------------------------------------------------------------------------------


async def keep_limit(per_minute: int, sessions: int, seconds: float) -> None:
    from mainspring import Agent, Fleet, FleetLimits

    server = Server(0.5, per_minute)
    try:
        env = {"ANTHROPIC_BASE_URL": f"{server.url}/0/add/1000/k", "ANTHROPIC_API_KEY": "k"}
        agent = Agent("claude-haiku-4-5", tools=[add], persist=False, env=env)
        fleet = Fleet(agent, max_concurrent=sessions, limits=FleetLimits(requests_per_minute=per_minute))
        reading = fleet.run([f"session {number} begins" for number in range(sessions)])
        waiting = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(2)  # until all sessions are open
        server.counts()
        await asyncio.sleep(seconds)
        found = server.counts()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await reading.aclose()
    finally:
        server.stop()
    rate, share = found["answered"] / (per_minute * seconds / 60), found["refused"] / max(1, found["answered"])
    print(f"{sessions} sessions, {per_minute:,} a minute, {seconds:g} s: {rate:.1%} of the limit, {share:.2%} refused")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sessions", type=int, default=1_000)
    options.add_argument("--turns", type=int, default=10)
    options.add_argument("--delay", type=float, default=3.0)
    options.add_argument("--peers", action="store_true")
    options.add_argument("--rate", action="store_true")
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--serve", nargs=2)
    options.add_argument("--measure", nargs=3)
    given = options.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    if given.serve:
        asyncio.run(serve(float(given.serve[0]), int(given.serve[1])))
    elif given.measure:
        library, sessions, turns = given.measure
        print(json.dumps(asyncio.run(measure(library, int(sessions), int(turns)))))
    elif given.rate:
        asyncio.run(keep_limit(6_000, 200, given.seconds))
    else:
        libraries = ("mainspring", *(PEERS if given.peers else ()))
        compare(libraries, (given.sessions // 10, given.sessions), given.turns, given.delay)


if __name__ == "__main__":
    main()
