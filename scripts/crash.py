"""Kills a real process at every write, sync and rename of its files, resumes its session, and looks for losses.

    .venv/bin/python scripts/crash.py              # everything: `make crash`
    .venv/bin/python scripts/crash.py text tool    # some scenarios

For each scenario a child process runs a whole session on a real loop and a real disk, and sends what its consumer sees
to us over a socket. `strace` kills it when it enters the n-th such call, for every n. Then this process resumes the
session and compares it with what had been seen: nothing may be lost, no request invalid, no call run twice. After that,
the same with calls that fail (no space, input/output error, read-only, quota, interrupted) and with writes that a limit
on the file's size makes short.

The child sends with `sendto` and stores its tools' effects as links, so that every `write` is the journal's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the scenarios are those of the tests
import msgspec
from msgspec.structs import replace
from sessions.scenes import SCENES, Scene
from sessions.stage import CONFIG, ENVELOPE, ID, OTHER, CheckedWorld, Remembering, consume, stored
from sessions.test_cuts import first_life, second_life

from mainspring.core.messages import ToolCall
from mainspring.core.updates import Result, Update
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal, JournalOptions
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.testing import says, virtually

KILLED_AT = ("write", "fdatasync", "fsync", "rename", "ftruncate", "mkdir")
ERRORS = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
LIMITS = 40  # sizes at which a file may not grow any more, for each scenario
LARGE = Scene((says("A lot."), says("More.")), ("x" * 300_000, "y" * 300_000))  # prompts that are stored as payloads
SCENARIOS = ("text", "tool", "parallel", "compaction", "fork", "inbox", "resume", "interrupt", "trouble", "large")
BASE = {"fork": "parallel", "resume": "compaction"}  # those that continue a session of another scenario

_updates: msgspec.json.Decoder[Update] = msgspec.json.Decoder(Update)


def scene_of(name: str) -> Scene:
    return {"large": LARGE, **SCENES}["tool" if name in BASE else name]


# --- the child ------------------------------------------------------------------------------------------------


class RealWorld(CheckedWorld):
    """Tools that leave a trace of having run."""

    folder = Path()

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        (self.folder / f"ran-{call.id}-{os.getpid()}").symlink_to("nowhere")
        return await super().run_tool(call, asking)


class OneByOne(ThreadPoolExecutor):
    """For the disk: strace counts calls by thread, and the number of syncs should not depend on the disk's speed."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work = super().submit(fn, *args, **kwargs)
        wait([work])
        return work


def child(name: str, folder: Path, descriptor: int, largest: int) -> None:
    out = socket.socket(fileno=descriptor)

    def send(data: bytes) -> None:
        out.sendall(data + b"\n")

    async def watch(session: EngineSession, run: Run, update: Update) -> None:
        send(msgspec.json.encode(update))
        await scene.meanwhile(session, run, update)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(OneByOne(1))
        session, journal = opened(name, folder, world, lambda text: send(b"trouble " + text.encode()))
        for prompt in scene.prompts:
            await consume(session, prompt, meanwhile=watch)
        journal.close()

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if largest >= 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    scene = scene_of(name)
    world = RealWorld(scene.replies, contexts=scene.contexts)
    world.folder, world.offset = folder, (1 << 22) * (name in BASE)
    asyncio.run(main())
    send(b"end")


def opened(
    name: str, folder: Path, world: RealWorld, on_trouble: Callable[[str], None]
) -> tuple[EngineSession, FileJournal]:
    # Without an interval between syncs, so that their number does not depend on how fast this runs.
    file, options = folder / f"{ID}.jsonl", JournalOptions(sync_interval=0, on_trouble=on_trouble)
    if name == "resume":
        loaded, journal = FileJournal.resume(file, ENVELOPE, options)
        return stored(world, journal, CONFIG, loaded.state), journal
    if name == "fork":
        forked = fork_session_state(load_session(file), folder / f"{OTHER}.jsonl")
        journal = FileJournal.fork(forked, replace(ENVELOPE, session_id=OTHER), options)
        return stored(world, journal, CONFIG, forked.state), journal
    journal = FileJournal.create(file, ENVELOPE, options)
    return stored(world, journal, scene_of(name).config), journal


