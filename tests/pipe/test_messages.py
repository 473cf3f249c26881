"""The frames a caller sees: `init`, replies, tool results, pieces. See stream-json 6.1 to 6.3, 6.5 and 6.7."""

from __future__ import annotations

import json
import uuid

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    ThinkingBlock,
    ToolUseBlock,
    UserMessage,
    get_session_messages,
)

from mainspring.core.money import Usage
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from pipe.raw import prompt
from pipe.stage import Serve, bash, call, words

THOUGHT = {"type": "thinking", "thinking": "Let me think."}
INIT = {
    "cwd": str,
    "tools": list,
    "mcp_servers": list,
    "model": str,
    "permissionMode": str,
    "apiKeySource": str,
    "claude_code_version": str,
    "output_style": str,
    "slash_commands": list,
    "agents": list,
    "skills": list,
    "plugins": list,
}


@pytest.mark.covers("M-02", "M-04", "O-06")
def test_the_frames_of_a_turn_with_a_tool(serve: Serve) -> None:
    """6.1 to 6.4, 17.12: every key that the client and its callers read; blocks of one reply share its id."""
    stage = serve(Say.of(THOUGHT, "Look.", bash("echo hello")), Say.of("Done."))
    told = stage.ask("say hello", model="claude-opus-5", allowed_tools=["Bash"])
    assert [type(message) for message in told.messages if not isinstance(message, SystemMessage)] == [
        *[AssistantMessage] * 3,
        UserMessage,
        AssistantMessage,
        ResultMessage,
    ]
    assert isinstance(told.messages[0], SystemMessage)
    assert {name for name, kind in INIT.items() if not isinstance(told.init.get(name), kind)} == set()
    assert (told.init["permissionMode"], told.init["apiKeySource"]) == ("default", "ANTHROPIC_API_KEY")
    assert [int(part) for part in told.init["claude_code_version"].split(".")[:3]] >= [2, 1, 265]
    assert {"compact", "clear"} <= set(told.init["slash_commands"])
    thought, look, use, done = told.of(AssistantMessage)
    assert isinstance(thought.content[0], ThinkingBlock)
    assert (thought.content[0].thinking, thought.content[0].signature != "") == ("Let me think.", True)
    assert isinstance(use.content[0], ToolUseBlock)
    assert (use.content[0].id, use.content[0].name, use.content[0].input) == (
        "toolu_Bash",
        "Bash",
        {"command": "echo hello"},
    )
    assert thought.message_id == look.message_id == use.message_id != done.message_id
    assert {message.model for message in told.of(AssistantMessage)} == {"claude-opus-5"}
    assert {message.parent_tool_use_id for message in told.of(AssistantMessage)} == {None}
    [outcome] = told.of(UserMessage)
    assert (told.outcomes[0].tool_use_id, bool(told.outcomes[0].is_error)) == ("toolu_Bash", False)
    assert "hello" in words(told.outcomes[0])
    assert isinstance(outcome.tool_use_result, dict)
    assert outcome.tool_use_result["stdout"].strip() == "hello"


