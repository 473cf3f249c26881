"""`rewind_files`: the client goes back to what files were when a prompt came. See stream-json 1.3 and 4."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AgentDefinition, ClaudeSDKClient, PermissionResultAllow, ToolPermissionContext, UserMessage

from mainspring.sdk import Client, Options
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from pipe.raw import PATIENCE, Frame, Pipe, prompt
from pipe.stage import Serve, Stage, Told, bash, call, exchange, response

ON = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"}
FREE = ("--permission-mode", "bypassPermissions", "--replay-user-messages")
OPTIONS: dict[str, Any] = {
    "permission_mode": "bypassPermissions",
    "enable_file_checkpointing": True,
    "extra_args": {"replay-user-messages": None},
}


def write(name: str, content: str, id: str = "w") -> dict[str, Any]:
    return call("Write", id, file_path=name, content=content)


def prompt_of(told: Told, text: str) -> str:
    [echo] = [message for message in told.of(UserMessage) if message.content == text]
    assert echo.uuid is not None
    return echo.uuid


def rewound(pipe: Pipe, id: str) -> Frame:
    said = pipe.control("rewind_files", user_message_id=id)
    assert said["subtype"] == "success", said
    answer: Frame = said["response"]
    return answer


def texts(stage: Stage) -> dict[str, str]:
    return {file.name: file.read_text() for file in stage.folder.iterdir() if file.is_file()}


def snapshots(stage: Stage) -> list[Frame]:
    return [line for line in stage.lines() if line["type"] == "file-history-snapshot"]


# --- to and fro -------------------------------------------------------------------------------------


def test_between_prompts(serve: Serve) -> None:
    """4: to each of three prompts, in any order, with the client; what a command changed is put back, too."""
    stage = serve(
        Say.of(write("a", "1")),
        Say.of("Done."),
        Say.of(write("a", "2"), write("b", "2", "v")),
        Say.of("Done."),
        Say.of(bash("echo mine > a; rm b; echo mine > c")),
        Say.of("Done."),
    )

    async def main(client: ClaudeSDKClient) -> None:
        ids = [prompt_of(await exchange(client, text), text) for text in ("one", "two", "three")]
        assert texts(stage) == {"a": "mine\n", "c": "mine\n"}
        await client.rewind_files(ids[2])  # what a command has changed is put back, too
        assert texts(stage) == {"a": "2", "b": "2"}
        await client.rewind_files(ids[1])
        assert texts(stage) == {"a": "1"}
        await client.rewind_files(ids[0])
        assert texts(stage) == {}
        await client.rewind_files(ids[2])
        assert texts(stage) == {"a": "2", "b": "2"}

    assert stage.talk(main, **OPTIONS) == []


def tree_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Every name with its kind, mode and content."""
    found: dict[str, tuple[Any, ...]] = {}
    for one in sorted(folder.rglob("*")):
        mode = one.lstat().st_mode
        content = str(one.readlink()) if one.is_symlink() else one.read_text() if one.is_file() else ""
        found[str(one.relative_to(folder))] = (stat.S_IFMT(mode), 0 if one.is_symlink() else mode & 0o777, content)
    return found


CHANGES = (
    "echo x > b; mkdir -p d/e; echo y > d/c; chmod 700 old; mv gone moved; ln -sfn b link; rmdir empty; echo > both; "
    "rm kind; mkdir kind; echo z > kind/z"
)


