"""What git says of a project, without the project having a say in it (T3).

A repository's own configuration can name programs that git runs even for `git status`: fsmonitor, filters, pagers,
hooks, transports of a partial clone, and whatever a file that it includes adds. Names of filters are free, so they
cannot be switched off one by one. So git never gets to see that configuration: it is given a git folder of ours, with a
configuration of ours, in which objects, references, index and excludes are links to the project's. From the project's
file we take over a few values that are plain words and numbers and change how files are compared.

Submodules are not entered: git would start itself there, with their configuration.
"""

# ruff: noqa: PTH102, PTH106, PTH108, PTH110, PTH116, PTH123, PTH208, PTH211  # pathlib takes 8 ms to load

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Generator, Mapping

from mainspring.context.texts import read_text
from mainspring.core.value import Bundle, Value
from mainspring.processes.child import Job, Limits
from mainspring.processes.children import Children
from mainspring.processes.output import Sizes
from mainspring.processes.paths import PathRefused, resolve
from mainspring.processes.programs import USUAL, find

SECONDS = 2.0  # for each call; they run beside each other
MOST_STATUS = 40  # lines
MOST_COMMITS = 5
WIDTH = 120  # characters of a line
SMALL = 64 * 1024  # bytes of the files that we read ourselves
OUTPUT = Sizes(head=32 * 1024, tail=0)

# Of the git folder of a worktree, and of the one that all worktrees share.
OWN = ("index",)
SHARED = ("objects", "refs", "packed-refs", "shallow", "info")

