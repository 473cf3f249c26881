"""Git status and log of a project, without using the project's configuration (security T3).

A repository's own configuration can name programs that git runs even for `git status`: fsmonitor, filters, pagers,
hooks, transports of a partial clone, and whatever an included file adds. Names of filters are free, so they cannot be
switched off one by one. So git never reads that configuration: it gets a git directory of ours, with our configuration,
in which objects, references, index and excludes are links to the project's. From the project's file we copy a few
values that are plain words and numbers and change how files are compared.

Git reads exactly what we checked: descriptors hold the parts, the links lead to the descriptors, and Landlock confines
git to them. A command that swaps a directory for a link at the right moment gains nothing.

Submodules are skipped: git would start itself there, with their configuration.
"""

# ruff: noqa: PTH102, PTH106, PTH108, PTH123, PTH208, PTH211  # pathlib takes 8 ms to load

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Mapping

from mainspring.core.value import Bundle, Value
from mainspring.processes.child import ProcessLimits, ProcessSpec
from mainspring.processes.children import Children
from mainspring.processes.confined import LIBRARIES, can_be_confined, hold_descriptors
from mainspring.processes.environment import USUAL, find_program
from mainspring.processes.output import OutputSizes
from mainspring.processes.paths import PathRefused, is_within, resolve_path
from mainspring.processes.safe_open import descriptor_path, open_below, open_folder, open_folder_below

SECONDS = 2.0  # for each call; they run in parallel
MOST_STATUS = 40  # lines
MOST_COMMITS = 5
WIDTH = 120  # characters of a line
MOST_INDEXES = 10  # parts of a split index
SMALL = 64 * 1024  # bytes of the files that we read ourselves
OUTPUT = OutputSizes(head=32 * 1024, tail=0)

# Of the git directory of a worktree, and of the one that all worktrees share.
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
    """Its directories by their real names, held by descriptors: git reads exactly what we checked, whatever has these
    names by now."""

    root: str
    tree: int  # `root`
    own: int  # HEAD and the index
    shared: int  # everything else; the same, unless this is a worktree
    parts: dict[str, int]  # of both, by name: what git can read


class GitSnapshot(Value):
    branch: str = ""  # empty: detached, or unknown
    head: str = ""  # the commit, when detached
    status: tuple[str, ...] | None = None  # None: git did not answer
    more: bool = False  # there are more lines
    commits: tuple[str, ...] = ()
    problem: str = ""


async def take_git_snapshot(root: str, *, environ: Mapping[str, str], children: Children | None = None) -> GitSnapshot:
    """Of the repository whose working tree is at `root`. Never raises, and takes at most two seconds."""
    branch = head = ""
    try:
        with contextlib.ExitStack() as held_by:
            repository = open_repository(root, held_by)
            branch, head = read_head(repository)
            program = find_program("git", path=environ.get("PATH", ""), outside=(root,))
            if program is None:
                return GitSnapshot(branch, head, problem="there is no git program outside of the project")
            folder = held_by.enter_context(_folder_for(repository, environ.get("TMPDIR") or "/tmp"))  # noqa: S108  # made new, for us only
            readable = await _readable(program, folder, repository, environ, held_by)
            asking = _GitQuery(program, repository, folder, environ, children or Children(), readable)
            said, commits = await asyncio.gather(asking.run(*STATUS), asking.run(*LOG))
            if readable is None:
                _refuse_links(repository.parts.get("objects"), root)  # git may have followed what came meanwhile
    except (OSError, PathRefused) as error:
        return GitSnapshot(branch, head, problem=str(error))
    lines = None if said is None else [_clean(line) for line in said.split("\0") if line]
    return GitSnapshot(
        branch,
        head,
        None if lines is None else tuple(lines[:MOST_STATUS]),
        len(lines or ()) > MOST_STATUS,
        tuple([_clean(line) for line in (commits or "").split("\n") if line]),
        "" if lines is not None else f"git status failed, or took more than {SECONDS:.0f} seconds",
    )


