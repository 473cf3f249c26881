"""No way out of the sandbox, as root and as an ordinary user; and each probe gets through where there are no walls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiers import parametrize_few

from mainspring.processes.child import SandboxAccess
from mainspring.sandbox.probes import FILES, PROBES, PROTECTED, Probe, ProbeRunner, run_one
from sandbox.walls import LINUX, NOBODY, bubblewrap, python_for, seen_folder

pytestmark = LINUX
USERS = [None, NOBODY] if os.getuid() == 0 else [None]
NAMES = ["me", "an ordinary user"][: len(USERS)]
AS = pytest.mark.parametrize("user", USERS, ids=NAMES)
AS_EITHER = parametrize_few("user", USERS, keep=1, ids=NAMES)
EACH = pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
FEW = parametrize_few("probe", PROBES, keep=5, ids=[probe.name for probe in PROBES])
FEW_OF_FILES = parametrize_few(
    "probe", [*FILES, *PROTECTED], keep=4, ids=[probe.name for probe in (*FILES, *PROTECTED)]
)


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def pythons() -> dict[int | None, str]:
    return {user: python_for(user) for user in USERS}


def test_there_are_as_many_kinds_as_promised() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES) >= 24


@AS_EITHER
@EACH
def test_none_gets_out(probe: Probe, user: int | None, base: Path, pythons: dict[int | None, str]) -> None:
    outcome = run_one(probe, str(base), program=bubblewrap(base), who=ProbeRunner(pythons[user], user))
    assert not outcome.escaped, outcome.said
    assert "Error" in outcome.said or probe.name == "outlive the command"  # it was refused; it did not fail to start
    assert "bwrap:" not in outcome.said


@AS
@FEW
def test_none_gets_out_of_the_git_room(
    probe: Probe, user: int | None, base: Path, pythons: dict[int | None, str]
) -> None:
    outcome = run_one(
        probe, str(base), program=bubblewrap(base), who=ProbeRunner(pythons[user], user, SandboxAccess.GIT)
    )
    assert not outcome.escaped, outcome.said
    assert "Error" in outcome.said or probe.name == "outlive the command"
    assert "bwrap:" not in outcome.said


@AS
@FEW_OF_FILES
@pytest.mark.parametrize("walls", [SandboxAccess.USUAL, SandboxAccess.GIT])
def test_none_gets_out_below_the_top_of_a_repository(
    probe: Probe, walls: SandboxAccess, user: int | None, base: Path, pythons: dict[int | None, str]
) -> None:
    """The repository that the git room opens lies outside of the working folder then."""
    who = ProbeRunner(pythons[user], user, walls, below=True)
    outcome = run_one(probe, str(base), program=bubblewrap(base), who=who)
    assert not outcome.escaped, outcome.said
    assert "Error" in outcome.said
    assert "bwrap:" not in outcome.said


@FEW_OF_FILES
def test_without_walls_it_would_from_below(probe: Probe, base: Path) -> None:
    assert probe.able == "depends" or run_one(probe, str(base), program=None, who=ProbeRunner(below=True)).escaped


@AS
@FEW
def test_without_walls_it_would(probe: Probe, user: int | None, base: Path, pythons: dict[int | None, str]) -> None:
    is_root = user is None and os.getuid() == 0
    if probe.able == "depends" or (probe.able == "root" and not is_root):
        return  # whether it gets through is the system's choice
    assert run_one(probe, str(base), program=None, who=ProbeRunner(pythons[user], user)).escaped
