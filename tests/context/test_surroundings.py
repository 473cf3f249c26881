"""All of it together, over the turns of a session."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext
from mainspring.context.memory import MemoryLocations
from mainspring.context.sources import ContextSourceOptions, ContextSources
from mainspring.core.config import Config
from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, ToolCall, User, result, user
from mainspring.core.state import State
from mainspring.core.view import Drop, Fold
from mainspring.engine.session import EngineSession as RealSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.engine.tasks import SideJobs
from mainspring.processes.atomic_write import ReadSet
from mainspring.processes.paths import resolve_path
from mainspring.providers.base import Batch, Conversation, Provider
from mainspring.providers.scripted import Scripted, ScriptedReply, call, says
from mainspring.tools.custom import tool

NOON = 1_772_366_400_000  # 2026-03-01 12:00 UTC
DAY = 86_400_000


class Session:
    """What a driver does with it, without the driver."""

    def __init__(
        self, folder: Path, *, notes: str = "", trusted: bool = False, skills: tuple[str, ...] | None = None
    ) -> None:
        self.folder = folder
        self.read = ReadSet()
        self.around = ContextSourceOptions(
            MemoryLocations(
                str(folder), str(folder.parent), str(folder.parent / ".mainspring"), trusted, skills=skills
            ),
            notes,
            {"TMPDIR": str(folder.parent)},
            lambda: self.read,
        )
        self.surroundings = ContextSources(self.around)
        self.state = State(History())
        self.now = NOON

    def say(self, *messages: Message) -> None:
        first = len(self.state.history)
        stamped = [replace(message, id=f"m{first + n}") for n, message in enumerate(messages)]
        self.state = replace(self.state, history=self.state.history.append(*stamped))

    def turn(self) -> list[str]:
        """The names of what was attached."""
        added = self.surroundings.attachments(self.state, self.now)
        self.say(*added)
        return names(added)

    def recall(self) -> list[str]:
        added = asyncio.run(self.surroundings.recall(self.state))
        self.say(*added)
        return names(added)

    def calls(self, name: str, path: Path) -> None:
        found = resolve_path(str(path), "/")
        if found.kind == "file":
            self.read.remember(found, path.read_bytes())
        call = ToolCall("c", name, {"file_path": str(path)})
        self.say(Assistant((call,)), result("c", "done"))


def names(messages: tuple[User, ...]) -> list[str]:
    heads = [message.text.split("\n", 1)[0] for message in messages]
    return [head.split('kind="')[1].split('"')[0] + ":" + head.rpartition("/")[2].strip('">') for head in heads]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "CLAUDE.md").write_text("the rules")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=made, check=True)
    return made


DATE = 'environment:<system-reminder kind="environment" name="date'
GIT = 'environment:<system-reminder kind="environment" name="git'
CHANGED = 'changed file:<system-reminder kind="changed file'
SKILLS = 'skills:<system-reminder kind="skills'


@pytest.mark.covers("D-37", "N-23", "B-28", "A-14")
def test_each_thing_is_sent_once_and_again_when_it_left_the_view(folder: Path) -> None:
    session = Session(folder)
    session.say(user("prompt"))
    assert session.turn() == ["memory:CLAUDE.md", DATE]
    assert session.turn() == []
    everything = tuple([message.id for message in session.state.history])
    session.state = replace(session.state, edits=(Fold(everything[0], everything[-1], user("summary")),))
    assert session.turn() == ["memory:CLAUDE.md", DATE]
    assert session.turn() == []
    last = session.state.history[len(session.state.history) - 1].id
    session.state = replace(session.state, edits=(*session.state.edits, Drop((last,))))
    assert session.turn() == [DATE]


@pytest.mark.covers("D-37")
def test_what_a_layer_takes_out_in_the_same_turn_is_not_missed(folder: Path) -> None:
    session = Session(folder)
    session.say(user("prompt"))
    session.turn()
    session.now += DAY
    sent = session.surroundings.attachments(session.state, session.now)
    assert names(sent) == [DATE]
    dropped = replace(session.state, edits=(Drop(("m1",)),))
    assert names(session.surroundings.lost(dropped, session.now, sent)) == ["memory:CLAUDE.md"]
    assert session.surroundings.lost(session.state, session.now, sent) == ()


def test_what_an_abort_lost_is_sent_again(folder: Path) -> None:
    session = Session(folder)
    session.say(user("prompt"))
    lost = session.surroundings.attachments(session.state, NOON)
    assert len(lost) == 2
    assert session.surroundings.attachments(session.state, NOON) == lost


def test_a_resumed_session_is_not_told_again_what_it_holds(folder: Path) -> None:
    first = Session(folder)
    first.say(user("prompt"))
    first.turn()
    second = Session(folder)
    second.state = first.state
    assert second.turn() == []
    (folder / "CLAUDE.md").write_text("new rules")
    third = Session(folder)
    third.state = first.state
    assert third.turn() == ["memory:CLAUDE.md"]


def test_a_new_day_and_new_rules_are_told(folder: Path) -> None:
    session = Session(folder)
    session.say(user("prompt"))
    session.turn()
    session.now += DAY
    assert session.turn() == [DATE]
    (folder / "CLAUDE.md").write_text("other rules")
    assert session.turn() == ["memory:CLAUDE.md"]
    assert session.turn() == []


def test_files_that_are_touched_bring_memory_and_are_watched(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "AGENTS.md").write_text("rules of lib")
    code = folder / "lib" / "code.py"
    code.write_text("one\n")
    session = Session(folder)
    session.say(user("prompt"))
    session.turn()
    session.calls("Read", code)
    assert session.turn() == ["memory:AGENTS.md"]
    code.write_text("two\n")
    assert session.turn() == [CHANGED]
    assert "-one\n+two" in session.state.history[len(session.state.history) - 1].text
    for n, odd in enumerate((7, "x\0", "", None, "/proc/self/environ")):
        session.say(Assistant((ToolCall(f"odd{n}", "Read", {"file_path": odd}),)), result(f"odd{n}", "refused"))
    assert session.turn() == []


@pytest.mark.covers("N-20", "B-30", "N-22")
def test_what_takes_longer_comes_with_the_next_turn(folder: Path) -> None:
    notes = folder.parent / "notes"
    notes.mkdir()
    (notes / "MEMORY.md").write_text("- deploy.md")
    (notes / "deploy.md").write_text("First this.")
    session = Session(folder, notes=str(notes), trusted=True)
    session.say(user("deploy it"))
    assert session.turn() == ["memory:CLAUDE.md", "notes:MEMORY.md", DATE]
    skill = folder / ".claude" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: one\ndescription: About one.\n---\n")
    assert session.recall() == ["notes:deploy.md"]
    assert session.turn() == [SKILLS, GIT]
    assert "Branch: main" in session.state.history[len(session.state.history) - 1].text
    assert session.recall() == []  # once for each prompt
    session.say(user("deploy it again"))
    assert session.recall() == []  # the view still holds it
    assert session.turn() == []
    (skill / "SKILL.md").write_text("---\nname: one\ndescription: About another.\n---\n")
    session.recall()
    assert session.turn() == [SKILLS]


def test_without_trust_a_projects_skills_are_not_there(folder: Path) -> None:
    skill = folder / ".claude" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: one\ndescription: About one.\n---\n")
    assert Session(folder).surroundings.skills.by_name == {}
    assert set(Session(folder, trusted=True).surroundings.skills.by_name) == {"one"}


def test_a_quiet_turn_brings_nothing_whatever_the_history(folder: Path) -> None:
    """10,000 messages behind it, and a new call each time."""
    session = Session(folder)
    for n in range(3_333):
        session.say(
            user(f"prompt {n}"), Assistant((ToolCall(str(n), "Read", {"file_path": "x"}),)), result(str(n), "r")
        )
    session.turn()
    session.turn()
    for n in range(50):
        session.say(Assistant((ToolCall(f"c{n}", "Bash", {"command": "true"}),)), result(f"c{n}", ""))
        assert session.surroundings.attachments(session.state, NOON) == ()


class Equipped(BasicDeps):
    """As it is to be wired: one line in `shrink`, one for `SideJobs.recall`."""

    def __init__(self, provider: Provider, surroundings: ContextSources, **more: Any) -> None:
        super().__init__(provider, **more)
        self.surroundings = surroundings

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        added = self.surroundings.attachments(state, self.now())
        return replace(await super().shrink(state, (*added, *queued)), attachments=added)


class Listening(Scripted):
    """A script that keeps what it was told."""

    def __init__(self, replies: Iterable[ScriptedReply]) -> None:
        super().__init__(replies)
        self.heard: list[list[Message]] = []

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        self.heard.append(list(conversation.history))
        return super().stream(request, conversation)


@pytest.mark.covers("N-20", "N-23", "B-28")
def test_in_a_run_the_first_request_brings_memory_and_the_second_what_was_found_meanwhile(folder: Path) -> None:
    notes = folder.parent / "notes"
    notes.mkdir()
    (notes / "deploy.md").write_text("First this.")
    around = ContextSourceOptions(
        MemoryLocations(str(folder), str(folder.parent)), str(notes), {"TMPDIR": str(folder.parent)}
    )
    looked = asyncio.Event()

    class Watched(ContextSources):
        async def recall(self, state: State) -> tuple[User, ...]:
            try:
                return await super().recall(state)
            finally:
                looked.set()

    @tool(name="Wait")
    async def wait() -> str:
        """Wait."""
        await looked.wait()
        await asyncio.sleep(0)  # the task that looked ends
        return "waited"

    model = Listening([says("Let me see.", call("Wait")), says("Done.")])

    async def main() -> None:
        deps = Equipped(model, Watched(around), tools=[wait])
        side_jobs = SideJobs(recall=deps.surroundings.recall)
        async with RealSession(deps, Config(), side_jobs=side_jobs).run("deploy it") as run:
            async for _ in run:
                pass
        assert run.result.text == "Done."

    asyncio.run(main())
    first, second = model.heard
    assert second[: len(first)] == first  # law 4: it only grows
    assert names(tuple([m for m in first[1:] if isinstance(m, User)])) == ["memory:CLAUDE.md", DATE]
    assert sorted(names(tuple([m for m in second[len(first) :] if isinstance(m, User)]))) == [GIT, "notes:deploy.md"]


# --- words with a slash, and files that are named ---------------------------------------------------


def skill(folder: Path, name: str) -> None:
    path = folder / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\ndescription: About {name}.\n---\nThe body of {name}.")


@pytest.mark.covers("N-22")
def test_the_model_is_told_of_some_skills_and_a_person_may_use_all(folder: Path) -> None:
    session = Session(folder, skills=("one",))
    skill(folder.parent / ".mainspring", "one")
    skill(folder.parent / ".mainspring", "two")
    session.say(user("prompt"))
    assert SKILLS in session.turn()
    [told] = [m.text for m in session.state.history if isinstance(m, User) and 'kind="skills"' in m.text]
    assert "About one." in told
    assert "About two." not in told
    assert [entry.name for entry in session.surroundings.slash.entries()] == ["one", "two"]
    assert session.surroundings.slash.text("two").endswith("The body of two.")
    assert session.surroundings.has_skills
    without = Session(folder, skills=())
    assert not without.surroundings.has_skills
    of_an_agent = ContextSources(replace(without.around, where=without.surroundings.memory.where))
    assert not of_an_agent.has_skills


def test_a_skill_that_a_person_asks_for_first_is_listed_all_the_same(folder: Path) -> None:
    """Both look at the same list: that one of them has seen a new skill must not keep it from the model."""
    session = Session(folder)
    session.say(user("prompt"))
    skill(folder.parent / ".mainspring", "one")
    session.turn()
    assert session.turn() == []
    skill(folder.parent / ".mainspring", "late")
    assert [entry.name for entry in session.surroundings.slash.entries()] == ["late", "one"]
    assert session.turn() == [SKILLS]


@pytest.mark.covers("O-05", "B-28")
def test_a_file_that_is_named_is_watched_and_brings_the_memory_of_its_folder(folder: Path) -> None:
    session = Session(folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("one\n")
    (folder / "sub" / "CLAUDE.md").write_text("rules of sub")
    session.say(user("prompt"))
    session.turn()

    async def may(path: str) -> Literal["allow"]:
        return "allow"

    [found] = asyncio.run(session.surroundings.named("see @sub/a.txt", may))
    assert (found.attachment.name, found.attachment.text) == (str(folder / "sub" / "a.txt"), "1\tone")
    assert session.turn() == ["memory:CLAUDE.md"]
    (folder / "sub" / "a.txt").write_text("another\n")
    assert session.turn() == [CHANGED]
