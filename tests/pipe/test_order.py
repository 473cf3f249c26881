"""Order and the life of a run: states, queued prompts, interrupts. See stream-json 7."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, ClaudeSDKClient, HookMatcher, StreamEvent, ToolUseBlock
from cli.stage import until

from mainspring.simulator.replies import Say
from pipe.raw import Frame, Pipe, alive, blocks_of, prompt
from pipe.stage import Serve, Told, bash, exchange, response

STATE = "system/session_state_changed"
FREE = ("--permission-mode", "bypassPermissions")
LONG = "One two three four five six seven eight nine ten eleven twelve thirteen."


def shown(pipe: Pipe) -> list[str]:
    """Without frames that few rely on: those may come at any time."""
    known = ("system/init", STATE, "assistant", "user", "result", "control")
    return [each for each in pipe.kinds if each.startswith(known)]


def texts(pipe: Pipe) -> list[str]:
    """What users said: not results."""
    return [block["text"] for frame in pipe.of("user") for block in blocks_of(frame) if block["type"] == "text"]


def test_one_prompt_with_one_call(serve: Serve) -> None:
    """7 rules 1 to 3: the order of the contract, frame by frame."""
    stage = serve(Say.of("Look.", bash("echo hello")), Say.of("Done."))
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        pipe.send(prompt("hello"))
        pipe.idle()
        assert pipe.finish() == 0
    assert shown(pipe) == [
        "control_response",
        f"{STATE}/running",
        "system/init",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "result",
        f"{STATE}/idle",
    ]


def test_states_only_for_who_asks(serve: Serve) -> None:
    """7 rule 3: only if the client reads them; marked so that it drops them. 1.3 [O]: a caller may ask to see them."""
    stage = serve(*[Say.of("Hi.")] * 3)
    assert stage.ask("hello").system("session_state_changed") == []
    seen = stage.ask("hello", env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}).system("session_state_changed")
    assert [frame["state"] for frame in seen] == ["running", "idle"]
    with stage.pipe(env={"CLAUDE_CODE_SDK_READS_SESSION_STATE": ""}) as pipe:
        pipe.initialize()
        pipe.turn("hello")
        assert pipe.finish() == 0
    assert STATE not in " ".join(pipe.kinds)
    assert "transcript_mirror" not in pipe.kinds  # 14.5: nor that, unless asked


@pytest.mark.covers("O-04")
def test_prompts_that_come_during_a_turn(serve: Serve) -> None:
    """7 rules 3 and 5: none is lost; `idle` comes once, when no turn is owed."""
    stage = serve(Say.of(bash("touch began; sleep 0.3")), *[Say.of("Hi.")] * 4)
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        pipe.send(prompt("the first"))
        until((stage.folder / "began").exists)
        pipe.send(prompt("the second"), prompt("the third"))
        pipe.idle()
        assert pipe.finish() == 0
    assert all(text in stage.said(-1) for text in ("the first", "the second", "the third"))
    assert stage.said(-1).index("the second") < stage.said(-1).index("the third")
    assert shown(pipe).count(f"{STATE}/idle") == 1
    assert len(pipe.of("system/init")) == len(pipe.of("result"))


def test_hooks_of_a_second_streamed_prompt_find_the_channel_open(serve: Serve) -> None:
    """7 rule 4, 17.6: the client closes our input at the `idle` behind the last prompt, no sooner and no later."""
    stage = serve(Say.of("One."), Say.of("Two."))
    heard: list[str] = []

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        heard.append(input["prompt"])
        return {}

    async def prompts() -> Any:
        yield prompt("the first")
        await asyncio.to_thread(stage.until, lambda: len(stage.requests) == 1)
        yield prompt("the second")

    told = stage.ask(prompts(), hooks={"UserPromptSubmit": [HookMatcher(hooks=[hook])]})
    assert heard == ["the first", "the second"]
    assert told.error is None
    assert "the second" in stage.said(-1)


# --- interrupts -------------------------------------------------------------------------------------


@pytest.mark.covers("J-01", "J-07")
def test_interrupted_while_the_model_speaks(serve: Serve) -> None:
    """7 rule 7: answer, partial text, the user's word, result, `idle`; the next prompt works."""
    stage = serve(Say.of(LONG, pace_ms=100), Say.of("Again."))
    with stage.pipe("--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.send(prompt("speak"))
        pipe.until(lambda frame: "text_delta" in json.dumps(frame))
        began = len(pipe.frames)
        assert pipe.control("interrupt")["subtype"] == "success"
        result = pipe.result()
        pipe.idle()
        order = [each for each in shown_from(pipe, began) if each != "stream_event"]
        assert order == ["control_response", "assistant", "user", "result", f"{STATE}/idle"]
        assert texts(pipe)[-1] == "[Request interrupted by user]"
        assert outcome(result) == ("error_during_execution", True, "aborted_streaming")
        assert result["errors"]
        assert "result" not in result
        assert pipe.turn("again")["result"] == "Again."
        assert pipe.finish() == 0
    stage.until(lambda: stage.server.aborted == 1)
    assert "[Request interrupted by user]" in stage.said(-1)
    assert "One two" in stage.said(-1)


@pytest.mark.covers("J-01", "J-06")
def test_interrupted_in_tools(serve: Serve) -> None:
    """7 rule 7: commands are killed, every open call has its error result, then the user's word; it goes on."""
    stage = serve(
        Say.of(bash("touch began; sleep 61.625", "a"), bash("touch never", "b"), bash("touch never", "c")),
        Say.of("Again."),
    )
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        pipe.send(prompt("wait"))
        until(lambda: (stage.folder / "began").exists() and alive("61.625"))
        began = len(pipe.frames)
        assert pipe.control("interrupt")["subtype"] == "success"
        result = pipe.result()
        pipe.idle()
        assert shown_from(pipe, began)[-2:] == ["result", f"{STATE}/idle"]
        assert {block["tool_use_id"]: block["is_error"] for block in pipe.outcomes} == {
            "toolu_a": True,
            "toolu_b": True,
            "toolu_c": True,
        }
        assert texts(pipe)[-1] == "[Request interrupted by user for tool use]"
        assert outcome(result) == ("error_during_execution", True, "aborted_tools")
        assert pipe.turn("again")["result"] == "Again."
        assert pipe.finish() == 0
    assert not (stage.folder / "never").exists()
    until(lambda: not alive("61.625"))


@pytest.mark.covers("J-01")
def test_interrupted_by_the_client(serve: Serve) -> None:
    """4, 7 rule 7: `client.interrupt()` returns, the turn ends, the session goes on; a run that ended so exits 1."""
    stage = serve(Say.of(LONG, pace_ms=100), Say.of(bash("touch began; sleep 60")), Say.of("Again."))
    turns: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("speak")
        async for message in client.receive_messages():
            if isinstance(message, StreamEvent):
                break
        await client.interrupt()
        turns.append(await response(client))
        await client.query("wait")
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage) and isinstance(message.content[0], ToolUseBlock):
                break
        await client.interrupt()
        turns.append(await response(client))
        turns.append(await exchange(client, "again"))

    stage.talk(main, permission_mode="bypassPermissions", include_partial_messages=True)
    assert [told.result.terminal_reason for told in turns] == ["aborted_streaming", "aborted_tools", "completed"]
    assert turns[-1].result.result == "Again."


