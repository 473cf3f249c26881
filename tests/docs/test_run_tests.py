"""`make test` runs the few tests that fail again, alone, at most twice (decision 0089)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tiers import long

RUN_TESTS = Path(__file__).parents[2] / "scripts" / "run_tests.py"
FIRST_TIME = """
from pathlib import Path
def test_slow_moment():
    before = Path(__file__).with_suffix(".ran").exists()
    Path(__file__).with_suffix(".ran").touch()
    assert before
"""

THIRD_TIME = """
from pathlib import Path
def test_slow_moment():
    file = Path(__file__).with_suffix(".ran")
    before = file.read_text() if file.exists() else ""
    file.write_text(before + "x")
    assert len(before) == 2
"""


def run(folder: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(source, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, str(RUN_TESTS), "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [(), long(("-n", "2"))], ids=str)
def test_a_test_that_passes_alone_is_named_and_does_not_fail_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    ended = run(tmp_path, FIRST_TIME, *workers)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith("Failed beside other tests and passed alone:\n  test_it.py::test_slow_moment\n")


@pytest.mark.long
def test_a_test_of_a_group_is_found_again(tmp_path: Path) -> None:
    grouped = FIRST_TIME.replace("def test", "import pytest\n@pytest.mark.xdist_group('for ever')\ndef test")
    ended = run(tmp_path, grouped, "-n", "2", "--dist", "loadgroup")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith("passed alone:\n  test_it.py::test_slow_moment\n")


@pytest.mark.long
def test_a_test_has_three_tries(tmp_path: Path) -> None:
    ended = run(tmp_path, THIRD_TIME)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("Failed, and run again alone:\n  test_it.py::test_slow_moment\n") == 2


def test_a_test_that_fails_each_time_is_a_failure(tmp_path: Path) -> None:
    ended = run(tmp_path, "def test_wrong():\n    assert False\ndef test_right():\n    pass\n")
    assert ended.returncode == 1
    assert "passed alone" not in ended.stdout
    assert ended.stdout.endswith("Failed each time:\n  test_it.py::test_wrong\n")


@pytest.mark.long
def test_many_failures_do_not_run_again(tmp_path: Path) -> None:
    ended = run(tmp_path, "".join(f"def test_{n}():\n    assert False\n" for n in range(9)))
    assert ended.returncode == 1
    assert "run again" not in ended.stdout


@pytest.mark.long
def test_broken_tests_are_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, "import nothing_of_this_name\n").returncode == 2
    assert run(tmp_path, "def test_right():\n    pass\n").returncode == 0
