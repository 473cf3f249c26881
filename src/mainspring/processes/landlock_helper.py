"""Restricts itself with Landlock and a filter of system calls, then executes the command (security X4).

A separate program, started with `python -I -S`: it imports nothing of ours and as little as possible of Python's. Its
arguments: a descriptor with the rules (`sandbox/landlock.py` writes them), our process number, the variable LC_CTYPE,
and the command. If anything fails, the command is not run.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # on all machines
VERSION, PATH_BENEATH = 1, 1
SET_DEATH_SIGNAL, SET_SECCOMP, DROP_BOUNDING, NO_NEW_PRIVILEGES, AMBIENT = 1, 22, 24, 38, 47
CLEAR_ALL, FILTER, KILL = 4, 2, 9
BROKEN_PIPE, FILE_TOO_LARGE = 13, 25
CAPABILITIES_3 = 0x20080522
LAST_CAPABILITY = 63
FAILED = 125

# Rights on files, as bits: how many of them each version of the interface has.
KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}
KNOWN_NOW = 16
OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # execute, write, read, truncate, requests to devices
TCP = 1 << 0 | 1 << 1  # bind, connect: from version 4
SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals to others: from version 6
VERSION_TCP, VERSION_SCOPES = 4, 6

libc = ctypes.CDLL(None, use_errno=True)


class LandlockError(Exception):
    """A restriction that could not be applied."""


def landlock_version() -> int:
    """0: there is no landlock."""
    found: int = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    return max(0, found)


def ruleset_of(handled: int, found: int) -> bytes:
    """The attributes for a kernel of this version: unknown ones are left out."""
    rights = handled & known_rights(found)
    parts = [rights, TCP] if found >= VERSION_TCP else [rights]
    if found >= VERSION_SCOPES:
        parts.append(SCOPES)
    return struct.pack(f"={len(parts)}Q", *parts)


def known_rights(found: int) -> int:
    return (1 << KNOWN.get(found, KNOWN_NOW)) - 1


def parse_rules_file(data: bytes) -> tuple[int, bytes, list[tuple[int, str]]]:
    """The handled rights, the filter, and the rights on each path."""
    handled, size = struct.unpack_from("=QI", data)
    start = struct.calcsize("=QI")
    lines = data[start + size :].split(b"\0")
    rules = [line.partition(b" ") for line in lines if line]
    return handled, data[start : start + size], [(int(rights), os.fsdecode(path)) for rights, _, path in rules]


def restrict_process(handled: int, rules: list[tuple[int, str]]) -> None:
    found = landlock_version()
    ruleset = new_ruleset(handled, found)
    for rights, path in rules:
        add_path_rule(ruleset, rights & handled & known_rights(found), path)
    drop_capabilities()
    enforce_ruleset(ruleset)
    os.close(ruleset)


def new_ruleset(handled: int, found: int) -> int:
    """A descriptor."""
    if not found:
        raise LandlockError("this kernel has no landlock")
    attributes = ruleset_of(handled, found)
    return check_result("landlock", libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))


def enforce_ruleset(ruleset: int) -> None:
    """For the calling thread, and everything that it starts from now on."""
    check_result("no new privileges", libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    check_result("landlock", libc.syscall(RESTRICT_SELF, ruleset, 0))


def add_path_rule(ruleset: int, rights: int, path: str) -> None:
    try:
        descriptor = open_without_links(path)
    except OSError:  # it is gone, or there is now a link on the way, which leads elsewhere
        return
    allow_descriptor(ruleset, rights, descriptor, path)
    os.close(descriptor)


def open_without_links(path: str) -> int:
    """By a walk that follows no link."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open("/", flags)
    for part in path.split("/"):
        if part:
            outer = descriptor
            try:
                descriptor = os.open(part, flags, dir_fd=outer)
            finally:
                os.close(outer)
    return descriptor


def allow_descriptor(ruleset: int, rights: int, descriptor: int, name: str) -> None:
    """Everything below a folder, or a file."""
    is_folder = os.fstat(descriptor).st_mode & 0o170000 == 0o040000
    if rights := rights if is_folder else rights & OF_FILES:
        rule = struct.pack("=Qi", rights, descriptor)
        check_result(f"landlock for '{name}'", libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0))


def drop_capabilities() -> None:
    """Root without them is an ordinary user that owns much."""
    for number in range(LAST_CAPABILITY + 1):
        libc.prctl(DROP_BOUNDING, number, 0, 0, 0)  # without this right there are none to drop
    libc.prctl(AMBIENT, CLEAR_ALL, 0, 0, 0)
    check_result("capabilities", libc.capset(struct.pack("=Ii", CAPABILITIES_3, 0), bytes(24)))


def filter_calls(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    check_result("the filter of system calls", libc.prctl(SET_SECCOMP, FILTER, head, 0, 0))


def end_with(parent: int) -> None:
    libc.prctl(SET_DEATH_SIGNAL, KILL, 0, 0, 0)
    if os.getppid() != parent:
        raise LandlockError("its parent process is gone")


def check_result(what: str, answer: int) -> int:
    if answer < 0:
        raise LandlockError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return answer


def read_descriptor(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def main(descriptor: str, parent: str, language: str, *command: str) -> None:
    if not language:
        os.environ.pop("LC_CTYPE", None)  # Python sets it, if it was not set
    handled, program, rules = parse_rules_file(read_descriptor(int(descriptor)))
    restrict_process(handled, rules)
    end_with(int(parent))
    for number in (BROKEN_PIPE, FILE_TOO_LARGE):  # Python ignores them, and the command would, too
        libc.signal(number, None)
    filter_calls(program)
    os.execv(command[0], command)  # noqa: S606  # there is to be no shell


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, LandlockError) as error:
        sys.stderr.write(f"mainspring-landlock: {error}\n")
        os._exit(FAILED)
