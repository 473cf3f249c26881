"""Starts a program that can read only some folders and files (security F1).

A program that walks folders opens files by name. If one of the folders is replaced by a link meanwhile, the name leads
elsewhere, and no argument of the program can prevent that. Landlock can: its rules are about the folders themselves,
not about names.

Landlock restricts a thread and everything that the thread starts. So a new thread restricts itself, starts the
program, and ends. That costs 0.2 ms, where a helper program costs 15, and no code of ours runs between fork and exec.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import TypeVar

# Library folders of loaders.
LIBRARIES = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload"),
)
READ = 1 << 2 | 1 << 3  # files, folders: as `landlock.Right` has them
SECONDS = 5.0

Started = TypeVar("Started")


def start_confined(start: Callable[[], Started], readable: Iterable[int]) -> Started:
    """Returns the result of `start`, which runs in a thread that can read only what these descriptors refer to, and
    below. Raises `OSError` if the restriction cannot be applied: then `start` was not called.
    """
    returned: list[Started] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _restrict_thread(readable)
            returned.append(start())
        except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits for it
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return returned[0]


def _restrict_thread(readable: Iterable[int]) -> None:
    from mainspring.processes import landlock_helper as landlock

    try:
        ruleset = landlock.new_ruleset(READ, landlock.landlock_version())
        try:
            for descriptor in readable:
                landlock.allow_descriptor(ruleset, READ, descriptor, str(descriptor))
            landlock.enforce_ruleset(ruleset)
        finally:
            os.close(ruleset)
    except landlock.LandlockError as error:
        raise OSError(0, str(error)) from None


@contextlib.contextmanager
def hold_descriptors(paths: Iterable[str]) -> Generator[tuple[int, ...]]:
    """Descriptors of the existing ones; of a link, of its target. For paths that no command can swap."""
    found: list[int] = []
    try:
        for path in paths:
            with contextlib.suppress(OSError):
                found.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
        yield tuple(found)
    finally:
        for descriptor in found:
            os.close(descriptor)


@cache
def can_be_confined(program: str) -> bool:
    """Whether a program of the system works with only its own file and libraries. A script does not, nor does a program
    that starts others.
    """
    if sys.platform != "linux":
        return False
    from mainspring.processes import landlock_helper as landlock

    if not landlock.landlock_version():
        return False
    try:
        with hold_descriptors((program, *LIBRARIES)) as readable, open(os.devnull, "r+b") as null:  # noqa: PTH123
            child = start_confined(
                lambda: subprocess.Popen([program, "--version"], stdin=null, stdout=null, stderr=null, env={}),  # noqa: S603
                readable,
            )
    except OSError:
        return False
    try:
        return child.wait(SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        child.kill()
        child.wait()