def test_ids_and_prices_on_the_wire(serve: Serve) -> None:
    """2, 6.2: `session_id` and a fresh `uuid` on every message frame; usage of `message_start`; no stop reason yet."""
    stage = serve(Say.of("Look.", bash("echo hello")), Say.of("Done."))
    with stage.pipe("--allowedTools", "Bash", "--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.turn("hello")
        pipe.idle()
        assert pipe.finish() == 0
    messages = [
        frame for frame in pipe.frames if frame["type"] in ("assistant", "user", "system", "result", "stream_event")
    ]
    assert {frame["session_id"] for frame in messages} == {pipe.of("result")[0]["session_id"]}
    ids = [frame["uuid"] for frame in messages]
    assert len(ids) == len(set(ids))
    assert all(str(uuid.UUID(id)) == id for id in ids)
    for frame in pipe.of("assistant"):
        assert (frame["message"]["role"], frame["message"]["type"]) == ("assistant", "message")
        assert frame["message"]["stop_reason"] is None
        assert frame["message"]["usage"]["input_tokens"] == 100
        assert frame["parent_tool_use_id"] is None


def test_a_thought_without_a_signature(serve: Serve) -> None:
    """6.2, 17.15: it would crash the parser; `""` stands in its place."""
    stage = serve(Say.of({**THOUGHT, "signature": ""}, "Done."))
    told = stage.ask("think", model="claude-opus-5")
    assert told.error is None
    assert told.result.result == "Done."


def test_a_tool_that_fails(serve: Serve) -> None:
    """6.3, 8: an error result, with a text as `tool_use_result`; the loop goes on."""
    stage = serve(Say.of(bash("echo oops >&2; exit 3")), Say.of("Oh."))
    told = stage.ask("fail", permission_mode="bypassPermissions")
    [block] = told.outcomes
    assert (block.is_error, "oops" in words(block)) == (True, True)
    assert str(told.of(UserMessage)[0].tool_use_result).startswith("Error")
    assert told.result.result == "Oh."


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refuse(401, "authentication_error", "invalid x-api-key"), "authentication_failed"),
        (Refuse(403, "permission_error", "no"), ""),
        (Refuse(404, "not_found_error", "model: claude-none"), "model_not_found"),
    ],
    ids=["401", "403", "404"],
)
def test_a_model_that_cannot_be_reached(refusal: Refuse, error: str, serve: Serve) -> None:
    """6.2, 6.4, 17.7: one synthetic reply with `error`; `success` with `is_error`, its prose in `result`, exit 1."""
    stage = serve(*[refusal] * 20)
    told = stage.ask("hello")
    [reply] = told.of(AssistantMessage)
    assert (reply.model, reply.error is not None) == ("<synthetic>", True)
    assert error in str(reply.error)
    result = told.result
    assert (result.subtype, result.is_error, result.terminal_reason) == ("success", True, "api_error")
    assert (result.api_error_status, result.result, result.errors or []) == (refusal.status, told.texts[0], [])
    assert type(told.error).__name__ == "ResultError"
    assert told.texts[0] in str(told.error)


# --- pieces -----------------------------------------------------------------------------------------


@pytest.mark.covers("M-18")
def test_pieces(serve: Serve) -> None:
    """6.5: every event of the model's stream, in order; a block's frame behind its last delta, before its stop."""
    stage = serve(Say.of(THOUGHT, "One two three four.", bash("echo hello")), Say.of("Done."))
    told = stage.ask("say", model="claude-opus-5", allowed_tools=["Bash"], include_partial_messages=True)
    first = told.messages[: next(n for n, message in enumerate(told.messages) if isinstance(message, UserMessage))]
    shown: list[str] = []
    for message in first:
        name = message.event["type"] if isinstance(message, StreamEvent) else type(message).__name__
        if name not in ("ping", "SystemMessage", *shown[-1:]):
            shown.append(name)
    block = ["content_block_start", "content_block_delta", "AssistantMessage", "content_block_stop"]
    shown = [name for name in shown if name not in ("ToolProgressMessage", "TurnMessage")]  # of our own library
    assert shown == ["message_start", *block * 3, "message_delta", "message_stop"]
    deltas = [
        message.event["delta"] for message in told.of(StreamEvent) if message.event["type"] == "content_block_delta"
    ]
    assert "".join(delta.get("text", "") for delta in deltas) == "One two three four.Done."
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Let me think."
    assert "".join(delta.get("partial_json", "") for delta in deltas) == '{"command":"echo hello"}'
    assert all(message.uuid and message.session_id for message in told.of(StreamEvent))


