"""Kills a real process at every system call of a checkpoint and of a rewind that changes the disk, and starts again.

    .venv/bin/python scripts/crash_undo.py             # everything: part of `make crash`
    .venv/bin/python scripts/crash_undo.py rewind      # some scenarios
    .venv/bin/python scripts/crash_undo.py --every 9   # some of the points

The workspace has moved and replaced files, folders that became files, links, modes and names that are not UTF-8. The
child is the command `mainspring rewind`, or the checkpoints of a session; `strace` kills it when it enters a call. Then
the session is started again: resumed, resumed with checkpoints off, by the library, or by `mainspring rewind`. The
workspace must be as before or as after, without leftovers; the start must say what it finished; and every prompt, and
the rewind itself, must still be undoable.

The child works in one thread, so that the calls have one order.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from agent.stage import Stage, read_until_idle
from checkpoints.stage import Shape, shape_of
from crash import traced
from processes.steps import left_over

from mainspring import Agent
from mainspring.agent.checkpoints import FileCheckpoints, RewindPermissions
from mainspring.checkpoints import scan
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.store import open_store
from mainspring.core.messages import Text, User
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.processes.paths import resolve_path
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer

ID = "11111111-2222-4333-8444-555555555555"
CALLS = (
    "openat", "write", "fsync", "ftruncate", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "symlinkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "chmod", "fchmod", "fchmodat", "fchown",
)  # fmt: skip
SCENARIOS = ("checkpoint", "rewind", "undo", "recovery")
WAYS = ("resume", "off", "library", "command")  # of the next start
INTERRUPTED = "A rewind of files was interrupted"

BEFORE = r"""
mkdir -p d/e empty tofile; chmod 700 empty; echo f > d/f; echo g > d/e/g; echo run > run.sh; ln -s d/f link
echo in > tofile/in; echo file > todir; echo odd > "$(printf '\377 odd')"; echo keep > keep; echo ignored > .gitignore
echo made > ignored
"""
ONE = "echo one > one; chmod 600 keep"
TWO = r"""
echo changed > d/f; echo more >> d/e/g; mv d/e moved; chmod 755 run.sh; ln -sfn nowhere link; rmdir empty
rm todir; mkdir todir; echo x > todir/x; rm -r tofile; echo x > tofile; rm one; ln -s d linked; chmod 700 d
mkdir -p new/deep; echo new > new/deep/file; chmod 500 new/deep; echo odd2 > "$(printf '\377 odd')"; : > keep
"""


# --- the child ------------------------------------------------------------------------------------------------


class InPlace(ThreadPoolExecutor):
    """Runs work at once, in the thread of the event loop."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # for the one who waits
            done.set_exception(error)
        return done


class OneThread(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        loop.set_default_executor(InPlace(1))
        return loop


def child(words: list[str]) -> int:
    asyncio.set_event_loop_policy(OneThread())
    scan.RACY = scan.RACY_SECONDS = 1 << 62  # every file is read each time, however fast this is: calls have numbers
    if words[0] == "checkpoint":
        asyncio.run(take_checkpoints(Path(words[1])))
        return 0
    from mainspring.cli.main import main as run_command

    return run_command(words)


async def take_checkpoints(root: Path) -> None:
    """As a session does: of the prompt, of a file that is left out and that a tool changes, and after the run."""
    place = Place(root)
    gate, policy, work = PermissionChecker(folders=(str(place.work),)), EnginePolicy(), str(place.work)
    checkpoints = FileCheckpoints(
        place.open_history(), RewindPermissions(gate, work, lambda: policy), lambda: (work,), print
    )
    checkpoints.before_request([User((Text("three"),), id="p3", at=1)])
    await checkpoints.before_writing()
    checkpoints.keep(resolve_path(f"{work}/ignored", "/"))
    (place.work / "ignored").write_text("three")
    (place.work / "three").write_text("three")
    (place.work / "d" / "f").unlink()
    checkpoints.end_run(works_on=False)
    await checkpoints.close()


# --- the session ----------------------------------------------------------------------------------------------


class Place:
    """A folder with a workspace and a home. Paths are stored, so a copy of it must be restored to the same name."""

    def __init__(self, root: Path) -> None:
        self.root, self.work, self.home = root, root / "work", root / "home"

    @property
    def file(self) -> Path:
        return next(self.home.glob(f"projects/*/{ID}.jsonl"))

    @property
    def store(self) -> Path:
        return self.home / "file-history" / ID

    def shape(self) -> Shape:
        return shape_of(os.fsencode(self.work))

    def open_history(self) -> FileHistory:
        return FileHistory(str(self.file), str(self.home))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.root),
            "MAINSPRING_HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "IS_SANDBOX": "1",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        }

    def copy_to(self, other: Path) -> None:
        remove(other)
        subprocess.run(["cp", "-a", self.root, other], check=True)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, __file__, "--child", *words]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, cwd=self.work, env=self.environment, check=False)


