"""Somebody swaps folders, files and links while a tool works: nothing outside is ever touched (security F1).

First at every system call, one after the other; then by a second process that never stops.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiers import long

from mainspring.processes import atomic_write
from mainspring.processes.atomic_write import digest, write_atomically
from mainspring.processes.paths import PathRefused, is_inside_all, resolve_path
from mainspring.processes.safe_open import read_resolved_file
from processes.steps import Steps, left_over, open_descriptors, snapshot

SECRET, INSIDE = b"secret", b"inside"


class World:
    """A workspace, and something outside that looks the same."""

    def __init__(self, base: Path) -> None:
        self.base, self.ws, self.out = base, base / "ws", base / "out"
        shutil.rmtree(base, ignore_errors=True)
        for root, content in ((self.ws, INSIDE), (self.out, SECRET)):
            (root / "a/b").mkdir(parents=True)
            (root / "a/b/f").write_bytes(content)
            (root / "f").write_bytes(content)
        (self.ws / "l").symlink_to("a/b/f")
        (self.ws / "d").symlink_to("a")
        self.before = snapshot(self.out)

    def untouched(self) -> bool:
        return snapshot(self.out) == self.before

    def aside(self, name: str) -> Path:
        place = self.ws / name
        place.rename(self.base / f"aside-{name.replace('/', '-')}")
        return place


# --- what is swapped --------------------------------------------------------------------------------


def parent_to_link(world: World) -> None:
    world.aside("a/b").symlink_to(world.out / "a/b")


def grandparent_to_link(world: World) -> None:
    world.aside("a").symlink_to(world.out / "a")


def workspace_to_link(world: World) -> None:
    world.ws.rename(world.base / "aside")
    world.ws.symlink_to(world.out)


def file_to_link(world: World) -> None:
    (world.ws / "a/b/f").unlink(missing_ok=True)
    (world.ws / "a/b/f").symlink_to(world.out / "f")


def new_to_link(world: World) -> None:
    """A dangling one, too, would let a careless write make a file outside."""
    (world.ws / "a/b/new").unlink(missing_ok=True)
    (world.ws / "a/b/new").symlink_to(world.out / "made")


def new_folder_to_link(world: World) -> None:
    shutil.rmtree(world.ws / "a/x", ignore_errors=True)
    (world.ws / "a/x").symlink_to(world.out / "a")


def file_to_pipe(world: World) -> None:
    (world.ws / "a/b/f").unlink()
    os.mkfifo(world.ws / "a/b/f")


def file_to_folder(world: World) -> None:
    (world.ws / "a/b/f").unlink()
    (world.ws / "a/b/f").mkdir()


def link_to_outside(world: World) -> None:
    (world.ws / "l").unlink()
    (world.ws / "l").symlink_to(world.out / "f")


def folder_link_to_outside(world: World) -> None:
    (world.ws / "d").unlink()
    (world.ws / "d").symlink_to(world.out / "a")


def parent_gone(world: World) -> None:
    shutil.rmtree(world.ws / "a")


def parent_moved_away(world: World) -> None:
    (world.ws / "a/b").rename(world.base / "away")


SWAPS = [
    parent_to_link,
    grandparent_to_link,
    workspace_to_link,
    file_to_link,
    new_to_link,
    new_folder_to_link,
    file_to_pipe,
    file_to_folder,
    link_to_outside,
    folder_link_to_outside,
    parent_gone,
    parent_moved_away,
]


# --- what is done, as a tool does it: resolve, decide, act ------------------------------------------


def decide(world: World, asked: str) -> tuple[bytes | None, Callable[[bytes], object]]:
    """What can be read there, and a way to write it. Raises if it is outside."""
    path = resolve_path(asked, str(world.ws))
    if not is_inside_all(path, [ROOT]):
        raise PathRefused("outside")
    found = read_resolved_file(path, limit=100) if path.kind == "file" else None
    before = None if found is None else digest(found)
    return found, lambda data: write_atomically(path, data, before=before)


def read_it(world: World, asked: str) -> bytes | None:
    return decide(world, asked)[0]


def write_it(world: World, asked: str) -> bytes | None:
    found, write = decide(world, asked)
    write(b"written")
    return found


ACTS = [(act, asked) for act in (read_it, write_it) for asked in ("a/b/f", "l", "d/b/f")] + [
    (read_it, "../ws/a/b/../b/f"),
    (write_it, "a/b/new"),
    (write_it, "a/x/b/new"),
    (write_it, "d/b/new"),
]
ROOT = resolve_path("/", "/")  # set for each test


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory, where that is possible, and not deep: there are some ten thousand rounds."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(os.path.realpath(tempfile.mkdtemp(dir=memory)))
    (place / "ws").mkdir()
    monkeypatch.setitem(globals(), "ROOT", resolve_path("ws", str(place)))  # what was agreed to does not change later
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("one_in", [7, long(1)])
@pytest.mark.parametrize(
    ("swap", "named"), [*[(swap, False) for swap in SWAPS], (parent_to_link, True), (new_to_link, True)]
)
def test_a_swap_at_every_system_call(
    base: Path, swap: Callable[[World], None], named: bool, one_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named:
        monkeypatch.setattr(atomic_write, "_NAMELESS", 0)
    rounds = 0
    descriptors = open_descriptors()
    for number, (act, asked) in enumerate(ACTS):
        for at in range(number % one_in, 1_000, one_in):
            world = World(base)
            with Steps(at, lambda world=world: swap(world)) as steps:  # type: ignore[misc]
                try:
                    found = act(world, asked)
                except (PathRefused, OSError):
                    found = None
            rounds += 1
            assert world.untouched(), (act.__name__, asked, at)
            assert found != SECRET, (act.__name__, asked, at)
            assert left_over(base) == [], (act.__name__, asked, at)
            assert open_descriptors() == descriptors, (act.__name__, asked, at)
            if at >= steps.count:
                break
    assert rounds > 300 // one_in


# Two names change places in one system call, so that neither is ever missing.
SWAPPER = """
import ctypes, os, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
ws = os.fsencode(sys.argv[1])
print("ready", flush=True)
while True:
    for one, other in ((b"/a/b", b"/a/link"), (b"/l", b"/l2")):
        if renameat2(-100, ws + one, -100, ws + other, 2):
            sys.exit(os.strerror(ctypes.get_errno()))
"""


@pytest.mark.parametrize("rounds", [500, long(5_000)])
def test_a_swap_at_any_time(base: Path, rounds: int) -> None:
    """Against a process that swaps the parent and a link without a pause."""
    world = World(base)
    (world.ws / "a/link").symlink_to(world.out / "a/b")
    (world.ws / "l2").symlink_to(world.out / "f")
    tally = {"done": 0, "refused": 0}
    with subprocess.Popen([sys.executable, "-c", SWAPPER, world.ws], stdout=subprocess.PIPE, text=True) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == "ready\n"
            end = time.monotonic() + 60
            while sum(tally.values()) < rounds or (0 in tally.values() and time.monotonic() < end):
                assert swapper.poll() is None
                number = sum(tally.values())
                act, asked = (read_it, write_it)[number % 2], ("a/b/f", "l", "d/b/f")[number % 3]
                try:
                    assert act(world, asked) != SECRET
                    tally["done"] += 1
                except (PathRefused, OSError):
                    tally["refused"] += 1
        finally:
            swapper.kill()
    assert world.untouched()
    assert left_over(base) == []
    assert min(tally.values()) > 0, tally  # both happened, so there was a race
