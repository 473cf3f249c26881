"""A corpus of calls and what must become of them, written from the specification before the code was read.

Each line of `corpus/*.jsonl` is a row: rules, mode, tool, input and folder as in a batch, what is expected (`not-
allow`: anything but that), and which rule of docs/spec/reliability-security.md says so. `{tmp}` stands for a folder
made here, with links and files that the rows name. All of it goes the way of a batch. Files are named by the rule they
vary; those that begin with `attack` were written with the code in view.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mainspring.permissions.explain import explain_lines
from mainspring.processes.paths import resolve_path

ROWS = sorted((Path(__file__).parent / "corpus").glob("*.jsonl"))
LEAST_ROWS = 5_000  # so that an empty or forgotten file is noticed

FOLDERS = ("src", "sub/x", "docs", "build", "private/b", ".git/hooks", ".vscode", "out")
FILES = ("a.txt", "src/app.py", ".env", "secret.txt", "package.json", ".git/config", "private/a")
LINKS = {
    "link_in": "a.txt", "dir_in": "src", "link_out": "../outside.txt", "dir_out": "../other", "loop": "loop",
    "link_link_out": "link_out", "to_env": ".env", "src/to_env": "../.env", "to_secret": "secret.txt",
    "dir_private": "private", "to_ssh": "../home/.ssh", "to_git": ".git", "git_link": ".git/config",
    "dir_home": "../home", "to_zero": "/dev/zero", "src/out": "../../other",
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = tmp_path_factory.mktemp("corpus").resolve()
    project = world / "project"
    for name in FOLDERS:
        (project / name).mkdir(parents=True)
    for place in (world / "home" / ".ssh", world / "other"):
        place.mkdir(parents=True)
    outside = [
        world / "outside.txt",
        world / "home" / ".ssh" / "id_rsa",
        world / "home" / ".bashrc",
        world / "other" / "x",
    ]
    for file in (*[project / name for name in FILES], *outside):
        file.write_text("x\n")
    for name, target in LINKS.items():
        (project / name).symlink_to(target)
    (world / "other" / "to_home").symlink_to(world / "home")
    os.mkfifo(project / "fifo")
    return world


def rows(file: Path, world: Path) -> list[dict[str, Any]]:
    return [json.loads(line.replace("{tmp}", str(world))) for line in file.read_text().splitlines()]


def decided(found: list[dict[str, Any]], world: Path) -> list[str]:
    """As the command does it (`tests/cli/test_rights.py` has it with the command itself)."""
    home = str(world / "home")
    lines = [json.dumps(row) + "\n" for row in found]
    answers = explain_lines(lines, cwd="/", home=home, paths=lambda path, cwd: resolve_path(path, cwd, home=home))
    return [json.loads(answer)["decision"] for answer in answers]


@pytest.mark.covers("N-10", "N-11", "N-12", "N-13", "N-14", "N-16")
@pytest.mark.parametrize("file", ROWS, ids=[file.stem for file in ROWS])
def test_each_row_is_decided_as_the_specification_says(file: Path, world: Path) -> None:
    found = rows(file, world)
    wrong = [
        f"{number}: {row['expect']} expected, {decision} found: {row['tool']} {row['input']}, {row['rules']}"
        for number, (row, decision) in enumerate(zip(found, decided(found, world), strict=True), 1)
        if (decision == "allow" if row["expect"] == "not-allow" else decision != row["expect"])
    ]
    assert wrong == []


def test_the_corpus_is_large_and_asks_both_ways(world: Path) -> None:
    """A corpus that only refuses would be passed by a checker that allows nothing."""
    expected = Counter(row["expect"] for file in ROWS for row in rows(file, world))
    assert expected.total() > LEAST_ROWS
    assert expected["allow"] > LEAST_ROWS / 6
