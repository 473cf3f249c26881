"""The permission checker of a session: written rules, rules added in the session, and what it tells other parts."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import AllowAll, PermissionChecker, RuleText
from mainspring.permissions.hosts import is_visibly_near
from mainspring.permissions.policy import PermissionDecision, PermissionRequest

DEFAULT = EnginePolicy("default")


def checker(*rules: str, folder: str = "/work", **more: bool) -> PermissionChecker:
    written = [RuleText(behavior, text, "user") for behavior, _, text in [rule.partition(" ") for rule in rules]]
    return PermissionChecker(tuple(written), folders=(folder,), trusted=lambda: more.get("trusted", True))


def bash(command: str, cwd: str = "/work") -> PermissionRequest:
    return PermissionRequest("Bash", {"command": command}, cwd)


def decide(
    permissions: PermissionChecker, asked: PermissionRequest, standing: EnginePolicy = DEFAULT
) -> PermissionDecision:
    return asyncio.run(permissions.verdict(asked, standing))


def test_a_rule_added_in_the_session_counts_unless_the_administrator_forbids_it() -> None:
    added = EnginePolicy("default", rules=("allow Bash(make:*)",))
    assert decide(checker(), bash("make"), added).decision == "allow"
    forbids = PermissionChecker(folders=("/work",), counts=lambda rule: rule.behavior != "allow")
    assert decide(forbids, bash("make"), added).decision == "ask"
    assert forbids.suggestions(bash("make"), DEFAULT) == ()
    assert [one.rule for one in checker().suggestions(bash("make"), DEFAULT)]
    assert forbids.wider_suggestions(bash("git add a"), DEFAULT) == ()
    assert [one.rule for one in checker().wider_suggestions(bash("git add a"), DEFAULT)] == ["Bash(git add:*)"]


def test_the_policy_is_made_anew_when_rules_or_folders_change() -> None:
    permissions = checker()
    first = permissions.policy(DEFAULT)
    assert permissions.policy(EnginePolicy("default")) is first
    assert permissions.policy(EnginePolicy("plan")) is not first
    permissions.set_folders(("/work", "/other"))
    assert permissions.policy(DEFAULT).folders == ("/work", "/other")


def test_an_edit_suggests_the_mode_that_covers_it() -> None:
    asked = PermissionRequest("Edit", {"file_path": "/work/a.py"}, "/work")
    assert checker().suggested_mode(asked, DEFAULT) == "acceptEdits"
    assert checker().suggested_mode(bash("make"), DEFAULT) is None


@pytest.mark.parametrize(
    ("rules", "path", "readable"),
    [
        ((), "/work/.env", True),
        (("deny Read(.env)",), "/work/.env", False),
        (("ask Read(.env)",), "/work/.env", False),
        (("deny Read(.env)",), "/work/a.py", True),
    ],
)
def test_searches_ask_which_files_may_be_read(rules: tuple[str, ...], path: str, readable: bool) -> None:
    permissions = checker(*rules)
    assert permissions.readable("/work", DEFAULT)(path) is readable
    assert (permissions.reading_rules("/work", DEFAULT) is None) is (rules == ())


def test_a_sandbox_asks_what_it_must_hide() -> None:
    assert checker().unreadable("/work", DEFAULT) == ((), True)
    paths, complete = checker("deny Read(/work/.env)").unreadable("/work", DEFAULT)
    assert (any(path.endswith(".env") for path in paths), complete) == (True, True)


def test_which_commands_only_read() -> None:
    assert checker().only_reads("cat a.py | wc -l", "/work", DEFAULT)
    assert not checker().only_reads("touch a.py", "/work", DEFAULT)


def test_each_call_has_its_own_resolutions() -> None:
    permissions = checker()
    assert permissions.resolutions() is not permissions.resolutions()


def test_a_host_that_a_rule_names() -> None:
    permissions = checker("allow WebFetch(domain:intra.example)", "allow WebFetch(domain:not a host)")
    assert permissions.names_host("intra.example", DEFAULT)
    assert not permissions.names_host("other.example", DEFAULT)


def test_hosts_that_are_visibly_near() -> None:
    near = ["localhost", "printer", "a.local", "[::1]", "127.0.0.1", "10.0.0.7"]
    assert [is_visibly_near(host) for host in near] == [True] * len(near)
    assert not is_visibly_near("example.org")
    assert not is_visibly_near("8.8.8.8")


@pytest.mark.parametrize("command", ["git status", "git -C /elsewhere status", "ls"])
def test_git_in_a_repository_that_brings_nothing_to_run(tmp_path: Path, command: str) -> None:
    """An untrusted repository may configure programs that git runs; one that configures none is as good as trusted."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    permissions = checker(folder=str(tmp_path), trusted=False)
    wanted = "ask" if "-C" in command else "allow"
    assert decide(permissions, bash(command, str(tmp_path))).decision == wanted


def test_a_program_that_brings_its_own_tools_has_no_rules() -> None:
    permissions = AllowAll()
    assert decide(permissions, bash("rm -rf /")).decision == "allow"
    assert permissions.reading_rules("/work", DEFAULT) is None