def remove(folder: Path) -> None:
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
        shutil.rmtree(folder)


class Session(NamedTuple):
    """A stored session to disturb, and what its workspace was."""

    place: Place
    saved: Path  # a copy of it
    start: Shape  # before the first prompt
    second: Shape  # before the second
    end: Shape
    prompts: tuple[str, str]  # ids

    def restore(self) -> None:
        Place(self.saved).copy_to(self.place.root)


def make_session(root: Path) -> Session:
    place = Place(root / "session")
    place.root.mkdir()
    shapes: list[Shape] = []
    ids: list[str] = []

    def bash(command: str, id: str) -> Say:
        return Say.of({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}})

    async def main() -> None:
        replies = [bash(ONE, "t1"), Say.of("Done."), bash(TWO, "t2"), Say.of("Done.")]
        async with ModelServer(replies) as server:
            stage = Stage(server, place.root)
            subprocess.run(BEFORE, shell=True, cwd=place.work, check=True)  # noqa: ASYNC221  # before all else
            session = stage.open(checkpoints=True, permission_mode="bypassPermissions", session_id=ID)
            for text in ("one", "two"):
                shapes.append(place.shape())
                ids.append((await session.submit(text)).id)
                await read_until_idle(session)
                await session.checkpoints()
                if text == "one":
                    (place.work / "mine").write_text("of the user")
            await session.close()

    asyncio.run(main())
    place.copy_to(root / "saved")
    return Session(place, root / "saved", shapes[0], shapes[1], place.shape(), (ids[0], ids[1]))


# --- scenarios ------------------------------------------------------------------------------------------------


CallNumber = tuple[str, int]  # a system call, and its number among those of its kind


class Scenario(NamedTuple):
    session: Session
    words: tuple[str, ...]  # of the child
    before: Shape
    after: Shape  # if nothing disturbs it
    points: tuple[CallNumber, ...]


def make_scenario(name: str, root: Path) -> Scenario:
    """Its workspace is as the child finds it."""
    session = make_session(root)
    place = session.place
    words: tuple[str, ...] = ("rewind", ID, "--to", "1")
    if name == "checkpoint":
        words = ("checkpoint", str(place.root))
    elif name == "undo":
        assert not place.run(*place.command(*words)).returncode
        [undo] = [one.id for one in place.open_history().points() if one.cause == "rewind"]
        words = ("rewind", ID, "--to", undo, "--files")
    elif name == "recovery":
        points = list_points(session, words)
        session.restore()
        middle = [point for point in points if point[0] == "linkat"][2]
        assert kill_at(place, words, middle) == -signal.SIGKILL
        assert (place.store / "plan").exists()
        words = (*words, "--files")
    place.copy_to(session.saved)
    before = place.shape()
    points = list_points(session, words)
    return Scenario(session, words, before, place.shape(), tuple(points))


