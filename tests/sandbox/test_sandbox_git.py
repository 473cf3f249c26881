"""The git room: git works in the sandbox, and nothing that leads to code can be changed from there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.traces import until, with_word

from mainspring.processes.child import SandboxAccess
from mainspring.sandbox.git import FILES, FOLDERS, find_nested_repositories, git_environment, open_room
from mainspring.sandbox.placeholders import is_our_file
from sandbox.walls import ENV, LINUX, NOBODY, Box, seen_folder

pytestmark = LINUX

NAMES = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip

PYTHON = os.path.realpath(sys.executable)  # an environment may lie in a folder that is hidden in there


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as base:
        box = Box(base, env=NAMES)
        git(box.work, "init", "-q", "-b", "main", ".")
        (box.work / "file").write_text("one\n")
        git(box.work, "add", "file")
        git(box.work, "commit", "-qm", "first")
        yield box
        box.sandbox.close()


def git(folder: Path, *words: str) -> str:
    """Outside of the sandbox."""
    ended = subprocess.run(["git", *words], cwd=folder, env=ENV | NAMES, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def renaming(path: Path) -> str:
    """`mv` would copy, and remove what it can."""
    return f"{PYTHON} -I -c 'import os, sys; os.rename(sys.argv[1], sys.argv[1] + \"2\")' {path}"


def in_room(box: Box, command: str) -> str:
    ended = box.run(command, SandboxAccess.GIT)
    assert ended.code == 0, ended.stdout.text
    return ended.stdout.text


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink()]
    return {str(path.relative_to(folder)): f"{path.lstat().st_mode:o} {_content(path)!r}" for path in files}


def _content(path: Path) -> bytes | str:
    return str(path.readlink()) if path.is_symlink() else path.read_bytes()


def code_of(repository: Path) -> dict[str, str]:
    """All that leads to code."""
    tops = ("config", *FOLDERS, *FILES)
    found = tree(repository)
    return {name: looks for name, looks in found.items() if any(name == t or name.startswith(f"{t}/") for t in tops)}


# --- what works ---------------------------------------------------------------------------------------------------

TWO = (
    "git checkout -q -b topic; echo t > t; git add t; git commit -qm t; "
    "git checkout -q main; echo m > m; git add m; git commit -qm m"
)
WORK = [
    ("add and commit", "echo two >> file; git add file && git commit -qm second; git log --format=%s", "second\nfirst"),
    ("commit all", "echo two >> file; git commit -qam second; git status --short", ""),
    ("branch", "git branch topic && git branch --format='%(refname:short)'", "main\ntopic"),
    ("checkout", "git checkout -q -b topic && git symbolic-ref --short HEAD", "topic"),
    ("checkout of a remote's branch", "git checkout -q -b topic other/main && git symbolic-ref --short HEAD", "topic"),
    ("the same by its name", "git checkout -q theirs && git symbolic-ref --short HEAD", "theirs"),
    (
        "merge",
        f"{TWO}; git merge -q -m merged topic && git log -1 --format=%s && ls",
        "merged\nfile\nm\nt",
    ),
    ("stash", "echo two >> file; git stash -q && cat file && git stash pop -q && cat file", "one\none\ntwo"),
    ("tag", "git tag -a -m tagged v1 && git describe", "v1"),
    ("fetch from a path", "git fetch -q ../other main && git log -1 --format=%s FETCH_HEAD", "theirs"),
    ("fetch from a remote", "git fetch -q other && git log -1 --format=%s other/main", "theirs"),
    ("gc", "git gc -q && git count-objects && git fsck --strict 2>&1", "0 objects, 0 kilobytes"),
    ("worktree", "git worktree add -q -b tree ../work/tree && cd tree && git status --short --branch", "## tree"),
    (
        "commit in a new worktree",
        "git worktree add -q -b tree t; cd t; echo t > t; git add t; git commit -qm t; git log -1 --format=%s tree",
        "t",
    ),
    (
        "rebase",
        f"{TWO}; git rebase -q main topic && git log --format=%s",
        "t\nm\nfirst",
    ),
    ("revert and pick", "git revert --no-edit HEAD >/dev/null && git cherry-pick HEAD~1 >/dev/null && ls", "file"),
    ("reset", "echo two > file; git reset -q --hard && cat file", "one"),
    ("move and remove", "git mv file new && git rm -q --cached new && git status --short", "D  file\n?? new"),
    ("notes", "git notes add -m n && git notes show", "n"),
]


@pytest.mark.parametrize(("command", "said"), [one[1:] for one in WORK], ids=[one[0] for one in WORK])
def test_git_works(box: Box, command: str, said: str) -> None:
    other = box.base / "other"
    subprocess.run(["git", "clone", "-q", str(box.work), str(other)], check=True, env=ENV | NAMES)
    git(other, "commit", "-q", "--allow-empty", "-m", "theirs")
    git(other, "branch", "theirs")
    git(box.work, "remote", "add", "-f", "other", str(other))
    before = code_of(box.work / ".git")
    assert in_room(box, command).strip() == said
    assert code_of(box.work / ".git") == before
    assert list((box.work / ".git").glob("*.lock")) == []
    assert box.notes == ()
    git(box.work, "fsck", "--strict")


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests are run by an ordinary user then")
def test_git_works_for_an_ordinary_user(box: Box) -> None:
    """What the sandbox made is given to that user, as it would be if we were that user."""
    command = (
        "echo two >> file; git add . && git commit -qm second && git gc -q; git log --format=%s; echo x > .git/config"
    )
    with box.sandbox.around(box.job(command, SandboxAccess.GIT)) as job:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(box.base)], check=True)
        user = ["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        ended = subprocess.run(
            [*user, *job.argv],
            pass_fds=job.passed,
            cwd=job.cwd,
            env=dict(job.env),
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.stdout == "second\nfirst\n"
    assert "Read-only file system" in ended.stderr
    assert ".git/commondir" not in tree(box.work)


def test_in_the_usual_room_git_can_only_read(box: Box) -> None:
    assert box.run("echo two >> file; git status --short; git diff --stat").code == 0
    assert "Read-only file system" in box.run("git add file").stdout.text


def test_the_hooks_of_the_repository_run_within_the_walls(box: Box) -> None:
    hook = box.work / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho ran > ran; echo x > {box.base}/out/x; exit 0\n")
    hook.chmod(0o755)
    said = in_room(box, "git commit -q --allow-empty -m x")
    assert "Read-only file system" in said
    assert (box.work / "ran").read_text() == "ran\n"
    assert list((box.base / "out").iterdir()) == []


def test_our_settings_come_after_those_that_are_there() -> None:
    added = git_environment({"GIT_CONFIG_COUNT": "2"})
    assert (added["GIT_CONFIG_COUNT"], added["GIT_CONFIG_KEY_2"]) == ("5", "branch.autoSetupMerge")
    assert git_environment({})["GIT_CONFIG_KEY_0"] == "branch.autoSetupMerge"


# --- what does not ------------------------------------------------------------------------------------------------

EVIL = "[core]\\n\\tfsmonitor = touch /ran\\n"
TRIES = [
    "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    "mkdir -p .git/hooks; cp /bin/true .git/hooks/post-checkout",
    "mkdir -p .git/hooks; mv .git/hooks .git/h; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
    "rm -rf .git/hooks; ln -s ../evil .git/hooks",
    f"printf '{EVIL}' >> .git/config",
    f"printf '{EVIL}' > .git/c; mv .git/c .git/config",
    "git config core.fsmonitor 'touch /ran'",
    "rm .git/config; ln -s ../evil .git/config",
    f"printf '{EVIL}' > .git/config.worktree",
    "rm -f .git/config.worktree; echo x > .git/config.worktree",
    "mkdir evil; echo ../evil > .git/commondir",
    "mkdir evil; echo ../evil > c; rm -f .git/commondir; mv c .git/commondir",
    "mkdir -p .git/remotes; printf 'URL: ./evil\\n' > .git/remotes/origin",
    "mkdir -p .git/branches; echo ./evil > .git/branches/origin",
    "echo ../../evil > .git/objects/info/alternates",
    "mv .git/objects .git/o; mkdir -p .git/objects/info; echo ../../evil > .git/objects/info/alternates",
    "mv .git/objects/info .git/i; mkdir -p .git/objects/info; echo ../../evil > .git/objects/info/alternates",
    "mv .git g; mkdir .git",
    "rm -rf .git",
]


@pytest.mark.parametrize("command", TRIES)
@pytest.mark.parametrize("bare_minimum", [False, True], ids=["as made", "nothing but what is needed"])
def test_what_leads_to_code_stays_as_it_was(box: Box, command: str, bare_minimum: bool) -> None:
    repository = box.work / ".git"
    if bare_minimum:
        subprocess.run(["rm", "-rf", *[str(repository / name) for name in FOLDERS]], check=True)
    before = code_of(repository)
    assert box.run(f"set -e; {command}", SandboxAccess.GIT).code != 0
    assert code_of(repository) == before
    assert not any((repository / name).is_symlink() for name in ("hooks", "config", *FILES))
    # Without the walls it would have come through: the try is able to.
    outside = subprocess.run(["bash", "-c", command], cwd=box.work, env=ENV | NAMES, capture_output=True, check=False)
    assert outside.returncode == 0, outside.stderr
    assert code_of(repository) != before


def test_what_stands_in_is_gone_afterwards_also_if_we_are_killed(box: Box) -> None:
    repository = box.work / ".git"
    before = names(repository)
    inside = in_room(box, "ls .git; cat .git/commondir; git rev-parse --git-common-dir").split()
    assert {"commondir", "config.worktree", "remotes"} < set(inside)
    assert names(repository) == before
    box.sandbox.close()  # and its guard
    agent = subprocess.Popen([sys.executable, "-c", AGENT, box.program, str(box.base)])

    async def main() -> None:
        try:
            await until((box.work / "started").exists)
            assert is_our_file(str(repository / "commondir"))
            assert git(box.work, "status", "--short") == "?? started\n"  # git outside does not mind
        finally:
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        await until(lambda: with_word(str(box.base)) == [])

    asyncio.run(main())
    assert names(repository) == before
    assert not (repository / "objects/info/alternates").exists()


AGENT = """
import asyncio, sys
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.sandbox.sandbox import SandboxLayout, Sandbox
program, base = sys.argv[1:]
sandbox = Sandbox(program, SandboxLayout((f"{base}/work",), f"{base}/temp", f"{base}/state"))
argv = ("/bin/bash", "-c", "touch started; sleep 100")
job = ProcessSpec(argv, f"{base}/work", {"PATH": "/usr/bin:/bin"}, walls=SandboxAccess.GIT)
asyncio.run(Children(around=sandbox.around).run(job))
"""


def test_a_file_that_the_configuration_includes_stays_as_it_was(box: Box) -> None:
    repository = box.work / ".git"
    git(box.work, "config", "include.path", "extra")
    git(box.work, "config", "--add", "include.path", "later.inc")
    (repository / "extra").write_text("[user]\n")
    (repository / "program").write_text("#!/bin/sh\n")
    box.run(
        "echo x > .git/extra; rm .git/extra; echo x > .git/program; echo '[core]' > .git/later.inc", SandboxAccess.GIT
    )
    assert ((repository / "extra").read_text(), (repository / "program").read_text()) == ("[user]\n", "#!/bin/sh\n")
    assert not (repository / "later.inc").exists()  # it came, and was taken away
    assert "the configuration of the repository includes it" in box.notes[0]


# --- what is looked at afterwards ----------------------------------------------------------------------------------

TREE = "mkdir -p .git/worktrees/t; cd .git/worktrees/t; echo 'ref: refs/heads/main' > HEAD; echo /x/.git > gitdir;"
MODULE = "git init -q --bare m; mkdir -p .git/modules; mv m .git/modules/m;"
LEFT = [
    (f"{TREE} echo ../../../evil > commondir", "worktrees/t", "is a new worktree"),
    (f"{TREE} echo ../.. > commondir; echo '[core]' > config.worktree", "worktrees/t", "is a new worktree"),
    (f"{MODULE} git -C .git/modules/m config core.fsmonitor x", "modules/m", "the setting 'fsmonitor = x'"),
    (f"{MODULE} echo x > .git/modules/m/hooks/update", "modules/m", "with hooks"),
    (f"{MODULE} echo ../e > .git/modules/m/commondir", "modules/m", "with 'commondir'"),
    (
        "mkdir .git/rebase-merge; printf 'pick 1\\n exec touch /ran\\n' > .git/rebase-merge/git-rebase-todo",
        "rebase-merge/git-rebase-todo",
        "contains commands",
    ),
    ("mkdir .git/rebase-merge; echo ../x > .git/rebase-merge/strategy", "rebase-merge/strategy", "merge strategy"),
    (
        "mkdir .git/sequencer; printf '[options]\\n\\tstrategy = ../x\\n' > .git/sequencer/opts",
        "sequencer/opts",
        "merge strategy",
    ),
]


@pytest.mark.parametrize(("command", "place", "reason"), LEFT, ids=[f"{one[1]} {one[2]}" for one in LEFT])
def test_what_is_left_is_taken_away_and_told(box: Box, command: str, place: str, reason: str) -> None:
    path = box.work / ".git" / place
    in_room(box, command)
    assert not path.exists()
    (note,) = box.notes
    assert note.startswith(f"'{path}' ")
    assert reason in note
    (aside,) = (box.base / "state/aside").iterdir()
    assert note.endswith(f"it was moved to '{aside}'")


def test_what_was_there_before_is_left_alone(box: Box) -> None:
    todo = box.work / ".git/rebase-merge/git-rebase-todo"
    todo.parent.mkdir()
    todo.write_text("exec make test\n")
    in_room(box, "echo 'pick 1' >> .git/rebase-merge/git-rebase-todo")
    assert todo.read_text() == "exec make test\npick 1\n"
    assert box.notes == ()


# --- other shapes -------------------------------------------------------------------------------------------------


def test_submodules_and_worktrees(box: Box) -> None:
    library = box.base / "library"
    subprocess.run(["git", "clone", "-q", str(box.work), str(library)], check=True, env=ENV | NAMES)
    git(box.work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "libs/lib")
    git(box.work, "commit", "-qm", "with a library")
    git(box.work, "worktree", "add", "-q", "-b", "tree", "tree")
    module, tree_ = box.work / ".git/modules/libs/lib", box.work / ".git/worktrees/tree"
    before = code_of(module)
    said = in_room(
        box,
        "cd libs/lib; echo two > file; git add file; git commit -qm inner; cd ../..; git commit -qam outer; "
        "cd tree; echo t > t; git add t; git commit -qm t; git log -1 --format=%s; git -C .. log -1 --format=%s; "
        "git -C ../libs/lib log -1 --format=%s",
    )
    assert said.split() == ["t", "outer", "inner"]
    tries = [
        *[f"echo x > {module}/{name}" for name in ("config", "hooks/update", *FILES)],
        *[f"echo x > {tree_}/{name}" for name in ("commondir", "gitdir", "config.worktree")],
        *[renaming(path) for path in (module, module.parent, module.parent.parent, tree_, tree_.parent)],
        "echo 'gitdir: x' > tree/.git", "rm libs/lib/.git",
    ]  # fmt: skip
    for command in tries:
        assert box.run(command, SandboxAccess.GIT).code != 0, command
    assert code_of(module) == before
    assert (tree_ / "commondir").read_text() == "../..\n"
    assert not (tree_ / "config.worktree").exists()
    assert box.notes == ()


def test_a_submodule_that_is_not_whole_or_linked_is_closed(box: Box) -> None:
    modules = box.work / ".git/modules"
    for name in ("part", "linked"):
        git(box.work, "init", "-q", "--bare", f".git/modules/{name}")
    (modules / "part/HEAD").unlink()
    subprocess.run(["rm", "-rf", str(modules / "linked/hooks")], check=True)
    (modules / "linked/hooks").symlink_to("../../../hooks")
    before = tree(modules)
    said = box.run(
        "rm -rf .git/modules/*; echo x >> .git/modules/part/config; ln -sfn x .git/modules/linked/hooks",
        SandboxAccess.GIT,
    )
    assert "Read-only file system" in said.stdout.text
    assert tree(modules) == before
    assert [note.partition(": ")[2][:20] for note in box.notes] == [
        "its 'hooks' is a link"[:20],
        "it is not a complete repository"[:20],
    ]
    assert in_room(box, "git commit -q --allow-empty -m x; git log -1 --format=%s") == "x\n"


NESTED = "a/b/c/d/e"  # deeper than the search goes
MAKE = f"git init -q {NESTED}; git -C {NESTED} commit -q --allow-empty -m x; git -C {NESTED} config"


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_nested_repository_that_git_would_obey_is_taken_away(box: Box, version: str) -> None:
    """`git status` goes into what the index names, so it would run this from the outer repository."""
    git(box.work, "config", "index.version", version)
    ran = box.base / "ran"
    assert box.run(f"{MAKE} core.fsmonitor 'touch {ran}; false'").code == 0
    git(box.work, "status")
    assert not ran.exists()  # as long as it is not in the index
    in_room(box, f"git add {NESTED}")
    assert box.notes[0].startswith(f"'{box.work}/{NESTED}/.git' configures git")
    git(box.work, "status")
    assert not ran.exists()
    (aside,) = (box.base / "state/aside").iterdir()
    aside.rename(box.work / NESTED / ".git")
    git(box.work, "status")
    assert ran.exists()  # it would have


def test_a_nested_repository_that_is_in_the_index_can_only_be_read(box: Box) -> None:
    in_room(box, f"{MAKE} user.name A; git add {NESTED}; git commit -qm nested")
    assert box.notes == ()
    place = f"{NESTED}/.git"
    tries = (
        f"echo x >> {place}/config",
        f"mv {place} {place}2",
        "mv a/b/c x",
        f"rm -rf {place}; ls {place}/HEAD && exit 1",
    )
    before = tree(box.work / place)
    for command in tries:
        assert box.run(command).code != 0, command
    assert tree(box.work / place) == before
    in_room(box, f"cd {NESTED}; git commit -q --allow-empty -m inner")  # for git, it is open
    assert git(box.work / NESTED, "log", "-1", "--format=%s") == "inner\n"
    subprocess.run(["rm", "-rf", str(box.work / place)], check=True)
    assert box.run(f"git init -q {NESTED}").code != 0  # missing, it cannot be made
    assert not (box.work / place).exists()
    in_room(box, f"git init -q {NESTED}")
    assert box.run(f"git -C {NESTED} config core.fsmonitor x").code != 0


def test_a_repository_behind_a_file_is_found(box: Box) -> None:
    """A common layout: a bare repository beside its worktrees."""
    git(box.work, "clone", "-q", "--bare", ".", "sub/.bare")
    git(box.work / "sub/.bare", "worktree", "add", "-q", "../main", "main")
    config = box.work / "sub/.bare/config"
    before = config.read_text()
    assert box.run("echo x >> sub/.bare/config").code != 0
    assert box.run("echo x >> sub/.bare/config", SandboxAccess.GIT).code != 0
    assert config.read_text() == before
    in_room(box, "cd sub/main; echo x > x; git add x; git commit -qm x")
    assert git(box.work / "sub/main", "log", "-1", "--format=%s") == "x\n"


def test_links_are_not_opened(box: Box) -> None:
    hooks = box.work / ".git/hooks"
    subprocess.run(["rm", "-rf", str(hooks)], check=True)
    (box.work / "shared").mkdir()
    hooks.symlink_to("../shared")
    said = box.run("echo x > x; git add x", SandboxAccess.GIT)
    assert "Read-only file system" in said.stdout.text
    assert "its 'hooks' is a link" in box.notes[0]


def test_too_many_worktrees_are_closed(box: Box) -> None:
    repository = box.work / ".git"
    for number in range(13):
        (repository / f"worktrees/{number}").mkdir(parents=True)
    room = open_room([str(repository)])
    assert room.notes == (f"'{repository}/worktrees' can only be read: there are more than 12 in it",)
    assert box.run("mkdir .git/worktrees/x", SandboxAccess.GIT).code != 0
    assert in_room(box, "git commit -q --allow-empty -m x; git log -1 --format=%s") == "x\n"


# --- where there is none yet ----------------------------------------------------------------------------------------


@pytest.fixture
def empty(box: Box) -> Box:
    subprocess.run(["rm", "-rf", str(box.work / ".git")], check=True)
    return box


def test_without_a_repository_it_is_said(empty: Box) -> None:
    assert empty.run("git add file", SandboxAccess.GIT).code != 0
    assert empty.notes == (f"there is no repository in '{empty.work}' or above it, so none could be written",)
    assert empty.names() == ["file"]


def test_git_makes_a_repository_in_its_room_only(empty: Box) -> None:
    assert empty.run("git init -q .").code != 0
    said = in_room(empty, "git init -q -b main . && git add file && git commit -qm first && git log --format=%s HEAD")
    assert said == "first\n"
    assert empty.notes == ()
    assert empty.names() == [".git", "file"]
    in_room(empty, "git commit -q --allow-empty -m second")  # from now on it is one like any other
    assert empty.run("git config core.fsmonitor x", SandboxAccess.GIT).code != 0
    assert git(empty.work, "log", "--format=%s") == "second\nfirst\n"


INIT = "git init -q . && "
NEW = [
    (INIT + f"printf '{EVIL}' >> .git/config", "with the setting"),
    (INIT + "mkdir -p .git/hooks; cp /bin/true .git/hooks/pre-commit", "with hooks"),
    (INIT + "mkdir evil; echo ../evil > .git/commondir", "with 'commondir'"),
    (INIT + "git config include.path ../evil", "with the setting"),
    (INIT + "git config core.sshCommand evil", "with the setting"),
    (INIT + "mkdir -p .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo", "contains commands"),
    ("git init -q --separate-git-dir=evil .", "leads to a repository elsewhere"),
    ("git init -q evil; ln -s evil/.git .git", "leads to a repository elsewhere"),
    ("echo 'gitdir: not-yet' > .git", "leads to a repository elsewhere"),
]


@pytest.mark.parametrize(("command", "told"), NEW, ids=[one[0] for one in NEW])
def test_a_new_repository_that_leads_to_code_is_taken_away(empty: Box, command: str, told: str) -> None:
    in_room(empty, command)
    (note,) = empty.notes
    assert told in note
    assert "it was moved to" in note
    assert len(list((empty.base / "state/aside").iterdir())) == 1
    if told != "contains commands":
        assert not os.path.lexists(empty.work / ".git")


def test_a_name_in_a_new_repository_is_harmless(empty: Box) -> None:
    in_room(empty, INIT + "git config user.name A && git config --local user.email a@b")
    assert empty.notes == ()
    assert git(empty.work, "config", "--local", "user.email") == "a@b\n"


def test_a_bare_repository_in_the_working_folder_is_none_afterwards(empty: Box) -> None:
    in_room(empty, "git init -q --bare .")
    assert "makes the folder a repository for git" in " ".join(empty.notes)
    assert not (empty.work / "HEAD").exists()


# --- it stays one ---------------------------------------------------------------------------------------------------

SPOILING = [
    ("rm .git/HEAD", "HEAD"),
    ("echo nonsense > .git/HEAD", "HEAD"),
    ("ln -sf /etc/passwd .git/HEAD", "HEAD"),
    ("rm .git/HEAD; mkdir -p .git/HEAD/x", "HEAD"),
    ("rm -rf .git/refs", "refs"),
    ("rm -rf .git/refs; touch .git/refs", "refs"),
    ("chmod 000 .git/refs", "refs"),
    ("chmod 000 .git/objects", "objects"),
    ("chmod 000 .git", ".git"),
]


@pytest.mark.parametrize(("command", "place"), SPOILING, ids=[one[0] for one in SPOILING])
def test_what_was_a_repository_stays_one(box: Box, command: str, place: str) -> None:
    """Else git takes what poses as one beside it, or above."""
    before = (box.work / ".git/HEAD").read_bytes()
    in_room(box, f"git pack-refs --all; {command}")
    assert [note.partition("' ")[0].rpartition("/")[2] for note in box.notes] == [place]
    assert (box.work / ".git/HEAD").read_bytes() == before
    assert Path(git(box.work, "rev-parse", "--absolute-git-dir").strip()) == box.work / ".git"
    assert git(box.work, "log", "--format=%s") == "first\n"


def test_a_head_that_moved_is_left_alone(box: Box) -> None:
    in_room(box, "git checkout -q --detach")
    assert box.notes == ()
    assert len((box.work / ".git/HEAD").read_text().strip()) == 40


def entry(mode: int, name: bytes, *, hashed: int, odd: bytes, extended: bool = False) -> bytes:
    """As git writes it into an index; `odd` stands for times and numbers of files, which may be any bytes."""
    flags = (0x4000 if extended else 0) | min(len(name), 0xFFF)
    head = (odd * 24)[:24] + mode.to_bytes(4, "big") + (odd * 12)[:12] + (odd * hashed)[:hashed]
    whole = head + flags.to_bytes(2, "big") + (b"\0\0" if extended else b"") + name
    return whole + b"\0" * (8 - len(whole) % 8)


@pytest.mark.parametrize("hashed", [20, 32])
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("odd", [b"\x98?\n\xc0", b"\0\0\xe0\0", b"\n", b"\0", b"x"])
def test_whatever_bytes_stand_in_an_index_only_names_are_names(
    hashed: int, extended: bool, odd: bytes, tmp_path: Path
) -> None:
    """Times are bytes like others: read as a name, they brought forth folders that nobody had, and a refusal where one
    of them was a line end (seen once in thirty runs of a test)."""
    links = [b"a/b/c", b"m", b"n" * 70]
    files = [entry(0o100644, b"f%d" % n, hashed=hashed, odd=odd) for n in range(3)]
    made = [entry(0o160000, name, hashed=hashed, odd=odd, extended=extended) for name in links]
    entries = [part for pair in zip(made, files, strict=True) for part in pair]
    repository = tmp_path / ".git"
    repository.mkdir()
    (repository / "config").write_text("")
    (repository / "index").write_bytes(b"DIRC" + (3).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"".join(entries))
    assert find_nested_repositories(str(repository)) == [f"{tmp_path}/{name.decode()}" for name in links]
