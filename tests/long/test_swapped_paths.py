"""A command in the sandbox swaps folders and files for links at full speed, while everything that opens files works."""

from __future__ import annotations

import pytest
from sandbox.walls import LINUX
from tools.swap_runs import AS, LANDLOCK, Search, check, run

OPERATIONS = 10_000


@LINUX
@AS
@pytest.mark.timeout(1_200)
def test_ten_thousand_operations_and_nothing_outside(user: int | None) -> None:
    found = run(OPERATIONS, 1_100, user=user)
    check(found, OPERATIONS)
    assert found["swaps"] > OPERATIONS


@LINUX
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("search", ["script", "python"])
def test_nor_where_ripgrep_cannot_be_confined_or_is_missing(search: Search) -> None:
    check(run(3_000, 1_100, search=search), 3_000)


@LINUX
@LANDLOCK
@AS
@pytest.mark.timeout(1_200)
def test_nor_in_the_lower_sandbox(user: int | None) -> None:
    check(run(3_000, 1_100, user=user, walls="landlock"), 3_000)
