"""What the SDK's session functions read: each call gives what `claude-agent-sdk` gives on the same files.

Where that is not so, `test_sessions_differences.py` says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import claude_agent_sdk as theirs
import pytest
from claude_agent_sdk import AgentDefinition
from hypothesis import given
from hypothesis import strategies as st
from pipe.stage import Serve, bash
from pipe.test_agents import playing, spawn

from mainspring.sdk import sessions
from mainspring.simulator.replies import Say
from sdk.stored import (  # noqa: F401  # fixtures
    ID,
    NOBODY,
    OTHER,
    TRICKS,
    Home,
    Line,
    answer,
    call,
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

FREE = {"permission_mode": "bypassPermissions"}


# --- what the program has written -----------------------------------------------------------------------------------


@pytest.mark.covers("L-05")
def test_sessions_of_the_program(serve: Serve) -> None:
    """Calls beside each other, an agent, a title and a tag, three sessions; in the folder, and wherever they are."""
    below = (Say.of(bash("echo sub", "sub")), Say.of("Hello from below."))
    stage = serve(
        choose=playing(
            Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")),
            Say.of(spawn()),
            Say.of("All done."),
            Say.of("Two."),
            Say.of("Three."),
            below=below,
        )
    )
    agents = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.")}
    id = stage.ask("the first words", agents=agents, **FREE).result.session_id
    for prompt in ("two", "three"):
        stage.ask(prompt)
    folder = os.path.realpath(stage.folder)
    for directory in (folder, None):
        read = same_reads(id, directory)
        assert [one["summary"] for one in read["list"]] == ["three", "two", "the first words"]
        assert [one["first_prompt"] for one in read["page"]] == ["two"]
        shown = json.dumps(read["messages"])
        assert all(word in shown for word in ("the first words", "Look.", "toolu_a", "toolu_b", "All done."))
        assert shown.count('"tool_result"') == 3
        assert len(read["agents"]) == 1
        assert "Hello from below." in json.dumps(read["below"][0])
        assert {one["parent_tool_use_id"] for one in read["below"][0]} == {"toolu_spawn"}
    ours.rename_session(id, "My work", folder)
    ours.tag_session(id, "mine", folder)
    info = same("get_session_info", id, folder)
    assert (info["summary"], info["custom_title"], info["tag"]) == ("My work", "My work", "mine")


# --- odd files --------------------------------------------------------------------------------------------------------

AGENT = [said(0, text="below", isSidechain=True), said(1, "assistant", "Found.", isSidechain=True)]
TALK = [said(0, text="hello"), said(1, "assistant", "Hi."), said(2, text="more"), said(3, "assistant", "Yes.")]
TITLE = {"type": "custom-title", "customTitle": 'A "good" name \u00e9 \U0001f600', "sessionId": ID}
LONG = said(0, text="word " * 100)

ODD: dict[str, list[Line | bytes | str]] = {
    "a talk": [*TALK],
    "parallel calls": [*parallel()],
    "empty": [],
    "blank lines": ["", "  ", *TALK, ""],
    "a torn last line": [*TALK, encoded(said(4, text="lost"))[:60]],
    "a torn line in the middle": [TALK[0], encoded(said(9))[:40] + b"\n", *TALK[1:]],
    "nothing but a torn line": [encoded(TALK[0])[:60]],
    "zeros": [*TALK, b"\0" * 100],
    "foreign lines": ["42", '"text"', "null", "[1,2]", "{}", "no json", '{"type":"user","uuid":1}', *TALK],
    "lines of no kind that we know": [{"type": "queue-operation", "operation": "x"}, *TALK, {"type": "mode"}],
    "our own lines": [*TALK, '{"type":"mainspring","v":1,"n":1,"event":{"type":"X"},"summary":"no"}'],
    "an agent's": [*AGENT],
    "an agent's lines in between": [*TALK, said(4, text="aside", parent=3, isSidechain=True)],
    "a team's lines": [*TALK, said(4, text="aside", parent=3, teamName="t")],
    "only hidden": [said(0, text="hidden", isMeta=True), said(1, "assistant", "Hi.")],
    "hidden at the end": [*TALK, said(4, text="hidden", isMeta=True)],
    "no prompt": [said(1, "assistant", "Hi.", parent=None)],
    "only a title": [TITLE],
    "a title": [*TALK, TITLE],
    "an empty title": [TITLE, *TALK, {"type": "custom-title", "customTitle": ""}],
    "a model's title": [*TALK, {"type": "ai-title", "aiTitle": "By a model"}],
    "both titles": [*TALK, TITLE, {"type": "ai-title", "aiTitle": "By a model"}],
    "a last prompt": [*TALK, {"type": "last-prompt", "lastPrompt": "more\nthan that"}],
    "a summary": [{"type": "summary", "summary": "What was"}, *TALK],
    "a tag": [*TALK, {"type": "tag", "tag": "mine", "sessionId": ID}],
    "a tag taken away": [*TALK, {"type": "tag", "tag": "mine"}, {"type": "tag", "tag": ""}],
    "a tag in a call": [*TALK[:1], said(1, "assistant", content=[{**call("a"), "input": {"tag": "v1"}}])],
    "spaces": [json.dumps(line) for line in [*TALK, TITLE]],
    "line ends of another system": [encoded(line)[:-1] + b"\r\n" for line in TALK],
    "no line end": [*TALK[:3], encoded(TALK[3])[:-1]],
    "half a character": [said(0, text="half \ud800 one"), said(1, "assistant", "Hi.")],
    "large numbers": [said(0, n=10**30), said(1, "assistant", "Hi.", cost=1e308)],
    "a number that is none": ['{"type":"user","uuid":"u","message":{"content":"x"},"n":NaN}'],
    "no times": [{name: value for name, value in line.items() if name != "timestamp"} for line in TALK],
    "odd times": [said(0, timestamp="yesterday"), said(1, "assistant", timestamp=12)],
    "a time without a zone": [said(0, timestamp="2026-01-01T10:00:00.500")],
    "a long prompt": [LONG, said(1, "assistant", "Hi.")],
    "a prompt in parts": [said(0, content=[{"type": "image"}, {"type": "text", "text": "  two\nrows "}, "odd", 1])],
    "a command": [said(0, text="<command-name>/clear</command-name> <x>"), said(1, "assistant", "Hi.")],
    "a command, then words": [said(0, text="<command-name>/clear</command-name>"), said(1, text="words")],
    "what a program says": [said(0, text="[Request interrupted by user for tool use]"), said(1, text="then")],
    "a hook's words": [said(0, text="<session-start-hook>x"), said(1, text="<tick>"), said(2, text="<goal>")],
    "an editor's words": [said(0, text="<ide_opened_file>a</ide_opened_file>"), said(1, text="<ide_selection>b")],
    "an editor's and a person's": [said(0, text="<ide_selection>a</ide_selection> what is this")],
    "a result first": [said(0, content=[answer("a")]), said(1, text="words")],
    "a compaction": [
        *TALK,
        {**said(4, "system", parent=None, subtype="compact_boundary"), "logicalParentUuid": uuid(3)},
        said(5, text="What happened.", isCompactSummary=True),
        said(6, "assistant", "Further."),
    ],
    "two branches": [*TALK, said(4, text="another way", parent=1), said(5, "assistant", "Another.")],
    "two branches, the older one longer": [*TALK, said(4, text="x", parent=3), said(9, text="new", parent=0)],
    "links in a circle": [said(0, parent=1), said(1, "assistant", parent=0)],
    "a circle below a leaf": [said(0, parent=1), said(1, "assistant", parent=0), said(2, parent=1)],
    "a link to itself": [said(0, parent=0), said(1, "assistant")],
    "a link to nothing": [said(0), said(5, "assistant", "Lost before.", parent=77), said(6)],
    "progress at the end": [*TALK, said(4, "progress"), said(5, "progress"), said(6, "system", parent=5)],
    "progress alone": [said(0, "progress", parent=None)],
    "the same line twice": [*TALK, *TALK],
    "a message that is none": [said(0, message="words"), said(1, "assistant", message=None), said(2, message=[1])],
    "content that is none": [said(0, content=None), said(1, "assistant", content=5), said(2, content={"a": 1})],
    "no session id": [{name: value for name, value in line.items() if name != "sessionId"} for line in TALK],
    "larger than both windows": [TITLE, *TALK, *[said(n, text="x" * 5_000) for n in range(4, 60)]],
    "a branch at the beginning only": [*TALK, *[said(n, text="x" * 5_000, gitBranch=None) for n in range(4, 60)]],
    "a line larger than a window": [said(0, text="y" * 200_000), said(1, "assistant", "Hi.")],
    "a strays' result": [
        *parallel()[:5],
        said(5, "assistant", "Next.", parent=4),
        said(6, content=[answer("b")], parent=5, sourceToolAssistantUUID=uuid(3)),
        said(7, "assistant", "Done.", parent=5),
    ],
    "parallel calls, in another order in the file": [
        *parallel()[:3],
        said(4, content=[answer("a")], parent=2),
        said(8, "assistant", content=[call("d")], reply="r", parent=7, timestamp="2026-01-01T00:00:09Z"),
        said(7, "assistant", content=[call("c")], reply="r", parent=2, timestamp="2026-01-01T00:00:08Z"),
        said(10, content=[answer("d")], parent=8, timestamp="2026-01-01T00:00:12Z"),
        said(9, content=[answer("c")], parent=7, timestamp="2026-01-01T00:00:11Z"),
        said(11, "assistant", "Done.", parent=4),
    ],
    "a result that comes again elsewhere": [
        *parallel()[:5],
        said(5, "assistant", "Next.", parent=4),
        said(6, content=[answer("a", "again")], parent=5),
        said(7, "assistant", "Done.", parent=5),
    ],
    "two strays for one call": [
        *parallel()[:5],
        said(5, "assistant", "Next.", parent=4),
        said(6, content=[answer("b", "first")], parent=5),
        said(7, content=[answer("b", "second")], parent=5),
        said(8, "assistant", "Done.", parent=5),
    ],
    "a result of another's": [
        *parallel()[:5],
        said(5, "assistant", "Next.", parent=4),
        said(6, content=[answer("b")], parent=5, agentId="x", sourceToolAssistantUUID=uuid(3)),
        said(7, "assistant", "Done.", parent=5),
    ],
    "a call claimed twice": [
        *parallel()[:5],
        said(8, "assistant", content=[call("b")], reply="other", parent=4),
        said(9, content=[answer("b")], parent=99),
        said(10, "assistant", "Done.", parent=8),
    ],
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("where", ["its folder", "anywhere"])
def test_odd_files(name: str, where: str, home: Home) -> None:
    home.write(ODD[name])
    home.write(TALK, OTHER)
    os.utime(home.file(OTHER), (1e9, 1e9))
    home.agent("agent-a1", ODD[name] or [b""])
    same_reads(ID, str(home.work) if where == "its folder" else None)


def test_what_the_odd_files_show(home: Home) -> None:
    """So that the comparison above is not one of nothing with nothing."""
    shown: dict[str, tuple[str | None, int]] = {}
    for name, lines in ODD.items():
        home.write(lines)
        info = ours.get_session_info(ID)
        shown[name] = (info and info.summary, len(ours.get_session_messages(ID)))
    assert shown["a talk"] == ("hello", 4)
    assert shown["parallel calls"] == ("go", 7)
    assert shown["a strays' result"] == ("go", 8)
    assert shown["a torn last line"] == ("hello", 4)
    assert shown["foreign lines"] == ("hello", 4)
    assert shown["empty"] == shown["nothing but a torn line"] == (None, 0)
    assert shown["an agent's"] == (None, 0)
    assert shown["a title"] == shown["both titles"] == (TITLE["customTitle"], 4)
    assert shown["an empty title"] == ("hello", 4)
    assert shown["a command"] == ("/clear", 2)
    assert shown["a command, then words"] == ("words", 2)
    assert shown["an editor's words"] == ("<ide_selection>b", 2)
    assert shown["a long prompt"] == (("word " * 100)[:200].rstrip() + "\u2026", 2)
    assert shown["half a character"] == ("half \ud800 one", 2)
    assert shown["a compaction"] == ("hello", 2)
    assert shown["two branches"] == ("hello", 4)
    assert shown["links in a circle"] == ("user 0", 0)
    assert shown["larger than both windows"] == (TITLE["customTitle"], 60)


def test_ten_thousand_lines(home: Home) -> None:
    lines = [said(n, "assistant" if n % 2 else "user", text=f"word {n}") for n in range(10_000)]
    home.write([*lines, encoded(said(10_000))[:50]])
    read = same_reads()
    assert len(read["messages"]) == 10_000
    assert [one["message"]["content"] for one in read["some"]] == ["word 1", "word 2"]


def test_many_progress_lines_take_no_longer(home: Home) -> None:
    """A thousand ends above one long tail: each is passed once (the test's time limit is what would be missed)."""
    tail = [said(0), *[said(n, "progress") for n in range(1, 20_000)]]
    home.write([*tail, *[said(n, "progress", parent=19_999) for n in range(20_000, 40_000)]])
    assert [one.uuid for one in ours.get_session_messages(ID)] == [uuid(0)]


def test_pages(home: Home) -> None:
    home.write(TALK)
    for number in range(5):
        id = f"{number:08}-2222-4333-8444-555555555555"
        os.utime(home.write(TALK if number != 2 else AGENT, id), (1e9 + number, 1e9 + number))
    for limit in (None, -1, 0, 1, 2, 99):
        for offset in (-2, 0, 1, 3, 99):
            same("list_sessions", None, limit, offset)
            same("list_sessions", str(home.work), limit, offset)
            same("get_session_messages", ID, None, limit, offset)
    assert len(ours.list_sessions(limit=3, offset=3)) == 2  # the agent's is not counted


# --- names and places ---------------------------------------------------------------------------------------------


def test_names_that_are_no_ids(home: Home) -> None:
    names = ["x", ID.upper(), f"{ID}x", f"x{ID}", ID.replace("-", ""), f".{ID}", "\u00e9" * 36, "agent-1"]
    for number, name in enumerate(names):
        os.utime(home.write(TALK, name), (1e9 + number, 1e9 + number))
    (home.folder / ID).mkdir()
    (home.folder / f"{OTHER}.json").write_bytes(b"{}")
    (home.config / "projects" / "a file").write_text("x")
    listed = same("list_sessions")
    assert [one["session_id"] for one in listed] == [ID.upper()]
    for name in names:
        same_reads(name)


@pytest.mark.parametrize("trick", [trick for trick in TRICKS if not trick.endswith("\n")])
def test_no_way_out_by_a_name(trick: str, home: Home) -> None:
    home.write(TALK)
    home.agent("agent-a1", AGENT)
    (home.config / "x.jsonl").write_bytes(encoded(TALK[0]))
    for directory in (None, str(home.work)):
        read = same_reads(trick, directory)
        assert [read[name] for name in ("info", "messages", "agents")] == [None, [], []]
        same("get_subagent_messages", ID, trick, directory)
        assert ours.get_subagent_messages(ID, f"../agent-{trick}", directory) == []


def test_links_and_what_is_no_file(home: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(home.write(TALK).read_bytes())
    home.file().unlink()
    ids = [f"{number:08}-2222-4333-8444-555555555555" for number in range(5)]
    home.file(ids[0]).symlink_to(elsewhere)
    home.file(ids[1]).symlink_to(tmp_path / "nothing")
    home.file(ids[2]).symlink_to(home.file(ids[2]))
    home.file(ids[3]).mkdir()
    (home.config / "projects" / "linked").symlink_to(home.folder)
    (home.config / "projects" / "circle").symlink_to(home.config / "projects")
    for id in ids:
        for directory in (None, str(home.work)):
            same_reads(id, directory)
    (tmp_path / "way").symlink_to(home.work)
    assert [one["session_id"] for one in same("list_sessions", str(tmp_path / "way"))] == [ids[0]]


@contextmanager
def nobody() -> Iterator[None]:
    """Without the rights of root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, an agent's file, a project's folder: nothing. All of the projects: asked for one, both complain."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.delenv("MAINSPRING_HOME", raising=False)
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{name}/config")
        home = Home(Path(name))
        for id in (ID, OTHER):
            home.write(TALK, id)
        agent = home.agent("agent-a1", AGENT, OTHER)
        for secret in (agent, home.file(), home.folder, home.config / "projects"):
            secret.chmod(0)
            with nobody():
                for directory in (None, str(home.work)):
                    found, below = same_reads(ID, directory), same("get_subagent_messages", OTHER, "a1", directory)
                    if secret.name == "projects" and directory:
                        assert found["messages"] is below is PermissionError
                        continue
                    counts = len(found["messages"]), len(below)
                    assert counts == {agent: (4, 0), home.file(): (0, 2)}.get(secret, (0, 0))
            secret.chmod(0o755)


def test_no_folder_at_all(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write(TALK)
    for directory in (str(tmp_path / "never"), "/", "/proc/self", "."):
        same_reads(ID, directory)
    same("list_sessions", "nul\0l")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "never"))
    assert same_reads()["list"] == []


def test_long_folders(home: Home) -> None:
    """With the client's hash at the end of the name, or anybody's."""
    deep = home.work / ("a" * 90) / ("b b" * 30) / ("\u00e9" * 40)
    deep.mkdir(parents=True)
    key = same("project_key_for_directory", str(deep))
    assert len(key) > 200
    for name in (key[:201] + "another", key):
        folder = home.config / "projects" / name
        folder.mkdir()
        (folder / f"{ID}.jsonl").write_bytes(encoded(TALK[0]))
        assert len(same_reads(ID, str(deep))["list"]) == 1
        assert len(same_reads(ID, str(deep / "below"))["list"]) == 1  # too long to tell the two apart
        (folder / f"{ID}.jsonl").unlink()
        folder.rmdir()


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=300))
def test_keys_of_folders(path: str) -> None:
    same("project_key_for_directory", path)
    same("project_key_for_directory", f"/{path}")


def git(*words: str, at: Path) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True)


def test_worktrees(home: Home, tmp_path: Path) -> None:
    """Sessions of the other worktrees are listed and found; those of the root only if there is more than one."""
    below = home.work / "below"
    below.mkdir()
    git("init", at=home.work)
    git("commit", "--allow-empty", "-m", "x", at=home.work)
    home.write(TALK)
    for path in (home.work, below):
        for include in (True, False):
            same("list_sessions", str(path), include_worktrees=include)
        same_reads(ID, str(path))
    assert ours.list_sessions(str(below)) == []
    git("worktree", "add", str(tmp_path / "second"), at=home.work)
    second = home.config / "projects" / same("project_key_for_directory", str(tmp_path / "second"))
    second.mkdir()
    (second / f"{OTHER}.jsonl").write_bytes(encoded(TALK[0]))
    (second / f"{ID}.jsonl").write_bytes(encoded(TALK[0]))  # a copy: the newer one is shown
    os.utime(second / f"{ID}.jsonl", (1e9, 1e9))
    for path in (home.work, below, tmp_path / "second"):
        for include in (True, False):
            same("list_sessions", str(path), include_worktrees=include)
        for id in (ID, OTHER):
            same_reads(id, str(path))
    assert {one.session_id for one in ours.list_sessions(str(below))} == {ID, OTHER}


def test_which_home(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our variable, then the client's, then both usual homes (settled 31)."""
    for number, config in enumerate((tmp_path / "config", tmp_path / "own", tmp_path / "user" / ".claude")):
        folder = config / "projects" / home.folder.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{ID}.jsonl").write_bytes(encoded(said(0, text=f"home {number}")))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "own"))
    assert ours.list_sessions()[0].summary == "home 1"
    monkeypatch.delenv("MAINSPRING_HOME")
    assert same("list_sessions")[0]["summary"] == "home 0"
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert same("list_sessions")[0]["summary"] == "home 2"


def test_agents_in_folders_of_their_own(home: Home) -> None:
    home.write(TALK)
    for name in ("agent-b", "workflows/run-1/agent-c", "agent-a", "workflows/agent-b", "other", "agent-"):
        home.agent(name, [said(0, text=f"for {name}", isSidechain=True)])
    (home.folder / ID / "subagents" / "agent-b.meta.json").write_text('{"toolUseId":"t","parentAgentId":"p"}')
    (home.folder / ID / "subagents" / "agent-a.meta.json").write_text('{"toolUseId":5,"parentAgentId":[]}')
    (home.folder / ID / "subagents" / "workflows" / "run-1" / "agent-c.meta.json").write_text("[no json")
    read = same_reads()
    assert read["agents"] == ["", "a", "b", "b", "c"]
    first = read["below"][2][0]
    assert (first["message"]["content"], first["parent_tool_use_id"]) == ("for agent-b", "t")


# --- any transcript ---------------------------------------------------------------------------------------------------

KINDS = ("user", "assistant", "progress", "system", "attachment", "mode")
BLOCKS = st.one_of(
    st.builds(call, st.sampled_from("abcd")),
    st.builds(answer, st.sampled_from("abcd")),
    st.just({"type": "text", "text": "words"}),
    st.sampled_from([{"type": "tool_result"}, {"type": "tool_use"}, "odd", 1]),
)
SIDES = st.fixed_dictionaries(
    {},
    optional={
        "isSidechain": st.booleans(),
        "isMeta": st.booleans(),
        "teamName": st.just("t"),
        "agentId": st.sampled_from("xy"),
        "timestamp": st.sampled_from(["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "odd"]),
        "isCompactSummary": st.booleans(),
    },
)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Line]:
    """Any tree, also one that is none: links back and forth, replies in pieces, calls claimed by several."""
    lines: list[Line] = []
    for number in range(draw(st.integers(0, 14))):
        parent = draw(st.one_of(st.just(number - 1), st.integers(-1, 15)))
        more: Line = dict(draw(SIDES))
        content = draw(st.one_of(st.just("words"), st.lists(BLOCKS, max_size=3)))
        kind = draw(st.sampled_from(KINDS))
        if draw(st.booleans()):
            more["sourceToolAssistantUUID"] = uuid(draw(st.integers(0, 14)))
        if kind == "assistant":
            more["reply"] = draw(st.sampled_from("RST"))
        lines.append(said(number, kind, content=content, parent=parent, **more))
    return lines


@st.composite
def turns(draw: st.DrawFn) -> list[Line]:
    """A reply with calls beside each other; its results hang anywhere, at any time, of anybody, in any order."""
    count = draw(st.integers(2, 4))
    times = st.integers(0, 9).map(lambda second: f"2026-01-01T00:00:0{second}Z")
    writers = st.sampled_from([{}, {}, {}, {"agentId": "x"}])

    def piece(number: int, kind: str, block: Line, parent: int, **more: Any) -> Line:
        return said(number, kind, content=[block], parent=parent, timestamp=draw(times), **draw(writers), **more)

    def hanging(number: int) -> Line:
        block = answer("abcd"[draw(st.integers(0, count - 1))], f"result {number}")
        return piece(number, "user", block, draw(st.integers(0, 24)), **draw(SOURCES))

    calls = [piece(n, "assistant", call("abcd"[n - 1]), n - 1, reply="R") for n in range(1, count + 1)]
    results = [hanging(n) for n in range(10, 10 + draw(st.integers(1, 5)))]
    later = [said(20, "assistant", "Next.", parent=10), said(21, text="more"), said(22, "assistant", "Done.")]
    return [said(0, text="go"), *draw(st.permutations([*calls, *results])), *later]


SOURCES: st.SearchStrategy[Line] = st.one_of(
    st.just({}), st.fixed_dictionaries({"sourceToolAssistantUUID": st.integers(1, 4).map(uuid)})
)


def test_any_transcript(home: Home) -> None:
    @given(st.one_of(transcripts(), turns()))
    def check(lines: list[Line]) -> None:
        home.write(lines)
        home.agent("agent-a", lines)
        same("get_session_messages", ID)
        same("get_session_info", ID)
        same("get_subagent_messages", ID, "a")

    check()


FIELDS = ("customTitle", "aiTitle", "lastPrompt", "summary", "gitBranch", "cwd", "tag", "timestamp")
WORDS = st.one_of(st.text(max_size=12), st.sampled_from(['"', "\\", '\\"', "\u2028", "\ud800", "2026-01-01T00:00:00Z"]))


def test_any_facts(home: Home) -> None:
    """Also with a last line cut anywhere, in the middle of a character, too."""
    odd = st.dictionaries(st.sampled_from(FIELDS), st.one_of(WORDS, st.none(), st.integers()), max_size=4)
    lines = st.lists(st.tuples(st.sampled_from(["user", "tag", "custom-title", "x"]), odd, WORDS), max_size=6)

    @given(lines, st.integers(0, 400))
    def check(drawn: list[tuple[str, Line, str]], cut: int) -> None:
        made = [{"type": kind, **fields, "message": {"content": words}} for kind, fields, words in drawn]
        whole = b"".join(
            [
                json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
                for line in made
            ]
        )
        end = whole.rfind(b"\n", 0, -1) + 1
        home.file().write_bytes(whole[: end + cut])
        same("get_session_info", ID)

    check()


# --- what it costs ----------------------------------------------------------------------------------------------------


def bytes_read() -> int:
    """By this process, from its beginning."""
    return int(Path("/proc/self/io").read_text().split()[1])


def cost(side: Any, **page: Any) -> int:
    before = bytes_read()
    assert not isinstance(outcome(side, "list_sessions", **page), type)
    return bytes_read() - before


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process reads")
def test_a_thousand_sessions_are_not_read_whole(home: Home) -> None:
    """1,000 files of 1 MiB (most of it holes): two windows of each, as the client reads; of a page, those of a page."""
    for number in range(1_000):
        file = home.write([said(0, text=f"session {number}")], f"{number:08}-2222-4333-8444-555555555555")
        with file.open("ab") as end:
            end.truncate(1 << 20)
        os.utime(file, (1e9 + number, 1e9 + number))
    two, slack = 2 * sessions_window(), 1 << 20
    everything, a_page = cost(ours), cost(ours, limit=50, offset=50)
    assert everything <= 1_000 * two + slack
    assert a_page <= 100 * two + slack
    assert everything <= cost(theirs) + slack
    assert a_page * 5 < cost(theirs, limit=50, offset=50)
    assert [one.summary for one in ours.list_sessions(limit=2)] == ["session 999", "session 998"]


def sessions_window() -> int:
    from mainspring.sessions.listing import WINDOW

    return WINDOW


def test_signatures() -> None:
    """The same parameters under the same names, with the same defaults."""
    import inspect

    for name in vars(ours):
        if inspect.isfunction(getattr(theirs, name)):
            got, wanted = inspect.signature(getattr(ours, name)), inspect.signature(getattr(theirs, name))
            assert str(got) == str(wanted).replace("claude_agent_sdk.types.", ""), name


def test_nobody_is_found(home: Home) -> None:
    assert same_reads(NOBODY)["info"] is None
    assert sessions.find_projects_folders() == [home.config / "projects"]
