"""Ways out that take two steps: one inside, and a second one later, by git outside, by the next command, or by us."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator

import pytest
from processes.traces import until

from mainspring.processes.child import SandboxAccess
from mainspring.processes.children import Children
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.sandbox.git import find_git_links
from sandbox.test_sandbox_git import NAMES, git
from sandbox.walls import ENV, LINUX, Box, seen_folder

pytestmark = LINUX


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as base:
        box = Box(base, env=NAMES)
        git(box.work, "init", "-q", "-b", "main", ".")
        for number in "12":
            git(box.work, "commit", "-q", "--allow-empty", "-m", number)
        (box.base / "out/file").write_text("precious\n")
        yield box
        box.sandbox.close()


# --- links that git writes through, later and outside -------------------------------------------------------------

OUTSIDE = (
    "git commit -q --allow-empty -m evil; git fetch -q . main; git branch new; git notes add -m n; git repack -qad"
)
LINKS = ["COMMIT_EDITMSG", "FETCH_HEAD", "logs/HEAD", "logs/refs/heads/main"]
FOLDERS = ["logs/refs", "refs/heads", "refs/notes", "objects/pack"]


@pytest.mark.parametrize("name", [*LINKS, *FOLDERS])
@pytest.mark.parametrize("inside", [True, False], ids=["in the sandbox", "without it"])
def test_git_writes_nowhere_else_later(box: Box, name: str, inside: bool) -> None:
    path = box.work / ".git" / name
    end = box.base / "out" if name in FOLDERS else box.base / "out/file"
    command = (
        f"mkdir -p .git/refs/notes; cp -r .git/{name}/. {box.base}/out; rm -rf .git/{name}; ln -s {end} .git/{name}"
    )
    if inside:
        box.run(command, SandboxAccess.GIT)
        assert [note.partition(", through")[0] for note in box.notes] == [f"'{path}' is a new link"]
    else:
        subprocess.run(command, shell=True, cwd=box.work, check=True, capture_output=True)
    assert path.is_symlink() is not inside
    before = _out(box)
    subprocess.run(OUTSIDE, shell=True, cwd=box.work, env=ENV | NAMES, check=False, capture_output=True)
    assert (_out(box) == before) is inside


def _out(box: Box) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (box.base / "out").rglob("*") if path.is_file()}


def test_links_that_were_there_or_are_of_gits_own_kind_stay(box: Box) -> None:
    repository = box.work / ".git"
    (repository / "rr-cache").symlink_to(box.base / "out")
    box.run("ln -sf refs/heads/main .git/HEAD", SandboxAccess.GIT)
    assert box.notes == ()
    assert (repository / "HEAD").is_symlink()
    assert find_git_links(str(repository)) == {(f"{repository}/rr-cache", str(box.base / "out"))}
    box.run("rm .git/rr-cache; ln -s ../../state .git/rr-cache", SandboxAccess.GIT)
    assert "is a new link" in " ".join(box.notes)
    box.run("ln -sf refs/../config .git/HEAD", SandboxAccess.GIT)
    assert "is a new link" in " ".join(box.notes)


# --- what is denied, under another path ---------------------------------------------------------------------------


@pytest.mark.parametrize("move", ["mv a b", "mv a/c b", "rm -rf a/c/.env; mv a b"])
def test_what_is_denied_stays_where_it_is(move: str) -> None:
    with seen_folder() as base:
        (base / "work/a/c").mkdir(parents=True)
        (base / "work/a/c/.env").write_text("swordfish")
        box = Box(base, denied=(str(base / "work/a/c/.env"),))
        assert box.run(move).code != 0
        assert "swordfish" not in box.run("grep -r . ; cat a/c/.env b/.env b/c/.env").stdout.text
        assert box.run("echo x > a/new; mkdir a/c/d; mv a/new a/c/d/x; cat a/c/d/x").stdout.text == "x\n"
        box.sandbox.close()


def test_a_denied_place_opens_no_protected_one() -> None:
    with seen_folder() as base:
        (base / "work/.claude/keys").mkdir(parents=True)
        (base / "work/.claude/keys/one").write_text("swordfish")
        box = Box(base, denied=(str(base / "work/.claude/keys/one"),))
        assert box.run("touch .claude/keys/x || touch .claude/x").code != 0
        box.sandbox.close()


def test_a_denied_place_in_another_opens_nothing() -> None:
    with seen_folder() as base:
        (base / "work/a/b/c").mkdir(parents=True)
        for name in ("a/b/x", "a/b/c/x"):
            (base / "work" / name).write_text("swordfish")
        box = Box(base, denied=(str(base / "work/a"), str(base / "work/a/b/c/x")))
        assert "swordfish" not in box.run("cat a/b/x a/b/c/x; ls -R a; chmod -R 777 a; cat a/b/x").stdout.text
        assert box.run("mv a z").code != 0
        box.sandbox.close()


# --- our own locks ------------------------------------------------------------------------------------------------


def test_a_command_cannot_make_us_wait(box: Box) -> None:
    """Whoever can open a lock's file can have the lock, and we would stand still for it."""
    box.run("true", SandboxAccess.GIT)
    assert list((box.base / "state").glob("held-*"))
    lock = f"flock -x {box.base}/state/held-*"
    assert box.run(f"for f in {box.base}/state/held-*; do exec 9<$f && flock -x 9; done").code != 0
    assert box.run(f"ls {box.base}/state; {lock} true").code != 0


def test_a_lock_that_does_not_go_is_told_and_not_waited_for(box: Box) -> None:
    box.run("true")
    (path, *_) = (box.base / "state").glob("held-*")
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    started = time.monotonic()
    with pytest.raises(SandboxError, match="another session is working"):
        box.run("true")
    assert time.monotonic() - started < 10
    os.close(descriptor)
    assert box.run("true").code == 0


def test_a_lock_that_goes_is_waited_for(box: Box) -> None:
    box.run("true")
    (path, *_) = (box.base / "state").glob("held-*")
    holder = subprocess.Popen(["flock", "-x", str(path), "sh", "-c", f"touch {box.base}/has; sleep 0.2"])

    async def main() -> int:
        await until((box.base / "has").exists)
        return (await Children(around=box.sandbox.around).run(box.job("true"))).code

    assert asyncio.run(main()) == 0
    assert holder.wait() == 0