def test_an_interrupt_leaves_what_is_queued(serve: Serve) -> None:
    """7 rule 5, 4: a prompt that waits behind the interrupted turn is not lost."""
    stage = serve(Say.of(LONG, pace_ms=100), Say.of("Again."))
    with stage.pipe("--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.send(prompt("speak"))
        pipe.until("stream_event")
        pipe.send(prompt("the second"))
        pipe.control("interrupt")
        pipe.idle()
        assert pipe.finish() == 0
    assert "the second" in stage.said(-1)
    assert pipe.of("result")[-1]["result"] == "Again."


def test_the_exit_status_of_an_interrupted_run(serve: Serve) -> None:
    """6.4, 1.5: 1, as the last result was an error."""
    stage = serve(Say.of(LONG, pace_ms=100))
    with stage.pipe("--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.send(prompt("speak"))
        pipe.until("stream_event")
        pipe.control("interrupt")
        pipe.result()
        late = [frame for frame in pipe.rest() if not frame["type"].startswith(("control", "transcript"))]
        assert pipe.exit() == 1
    assert [frame.get("subtype") for frame in late] == ["session_state_changed"]  # 17.8: nothing else behind an error


def shown_from(pipe: Pipe, began: int) -> list[str]:
    return [
        each
        for each in pipe.kinds[began:]
        if not each.startswith(("system/s", "system/t", "system/b")) or STATE in each
    ]


def outcome(result: Frame) -> tuple[str, bool, str]:
    return result["subtype"], result["is_error"], result["terminal_reason"]
