"""Every example runs, and so does all Python in the README: each piece alone, as a reader would paste it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pages

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))  # those of the library need a model: tests/library
PYTHON_BLOCK = re.compile(r"^```python\b[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(*args: str, cwd: Path) -> list[str]:
    command, nothing = [sys.executable, *args], subprocess.DEVNULL
    done = subprocess.run(command, cwd=cwd, stdin=nothing, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    run(str(example), cwd=tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text("utf-8").splitlines()) < 60


def test_the_readme_runs_and_prints_what_its_comments_say(tmp_path: Path) -> None:
    blocks = PYTHON_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        said = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert run("-c", block, cwd=tmp_path) == said


NEED_A_MODEL = {ROOT / "docs/library.md", ROOT / "docs/compare.md"}  # see tests/library
PAGES = sorted({*(ROOT / "docs").glob("**/*.md")} - NEED_A_MODEL - {*pages.find_pages()})  # the rest: test_pages.py


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
        run("-c", block, cwd=tmp_path)


def test_the_first_example_needs_nothing_but_python() -> None:
    """It is what a newcomer reads first, so it stays short and imports none of us."""
    lines = (ROOT / "examples/tiny_loop.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert [line for line in lines if re.match(r"\s*(import|from)\s+mainspring", line)] == []
