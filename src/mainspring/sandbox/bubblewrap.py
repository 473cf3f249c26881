"""The walls as bubblewrap's arguments (security X3). Values in, a list of words out: nothing is touched here.

A profile is a list of mounts and the namespaces around them. Mounts are made from the root downwards, whatever the
order in which they were named, so that what is said of an inner folder holds within an outer one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mainspring.core.errors import UsageError
from mainspring.processes.paths import is_within

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # in there these are private
KERNEL = ("/dev", "/proc", "/sys")  # no place for a project
VERSION = 2  # of the walls; a probe's answer holds for one of them


class SandboxError(UsageError):
    """The sandbox cannot be had, or not like this. The message says why and what to do."""


class SandboxPathAccess(StrEnum):
    """How a place is seen inside. Of two for one place, the later one in this list is in force."""

    WRITE = "write"
    READ = "read"
    EMPTY = "empty"  # a folder that is not there outside
    NO_FILE = "no file"  # there is an empty one, which cannot be opened
    NO_FOLDER = "no folder"  # the same


class SandboxPath(NamedTuple):
    path: str  # absolute and real
    access: SandboxPathAccess
    source: str = ""  # what is seen there; empty: itself


class BubblewrapProfile(NamedTuple):
    program: str  # bubblewrap
    temp: str  # a folder that is ours alone
    nothing: str  # an empty file without any rights
    places: tuple[SandboxPath, ...] = ()
    net: bool = False  # whether it is started in a network namespace of the sandbox, and stays there


NAMESPACES = (
    "--unshare-user", "--disable-userns",  # as root, too: its rights end at this namespace
    "--unshare-pid", "--unshare-ipc", "--unshare-uts",
    "--cap-drop", "ALL",
    "--new-session",  # nobody's terminal
    "--die-with-parent",
)  # fmt: skip
# `/run` holds the sockets and pipes of services; a pipe can be written to in a read-only folder, too.
SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--perms", "0755", "--tmpfs", "/run")
# Bubblewrap leaves a new `/proc/sys` as it is when the folder itself cannot be written, but root can write the files in
# it all the same, without any capability: found by our own probe.
SETTINGS = ("--ro-bind", "/proc/sys", "/proc/sys")


def bubblewrap_arguments(profile: BubblewrapProfile, *, cwd: str, seccomp: int) -> list[str]:
    """What stands before the command. `seccomp`: the descriptor from which the filter is read."""
    words = [profile.program, *NAMESPACES]
    if not profile.net:
        words.append("--unshare-net")
    words += [*SYSTEM, *SETTINGS]
    for place, source in _downwards(profile):
        words += _mount(place, source, profile.nothing)
    return [*words, "--seccomp", str(seccomp), "--chdir", cwd, "--"]


def check_workspace(path: str) -> None:
    if path == "/" or any(is_within(path, folder) for folder in KERNEL):
        raise SandboxError(
            f"'{path}' cannot be a working folder in the sandbox: start in a project's folder, or switch the sandbox "
            "off in your own settings"
        )


def _downwards(profile: BubblewrapProfile) -> list[tuple[SandboxPath, str]]:
    """Each with what is mounted there. One mount for each path: the strictest."""
    order = list(SandboxPathAccess)
    strictest: dict[str, SandboxPath] = {}
    for place in profile.places:
        known = strictest.get(place.path)
        if known is None or order.index(place.access) > order.index(known.access):
            strictest[place.path] = place
    wanted = [(place, place.source or path) for path, place in strictest.items() if _seen(path, profile)]
    temps = [folder for folder in TEMPORARY if folder not in strictest]
    wanted += [(SandboxPath(folder, SandboxPathAccess.WRITE), profile.temp) for folder in temps]
    return sorted(wanted, key=lambda one: (one[0].path.count("/"), one[0].path))


def _seen(path: str, profile: BubblewrapProfile) -> bool:
    """What is hidden by our own temporary folders needs no mask: it would only be made there."""
    hidden = any(is_within(path, folder) for folder in (*TEMPORARY, "/run"))
    return not hidden or any(
        is_within(path, place.path) for place in profile.places if place.access is SandboxPathAccess.WRITE
    )


def _mount(place: SandboxPath, source: str, nothing: str) -> list[str]:
    match place.access:
        case SandboxPathAccess.WRITE:
            return ["--bind", source, place.path]
        case SandboxPathAccess.READ:
            return ["--ro-bind", source, place.path]
        case (
            SandboxPathAccess.EMPTY
        ):  # cheaper than to mount it on itself; who opens it up writes into what is gone at the end
            return ["--perms", "0555", "--tmpfs", place.path]
        case SandboxPathAccess.NO_FILE:
            return ["--ro-bind", nothing, place.path]
        case SandboxPathAccess.NO_FOLDER:
            return ["--perms", "0000", "--tmpfs", place.path]
