"""Grep: what fits, within bounds, and nothing of a file that may not be read."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from processes.steps import names_in

from mainspring.core.errors import ToolError
from mainspring.processes.paths import resolve_path
from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import MOST_SHOWN
from mainspring.tools.files import HaltSignal
from mainspring.tools.grep import GREP
from mainspring.tools.search import AT_ONCE, open_search_root, run_search
from mainspring.tools.search_child import PIPE, SearchJob, SearchLocation, output_of
from mainspring.tools.search_walk import FileSearchRequest
from tools.searching import children, fake_ripgrep, manner, without_ripgrep

__all__ = ["manner"]

FILES = {
    "a.py": "import os\n\ndef one():\n    return 1\n\ndef two():\n    return 2\n",
    "src/b.ts": "function one() {\r\n  return 1\r\n}\r\n",
    "src/c.py": "ONE = 1\n",
    "notes.md": "one\ntwo\nthree",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number, (name, text) in enumerate(FILES.items()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
        os.utime(tmp_path / name, (1_000 + number, 1_000 + number))
    return tmp_path


def grep(folder: Path, pattern: str, mode: Any = "content", **more: Any) -> str:
    return FakeToolContext(str(folder)).now(GREP, pattern=pattern, output_mode=mode, **more).text


# --- what it finds ----------------------------------------------------------------------------------


@pytest.mark.covers("N-02")
def test_names_the_newest_first(files: Path, manner: str) -> None:
    assert FakeToolContext(str(files)).now(GREP, pattern="one").text == "Found 3 files\nnotes.md\nsrc/b.ts\na.py\n"
    assert grep(files, "nothing like it", "files_with_matches") == "No files found.\n"


def test_lines(files: Path, manner: str) -> None:
    assert grep(files, "one") == "a.py\n3:def one():\n\nnotes.md\n1:one\n\nsrc/b.ts\n1:function one() {\n"
    assert grep(files, "nothing like it") == "No matches found.\n"
    assert grep(files, "^one", **{"-n": False}) == "notes.md\none\n"


def test_counts(files: Path, manner: str) -> None:
    assert grep(files, "return", "count") == "a.py:2\nsrc/b.ts:1\n3 lines in 2 files\n"


def test_lines_around(files: Path, manner: str) -> None:
    around = "a.py\n2-\n3:def one():\n4-    return 1\n5-\n6:def two():\n7-    return 2\n"
    assert grep(files, "^def", **{"-C": 1}) == around
    assert grep(files, "^(import|def two)", **{"-A": 1, "-B": 0}) == (
        "a.py\n1:import os\n2-\n--\n6:def two():\n7-    return 2\n"
    )
    assert grep(files, "three", **{"-B": 1}) == "notes.md\n2-two\n3:three\n"


def test_ways_to_fit(files: Path, manner: str) -> None:
    assert grep(files, "ONE", **{"-i": True}, glob="*.py") == "a.py\n3:def one():\n\nsrc/c.py\n1:ONE = 1\n"
    assert grep(files, "return \\d$") == ("a.py\n4:    return 1\n7:    return 2\n\nsrc/b.ts\n2:  return 1\n"), (
        "a carriage return is no part of the line"
    )
    assert grep(files, "one.*two", multiline=True, glob="*.md") == "notes.md\n1:one\n2:two\n"
    assert grep(files, "one.*two", glob="*.md") == "No matches found.\n"


def test_which_files(files: Path, manner: str) -> None:
    names = "files_with_matches"
    assert grep(files, "one", names, type="py") == "Found 1 file\na.py\n"
    assert grep(files, "one", names, glob="*.{ts,md}") == "Found 2 files\nnotes.md\nsrc/b.ts\n"
    assert grep(files, "one", names, glob="!*.md") == "Found 2 files\nsrc/b.ts\na.py\n"
    assert grep(files, "one", names, glob="src/**") == "Found 1 file\nsrc/b.ts\n"
    assert grep(files, "one", names, path="src") == "Found 1 file\nsrc/b.ts\n"
    assert grep(files / "src", "two", names, path="..") == f"Found 2 files\n{files}/notes.md\n{files}/a.py\n"


def test_one_file(files: Path, manner: str) -> None:
    assert grep(files, "return", path="a.py") == "a.py\n4:    return 1\n7:    return 2\n"
    assert grep(files, "return", "count", path="src/b.ts") == "src/b.ts:1\n1 line in 1 file\n"
    assert grep(files, "return", "files_with_matches", path="a.py") == "Found 1 file\na.py\n"
    assert grep(files, "nope", "files_with_matches", path="a.py") == "No files found.\n"
    assert grep(files, "nope", "count", path="a.py") == "No matches found.\n"
    assert grep(files, "nope", path="a.py") == "No matches found.\n"


def test_what_git_ignores_is_left_out(files: Path, manner: str) -> None:
    (files / ".gitignore").write_text("src\n")
    (files / ".git").mkdir()
    (files / ".git/x").write_text("one")
    (files / ".env").write_text("one")
    text = grep(files, "one", "files_with_matches")
    assert sorted(text.split()) == [".env", "3", "Found", "a.py", "files", "notes.md"]
    assert grep(files, "one", path="src/b.ts").startswith("src/b.ts\n1:"), "unless it is named"


def test_pages(files: Path, manner: str) -> None:
    assert grep(files, "one", head_limit=2) == (
        "a.py\n3:def one():\n\nnotes.md\n1:one\n[Lines 1-2 of 3. Go on with offset=2, or narrow it.]\n"
    )
    assert grep(files, "one", head_limit=2, offset=2) == "src/b.ts\n1:function one() {\n"
    assert grep(files, "one", head_limit=2, offset=9) == (
        "No matches found.\n[There are only 3 lines: choose a smaller 'offset'.]\n"
    )
    assert grep(files, "one", "files_with_matches", head_limit=1, offset=1) == (
        "Found 3 files\nsrc/b.ts\n[Files 2-2 of 3. Go on with offset=2, or narrow it.]\n"
    )


# --- what it must not tell --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
def test_nothing_of_a_file_that_may_not_be_read(files: Path, manner: str, mode: str) -> None:
    (files / "secret.env").write_text("one KEY=hunter2\n" * 3)
    calling = FakeToolContext(str(files), may_read=lambda path: not path.endswith("secret.env"))
    everything = FakeToolContext(str(files)).now(GREP, pattern="one", output_mode=mode)
    answer = calling.now(GREP, pattern="one", output_mode=mode, **{"-C": 3})
    assert "secret" in everything.text
    for told in (answer.text, str(answer.data), str(answer.shown)):
        assert "secret" not in told
        assert "hunter2" not in told
    only = calling.now(GREP, pattern="hunter[0-9]", output_mode=mode)
    nothing = calling.now(GREP, pattern="hunter[3-9]", output_mode=mode)
    assert only.text == nothing.text, "not even whether something fits"
    named = calling.now(GREP, pattern="hunter[0-9]", output_mode=mode, path="secret.env")
    assert named.text == nothing.text


def test_links_lead_nowhere(tmp_path: Path, manner: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("one")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/folder").symlink_to("../out")
    (tmp_path / "ws/file").symlink_to("../out/secret")
    assert grep(tmp_path / "ws", "one") == "No matches found.\n"


def test_the_search_stays_where_it_was_decided(tmp_path: Path, manner: str) -> None:
    """Somebody puts a link in place of the folder, or of the file, right before the program starts (security F1)."""
    for root, text in (("ws", "one inside"), ("out", "one secret")):
        (tmp_path / root).mkdir()
        (tmp_path / root / "f").write_text(text)
    calling = FakeToolContext(str(tmp_path))
    for name in ("ws", "ws/f"):
        with open_search_root(resolve_path(name, str(tmp_path)), calling) as where:
            (tmp_path / "ws").rename(tmp_path / "aside")
            (tmp_path / "ws").symlink_to("out")
            output = run_search(FileSearchRequest("content", "one"), where, calling.place, HaltSignal(20))
        assert b"inside" in output.data
        assert b"secret" not in output.data
        (tmp_path / "ws").unlink()
        (tmp_path / "aside").rename(tmp_path / "ws")


@pytest.mark.parametrize(
    "text", ["--pre=touch made", "-f/etc/passwd", "--files", "--", "-", "; touch made", "$(touch made)"]
)
def test_what_it_is_asked_is_data(files: Path, manner: str, text: str) -> None:
    (files / "odd").write_text(f"x {text} y\n")
    escaped = "".join(f"\\{sign}" if sign in "$()." else sign for sign in text)
    assert grep(files, escaped) == f"odd\n1:x {text} y\n"
    assert grep(files, "one", glob=text) == "No matches found.\n"
    assert names_in(files) == ["a.py", "notes.md", "odd", "src"]


def test_no_settings_of_others(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "config").write_text("--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(files / "config"))
    assert grep(files, "^one", "count") == "notes.md:1\n1 line in 1 file\n"


def test_a_program_of_the_project_is_not_run(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ripgrep(files, monkeypatch, f"touch {files}/made")
    assert grep(files, "^one", "count") == "notes.md:1\n1 line in 1 file\n"
    assert not (files / "made").exists()


def test_names_that_look_like_output(tmp_path: Path, manner: str) -> None:
    odd = "a\n\nb\n1:x"
    (tmp_path / odd).write_text("one\n--\none")
    (tmp_path / "z").write_text("one")
    assert grep(tmp_path, "one|--") == f"{odd}\n1:one\n2:--\n3:one\n\nz\n1:one\n"


# --- floods -----------------------------------------------------------------------------------------


def test_long_lines_are_cut(tmp_path: Path, manner: str) -> None:
    with (tmp_path / "f").open("w") as file:
        file.write("one" + "x" * 30_000_000 + "\nshort one\n")
    text = grep(tmp_path, "one")
    assert text.startswith("f\n1:onexxx")
    assert text.endswith("2:short one\n")
    assert len(text) < 1_000


def test_binary_files_are_left_out(tmp_path: Path, manner: str) -> None:
    (tmp_path / "f").write_bytes(b"\0one\n" * 3)
    (tmp_path / "g").write_bytes(b"o\xffne one\n")
    (tmp_path / "h").write_bytes("one \u00e9\r\n".encode("utf-16"))
    assert grep(tmp_path, "one") == "g\n1:o\ufffdne one\n\nh\n1:one \u00e9\n"


def test_a_file_that_turns_out_to_be_binary(tmp_path: Path) -> None:
    """What ripgrep found before it noticed is shown, its remark is not, and the count is right."""
    (tmp_path / "f").write_bytes(b"one\none\n" + b"x" * 1_000_000 + b"\n\0one\n")
    for input in ({}, {"path": "f"}):
        text = grep(tmp_path, "one", head_limit=1, **input)
        assert text == "f\n1:one\n[Lines 1-1 of 2. Go on with offset=1, or narrow it.]\n"


def test_more_than_can_be_shown(tmp_path: Path, manner: str) -> None:
    for number in range(10):
        (tmp_path / f"f{number}").write_text(f"one {'y' * 400}\n" * 3_000)
    text = grep(tmp_path, "one", head_limit=0)
    assert len(text) <= MOST_SHOWN
    assert "There is more than was looked at: narrow the search." in text
    assert grep(tmp_path, "one", head_limit=100).count("one ") == 100
    (tmp_path / "short").write_text("two\n" * 1_000)
    assert grep(tmp_path, "two").count(":two\n") == 250


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({"pattern": ""}, "The pattern is empty"),
        ({"pattern": "("}, "The search failed: "),
        ({"pattern": "a\0b"}, "contains a NUL"),
        ({"pattern": "a", "type": "p\0y"}, "The type contains a NUL"),
        ({"pattern": "a", "glob": "*\0"}, "The glob contains a NUL"),
        ({"pattern": "x" * 20_001}, "20,000 is the limit"),
        ({"pattern": "x", "glob": "y" * 20_001}, "20,000 is the limit"),
        ({"pattern": "x", "type": "nope"}, "nope"),
        ({"pattern": "x", "path": "nowhere"}, "does not exist"),
        ({"pattern": "x", "path": "/dev/zero"}, "is no regular file"),
    ],
)
def test_what_is_refused(files: Path, manner: str, input: dict[str, str], said: str) -> None:
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(files)).now(GREP, **input)
    assert said in str(error.value)


# --- ends -------------------------------------------------------------------------------------------


async def cancelled_once_it_runs(calling: FakeToolContext, **input: Any) -> float:
    """Seconds from the cancellation until no process is left."""
    before = set(children())
    task = asyncio.create_task(calling.use(GREP, **input))
    while not set(children()) - before:  # noqa: ASYNC110  # the system tells nobody of it
        await asyncio.sleep(0.005)
    task.cancel()
    start = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    while set(children()) - before:
        assert time.monotonic() - start < 60
        await asyncio.sleep(0.002)
    return time.monotonic() - start


def test_no_search_outlives_a_cancellation(files: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fake_ripgrep(tmp_path_factory.mktemp("slow"), patch, "trap '' TERM; exec sleep 1000")
        assert asyncio.run(cancelled_once_it_runs(FakeToolContext(str(files)), pattern="one")) < 60  # of 1,000


def test_an_expression_that_takes_for_ever(files: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without ripgrep, Python's own expressions look back; in a process of its own, that stops nobody else."""
    (files / "f").write_text("a" * 60 + "b\n")
    with pytest.MonkeyPatch.context() as patch:
        without_ripgrep(tmp_path_factory.mktemp("bin"), patch)
        assert asyncio.run(cancelled_once_it_runs(FakeToolContext(str(files)), pattern="(a+)+$")) < 60


