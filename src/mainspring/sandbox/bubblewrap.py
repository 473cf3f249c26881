"""The sandbox as bubblewrap's arguments, and its filter of system calls (security X3). Pure functions of values.

A profile is a list of mounts and the namespaces around them. Mounts are made from the root downwards, in whatever
order they are listed, so that a mount of an inner folder takes effect within an outer one.

The filter is a table of system calls that are refused, and five that are inspected: which sockets, which terminal
requests, which clones. All others are allowed: ordinary programs use hundreds of calls, and a list of allowed ones
breaks them with each new C library. Namespaces and mounts confine the command; the filter removes the calls with which
sandboxes were broken in the past. Calls of a foreign architecture have other numbers, so they end the process.
"""

from __future__ import annotations

import errno
import platform
import struct
from enum import StrEnum
from typing import NamedTuple

from mainspring.core.errors import UsageError
from mainspring.processes.paths import is_within

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # in there these are private
KERNEL = ("/dev", "/proc", "/sys")  # not valid as a project folder
VERSION = 2  # of the sandbox; a stored probe result applies to one version


class SandboxError(UsageError):
    """The sandbox is not available, or not with this profile. The message says why and what to do."""


class SandboxPathAccess(StrEnum):
    """How a path appears inside. Of two for one path, the later one in this list wins."""

    WRITE = "write"
    READ = "read"
    EMPTY = "empty"  # a folder that does not exist outside
    NO_FILE = "no file"  # an empty one, which cannot be opened
    NO_FOLDER = "no folder"  # the same


class SandboxPath(NamedTuple):
    path: str  # absolute and real
    access: SandboxPathAccess
    source: str = ""  # what is mounted there; empty: itself


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
    "--new-session",  # without a controlling terminal
    "--die-with-parent",
)  # fmt: skip
# `/run` contains the sockets and pipes of services; a pipe can be written to in a read-only folder, too.
SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--perms", "0755", "--tmpfs", "/run")
# Bubblewrap leaves a new `/proc/sys` as it is when the folder itself cannot be written, but root can write the files in
# it all the same, without any capability: found by our own probe.
SETTINGS = ("--ro-bind", "/proc/sys", "/proc/sys")


def bubblewrap_arguments(profile: BubblewrapProfile, *, cwd: str, seccomp: int, gate: int | None = None) -> list[str]:
    """The arguments before the command. `seccomp`: the descriptor from which the filter is read. `gate`: the one at
    which it waits when all is mounted but what needs a placeholder (`processes/waiting.py`)."""
    words = [profile.program, *NAMESPACES]
    if not profile.net:
        words.append("--unshare-net")
    words += [*SYSTEM, *SETTINGS]
    mounts = _downwards(profile)
    if gate is not None:  # nothing is mounted below a path that does not exist, so these can come last
        mounts.sort(key=lambda one: one[0].access is SandboxPathAccess.EMPTY)
    first = next((n for n, (place, _) in enumerate(mounts) if place.access is SandboxPathAccess.EMPTY), len(mounts))
    for number, (place, source) in enumerate(mounts):
        if gate is not None and number == first:
            words += _wait_at(gate)
        words += _mount(place, source, profile.nothing)
    if gate is not None and first == len(mounts):
        words += _wait_at(gate)
    return [*words, "--seccomp", str(seccomp), "--chdir", cwd, "--"]


def _wait_at(gate: int) -> list[str]:
    """Bubblewrap copies from the descriptor until its end, which is for us to make."""
    return ["--file", str(gate), "/dev/null"]


def check_workspace(path: str) -> None:
    if path == "/" or any(is_within(path, folder) for folder in KERNEL):
        raise SandboxError(
            f"'{path}' cannot be a working folder in the sandbox: start in a project folder, or switch the sandbox "
            "off in your own settings"
        )


def _downwards(profile: BubblewrapProfile) -> list[tuple[SandboxPath, str]]:
    """Each path with its mount. One mount for each path: the strictest."""
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
    """A path that our own temporary folders hide needs no mask: the mask would only be created there."""
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
        case SandboxPathAccess.EMPTY:  # cheaper than a bind mount; writes into it are lost at the end
            return ["--perms", "0555", "--tmpfs", place.path]
        case SandboxPathAccess.NO_FILE:
            return ["--ro-bind", nothing, place.path]
        case SandboxPathAccess.NO_FOLDER:
            return ["--perms", "0000", "--tmpfs", place.path]


class MachineType(NamedTuple):
    audit: int  # how the kernel names the architecture
    column: int  # of the table
    calls: dict[str, int]  # those that are inspected
    x32: bool = False  # a second set of numbers for the same architecture


MACHINES: dict[str, MachineType] = {
    "x86_64": MachineType(
        0xC000003E,
        0,
        {"socket": 41, "socketpair": 53, "ioctl": 16, "clone": 56, "unshare": 272, "clone3": 435},
        x32=True,
    ),
    "aarch64": MachineType(
        0xC00000B7, 1, {"socket": 198, "socketpair": 199, "ioctl": 29, "clone": 220, "unshare": 97, "clone3": 435}
    ),
}

