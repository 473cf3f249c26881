"""Sessions named, tagged, deleted and forked: what is written is what `claude-agent-sdk` writes; nothing is lost."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import claude_agent_sdk as theirs
import pytest
from cli.stage import COMMAND, serving
from hypothesis import given
from hypothesis import strategies as st
from pipe.stage import Serve, bash
from sessions.scenes import SCENES
from sessions.stage import ID as SCENE_ID
from sessions.stage import Remembering
from sessions.test_cuts import first_life

from mainspring.core.view import view
from mainspring.sdk import Client, Options, ResultMessage, session_edits
from mainspring.sessions.line_format import LARGEST_INLINE
from mainspring.sessions.paths import file_of
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import Say
from mainspring.testing import Scripted, virtually
from sdk.stored import (  # noqa: F401  # fixtures
    ID,
    NOBODY,
    OTHER,
    TRICKS,
    Home,
    Line,
    encoded,
    home_fixture,
    ours,
    outcome,
    parallel,
    said,
    same,
    same_reads,
    serve_fixture,
    uuid,
)
from sdk.test_sessions import AGENT, FREE, ODD, TALK

CHANGES: list[tuple[str, tuple[Any, ...]]] = [
    ("rename_session", ("A name",)),
    ("tag_session", ("mine",)),
    ("delete_session", ()),
    ("fork_session", ()),
]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# --- names and tags ---------------------------------------------------------------------------------------------------

TITLES = [
    "A name",
    "  spaces  ",
    'with "quotes" and \\',
    "\u00e9\u2028\U0001f600",
    "half \ud800",
    "two\nrows",
    "x" * 300,
]


@pytest.mark.parametrize("words", TITLES)
@pytest.mark.parametrize("function", ["rename_session", "tag_session"])
def test_a_line_is_added_and_nothing_else_touched(function: str, words: str, home: Home) -> None:
    """The bytes are those of the client, behind all that was there."""
    written: list[bytes] = []
    for side in (ours, theirs):
        before = home.write(TALK).read_bytes()
        home.write(TALK, OTHER)
        rest = tree(home.config)
        assert outcome(side, function, ID, words) is None
        after = home.file().read_bytes()
        assert after.startswith(before)
        assert after.count(b"\n") == before.count(b"\n") + 1
        written.append(after)
        assert tree(home.config) == rest | {str(home.file().relative_to(home.config)): after}
    assert written[0] == written[1]
    info = same("get_session_info", ID)
    assert (info["custom_title"] or info["tag"]) is not None


def test_the_last_one_counts(home: Home) -> None:
    home.write(TALK)
    for number in range(3):
        ours.rename_session(ID, f"name {number}")
        ours.tag_session(ID, f"tag {number}")
    info = same("get_session_info", ID)
    assert (info["custom_title"], info["tag"]) == ("name 2", "tag 2")
    ours.tag_session(ID, None)
    assert same("get_session_info", ID)["tag"] is None


@pytest.mark.parametrize("words", ["", "  ", "\n"])
def test_empty_words(words: str, home: Home) -> None:
    before = home.write(TALK).read_bytes()
    assert same("rename_session", ID, words) is same("tag_session", ID, words) is ValueError
    assert same("tag_session", ID, "\u200b\u2066\ue000\ufeff ") is ValueError
    assert home.file().read_bytes() == before


@given(st.text())
def test_what_is_left_of_a_tag(text: str) -> None:
    from claude_agent_sdk._internal.session_mutations import _sanitize_unicode

    assert session_edits.strip_invisible(text) == _sanitize_unicode(text)


def test_behind_a_torn_line(home: Home) -> None:
    """It is closed first: the new line can be read, and what was torn stays as it is (settled 7)."""
    before = home.write([*TALK, encoded(said(4))[:70]]).read_bytes()
    ours.tag_session(ID, "mine")
    ours.rename_session(ID, "A name")
    after = home.file().read_bytes()
    assert after.startswith(before + b'\n{"type":"tag"')
    assert after.count(b"\n") == len(TALK) + 3
    info = same("get_session_info", ID)
    assert (info["tag"], info["custom_title"]) == ("mine", "A name")


def test_while_the_session_is_under_way(home: Home) -> None:
    """Whoever has the file open holds a lock on it: a name is added all the same, and both sides' lines stay whole."""
    with home.write(TALK).open("ab") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        ours.rename_session(ID, "A name")
        live.write(encoded(said(4, text="further")))
    lines = home.file().read_bytes().splitlines()
    assert [json.loads(line)["type"] for line in lines[-2:]] == ["custom-title", "user"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize(("name", "more"), CHANGES)
def test_no_way_out_by_a_name(name: str, more: tuple[Any, ...], trick: str, home: Home) -> None:
    home.write(TALK)
    (home.config / "x.jsonl").write_bytes(encoded(TALK[0]))
    before = tree(home.config)
    with pytest.raises(ValueError, match=r"^Invalid session_id: "):
        getattr(ours, name)(trick, *more)
    assert tree(home.config) == before
    if not trick.endswith("\n"):
        assert outcome(theirs, name, trick, *more) is ValueError


@pytest.mark.parametrize(("name", "more"), CHANGES)
def test_no_such_session(name: str, more: tuple[Any, ...], home: Home) -> None:
    """Not there, empty, no file, in another folder, no folder at all."""
    home.write([], OTHER)
    home.file(NOBODY).symlink_to(home.config / "nothing")
    for id in (ID, OTHER, NOBODY):
        assert same(name, id, *more) is FileNotFoundError
        assert same(name, id, *more, directory=str(home.work)) is FileNotFoundError
    home.write(TALK)
    assert same(name, ID, *more, directory="/proc") is FileNotFoundError
    with pytest.raises(FileNotFoundError, match=f"'{ID}' not found in the folder '/proc'"):
        getattr(ours, name)(ID, *more, directory="/proc")
    shutil.rmtree(home.config)
    assert same(name, ID, *more) is FileNotFoundError


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_session_and_what_is_beside_it(home: Home) -> None:
    """Its file and its folder. Not those of others, not a folder whose name only begins like it."""
    left: list[dict[str, bytes]] = []
    for side in (ours, theirs):
        for id in (ID, OTHER):
            home.write(TALK, id)
            home.agent("agent-a1", AGENT, id)
        (home.folder / f"{ID}x").mkdir(exist_ok=True)
        (home.folder / f"{ID}x" / "kept").write_text("x")
        (home.folder / ID / "payloads").mkdir()
        (home.folder / ID / "payloads" / "p").write_text("x")
        assert outcome(side, "delete_session", ID, str(home.work)) is None
        assert not (home.folder / ID).exists()
        left.append(tree(home.config))
    assert left[0] == left[1]
    assert [one["session_id"] for one in same("list_sessions")] == [OTHER]


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    for name in ("precious", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "talk").write_bytes(home.write(TALK).read_bytes())
    home.file().unlink()
    home.file().symlink_to(tmp_path / "talk")
    (home.folder / ID).symlink_to(tmp_path / "precious")
    ours.delete_session(ID)
    home.write(TALK)
    home.agent("agent-a1", AGENT)
    (home.folder / ID / "subagents" / "link").symlink_to(tmp_path / "more")
    ours.delete_session(ID)
    assert list(home.folder.iterdir()) == []
    assert {name for name in tree(tmp_path) if "config" not in name} == {"precious/file", "more/file", "talk"}


# --- forks ------------------------------------------------------------------------------------------------------------


def forked(side: Any, home: Home, **how: Any) -> tuple[list[Line], dict[str, str]]:
    """The lines of a fork; and whom each of its messages is a copy of."""
    result = getattr(side, "fork_session")(ID, **how)  # noqa: B009  # of either side
    file = home.file(result.session_id)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in home.folder.iterdir() if each.name.startswith(".")] == []
    lines = [json.loads(line) for line in file.read_bytes().decode().split("\n") if line]
    assert {line["sessionId"] for line in lines} == {result.session_id}
    return lines, {line["uuid"]: line["forkedFrom"]["messageUuid"] for line in lines if "forkedFrom" in line}