def test_time_is_limited(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    before = set(children())
    try:
        command = ["/bin/sh", "-c", "echo found; exec sleep 1000"]
        output = output_of(SearchJob(command, {}, 1_000), SearchLocation(fd, str(tmp_path)), HaltSignal(0.3))
    finally:
        os.close(fd)
    assert (output.data, output.late) == (b"found\n", True)
    assert set(children()) == before


def test_output_and_memory_are_limited(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        where = SearchLocation(fd, str(tmp_path))
        output = output_of(
            SearchJob(["/bin/sh", "-c", "yes; exit"], {"PATH": "/usr/bin:/bin"}, 100_000), where, HaltSignal(30)
        )
        assert output.cut
        assert 100_000 <= len(output.data) < 100_000 + PIPE
        greedy = "x=yyyyyyyyyyyyyyyy; while :; do x=$x$x; done"
        output = output_of(SearchJob(["/bin/sh", "-c", greedy], {}, 1_000), where, HaltSignal(60))
        assert output.code != 0
        assert not output.late
    finally:
        os.close(fd)


def test_the_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    """The longest time in which nothing else could run, while a search has much to tell. Of the best of ten: what a
    busy machine does to one of them is not ours."""
    for number in range(300):
        (tmp_path / f"f{number}").write_text("one two three\n" * 100)

    async def longest_wait(calling: FakeToolContext) -> float:
        task = asyncio.create_task(calling.use(GREP, pattern="one", output_mode="content", head_limit=0))
        worst = 0.0
        while not task.done():
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - start - 0.001)
        await task
        return worst

    async def main() -> float:
        return min([await longest_wait(FakeToolContext(str(tmp_path))) for _ in range(10)])

    assert asyncio.run(main()) < 0.2  # 0.006 on a quiet machine: the interpreter changes threads every 0.005


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "open.txt").write_text("one\n")
    assert (
        "Some files or folders could not be read." in FakeToolContext(str(tmp_path)).now(GREP, pattern="nothing").text
    )