def test_the_clients_give_the_same_result(serve: Serve) -> None:
    """The client over the pipe and ours in this process, each on a copy of the same session and workspace. The user has
    changed a file that the session had changed, and another."""
    stage = serve(Say.of(write("a", "1"), bash(CHANGES)), Say.of("Done."))
    work, kept = stage.folder, stage.home.with_name("kept")
    for name in ("old", "gone", "both", "kind", "mine"):
        (work / name).write_text("it was")
        (work / name).chmod(0o644)
    (work / "empty").mkdir(0o750)
    (work / "link").symlink_to("old")
    before = tree_of(work)
    ids: list[str] = []
    told: list[Told] = []

    async def first(client: ClaudeSDKClient) -> None:
        told.append(await exchange(client, "one"))
        ids.append(prompt_of(told[0], "one"))

    async def theirs(client: ClaudeSDKClient) -> None:
        await client.rewind_files(ids[0])

    async def ours() -> None:
        options = Options(cwd=work, env=stage.environment, resume=told[0].result.session_id,
                          enable_file_checkpointing=True)  # fmt: skip
        async with Client(options) as client:
            await client.rewind_files(ids[0])

    def keep(old: Path, new: Path) -> None:
        shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)

    stage.talk(first, **OPTIONS)
    for name in ("both", "mine"):
        (work / name).write_text("of the user")
    changed = tree_of(work)
    keep(stage.home, kept / "home")
    keep(work, kept / "work")
    stage.talk(theirs, resume=told[0].result.session_id, **OPTIONS)
    after = tree_of(work)
    assert after == before | {"mine": changed["mine"]}
    for folder in (stage.home, work):
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
    keep(kept / "home", stage.home)
    keep(kept / "work", work)
    assert tree_of(work) == changed
    asyncio.run(ours())
    assert tree_of(work) == after


def test_in_another_process(serve: Serve) -> None:
    """4, 14.3: a session that is resumed knows what files were; nothing need be said in it."""
    stage = serve(Say.of(write("new", "1")), Say.of("Done."), Say.of(write("old", "2")), Say.of("Done."))
    (stage.folder / "old").write_text("it was")
    (stage.folder / "old").chmod(0o755)
    ids: list[str] = []
    told: list[Told] = []

    async def first(client: ClaudeSDKClient) -> None:
        told.append(await exchange(client, "one"))
        ids.append(prompt_of(told[0], "one"))

    async def second(client: ClaudeSDKClient) -> None:
        await client.rewind_files(ids[0])

    stage.talk(first, **OPTIONS)
    assert texts(stage) == {"old": "it was", "new": "1"}
    stage.talk(second, resume=told[0].result.session_id, **OPTIONS)
    assert texts(stage) == {"old": "it was"}
    assert (stage.folder / "old").stat().st_mode & 0o777 == 0o755


def test_after_a_kill(serve: Serve) -> None:
    """4, 14.3: `kill -9` in the middle of a turn, behind an edit and while the model talks; the next one goes back."""
    stage = serve(Say.of(write("new", "1")), Say.of("Slow.", pace_ms=2_000))
    id = str(uuid.uuid4())
    with stage.pipe(*FREE, env=ON) as pipe:
        pipe.initialize()
        pipe.send(prompt("go", uuid=id))
        stage.until(lambda: len(stage.requests) == 2)
        os.kill(pipe.process.pid, signal.SIGKILL)
        assert pipe.exit() == -signal.SIGKILL
    assert texts(stage) == {"new": "1"}
    [session] = [path.stem for path in stage.transcripts()]
    with stage.pipe(*FREE, "--resume", session, env=ON) as pipe:
        pipe.initialize()
        assert rewound(pipe, id)["filesChanged"] == [str(stage.folder / "new")]
        assert pipe.finish() == 0
    assert texts(stage) == {}


def test_what_is_answered(serve: Serve) -> None:
    """4: whether it could be done, which files, and how many lines came and went."""
    stage = serve(
        Say.of(call("Read", file_path="f")),
        Say.of(call("Edit", file_path="f", old_string="b\n", new_string="x\ny\nz\n")),
        Say.of("Done."),
    )
    (stage.folder / "f").write_text("a\nb\nc\n")
    id = str(uuid.uuid4())
    with stage.pipe(*FREE, env=ON) as pipe:
        pipe.initialize()
        pipe.turn("change", uuid=id)
        assert rewound(pipe, id) == {
            "canRewind": True,
            "filesChanged": [str(stage.folder / "f")],
            "insertions": 1,
            "deletions": 3,
        }
        assert rewound(pipe, id) == {"canRewind": True, "filesChanged": [], "insertions": 0, "deletions": 0}
        assert pipe.finish() == 0
    assert texts(stage) == {"f": "a\nb\nc\n"}