def told_apart(lines: list[Line], copies: dict[str, str]) -> list[Line]:
    """With the old ids in place of new ones, and without the time of the fork."""
    made = []
    for line in lines:
        told = {name: value for name, value in line.items() if name not in ("sessionId", "timestamp")}
        told["uuid"] = copies.get(line["uuid"], "new")
        for link in ("parentUuid", "logicalParentUuid"):
            if link in line:
                told[link] = copies.get(line[link], line[link])
        made.append(told)
    return made


@pytest.mark.covers("L-06")
@pytest.mark.parametrize("name", [name for name in ODD if name != "a line larger than a window"])
def test_forks_are_those_of_the_client(name: str, home: Home) -> None:
    replaced = {"type": "content-replacement", "sessionId": ID, "replacements": [1]}
    foreign = replaced | {"sessionId": OTHER}
    before = home.write([*ODD[name], b"\n", replaced, foreign]).read_bytes()
    got, wanted = outcome(ours, "fork_session", ID), outcome(theirs, "fork_session", ID)
    assert home.file().read_bytes() == before
    if isinstance(wanted, type):
        assert got is wanted is ValueError
        return
    mine, theirs_ = forked(ours, home), forked(theirs, home)
    assert told_apart(*mine) == told_apart(*theirs_)
    same_reads(got["session_id"])
    assert ours.get_session_info(got["session_id"]).custom_title.endswith(" (fork)")


