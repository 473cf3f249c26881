"""The paths of the project: how they are found, and how they are searched."""

from __future__ import annotations

import os
import shutil
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.searching import without_ripgrep

from mainspring.cli.tui.files_index import FRESH, FilesIndex, PathIndex, build_path_index, is_typable
from mainspring.tools.base import Workspace
from mainspring.tools.search_child import find_ripgrep

PROJECT = (
    "README.md",
    "src/app/history.py",
    "src/app/files_index.py",
    "src/app/his/other.py",
    "src/the_history_of_it.py",
    "tests/test_history.py",
    "docs/Hi.md",
)


def first(paths: PathIndex, query: str, count: int = 20) -> list[str]:
    return list(islice(paths.rank(query), count))


# --- searching --------------------------------------------------------------------------------------------------------


def test_nothing_typed_offers_what_is_at_the_top_with_the_folders_that_files_are_in() -> None:
    assert first(build_path_index(PROJECT), "") == [
        "src/",
        "docs/",
        "tests/",
        "README.md",
        "src/app/",
        "docs/Hi.md",
        "tests/test_history.py",
        "src/the_history_of_it.py",
        "src/app/his/",
        "src/app/history.py",
        "src/app/files_index.py",
        "src/app/his/other.py",
    ]


def test_names_that_begin_with_it_come_first_then_those_that_hold_it_then_its_letters() -> None:
    assert first(build_path_index(PROJECT), "his") == [
        "src/app/his/",  # the name begins with it
        "src/app/history.py",
        "tests/test_history.py",  # the name holds it
        "src/the_history_of_it.py",
        "src/app/his/other.py",  # the path does
    ]


def test_letters_in_their_order_are_enough_those_of_the_name_first() -> None:
    paths = build_path_index(["f/i/d/x.py", "src/app/files_index.py", "xdif.py"])
    assert first(paths, "fidx") == ["src/app/files_index.py", "f/i/d/x.py"]


def test_it_does_not_matter_how_letters_are_written() -> None:
    assert first(build_path_index(PROJECT), "readme") == ["README.md"]
    assert first(build_path_index(PROJECT), "HI.MD") == ["docs/Hi.md"]


def test_a_folder_with_its_slash_offers_what_is_in_it() -> None:
    assert first(build_path_index(PROJECT), "src/app/", 3) == ["src/app/", "src/app/his/", "src/app/history.py"]


def test_signs_that_mean_something_in_expressions_are_signs() -> None:
    paths = build_path_index(["a[1].py", "a1.py", "c++.md", "c.md", "^x", "b\\n", "a-b"])
    assert first(paths, "[1]") == ["a[1].py"]
    assert first(paths, "++") == ["c++.md"]
    assert first(paths, "^x") == ["^x"]
    assert first(paths, "ab") == ["a-b"]
    assert first(paths, "a]") == ["a[1].py"]
    assert first(paths, "b\\n") == ["b\\n"]


def holds(path: str, query: str) -> bool:
    """What 'its letters in their order' means, said as simply as can be."""
    rest = iter(path.lower())
    return all(letter in rest for letter in query.lower())


names = st.text("abAB.-_^]\\[ é", min_size=1, max_size=6)
some_paths = st.lists(st.lists(names, min_size=1, max_size=4).map("/".join), max_size=30)


@given(some_paths, st.lists(st.text("abAB./-^]\\[é", max_size=5), max_size=6))
def test_all_that_hold_the_letters_are_found_and_each_once(files: list[str], queries: list[str]) -> None:
    """Whatever was asked before: what one query left narrows only those that begin with it."""
    paths = build_path_index(files)
    for query in queries:
        found = first(paths, query, 1_000)
        assert len(found) == len(set(found))
        assert set(found) == {path for path in paths.all if holds(path, query)}


@given(some_paths, st.text("ab./", min_size=1, max_size=6))
def test_somebody_who_types_on_sees_what_somebody_sees_who_begins_there(files: list[str], query: str) -> None:
    typed = build_path_index(files)
    for size in range(len(query)):
        first(typed, query[:size], 1_000)
    assert first(typed, query, 1_000) == first(build_path_index(files), query, 1_000)


