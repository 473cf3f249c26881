"""The Claude Agent SDK's own session functions, on a folder that we wrote (stream-json 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    list_sessions,
    rename_session,
    tag_session,
)

from mainspring.core.messages import Assistant, ToolResult, User
from mainspring.core.view import view
from mainspring.engine.session import EngineSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.listing import list_sessions_in
from mainspring.sessions.paths import file_of, folder_of, project_key
from mainspring.sessions.resume import load_session
from mainspring.testing import says, virtually
from sessions.scenes import SCENES
from sessions.stage import CONFIG, ENVELOPE, ID, CheckedWorld, Remembering, consume, options, stored, take_up
from sessions.test_cuts import first_life


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def written(name: str, project: Path) -> tuple[EngineSession, Path]:
    file = Path(file_of(folder_of(project.parent / "config", project), ID))
    return virtually(first_life(SCENES[name], file, Remembering())), file


def texts(message: Any) -> list[str]:
    content = message.message["content"]
    if isinstance(content, str):
        return [content]
    return [
        block.get("text") or block.get("thinking") or block.get("content") or block.get("name") for block in content
    ]


def said(session: EngineSession) -> list[str]:
    """The conversation in the order of its lines; hidden messages left out."""
    found: list[str] = []
    for message in view(session.state.history, session.state.edits):
        if isinstance(message, Assistant):
            found += [getattr(block, "text", "") or getattr(block, "name", "") for block in message.blocks]
        elif isinstance(message, User | ToolResult):
            found.append(message.text)
    return found


@pytest.mark.covers("L-05")
@pytest.mark.parametrize("name", ["text", "tool", "parallel", "compaction", "inbox", "interrupt"])
def test_the_client_lists_and_reads_a_session(name: str, project: Path) -> None:
    session, _ = written(name, project)
    (info,) = list_sessions(str(project))
    assert info.session_id == ID
    assert info.summary == SCENES[name].prompts[-1]
    assert info.cwd == ENVELOPE.cwd
    assert info.created_at is not None
    messages, seen = get_session_messages(ID, str(project)), view(session.state.history, session.state.edits)
    found = sorted(text for message in messages for text in texts(message))
    if name == "compaction":  # the client begins at the summary, and does not see what was kept beside it
        assert found == ["Fifth.", "What happened before."]
        return
    assert found == sorted(said(session))
    assert {message.id for message in seen} <= {message.uuid for message in messages}
    replies = {m.message["id"] for m in messages if m.type == "assistant"}
    assert replies == {m.id for m in seen if isinstance(m, Assistant)}


def test_titles_and_tags_of_the_client_are_kept(project: Path) -> None:
    _, file = written("tool", project)
    rename_session(ID, "A good name", str(project))
    tag_session(ID, "mine", str(project))
    info = get_session_info(ID, str(project))
    assert info is not None
    assert (info.custom_title, info.tag) == ("A good name", "mine")
    world = CheckedWorld([says("x" * 1_000) for _ in range(1)])
    world.offset = 1 << 20
    _, session, journal = take_up(file, world)
    virtually(consume(session, "go on"))
    journal.close()
    info = get_session_info(ID, str(project))
    assert info is not None
    assert (info.custom_title, info.tag) == ("A good name", "mine")
    assert list_sessions_in(file.parent)[0].title == "A good name"


def test_a_title_survives_a_long_session(project: Path) -> None:
    """The client looks at the last 64 KiB only, so a title has to come along."""
    _, file = written("tool", project)
    for life in range(1, 4):
        world = CheckedWorld([says("x" * 100_000), says("x" * 100_000)])
        world.offset = life << 20
        _, session, journal = take_up(file, world)
        virtually(consume(session, "go on"))
        if life == 1:  # while we have the file open
            rename_session(ID, "A good name", str(project))
            tag_session(ID, "mine", str(project))
        virtually(consume(session, "go on"))
        journal.close()
    info = get_session_info(ID, str(project))
    assert info is not None
    assert (info.custom_title, info.tag) == ("A good name", "mine")


@pytest.mark.covers("L-06")
@pytest.mark.parametrize("name", ["text", "tool", "parallel", "compaction", "inbox", "interrupt"])
def test_a_fork_of_the_client_is_taken_up(name: str, project: Path) -> None:
    session, file = written(name, project)
    forked = fork_session(ID, str(project))
    other = Path(file_of(file.parent, forked.session_id))
    loaded = load_session(other)
    assert loaded.how == "conversation"
    now = [message.text for message in loaded.state.history]
    assert now == [message.text for message in view(session.state.history, session.state.edits)]
    world = CheckedWorld([says("Another way.")])
    world.offset = 1 << 20
    _, branch, journal = take_up(other, world)
    virtually(consume(branch, "go on"))
    journal.close()
    again = load_session(other)
    assert again.how == "checkpoint"
    assert view(again.state.history, again.state.edits) == view(branch.state.history, branch.state.edits)
    assert any("Another way." in texts(message) for message in get_session_messages(forked.session_id, str(project)))


def test_a_fork_of_the_client_at_a_message(project: Path) -> None:
    session, file = written("parallel", project)
    last = session.state.history[4]
    forked = fork_session(ID, str(project), up_to_message_id=last.id)
    loaded = load_session(file_of(file.parent, forked.session_id))
    assert [m.text for m in loaded.state.history] == [m.text for m in list(session.state.history)[:5]]


def test_line_ends_of_other_scripts_do_not_tear_a_fork(project: Path) -> None:
    """The client splits a file where Python's `splitlines` does."""
    file = Path(file_of(folder_of(project.parent / "config", project), ID))

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        await consume(stored(CheckedWorld([says("one\u2028two\u2029three\x85four")]), journal, CONFIG))
        journal.close()

    virtually(main())
    forked = fork_session(ID, str(project))
    loaded = load_session(file_of(file.parent, forked.session_id))
    assert loaded.state.history[1].text == "one\u2028two\u2029three\x85four"


def test_the_client_deletes_all_of_a_session(project: Path) -> None:
    _, file = written("text", project)
    assert file.with_suffix("").is_dir()
    delete_session(ID, str(project))
    assert list(file.parent.iterdir()) == []
    assert file.parent.name == project_key(str(project.resolve()))