def list_points(session: Session, words: tuple[str, ...]) -> list[CallNumber]:
    """Runs it undisturbed. Calls that only open or read are left out: nothing has changed since the call before."""
    place = session.place
    trace = place.root.parent / "trace"
    done = place.run(*traced("-e", f"trace={','.join(CALLS)}", "-o", str(trace)), *place.command(*words))
    assert not done.returncode, done.stderr
    made: list[CallNumber] = []
    seen: dict[str, int] = {}
    threads = set[str]()
    for row in trace.read_text(errors="replace").splitlines():
        if match := re.match(r"(\d+) +(\w+)\((.*)", row):
            thread, call, rest = match.groups()
            threads.add(thread)
            seen[call] = seen.get(call, 0) + 1
            if call != "openat" or re.search("O_CREAT|O_TRUNC|O_TMPFILE", rest):
                made.append((call, seen[call]))
    assert len(threads) == 1, "the child has several threads"
    trace.unlink()
    return made


def kill_at(place: Place, words: tuple[str, ...], point: CallNumber) -> int:
    call, number = point
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", "-o", "/dev/null")
    return place.run(*traced(*inject), *place.command(*words)).returncode


# --- checks ---------------------------------------------------------------------------------------------------


def try_point(scenario: Scenario, way: str, point: CallNumber) -> None:
    session = scenario.session
    place = session.place
    session.restore()
    journal = place.file.read_bytes()
    code = kill_at(place, scenario.words, point)
    assert code == -signal.SIGKILL, f"ended with {code}"
    found, pending = place.shape(), (place.store / "plan").exists()
    is_checkpoint = scenario.words[0] == "checkpoint"
    told = asyncio.run(start_again(place, way, ("--list",) if is_checkpoint else (*scenario.words[2:4], "--files")))
    if is_checkpoint:
        assert not told, told
        check_checkpoint(scenario, found)
        return
    now = place.shape()
    assert pending == (INTERRUPTED in told), f"there was {'a' if pending else 'no'} plan; it said: {told!r}"
    wanted = [scenario.after] if pending or way == "command" else [scenario.before, scenario.after]
    assert now in wanted, f"the workspace is neither as before nor as after: {differences(now, scenario.after)}"
    assert pending or found in (scenario.before, scenario.after), "files were touched without a plan"
    assert place.file.read_bytes().startswith(journal), "the session's file was changed"
    assert not left_over(place.work), f"left over: {left_over(place.work)}"
    check_history(scenario, now)


def differences(one: Shape, other: Shape) -> list[object]:
    """A few of them."""
    found = sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
    return [(path, one.get(path), other.get(path)) for path in found[:3]]


async def start_again(place: Place, way: str, words: tuple[str, ...]) -> str:
    """What the next start says. `words`: of `mainspring rewind`."""
    told: list[str] = []
    if way == "command":
        done = await asyncio.to_thread(place.run, sys.executable, "-m", "mainspring", "rewind", ID, *words)
        assert not done.returncode, done.stderr
        return done.stderr
    if way == "library":
        agent = Agent(cwd=place.work, env=place.environment, checkpoints=True, setting_sources=["user"])
        with logged(told):
            async with agent.session(resume=ID):
                pass
        return "\n".join(told)
    async with ModelServer([]) as server:
        stage = Stage(server, place.root)
        session = stage.open(checkpoints=way == "resume", resume=ID)
        await session.start()
        await session.close()
        return "\n".join(stage.told)


@contextmanager
def logged(told: list[str]) -> Iterator[None]:
    """The warnings of the library, of this thread."""
    handler, thread = logging.Handler(), threading.get_ident()

    def take(record: logging.LogRecord) -> None:
        if record.thread == thread:
            told.append(record.getMessage())

    handler.emit = take  # type: ignore[method-assign]  # a class for one line would be longer
    logger = logging.getLogger("mainspring")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def check_checkpoint(scenario: Scenario, found: Shape) -> None:
    """All listed checkpoints can be restored, and no file was written before its checkpoint was listed."""
    session, place = scenario.session, scenario.session.place
    assert place.shape() == found, "a start has changed the workspace"
    with opened_history(place) as history:
        listed = [one.prompt_id for one in history.prompts()]
        assert listed[:2] == list(session.prompts)
        assert found == scenario.before or listed[2:] == ["p3"], "a file was written before its checkpoint was there"
        shapes = dict(zip((*session.prompts, "p3"), (session.start, session.second, scenario.before), strict=True))
        for prompt in listed[::-1]:
            rewind(history, place, prompt)
            wanted = shapes[prompt]
            if "p3" not in listed or prompt == "p3":
                assert place.shape() == wanted, f"{prompt}: {differences(place.shape(), wanted)}"
            else:  # what no checkpoint covers is restored as it was when a tool changed it
                ignored = os.fsencode(place.work / "ignored")
                assert {**place.shape(), ignored: 0} == {**wanted, ignored: 0}, prompt
    check_store(place)


