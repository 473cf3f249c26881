"""Session stores: ours serves the client and the client's serves us; the same lines give the same results.

Where that is not so, `test_sessions_differences.py` says why.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import claude_agent_sdk as theirs
import pytest
from claude_agent_sdk import AgentDefinition
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given
from hypothesis import strategies as st
from pipe.stage import Serve, bash
from pipe.test_agents import playing, spawn

from mainspring.sdk.store_sessions import MOST_LOADS
from mainspring.sdk.stores import (
    MOST_LINES,
    InMemorySessionStore,
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    store_supports,
)
from mainspring.sessions.reader import LONGEST_LINE
from mainspring.simulator.replies import Say
from sdk.stored import (  # noqa: F401  # fixtures
    ID,
    NOBODY,
    OTHER,
    TRICKS,
    Home,
    Line,
    finished,
    home_fixture,
    ours,
    outcome,
    parallel,
    said,
    same,
    serve_fixture,
    uuid,
)
from sdk.test_sessions import AGENT, FREE, ODD, TALK, transcripts, turns
from sdk.test_sessions_changes import told_apart

HERE = "/somewhere"
KINDS = [ours.InMemorySessionStore, theirs.InMemorySessionStore]


def key(session_id: str = ID, **more: str) -> Any:
    return {"project_key": theirs.project_key_for_directory(HERE), "session_id": session_id, **more}


def held(lines: list[Line], kind: Callable[[], Any] = ours.InMemorySessionStore, session_id: str = ID) -> Any:
    store = kind()
    if lines:
        finished(store.append(key(session_id), lines))
    return store


def without_time(infos: Any) -> Any:
    """A session whose last line has no time was changed now."""
    return {**infos, "last_modified": 0} if isinstance(infos, dict) else infos


# --- the store itself -------------------------------------------------------------------------------------------------


def test_ours_keeps_the_contract() -> None:
    """The 14 promises of the client's own suite."""
    asyncio.run(run_session_store_conformance(ours.InMemorySessionStore))


