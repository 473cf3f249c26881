"""Sessions on disk (stream-json 14), read and changed by the client's functions; resume, fork, continue; the mirror."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import uuid
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeSDKClient,
    InMemorySessionStore,
    ResultError,
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    get_subagent_messages,
    list_sessions,
    list_subagents,
    project_key_for_directory,
    rename_session,
    tag_session,
)
from cli.stage import until

from mainspring.simulator.replies import Say
from pipe.raw import LIMIT, Frame, prompt
from pipe.stage import Serve, Stage, bash, call, exchange
from pipe.test_agents import playing, spawn

FREE = {"permission_mode": "bypassPermissions"}
MESSAGES = ("user", "assistant")


def folder(stage: Stage) -> str:
    return os.path.realpath(stage.folder)


# --- what is written --------------------------------------------------------------------------------


@pytest.mark.covers("L-01", "L-03")
def test_the_transcript(serve: Serve) -> None:
    """14.1, 14.2, 17.13, 17.14: its place, its form, its chain; the id on the wire is the id on disk."""
    stage = serve(Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")), Say.of("Done."))
    told = stage.ask("go", **FREE)
    key = project_key_for_directory(folder(stage))
    path = stage.home / "projects" / key / f"{told.result.session_id}.jsonl"
    assert stage.transcripts() == [path]
    raw = path.read_text()
    assert '": "' not in raw.replace('\\": \\"', "")  # compact
    lines = [json.loads(line) for line in raw.split("\n") if line]
    said = [line for line in lines if line["type"] in MESSAGES and not line.get("isMeta")]
    for line in said:
        assert line["sessionId"] == told.result.session_id
        assert (line["isSidechain"], line["cwd"]) == (False, folder(stage))
        assert line["timestamp"].endswith("Z")
        assert {"gitBranch", "version", "userType", "entrypoint"} <= set(line)
    assert said[0]["message"]["content"] == "go"
    replies = [line["message"] for line in said if line["type"] == "assistant"]
    assert all({"id", "model", "content", "usage"} <= set(message) for message in replies)
    assert all("stop_reason" in message for message in replies)  # null: a block is stored before its reply ends
    assert len({message["id"] for message in replies}) == 2
    known = {line["uuid"] for line in lines if "uuid" in line}
    live = [message.uuid for message in told.of(AssistantMessage)]
    assert [line["uuid"] for line in said if line["type"] == "assistant"] == live
    assert all(line["parentUuid"] is None or line["parentUuid"] in known for line in lines if "uuid" in line)
    ids = [line["uuid"] for line in lines if "uuid" in line]
    assert len(ids) == len(set(ids))


def test_the_clients_own_functions(serve: Serve) -> None:
    """14: list, info, messages, rename, tag; what the client writes is kept by the next turn."""
    stage = serve(Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")), Say.of("Done."), Say.of("More."))
    id = stage.ask("the first words", **FREE).result.session_id
    [listed] = list_sessions(directory=folder(stage))
    assert (listed.session_id, listed.summary, listed.first_prompt) == (id, "the first words", "the first words")
    assert (listed.cwd, listed.created_at is not None) == (folder(stage), True)
    messages = get_session_messages(id, directory=folder(stage))
    shown = json.dumps([message.message for message in messages])
    assert all(each in shown for each in ("the first words", "Look.", "toolu_a", "toolu_b", "Done."))
    assert shown.count('"tool_result"') == 2
    rename_session(id, "My work", directory=folder(stage))
    tag_session(id, "mine", directory=folder(stage))
    assert stage.ask("go on", resume=id, **FREE).result.result == "More."
    info = get_session_info(id, directory=folder(stage))
    assert info is not None
    assert (info.custom_title, info.tag, info.summary) == ("My work", "mine", "My work")
    assert "More." in json.dumps([message.message for message in get_session_messages(id, directory=folder(stage))])
    delete_session(id, directory=folder(stage))
    assert list_sessions(directory=folder(stage)) == []


def test_a_long_folder(serve: Serve) -> None:
    """14.1: a key of more than 200 characters ends in the client's hash."""
    stage = serve(Say.of("Hi."))
    deep = stage.folder / ("a" * 90) / ("b b" * 30) / ("\u00e9" * 40)
    deep.mkdir(parents=True)
    told = stage.ask("hello", cwd=deep)
    [path] = stage.transcripts()
    assert path.parent.name == project_key_for_directory(os.path.realpath(deep))
    assert len(path.parent.name) > 200
    assert [each.session_id for each in list_sessions(directory=os.path.realpath(deep))] == [told.result.session_id]


