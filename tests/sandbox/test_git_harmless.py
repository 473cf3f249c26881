"""Which repositories git may be asked about freely: a control shows each refused one would have run something."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mainspring.sandbox.git_config import is_harmless


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_what_git_itself_makes_is_harmless(repository: Path) -> None:
    assert is_harmless(str(repository))
    (repository / "deep" / "er").mkdir(parents=True)
    assert is_harmless(str(repository / "deep" / "er"))
    git(repository, "remote", "add", "origin", "https://example.com/x.git")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "user.name", 'A "quoted" name # with a sign')
    assert is_harmless(str(repository))
    git(repository, "worktree", "add", "-q", "../other")
    assert is_harmless(str(repository.parent / "other"))
    git(repository.parent, "clone", "-q", "work", "copy")
    assert is_harmless(str(repository.parent / "copy"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "./evil"),
        ("core.hooksPath", "hooks"),
        ("core.pager", "./evil"),
        ("filter.x.clean", "./evil"),
        ("diff.x.textconv", "./evil"),
        ("diff.external", "./evil"),
        ("alias.status", "!./evil"),
        ("include.path", "../evil"),
        ("includeIf.gitdir:/.path", "../evil"),
        ("gpg.program", "./evil"),
        ("extensions.worktreeConfig", "true"),
        ("core.worktree", "/"),
        ("something.new", "1"),
        ("interactive.diffFilter", "./evil"),
        ("core.sshCommand", "./evil"),
    ],
)
def test_what_may_lead_to_a_program_is_not(repository: Path, name: str, value: str) -> None:
    git(repository, "config", name, value)
    assert not is_harmless(str(repository))


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tbare = false \\\n\tfsmonitor = x",
        "[core] fsmonitor = x",
        "[core",
        "fsmonitor = x",
        "[core]\nfsmonitor",
        "[CORE]\nFSMonitor = x",
        "[core]\n= x",
        "\ufeff[core]\nfsmonitor = x",
        "[core]\nbare = false\n" + "# x\n" * 100_000,
    ],
)
def test_odd_spellings_are_not(repository: Path, text: str) -> None:
    (repository / ".git" / "config").write_text(text)
    assert not is_harmless(str(repository))


def test_odd_places_are_not(repository: Path, tmp_path: Path) -> None:
    assert not is_harmless(str(tmp_path))
    bare = repository / "sub"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main")
    assert not is_harmless(str(bare))
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert not is_harmless(str(repository))
    hook.unlink()
    assert is_harmless(str(repository))
    (repository / ".git" / "commondir").write_text("../elsewhere")
    assert not is_harmless(str(repository))
    (repository / ".git" / "commondir").unlink()
    config = repository / ".git" / "config"
    config.rename(config.with_suffix(".old"))
    assert not is_harmless(str(repository))
    os.mkfifo(config)
    assert is_harmless(str(repository))  # an empty one: git would wait for it for ever, and run nothing
    config.unlink()
    config.symlink_to(config.with_suffix(".old"))
    assert not is_harmless(str(repository))


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    for text in ("nonsense", "gitdir: nowhere", ""):
        (tmp_path / ".git").write_text(text)
        assert not is_harmless(str(tmp_path))


def test_a_decoy_that_git_passes_over_is_not(repository: Path) -> None:
    """Without a valid `HEAD` git looks on, and may take the folder itself for a repository."""
    (repository / ".git" / "HEAD").write_text("nonsense")
    assert not is_harmless(str(repository))
    (repository / ".git" / "HEAD").unlink()
    assert not is_harmless(str(repository))


def test_one_with_others_in_it_is_not(repository: Path) -> None:
    """`git status` goes into each, and obeys its configuration."""
    git(repository, "clone", "-q", ".", "inner")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    assert not is_harmless(str(repository))


@pytest.mark.parametrize("name", ["remote.origin.promisor", "extensions.partialClone"])
def test_one_that_would_fetch_what_is_missing_is_not(repository: Path, name: str) -> None:
    git(repository, "config", name, "true")
    assert not is_harmless(str(repository))
