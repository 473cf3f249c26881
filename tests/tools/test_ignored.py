"""What is ignored: the walk in Python against ripgrep, rule by rule, in one tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.testing.world import FakeToolContext
from mainspring.tools.glob import GLOB
from tools.searching import without_ripgrep

NAMES = (
    "a", "a.log", "b.txt", "build/a", "build/x/a.log", "src/a", "src/build/c", "src/a.log", "src/deep/er/a.log",
    "doc/a.txt", "doc/sub/a.txt", ".hidden", "with space", "#odd", "!odd", "star*", "[x]", "{a,b}",
)  # fmt: skip

# Not among them: braces, which mean something to ripgrep here and nothing to git; a byte order mark, which git skips.
RULES = (
    "a", "/a", "*.log", "build", "build/", "/build/", "src/build", "src/*.log", "src/**/*.log", "**/deep", "doc/**",
    "doc/*/a.txt", "*\n!*.txt", "*.log\n!src/a.log", "/*\n!/src", "src/\n!src/a", "# a comment\n\n", "\\#odd", "\\!odd",
    "with space", "with space   ", "a.log  ", "star\\*", "[ab].*", "[!a]", "?", "**/", "/", "!", "a/", "a.log/",
    "*.LOG", ".hidden", "**/a", "a/**/b", "src/**", "a\r\nb.txt\r\n", "x" * 2_000, "[z-a]", "\\", "doc/sub",
)  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ignoring")
    for name in NAMES:
        (folder / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "ws" / name).touch()
    return folder


def listed(folder: Path) -> list[str]:
    return sorted(FakeToolContext(str(folder)).now(GLOB, pattern="**/*").data["filenames"])


@pytest.mark.long
def test_both_ways_list_the_same_files(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    bin = tmp_path_factory.mktemp("bin")
    differ: list[tuple[str, list[str], list[str]]] = []
    for place in ("ws/.gitignore", ".gitignore", "ws/src/.gitignore", "ws/.ignore"):
        for rules in RULES if place == "ws/.gitignore" else RULES[2:14:3]:
            (tree / place).write_text(rules)
            with pytest.MonkeyPatch.context() as patch:
                theirs = listed(tree / "ws")
                without_ripgrep(bin, patch)
                ours = listed(tree / "ws")
            if ours != theirs:
                differ.append((rules, ours, theirs))
        (tree / place).unlink()
    assert differ == []
