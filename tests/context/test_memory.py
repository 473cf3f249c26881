"""Memory files: which are read, in which order, how far they may lead, and what is told of the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.attachments import render_attachment
from mainspring.context.memory import (
    DEEPEST,
    GONE,
    LARGEST,
    LEFT_OUT,
    MOST_FILES,
    TOTAL,
    MemoryFiles,
    MemoryLocations,
    MemoryScope,
    find_compact_section,
)


class Desk:
    """A home folder and a repository in it."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "home"
        self.ours = self.user / ".mainspring"
        self.root = self.user / "work" / "project"
        self.cwd = self.root / "src"
        for made in (self.ours, self.user / ".claude", self.root / ".git", self.cwd):
            made.mkdir(parents=True)

    def write(self, place: str, text: str) -> Path:
        path = self.user / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def memory(self, *, cwd: Path | None = None, trusted: bool = False, **more: object) -> MemoryFiles:
        where = MemoryLocations(str(cwd or self.cwd), str(self.user), str(self.ours), trusted)
        return MemoryFiles(type(where)(**{name: getattr(where, name) for name in where.__struct_fields__} | more))

    def texts(self, **how: object) -> list[str]:
        return [file.text for file in self.memory(**how).files]  # type: ignore[arg-type]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- which, and in which order ----------------------------------------------------------------------


@pytest.mark.covers("N-23")
def test_the_most_general_comes_first_and_the_nearest_last(desk: Desk) -> None:
    for place in (
        ".claude/CLAUDE.md",
        ".mainspring/AGENTS.md",
        ".mainspring/CLAUDE.md",
        "work/project/AGENTS.md",
        "work/project/.claude/CLAUDE.md",
        "work/project/CLAUDE.md",
        "work/project/CLAUDE.local.md",
        "work/project/src/CLAUDE.md",
    ):
        desk.write(place, place)
    desk.write("work/CLAUDE.md", "above the repository")
    desk.write("CLAUDE.md", "in the home folder")
    desk.write("work/project/src/deeper/CLAUDE.md", "below the working folder")
    memory = desk.memory()
    assert [(file.text, file.scope) for file in memory.files] == [
        (".claude/CLAUDE.md", MemoryScope.USER),
        (".mainspring/AGENTS.md", MemoryScope.USER),
        (".mainspring/CLAUDE.md", MemoryScope.USER),
        ("work/project/AGENTS.md", MemoryScope.PROJECT),
        ("work/project/.claude/CLAUDE.md", MemoryScope.PROJECT),
        ("work/project/CLAUDE.md", MemoryScope.PROJECT),
        ("work/project/CLAUDE.local.md", MemoryScope.LOCAL),
        ("work/project/src/CLAUDE.md", MemoryScope.PROJECT),
    ]
    assert [file.text for file in desk.memory(sources=("user",)).files] == [file.text for file in memory.files[:3]]
    assert [file.scope for file in desk.memory(sources=("local",)).files] == [MemoryScope.LOCAL]
    assert desk.memory(sources=()).files == []


def test_without_a_repository_it_goes_up_to_the_home_folder(desk: Desk) -> None:
    (desk.root / ".git").rmdir()
    desk.write("CLAUDE.md", "home")
    desk.write("work/CLAUDE.md", "work")
    desk.write("work/project/src/AGENTS.md", "src")
    assert desk.texts() == ["work", "src"]


def test_outside_of_home_only_the_working_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "CLAUDE.md").write_text("a")
    (tmp_path / "a" / "b" / "CLAUDE.md").write_text("b")
    memory = MemoryFiles(MemoryLocations(str(tmp_path / "a" / "b"), "/nonexistent"))
    assert [file.text for file in memory.files] == ["b"]


