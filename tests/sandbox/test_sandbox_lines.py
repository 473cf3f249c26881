"""Which lines get the git room, and which the one for `git init`; the rest is in tests/tools/test_shell_walls.py."""

from __future__ import annotations

import pytest

from mainspring.processes.child import SandboxAccess
from mainspring.tools.shell import SandboxExclusions, walls_of

SED = "GIT_SEQUENCE_EDITOR="
LINES = {
    SandboxAccess.INIT: [
        "git init",
        "git init -q -b main x && cd x",
        "cd a && git init && echo ok",
        "git config user.name A",
        "git init && git config --local user.email a@b",
    ],
    SandboxAccess.GIT: [
        "git init --bare x",
        "git init && git status",
        "git init; cat x",
        "GIT_EDITOR=true git rebase --continue",
        f"{SED}: git rebase -i --autosquash HEAD~3",
        f"{SED}\"sed -i '2,\\$s/^pick/squash/'\" git rebase -i HEAD~3",
        f"{SED}'sed -i s/pick/reword/' GIT_EDITOR=true git rebase -i HEAD~1 ; git log",
        f"{SED}'sed -i -e 1d' git rebase -i x",
        f"{SED}'sed -i \"s|a|drop|g\"' git rebase --interactive x",
        "GIT_AUTHOR_DATE='2020-01-01 00:00' git commit -m x",
        "GIT_PAGER=cat git log",
        "git bisect start HEAD HEAD~3",
        "git bisect good && git bisect reset",
    ],
    SandboxAccess.USUAL: [
        "git init --template=x",
        "git init --separate-git-dir=x; make",
        "PATH=x git init",
        "git init > .git/config",
        "git rebase -i x",
        f"{SED}\"sed -i 's/^pick .*/exec evil/'\" git rebase -i x",
        f"{SED}'sed -i s/^pick/exec/' git rebase -i x",
        f"{SED}'sed -i s/^pick/x/' git rebase -i x",
        f"{SED}'sed -i s/a/b/' git rebase -i x",
        f"{SED}'sed -i s/a/b/e' git rebase -i x",
        f"{SED}'sed -i s/a/b/w' git rebase -i x",
        f"{SED}'sed -i s/a/b;evil/' git rebase -i x",
        f"{SED}'sed -i s/a/$(evil)/' git rebase -i x",
        f"{SED}'sed -i \"s/a/`evil`/\"' git rebase -i x",
        f"{SED}\"sed -i 's/a/b/;e evil/'\" git rebase -i x",
        f"{SED}\"sed -i 's/a/b/; s/c/d/e'\" git rebase -i x",
        f"{SED}\"sed -i 's/a\\\\/b/c/e'\" git rebase -i x",
        f"{SED}'sed -i s/a/b/ -f x' git rebase -i x",
        f"{SED}'sed -i s/a/b/ && evil' git rebase -i x",
        f"sed -i s/a/b/ file; {SED}'sed -i s/a/b/' git rebase -i x",
        f"{SED}./evil git rebase -i x",
        f"{SED}true git rebase -i --exec evil x",
        f"{SED}true make",
        "GIT_EDITOR=$X git commit",
        'GIT_EDITOR="$(evil)" git commit',
        "GIT_EDITOR=true; git commit",
        "GIT_PAGER=evil git log",
        "GIT_DIR=x git status",
        "GIT_EXEC_PATH=x git init",
        "GIT_AUTHOR_NAME=make git commit -m x; make",
        "GIT_AUTHOR_NAME=make git commit -m x; sh -c make",
        "LC_ALL=make git commit -m x; make",
        "GIT_AUTHOR_NAME=make git commit -m x; eval $X",
        "GIT_AUTHOR_NAME='$(evil)' git commit -m x; $(evil)",
        "git bisect run make",
        "git submodule add ../x lib",  # it would be half done, since its address goes into the configuration
    ],
}
EACH = [(walls, line) for walls, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("walls", "line"), EACH, ids=[line for _, line in EACH])
def test_which_walls(walls: SandboxAccess, line: str) -> None:
    assert walls_of(SandboxExclusions())(line, False) is walls