def test_pieces_come_at_once(serve: Serve) -> None:
    """6.5: the first piece is out long before the reply is complete."""
    stage = serve(Say.of("One two three four five six seven eight.", pace_ms=150))
    with stage.pipe("--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.send(prompt("speak"))
        pipe.until(lambda frame: "text_delta" in json.dumps(frame))
        assert stage.server.open_connections == 1
        assert "assistant" not in pipe.kinds
        assert pipe.result()["result"].startswith("One two")


ONLY_SUMMARIES = {"features": dict.fromkeys(("snip", "microcompact", "collapse"), False)}


@pytest.mark.covers("D-35", "D-25")
@pytest.mark.of_the_pipe  # by a flag that our library does not take
@pytest.mark.parametrize("counts", [True, False], ids=["real counts", "the same count always"])
def test_a_boundary_for_each_summary_with_the_sizes_that_the_server_counts(serve: Serve, counts: bool) -> None:
    """Reads under a small window. Each summary is one boundary between two requests, for the client and on disk."""

    def choose(received: ReceivedRequest) -> Reply:
        usage = Usage(input=count_tokens(received), output=20) if counts else None
        if is_summary(received):
            return Say.of("## Task\nread all", usage=usage)
        seen = max([int(block["id"].split("_")[-1]) for block in received.talk.blocks("tool_use")], default=0)
        if seen == 20:
            return Say.of("All read.", usage=usage)
        return Say.of(call("Read", f"read_{seen + 1}", file_path=f"{seen + 1}.txt"), usage=usage)

    def count_tokens(received: ReceivedRequest) -> int:
        return len(received.raw) // 4

    def is_summary(received: ReceivedRequest) -> bool:
        return "has become too long and will be cut here" in received.talk.prompt

    stage = serve(choose=choose)
    for n in range(1, 21):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    flags = {"context-window": "40000", "settings": json.dumps(ONLY_SUMMARIES)}
    told = stage.ask("read all", extra_args=flags)
    assert (told.error, told.result.result) == (None, "All read.")
    places = [number for number, request in enumerate(stage.requests) if is_summary(request)]
    sizes = [boundary["compact_metadata"] for boundary in told.system("compact_boundary")]
    assert len(sizes) == len(places) >= 1
    for place, size in zip(places, sizes, strict=True):
        before, after = count_tokens(stage.requests[place - 1]), count_tokens(stage.requests[place + 1])
        assert size["trigger"] == "auto"
        assert size["pre_tokens"] - size["post_tokens"] == size["freed"] > 0
        assert size["post_tokens"] > after * (0.8 if counts else 0.2)
        if counts:  # the last result is in none of these requests, and estimates err high
            assert before < size["pre_tokens"] < before * 1.3
            assert size["post_tokens"] < after * 1.5
    kinds = [message.subtype for message in told.of(SystemMessage)]
    at = kinds.index("compact_boundary")
    assert (kinds[at - 1], kinds[at + 1]) == ("status", "status")
    written = [line["compactMetadata"] for line in stage.lines() if line.get("subtype") == "compact_boundary"]
    assert [line["preTokens"] for line in written] == [size["pre_tokens"] for size in sizes]


@pytest.mark.covers("D-35", "M-03")
@pytest.mark.of_the_pipe  # by a flag that our library does not take
def test_layers_of_the_context_are_no_boundaries_for_the_client(serve: Serve) -> None:
    """Many reads under a small window. The client takes our frames for what they are, and reads the session alike."""
    reads = [Say.of(f"Look {n}.", call("Read", f"toolu_{n}", file_path=f"{n}.txt")) for n in range(30)]
    stage = serve(*reads, Say.of("All read."))
    for n in range(30):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    told = stage.ask("read all", extra_args={"context-window": "40000"})
    assert (told.result.subtype, told.result.result) == ("success", "All read.")
    kinds = [message.subtype for message in told.of(SystemMessage)]
    assert kinds[0] == "init"
    edits = told.system("mainspring_context_edit")
    assert edits
    assert all(edit["freed_tokens"] > 0 for edit in edits)
    boundaries = told.system("compact_boundary")
    assert all(boundary["compact_metadata"]["pre_tokens"] > 0 for boundary in boundaries)
    written = [line for line in stage.lines() if line.get("subtype") == "compact_boundary"]
    assert len(written) == len(boundaries)
    assert all(line["compactMetadata"]["preTokens"] > 0 for line in written)
    said = get_session_messages(told.result.session_id, directory=str(stage.folder))
    assert "read all" in str(said[0].message) or boundaries


@pytest.mark.covers("D-36")
def test_a_compaction_of_one_exchange_and_of_nothing(serve: Serve) -> None:
    stage = serve(Say.of("Hello."), Say.of("The user said hello."), Say.of("The next answer."))
    with stage.pipe() as pipe:
        pipe.initialize()
        nothing = pipe.turn("/compact")
        assert (nothing["is_error"], nothing["errors"]) == (True, ["The conversation was not compacted: it is empty"])
        pipe.turn("hi")
        result = pipe.turn("/compact")
        assert (result["subtype"], result["is_error"]) == ("success", False)
        assert len(pipe.of("system/compact_boundary")) == 1
        again = pipe.turn("/compact")
        assert "there is nothing new since the last summary" in again["errors"][0]
        assert pipe.turn("the second question")["result"] == "The next answer."
        assert pipe.finish() == 0
    assert "The user said hello." in stage.said(-1)
    assert len(stage.requests) == 3


# --- local commands ---------------------------------------------------------------------------------


@pytest.mark.covers("M-03", "O-03")
def test_compaction(serve: Serve) -> None:
    """6.4, 6.7, 14.2: `/compact` has no model turns; `compacting`, the boundary, `null`; the old talk is gone."""
    long = Say.of("The first answer. " * 2_000)  # short talks are not worth a summary
    stage = serve(long, Say.of("Yes."), Say.of("A summary of it."), Say.of("The next answer."))
    with stage.pipe() as pipe:
        pipe.initialize()
        pipe.turn("the first question")
        pipe.turn("really?")
        result = pipe.turn("/compact keep the names")
        assert (result["subtype"], result["is_error"], result["num_turns"]) == ("success", False, 0)
        [boundary] = pipe.of("system/compact_boundary")
        assert boundary["compact_metadata"]["trigger"] == "manual"
        assert isinstance(boundary["compact_metadata"]["pre_tokens"], int)
        states = [frame["status"] for frame in pipe.of("system/status")]
        assert states[:1] == ["compacting"]
        assert states[-1] is None
        assert pipe.turn("the second question")["result"] == "The next answer."
        assert pipe.finish() == 0
    assert "keep the names" in stage.said(2)
    assert "The first answer." not in stage.said(-1)
    assert "A summary of it." in stage.said(-1)
    lines = stage.lines()
    [cut] = [line for line in lines if line.get("subtype") == "compact_boundary"]
    assert (cut["parentUuid"], cut["logicalParentUuid"] is not None) == (None, True)
    [summary] = [line for line in lines if line.get("isCompactSummary")]
    assert summary["parentUuid"] == cut["uuid"]


@pytest.mark.covers("O-03")
def test_clearing(serve: Serve) -> None:
    """6.4, 6.7: `/clear` prints `conversation_reset` with the old id; later frames have a new one; cost is zeroed."""
    stage = serve(Say.of("One."), Say.of("Two."))
    with stage.pipe() as pipe:
        pipe.initialize()
        first = pipe.turn("the first question")
        cleared = pipe.turn("/clear")
        [reset] = pipe.of("conversation_reset")
        second = pipe.turn("the second question")
        assert pipe.finish() == 0
    assert (cleared["subtype"], cleared["num_turns"], cleared["is_error"]) == ("success", 0, False)
    assert reset["session_id"] == first["session_id"] != second["session_id"]
    assert reset["new_conversation_id"]
    assert second["total_cost_usd"] == pytest.approx(first["total_cost_usd"])
    assert "the first question" not in stage.said(1)


# --- what few rely on -------------------------------------------------------------------------------


def test_a_denial_without_a_question_is_told(serve: Serve) -> None:
    """6.7 [O], 9: `permission_denied` before the error result."""
    stage = serve(Say.of(bash("touch made")), Say.of("Oh."))
    told = stage.ask("make")
    [denied] = told.system("permission_denied")
    assert (denied["tool_name"], denied["tool_use_id"]) == ("Bash", "toolu_Bash")
    assert told.outcomes[0].is_error


@pytest.mark.covers("M-17", "G-17")
def test_a_retry_is_told(serve: Serve) -> None:
    """6.7 [O]: `api_retry` with its attempt and status."""
    stage = serve(Refuse(529, "overloaded_error", "Overloaded"), Say.of("Hi."))
    told = stage.ask("hello")
    assert told.result.result == "Hi."
    [retry] = told.system("api_retry")
    assert (retry["attempt"], retry["error_status"]) == (1, 529)
    assert retry["max_retries"] >= 1
    assert retry["retry_delay_ms"] >= 0


def test_calls_that_cannot_be_made(serve: Serve) -> None:
    """8: a tool that does not exist, one that is disabled, an input that is wrong: error results, and it goes on."""
    stage = serve(
        Say.of(call("NoSuchTool", x=1), call("Write", file_path="a", content="x"), call("Read", path="wrong")),
        Say.of("Oh."),
    )
    told = stage.ask("try", disallowed_tools=["Write"])
    assert [block.is_error for block in told.outcomes] == [True] * 3
    assert (told.result.result, told.error) == ("Oh.", None)
    assert told.result.num_turns >= 2