def test_the_transcript_of_an_agent(serve: Serve) -> None:
    """14.4: its file, and what it belongs to; the client's functions read both."""
    choose = playing(
        Say.of(spawn()), Say.of("All done."), below=(Say.of(bash("echo sub", "sub")), Say.of("Hello from below."))
    )
    stage = serve(choose=choose)
    agents = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.")}
    id = stage.ask("delegate", agents=agents, **FREE).result.session_id
    [agent] = list_subagents(id, directory=folder(stage))
    messages = get_subagent_messages(id, agent, directory=folder(stage))
    shown = json.dumps([message.message for message in messages])
    assert "say hello below" in shown
    assert "Hello from below." in shown
    assert {message.parent_tool_use_id for message in messages} == {"toolu_spawn"}
    [path] = stage.home.glob(f"projects/*/{id}/subagents/agent-{agent}.jsonl")
    lines = [json.loads(line) for line in path.read_text().split("\n") if line]
    first = next(line for line in lines if line["type"] in MESSAGES)  # lines of our own may stand before it
    assert (first["isSidechain"], first["agentId"]) == (True, agent)
    meta = json.loads(path.with_suffix(".meta.json").read_text())
    assert (meta["toolUseId"], meta["agentType"]) == ("toolu_spawn", "greeter")
    assert [each.session_id for each in list_sessions(directory=folder(stage))] == [id]


# --- going on ---------------------------------------------------------------------------------------


@pytest.mark.covers("L-04", "L-05", "L-06")
def test_resume_fork_and_continue(serve: Serve) -> None:
    """14.3: the same id and file; a copy under a new id, its source untouched; the newest of this folder."""
    stage = serve(*[Say.of(f"Answer {n}.") for n in range(6)])
    assert stage.ask("zero", continue_conversation=True).error is None  # none there: a fresh one
    id = stage.ask("one").result.session_id
    assert stage.ask("two", resume=id).result.session_id == id
    assert "Answer 1." in stage.said(-1)
    [source] = stage.home.glob(f"projects/*/{id}.jsonl")
    before = source.read_bytes()
    forked = stage.ask("three", resume=id, fork_session=True).result.session_id
    assert forked != id
    assert source.read_bytes() == before
    assert all(word in stage.said(-1) for word in ("one", "Answer 2.", "three"))
    copied = [line for line in stage.lines(forked) if line["type"] in MESSAGES]
    assert {line["sessionId"] for line in copied} == {forked}
    assert stage.ask("four", continue_conversation=True).result.session_id == forked
    assert "three" in stage.said(-1)


def test_resume_at_a_message(serve: Serve) -> None:
    """1.2, 1.6, 14.3: up to and including that message, by the id seen live; an unknown one is refused; and so is a
    `resume_drops_turn` [O] that is not the one turn dropped."""
    stage = serve(Say.of("The first answer."), Say.of("The second answer."), Say.of("The third answer."))
    first = stage.ask("one")
    id, at = first.result.session_id, first.of(AssistantMessage)[-1].uuid
    stage.ask("two", resume=id)
    unknown = stage.ask("three", resume=id, resume_session_at=str(uuid.uuid4()))
    assert isinstance(unknown.error, ResultError)
    refused = stage.ask("three", resume=id, resume_session_at=at, resume_drops_turn=str(uuid.uuid4()))
    assert isinstance(refused.error, ResultError)
    assert re.search("Resume rejected by (--resume-drops-turn|resume_drops_turn): ", str(refused.error))
    [two] = [line["uuid"] for line in stage.lines(id) if line["type"] == "user" and line["message"]["content"] == "two"]
    assert stage.ask("three", resume=id, resume_session_at=at, resume_drops_turn=two).error is None
    assert len(stage.requests) == 3
    assert "The first answer." in stage.said(-1)
    assert "The second answer." not in stage.said(-1)


