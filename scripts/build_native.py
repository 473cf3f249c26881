"""Builds what a package contains besides the sources: the help pages, the commit of a development build, and, if you
ask for it, the one native part, `mainspring/tools/_newlines.c`.

A wheel is pure Python, so one wheel serves every platform. With `MAINSPRING_NATIVE=require` it contains the native part
and is tagged for this platform; cibuildwheel sets that. An editable install builds the native part next to its source
where it finds a compiler. It uses the stable ABI, so one build serves all versions of Python from 3.11 on.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/mainspring/tools/_newlines.c"
BUILT = SOURCE.with_suffix(".abi3.so")
FLAGS = ("-O3", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC")
COMMIT = "src/mainspring/commit.txt"  # in a source distribution, where there is no repository
NOT_HELP = ("decisions", "screens", "spec")  # folders of docs/ that `mainspring help` does not print


class NotBuiltError(Exception):
    pass


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CC", ""))
    return named or [next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")]


def build(to: Path) -> None:
    compiler = _compiler()
    if not shutil.which(compiler[0]):
        raise NotBuiltError(f"there is no C compiler '{compiler[0]}': install one (Debian: gcc), or name it in CC")
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        raise NotBuiltError("Python's headers are missing (Debian: python3-dev)")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotBuiltError("a Python without a global lock has no stable interface")
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    # Write to a temporary name and rename: a process that has loaded the old file keeps it.
    aside = to.with_name(f"{to.name}.{os.getpid()}")
    made = subprocess.run(  # the compiler of the user who builds
        [*compiler, *FLAGS, *shared, f"-I{headers}", str(SOURCE), "-o", str(aside)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        aside.unlink(missing_ok=True)
        raise NotBuiltError(f"{compiler[0]} failed:\n{made.stderr}")
    aside.replace(to)


def tag() -> str:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


def find_commit(root: Path) -> str:
    """The commit of this build, or nothing for a release: a checkout whose commit has a tag, or no repository."""
    kept = root / COMMIT
    if kept.exists():
        return kept.read_text("utf-8").strip()
    if not (root / ".git").exists():
        return ""
    told = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=+"],
        capture_output=True,
        text=True,
        check=False,
    )
    tagged = subprocess.run(
        ["git", "-C", str(root), "describe", "--exact-match", "--tags"], capture_output=True, check=False
    )
    return "" if told.returncode or not tagged.returncode else told.stdout.strip()


def help_pages(root: Path) -> dict[str, str]:
    """Path of each page in the repository, and in the package."""
    docs = root / "docs"
    pages = sorted([page for page in docs.rglob("*.md") if page.relative_to(docs).parts[0] not in NOT_HELP])
    return {str(page): f"mainspring/help/{page.relative_to(docs)}" for page in pages}


class PackageHook(BuildHookInterface[Any]):
    """`version` is 'standard' or 'editable'; the latter needs the native part next to its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._temporary = Path(tempfile.mkdtemp())
        included: dict[str, str] = build_data["force_include"]
        if version != "editable":
            self._include_commit(included)
        if self.target_name == "wheel":
            if version != "editable":
                included.update(help_pages(Path(self.root)))
            self._include_native(version, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, build_data, artifact_path
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _include_commit(self, included: dict[str, str]) -> None:
        if commit := find_commit(Path(self.root)):
            file = self._temporary / "commit.txt"
            file.write_text(f"{commit}\n", "utf-8")
            included[str(file)] = COMMIT if self.target_name == "sdist" else COMMIT.removeprefix("src/")

    def _include_native(self, version: str, build_data: dict[str, Any]) -> None:
        wish = os.environ.get("MAINSPRING_NATIVE", "")
        if wish == "no" or (version != "editable" and wish != "require"):
            return
        to = BUILT if version == "editable" else self._temporary / BUILT.name
        try:
            build(to)
        except NotBuiltError as error:
            if wish == "require":
                raise
            self.app.display_warning(f"mainspring is installed without its native part: {error}")
            return
        if version != "editable":
            build_data["force_include"][str(to)] = f"mainspring/tools/{BUILT.name}"
            build_data["pure_python"] = False
            build_data["tag"] = tag()


if __name__ == "__main__":
    try:
        build(BUILT)
    except NotBuiltError as error:
        sys.exit(f"The native part cannot be built: {error}")
