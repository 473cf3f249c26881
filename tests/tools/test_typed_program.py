"""Both type checkers read `typed_program.py` alike. mypy does so with `make check`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/tools/typed_program.py"


@pytest.mark.long
def test_pyright_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    """An error that is not ignored is a failure, and so is a comment that ignores none."""
    config = {
        "include": [str(PROGRAM)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "enableTypeIgnoreComments": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    checker = Path(sys.executable).parent / "basedpyright"
    done = subprocess.run(
        [checker, "--project", tmp_path, "--pythonpath", sys.executable, "--level", "error"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "0 errors" in done.stdout) == (0, True), done.stdout
