"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from programs import PACKAGES, missing_programs, need
from tiers import USUAL

LONG = Path(__file__).parent / "long"

# `make test` must say the same twice in a row, so it draws the same examples; `explore` draws new ones, and more.
# `make test` draws few of them, but for the tests of what decides (core, permissions); `make ci-long` the usual number.
# Health checks: one looks at the clock, and of few examples one more is filtered out easily.
UNCHECKED = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile(
    "steady", derandomize=True, database=None, deadline=None, max_examples=USUAL, suppress_health_check=UNCHECKED
)
settings.register_profile("brief", settings.get_profile("steady"), max_examples=30)
settings.register_profile("explore", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Tests are compiled once, and not by every worker of every part of `make test`, also where Python is told to write no
# bytecode. What tests start is still told so.
sys.dont_write_bytecode = False

# As a terminal has them. Under `nohup`, or in the background of a script, they are ignored, and the commands that tests
# start would be right to ignore them, too.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# In a worker: what tests start is not measured for coverage. It would take twice as long, and load modules of its own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_itemcollected(item: pytest.Item) -> None:
    if LONG in item.path.parents:
        item.add_marker("long")


def pytest_collection_finish() -> None:
    """What was loaded for ten thousand tests stays to the end: a collection that looks through it takes 0.3 s, and
    tests that want to hear a complaint about what nobody closed ask for one each."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.needs("bwrap")`: skipped where it is not installed."""
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            need(program)


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """With `-q`, nothing is printed for a test that passes or is skipped: ten thousand dots tell nobody anything."""
    if config.get_verbosity() < 0 and (report.skipped or (report.passed and report.when == "call")):
        return report.outcome, "", ""
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not shown, and why; for want of which program, and what would show it."""
    skipped = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    for reason, count in Counter(reason for reason in skipped if not missing_programs([reason])).items():
        terminalreporter.line(f"{count} not run: {reason.removeprefix('Skipped: ')}")
    if counts := missing_programs(skipped):
        tests = ", ".join([f"{count} for want of '{program}'" for program, count in sorted(counts.items())])
        packages = " ".join(sorted({PACKAGES[program] for program in counts}))
        terminalreporter.line(f"Skipped: {tests}. To run them: apt-get install {packages}")
