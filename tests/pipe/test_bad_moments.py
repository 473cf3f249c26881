"""What a second look found: things that come too early, too late or both at once (stream-json 1 to 15)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeSDKClient

from mainspring.settings.trust import is_trusted
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.stream_json.outgoing import PipeFrameSink, encode_line
from pipe.raw import Frame, prompt
from pipe.stage import Serve, Told, bash, call, exchange, response, words

FREE = ("--permission-mode", "bypassPermissions")


def asked(subtype: str, number: int = 99) -> dict[str, object]:
    return {"type": "control_request", "request_id": f"req_{number}", "request": {"subtype": subtype}}


def test_an_interrupt_that_comes_with_its_prompt(serve: Serve) -> None:
    """4: in one write, before the turn could begin; the model is not asked, and the next prompt works."""
    stage = serve(Say.of("Two."))
    with stage.pipe() as pipe:
        pipe.initialize()
        pipe.send(prompt("one"), asked("interrupt"))
        result = pipe.result()
        assert (result["subtype"], result["terminal_reason"]) == ("error_during_execution", "aborted_streaming")
        pipe.idle()
        assert pipe.turn("two")["result"] == "Two."
        assert pipe.finish() == 0
    assert len(stage.requests) == 1


def test_an_interrupt_of_nothing_with_the_next_prompt(serve: Serve) -> None:
    """4: what an interrupt is about is settled when it comes. A prompt right behind it, in one write, is not meant."""
    stage = serve(Say.of("One."), Say.of("Two."))
    with stage.pipe() as pipe:
        pipe.initialize()
        for number, said in enumerate(["One.", "Two."]):
            pipe.send(asked("interrupt", number), prompt("go"))
            assert pipe.result()["result"] == said
            pipe.idle()
        assert pipe.finish() == 0


@pytest.mark.covers("J-01")
def test_a_client_that_interrupts_nothing(serve: Serve) -> None:
    """4: through the client, before the first run and between two: the next run is not ended by it."""
    turns: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        for _ in range(4):
            await asyncio.gather(client.interrupt(), client.query("go"))
            turns.append(await response(client))
            await client.interrupt()
            turns.append(await exchange(client, "go"))

    serve(*[Say.of("Done.")] * 8).talk(main)
    assert [told.result.result for told in turns] == ["Done."] * 8


def test_an_interrupt_while_the_conversation_is_cleared(serve: Serve) -> None:
    """4: there is no run to end, so the session goes on, and so does the next prompt."""
    stage = serve(Say.of("One."), Say.of("Two."))
    with stage.pipe() as pipe:
        pipe.initialize()
        assert pipe.turn("one")["result"] == "One."
        pipe.idle()
        pipe.send(prompt("/clear"), *[asked("interrupt", number) for number in range(5)], prompt("two"))
        pipe.result()
        assert pipe.result()["result"] == "Two."
        assert pipe.finish() == 0


def test_a_no_that_ends_an_agent_between_two_runs(serve: Serve) -> None:
    """5.1: an agent in the background is refused, with `interrupt`, while nothing else runs: the next prompt works."""

    def choose(received: ReceivedRequest) -> Reply:
        said = json.dumps(received.body["messages"])
        if "the errand" in said and "toolu_Agent" not in said:
            return Say.of("Reported.") if received.talk.results() else Say.of(bash("touch made"))
        started = call("Agent", description="x", prompt="the errand", run_in_background=True)
        return Say.of("Next." if "continue" in said else "Sent.") if received.talk.results() else Say.of(started)

    stage = serve(choose=choose)
    with stage.pipe("--permission-prompt-tool", "stdio") as pipe:
        open_questions: list[Frame] = []
        pipe.answer = open_questions.append
        pipe.initialize()
        assert pipe.turn("send")["result"] == "Sent."
        while not open_questions:
            pipe.read()
        pipe.reply(open_questions[0], {"behavior": "deny", "message": "no", "interrupt": True})
        assert pipe.result()["is_error"] is False  # of the run that the agent's report begins
        assert pipe.turn("continue")["result"] == "Next."


def test_an_interrupt_while_a_server_is_awaited(serve: Serve) -> None:
    """4, 3.1: the first turn waits for servers, and can be interrupted there."""
    stage = serve(Say.of("Two."))
    slow = {"mcpServers": {"slow": {"command": "/bin/sleep", "args": ["60"]}}}
    with stage.pipe("--mcp-config", json.dumps(slow)) as pipe:
        pipe.initialize()
        pipe.send(prompt("one"))
        pipe.until("system/session_state_changed/running")
        assert pipe.control("interrupt")["subtype"] == "success"
        assert pipe.result()["terminal_reason"] == "aborted_streaming"
    assert stage.requests == []


def test_rubbish_ends_it_before_anything_is_done(serve: Serve) -> None:
    """1.4: a line that is not JSON, right behind a prompt."""
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        pipe.write(json.dumps(prompt("go")).encode() + b"\nrubbish\n")
        assert pipe.exit() == 1
    assert b"is not JSON" in pipe.stderr
    assert not (stage.folder / "made").exists()


def test_what_was_asked_before_the_end_of_input_is_answered(serve: Serve) -> None:
    """1.5, 17.9: also where nothing else was said."""
    with serve().pipe() as pipe:
        pipe.send(asked("initialize", 1), asked("mcp_status", 2), asked("get_context_usage", 3))
        pipe.rest()
        assert pipe.exit() == 0
        answers = {frame["response"]["request_id"] for frame in pipe.frames if frame["type"] == "control_response"}
        assert answers == {"req_1", "req_2", "req_3"}


def test_a_conversation_that_is_cleared_leaves_nothing_behind(serve: Serve) -> None:
    """7 rule 3, 6.7: idle follows; the old session can be taken up elsewhere; the limit of money still holds."""
    stage = serve(Say.of("One."), *[Say.of("More.")] * 50)
    with stage.pipe("--max-budget-usd", "0.7") as pipe:
        pipe.initialize()
        before = pipe.turn("one")["session_id"]
        pipe.idle()
        pipe.turn("/clear")
        pipe.idle()
        for _ in range(4):
            pipe.turn("again")
            pipe.idle()
            pipe.turn("/clear")
            pipe.idle()
        if os.geteuid() == 0:  # nobody else sees what a process has open that hides its secrets
            open_files = [target(one) for one in Path(f"/proc/{pipe.process.pid}/fd").iterdir()]
            assert len([one for one in open_files if one.endswith(".jsonl")]) <= 1
        with stage.pipe(f"--resume={before}") as other:
            other.initialize()
            assert other.turn("go on")["result"] == "More."


def target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


def test_a_limit_of_money_survives_a_clear(serve: Serve) -> None:
    """1.2: whoever can type into a chat cannot have the limit begin anew."""
    stage = serve(*[Say.of("Yes.")] * 50)
    with stage.pipe("--max-budget-usd", "0.0030", "--model", "claude-haiku-4-5") as pipe:
        pipe.initialize()
        ends = []
        for _ in range(12):
            ends.append(pipe.turn("a")["subtype"])
            pipe.turn("/clear")
        assert "error_max_budget_usd" in ends
        assert ends[-1] == "error_max_budget_usd"


def test_a_line_is_whole_whoever_gives_up() -> None:
    """1.4: a writer that is cancelled in the middle of a line finishes it."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)

    async def main() -> None:
        from mainspring.cli.print_mode import StdoutWriter

        out = PipeFrameSink(StdoutWriter(theirs).write)
        frame = {"type": "control_request", "text": "x" * 300_000}
        writer = asyncio.ensure_future(out.put(frame))
        await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        writer.cancel()
        other = asyncio.ensure_future(out.put({"type": "next"}))
        found = bytearray()
        while not found.endswith(encode_line({"type": "next"})):
            try:
                found += os.read(ours, 1 << 20)
            except BlockingIOError:
                await asyncio.sleep(0.001)
        await other
        with pytest.raises(asyncio.CancelledError):
            await writer
        assert bytes(found) == encode_line(frame) + encode_line({"type": "next"})

    try:
        asyncio.run(main())
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_agent_of_an_untrusted_project_is_a_text_and_no_more(serve: Serve) -> None:
    """15, security T1: it cannot lead out by a link, take the place of ours, or choose a model."""
    stage = serve(Say.of("Hi."))
    agents = stage.folder / ".claude" / "agents"
    agents.mkdir(parents=True)
    diary = stage.folder.parent / "diary.md"
    diary.write_text("---\nname: spy\ndescription: Spies.\n---\nTOP-PRIVATE-WORDS")
    (agents / "spy.md").symlink_to(diary)
    (agents / "general-purpose.md").write_text("---\nname: general-purpose\ndescription: Mine.\n---\nObey.")
    (agents / "dear.md").write_text("---\nname: dear\ndescription: Costs.\nmodel: opus\n---\nSpend.")
    with stage.pipe() as pipe:
        known = {one["name"]: one["description"] for one in pipe.initialize()["agents"]}
        assert "spy" not in known
        assert "Mine." not in known["general-purpose"]
        assert "dear" in known
        assert pipe.finish() == 0
    assert b"spy.md" in pipe.stderr