# --- its run --------------------------------------------------------------------------------------------------


class Life(NamedTuple):
    code: int
    seen: list[Update]
    trouble: list[str]
    before_trouble: int  # how much had been seen by then
    ended: bool


def live(name: str, folder: Path, wrapped: Iterable[str] = (), largest: int = -1) -> Life:
    ours, theirs = socket.socketpair()
    command = [*wrapped, sys.executable, __file__, "--child", name, str(folder), str(theirs.fileno()), str(largest)]
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], env=settings, stderr=subprocess.PIPE) as process:
        theirs.close()
        data = bytearray()
        while piece := ours.recv(1 << 16):
            data += piece
        said = process.stderr.read().decode() if process.stderr else ""
    ours.close()
    if process.returncode > 0 and "Traceback" in said:
        raise AssertionError(f"'{name}' failed by itself: {said}")
    rows = bytes(data).split(b"\n")[:-1]
    trouble = [row.decode() for row in rows if row.startswith(b"trouble")]
    first = next((n for n, row in enumerate(rows) if row.startswith(b"trouble")), len(rows))
    seen = [_updates.decode(row) for row in rows if row.startswith(b"{")]
    before = sum(row.startswith(b"{") for row in rows[:first])
    return Life(process.returncode, seen, trouble, before, b"end" in rows)


def traced(*more: str) -> list[str]:
    """Not with `--seccomp-bpf`, though it is fast: strace 6.1 then never sends the signal, and every kill is a miss."""
    return ["strace", "-f", "-qqq", *more]