def test_a_session_that_the_client_forked(serve: Serve) -> None:
    """14.2: new ids, `forkedFrom`, a title at the end: resuming it works."""
    stage = serve(Say.of("Look.", bash("echo a", "a"), bash("echo b", "b")), Say.of("Done."), Say.of("More."))
    id = stage.ask("one", **FREE).result.session_id
    forked = fork_session(id, directory=folder(stage)).session_id
    told = stage.ask("two", resume=forked, **FREE)
    assert (told.result.session_id, told.result.result) == (forked, "More.")
    assert "Done." in stage.said(-1)


@pytest.mark.covers("L-04")
def test_killed_in_the_middle_of_a_call(serve: Serve) -> None:
    """14.3: nothing shown is lost; the open call gets a result; a torn last line is passed over."""
    stage = serve(Say.of("Look.", bash("touch began; sleep 60")), Say.of("Again."))
    with stage.pipe("--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize()
        pipe.send(prompt("wait"))
        until((stage.folder / "began").exists)
        id = pipe.until("assistant")["session_id"]
        pipe.process.send_signal(signal.SIGKILL)
        assert pipe.exit() == -signal.SIGKILL
    with stage.transcripts()[0].open("ab") as file:
        file.write(b'{"type":"user","uuid":"torn')
    told = stage.ask("again", resume=id, **FREE)
    assert (told.error, told.result.result) == (None, "Again.")
    assert "Look." in stage.said(-1)  # and the server took the request: every call in it is answered


# --- the mirror -------------------------------------------------------------------------------------


def test_a_store_of_the_callers(serve: Serve) -> None:
    """14.5: every line, in order, by the time of the result; agents' files, too; then resumed from the store alone."""
    choose = playing(Say.of(spawn()), Say.of("All done."), Say.of("More."))
    stage = serve(choose=choose)
    store = InMemorySessionStore()
    seen: list[list[Frame]] = []
    key: Any = {"project_key": project_key_for_directory(folder(stage))}

    async def main(client: ClaudeSDKClient) -> None:
        told = await exchange(client, "delegate")
        key["session_id"] = told.result.session_id
        seen.append([dict(entry) for entry in await store.load(key) or []])

    agents = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.")}
    stderr = stage.talk(main, session_store=store, agents=agents, **FREE)
    assert stderr == []
    id = key["session_id"]
    held = asyncio.run(store.load(key)) or []
    assert held == stage.lines(id)
    texts = json.dumps(seen[0])
    assert "delegate" in texts
    assert "All done." in texts  # it was there when the caller saw the result
    [subkey] = asyncio.run(store.list_subkeys(key))
    below: Any = {**key, "subpath": subkey}
    entries = asyncio.run(store.load(below)) or []
    [meta] = [dict(entry) for entry in entries if entry["type"] == "agent_metadata"][-1:]
    assert meta["toolUseId"] == "toolu_spawn"
    assert "Hello from below." in json.dumps(entries)
    for path in stage.home.glob("projects/**/*.jsonl"):
        path.unlink()
    told = stage.ask("more", session_store=store, resume=id, **FREE)
    assert (told.error, told.result.result, told.result.session_id) == (None, "More.", id)
    assert "All done." in stage.said(-1)
    assert list(stage.home.glob("projects/**/*.jsonl")) == []  # it worked in the client's own folder
    assert "more" in json.dumps(asyncio.run(store.load(key)))


def test_mirror_frames_on_the_wire(serve: Serve) -> None:
    """14.5, 1.4: paths below `projects`, all of a turn before its result, large ones split; none without the flag."""
    big = [call("Read", f"r{n}", file_path="big.txt") for n in range(8)]
    stage = serve(Say.of(*big), Say.of("Done."))
    (stage.folder / "big.txt").write_text("\n".join(["line " * 300] * 120))
    with stage.pipe("--session-mirror", "--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize()
        pipe.turn("look")
        told = len(pipe.frames)
        pipe.idle()
        assert pipe.finish() == 0
    mirrored = [frame for frame in pipe.frames[:told] if frame["type"] == "transcript_mirror"]
    [path] = stage.transcripts()
    assert {frame["filePath"] for frame in mirrored} == {str(path)}
    entries = [entry for frame in pipe.of("transcript_mirror") for entry in frame["entries"]]
    assert entries == stage.lines()
    said = [entry["uuid"] for frame in mirrored for entry in frame["entries"] if entry["type"] in MESSAGES]
    assert said == [line["uuid"] for line in stage.lines() if line["type"] in MESSAGES]
    assert max(len(line.decode()) for line in pipe.lines) <= LIMIT