# --- whose edits, and when --------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
def test_agents_edit_too(serve: Serve, background: bool) -> None:
    """4, 12: what an agent has changed is put back; one in the background works on while the turn is over."""
    task = {"description": "d", "prompt": "work below", "subagent_type": "worker", "run_in_background": background}

    def choose(received: ReceivedRequest) -> Reply:
        turn = received.talk.turns()
        if "work below" in str(received.talk.messages[0]):
            below = (Say.of(call("Read", "r", file_path="f")), Say.of(write("f", "new"), write("g", "new", "v")))
            return (*below, Say.of("Worked."))[min(turn, 2)]
        return (Say.of(call("Agent", "spawn", **task)), Say.of("Sent."), Say.of("Heard."))[min(turn, 2)]

    stage = serve(choose=choose)
    (stage.folder / "f").write_text("old")
    worker = AgentDefinition(description="Works.", prompt="You work.", tools=["Read", "Write"])

    async def main(client: ClaudeSDKClient) -> None:
        id = prompt_of(await exchange(client, "delegate"), "delegate")
        if background:
            await response(client)  # its report
        assert texts(stage) == {"f": "new", "g": "new"}
        await client.rewind_files(id)
        assert texts(stage) == {"f": "old"}

    stage.talk(main, agents={"worker": worker}, **OPTIONS)


def test_in_the_middle_of_a_turn(serve: Serve) -> None:
    """4: while a question is open. The model is told what became of the file, and must read it before it edits it."""
    stage = serve(
        Say.of(call("Read", "r", file_path="f")),
        Say.of(write("f", "new\n")),
        Say.of(bash("true", "b")),
        Say.of(call("Edit", "e", file_path="f", old_string="new", new_string="x")),
        Say.of(call("Read", "s", file_path="f")),
        Say.of(call("Edit", "t", file_path="f", old_string="old", new_string="x")),
        Say.of("Done."),
    )
    (stage.folder / "f").write_text("old\n")
    gate: list[asyncio.Event] = []

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        if name == "Bash":
            gate[0].set()
            await gate[1].wait()
        return PermissionResultAllow()

    async def main(client: ClaudeSDKClient) -> None:
        gate.extend([asyncio.Event(), asyncio.Event()])
        await client.query("change")
        await gate[0].wait()
        await client.rewind_files(await echo(client))
        assert (stage.folder / "f").read_text() == "old\n"
        gate[1].set()
        told = await response(client)
        results = {block.tool_use_id: block for block in told.outcomes}
        assert results["toolu_e"].is_error
        assert "changed since it was read" in str(results["toolu_e"].content)
        assert not results["toolu_t"].is_error

    stage.talk(
        main,
        can_use_tool=allow,
        **OPTIONS | {"permission_mode": "default"},
        settings='{"permissions": {"ask": ["Bash"]}}',
    )
    assert (stage.folder / "f").read_text() == "x\n"
    assert "/f' changed:" in stage.said(3)  # in the request that follows
    assert "-new" in stage.said(3)
    assert "+old" in stage.said(3)


async def echo(client: ClaudeSDKClient) -> str:
    """The id of the prompt under way."""
    async for message in client.receive_messages():
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            return message.uuid or ""
    raise AssertionError("it did not come")


# --- where it cannot be -----------------------------------------------------------------------------


