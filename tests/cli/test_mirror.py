"""The session's lines on the pipe, and the way back: the client's own code keeps them, the command goes on from them.

Real parts: the client's batcher and store, its writing of a session into a folder of its own, our command, a server.
"""

from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, InMemorySessionStore, get_subagent_messages, list_subagents
from claude_agent_sdk._internal.session_resume import _write_jsonl, build_mirror_batcher, materialize_resume_session

from cli.stage import Done, Serve, Stage
from cli.test_agents import agent, staged, tool_use
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.resume import ResumeError, new_place, open_session_file
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, ServerBlock, Text, User
from mainspring.core.state import State
from mainspring.sessions.decoder import LoadedSession
from mainspring.sessions.journal import FileJournal, JournalOptions
from mainspring.sessions.line_format import LARGEST_INLINE, CheckpointExtras, Envelope
from mainspring.sessions.records import NoteRecord
from mainspring.sessions.resume import fork_session_state, load_session
from mainspring.sessions.subagents import meta_file
from mainspring.simulator.replies import Say
from mainspring.stream_json.outgoing import MOST, TranscriptMirror

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
FILE = f"/home/projects/-work/{ID}.jsonl"
WORDS = "Grüße aus Zürich, 東京, 🎈"


def entries(frames: list[bytes]) -> list[Any]:
    return [entry for frame in frames for entry in json.loads(frame)["entries"]]


# --- frames ---------------------------------------------------------------------------------------------------


def test_lines_go_out_as_they_were_written_by_file_and_in_order() -> None:
    mirror, agent_file = TranscriptMirror(), FILE.replace(".jsonl", "/subagents/agent-ü.jsonl")
    assert mirror.frames() == []
    mirror.add(FILE, b'{"type":"user","n":1}\n{"type":"user", "n": 1e2}\n')
    mirror.add(agent_file, b'{"type":"agent_metadata"}\n')
    mirror.add(FILE, b'\n{"type":"user","n":3}\n')  # behind a torn line
    assert mirror.frames() == [
        b'{"type":"transcript_mirror","filePath":"%b","entries":'
        b'[{"type":"user","n":1},{"type":"user", "n": 1e2},{"type":"user","n":3}]}\n' % FILE.encode(),
        b'{"type":"transcript_mirror","filePath":"%b","entries":[{"type":"agent_metadata"}]}\n' % agent_file.encode(),
    ]
    assert mirror.frames() == []


def test_no_frame_is_longer_than_the_client_takes() -> None:
    """Lines of all lengths, none lost, and hardly more frames than need be."""
    rolled, mirror = random.Random(7), TranscriptMirror()
    lines = [json.dumps({"n": n, "text": "x" * int(10 ** rolled.uniform(0, 5.9))}).encode() for n in range(400)]
    mirror.add(FILE, b"\n".join(lines) + b"\n")
    frames = mirror.frames()
    assert entries(frames) == [json.loads(line) for line in lines]
    assert max(len(frame) - 1 for frame in frames) <= MOST
    assert min(len(a) + len(b) for a, b in pairwise(frames)) > MOST


@pytest.mark.parametrize(("over", "count"), [(0, 1), (1, 2)])
def test_the_limit_is_met_to_the_byte(over: int, count: int) -> None:
    mirror = TranscriptMirror()
    empty = len(b'{"type":"transcript_mirror","filePath":"","entries":[{"a":""},{"b":""}]}') + len(FILE)
    half = (MOST - empty) // 2
    mirror.add(FILE, b'{"a":"%b"}\n{"b":"%b"}\n' % (b"x" * half, b"x" * (MOST - empty - half + over)))
    frames = mirror.frames()
    assert len(frames) == count
    assert over or len(frames[0]) - 1 == MOST