@pytest.mark.parametrize("how", ["link", "same", "hard link"])
def test_one_file_under_both_names_is_read_once(desk: Desk, how: str) -> None:
    first = desk.write("work/project/AGENTS.md", "the rules")
    second = desk.root / "CLAUDE.md"
    if how == "link":
        second.symlink_to("AGENTS.md")
    elif how == "same":
        second.write_text("the rules\n")
    else:
        second.hardlink_to(first)
    assert desk.texts() == ["the rules"]
    second.unlink()
    second.write_text("others")
    assert desk.texts() == ["the rules", "others"]


# --- later ------------------------------------------------------------------------------------------


@pytest.mark.covers("B-28")
def test_a_folder_that_is_touched_brings_its_memory_once(desk: Desk) -> None:
    desk.write("work/project/lib/AGENTS.md", "lib")
    desk.write("work/project/lib/deep/CLAUDE.md", "deep, see @more.md")
    desk.write("work/project/lib/deep/more.md", "more")
    memory = desk.memory()
    assert memory.files == []
    assert memory.touched(str(desk.root / "lib/deep/code.py"))
    assert [(file.text, file.scope) for file in memory.files] == [
        ("lib", MemoryScope.NESTED),
        ("deep, see @more.md", MemoryScope.NESTED),
        ("more", MemoryScope.NESTED),
    ]
    assert not memory.touched(str(desk.root / "lib/deep/code.py"))
    assert not memory.touched(str(desk.root / "lib/other.py"))


def test_what_others_wrote_or_lies_outside_brings_none(desk: Desk) -> None:
    desk.write("work/project/node_modules/evil/CLAUDE.md", "obey")
    desk.write("work/other/CLAUDE.md", "another project")
    memory = desk.memory()
    assert not memory.touched(str(desk.root / "node_modules/evil/index.js"))
    assert not memory.touched(str(desk.user / "work/other/x.py"))
    assert not memory.touched("/etc/passwd")
    assert memory.files == []


def test_a_file_that_changes_is_told_anew(desk: Desk) -> None:
    path = desk.write("work/project/CLAUDE.md", "old")
    other = desk.write("work/project/src/CLAUDE.md", "stays")
    memory = desk.memory()
    assert not memory.refresh()
    path.write_text("newer")
    assert memory.refresh()
    assert [file.text for file in memory.files] == ["newer", "stays"]
    assert not memory.refresh()
    os.utime(other, ns=(1, 1))
    assert not memory.refresh()  # only its time
    path.unlink()
    assert memory.refresh()
    assert memory.files[0].text == GONE
    assert not memory.refresh()
    path.symlink_to("/etc/passwd")
    assert not memory.refresh()
    assert memory.files[0].text == GONE


# --- includes ---------------------------------------------------------------------------------------


def test_includes_follow_the_file_that_asks_for_them(desk: Desk) -> None:
    desk.write("work/project/CLAUDE.md", "top @docs/a.md @nobody @missing/file.md")
    desk.write("work/project/docs/a.md", "a @b.md")
    desk.write("work/project/docs/b.md", "b")
    desk.write("work/project/src/CLAUDE.md", "last")
    memory = desk.memory()
    assert [(file.text, Path(file.by).name) for file in memory.files] == [
        ("top @docs/a.md @nobody @missing/file.md", ""),
        ("a @b.md", "CLAUDE.md"),
        ("b", "a.md"),
        ("last", ""),
    ]
    assert memory.problems == []
    assert "included by" in memory.attachments[1].text


def test_cycles_end_and_depth_has_a_limit(desk: Desk) -> None:
    desk.write("work/project/CLAUDE.md", "0 @1.md @CLAUDE.md")
    for n in range(1, 10):
        desk.write(f"work/project/{n}.md", f"{n} @{n + 1}.md @CLAUDE.md")
    memory = desk.memory()
    assert len(memory.files) == 1 + DEEPEST
    assert memory.problems == [f"'@6.md' in '{desk.root}/5.md' is left out: includes nest at most {DEEPEST} deep"]


def test_there_is_an_end_to_the_number_of_files(desk: Desk) -> None:
    desk.write("work/project/CLAUDE.md", " ".join([f"@{n}.md" for n in range(99)]))
    for n in range(99):
        desk.write(f"work/project/{n}.md", f"text {n}")
    memory = desk.memory()
    assert len(memory.files) == MOST_FILES
    assert len(memory.problems) == 1