class Least(SessionStore):
    """Only what a store must do; what it inherits, it cannot."""

    def __init__(self) -> None:
        self.inner = InMemorySessionStore()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        await self.inner.append(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self.inner.load(key)


class Other(theirs.SessionStore):
    """Written for the client."""

    def __init__(self) -> None:
        self.inner = theirs.InMemorySessionStore()

    async def append(self, key: Any, entries: Any) -> None:
        await self.inner.append(key, entries)

    async def load(self, key: Any) -> Any:
        return await self.inner.load(key)

    async def list_sessions(self, project_key: str) -> Any:
        return await self.inner.list_sessions(project_key)


class Duck:
    """Inherits from nobody."""

    def __init__(self) -> None:
        self.inner = InMemorySessionStore()
        self.append, self.load = self.inner.append, self.inner.load
        self.list_sessions = self.inner.list_sessions


def test_a_store_that_does_little() -> None:
    optional = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")
    least: Any
    some = {"list_sessions"}
    other: Any = Other
    for least, can in (
        (Least(), set[str]()),
        (Duck(), some),
        (other(), some),
        (InMemorySessionStore(), set(optional)),
        (theirs.InMemorySessionStore(), set(optional)),
    ):
        assert {name for name in optional if store_supports(least, name)} == can
    asyncio.run(run_session_store_conformance(Least, skip_optional=frozenset(optional)))
    store = Least()
    finished(store.append(key(), [dict(line) for line in TALK]))  # type: ignore[misc]
    assert outcome(ours, "list_sessions_from_store", store, HERE) is ValueError
    assert outcome(ours, "list_subagents_from_store", store, ID, HERE) is ValueError
    assert outcome(ours, "list_subagents_from_store", store, "../x", HERE) == []
    assert outcome(ours, "delete_session_via_store", store, ID, HERE) is None
    assert len(outcome(ours, "get_session_messages_from_store", store, ID, HERE)) == 4
    finished(store.append(key(subpath="subagents/agent-a"), [dict(line) for line in AGENT]))  # type: ignore[misc]
    assert len(outcome(ours, "get_subagent_messages_from_store", store, ID, "a", HERE)) == 2


def test_help_for_tests() -> None:
    for kind in KINDS:
        store = held(TALK, kind)
        finished(store.append(key(subpath="subagents/agent-a"), AGENT))
        assert store.size == 1
        assert store.get_entries(key()) == TALK
        assert store.get_entries(key(NOBODY)) == []
        store.get_entries(key()).clear()
        assert store.get_entries(key()) == TALK
        store.clear()
        assert store.size == 0
        assert finished(store.list_sessions(key()["project_key"])) == []


# --- reading ----------------------------------------------------------------------------------------------------------


def objects(lines: list[Any]) -> list[Line]:
    return [json.loads(json.dumps(line)) for line in lines if isinstance(line, dict)]


@pytest.mark.parametrize("name", ODD)
def test_odd_sessions(name: str) -> None:
    for kind in KINDS:
        store = held(objects(ODD[name]), kind)
        finished(store.append(key(subpath="subagents/agent-a"), objects(ODD[name]) or [{"type": "x"}]))
        finished(store.append(key(subpath="subagents/agent-a"), [{"type": "agent_metadata", "toolUseId": "t"}]))
        info, other = [outcome(side, "get_session_info_from_store", store, ID, HERE) for side in (ours, theirs)]
        assert without_time(info) == without_time(other)
        for more in ({}, {"limit": 2, "offset": 1}):
            same("get_session_messages_from_store", store, ID, HERE, **more)
            same("get_subagent_messages_from_store", store, ID, "a", HERE, **more)
            same("list_sessions_from_store", store, HERE, **more)
        assert same("list_subagents_from_store", store, ID, HERE) == ["a"]


def test_any_transcript() -> None:
    @given(st.one_of(transcripts(), turns()))
    def check(lines: list[Line]) -> None:
        store = held(lines)
        same("get_session_messages_from_store", store, ID, HERE)
        same("list_sessions_from_store", store, HERE)

    check()


def test_disk_and_store_agree(home: Home) -> None:
    """What was read from a file is read from the store that the file was brought into."""
    home.write(parallel())
    home.agent("agent-a1", AGENT)
    store = ours.InMemorySessionStore()
    finished(ours.import_session_to_store(ID, store))
    where = str(home.work)
    assert finished(ours.get_session_messages_from_store(store, ID, where)) == ours.get_session_messages(ID)
    assert finished(ours.list_subagents_from_store(store, ID, where)) == ours.list_subagents(ID)
    below = finished(ours.get_subagent_messages_from_store(store, ID, "a1", where))
    assert below == ours.get_subagent_messages(ID, "a1")
    info, other = finished(ours.get_session_info_from_store(store, ID, where)), ours.get_session_info(ID)
    assert (info.summary, info.cwd, info.file_size) == (other.summary, other.cwd, other.file_size)


def test_agents_in_folders_of_their_own() -> None:
    """Of two with one id the first is shown; what is no agent's is none."""
    store = held(TALK)
    for place in ("subagents/agent-b", "subagents/run/agent-a", "subagents/agent-a", "other/agent-c", "subagents/x"):
        finished(store.append(key(subpath=place), [said(0, text=f"in {place}", isSidechain=True)]))
    assert same("list_subagents_from_store", store, ID, HERE) == ["b", "a"]
    [message] = same("get_subagent_messages_from_store", store, ID, "a", HERE)
    assert message["message"]["content"] == "in subagents/run/agent-a"
    for nobody in ("c", "x", "../agent-a"):
        assert same("get_subagent_messages_from_store", store, ID, nobody, HERE) == []


def test_when_a_session_was_changed() -> None:
    """By its last line; else now."""
    assert same("get_session_info_from_store", held(TALK), ID, HERE)["last_modified"] == 1_767_225_603_003
    untimed = held([*TALK, {"type": "tag", "tag": "x"}])
    before = int(time.time() * 1000)
    info = outcome(ours, "get_session_info_from_store", untimed, ID, HERE)
    assert before <= info["last_modified"] <= int(time.time() * 1000)


@pytest.mark.parametrize("trick", TRICKS)
def test_no_way_out_by_a_name(trick: str) -> None:
    store = held(TALK)
    if not trick.endswith("\n"):
        for name in ("get_session_info", "get_session_messages", "list_subagents"):
            assert same(f"{name}_from_store", store, trick, HERE) in (None, [])
        assert same("get_subagent_messages_from_store", store, trick, "a", HERE) == []
        assert same("get_subagent_messages_from_store", store, ID, trick, HERE) == []
    before = store.get_entries(key())
    for name, more in (("rename", ("x",)), ("tag", ("x",)), ("delete", ()), ("fork", ())):
        assert outcome(ours, f"{name}_session_via_store", store, trick, *more, HERE) is ValueError
    assert (store.get_entries(key()), store.size) == (before, 1)


# --- lists ------------------------------------------------------------------------------------------------------------


class Counting(InMemorySessionStore):
    """How much is loaded, and how much at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = self.now = self.most = 0
        self.stale: set[str] = set()
        self.broken: set[str] = set()

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        self.loads += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if key["session_id"] in self.broken:
            raise RuntimeError("gone")
        return await super().load(key)

    async def list_session_summaries(self, project_key: str) -> Any:
        kept = await super().list_session_summaries(project_key)
        return [{**one, "mtime": 1} if one["session_id"] in self.stale else one for one in kept]


class Slow(Counting):
    """Keeps no summaries."""

    list_session_summaries = SessionStore.list_session_summaries


def name_of(number: int) -> str:
    return f"{number:08}-2222-4333-8444-555555555555"


def filled(store: Any, count: int) -> Any:
    for number in range(count):
        lines = AGENT if number % 10 == 3 else [said(0, text=f"session {number}")]
        finished(store.append(key(name_of(number)), lines))
    return store


def test_a_list_from_summaries_loads_nothing() -> None:
    store = filled(Counting(), 100)
    listed = same("list_sessions_from_store", store, HERE)
    assert (len(listed), listed[0]["summary"], store.loads) == (90, "session 99", 0)
    for limit in (None, -1, 0, 7):
        for offset in (-3, 0, 5, 200):
            same("list_sessions_from_store", store, HERE, limit, offset)
    assert store.loads == 0


def test_what_is_out_of_date_is_loaded_a_page_at_a_time() -> None:
    store = filled(Counting(), 100)
    store.stale = {name_of(number) for number in range(50, 100)}
    ours_page = outcome(ours, "list_sessions_from_store", store, HERE, limit=10)
    assert (store.loads, len(ours_page)) == (10, 9)  # an agent's was among them, which nobody knew before
    assert ours_page == outcome(theirs, "list_sessions_from_store", store, HERE, limit=10)
    assert len(same("list_sessions_from_store", store, HERE)) == 90


def test_without_summaries_all_are_loaded_but_few_at_a_time() -> None:
    store = filled(Slow(), 100)
    store.broken = {name_of(98)}
    listed = outcome(ours, "list_sessions_from_store", store, HERE, limit=3)
    assert (store.loads, store.most) == (100, MOST_LOADS)
    assert [one["summary"] for one in listed] == ["session 99", "", "session 97"]
    assert listed == outcome(theirs, "list_sessions_from_store", store, HERE, limit=3)


LINES = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["user", "tag", "custom-title", "x"])},
        optional={
            "customTitle": st.one_of(st.text(max_size=5), st.none()),
            "aiTitle": st.text(max_size=5),
            "lastPrompt": st.text(max_size=5),
            "summary": st.text(max_size=5),
            "gitBranch": st.text(max_size=5),
            "cwd": st.one_of(st.text(max_size=5), st.integers()),
            "tag": st.one_of(st.text(max_size=5), st.none()),
            "isSidechain": st.booleans(),
            "isMeta": st.booleans(),
            "isCompactSummary": st.booleans(),
            "timestamp": st.sampled_from(["2026-01-01T00:00:00Z", "2025-01-01T10:00:00.5+02:00", "odd", 5]),
            "message": st.fixed_dictionaries(
                {
                    "content": st.one_of(
                        st.sampled_from(["", "words", "<command-name>/x</command-name>", "<tick>", "y" * 300]),
                        st.lists(st.sampled_from([{"type": "text", "text": "a\nb"}, {"type": "tool_result"}, 1])),
                    )
                }
            ),
        },
    ),
    max_size=8,
)


@given(st.lists(LINES, max_size=3))
def test_summaries_are_those_of_the_client(batches: list[list[Line]]) -> None:
    """Also line by line, and with the other's summary to go on from."""
    mine, other, mixed, single = None, None, None, None
    for number, lines in enumerate(batches):
        mine = ours.fold_session_summary(mine, key(), lines)
        other = theirs.fold_session_summary(other, key(), lines)  # type: ignore[arg-type]
        mixed = (ours, theirs)[number % 2].fold_session_summary(mixed, key(), lines)
        for line in lines:
            single = ours.fold_session_summary(single, key(), [line])
        assert mine == other == mixed
        assert single is None or single == mine


# --- changes ----------------------------------------------------------------------------------------------------------


def changed(side: Any, lines: list[Line], name: str, *arguments: Any) -> Any:
    store = held(lines)
    result = outcome(side, f"{name}_session_via_store", store, ID, *arguments, HERE)
    return result, [{**line, "uuid": "", "timestamp": ""} for line in store.get_entries(key())[len(lines) :]]


@pytest.mark.parametrize("words", ["A name", "  x ", "", "\u200b", "half \ud800"])
def test_names_and_tags(words: str) -> None:
    for name in ("rename", "tag"):
        assert changed(ours, TALK, name, words) == changed(theirs, TALK, name, words)
    assert changed(ours, TALK, "tag", None) == changed(theirs, TALK, "tag", None)


def test_delete() -> None:
    for kind in KINDS:
        store = held(TALK, kind)
        finished(store.append(key(subpath="subagents/agent-a"), AGENT))
        finished(store.append(key(OTHER), TALK))
        assert finished(ours.delete_session_via_store(store, ID, HERE)) is None
        assert finished(store.load(key())) is finished(store.load(key(subpath="subagents/agent-a"))) is None
        assert store.get_entries(key(OTHER)) == TALK


@pytest.mark.parametrize("name", [name for name in ODD if name != "an empty title"])
def test_forks_are_those_of_the_client(name: str) -> None:
    lines, made = objects(ODD[name]), list[Any]()
    for side in (ours, theirs):
        store = held(lines)
        result = outcome(side, "fork_session_via_store", store, ID, HERE)
        if isinstance(result, type):
            made.append(result)
            continue
        fork = [dict(line) for line in store.get_entries(key(result["session_id"]))]
        made.append(told_apart(fork, {line["uuid"]: line["forkedFrom"]["messageUuid"] for line in fork[:-1]}))
        assert store.get_entries(key()) == lines
        fork[0]["message"] = "changed"
        assert store.get_entries(key()) == lines
    assert made[0] == made[1]


def test_forks_that_are_refused() -> None:
    store = held(TALK)
    assert same("fork_session_via_store", store, NOBODY, HERE) is FileNotFoundError
    assert same("fork_session_via_store", store, ID, HERE, "../x") is ValueError
    assert same("fork_session_via_store", store, ID, HERE, NOBODY) is ValueError
    assert same("fork_session_via_store", held(AGENT), ID, HERE) is ValueError
    fork = finished(ours.fork_session_via_store(store, ID, HERE, uuid(1), "Mine")).session_id
    assert len(finished(ours.get_session_messages_from_store(store, fork, HERE))) == 2
    assert finished(ours.get_session_info_from_store(store, fork, HERE)).summary == "Mine"


# --- into a store -----------------------------------------------------------------------------------------------------


class Batches(InMemorySessionStore):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[str, int]] = []

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        self.sizes.append((key.get("subpath", ""), len(entries)))
        await super().append(key, entries)