STATUS = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all")
LOG = ("log", f"--max-count={MOST_COMMITS}", "--no-color", "--no-decorate", "--no-show-signature", "--format=%h %s")


class _GitQuery(Bundle):
    program: str
    repository: Repository
    folder: str
    environ: Mapping[str, str]
    children: Children
    readable: tuple[int, ...] | None  # all that git can read; None: no confinement here

    async def run(self, *words: str) -> str | None:
        """The output; None: it failed, or took too long."""
        argv = [self.program, "--no-pager", "--no-optional-locks", "--no-replace-objects", *SAFE, *words]
        passed = tuple(self.repository.parts.values())
        job = ProcessSpec(
            argv,
            self.repository.root,
            self._env(),
            ProcessLimits(SECONDS, OUTPUT),
            passed=passed,
            readable=self.readable,
        )
        try:
            ended = await self.children.run(job)
        except (OSError, ValueError):
            return None
        if ended.code != 0 or ended.timed_out:
            return None
        text = ended.stdout.data.decode(errors="replace")
        return text[: text.rfind("\0") + 1] if ended.stdout.cut else text

    def _env(self) -> dict[str, str]:
        """Nothing of the user's but the home directory, for its ignore file."""
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


async def _readable(
    program: str, folder: str, repository: Repository, environ: Mapping[str, str], held_by: contextlib.ExitStack
) -> tuple[int, ...] | None:
    """Git opens files of a directory by name, and takes objects from wherever `alternates` leads. Landlock confines it
    to what we checked. The user's own ignore file is left out if it lies in the project: it may lead anywhere."""
    if not await asyncio.to_thread(can_be_confined, program):
        return None
    settings = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    users = [
        path for name in ("ignore", "attributes") if not is_within(path := f"{settings}/git/{name}", repository.root)
    ]
    ours = held_by.enter_context(hold_descriptors((program, folder, os.devnull, *LIBRARIES, *users)))
    return (repository.tree, *repository.parts.values(), *ours)


# Our configuration sets none of this. We set it anyway: it costs nothing, and protects against our own mistakes.
SAFE = tuple(
    word
    for pair in ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "gc.auto=0")
    for word in ("-c", pair)
)


# --- the project's git directory --------------------------------------------------------------------


def open_repository(root: str, held_by: contextlib.ExitStack) -> Repository:
    """Its parts, which `held_by` closes. Raises `PathRefused` for one that leads out of the repository."""
    hold = _OpenDescriptors(held_by)
    tree = hold(open_folder(root))
    entry = os.stat(".git", dir_fd=tree, follow_symlinks=False)
    if stat.S_ISLNK(entry.st_mode):
        raise PathRefused(f"'{root}/.git' is a link")
    if stat.S_ISDIR(entry.st_mode):
        own = shared = hold(open_folder_below(tree, ".git"))
        owner = os.fstat(own).st_uid
    else:
        pointer = hold(open_below(tree, ".git"))
        owner = os.fstat(pointer).st_uid
        own, shared = _pointed_to(root, _first_line(pointer), hold)
    if owner not in (os.geteuid(), os.fstat(tree).st_uid):
        raise PathRefused(f"'{root}/.git' belongs to another user")
    parts = _parts(own, OWN, hold) | _parts(shared, SHARED, hold)
    parts |= _parts(own, _split_indexes(own), hold)
    _refuse_links(parts.get("objects"), root)
    return Repository(root, tree, own, shared, parts)


class _OpenDescriptors:
    """Descriptors that are closed together."""

    def __init__(self, held_by: contextlib.ExitStack) -> None:
        self._held_by = held_by

    def __call__(self, descriptor: int) -> int:
        self._held_by.callback(os.close, descriptor)
        return descriptor


