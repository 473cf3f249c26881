"""No way out by odd doors either. Each probe that can get through where there are no walls does so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiers import parametrize_few

from mainspring.processes.child import SandboxAccess
from mainspring.sandbox.probes import PROBES, Probe, ProbeRunner, run_one
from sandbox.more_probes import MORE
from sandbox.test_probes import AS, USERS
from sandbox.walls import LINUX, bubblewrap, python_for, seen_folder

pytestmark = LINUX
FEW = parametrize_few("probe", MORE, keep=6, ids=[probe.name for probe in MORE])


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def pythons() -> dict[int | None, str]:
    return {user: python_for(user) for user in USERS}


def test_they_are_others() -> None:
    assert len({probe.name for probe in (*MORE, *PROBES)}) == len(MORE) + len(PROBES)
    assert len(MORE) >= 30


WALLS = [(SandboxAccess.USUAL, user) for user in USERS] + [(SandboxAccess.GIT, None)]


@FEW
@pytest.mark.parametrize(("walls", "user"), WALLS, ids=[f"{walls} {user or ''}" for walls, user in WALLS])
def test_none_gets_out(
    probe: Probe, walls: SandboxAccess, user: int | None, base: Path, pythons: dict[int | None, str]
) -> None:
    outcome = run_one(probe, str(base), program=bubblewrap(base), who=ProbeRunner(pythons[user], user, walls))
    assert not outcome.escaped, outcome.said
    assert "Error" in outcome.said
    assert "bwrap:" not in outcome.said


@AS
@FEW
def test_without_walls_it_would(probe: Probe, user: int | None, base: Path, pythons: dict[int | None, str]) -> None:
    is_root = user is None and os.getuid() == 0
    if probe.able == "depends" or (probe.able == "root" and not is_root):
        return  # whether it gets through is the system's choice
    outcome = run_one(probe, str(base), program=None, who=ProbeRunner(pythons[user], user))
    assert outcome.escaped, outcome.said