def check_history(scenario: Scenario, now: Shape) -> None:
    """Every prompt can be gone back to, and the rewind be undone."""
    session, place = scenario.session, scenario.session.place
    with opened_history(place) as history:
        undo = [one.id for one in history.points() if one.cause == "rewind"]
        assert undo or now == scenario.before
        for prompt, shape in zip(session.prompts, (session.start, session.second), strict=True):
            rewind(history, place, prompt)
            assert place.shape() == shape, f"{prompt}: {differences(place.shape(), shape)}"
        for first in undo[:1]:  # of all rewinds
            rewind(history, place, first)
            assert place.shape() == session.end, f"undone: {differences(place.shape(), session.end)}"
    check_store(place)


def check_store(place: Place) -> None:
    with open_store(str(place.store)) as store:
        store.lock()
        packs = {one.pack for one in store.contents.values()}
        assert {one.name for one in (place.store / "packs").iterdir()} == packs, "packs without a record"
        assert all(store.read(digest) is not None for digest in store.contents), "a content is damaged"
    assert not (place.store / "plan").exists()


@contextmanager
def opened_history(place: Place) -> Iterator[FileHistory]:
    history = place.open_history()
    try:
        yield history
    finally:
        history.close()


def rewind(history: FileHistory, place: Place, to: str) -> None:
    work = str(place.work)
    report = history.restore(history.plan(to, (work,), [work], dry_run=False, at=1), {}, 1)
    assert not report.failed, report.failed


# --- all of it ------------------------------------------------------------------------------------------------


class Bench:
    """One scenario in a folder of its own."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="crash-undo-")).resolve()
        self._scenario = make_scenario(name, self.folder)
        self.points = self._scenario.points

    def try_one(self, todo: tuple[str, CallNumber]) -> str | None:
        way, point = todo
        try:
            try_point(self._scenario, way, point)
        except Exception as error:  # noqa: BLE001  # counted and shown
            return f"killed at {point[0]} {point[1]}, then {way}: {error!r}"
        return None

    def close(self) -> None:
        remove(self.folder)


@contextmanager
def bench_of(name: str) -> Iterator[Bench]:
    bench = Bench(name)
    try:
        yield bench
    finally:
        bench.close()


def try_share(name: str, every: int, share: int, shares: int) -> tuple[int, list[str]]:
    """In a process of its own: a program that another thread starts would hold the locks of this one for a moment."""
    with bench_of(name) as bench:
        todo = list(zip(cycle(WAYS), bench.points[::every], strict=False))[share::shares]
        return len(todo), [error for error in map(bench.try_one, todo) if error]


def main(names: Iterable[str] = SCENARIOS, every: int = 1) -> int:
    wrong = total = 0
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for name in names:
            shares = list(pool.map(partial(try_share, name, every, shares=workers), range(workers)))
            count, errors = sum([tried for tried, _ in shares]), [error for _, found in shares for error in found]
            total, wrong = total + count, wrong + len(errors)
            print(f"{name:<12} {count:>4} points, {len(errors)} wrong", flush=True)
            for error in errors[:10]:
                print(f"    {error}")
    print(f"{total} kills of checkpoints and rewinds; {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="all by default")
    parser.add_argument("--every", type=int, default=1, help="only every so many of the points")
    given = parser.parse_args()
    sys.exit(main(given.scenarios or SCENARIOS, given.every))
