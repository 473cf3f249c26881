"""Before a folder is trusted, git is not free: its configuration and hooks are the repository's (security P6)."""

from __future__ import annotations

import pytest

from mainspring.permissions.decide import decide
from mainspring.permissions.policy import PermissionPolicy, PermissionRequest
from mainspring.processes.paths import resolve_path


@pytest.mark.parametrize(
    ("command", "trusted", "decision"),
    [
        ("git status", True, "allow"),
        ("git status", False, "ask"),
        ("ls; git log", False, "ask"),
        ("ls", False, "allow"),
    ],
)
def test_git(command: str, trusted: bool, decision: str) -> None:
    policy = PermissionPolicy(folders=("/work",), trusted=trusted)
    asked = PermissionRequest("Bash", {"command": command}, "/work")
    assert decide(asked, policy, resolve_path).decision == decision