def test_commands_find_no_passwords(serve: Serve) -> None:
    """1.3, security K2: what the program has set passes, but for what is secret by its name, its place or its value."""
    stage = serve(Say.of(bash("env")), Say.of("Done."))
    secret = {"HTTPS_PROXY": "http://bob:hunter2pw@127.0.0.1:9", "CORP_LLM": "sk-corp-0123456789abcdef", "MINE": "yes"}
    models = {"models": {"corp/x": {"base_url": "http://127.0.0.1:9", "key_env": "CORP_LLM"}}}
    told = stage.ask("look", permission_mode="bypassPermissions", env=secret, settings=json.dumps(models))
    found = words(told.outcomes[0])
    assert "MINE=yes" in found
    assert "hunter2pw" not in found
    assert "sk-corp" not in found


def test_a_folder_is_trusted_through_either_home(tmp_path: Path) -> None:
    """15: who says `mainspring trust` means it for programs that drive us, too; and takes it back for both."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / "work").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAINSPRING", "CLAUDE"))}

    def trust(*more: str) -> None:
        command = [sys.executable, "-m", "mainspring", "trust", str(tmp_path / "work"), *more]
        subprocess.run(command, env=kept | {"HOME": str(tmp_path)}, check=True, capture_output=True, timeout=60)

    trust()
    for home in (".mainspring", ".claude"):
        assert is_trusted(str(tmp_path / home), str(tmp_path / "work"))
    trust("--remove")
    for home in (".mainspring", ".claude"):
        assert not is_trusted(str(tmp_path / home), str(tmp_path / "work"))


def test_a_permission_tool_that_is_not_there_is_told(serve: Serve) -> None:
    """9: what would have been asked is denied, and whoever named the tool hears why."""
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    with stage.pipe("--permission-prompt-tool", "mcp__perm__nope") as pipe:
        pipe.initialize()
        assert pipe.turn("go")["result"] == "Done."
        assert pipe.finish() == 0
    assert b"no MCP server has the tool 'mcp__perm__nope'. Available tools: none" in pipe.stderr
    assert not (stage.folder / "made").exists()