def test_errors_say_why(serve: Serve) -> None:
    """4: not enabled; no checkpoint for that id: of nobody, of no prompt, of a time when it was not enabled."""
    stage = serve(Say.of(write("a", "1")), Say.of("Done."), Say.of("Again."))
    id, other = str(uuid.uuid4()), str(uuid.uuid4())
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        session = pipe.turn("go", uuid=id)["session_id"]
        said = pipe.control("rewind_files", user_message_id=id)
        assert (said["subtype"], said["error"].split(":")[0]) == ("error", "File checkpointing is not enabled")
        assert next(iter(ON)) in said["error"]
        assert pipe.finish() == 0
    assert snapshots(stage) == []
    assert not (stage.transcripts()[0].with_suffix("") / "payloads").exists()
    with stage.pipe(*FREE, "--resume", session, env=ON) as pipe:
        pipe.initialize()
        pipe.turn("again", uuid=other)
        for unknown in (id, str(uuid.uuid4()), "", session):
            said = pipe.control("rewind_files", user_message_id=unknown)
            assert said["subtype"] == "error"
            assert said["error"].startswith(f"No file checkpoint found for message '{unknown}'")
        assert rewound(pipe, other)["filesChanged"] == []
        assert pipe.finish() == 0
    assert texts(stage) == {"a": "1"}


def test_a_conversation_that_was_left(serve: Serve) -> None:
    """`/clear` begins another one: its prompts can be gone back to, those before it not."""
    stage = serve(*[Say.of(write("a", "1")), Say.of("Done.")], *[Say.of(write("b", "2")), Say.of("Done.")])
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    with stage.pipe(*FREE, env=ON) as pipe:
        pipe.initialize()
        pipe.turn("one", uuid=first)
        pipe.turn("/clear")
        pipe.turn("two", uuid=second)
        assert pipe.control("rewind_files", user_message_id=first)["subtype"] == "error"
        assert rewound(pipe, second)["filesChanged"] == [str(stage.folder / "b")]
        assert pipe.finish() == 0
    assert texts(stage) == {"a": "1"}


@pytest.mark.covers("O-02")
def test_who_does_not_ask_does_not_pay(serve: Serve) -> None:
    """Nothing of it is loaded, by the start or by a tool that edits."""
    stage = serve(Say.of(write("a", "1")), Say.of("Done."), Say.of(write("b", "1")), Say.of("Done."))
    parts = {"mainspring.agent.checkpoints", "mainspring.checkpoints.history"}
    assert loaded(stage, {}) & parts == set()
    assert loaded(stage, ON) & parts == parts
    assert set(texts(stage)) == {"a", "b"}


def loaded(stage: Stage, env: dict[str, str]) -> set[str]:
    flags = ["--input-format=stream-json", "--output-format=stream-json", "--verbose", *FREE]
    code = f"import sys; from mainspring.cli.main import main; main({flags!r}); sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=b'{"type":"user","message":{"role":"user","content":"go"}}\n',
        capture_output=True,
        cwd=stage.folder,
        env=dict(os.environ) | stage.environment | env,
        timeout=PATIENCE,
        check=True,
    )
    return set(done.stderr.decode().split())


def test_contents_that_are_not_at_hand(serve: Serve) -> None:
    """14.5: a store elsewhere gets the lines, and the contents stay on the machine. That is said, and nothing done."""
    stage = serve(Say.of(call("Read", file_path="f")), Say.of(write("f", "new")), Say.of("Done."))
    (stage.folder / "f").write_text("old")
    id = str(uuid.uuid4())
    with stage.pipe(*FREE, env=ON) as pipe:
        pipe.initialize()
        session = pipe.turn("go", uuid=id)["session_id"]
        assert pipe.finish() == 0
    for file in stage.home.glob("file-history/*/packs/*"):
        file.unlink()
    with stage.pipe(*FREE, "--resume", session, env=ON) as pipe:
        pipe.initialize()
        said = pipe.control("rewind_files", user_message_id=id)
        assert said["error"].startswith(
            f"Restored 0 files, but not '{stage.folder / 'f'}' (its content is not available"
        )
    assert texts(stage) == {"f": "new"}