NONE = -1  # this machine has no such call

# Numbers on x86_64 and on aarch64.
DENIED: dict[str, tuple[int, int]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "perf_event_open": (298, 241),
    # large and young parts of the kernel, and common bases of exploits
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    # keys: they have no namespace
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "setns": (308, 268), "open_by_handle_at": (304, 265),
    # the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, NONE), "ioperm": (173, NONE), "lookup_dcookie": (212, 18),
}  # fmt: skip

# Only these kinds of `socket` are allowed. AF_UNIX reaches servers through files, and AF_VSOCK the host of a virtual
# machine, in spite of the network namespace.
FAMILIES = {"AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
# `socketpair` makes AF_UNIX only, and both ends belong to the program; but with datagrams each end can send to any
# other address as well: found by our own probe.
PAIRS = {"SOCK_STREAM": 1, "SOCK_SEQPACKET": 5}
PAIR_TYPE = 0xF  # the rest are flags
TERMINAL = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}  # both write input into the terminal of the parent
NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_TIME = 0x80  # CLONE_NEWTIME; for `clone` these bits are the exit signal

# --- BPF ----------------------------------------------------------------------------------------------------------

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # their offsets in `struct seccomp_data`
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000


class BpfInstruction(NamedTuple):
    code: int
    value: int
    if_so: int = 0  # lines to skip
    if_not: int = 0


def detect_machine() -> MachineType | None:
    """This machine. None: there is no filter for it, so there is no sandbox."""
    return MACHINES.get(platform.machine())


def filter_for(machine: MachineType, families: tuple[int, ...] = tuple(FAMILIES.values())) -> bytes:
    """`families`: allowed socket families."""
    program = build_filter_lines(machine, families)
    return b"".join([struct.pack("=HBBI", line.code, line.if_so, line.if_not, line.value) for line in program])


def build_filter_lines(
    machine: MachineType, families: tuple[int, ...] = tuple(FAMILIES.values())
) -> list[BpfInstruction]:
    calls = machine.calls
    refuse = BpfInstruction(_RETURN, _ERROR | errno.EPERM)
    start = [
        BpfInstruction(_LOAD, _ARCHITECTURE),
        BpfInstruction(_EQUAL, machine.audit, 1, 0),
        BpfInstruction(_RETURN, _KILL),
        BpfInstruction(_LOAD, _NUMBER),
    ]
    if machine.x32:
        start += [BpfInstruction(_AT_LEAST, _X32, 0, 1), BpfInstruction(_RETURN, _KILL)]
    numbers = [numbers[machine.column] for numbers in DENIED.values()]
    denied = [line for number in numbers if number != NONE for line in (BpfInstruction(_EQUAL, number, 0, 1), refuse)]
    return [
        *start,
        *denied,
        *_looked_at(calls["socket"], 0, _unless_one_of(families)),
        *_looked_at(calls["socketpair"], 1, [BpfInstruction(_AND, PAIR_TYPE), *_unless_one_of(tuple(PAIRS.values()))]),
        *_looked_at(calls["ioctl"], 1, _if_one_of(tuple(TERMINAL.values()))),
        *_looked_at(calls["clone"], 0, _if_any_bit(NAMESPACE_FLAGS)),
        *_looked_at(calls["unshare"], 0, _if_any_bit(NAMESPACE_FLAGS | NEW_TIME)),
        # Its flags are in memory, which a filter cannot read: the C library uses `clone` when there is no `clone3`.
        BpfInstruction(_EQUAL, calls["clone3"], 0, 1),
        BpfInstruction(_RETURN, _ERROR | errno.ENOSYS),
        BpfInstruction(_RETURN, _ALLOW),
    ]


def _looked_at(number: int, argument: int, tests: list[BpfInstruction]) -> list[BpfInstruction]:
    """`tests` skip the following lines to allow a call, and one line more to refuse it."""
    body = [
        BpfInstruction(_LOAD, _ARGUMENTS + 8 * argument),  # the lower half: the kernel, too, uses 32 bits of these
        *tests,
        BpfInstruction(_RETURN, _ALLOW),
        BpfInstruction(_RETURN, _ERROR | errno.EPERM),
    ]
    return [BpfInstruction(_EQUAL, number, 0, len(body)), *body]


def _if_one_of(values: tuple[int, ...]) -> list[BpfInstruction]:
    return [BpfInstruction(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]


def _unless_one_of(values: tuple[int, ...]) -> list[BpfInstruction]:
    if not values:
        return [BpfInstruction(_AT_LEAST, 0, 1, 1)]  # always refused
    last = len(values) - 1
    return [BpfInstruction(_EQUAL, value, last - at, 1 if at == last else 0) for at, value in enumerate(values)]


def _if_any_bit(bits: int) -> list[BpfInstruction]:
    return [BpfInstruction(_ANY_BIT, bits, 1, 0)]