@pytest.mark.parametrize("how", [{}, {"batch_size": 3}, {"batch_size": -1}, {"include_subagents": False}])
def test_imports_are_those_of_the_client(how: dict[str, Any], home: Home) -> None:
    home.write([*TALK, *[said(n, text="x" * 3_000) for n in range(4, 1_000)], {"type": "tag", "tag": "a"}, ""])
    home.agent("agent-a", AGENT)
    home.agent("workflows/run/agent-b", AGENT)
    home.agent("other", AGENT)
    (home.folder / ID / "subagents" / "agent-a.meta.json").write_text('{"type":"x","toolUseId":"t"}')
    (home.folder / ID / "subagents" / "other.meta.json").write_text("[1]")
    got, wanted = Batches(), Batches()
    for side, store in ((ours, got), (theirs, wanted)):
        assert outcome(side, "import_session_to_store", ID, store, directory=str(home.work), **how) is None
    assert got.sizes == wanted.sizes
    assert max(size for _, size in got.sizes) <= how.get("batch_size", MOST_LINES) or how.get("batch_size") == -1
    assert got._lines == wanted._lines
    assert len(finished(got.list_subkeys({"project_key": home.folder.name, "session_id": ID}))) == (
        0 if "include_subagents" in how else 3
    )


@pytest.mark.parametrize(("size", "whole"), [(1 << 20, True), (LONGEST_LINE // 2 + 1, False)])
def test_content_beside_the_file(size: int, whole: bool, home: Home) -> None:
    """It comes along, unless the line would be so long that no reader of ours takes it: then its beginning does."""
    content = b'"' + b"x" * (size - 2) + b'"'
    name = sha256(content).hexdigest()
    home.write([said(0, text="xxx", mainspring={"origin": "hook", "payload": name}), TALK[1]])
    (home.folder / ID / "payloads").mkdir(parents=True)
    (home.folder / ID / "payloads" / name).write_bytes(content)
    store = ours.InMemorySessionStore()
    finished(ours.import_session_to_store(ID, store))
    [first, second] = finished(store.load({"project_key": home.folder.name, "session_id": ID}))
    assert len(first["message"]["content"]) == (size - 2 if whole else 3)
    assert first["mainspring"] == {"origin": "hook"} | ({} if whole else {"payload": name})
    assert second == TALK[1]
    assert len(ours.get_session_messages(ID)[0].message["content"]) == size - 2


def test_imports_that_are_refused(home: Home) -> None:
    store = ours.InMemorySessionStore()
    assert same("import_session_to_store", ID, store) is FileNotFoundError
    assert same("import_session_to_store", "../x", store) is ValueError
    home.write([])
    assert same("import_session_to_store", ID, store, directory=str(home.work)) is FileNotFoundError
    assert store.size == 0


@pytest.mark.covers("L-05")
def test_the_program_goes_on_from_a_store(serve: Serve) -> None:
    """A session of the program, brought into our store and deleted; the real client takes it up from there."""
    below = (Say.of("Hello from below."),)
    stage = serve(
        choose=playing(
            Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")),
            Say.of(spawn()),
            Say.of("All done."),
            Say.of("More."),
            below=below,
        )
    )
    agents = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.")}
    id = stage.ask("the first words", agents=agents, **FREE).result.session_id
    folder = os.path.realpath(stage.folder)
    messages, agent = ours.get_session_messages(id, folder), ours.list_subagents(id, folder)[0]
    store = ours.InMemorySessionStore()
    finished(ours.import_session_to_store(id, store, directory=folder))
    ours.delete_session(id, folder)
    assert ours.list_sessions(folder) == []
    assert finished(ours.get_session_messages_from_store(store, id, folder)) == messages
    [first, *_] = finished(ours.get_subagent_messages_from_store(store, id, agent, folder))
    assert first.parent_tool_use_id == "toolu_spawn"
    told = stage.ask("more", session_store=store, resume=id, **FREE)
    assert (told.error, told.result.result, told.result.session_id) == (None, "More.", id)
    assert all(word in stage.said(-1) for word in ("the first words", "toolu_b", "All done.", "more"))
    assert "more" in json.dumps(finished(store.load({"project_key": key_of(folder), "session_id": id})))


def key_of(folder: str) -> str:
    name: str = same("project_key_for_directory", folder)
    return name
