"""Behind which walls a command runs."""

from __future__ import annotations

import pytest

from mainspring.core.errors import ToolError
from mainspring.processes.child import SandboxAccess
from mainspring.tools.shell import SandboxExclusions, walls_of

GIT = [
    "git commit -m 'mend it'",
    "git add -A && git commit --quiet -m x",
    "cd sub; git status",
    "git log --oneline 2>&1",
    "git add a.py && echo done",
    "git add -u",
    "git switch -c topic",
    "git add a && ls",
    "git add a 2>/dev/null",
    "git stash -u",
    "git rebase main",
    "git commit -c HEAD",
    "git add a | cat",
    "git init && git config user.name 'A B' && git config --local user.email a@b && git add . && git commit -m x",
]
USUAL = [
    "make test",
    "git add . && make",
    "git -c core.pager=evil log",
    "git -C elsewhere commit",
    "git rebase --exec make HEAD~3",
    "git bisect run make",
    "git log --output=.git/HEAD",
    "git rebase -i main",
    "git clone -c core.fsmonitor=evil x y",
    "git push --receive-pack=evil origin",
    "git grep -O'evil' x",
    "./cat x; git add a",
    "git add a > .git/HEAD",
    "git config alias.x '!sh'",
    "git init && git config core.fsmonitor evil",
    "git config user.name",
    "git config user.name x y",
    "git config --global user.name x",
    "git config --file=x user.name y",
    "git config user.name --edit",
    "git submodule foreach make",
    "GIT_EXTERNAL_DIFF=evil git diff",
    "git status > .git/commondir",
    "echo x > .git/commondir; git status",
    "$(echo git) commit",
    "git $WHAT",
    "git() { evil; }; git commit",
    "eval git commit",
    "/tmp/git commit",
    "gitk",
    "git",
    "sh -c 'git commit'; evil",
    "git fetch --upload-pack=evil .",
    "git commit -m \"$(evil)\"",
]  # fmt: skip


@pytest.mark.parametrize("command", GIT)
def test_nothing_but_git(command: str) -> None:
    assert walls_of(SandboxExclusions())(command, False) is SandboxAccess.GIT


@pytest.mark.parametrize("command", USUAL)
def test_anything_else(command: str) -> None:
    assert walls_of(SandboxExclusions())(command, False) is SandboxAccess.USUAL


@pytest.mark.parametrize(
    ("command", "walls"),
    [
        ("docker run x", SandboxAccess.NONE),
        ("docker ps; docker images", SandboxAccess.NONE),
        ("npm test", SandboxAccess.NONE),
        ("npm install", SandboxAccess.USUAL),
        ("docker ps; evil", SandboxAccess.USUAL),
        ("docker $(evil)", SandboxAccess.USUAL),
        ("dockerd", SandboxAccess.USUAL),
        ("", SandboxAccess.USUAL),
        ("if", SandboxAccess.USUAL),
    ],
)
def test_what_the_user_excluded(command: str, walls: SandboxAccess) -> None:
    assert walls_of(SandboxExclusions(("docker:*", "npm test")))(command, False) is walls


def test_on_request() -> None:
    assert walls_of(SandboxExclusions())("make", True) is SandboxAccess.NONE
    with pytest.raises(ToolError, match="cannot be left"):
        walls_of(SandboxExclusions(on_request=False))("make", True)
