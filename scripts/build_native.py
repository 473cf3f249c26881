"""Builds the one native part, `mainspring/tools/_newlines.c`: next to its source if run by hand or by make, into the
package if run by hatchling.

It is optional. Without a compiler or Python's headers the build makes a package without it and prints a warning;
MAINSPRING_NATIVE=require makes that an error, MAINSPRING_NATIVE=no leaves it out. It uses the stable ABI, so one
package serves all versions of Python from 3.11 on.
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


class NativeHook(BuildHookInterface[Any]):
    """`version` is 'standard' or 'editable'; the latter needs it next to its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wish = os.environ.get("MAINSPRING_NATIVE", "")
        if self.target_name != "wheel" or wish == "no":
            return
        to = BUILT if version == "editable" else Path(tempfile.mkdtemp()) / BUILT.name
        try:
            build(to)
        except NotBuiltError as error:
            if wish == "require":
                raise
            self.app.display_warning(f"mainspring is built without its native part: {error}")
            return
        if version != "editable":
            build_data["force_include"][str(to)] = f"mainspring/tools/{BUILT.name}"
            build_data["pure_python"] = False
            build_data["tag"] = tag()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, artifact_path
        for made in build_data["force_include"]:
            if Path(made).name == BUILT.name:
                shutil.rmtree(Path(made).parent, ignore_errors=True)


if __name__ == "__main__":
    try:
        build(BUILT)
    except NotBuiltError as error:
        sys.exit(f"The native part cannot be built: {error}")