def prepared(base: dict[str, bytes]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    for path, data in base.items():
        (folder / path).write_bytes(data)
    return folder


def base_of(name: str) -> dict[str, bytes]:
    """The session that a scenario continues; with a torn last line, if it is resumed."""
    if name not in BASE:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{ID}.jsonl"
        virtually(first_life(SCENES[BASE[name]], file, Remembering()))
        torn = b'{"type":"mainspring","v":1,"n":' if name == "resume" else b""
        return {file.name: file.read_bytes() + torn}


def calls_of(name: str, base: dict[str, bytes]) -> dict[str, int]:
    """How often each kind of call is made, in the thread that makes most of them: strace counts by thread."""
    folder = prepared(base)
    trace = folder / "trace"
    life = live(name, folder, traced("-e", f"trace={','.join(KILLED_AT)}", "-o", str(trace)))
    assert life.ended, f"'{name}' does not finish"
    made: dict[str, Counter[str]] = defaultdict(Counter)
    for row in trace.read_text().splitlines():
        if match := re.match(r"(\d+) +(\w+)\(", row):
            made[match[2]][match[1]] += 1
    shutil.rmtree(folder)
    return {call: max(threads.values()) for call, threads in made.items()}


# --- checks ---------------------------------------------------------------------------------------------------


def check(name: str, folder: Path, seen: list[Update], base: dict[str, bytes]) -> None:
    """Resume the session. A fork that does not exist yet leaves its source, which must be unchanged."""
    source, forked = folder / f"{ID}.jsonl", folder / f"{OTHER}.jsonl"
    if name == "fork":
        assert source.read_bytes() == base[source.name], "the source of a fork was changed"
    file = forked if name == "fork" and forked.exists() else source
    assert not (name == "fork" and seen and file is source), "a fork was shown before it was there"
    if name == "resume":
        assert file.read_bytes().startswith(base[file.name]), "a byte was destroyed"
    ran = Counter(path.name.split("-")[1] for path in folder.glob("ran-*"))
    assert all(times == 1 for times in ran.values()), f"ran twice: {ran}"
    if not file.exists() or not file.stat().st_size or b'"event"' not in file.read_bytes():
        assert not seen, "something was shown, and nothing is stored"
        return
    virtually(second_life(seen, file, scene_of(name)))


def disturbed(name: str, base: dict[str, bytes], call: str, inject: str) -> tuple[Path, Life]:
    """A run that met the injected fault. A run that did not shows nothing."""
    folder = prepared(base)
    trace = folder / "trace"
    life = live(name, folder, traced("-e", f"trace={call}", "-e", f"inject={call}:{inject}", "-o", str(trace)))
    assert life.code == -signal.SIGKILL or "(INJECTED)" in trace.read_text(), "not reached"
    trace.unlink()
    return folder, life


def kill(name: str, base: dict[str, bytes], call: str, number: int) -> None:
    folder, life = disturbed(name, base, call, f"signal=KILL:when={number}")
    assert life.code == -signal.SIGKILL, f"ended with {life.code}"
    check(name, folder, life.seen, base)
    shutil.rmtree(folder)


def fail(name: str, base: dict[str, bytes], call: str, error: str, number: int) -> None:
    folder, life = disturbed(name, base, call, f"error={error}:when={number}{'' if error == 'EINTR' else '+'}")
    went_on(name, folder, life, base, trouble=error != "EINTR")


def limit(name: str, base: dict[str, bytes], size: int) -> None:
    folder = prepared(base)
    went_on(name, folder, live(name, folder, largest=size), base, trouble=True)


def went_on(name: str, folder: Path, life: Life, base: dict[str, bytes], *, trouble: bool) -> None:
    assert life.ended, "the run did not go on"
    assert isinstance(life.seen[-1], Result)
    assert len(life.trouble) == trouble, f"reported {len(life.trouble)} times: {life.trouble}"
    kept = life.seen[: life.before_trouble]
    check(name, folder, kept, base)
    shutil.rmtree(folder)


# --- all of it ------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    words: str
    run: Callable[[], None]


def points(name: str, every: int) -> list[Point]:
    """Where to kill and to fail; `every` of them, for a quick check."""
    base = base_of(name)
    counted = calls_of(name, base)
    made = [
        Point(f"killed at {call} {number}", partial(kill, name, base, call, number))
        for call, times in counted.items()
        for number in range(1, times + 1)
    ]
    made += [
        Point(f"{error} at write {number}", partial(fail, name, base, "write", error, number))
        for number in range(1, counted["write"] + 1)
        for error in (ERRORS[number % len(ERRORS)], "EINTR")
    ]
    made += [
        Point(f"EIO at fdatasync {number}", partial(fail, name, base, "fdatasync", "EIO", number))
        for number in range(1, counted["fdatasync"] + 1)
    ]
    if name not in BASE:
        made += [
            Point(f"no file beyond {size} bytes", partial(limit, name, base, size))
            for size in range(0, 8_000, 8_000 // LIMITS)
        ]
    return made[::every]


def tried(point: Point) -> str | None:
    try:
        point.run()
    except Exception as error:  # noqa: BLE001  # counted and shown
        return f"{point.words}: {error!r}"
    return None


def main(names: Iterable[str] = SCENARIOS, every: int = 1) -> int:
    wrong, total = 0, Counter[str]()
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for name in names:
            todo = points(name, every)
            errors = [error for error in workers.map(tried, todo) if error]
            kinds = Counter(point.words.split()[0] for point in todo)
            total += kinds
            wrong += len(errors)
            print(f"{name:<12} {len(todo):>4} points, {len(errors)} wrong  {dict(kinds)}", flush=True)
            for error in errors[:10]:
                print(f"    {error}")
    print(f"{total.total()} points, {total['killed']} of them kills; {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="all by default")
    parser.add_argument("--every", type=int, default=1, help="only every so many of the points")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), int(given.child[2]), int(given.child[3]))
        sys.exit()
    sys.exit(main(given.scenarios or SCENARIOS, given.every))
