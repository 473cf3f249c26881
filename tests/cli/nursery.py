"""Programs that take long to load, loaded once and begun by a fork: to import `mcp` takes more than a second.

Who starts one starts `front.py`, a real process with real pipes, within milliseconds. It hands its pipes, its words,
its folder and its environment to the nursery, which forks; it ends as the program ends, passes signals on, and takes
the program with it when it is killed. To the program it looks like a start, but for the number of its parent and for
modules that are there already: what is about starting, about who loads what, or about families of processes, starts
the real thing.
"""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

FRONT = str(Path(__file__).with_name("front.py"))
KEEP = str(Path(__file__).with_name("nursery_keep.py"))


def begun(program: str, *words: str) -> list[str]:
    """A command that begins it: 'mainspring' or the path of a server in `mcp_servers`."""
    return [sys.executable, "-ISB", FRONT, nursery(), program, *words]


@functools.cache
def program() -> str:
    """The same for who wants the path of a program, and says the words behind it."""
    door = nursery()
    place = Path(door).with_name("mainspring")
    begin = f"sys.argv[1:1] = {[door, 'mainspring']!r}; exec(open({FRONT!r}).read())"
    place.write_text(f"#!{sys.executable} -ISB\nimport sys\n{begin}\n")
    place.chmod(0o700)
    return str(place)


@functools.cache
def nursery() -> str:
    """Where it listens. One for each process of tests, and it ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="nursery-")
    place = f"{folder.name}/door"
    keep = subprocess.Popen([sys.executable, KEEP, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keep.stdin is not None
    assert keep.stdout is not None
    assert keep.stdout.readline() == b"ready\n"
    keep.stdout.close()

    def end() -> None:
        assert keep.stdin is not None
        keep.stdin.close()
        keep.wait()
        folder.cleanup()

    atexit.register(end)
    return place