_KEPT = re.compile(
    r"^[ \t]*(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol|trustctime|objectformat|splitindex)"
    r"[ \t]*=[ \t]*(true|false|input|lf|crlf|native|sha1|sha256)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_WORKTREE = re.compile(r"^[ \t]*worktree[ \t]*=[ \t]*([^\s\"#;][^\"#;\n]*)$", re.IGNORECASE | re.MULTILINE)
_BRANCH = re.compile(r"ref:[ \t]*refs/heads/([^\s~^:?*\[\\\x00-\x1f\x7f]{1,250})")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Repository(Bundle):
    """All paths are real."""

    root: str
    own: str  # HEAD and the index
    shared: str  # everything else; the same, unless this is a worktree


class Snapshot(Value):
    branch: str = ""  # empty: detached, or not known
    head: str = ""  # the commit, when detached
    status: tuple[str, ...] | None = None  # None: git did not say
    more: bool = False  # there are more lines
    commits: tuple[str, ...] = ()
    problem: str = ""


async def snapshot(root: str, *, environ: Mapping[str, str], children: Children | None = None) -> Snapshot:
    """Of the repository whose working tree is at `root`. Never raises, and takes two seconds at most."""
    try:
        repository = open_repository(root)
        branch, head = read_head(repository)
    except (OSError, PathRefused) as error:
        return Snapshot(problem=str(error))
    program = find("git", path=environ.get("PATH", ""), outside=(root,))
    if program is None:
        return Snapshot(branch, head, problem="there is no git outside of the project")
    try:
        with _folder_for(repository, environ.get("TMPDIR") or "/tmp") as folder:  # noqa: S108  # made new, for us only
            asking = _Asking(program, repository, folder, environ, children or Children())
            said, commits = await asyncio.gather(asking.run(*STATUS), asking.run(*LOG))
    except OSError as error:
        return Snapshot(branch, head, problem=str(error))
    lines = None if said is None else [_clean(line) for line in said.split("\0") if line]
    return Snapshot(
        branch,
        head,
        None if lines is None else tuple(lines[:MOST_STATUS]),
        len(lines or ()) > MOST_STATUS,
        tuple([_clean(line) for line in (commits or "").split("\n") if line]),
        "" if lines is not None else f"git did not tell the status, or not within {SECONDS:.0f} seconds",
    )


STATUS = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all")
LOG = ("log", f"--max-count={MOST_COMMITS}", "--no-color", "--no-decorate", "--no-show-signature", "--format=%h %s")


class _Asking(Bundle):
    program: str
    repository: Repository
    folder: str
    environ: Mapping[str, str]
    children: Children

    async def run(self, *words: str) -> str | None:
        """What it printed; None: it failed, or took too long."""
        argv = [self.program, "--no-pager", "--no-optional-locks", "--no-replace-objects", *SAFE, *words]
        job = Job(argv, self.repository.root, self._env(), Limits(SECONDS, OUTPUT))
        try:
            ended = await self.children.run(job)
        except (OSError, ValueError):
            return None
        if ended.code != 0 or ended.timed_out:
            return None
        text = ended.stdout.data.decode(errors="replace")
        return text[: text.rfind("\0") + 1] if ended.stdout.cut else text

    def _env(self) -> dict[str, str]:
        """Nothing of the user's but the home folder, for the ignore file in it."""
        folders = {name: self.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if self.environ.get(name)}
        return {
            **folders,
            **ENVIRONMENT,
            "GIT_DIR": self.folder,
            "GIT_WORK_TREE": self.repository.root,
            "GIT_INDEX_FILE": f"{self.folder}/index",
        }


ENVIRONMENT = {
    "PATH": ":".join(USUAL),
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EXTERNAL_DIFF": "",
    "GIT_FLUSH": "0",
}
# The configuration is ours and says none of this. It is said all the same: it costs nothing, and outlives our mistakes.
SAFE = tuple(
    word
    for pair in ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "gc.auto=0")
    for word in ("-c", pair)
)


# --- the project's git folder -----------------------------------------------------------------------


def open_repository(root: str) -> Repository:
    """Where its parts are. Raises `PathRefused` for one that reaches out of its place."""
    path = resolve(f"{root}/.git", "/")
    if os.stat(path.real).st_uid not in (os.geteuid(), os.stat(root).st_uid):
        raise PathRefused(f"'{root}/.git' belongs to another user")
    if path.kind == "folder":
        if path.via:
            raise PathRefused(f"'{root}/.git' is a link")
        return _checked(Repository(root, path.real, path.real))
    pointed = _first_line(f"{root}/.git")
    if not pointed.startswith("gitdir: "):
        raise PathRefused(f"'{root}/.git' is no git folder")
    own = resolve(pointed.removeprefix("gitdir: ").strip(), root).real
    return _checked(Repository(root, own, _shared_by(root, own)))


def _shared_by(root: str, own: str) -> str:
    """Of a folder that a file in the project points to. It must point back, or it may be anybody's."""
    if os.path.exists(f"{own}/commondir"):
        back = resolve(_first_line(f"{own}/gitdir"), own).real
        shared = resolve(_first_line(f"{own}/commondir"), own).real
        if back == f"{root}/.git" and own.rpartition("/")[0] == f"{shared}/worktrees":
            return shared
    elif _submodule_of(own) == root:
        return own
    raise PathRefused(f"'{root}/.git' points to '{own}', which does not belong to it")


def _submodule_of(own: str) -> str:
    """The working tree that a submodule's configuration names; empty: none."""
    found = _WORKTREE.search(read_text(resolve(f"{own}/config", "/"), SMALL).text)
    return resolve(found[1].strip(), own).real if found else ""


def _checked(repository: Repository) -> Repository:
    """No part of it may be a link to somewhere else: another project's commits are not this one's.

    Links among the references are left: they give no more than a hash, which is worth nothing without its objects.
    """
    objects = f"{repository.shared}/objects"
    if os.path.lexists(f"{objects}/info/alternates"):
        raise PathRefused(f"'{objects}' takes objects from another repository")
    for folder in (objects, f"{objects}/pack"):
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            if linked := next((entry.path for entry in entries if entry.is_symlink()), ""):
                raise PathRefused(f"'{linked}' is a link")
    for folder, names in ((repository.own, OWN), (repository.shared, SHARED)):
        for name in names:
            path = resolve(f"{folder}/{name}", "/")
            if path.via:
                raise PathRefused(f"'{folder}/{name}' is a link to '{path.real}'")
            if path.kind == "special":
                raise PathRefused(f"'{folder}/{name}' is no regular file")
    return repository


def read_head(repository: Repository) -> tuple[str, str]:
    """The branch, or else the commit."""
    said = _first_line(f"{repository.own}/HEAD")
    if found := _BRANCH.fullmatch(said):
        return ("", "") if found[1] == ".invalid" else (_clean(found[1]), "")  # the latter: references in tables
    return "", said if _COMMIT.fullmatch(said) else ""


def _first_line(path: str) -> str:
    return read_text(resolve(path, "/"), SMALL).text.partition("\n")[0].strip()


# --- ours -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _folder_for(repository: Repository, temporary: str) -> Generator[str]:
    folder = f"{temporary.rstrip('/')}/mainspring-git-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)
    try:
        _fill(folder, repository)
        yield folder
    finally:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                os.unlink(f"{folder}/{name}")
            os.rmdir(folder)


def _fill(folder: str, repository: Repository) -> None:
    head = _first_line(f"{repository.own}/HEAD")
    _write(f"{folder}/HEAD", f"{head}\n")
    _write(f"{folder}/config", _config(repository))
    with os.scandir(repository.own) as entries:
        split = [one.name for one in entries if one.name.startswith("sharedindex.") and not one.is_symlink()][:10]
    for place, names in ((repository.own, (*OWN, *split)), (repository.shared, SHARED)):
        for name in names:
            if os.path.lexists(f"{place}/{name}"):
                os.symlink(f"{place}/{name}", f"{folder}/{name}")


def _config(repository: Repository) -> str:
    """The later of two counts, as with git. Sections do not matter: none of these means anything elsewhere."""
    try:
        said = read_text(resolve(f"{repository.shared}/config", "/"), SMALL).text
    except (OSError, PathRefused):
        said = ""
    kept = {found[1].lower(): found[2].lower() for found in _KEPT.finditer(said)}
    hashed = kept.pop("objectformat", "sha1")
    lines = ["[core]", *[f"\t{name} = {value}" for name, value in kept.items()]]
    if hashed == "sha256":
        lines += ["\trepositoryformatversion = 1", "[extensions]", "\tobjectformat = sha256"]
    return "\n".join(lines) + "\n"


def _write(path: str, text: str) -> None:
    with open(path, "x") as file:
        file.write(text)


def _clean(line: str) -> str:
    """One line, without what could pass for something else."""
    line = _CONTROL.sub("?", line)
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}..."
