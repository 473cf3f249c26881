"""Checks whether git, run in a folder, would run anything from the repository (security P6).

A clone has no foreign configuration and no hooks, but an archive with a `.git` in it may. So before a folder is
trusted, git runs freely only if its configuration has only keys that are known to name no program, and if there is no
hook that a read-only command would run. A configuration that cannot be parsed with certainty is not harmless.
"""

from __future__ import annotations

import os
import re

from mainspring.sandbox.git import find_nested_repositories

LARGEST = 256_000  # bytes of a configuration
DEEPEST = 64  # parent folders
HOOKS = ("post-index-change", "fsmonitor-watchman", "query-watchman")  # that `git status` may run

# Sections and keys that name no program, no other file and no other folder.
SAFE = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf abbrev quotepath trustctime checkstat preloadindex untrackedcache commentchar compression longpaths",
    "remote": "url fetch pushurl push tagopt prune mirror gh-resolved",
    "branch": "remote merge rebase pushremote description vscode-merge-base gh-merge-base github-pr-owner-number",
    "submodule": "url active update branch ignore fetchrecursesubmodules",
    "user": "name email signingkey usesconfigonly",
    "author": "name email",
    "committer": "name email",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "fetch": "prune prunetags parallel",
    "init": "defaultbranch",
    "merge": "ff conflictstyle",
    "rebase": "autosquash autostash updaterefs",
    "color": "ui status diff branch",
    "status": "short branch showuntrackedfiles",
    "log": "date decorate follow",
    "advice": "*",
    "extensions": "objectformat",
    "gc": "auto autodetach",
    "maintenance": "auto strategy",
    "commit": "gpgsign verbose cleanup",
    "tag": "sort gpgsign",
    "diff": "algorithm renames colormoved context noprefix mnemonicprefix",
    "index": "version threads",
    "feature": "manyfiles experimental",
    "lfs": "repositoryformatversion",
}
_SECTION = re.compile(r'\[\s*([A-Za-z0-9-]+)\s*(?:"(?:[^"\\\n]|\\.)*")?\s*\]')
_HEAD = re.compile(r"ref:\s*refs/|[0-9a-f]{40}")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=|$)")


def is_harmless(folder: str) -> bool:
    """For git without options that lead elsewhere."""
    found = _repository(os.path.realpath(folder))
    if found is None:
        return False
    own, common = found
    hooks = [f"{common}/hooks/{name}" for name in HOOKS]
    if any(os.path.lexists(path) for path in hooks):
        return False
    if any(True for _ in find_nested_repositories(common)):
        return False  # git enters each, and obeys its configuration
    return _is_safe(_text(f"{common}/config")) and not os.path.lexists(f"{own}/config.worktree")


def _repository(folder: str) -> tuple[str, str] | None:
    """Its git folder, and the one that it shares; None: there is none, or one that poses as such."""
    for _ in range(DEEPEST):
        git = f"{folder}/.git"
        if os.path.isdir(git):  # noqa: PTH112  # pathlib takes 8 ms to load
            if not _is_whole(git) or os.path.lexists(f"{git}/commondir"):
                return None  # git would ignore it, and use another one
            return git, git
        if os.path.lexists(git):
            return _linked(folder, _text(git))
        if os.path.lexists(f"{folder}/HEAD") and os.path.lexists(f"{folder}/objects"):
            return None  # git takes this for a repository without a working folder
        if folder == "/":
            return None
        folder = os.path.dirname(folder)  # noqa: PTH120
    return None


def _is_whole(git: str) -> bool:
    """As git sees it: else git searches on, in the folder itself and above."""
    head = _text(f"{git}/HEAD") or ""
    return _HEAD.match(head) is not None and all(os.path.isdir(f"{git}/{name}") for name in ("objects", "refs"))  # noqa: PTH112


def _linked(folder: str, text: str | None) -> tuple[str, str] | None:
    """A worktree, or a submodule."""
    if text is None or not text.startswith("gitdir: "):
        return None
    own = os.path.realpath(os.path.join(folder, text[8:].strip()))  # noqa: PTH118
    common = _text(f"{own}/commondir") if os.path.lexists(f"{own}/commondir") else "."
    return None if common is None else (own, os.path.realpath(os.path.join(own, common.strip())))  # noqa: PTH118


def _text(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        data = os.read(fd, LARGEST)
    except OSError:
        return None
    finally:
        os.close(fd)
    return data.decode(errors="replace") if len(data) < LARGEST else None


def _is_safe(text: str | None) -> bool:
    if text is None:
        return False
    keys: tuple[str, ...] = ()
    for written in text.splitlines():
        line = written.strip()
        if not line or line[0] in "#;":
            continue
        if line.endswith("\\"):
            return False  # it continues in the next line, which may then look like another key
        if line[0] == "[":
            section = _SECTION.fullmatch(line)
            if section is None or section[1].lower() not in SAFE:
                return False
            keys = tuple(SAFE[section[1].lower()].split())
        else:
            key = _KEY.match(line)
            if key is None or (key[1].lower() not in keys and keys != ("*",)):
                return False
    return True
