"""The environment of the user's login shell, after its start-up files: above all its PATH.

For programs that were not started from a terminal. The shell runs once, off the start path, in the home folder, so
that it reads no file of a project (security T1). Variables that do not pass to programs (`environment.py`) do not pass
here either.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.processes.child import ProcessLimits, ProcessSpec
from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment, find_program
from mainspring.processes.output import OutputSizes

SECONDS = 10.0  # start-up files may do anything, also wait for a key
SHELLS = ("bash", "zsh")  # with known options
ROOM = 1_000_000  # bytes of an environment


async def login_environment(
    children: Children, environ: Mapping[str, str], *, home: str, seconds: float = SECONDS
) -> dict[str, str]:
    """The variables that the shell adds: missing ones, and its PATH. Empty if it does not answer in time.

    An existing value stays: it may come from an activated environment, of which the shell knows nothing.
    """
    shell = _shell(environ.get("SHELL", ""))
    if shell is None:
        return {}
    mark = os.urandom(16).hex()  # start-up files may print, too
    argv = (shell, "-l", "-i", "-c", f"printf '%s\\0' {mark}; env -0")
    before = child_environment(environ)
    try:
        ended = await children.run(
            ProcessSpec(argv, home, before, ProcessLimits(seconds, OutputSizes(head=0, tail=ROOM)))
        )
    except OSError:
        return {}
    _, found, rest = ended.stdout.data.partition(mark.encode() + b"\0")
    if not found or ended.timed_out:
        return {}
    pairs = [os.fsdecode(line).partition("=") for line in rest.split(b"\0") if b"=" in line]
    after = child_environment({name: value for name, _, value in pairs})
    added = {name: value for name, value in after.items() if name not in before}
    return added | {"PATH": _joined(before.get("PATH", ""), after.get("PATH", ""))}


def _joined(ours: str, its: str) -> str:
    """The entries that only we have, then the shell's in its order."""
    known = its.split(":")
    return ":".join([*[folder for folder in ours.split(":") if folder and folder not in known], *known])


def _shell(named: str) -> str | None:
    if named.startswith("/") and named.rpartition("/")[2] in SHELLS and os.access(named, os.X_OK):
        return named
    return find_program("bash")
