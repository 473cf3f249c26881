"""What the permission rules decided on is what is opened, whatever is swapped in between (security F1)."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes.steps import Steps
from sandbox.walls import LINUX
from tiers import long

from mainspring.agent.slash_commands import medium_of
from mainspring.checkpoints.entries import FileEntry
from mainspring.checkpoints.restore import RestoreAction, carry_out, look_at, make_plan
from mainspring.checkpoints.store import digest_of
from mainspring.context import agent_types
from mainspring.context.file_changes import FileChanges
from mainspring.context.memory import MemoryLocations
from mainspring.context.mentions import Verdict
from mainspring.context.sources import ContextSourceOptions, ContextSources
from mainspring.core.errors import ToolError
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.permissions.policy import PermissionRequest
from mainspring.processes.atomic_write import ReadSet
from mainspring.processes.output import SpillFolder, create_spill_file
from mainspring.processes.paths import PathRefused, resolve_path
from mainspring.tools.base import Workspace
from mainspring.tools.shell import change_directory
from tools.swap_runs import AS, LANDLOCK, Search, check, run
from tools.swapping import CALLS, Pipeline, Swapped, leaks, leaks_in, told


def played(stage: Swapped, pipeline: Pipeline, name: str, input: dict[str, Any]) -> Any:
    """A call, with all that was read before it."""

    async def main() -> Any:
        field = "notebook_path" if name == "NotebookEdit" else "file_path"
        if name in ("Write", "Edit", "NotebookEdit") and (stage.work / input[field]).exists():
            await Pipeline.call(reader, "Read", {"file_path": input[field]})
        return await pipeline.call(name, input)

    reader = Pipeline(stage.work)
    reader.hands = pipeline.hands
    return asyncio.run(main())


@pytest.mark.parametrize("what", CALLS)
def test_a_swap_while_a_person_is_asked(tmp_path: Path, what: str) -> None:
    """The rules have decided already, and the answer is about what they saw."""
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    done = played(stage, Pipeline(stage.work, stage.swap, f"ask {name}"), name, input)
    assert (stage.work / "d").is_symlink(), "nobody was asked"
    assert stage.untouched()
    assert not leaks(done), told(done)
    if "d" in (Path(str(value)).parts[0] for value in input.values() if value) and what != "Glob below":
        assert done.answer.is_error
        assert "changed after the permission check" in done.answer.text


@pytest.mark.parametrize("what", CALLS)
def test_without_a_swap_everything_works(tmp_path: Path, what: str) -> None:
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    done = played(stage, Pipeline(stage.work, lambda: None, f"ask {name}"), name, input)
    assert done.answer.is_error is (what == "Read what is missing"), done.answer.text
    assert not leaks(done)


@pytest.mark.parametrize("what", CALLS)
def test_a_link_that_was_there_is_followed_and_decided_on_where_it_leads(tmp_path: Path, what: str) -> None:
    """To the same folder under another name: nobody is asked in mode acceptEdits. To one outside: somebody is."""
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    (stage.work / "d").rename(stage.work / "real")
    (stage.work / "d").symlink_to("real")
    asked: list[str] = []
    pipeline = Pipeline(stage.work, lambda: asked.append(what), mode="acceptEdits")
    done = played(stage, pipeline, name, input)
    assert done.answer.is_error is (what == "Read what is missing"), done.answer.text
    assert asked == []


SPELLED = (None, ".", "./", "../d", "../d/", "../d/.", "//../d")
SEARCHES = [("Glob", {"pattern": "**/*"}), ("Grep", {"pattern": "word", "output_mode": "content"})]


@pytest.mark.parametrize("path", SPELLED)
@pytest.mark.parametrize(("name", "input"), SEARCHES)
def test_however_the_folder_is_spelled(tmp_path: Path, name: str, input: dict[str, Any], path: str | None) -> None:
    """The rules and the tool speak of one resolution, also where no path is given."""
    stage = Swapped(tmp_path / "stage")
    pipeline = Pipeline(stage.work, stage.swap, f"ask {name}")
    pipeline.hands.place.cwd = str(stage.work / "d")
    if path is not None and path.startswith("//"):
        path = f"{stage.work}/d{path}"
    done = asyncio.run(pipeline.call(name, input if path is None else {**input, "path": path}))
    assert (stage.work / "d").is_symlink(), "nobody was asked"
    assert not leaks(done), told(done)
    assert "changed after the permission check" in done.answer.text


class Refusing(Pipeline):
    """Nobody grants anything that was not granted before."""

    async def ask(self, text: str, about: Any = None) -> str:
        return "deny"


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("granted", ["the shell's folder", "a further folder", "the first folder"])
def test_a_working_folder_that_is_swapped_grants_nothing_where_it_leads_now(
    tmp_path: Path, what: str, granted: str
) -> None:
    """It counts as it was when it was made one, also for calls that come long after the swap."""
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    root = stage.work / "d" if granted == "the first folder" else stage.work
    pipeline = Refusing(root, mode="acceptEdits")
    if granted == "the shell's folder":
        pipeline.hands.place.cwd = str(stage.work / "d")
    elif granted == "a further folder":
        pipeline.hands.gate.set_folders((str(stage.work), str(stage.work / "d")))
    stage.swap()
    for seen in (input, {key: str(value).removeprefix("d/") for key, value in input.items() if value != "d"}):
        done = asyncio.run(pipeline.call(name, seen))
        assert stage.untouched()
        assert not leaks(done), told(done)


def test_a_shell_does_not_move_to_where_a_swapped_folder_leads(tmp_path: Path) -> None:
    stage = Swapped(tmp_path / "stage")
    place = Workspace(str(stage.work), folders=(str(stage.work / "d"),))
    first = Workspace(str(stage.work / "d"))
    assert change_directory(place, str(stage.work / "d")) == ""
    (stage.out / "g").mkdir()
    stage.swap()
    assert "was reset" in change_directory(place, str(stage.out / "g"))
    assert place.cwd == str(stage.work)
    assert "was reset" in change_directory(first, str(stage.out / "g"))


# --- a command in the sandbox that never stops swapping; tests/long has more of it -----------------------------------


@LINUX
@AS
def test_a_swapper_in_the_sandbox_gets_nothing_out(user: int | None) -> None:
    check(run(400, 120, user=user), 400)


@LINUX
@pytest.mark.parametrize("search", [long("script"), long("python")])
def test_nor_where_ripgrep_cannot_be_confined_or_is_missing(search: Search) -> None:
    check(run(200, 120, search=search), 200)


@LINUX
@LANDLOCK
@AS
def test_nor_in_the_lower_sandbox(user: int | None) -> None:
    check(run(200, 120, user=user, walls="landlock"), 200)


# --- a swap before each system call of what is read without a tool ---------------------------------------------------


def surroundings(work: Path) -> ContextSources:
    """Of a folder that nobody trusts, and that a program has chosen."""
    return ContextSources(ContextSourceOptions(MemoryLocations(str(work), user=str(work.parent / "user"), driven=True)))


def mention(work: Path) -> object:
    gate, policy = PermissionChecker(folders=(str(work),)), EnginePolicy()

    async def may(path: str) -> Verdict:
        return (await gate.verdict(PermissionRequest("Read", {"file_path": path}, str(work)), policy)).decision

    found = surroundings(work).named("Look at @d/f, @d/i.png and @d/", may, medium_of)
    return [one.attachment for one in asyncio.run(found)]


def memory(work: Path) -> object:
    found = surroundings(work)
    found.memory.touched(f"{work}/d")
    return found.memory.attachments


def skill(work: Path) -> object:
    skills = surroundings(work).skills
    return skills.attachment, skills.load("s").text


def command(work: Path) -> object:
    return surroundings(work).slash.text("c", "")


def agent(work: Path) -> object:
    return agent_types.find_agent_types(surroundings(work).memory.places("agents")).kinds


def changed(work: Path) -> object:
    known, path = ReadSet(), resolve_path("d/f", str(work))
    known.remember(path, b"before")
    changes = FileChanges(known)
    changes.saw(path)
    return changes.news()


def put_back(work: Path) -> object:
    """What going back does to a file, when all is decided."""
    real, older = f"{work}/d/f", FileEntry("file", 0o600, digest_of(b"older"), 5)
    plan = make_plan(1, 2, (str(work),), [RestoreAction(os.fsencode(real), look_at(real), older)])
    return carry_out(plan, lambda _: b"older")


def spill(work: Path) -> object:
    return SpillFolder(f"{work}/d/results").put("call-1", "a result")


def background_output(work: Path) -> object:
    path, fd = create_spill_file(f"{work}/d")
    os.close(fd)
    return path


OPENERS = (mention, memory, skill, command, agent, changed, put_back, spill, background_output)


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory, where that is possible: there are hundreds of rounds."""
    place = Path(os.path.realpath(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)))
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("one_in", [5, long(1)])
@pytest.mark.parametrize("opens", OPENERS)
def test_a_swap_before_every_system_call(base: Path, opens: Callable[[Path], object], one_in: int) -> None:
    done = 0
    for at in range(0, 1_000, one_in):
        stage = Swapped(base / "stage")
        stage.more()
        with Steps(at, stage.swap) as steps:
            try:
                found = opens(stage.work)
                done += 1
            except (ToolError, PathRefused, OSError) as error:
                found = error
        assert stage.untouched(), at
        assert not leaks_in(repr(found)), (at, found)
        if at >= steps.count:
            break
    assert done > 0
    assert at > 10