SECRET = "the secret of another folder"


@pytest.mark.parametrize(
    "how", ["absolute", "upwards", "home", "link to a file", "link to a folder", "memory is a link"]
)
def test_before_trust_nothing_leads_out_of_the_workspace(desk: Desk, how: str) -> None:
    secret = desk.write(".ssh/id", SECRET)
    project = desk.root / "CLAUDE.md"
    match how:
        case "absolute":
            project.write_text(f"@{secret}")
        case "upwards":
            project.write_text("@../../.ssh/id")
        case "home":
            project.write_text("@~/.ssh/id")
        case "link to a file":
            (desk.root / "x.md").symlink_to(secret)
            project.write_text("@x.md")
        case "link to a folder":
            (desk.root / "x").symlink_to(secret.parent)
            project.write_text("@x/id")
        case _:
            project.symlink_to(secret)
    memory = desk.memory()
    assert SECRET not in repr(memory.files)
    assert len(memory.problems) == 1
    assert str(secret) in memory.problems[0]
    assert "mainspring trust" in memory.problems[0]
    trusted = desk.memory(trusted=True)
    assert SECRET in repr(trusted.files)
    assert trusted.problems == []
    ruled = desk.memory(trusted=True, may_read=lambda path: "/.ssh/" not in path)
    assert SECRET not in repr(ruled.files)
    assert "a rule denies" in ruled.problems[0]


def test_the_users_own_file_may_lead_anywhere_but_does_not_lend_that_to_the_project(desk: Desk) -> None:
    desk.write(".ssh/id", SECRET)
    desk.write("notes/style.md", "my style")
    desk.write(".claude/CLAUDE.md", f"@../notes/style.md @{desk.root}/tips.md")
    desk.write("work/project/tips.md", "tips @../../.ssh/id")
    memory = desk.memory()
    assert [file.text for file in memory.files[1:]] == ["my style", "tips @../../.ssh/id"]
    assert len(memory.problems) == 1


# --- hostile files ----------------------------------------------------------------------------------


def test_what_is_no_text_file_is_named_and_left_out(desk: Desk) -> None:
    os.mkfifo(desk.root / "AGENTS.md")
    (desk.root / "CLAUDE.md").mkdir()
    (desk.root / "CLAUDE.local.md").write_bytes(b"\0\1\2")
    (desk.cwd / "CLAUDE.md").symlink_to("CLAUDE.md")
    desk.write("work/project/src/AGENTS.md", "whole @../AGENTS.md @/dev/zero @/proc/self/environ")
    memory = desk.memory()
    assert [file.text for file in memory.files] == ["whole @../AGENTS.md @/dev/zero @/proc/self/environ"]
    assert len(memory.problems) == 4
    assert all(problem.startswith(f"'{desk.root}/") for problem in memory.problems)


def test_a_gigabyte_costs_no_more_than_its_beginning(desk: Desk) -> None:
    path = desk.write("work/project/CLAUDE.md", "the beginning\n" * 30_000)
    os.truncate(path, 1 << 30)
    with path.open("r+b") as file:  # no NUL in what is read
        file.write(b"the beginning\n" * 30_000)
    start = time.process_time()
    memory = desk.memory()
    assert time.process_time() - start < 0.5
    (attachment,) = memory.attachments
    assert len(attachment.text) <= LARGEST
    assert "[Cut: " in attachment.text
    assert "Cut" in render_attachment(attachment).text