def _pointed_to(root: str, said: str, hold: _OpenDescriptors) -> tuple[int, int]:
    """The two directories that a file in the project points to. They must point back, or they may be unrelated."""
    if not said.startswith("gitdir: "):
        raise PathRefused(f"'{root}/.git' is not a git directory")
    name = resolve_path(said.removeprefix("gitdir: ").strip(), root).real
    own = hold(open_folder(name))
    if common := _read_line(own, "commondir"):
        back, shared = resolve_path(_read_line(own, "gitdir"), name).real, resolve_path(common, name).real
        if back == f"{root}/.git" and name.rpartition("/")[0] == f"{shared}/worktrees":
            return own, hold(open_folder(shared))
    elif (found := _WORKTREE.search(_read(own, "config"))) and resolve_path(found[1].strip(), name).real == root:
        return own, own
    raise PathRefused(f"'{root}/.git' points to '{name}', which does not belong to it")


def _parts(folder: int, names: Iterable[str], hold: _OpenDescriptors) -> dict[str, int]:
    """The parts that exist. None may be a link to somewhere else: another project's commits are not this one's."""
    found: dict[str, int] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            found[name] = hold((open_folder_below if stat.S_ISDIR(mode) else open_below)(folder, name))
    return found


def _split_indexes(own: int) -> list[str]:
    names = _names(own, lambda entry: entry.name.startswith("sharedindex.") and not entry.is_symlink())
    return names[:MOST_INDEXES]


def _refuse_links(objects: int | None, root: str) -> None:
    """Links among the references are allowed: they give a hash, which is worthless without its objects."""
    if objects is None:
        return
    with contextlib.suppress(FileNotFoundError):
        os.stat("info/alternates", dir_fd=objects, follow_symlinks=False)
        raise PathRefused(f"the git directory of '{root}' takes objects from another repository")
    linked = _names(objects, lambda entry: entry.is_symlink())
    with contextlib.suppress(FileNotFoundError):
        pack = open_folder_below(objects, "pack")
        try:
            linked += _names(pack, lambda entry: entry.is_symlink())
        finally:
            os.close(pack)
    if linked:
        raise PathRefused(f"'{linked[0]}' among the objects of '{root}' is a link")


def _names(folder: int, is_wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(listed) as entries:
            return [entry.name for entry in entries if is_wanted(entry)]
    finally:
        os.close(listed)


def read_head(repository: Repository) -> tuple[str, str]:
    """The branch, or else the commit."""
    said = _read_line(repository.own, "HEAD")
    if found := _BRANCH.fullmatch(said):
        return ("", "") if found[1] == ".invalid" else (_clean(found[1]), "")  # the latter: references in tables
    return "", said if _COMMIT.fullmatch(said) else ""


def _read_line(folder: int, name: str) -> str:
    return _read(folder, name).partition("\n")[0].strip()


def _read(folder: int, name: str) -> str:
    """Empty: there is no such file."""
    try:
        opened = open_below(folder, name)
    except FileNotFoundError:
        return ""
    try:
        return _text(opened)
    finally:
        os.close(opened)


def _first_line(opened: int) -> str:
    return _text(opened).partition("\n")[0].strip()


def _text(opened: int) -> str:
    return os.read(opened, SMALL).decode(errors="replace").replace("\r\n", "\n")


# --- our git directory ------------------------------------------------------------------------------


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
    _write(f"{folder}/HEAD", f"{_read_line(repository.own, 'HEAD')}\n")
    _write(f"{folder}/config", _config(_read(repository.shared, "config")))
    for name, descriptor in repository.parts.items():
        os.symlink(_name_of(descriptor), f"{folder}/{name}")


def _name_of(descriptor: int) -> str:
    """For a program that gets the descriptor: the object itself, where the system has such names."""
    name = descriptor_path(descriptor)
    if name is None:
        raise PathRefused("there is no /proc here, so git cannot be given the checked files")
    return f"/proc/self/fd/{descriptor}" if sys.platform == "linux" else name


def _config(said: str) -> str:
    """The later of two values counts, as in git. Sections do not matter: these keys have no meaning in others."""
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
    """One line, without control characters."""
    line = _CONTROL.sub("?", line)
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}..."
