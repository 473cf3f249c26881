"""The optional parts of an installation, for `mainspring doctor`: what each missing one costs you, and the command that
installs it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from mainspring.core.value import Bundle
from mainspring.processes.environment import find_program

Command = tuple[str, ...]

# System package managers, in the order in which they are looked for, and how each installs a package.
MANAGERS: Mapping[str, Command] = {
    "apt-get": ("apt-get", "install", "-y"),
    "dnf": ("dnf", "install", "-y"),
    "pacman": ("pacman", "-S", "--noconfirm"),
    "zypper": ("zypper", "install", "-y"),
    "apk": ("apk", "add"),
    "brew": ("brew", "install"),
}


class OptionalPackage(Bundle):
    """A Python package of an extra."""

    extra: str
    module: str  # there if this can be found
    costs: str  # what does not work without it


EXTRAS = (
    OptionalPackage("mcp", "mcp", "MCP servers cannot be used"),
    OptionalPackage("web", "html_to_markdown", "WebFetch shows pages as plain text"),
    OptionalPackage("pdf", "pypdf", "Read cannot show single pages of a PDF"),
)


def find_missing_packages() -> list[OptionalPackage]:
    return [package for package in EXTRAS if find_spec(package.module) is None]


def command_for_extra(extra: str) -> Command:
    """Names the requirements of the extra, and not mainspring itself, which may not come from an index."""
    requirements = list_requirements(extra) or [f"mainspring[{extra}]"]
    if find_spec("pip") is None and (uv := shutil.which("uv")):
        return (uv, "pip", "install", "--python", sys.executable, *requirements)
    return (sys.executable, "-m", "pip", "install", *requirements)


def list_requirements(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        listed = requires("mainspring") or []
    except PackageNotFoundError:  # run from a folder of sources
        return []
    split = [line.partition(";") for line in listed]
    return [name.strip() for name, _, condition in split if f"'{extra}'" in condition.replace('"', "'")]


def command_for_program(package: str, path: str, outside: Iterable[str]) -> Command:
    """Empty: no package manager that we know. `outside`: folders where no program is taken from, such as a project."""
    for name, command in MANAGERS.items():
        if program := find_program(name, path=path, outside=tuple(outside)):
            needs_root = name != "brew" and os.geteuid() != 0
            return (*(("sudo",) if needs_root else ()), program, *command[1:], package)
    return ()
