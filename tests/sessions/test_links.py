"""Session files and links: nothing outside of the state folder is written; a file that goes away is written again."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mainspring.core.errors import MainspringError
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.core.state import State
from mainspring.sessions.journal import FileJournal, JournalOptions, JournalWriteError
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.paths import (
    agent_file,
    live_file,
    open_file,
    open_folder_of,
    payload_file,
    place_new,
    state_folder,
)
from mainspring.sessions.resume import load_session
from mainspring.sessions.subagents import meta_file, open_journal
from mainspring.testing import World, says
from sessions.stage import CONFIG, ENVELOPE, ID, stored


class Home:
    def __init__(self, base: Path) -> None:
        self.base, self.home, self.out = base, base / "home", base / "out"
        self.file = self.home / "projects/-x" / f"{ID}.jsonl"
        self.file.parent.mkdir(parents=True)
        self.out.mkdir()
        self.told: list[str] = []
        self.options = JournalOptions(on_trouble=self.told.append)

    def written_outside(self) -> list[str]:
        return [str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file()]

    async def talk(self, journal: FileJournal, *between: Callable[[], object]) -> None:
        """A run with a prompt and a reply; then what happens, and another run; and so on."""
        world = World([says(f"Reply {number}.") for number in range(len(between) + 1)])
        session = stored(world, journal, CONFIG, State(History()))
        for number, act in enumerate((None, *between)):
            if act is not None:
                act()
            async with session.run((user(f"prompt {number}"),)) as run:
                async for _ in run:
                    pass


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def dangling(home: Home) -> None:
    home.file.symlink_to(home.out / "new.jsonl")


def to_file(home: Home) -> None:
    (home.out / "theirs").write_bytes(b"")
    home.file.symlink_to(home.out / "theirs")


def folder(home: Home) -> None:
    home.file.parent.rmdir()
    home.file.parent.symlink_to(home.out)


def projects(home: Home) -> None:
    shutil.rmtree(home.home / "projects")
    (home.home / "projects").symlink_to(home.out)


@pytest.mark.parametrize("plant", [dangling, to_file, folder, projects])
def test_no_session_is_written_through_a_link_that_leads_out(home: Home, plant: Callable[[Home], None]) -> None:
    plant(home)
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    assert not journal.stored
    asyncio.run(home.talk(journal))
    journal.close()
    assert [(home.out / name).read_bytes() for name in home.written_outside()] in ([], [b""])
    [told] = home.told
    assert "a link leads out of" in told
    assert "from here on nothing of this session is stored" in told


def test_with_require_it_does_not_begin(home: Home) -> None:
    dangling(home)
    with pytest.raises(JournalWriteError):
        FileJournal.create(home.file, ENVELOPE, JournalOptions(require=True))


@pytest.mark.parametrize("which", ["live", "payloads", "subagents", "side"])
def test_nor_what_is_kept_beside_it(home: Home, which: str) -> None:
    beside = home.file.with_suffix("")
    if which == "side":
        beside.symlink_to(home.out)
    else:
        beside.mkdir()
        (beside / {"live": "live.jsonl"}.get(which, which)).symlink_to(home.out / ("x" if which == "live" else ""))
    for path in (live_file(home.file), payload_file(home.file, "abc"), agent_file(home.file, "a")):
        with suppress(OSError):
            os.close(open_file(path, os.O_RDWR | os.O_CREAT))
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    below = open_journal(journal, ENVELOPE, "abc", {"agentType": "x"})
    assert below.stored is (which in ("live", "payloads"))
    assert Path(meta_file(agent_file(str(home.file), "abc"))).exists() is below.stored
    for one in (below, journal):
        one.close()
    assert home.written_outside() == []


def test_links_within_the_state_folder_and_to_it_are_fine(home: Home) -> None:
    elsewhere = home.home / "archive"
    elsewhere.mkdir()
    home.file.parent.rmdir()
    home.file.parent.symlink_to(elsewhere)
    (home.base / "linked").symlink_to(home.home)
    through = home.base / "linked/projects/-x" / f"{ID}.jsonl"
    journal = FileJournal.create(through, ENVELOPE, home.options)
    asyncio.run(home.talk(journal))
    journal.close()
    assert home.told == []
    assert len(load_session(elsewhere / f"{ID}.jsonl").state.history) >= 2


def test_a_folder_that_is_swapped_meanwhile_leads_nowhere(home: Home) -> None:
    with open_folder_of(str(home.file)) as (fd, name):
        home.file.parent.rename(home.home / "moved")
        home.file.parent.symlink_to(home.out)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, dir_fd=fd))
    assert home.written_outside() == []


@pytest.mark.parametrize(
    ("file", "state"),
    [("/h/.m/projects/-a-projects-b/x.jsonl", "/h/.m"), ("/h/projects/.m/projects/-x/x/subagents/y", "/h/projects/.m"),
     ("/elsewhere/x.jsonl", "/elsewhere"), ("/projects/-x/x.jsonl", "/projects/-x")],
)  # fmt: skip
def test_where_the_state_folder_is(file: str, state: str) -> None:
    assert state_folder(file) == state


def test_a_new_name_never_takes_another_file_away(home: Home) -> None:
    draft = home.file.parent / "draft"
    for text in ("one", "two"):
        draft.write_text(text)
        if text == "one":
            place_new(str(draft), str(home.file))
        else:
            with pytest.raises(FileExistsError):
                place_new(str(draft), str(home.file))
    assert home.file.read_text() == "one"


# --- removed while it is in use ---------------------------------------------------------------------------------------


def prompts(file: Path) -> list[str]:
    return [m.text for m in load_session(file).state.history if m.text.startswith("prompt")]


@pytest.mark.parametrize("remove", ["file", "folder", "home"])
def test_a_file_that_is_removed_is_written_again_and_told(home: Home, remove: str) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    gone = {
        "file": home.file.unlink,
        "folder": lambda: shutil.rmtree(home.file.parent),
        "home": lambda: shutil.rmtree(home.home),
    }
    asyncio.run(home.talk(journal, gone[remove], lambda: None))
    journal.close()
    assert home.told == [f"'{home.file}' was removed while this session was using it: it was written again"]
    assert prompts(home.file) == ["prompt 0", "prompt 1", "prompt 2"]
    assert [path.name for path in home.file.parent.iterdir() if path.name.startswith(".")] == []


def test_it_is_still_ours_alone(home: Home) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    asyncio.run(home.talk(journal, home.file.unlink))
    with pytest.raises(MainspringError, match="is open in"):
        FileJournal.resume(home.file, ENVELOPE)
    journal.close()


def replace_with(home: Home, text: str) -> None:
    home.file.unlink()
    home.file.write_text(text)


def test_another_file_in_its_place_stays_and_is_told(home: Home) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    asyncio.run(home.talk(journal, lambda: replace_with(home, "theirs"), lambda: None))
    journal.close()
    assert home.file.read_text() == "theirs"
    [told] = home.told
    assert "another file has taken its place" in told
    assert "from here on nothing of this session is stored" in told


def test_an_empty_one_of_somebody_else_is_not_removed(home: Home) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    replace_with(home, "")
    journal.close()
    assert home.file.exists()


def test_with_require_the_run_ends(home: Home) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, JournalOptions(require=True))
    with pytest.raises(JournalWriteError):
        asyncio.run(home.talk(journal, lambda: replace_with(home, "theirs")))
    journal.close()


def test_an_agent_s_file_too(home: Home) -> None:
    journal = FileJournal.create(home.file, ENVELOPE, home.options)
    envelope = Envelope(ID, "/x", "0", agent_id="abc")
    below = FileJournal.create(agent_file(home.file, "abc"), envelope, home.options)
    asyncio.run(home.talk(below, Path(below.file).unlink))
    below.close()
    journal.close()
    assert len(home.told) == 1
    assert Path(below.file).stat().st_size
