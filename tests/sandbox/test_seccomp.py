"""The filter of system calls, walked as the kernel walks it. That the kernel takes it, `test_probes.py` shows."""

from __future__ import annotations

import errno
import struct

import pytest

from mainspring.sandbox.bubblewrap import DENIED, MACHINES, NONE, MachineType, build_filter_lines, filter_for

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
BOTH = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
NEW_USER, NEW_NET, THREAD = 0x10000000, 0x40000000, 0x3D0F00  # the last is what a thread is made with


def verdict(
    machine: MachineType, number: int, *arguments: int, audit: int | None = None, program: bytes | None = None
) -> int:
    """What the filter says, from its bytes."""
    padded = (*arguments, *[0] * 6)[:6]
    data = struct.pack("<IIQ6Q", number, machine.audit if audit is None else audit, 0, *padded)
    lines_of = list(struct.iter_unpack("<HBBI", filter_for(machine) if program is None else program))
    at = value = 0
    while True:
        code, if_so, if_not, operand = lines_of[at]
        at += 1
        match code:
            case 0x20:
                value = int.from_bytes(data[operand : operand + 4], "little")
            case 0x06:
                return int(operand)
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand != 0}[code]
                at += if_so if holds else if_not
            case _:
                raise AssertionError(f"the kernel does not know '{code:#x}'")


@BOTH
def test_every_call_of_the_table_is_refused(machine: MachineType) -> None:
    numbers = [number[machine.column] for number in DENIED.values() if number[machine.column] != NONE]
    assert len(numbers) > 40
    assert {verdict(machine, number) for number in numbers} == {EPERM}
    looked_at = set(machine.calls.values())
    others = [number for number in range(460) if number not in numbers and number not in looked_at]
    assert {verdict(machine, number) for number in others} == {ALLOW}


@BOTH
def test_sockets_of_the_internet_only(machine: MachineType) -> None:
    families = {number: verdict(machine, machine.calls["socket"], number) for number in range(50)}
    assert {number for number, said in families.items() if said == ALLOW} == {2, 10, 16}
    assert {said for number, said in families.items() if number not in (2, 10, 16)} == {EPERM}
    assert verdict(machine, machine.calls["socket"], 1 | 7 << 32) == EPERM  # the kernel looks at the lower half only


@BOTH
def test_no_sockets_at_all(machine: MachineType) -> None:
    """For landlock, which knows TCP only."""
    program = filter_for(machine, families=())
    assert {verdict(machine, machine.calls["socket"], number, program=program) for number in range(50)} == {EPERM}
    assert verdict(machine, machine.calls["ioctl"], 0, 0x5401, program=program) == ALLOW


@BOTH
def test_nothing_is_typed_into_a_terminal(machine: MachineType) -> None:
    ioctl = machine.calls["ioctl"]
    assert {verdict(machine, ioctl, 0, request) for request in (0x5412, 0x541C, 0x5412 | 1 << 32)} == {EPERM}
    assert {verdict(machine, ioctl, 0, request) for request in (0x5401, 0x5413, 0x8914)} == {ALLOW}


@BOTH
def test_threads_and_forks_but_no_namespaces(machine: MachineType) -> None:
    clone, unshare, clone3 = (machine.calls[name] for name in ("clone", "unshare", "clone3"))
    assert [verdict(machine, clone, flags) for flags in (17, THREAD, NEW_USER | 17, NEW_NET)] == [
        ALLOW,
        ALLOW,
        EPERM,
        EPERM,
    ]
    assert [verdict(machine, unshare, flags) for flags in (0x200, NEW_USER, 0x80)] == [ALLOW, EPERM, EPERM]
    assert verdict(machine, clone3) == ENOSYS  # so that the C library takes the other one


@BOTH
def test_a_foreign_architecture_ends_the_process(machine: MachineType) -> None:
    assert verdict(machine, 0, audit=0x40000003) == KILL  # 32 bits
    if machine.x32:
        assert verdict(machine, 0x40000000 + 101) == KILL


@BOTH
def test_the_kernel_would_take_it(machine: MachineType) -> None:
    program = build_filter_lines(machine)
    assert len(program) < 4_096  # BPF_MAXINSNS
    assert len(filter_for(machine)) == 8 * len(program)
    for at, line in enumerate(program):
        assert at + 1 + max(line.if_so, line.if_not) < len(program) or line.code == 0x06
