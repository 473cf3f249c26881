"""A command that still runs in the sandbox swaps folders while the sandbox of the next one is built."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.steps import snapshot

from mainspring.processes.children import Children, ProcessResult
from mainspring.sandbox import placeholders
from mainspring.sandbox.bubblewrap import BubblewrapProfile, SandboxPath, SandboxPathAccess, bubblewrap_arguments
from mainspring.sandbox.git_quarantine import move_aside
from mainspring.sandbox.run import REFUSED, Mount, check_before, escape_mount_path, find_mount_sources
from sandbox.walls import ENV, LINUX, Box, seen_folder

pytestmark = LINUX
COMMANDS = 100

# Two names change places in one system call.
SWAPPER = """
import ctypes, os
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
open("ready", "w").close()
while not os.path.exists("stop"):
    renameat2(-100, b"d", -100, b"link", 2)
"""


@pytest.fixture
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


def test_nothing_from_outside_is_mounted_where_it_could_be_written(base: Path) -> None:
    """`d` holds a repository, so it is mounted by its name, and can be written; `link` leads to `out`."""
    box = Box(base)
    (box.work / "d/sub").mkdir(parents=True)
    (box.work / "link").symlink_to(base / "out")
    (base / "out/sub/.git").mkdir(parents=True)
    (box.work / "swapper.py").write_text(SWAPPER)
    before = snapshot(base / "out")

    async def main() -> list[ProcessResult]:
        children = Children(around=box.sandbox.around)
        sub = os.open(box.work / "d/sub", os.O_PATH | os.O_CLOEXEC)  # soon its name may be any of two
        swapper = asyncio.create_task(children.run(box.job("/usr/bin/python3 -I swapper.py")))
        while not (box.work / "ready").exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
        os.mkdir(".git", dir_fd=sub)  # later than the swapper began: for it, it is no protected place
        os.close(sub)
        ended = [await children.run(box.job(f"touch d/{n} d/sub/{n} link/{n} link/sub/{n}")) for n in range(COMMANDS)]
        (box.work / "stop").touch()
        await swapper
        return ended

    ended = asyncio.run(main())
    assert snapshot(base / "out") == before
    for one in ended:  # it was refused before it ran, or it ran and met nothing but the workspace and closed doors
        refused = one.stdout.text.startswith("bwrap: ") or one.code == REFUSED
        assert refused or all(line.endswith(": Read-only file system") for line in one.stdout.text.splitlines())
    # In either state that the swapper leaves, the same command gets through: nothing else kept it from `out`.
    for name, other in (("d", "link"), ("link", "d")):
        if (box.work / name).is_symlink():
            exchange(box.work / name, box.work / other)
        inside = box.run(f"touch {name}/last && echo done; touch {other}/last; touch {other}/sub/last")
        assert inside.stdout.text.splitlines()[0] == "done", name
        assert (box.work / name / "last").exists()
        (box.work / name / "last").unlink()
    box.sandbox.close()
    assert snapshot(base / "out") == before


def exchange(one: Path, other: Path) -> None:
    aside = one.rename(one.with_name("aside"))
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("source", ["out", "work/other"])
def test_a_mount_from_elsewhere_is_noticed_before_the_command_runs(base: Path, source: str) -> None:
    """As if the name had led there when bubblewrap looked. Within the workspace it may have been moved."""
    box = Box(base)
    (box.work / "d").mkdir()
    (box.work / "other").mkdir()
    nothing = base / "nothing"
    nothing.touch()
    places = (
        SandboxPath(str(box.work), SandboxPathAccess.WRITE),
        SandboxPath(str(box.work / "d"), SandboxPathAccess.WRITE, str(base / source)),
    )
    profile = BubblewrapProfile(box.program, str(base / "temp"), str(nothing), places)
    words = [word for word in bubblewrap_arguments(profile, cwd="/", seccomp=0) if word not in ("--seccomp", "0")]
    check = check_before("/bin/sh", [str(box.work)], Path("/proc/self/mountinfo").read_text())
    command = [*words, *check, "/bin/sh", "-c", f"touch {box.work}/d/here; echo \"$0\" '*'", "a  b"]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=30, check=False)
    if source == "out":
        assert (done.returncode, done.stdout) == (REFUSED, "")
        assert f"'{box.work}/d' was swapped while the sandbox was set up" in done.stderr
        assert list((base / "out").iterdir()) == []
    else:
        assert (done.returncode, done.stdout) == (0, "a  b *\n")  # its words are as they were
        assert (box.work / "other/here").exists()


def test_where_a_folder_comes_from() -> None:
    mounts = [Mount("8:1", "/", "/"), Mount("8:2", "/@home", "/home"), Mount("8:3", "/", "/home/me/w/data")]
    assert find_mount_sources("/home/me/w", mounts) == [Mount("8:2", "/@home/me/w", "/home"), mounts[2]]
    assert find_mount_sources("/srv", mounts) == [Mount("8:1", "/srv", "/")]
    over = Mount("8:4", "/x", "/home")
    assert find_mount_sources("/home/me", [*mounts[:2], over]) == [Mount("8:4", "/x/me", "/home")]
    assert find_mount_sources("/home", []) == []
    assert escape_mount_path("/a b\\c\td\n") == "/a\\040b\\134c\\011d\\012"


def test_names_with_odd_characters_are_compared_as_the_kernel_spells_them(base: Path) -> None:
    odd = base / "a b\\c*[x]"
    odd.mkdir()
    box = Box(odd)
    (box.work / "d e/sub/.git").mkdir(parents=True)
    ended = box.run("touch 'd e/here' && echo done")
    box.sandbox.close()
    assert (ended.stdout.text, ended.code) == ("done\n", 0)


def test_what_is_moved_aside_or_held_is_not_reached_through_a_link(base: Path) -> None:
    (base / "work").mkdir()
    (base / "out").mkdir()
    (base / "out/.git").mkdir()
    (base / "work/d").symlink_to(base / "out")
    assert "could not be moved away" in move_aside(f"{base}/work/d/.git", "it", f"{base}/aside")
    held = placeholders.Placeholders(f"{base}/work", str(base))
    assert held.hold([f"{base}/work/d/.mcp.json"]) == set()
    held.release()
    held.close()
    assert [path.name for path in (base / "out").iterdir()] == [".git"]