def test_what_is_no_utf8_is_replaced_and_a_byte_order_mark_is_no_text(desk: Desk) -> None:
    (desk.root / "CLAUDE.md").write_bytes(b"\xef\xbb\xbfcaf\xe9 \xff rules\r\nnext")
    assert desk.texts() == ["caf\ufffd \ufffd rules\nnext"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to somebody else")
def test_a_strangers_file_above_us_does_not_count(desk: Desk) -> None:
    stranger = desk.write("work/project/CLAUDE.md", "obey me")
    os.chown(stranger, 12345, 12345)
    desk.write("work/project/src/CLAUDE.md", "ours")
    memory = desk.memory()
    assert [file.text for file in memory.files] == ["ours"]
    assert memory.problems == [f"'{stranger}' is left out: it belongs to another user"]
    os.chown(desk.root / ".git", 12345, 12345)
    assert not desk.memory().project.git


# --- the budget -------------------------------------------------------------------------------------


def test_the_nearest_draw_on_the_budget_first_and_the_rest_say_that_they_were_cut(desk: Desk) -> None:
    desk.write(".claude/CLAUDE.md", "user\n" * 6_000)
    desk.write("work/project/AGENTS.md", "agents\n" * 5_000)
    desk.write("work/project/CLAUDE.md", "root\n" * 6_000)
    desk.write("work/project/src/CLAUDE.md", "near\n" * 6_000)
    texts = [attachment.text for attachment in desk.memory().attachments]
    assert texts[3].count("near") == texts[2].count("root") == 6_000
    assert 0 < texts[1].count("agents") < 5_000
    assert "[Cut: " in texts[1]
    assert LEFT_OUT in texts[0]
    assert sum(map(len, texts)) < TOTAL + 1_500


@given(sizes=st.lists(st.integers(0, 60_000), min_size=1, max_size=8))
def test_whatever_the_sizes_the_budget_holds(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("sizes")
    names = [f"{n}.md" for n in range(len(sizes))]
    (folder / "CLAUDE.md").write_text(" ".join([f"@{name}" for name in names]))
    for n, size in enumerate(sizes):
        (folder / names[n]).write_text(str(n) * size)
    found = MemoryFiles(MemoryLocations(str(folder), "")).attachments
    assert sum(len(attachment.text) for attachment in found) <= TOTAL + 1_000 * len(found)
    for attachment in found:
        assert len(attachment.text) <= LARGEST
        assert render_attachment(attachment).text.count("[Cut: ") <= 1


# --- summaries --------------------------------------------------------------------------------------


@pytest.mark.covers("D-36")
def test_a_section_of_a_memory_file_steers_summaries(desk: Desk) -> None:
    desk.write("work/project/CLAUDE.md", "# Rules\nx\n\n## Compact instructions ##\nKeep names.\n### a\nb\n## Next\ny")
    desk.write("work/project/src/AGENTS.md", "# Summary instructions\nKeep numbers.")
    assert desk.memory().compaction == "Keep names.\n### a\nb\n\nKeep numbers."
    assert find_compact_section("# Compact wood\nno") == ""


def test_a_hostile_heading_is_quick() -> None:
    start = time.process_time()
    find_compact_section("# " + " #" * 120_000 + "\n" + "#" * 10_000)
    assert time.process_time() - start < 0.5


# --- what it costs ----------------------------------------------------------------------------------


def test_a_usual_project(desk: Desk) -> None:
    """Six files of 2 to 8 KB, one link, three includes, five folders deep."""
    deep = desk.root / "packages" / "one" / "src" / "lib"
    deep.mkdir(parents=True)
    desk.write(".claude/CLAUDE.md", "my own words, as they are\n" * 80)
    desk.write("work/project/AGENTS.md", "rules of the project, see @docs/a.md and @docs/b.md\n" * 150)
    (desk.root / "CLAUDE.md").symlink_to("AGENTS.md")
    for name in "abc":
        desk.write(f"work/project/docs/{name}.md", f"more about {name}, and @c.md\n" * 200)
    desk.write("work/project/packages/one/CLAUDE.md", "rules of a package\n" * 100)
    assert len(desk.memory(cwd=deep).attachments) == 6


def test_it_is_not_loaded_by_those_who_do_not_need_it() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mainspring", "--version"],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mainspring.cli.main" in loaded
    assert [name for name in loaded if name.startswith("mainspring.context")] == []
