"""Programs of others that tests need. Where one is missing, its tests are skipped, and the end of the run says how to
install it. In CI (`MAINSPRING_TESTS_NEED_ALL=1`) a missing program is a failure: then something was not shown."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

PACKAGES = {  # Debian's names
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "fish": "fish",
    "git": "git",
    "groff": "groff",
    "openssl": "openssl",
    "strace": "strace",
    "valgrind": "valgrind",
    "zsh": "zsh",
}
REASON = "needs the program "
MUST_BE_THERE = "MAINSPRING_TESTS_NEED_ALL"


def need(program: str) -> str:
    """Its path. Ends the test that calls where it is not installed."""
    path = shutil.which(program)
    if path is None:
        lacks(program)
    return path


def lacks(program: str, why: str = "") -> NoReturn:
    """End the test: this program is missing or, as `why` says, of no use here."""
    reason = f"{REASON}'{program}'{f' ({why})' if why else ''}"
    if os.environ.get(MUST_BE_THERE):
        pytest.fail(f"{reason}: apt-get install {PACKAGES[program]}", pytrace=False)
    pytest.skip(reason)


def missing_programs(reasons: list[str]) -> dict[str, int]:
    """How many tests were skipped for want of each program."""
    counts: dict[str, int] = {}
    for reason in reasons:
        if REASON in reason:
            program = reason.split(REASON)[1].split("'")[1]
            counts[program] = counts.get(program, 0) + 1
    return counts
