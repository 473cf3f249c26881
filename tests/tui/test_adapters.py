"""What prompt-toolkit asks of an input line."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from mainspring.agent.slash_commands import SlashCommand
from mainspring.cli.tui.completion import CompletionSources
from mainspring.cli.tui.files_index import PathIndex, build_path_index
from mainspring.cli.tui.history import StoredHistory
from mainspring.cli.tui.input_help import PromptCompleter, PromptHistory

PATHS = build_path_index(["src/main.py"])
KNOWN = CompletionSources(
    lambda: (SlashCommand("clear", "Begin anew"),), lambda: PATHS, lambda path: True, {}, "/nowhere"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"  # not there yet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def loaded(history: PromptHistory) -> list[str]:
    async def main() -> list[str]:
        return [text async for text in history.load()]

    return asyncio.run(main())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_input_line_finds_them_and_adds_to_them(home: Path, folder: Path) -> None:
    StoredHistory(str(home), str(folder)).add("one")
    history = PromptHistory(StoredHistory(str(home), str(folder)))
    assert loaded(history) == ["one"]
    for text in ("two", "two", " not this"):
        history.append_string(text)
    assert loaded(history) == ["two", "one"]
    assert history.get_strings() == ["one", "two"]
    until(lambda: loaded(PromptHistory(StoredHistory(str(home), str(folder)))) == ["two", "one"])  # a thread writes it


def test_what_was_sent_before_they_were_read_stands_there_once(home: Path, folder: Path) -> None:
    StoredHistory(str(home), str(folder)).add("one")
    history = PromptHistory(StoredHistory(str(home), str(folder)))
    history.append_string("two")
    assert loaded(history) == ["two", "one"]


def test_others_find_what_a_prompt_stood_for(home: Path, folder: Path) -> None:
    history = PromptHistory(StoredHistory(str(home), str(folder)), expand=lambda text: text.replace("[1]", "all of it"))
    history.append_string("see [1]")
    assert loaded(history) == ["see [1]"]
    until(lambda: list(StoredHistory(str(home), str(folder)).newest()) == ["see all of it"])


def test_they_are_read_in_a_thread(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[threading.Thread] = []
    pread = os.pread

    def watched(fd: int, size: int, at: int) -> bytes:
        seen.append(threading.current_thread())
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", watched)
    StoredHistory(str(home), str(folder)).add("one")
    seen.clear()
    assert loaded(PromptHistory(StoredHistory(str(home), str(folder)))) == ["one"]
    assert seen
    assert threading.main_thread() not in seen


def test_an_input_line_is_offered_the_same_from_a_thread() -> None:
    threads: list[threading.Thread] = []

    def paths() -> PathIndex:
        threads.append(threading.current_thread())
        return KNOWN.paths()

    async def main() -> list[tuple[str, int, str]]:
        found = PromptCompleter(replace(KNOWN, paths=paths)).get_completions_async(
            Document("see @mai now", 8), CompleteEvent()
        )
        return [(one.text, one.start_position, one.display_text) async for one in found]

    assert asyncio.run(main()) == [("@src/main.py", -4, "src/main.py")]  # there is a blank already
    assert threads != [threading.main_thread()]


def test_what_is_said_of_a_word_stands_beside_it() -> None:
    [one] = islice(PromptCompleter(KNOWN).get_completions(Document("/clea"), CompleteEvent()), 2)
    assert (one.text, one.start_position, one.display_text, one.display_meta_text) == (
        "/clear",
        -5,
        "/clear",
        "Begin anew",
    )
