"""The version, in a place that every layer may read. `importlib.metadata` would take 15 ms to find it."""

from __future__ import annotations

import os

__version__ = "0.1.0"

PACKAGE = os.path.dirname(__file__)  # noqa: PTH120  # `pathlib` would take 3 ms of each start


def describe_version() -> str:
    """The version, and for a development build its commit."""
    commit = read_line(f"{PACKAGE}/commit.txt") or find_checkout_commit(f"{PACKAGE}/../../.git")
    return f"{__version__} (commit {commit[:9]})" if commit else __version__


def find_checkout_commit(repository: str) -> str:
    """Read without git, which may not be installed."""
    head = read_line(f"{repository}/HEAD")
    if not head.startswith("ref: "):
        return head
    branch = head.removeprefix("ref: ")
    return read_line(f"{repository}/{branch}") or find_packed_commit(f"{repository}/packed-refs", branch)


def find_packed_commit(file: str, branch: str) -> str:
    try:
        with open(file, encoding="utf-8") as lines:  # noqa: PTH123
            return next((line.split()[0] for line in lines if line.endswith(f" {branch}\n")), "")
    except OSError:
        return ""


def read_line(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as lines:  # noqa: PTH123
            return lines.readline().strip()
    except OSError:
        return ""