def test_the_users_own_ignore_files_count_although_ripgrep_cannot_look_there(tmp_path: Path) -> None:
    """The one that git's settings name, else the usual one; and those above the folder."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".config/git").mkdir(parents=True)
    (work / "sub").mkdir(parents=True)
    (home / "dotfiles").mkdir()
    (home / "dotfiles/ignored").write_text("*.named\n")
    (home / "named").symlink_to("dotfiles/ignored")
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/named\n")
    (home / ".config/git/ignore").write_text("*.usual\n")
    (work / ".gitignore").write_text("*.above\n")
    for name in ("a.named", "a.usual", "a.above", "a.txt"):
        (work / "sub" / name).write_text("one\n")
    called = FakeToolContext(str(work / "sub"))
    called.place.home = str(home)
    assert sorted(called.now(GREP, pattern="one").data["filenames"]) == ["a.txt", "a.usual"]
    (home / ".gitconfig").unlink()
    assert sorted(called.now(GREP, pattern="one").data["filenames"]) == ["a.named", "a.txt"]


def test_an_ignore_file_that_is_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("a.txt\n")
    (tmp_path / "work/.ignore").symlink_to(tmp_path / "secret")
    (tmp_path / "work/a.txt").write_text("one\n")
    assert FakeToolContext(str(tmp_path / "work")).now(GREP, pattern="one").data["filenames"] == ["a.txt"]


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
def test_more_files_than_are_opened_at_once_where_a_rule_closes_one(tmp_path: Path, mode: str) -> None:
    """What was found is searched again in files that are open: the answer is the same, without the closed one."""
    for number in range(AT_ONCE + 5):
        (tmp_path / f"{number:03}.txt").write_text(f"one\n{number}\n")
    free, ruled = (
        FakeToolContext(str(tmp_path)),
        FakeToolContext(str(tmp_path), may_read=lambda path: not path.endswith("/000.txt")),
    )
    more = {"-A": 1} if mode == "content" else {}
    free_answer = free.now(GREP, pattern="^one$", output_mode=mode, head_limit=0, **more).text
    ruled_answer = ruled.now(GREP, pattern="^one$", output_mode=mode, head_limit=0, **more).text
    (tmp_path / "000.txt").unlink()
    expected = free.now(GREP, pattern="^one$", output_mode=mode, head_limit=0, **more).text
    assert "000.txt" in free_answer
    assert sorted(ruled_answer.split("\n")) == sorted(expected.split("\n"))