@given(some_paths, st.text("ab./", min_size=2, max_size=6), st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_it_does_not_matter_how_much_of_each_answer_was_looked_at(
    files: list[str], query: str, counts: list[int]
) -> None:
    typed = build_path_index(files)
    for size, count in zip(range(1, len(query)), counts, strict=False):
        first(typed, query[:size], count)
    assert first(typed, query, 1_000) == first(build_path_index(files), query, 1_000)


def test_a_query_that_is_no_name_finds_nothing() -> None:
    assert first(build_path_index(PROJECT), "a\nb") == []
    assert first(build_path_index(PROJECT), "s" * 201) == []
    assert first(build_path_index([]), "s") == []


def large() -> PathIndex:
    words = [
        "core",
        "engine",
        "parser",
        "widget",
        "stream",
        "buffer",
        "session",
        "handler",
        "chart",
        "theme",
        "layout",
        "query",
    ]
    return build_path_index(
        [
            f"{words[n % 12]}{n % 7}/{words[n // 12 % 12]}/{words[n // 144 % 12]}{n % 5}/{words[n % 11]}_{n}.py"
            for n in range(50_000)
        ]
    )


def test_one_key_press_among_50_000_paths_takes_milliseconds() -> None:
    """About 20 ms at the most are meant; the bound is five times that, for machines that do other things as well."""
    paths, worst = large(), 0.0
    assert len(paths.all) > 50_000
    for word in ("parserwidget77", "engine/theme", "zzz", "sctb", "q.py"):
        for size in range(1, len(word) + 1):
            began = time.thread_time()
            first(paths, word[:size])
            worst = max(worst, time.thread_time() - began)
    assert worst < 0.1


def test_names_that_nobody_can_type_are_left_out() -> None:
    assert [is_typable(name) for name in ("a b", "漢\u3000字", "a\u00a0b", "👩\u200d💻")] == [True] * 4
    assert [is_typable(name) for name in ("a\nb", "a\tb", "a\x1bb", "a\udc80", "a\u202eb", "a\u2028b")] == [False] * 6


# --- finding ----------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def project(folder: Path) -> Workspace:
    for name in PROJECT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return Workspace(str(folder), environ={"PATH": os.environ["PATH"]})


@pytest.fixture(params=["ripgrep", "our own walk"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Workspace:
    if request.param == "our own walk":
        without_ripgrep(tmp_path_factory.mktemp("bin"), monkeypatch)
    made = project(tmp_path)
    assert (find_ripgrep(made) is None) == (request.param == "our own walk")
    return made


def test_the_files_of_the_project_are_found_but_for_what_is_ignored(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("debug.log", ".env", "a\nb", "my notes.md"):
        (tmp_path / name).touch()
    index = FilesIndex(place)
    index.refresh()
    index.settle()
    expected = {*PROJECT, ".gitignore", ".env", "my notes.md"}
    assert {path for path in index.paths().all if not path.endswith("/")} == expected
    index.close()


def test_nobody_waits_and_the_first_look_tells_when_it_is_over(tmp_path: Path) -> None:
    told = threading.Event()
    index = FilesIndex(project(tmp_path), changed=told.set)
    index.paths()  # whatever there is by now
    assert told.wait(60)
    assert len(index.paths().all) == 12
    assert len(FilesIndex(project(tmp_path)).paths(wait=60).all) == 12
    index.close()


def test_what_is_fresh_is_not_looked_for_again_and_what_is_old_is(tmp_path: Path) -> None:
    clock, changes = Clock(), list[int]()
    index = FilesIndex(project(tmp_path), now=clock, changed=lambda: changes.append(1))
    before = index.paths(wait=60)
    index.settle()
    (tmp_path / "new.py").touch()
    clock.now += FRESH - 0.1
    index.refresh()
    index.settle()
    assert index.paths() is before
    clock.now += 0.2
    assert index.paths() is before  # at once, while the next look begins
    index.settle()
    assert first(index.paths(), "new") == ["new.py"]
    clock.now += FRESH + 0.1
    index.refresh()
    index.settle()
    assert len(changes) == 2  # the third look found the same
    index.close()


def test_a_look_that_took_long_is_not_repeated_soon(tmp_path: Path) -> None:
    clock = Clock()

    class Slow(Clock):
        def __call__(self) -> float:
            if threading.current_thread() is not threading.main_thread():
                clock.now += 1.0  # at each glance of the thread: a look takes one second
            return clock.now

    index = FilesIndex(project(tmp_path), now=Slow())
    before = index.paths(wait=60)
    index.settle()
    (tmp_path / "new.py").touch()
    clock.now += FRESH + 1
    index.refresh()
    index.settle()
    assert index.paths() is before
    clock.now += 20
    index.refresh()
    index.settle()
    assert first(index.paths(), "new") == ["new.py"]
    index.close()


def test_a_folder_that_is_gone_leaves_what_was_known(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "project").mkdir()
    index = FilesIndex(project(tmp_path / "project"), now=clock)
    before = index.paths(wait=60)
    index.settle()
    shutil.rmtree(tmp_path / "project")
    clock.now += FRESH + 1
    index.refresh()
    index.settle()
    assert index.paths() is before
    assert len(before.all) == 12
    index.close()


SLEEPER = """#!/bin/sh
echo $$ > "$HOME/pid"
exec sleep 600
"""


def test_closing_ends_the_child_and_nothing_begins_any_more(tmp_path: Path) -> None:
    programs, folder = tmp_path / "programs", tmp_path / "project"
    programs.mkdir()
    folder.mkdir()
    (programs / "rg").write_text(SLEEPER)
    (programs / "rg").chmod(0o700)
    place = Workspace(str(folder), home=str(tmp_path), environ={"PATH": str(programs)})
    if find_ripgrep(place) != str(programs / "rg"):
        pytest.skip("the system's own ripgrep comes first")
    index = FilesIndex(place)
    index.refresh()
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.001)
    child = int((tmp_path / "pid").read_text())
    began = time.monotonic()
    index.close()
    assert time.monotonic() - began < 60  # it would sleep for 600
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert index.paths().all == []
    index.refresh()
    index.settle()


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.cli.tui.files_index.SECONDS", 0.2)
    programs, folder = tmp_path / "programs", tmp_path / "project"
    programs.mkdir()
    folder.mkdir()
    (programs / "rg").write_text(SLEEPER.replace("exec", "printf './half.py\\000'; exec"))
    (programs / "rg").chmod(0o700)
    place = Workspace(str(folder), home=str(tmp_path), environ={"PATH": str(programs)})
    if find_ripgrep(place) != str(programs / "rg"):
        pytest.skip("the system's own ripgrep comes first")
    index = FilesIndex(place)
    index.refresh()
    index.settle()
    assert index.paths().all == ["half.py"]  # what it said until then counts
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    index.close()
