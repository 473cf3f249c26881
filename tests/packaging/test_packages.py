"""Wheel and source distribution: what is in them, and that they work in clean environments of every Python found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mainspring.version import __version__

ROOT = Path(__file__).parents[2]
PYTHON_BLOCK = re.compile(r"^```python\b[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")


def find_python(version: str) -> str | None:
    """A Python of this version that can make environments: of pyenv, or on PATH. Its shims would choose by folder."""
    candidates = [*map(str, sorted(PYENV.glob(f"{version}.*/bin/python3"))), shutil.which(f"python{version}") or ""]
    probe = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    for python in filter(None, candidates):
        if subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0:
            return python
    return None


def build(target: str, folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True)
    [made] = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", tmp_path_factory.mktemp("sdist"))


def test_a_wheel_is_pure_python_and_has_everything_to_run(wheel: Path) -> None:
    assert wheel.name == f"mainspring-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    assert {"mainspring/py.typed", "mainspring/help/library.md"} <= names
    assert not [name for name in names if name.startswith(("mainspring/help/decisions", "mainspring/help/screens/"))]
    shared = {
        f"/data/share/{path.relative_to(ROOT / 'share')}" for path in (ROOT / "share").rglob("*") if path.is_file()
    }
    assert len(shared) == 4
    assert shared <= {name[name.index("/data/") :] for name in names if ".data/" in name}
    ours = {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    missing = {str(path.relative_to(ROOT / "src")) for path in ours if path.suffix != ".so"} - names
    assert missing == set()


def test_a_source_distribution_has_what_a_wheel_is_built_from(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
        archive.extractall(tmp_path, **safely)
    [source] = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    [again] = (tmp_path / "again").iterdir()
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def run(python: Path, *arguments: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(python), "-W", "error", *arguments]
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, f"{arguments}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", ["wheel", "sdist"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_installed_package_works(package: str, version: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    made: Path = request.getfixturevalue(package)
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    installed = tmp_path / "env/bin/python"
    subprocess.run([str(installed), "-m", "pip", "install", "-qq", str(made)], check=True, timeout=600)
    work = tmp_path / "work"
    work.mkdir()
    assert run(installed, "-m", "mainspring", "--version", cwd=work).startswith(f"mainspring {__version__}")
    assert "Fixed:" in run(installed, "-m", "mainspring", "demo", cwd=work)
    assert run(installed, "-m", "mainspring", "help", "library", cwd=work) == (ROOT / "docs/library.md").read_text(
        "utf-8"
    )
    for block in PYTHON_BLOCK.findall((ROOT / "README.md").read_text("utf-8")):
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert run(installed, "-c", block, cwd=work).splitlines() == expected