def test_a_line_too_long_for_any_frame_is_cut_and_says_so() -> None:
    mirror = TranscriptMirror()
    line = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": WORDS * 100_000}}
    mirror.add(FILE, json.dumps(line, ensure_ascii=False).encode() + b"\n")
    [frame] = mirror.frames()
    assert MOST * 0.7 < len(frame) - 1 <= MOST
    [entry] = json.loads(frame)["entries"]
    content = entry["message"].pop("content")
    assert content.startswith(WORDS * 100)
    assert content.endswith(f"... [{len(WORDS) * 100_000:,} characters, cut here]")
    assert entry == {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user"}}


# --- from the entries back to a session -------------------------------------------------------------------------


async def kept(frames: list[bytes], config: Path) -> InMemorySessionStore:
    """In a store, by the client's own hands."""
    store, troubles = InMemorySessionStore(), list[str]()

    async def hear(_: object, words: str) -> None:
        troubles.append(words)

    batcher = build_mirror_batcher(store, None, {"CLAUDE_CONFIG_DIR": str(config)}, hear)
    for frame in map(json.loads, frames):
        assert frame.keys() == {"type", "filePath", "entries"}
        batcher.enqueue(frame["filePath"], frame["entries"])
    await batcher.close()
    assert troubles == []
    return store


def moved(stage: Stage, frames: list[bytes], session_id: str) -> Path:
    """The folder that the client makes for a resume: the session, its agents, and nothing else of ours."""

    async def main() -> Path:
        options = ClaudeAgentOptions(
            cwd=stage.folder,
            resume=session_id,
            session_store=await kept(frames, stage.home),
            env={"CLAUDE_CONFIG_DIR": str(stage.home)},
        )
        made = await materialize_resume_session(options)
        assert made is not None
        assert made.resume_session_id == session_id
        return made.config_dir

    return asyncio.run(main())


def mirrored(stage: Stage) -> list[bytes]:
    """What a mirror would have sent of all files; that it is told just these lines is in `tests/sessions`."""
    mirror = TranscriptMirror()
    for file in sorted(stage.home.glob("projects/**/*.jsonl")):
        if file.name == "live.jsonl":
            continue
        meta = Path(meta_file(str(file)))
        if meta.exists():
            about = {"type": "agent_metadata", **json.loads(meta.read_bytes())}
            mirror.add(str(file), json.dumps(about).encode() + b"\n")
        mirror.add(str(file), file.read_bytes())
    return mirror.frames()


def go_on(stage: Stage, config: Path, session_id: str, *flags: str, prompt: str = "MAIN goes on") -> Done:
    env = {"CLAUDE_CONFIG_DIR": str(config), "MAINSPRING_HOME": ""}
    return stage.run("-p", prompt, "--resume", session_id, *flags, env=env)


def sent(stage: Stage) -> list[Any]:
    """The last request's messages, without the marks that say what to cache."""
    messages: list[Any] = stage.requests[-1].body["messages"]
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            block.pop("cache_control", None)
    return messages


@pytest.mark.covers("L-05", "N-17")
def test_a_session_goes_on_from_a_store_with_its_agents(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, cast = staged(
        serve,
        MAIN=[
            Say.of(f"Off you go. {WORDS}", agent("EXPLORE")),
            Say.of("So it is."),
            Say.of("Once more, here."),
            Say.of("Once more, there."),
        ],
        EXPLORE=[Say.of("I look.", tool_use("Read", file_path="a.txt")), Say.of(f"It holds words. {WORDS}")],
    )
    assert stage.run("-p", f"MAIN {WORDS}").returncode == 0
    [file] = stage.sessions()
    config = moved(stage, mirrored(stage), file.stem)
    [there] = config.glob("projects/*/*.jsonl")
    assert there.parent.name == file.parent.name
    assert there.read_bytes() != file.read_bytes()  # other bytes, the same words
    side, far_side = file.with_suffix("") / "subagents", there.with_suffix("") / "subagents"
    assert sorted(path.name for path in far_side.iterdir()) == sorted(p.name for p in side.iterdir() if p.is_file())
    for path in far_side.iterdir():
        ours = (side / path.name).read_text().splitlines()
        assert [json.loads(line) for line in path.read_text().splitlines()] == [json.loads(line) for line in ours]
    agents = [load_session(*folder.glob("*.jsonl")) for folder in (side, far_side)]
    assert agents[0].state == agents[1].state
    assert agents[1].warnings == ()

    done = go_on(stage, config, file.stem)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Once more, here.\n", b"")
    away = sent(stage)
    assert stage.run("-p", "MAIN goes on", "--resume", file.stem).stdout == b"Once more, there.\n"
    assert away == sent(stage)  # as if it had never been away
    assert cast.order == ["MAIN", "EXPLORE", "EXPLORE", "MAIN", "MAIN", "MAIN"]

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    [agent_id] = list_subagents(file.stem, str(stage.folder))
    messages = get_subagent_messages(file.stem, agent_id, str(stage.folder))
    assert {message.parent_tool_use_id for message in messages} == {"toolu_agent"}


def test_what_was_kept_beside_the_session_is_named_where_it_is_missing(serve: Serve) -> None:
    """Every request is held to the API's rules by the server."""
    big = "x" * (LARGEST_INLINE + 1)
    write = tool_use("Write", file_path="big.txt", content=big)
    stage = serve(Say.of("I write it.", write), Say.of("There it is."), Say.of("Gone on."))
    done = stage.run("-p", "--permission-mode=acceptEdits", input=f"write this: {big}".encode())
    assert (done.stdout, done.stderr) == (b"There it is.\n", b"")
    [file] = stage.sessions()
    assert len(list((file.with_suffix("") / "payloads").iterdir())) == 2
    frames = mirrored(stage)
    assert sum(map(len, frames)) < 100_000
    done = go_on(stage, moved(stage, frames, file.stem), file.stem)
    assert (done.returncode, done.stdout) == (0, b"Gone on.\n")
    assert [line.split()[:2] for line in done.stderr.decode().splitlines()] == [["mainspring:", "payload"]] * 2
    prompt, reply, *_ = sent(stage)
    note = "characters in all; the rest is kept elsewhere]"
    assert f"{len(big) + 12:,} characters and 0 media in all; the rest is kept elsewhere]" in str(prompt)
    [call] = [block for block in reply["content"] if block["type"] == "tool_use"]
    assert call["input"] == {"file_path": "big.txt", "content": f"{big[:2_000]}\n[{len(big):,} {note}"}


def test_what_was_too_long_for_a_frame_leads_nobody_astray(tmp_path: Path) -> None:
    """A checkpoint that names 30,000 messages: half of it would be taken for the whole, a history without its end."""
    mirror, file = TranscriptMirror(), tmp_path / f"{OTHER}.jsonl"
    odd = ServerBlock("web", "this is no JSON " * 100_000)  # a block that the API has no form for
    said: list[Message] = [
        User((Text(f"{n}"),), id=name(2 * n)) if m else Assistant((Text("so"),), "some", id=name(2 * n + 1))
        for n in range(15_000)
        for m in (1, 0)
    ]
    said[-1] = Assistant((Text("so"), odd, Text("be it")), "some", id=name(29_999))
    source = LoadedSession(file, "records", State(History(said)), CheckpointExtras())
    FileJournal.fork(
        fork_session_state(source, file), Envelope(OTHER, "/w", "0"), JournalOptions(mirror=mirror.add)
    ).close()
    longest = sorted(map(len, file.read_bytes().splitlines()))[-2:]
    assert min(longest) > MOST  # the block and the checkpoint
    frames = mirror.frames()
    assert max(map(len, frames)) <= MOST + 1
    there = tmp_path / "there" / file.name
    _write_jsonl(there, entries(frames))
    loaded = load_session(there)
    assert (loaded.how, len(loaded.state.history)) == ("conversation", 30_000)
    assert list(loaded.state.history)[:-1] == said[:-1]
    last = loaded.state.history[-1]
    assert isinstance(last, Assistant)
    block, saved = [f"a line of {length:,} bytes was too long for the pipe" for length in reversed(longest)]
    assert last.blocks == (Text("so"), Text(f"[{block}]"), Text("be it"))
    assert loaded.warnings == (f"the events cannot be replayed: {saved}",)


def name(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


# --- from an earlier message ------------------------------------------------------------------------------------


def test_a_turn_is_dropped_or_the_resume_refused(serve: Serve) -> None:
    """A refusal is one that a driving program hears of as a result (stream-json 1.6)."""
    stage = serve(Say.of("First."), Say.of("Second."))
    assert stage.run("-p", "one").returncode == stage.run("-p", "two", "--continue").returncode == 0
    [file] = stage.sessions()
    ids = {message.text: message.id for message in load_session(file).state.history}
    one, first, two = ids["one"], ids["First."], ids["two"]
    place = new_place({"MAINSPRING_HOME": str(stage.home)}, str(stage.folder), ())

    def options(at: str | None, prompt: str) -> SessionOptions:
        return SessionOptions(resume=file.stem, resume_session_at=at, resume_drops_turn=prompt)

    for forks in (False, True):
        asked = options(first, one).replace(fork_session=forks)
        with pytest.raises(ResumeError, match=r"^Resume rejected by resume_drops_turn: .* belongs to another prompt"):
            open_session_file(asked, place, OTHER)
    with pytest.raises(StartError, match="'resume_drops_turn' needs 'resume_session_at=UUID'"):
        open_session_file(options(None, two), place, OTHER)
    opened = open_session_file(options(first, two), place, OTHER)
    assert opened.journal is not None
    opened.journal.close()
    assert opened.loaded is not None
    texts = [message.text for message in opened.loaded.state.history]
    assert (texts[0], texts[-1]) == ("one", "First.")


def test_the_journal_of_a_command_is_mirrored(tmp_path: Path) -> None:
    mirror = TranscriptMirror()
    place = new_place({"MAINSPRING_HOME": str(tmp_path)}, str(tmp_path), (), mirror.add)
    journal = open_session_file(SessionOptions(), place, ID).journal
    assert journal is not None
    asyncio.run(journal.append(NoteRecord("test", WORDS, 5)))
    journal.close()
    [frame] = mirror.frames()
    assert json.loads(frame)["filePath"] == journal.file
    assert entries([frame]) == [json.loads(Path(journal.file).read_bytes())]
