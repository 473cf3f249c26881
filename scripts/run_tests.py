"""Run pytest with these arguments, and run the few tests that failed again, alone, at most twice (decision 0089).

Fifteen thousand tests with real processes share two cores. A test that fails beside the others and passes alone met a
slow moment: the last lines name it, so that you can fix it. A test that fails all three times is a failure.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

GROUP = re.compile(r"(?<=\w|\])@[\w ]+$")  # that `--dist loadgroup` adds to a test's id
MOST = 8  # more failures than this are no accident, and do not run again
TIMES = 2  # that they run again
TIMEOUT = 1500  # seconds, as in `make ci-long`: a long test may be among them


class FailedTests:
    """A pytest plugin: the ids of the tests that failed, in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = GROUP.sub("", report.nodeid)
        if report.failed and name not in self.ids:
            self.ids.append(name)


def run_tests(arguments: list[str]) -> int:
    failed = FailedTests()
    code = pytest.main(["-q", *arguments], plugins=[failed])
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed.ids) <= MOST:
        return code
    left = list(failed.ids)
    for _ in range(TIMES):
        print_tests("Failed, and run again alone:", left)
        left = [name for name in left if run_alone(name) != pytest.ExitCode.OK]
        if not left:
            print_tests("Failed beside other tests and passed alone:", failed.ids)
            return 0
    print_tests("Failed each time:", left)
    return code


def run_alone(name: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", str(TIMEOUT), name]
    return subprocess.run(command, check=False).returncode


def print_tests(title: str, ids: list[str]) -> None:
    print(title, *ids, sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1:]))