@pytest.mark.parametrize("place", range(7))
def test_a_fork_up_to_a_message(place: int, home: Home) -> None:
    home.write(parallel())
    mine, other = [forked(side, home, up_to_message_id=uuid(place), title="  Mine ") for side in (ours, theirs)]
    assert told_apart(*mine) == told_apart(*other)
    assert list(mine[1].values()) == [uuid(number) for number in range(place + 1)]
    assert mine[0][-1]["customTitle"] == "Mine"
    times, before = [[line["timestamp"] for line in lines] for lines in (mine[0], parallel())]
    assert times[:place] == before[:place]
    assert times[place] == times[-1] > "2026-01-02"  # so it is the newest, as the client has it


def test_forks_that_are_refused(home: Home) -> None:
    home.write(TALK)
    for at in ("../x", "x", NOBODY):
        assert same("fork_session", ID, up_to_message_id=at) is ValueError
    home.write(AGENT)
    assert same("fork_session", ID) is ValueError
    assert same("fork_session", ID, up_to_message_id=uuid(0)) is ValueError
    assert sorted(tree(home.folder)) == [f"{ID}.jsonl"]


def test_a_disk_that_takes_no_more(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork is there as a whole or not at all."""
    home.write(TALK)

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            ours.fork_session(ID)
    assert sorted(tree(home.config)) == [str(home.file().relative_to(home.config))]


@pytest.mark.parametrize("name", ["text", "tool", "parallel", "compaction", "inbox", "interrupt"])
def test_a_fork_of_a_fork_is_taken_up(name: str, home: Home) -> None:
    """What the model saw, it still sees: also what was kept beside a summary."""
    file = Path(file_of(home.folder, SCENE_ID))
    session = virtually(first_life(SCENES[name], file, Remembering()))
    seen = [message.text for message in view(session.state.history, session.state.edits)]
    id = SCENE_ID
    for _ in range(3):
        id = ours.fork_session(id).session_id
        state = load_session(home.file(id)).state
        assert [message.text for message in view(state.history, state.edits)] == seen


@pytest.mark.parametrize("after", [0, 2, 4])
def test_a_summary_in_a_fork_of_a_fork(after: int, home: Home) -> None:
    """What was kept beside it begins behind a user's message, or a reply of two lines, whichever is noted there."""
    boundary = said(7, "system", parent=None, subtype="compact_boundary", logicalParentUuid=uuid(6))
    home.write(
        [
            *TALK[:2],
            said(2, "assistant", content=[{"type": "text", "text": "a"}], reply=uuid(2)),
            said(3, "assistant", content=[{"type": "text", "text": "b"}], reply=uuid(2)),
            *[said(n, text=f"kept {n}") for n in (4, 5, 6)],
            boundary | {"compactMetadata": {"keptAfter": uuid(after)}},
            said(8, text="What happened.", isCompactSummary=True),
            said(9, "assistant", "Further."),
        ]
    )
    id, texts = ID, list[list[str]]()
    for _ in range(4):
        texts.append([message.text for message in load_session(home.file(id)).state.history])
        id = ours.fork_session(id).session_id
    assert texts[1:] == texts[:1] * 3
    assert ("kept 6" in texts[0], "kept 4" in texts[0], "ab" in texts[0]) == (True, after < 4, after < 2)


@pytest.mark.covers("L-06")
def test_the_program_goes_on_with_a_fork(serve: Serve) -> None:
    """Large content, too: the line has only its beginning, and the model gets all of it. The source stays."""
    large = "0123456789abcdef" * (LARGEST_INLINE // 16 + 1_000)
    stage = serve(Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")), Say.of("Done."), Say.of("More."))
    id = stage.ask(large, **FREE).result.session_id
    assert len(list(stage.home.glob(f"projects/*/{id}/payloads/*"))) == 1
    before = tree(stage.home)
    fork = ours.fork_session(id, str(stage.folder), title="Another way").session_id
    told = stage.ask("two", resume=fork, **FREE)
    assert (told.result.session_id, told.result.result) == (fork, "More.")
    assert all(word in stage.said(-1) for word in (large, "Look.", "toolu_b", "Done.", "two"))
    assert {name: data for name, data in tree(stage.home).items() if name in before and "projects" in name} == {
        name: data for name, data in before.items() if "projects" in name
    }
    assert ours.get_session_info(fork).custom_title == "Another way"
    ours.delete_session(id)
    assert ours.get_session_messages(fork)[0].message["content"] == large


def test_the_command_goes_on_with_a_fork_up_to_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mainspring -p --resume`."""
    assert COMMAND[1:] == ["-m", "mainspring"]
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    with serving([Say.of("One."), Say.of("Two."), Say.of("Three.")], tmp_path / "work") as stage:
        monkeypatch.setenv("MAINSPRING_HOME", str(stage.home))
        stage.run("-p", "first")
        [file] = stage.sessions()
        stage.run("-p", "--resume", file.stem, "second")
        [until] = [one.uuid for one in ours.get_session_messages(file.stem) if "One." in json.dumps(one.message)]
        fork = ours.fork_session(file.stem, up_to_message_id=until).session_id
        done = stage.run("-p", "--resume", fork, "third")
        assert (done.returncode, done.stdout.strip()) == (0, b"Three.")
        asked = json.dumps(stage.requests[-1].body["messages"])
    assert "first" in asked
    assert "One." in asked
    assert "second" not in asked
    assert "third" in asked


def test_a_session_in_use_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    options = Options(provider=Scripted(["Hi."]), setting_sources=[], cwd=tmp_path)

    async def main() -> str:
        async with Client(options) as client:
            await client.query("go")
            [*_, last] = [message async for message in client.receive_response()]
            assert isinstance(last, ResultMessage)
            with pytest.raises(RuntimeError, match=f"session '{last.session_id}' is in use: close it first"):
                ours.delete_session(last.session_id, str(tmp_path))
            assert ours.get_session_messages(last.session_id, str(tmp_path))
        return last.session_id

    session_id = asyncio.run(main())
    ours.delete_session(session_id, str(tmp_path))
    assert not list(tmp_path.rglob(f"*{session_id}*"))
