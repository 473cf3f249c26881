"""A denied command under other names: programs in git's own folder, aliases of git, modules of Python, start files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mainspring.processes.disk import LARGEST, Disk, git_aliases
from permissions.deciding import bash, verdict

CONFIG = """
[core]
\tbare = false
[alias] p = push
\tst = status -s
\tforce = "push \\
--force"  # a comment
\tsh = "!rm -rf \\"$1\\"; # x"
\tdeep = p
\tloop = loop
\todd = "un closed
\tTop = !cat .env
[help]
\tautocorrect = 0
[color]
\tui = auto
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "project"
    (project / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / ".git/config").write_text(CONFIG)
    return project


def decide(line: str, cwd: Path, **given: object) -> str:
    return bash(line, cwd=str(cwd), home=str(cwd.parent / "home"), **given)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("git p origin", "deny"),
        ("git P origin", "deny"),
        ("git --no-pager p", "deny"),
        ("git deep", "deny"),
        ("git force", "deny"),
        ("env git p", "deny"),
        ("git p $x", "deny"),
        ("git loop", "ask"),
        ("git st", "allow"),
        ("git pushx", "allow"),
        ("git odd", "ask"),
        ("git -C . p", "deny"),
        ("git -c alias.x=push x", "ask"),
        ("git -c alias.x='!git push' x", "deny"),
        ("GIT_CONFIG_COUNT=1 git x", "ask"),
        ("/usr/lib/git-core/git-push", "deny"),
        ("/usr/libexec/git-core/git-push -f", "deny"),
        ("git-push origin main", "deny"),
        ("git-status", "allow"),
    ],
)
def test_p5_a_rule_for_git_push_holds_for_its_other_names(line: str, wanted: str, project: Path) -> None:
    assert decide(line, project, allow=["Bash"], deny=["Bash(git push:*)"]) == wanted
    if wanted == "deny":
        assert decide(line, project, allow=["Bash"], ask=["Bash(git push:*)"]) == "ask"
        assert decide(line, project, mode="bypassPermissions", deny=["Bash(git push:*)"]) == "deny"


def test_p5_an_alias_for_a_shell_is_looked_into(project: Path) -> None:
    assert decide("git sh x", project, allow=["Bash"], deny=["Bash(rm:*)"]) == "deny"
    assert decide("git top", project, allow=["Bash"], deny=["Read(./.env)"]) == "deny"
    assert decide("git top", project / "sub", allow=["Bash"], deny=["Read(//" + str(project)[1:] + "/.env)"]) == "deny"
    assert decide("git -C sub top", project, allow=["Bash"], deny=["Read(./.env)"]) == "deny"
    assert decide("git st", project, allow=["Bash"], deny=["Read(.env)"]) == "allow"


def test_s6_an_alias_is_covered_by_a_rule_that_covers_what_it_runs_or_names_it(project: Path) -> None:
    assert decide("git p", project, allow=["Bash(git:*)"]) == "allow"
    assert decide("git sh", project, allow=["Bash(git:*)"]) == "ask"
    assert decide("git sh", project, allow=["Bash(git sh:*)"]) == "allow"
    assert decide("git st", project) == "ask"


@pytest.mark.parametrize(
    "text", ["[include]\npath = x\n", "[help]\nautocorrect = immediate\n", '[alias "x"]\ncommand = push\n']
)
def test_what_cannot_be_told_is_asked_beside_a_rule(text: str, project: Path) -> None:
    (project / ".git/config").write_text(text)
    assert decide("git pushx", project, allow=["Bash"], deny=["Bash(git push:*)"]) == "ask"
    assert decide("git pushx", project, allow=["Bash"]) == "allow"
    assert decide("git status", project, allow=["Bash"], deny=["Bash(git push:*)"]) == "allow"


def test_aliases_of_other_files(project: Path) -> None:
    home = project.parent / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[alias]\nmine = push\n")
    (home / ".config/git/config").write_text("[alias]\nother = push\n")
    for name in ("mine", "other"):
        assert decide(f"git {name}", project, allow=["Bash"], deny=["Bash(git push:*)"]) == "deny"
    assert git_aliases(None, str(home)) == {"mine": "push", "other": "push"}
    (home / ".gitconfig").write_text("#" * (LARGEST + 1))
    assert git_aliases(None, str(home)) is None
    (home / ".gitconfig").unlink()
    (home / ".gitconfig").mkdir()
    assert git_aliases(None, str(home)) is None
    worktree = project.parent / "worktree"
    worktree.mkdir()
    (worktree / ".git").write_text("gitdir: x\n")
    assert Disk().git_aliases(str(worktree), "/nowhere") is None


@pytest.mark.parametrize(
    ("rule", "line", "wanted"),
    [
        ("Bash(pip install:*)", "python3 -m pip install x", "deny"),
        ("Bash(pip install:*)", "python3 -mpip install x", "deny"),
        ("Bash(pip install:*)", "python3 -m pip list", "allow"),
        ("Bash(rm:*)", "bash --rcfile x -i", "ask"),
        ("Bash(rm:*)", "bash --rcfile x -c ls", "ask"),
        ("Bash(rm:*)", "bash --init-file x -i -c ls", "ask"),
        ("Bash(rm:*)", "bash -rcfile x -i -c ls", "ask"),
        ("Bash(rm:*)", "bash -i -c ls", "ask"),
        ("Bash(rm:*)", "bash -ic ls", "ask"),
        ("Bash(rm:*)", "bash -norc -c ls", "ask"),
        ("Bash(rm:*)", "bash -o pipefail -i -c ls", "ask"),
        ("Bash(rm:*)", "bash -o pipefail -c ls", "allow"),
        ("Bash(rm:*)", "bash --norc -c 'ls -i'", "allow"),
        ("Bash(rm:*)", "bash -c 'ls' -i", "allow"),
        ("Bash(rm:*)", "sh -i -c ls", "ask"),
        ("Bash(rm:*)", "busybox rm x", "deny"),
        ("Bash(rm:*)", "coreutils --coreutils-prog=rm x", "ask"),
        ("Bash(rm:*)", "env -S 'rm x'", "deny"),
        ("Bash(rm:*)", "env -S'rm x'", "deny"),
    ],
)
def test_p5_other_ways_to_run_it(rule: str, line: str, wanted: str) -> None:
    assert bash(line, allow=["Bash"], deny=[rule]) == wanted


def test_what_is_said_of_an_alias(project: Path) -> None:
    found = verdict("git sh", cwd=str(project), home="/nowhere", allow=["Bash(git:*)"])
    assert found.reason == "an alias of git runs something that no rule covers"
