"""Updates as frames of stream-json: in single cases, and for hundreds of random sessions."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from claude_agent_sdk._internal.message_parser import parse_message
from msgspec.structs import replace

from mainspring import stream_json
from mainspring.agent.results import ROWS, make_outcome
from mainspring.agent.session_parts import SessionInfo
from mainspring.agent.updates import PromptQueued
from mainspring.agent.usage import UsageMeter
from mainspring.core.config import Config
from mainspring.core.events import StopDecision
from mainspring.core.messages import RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall, User, user
from mainspring.core.models import MODELS
from mainspring.core.reasons import AbortReason, Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.updates import (
    AgentStarted,
    AgentUpdate,
    Boundary,
    MaxTurnsReached,
    PrefixBroken,
    RequestStarted,
    Result,
    Retrying,
    Update,
)
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import Ledger
from mainspring.providers.base import Retry
from mainspring.stream_json.frames import PROTOCOL, FrameEncoder
from mainspring.stream_json.outgoing import MOST, encode_line
from mainspring.testing import Break, World, call, fails, says, virtually
from mainspring.testing.play import RandomWorld, random_config

Frame = dict[str, Any]

MODEL = MODELS["claude-haiku-4-5"]
SMALL = MODELS["claude-sonnet-4-5"]
ABOUT = SessionInfo("5e55105e-0000-4000-8000-000000000000", "/work", MODEL, ("Read", "Bash"))


async def frames_of(
    world: World,
    *prompts: str,
    config: Config = Config(model=MODEL),  # noqa: B008  # frozen
    interrupt_at: int | None = None,
    partial: bool = False,
    replay: bool = False,
    ledger: Ledger | None = None,
) -> list[Frame]:
    """As a reader of the lines gets them; `interrupt_at` counts updates."""
    session = EngineSession(world, config, ledger=ledger)
    usage = UsageMeter(config.model, world.now)
    frames = FrameEncoder(
        replace_about(config), usage, new_id=world.new_id, now=world.now, partial=partial, replay=replay
    )
    lines: list[bytes] = []
    for prompt in prompts or ("go",):
        said = User((Text(prompt),), id=world.new_id())
        lines += [encode_line(frame) for frame in frames.opening(said)]
        usage.begin()
        async with session.run((said,), deltas=partial) as run:
            seen = 0
            async for update in run:
                usage.observe(update)
                lines += [encode_line(frame) for frame in frames.of(update)]
                seen += 1
                if seen == interrupt_at:
                    run.interrupt(AbortReason.HARD)
    assert all(len(each) <= MOST + 1 and each.count(b"\n") == 1 for each in lines)
    return [json.loads(each) for each in lines]


def replace_about(config: Config) -> SessionInfo:
    return replace(ABOUT, model=config.model)


def play(world: World, *prompts: str, **how: Any) -> list[Frame]:
    """Without the marks between turns, which have tests of their own."""
    return [frame for frame in play_all(world, *prompts, **how) if frame.get("subtype") != "mainspring_turn"]


def play_all(world: World, *prompts: str, **how: Any) -> list[Frame]:
    return virtually(frames_of(world, *prompts, **how))


def kinds(frames: list[Frame]) -> list[str]:
    return [kind(frame) for frame in frames]


def kind(frame: Frame) -> str:
    match frame:
        case {"type": "stream_event", "event": {"type": what}}:
            return f"event {what}"
        case {"type": "assistant", "message": {"content": [{"type": what}]}}:
            return f"assistant {what}"
        case {"type": "user", "message": {"content": [{"type": what}]}}:
            return f"user {what}"
        case {"subtype": what}:
            return f"{frame['type']} {what}"
        case _:
            return str(frame["type"])


# --- one run ----------------------------------------------------------------------------------------


@pytest.mark.covers("O-02")
def test_a_run_with_a_tool_call() -> None:
    world = World([says("Let me look.", call("Read", "toolu_1", text="hello")), says("Done.")])
    frames = play(world)
    assert kinds(frames) == [
        "system init",
        "assistant text",
        "assistant tool_use",
        "user tool_result",
        "assistant text",
        "result success",
    ]
    init, text, tool_use, tool_result, _, result = frames
    assert {name: init[name] for name in ("cwd", "tools", "model", "permissionMode", "apiKeySource")} == {
        "cwd": "/work",
        "tools": ["Read", "Bash"],
        "model": MODEL.name,
        "permissionMode": "default",
        "apiKeySource": "none",
    }
    assert init["claude_code_version"] == PROTOCOL
    promised = {"mcp_servers", "output_style", "slash_commands", "agents", "skills", "plugins", "mainspring_version"}
    assert promised <= init.keys()
    assert text["message"]["id"] == tool_use["message"]["id"]
    assert text["message"]["usage"]["input_tokens"] == 100
    assert (text["message"]["stop_reason"], text["parent_tool_use_id"]) == (None, None)
    assert tool_use["message"]["content"][0] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Read",
        "input": {"text": "hello"},
    }
    assert tool_result["message"] == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "hello", "is_error": False}],
    }
    assert {name: result[name] for name in ("is_error", "num_turns", "result", "stop_reason", "terminal_reason")} == {
        "is_error": False,
        "num_turns": 2,
        "result": "Done.",
        "stop_reason": "end_turn",
        "terminal_reason": "completed",
    }
    assert result["usage"]["input_tokens"] == 200
    assert result["modelUsage"][MODEL.name]["outputTokens"] == 40
    assert result["modelUsage"][MODEL.name]["contextWindow"] == MODEL.window
    assert result["total_cost_usd"] == pytest.approx((200 * 1 + 40 * 5) / 1e6)
    assert result["permission_denials"] == []
    assert "errors" not in result


def test_the_uuid_of_a_frame_is_the_id_in_the_journal() -> None:
    world = World([says("One.", "Two.", call("Read")), says("Done.")])
    frames = play(world)
    ids = {frame["uuid"] for frame in frames}
    journaled = [record for record in world.journal.records if type(record).__name__ == "OutcomeRecord"]  # type: ignore[attr-defined]
    assert len(ids) == len(frames)
    assert {record.result.id for record in journaled} <= ids
    replies = {r.reply_id for r in world.journal.records if type(r).__name__ == "BlockRecord"}  # type: ignore[attr-defined]
    assert replies <= ids


def test_partial_messages_are_the_stream_as_the_api_has_it() -> None:
    blocks = (Thinking("hm", "sig"), Text("Hello, you there."), RedactedThinking("xx"))
    server = ServerBlock("server_tool_use", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}')
    frames = play(World([says(*blocks, server, call("Edit", "t1", a=1)), says("Done.")]), partial=True)
    assert kinds(frames[:-1])[1:25] == [
        "event message_start",
        "event content_block_start",
        "event content_block_delta",
        "event content_block_delta",  # the signature
        "assistant thinking",
        "event content_block_stop",
        "event content_block_start",
        "event content_block_delta",
        "event content_block_delta",
        "assistant text",
        "event content_block_stop",
        "event content_block_start",
        "assistant redacted_thinking",
        "event content_block_stop",
        "event content_block_start",
        "assistant server_tool_use",
        "event content_block_stop",
        "event content_block_start",
        "event content_block_delta",
        "assistant tool_use",
        "event content_block_stop",
        "event message_delta",
        "event message_stop",
        "user tool_result",
    ]
    deltas = [frame["event"]["delta"] for frame in frames if kind(frame) == "event content_block_delta"]
    assert deltas[:5] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "sig"},
        {"type": "text_delta", "text": "Hello, you t"},
        {"type": "text_delta", "text": "here."},
        {"type": "input_json_delta", "partial_json": '{"a":1}'},
    ]
    [ends] = [frame["event"] for frame in frames[:25] if kind(frame) == "event message_delta"]
    assert ends["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert ends["usage"]["output_tokens"] == 20


def test_without_the_flag_there_are_no_stream_events() -> None:
    assert not [name for name in kinds(play(World([says("Hi.")]))) if name.startswith("event")]


def test_a_failure_of_the_api_is_a_success_with_an_error() -> None:
    """The one outcome whose name surprises (stream-json 6.4 and 17.7)."""
    frames = play(World([says(Break(Failure(Trouble.AUTH, "401: no such key", status=401)))]))
    assert kinds(frames) == ["system init", "assistant text", "result success"]
    _, synthetic, result = frames
    assert (synthetic["message"]["model"], synthetic["error"]) == ("<synthetic>", "authentication_failed")
    assert synthetic["message"]["content"] == [{"type": "text", "text": "API Error: 401: no such key"}]
    assert (result["is_error"], result["terminal_reason"], result["api_error_status"]) == (True, "api_error", 401)
    assert (result["result"], result["errors"]) == ("API Error: 401: no such key", [])


@pytest.mark.parametrize(
    ("trouble", "status", "error"),
    [
        (Trouble.RATE_LIMIT, 429, "rate_limit"),
        (Trouble.AUTH, 402, "billing_error"),
        (Trouble.INVALID_REQUEST, 404, "model_not_found"),
        (Trouble.INVALID_REQUEST, 400, "invalid_request"),
        (Trouble.SERVER, 500, "server_error"),
        (Trouble.NETWORK, None, "server_error"),
    ],
)
def test_the_error_has_the_name_that_callers_know(trouble: Trouble, status: int | None, error: str) -> None:
    frames = play(World([says(Break(Failure(trouble, "no", status=status)))]))
    assert [frame["error"] for frame in frames if "error" in frame] == [error]
    assert frames[-1].get("api_error_status") == status


def test_a_key_in_an_error_is_not_shown() -> None:
    key = "sk-ant-api03-0123456789abcdefghij"
    frames = play(World([says(Break(Failure(Trouble.AUTH, f"no such key: {key}")))]))
    assert key not in json.dumps(frames)


def test_a_wait_before_the_next_try() -> None:
    wait = Retry(Failure(Trouble.OVERLOADED, "Overloaded", status=529), 1, 500)
    [_, retry, *_] = play(World([says(wait, "Hi.")]))
    assert {name: retry[name] for name in ("attempt", "max_retries", "retry_delay_ms", "error_status", "error")} == {
        "attempt": 1,
        "max_retries": 9,
        "retry_delay_ms": 500,
        "error_status": 529,
        "error": "server_error",
    }


@pytest.mark.covers("G-24")
def test_a_heartbeat_is_a_frame_of_its_own() -> None:
    """Golden lines: an attempt is counted once; a heartbeat says how long the wait still lasts. The SDK reads both."""
    limited = Failure(Trouble.RATE_LIMIT, "429: limit", 429, resets_at=1_800_000_075_000)
    frames = FrameEncoder(
        ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 1_800_000_000_000 + elapsed
    )
    lines: list[Frame] = []
    for beat, left in enumerate((75_000, 45_000, 15_000)):
        elapsed = 30_000 * beat
        lines += frames.of(Retrying(limited, 1, left, 81, beat))
    told = {"attempt": 1, "max_retries": 80, "error_status": 429, "error": "rate_limit", "uuid": "id"}
    told |= {"session_id": ABOUT.session_id}
    limit = {"status": "rejected", "resetsAt": 1_800_000_075}
    beats = [
        {"type": "system", "subtype": "mainspring_heartbeat", "heartbeat": beat, "retry_delay_ms": left}
        | {"retry_at": 1_800_000_075}
        for beat, left in ((1, 45_000), (2, 15_000))
    ]
    assert lines == [
        {"type": "system", "subtype": "api_retry", "retry_delay_ms": 75_000} | told,
        {"type": "rate_limit_event", "rate_limit_info": limit, "uuid": "id", "session_id": ABOUT.session_id},
        *[beat | told for beat in beats],
    ]
    read = [parse_message(line) for line in lines]
    assert [type(message).__name__ for message in read] == ["SystemMessage", "RateLimitEvent", *["SystemMessage"] * 2]


def test_a_withdrawn_reply_is_followed_by_a_frame_that_names_it() -> None:
    """A finished text, then the stream broke off for good: the model's other half is another model's whole."""
    world = World([says(Thinking("let me"), Break(Failure(Trouble.OVERLOADED, "no"))), says("Whole.")])
    frames = play(world, config=Config(model=MODEL, fallbacks=(SMALL,)))
    assert kinds(frames) == [
        "system init",
        "assistant thinking",
        "system informational",
        "assistant text",
        "result success",
    ]
    assert frames[2]["withdrawn"] == frames[1]["message"]["id"] != frames[3]["message"]["id"]
    assert frames[-1]["result"] == "Whole."


def test_turn_limit() -> None:
    frames = play(World([says(call("Read"))] * 2), config=Config(model=MODEL, max_turns=2))
    result = frames[-1]
    assert (result["subtype"], result["is_error"], result["terminal_reason"]) == ("error_max_turns", True, "max_turns")
    assert result["errors"] == ["Reached maximum number of turns (2)"]
    assert "result" not in result


def test_money_limit() -> None:
    frames = play(World([says("Hi.")]), ledger=Ledger(1_000))
    result = frames[-1]
    assert (result["subtype"], result["terminal_reason"]) == ("error_max_budget_usd", "budget_exhausted")
    assert "Reached maximum budget" in result["errors"][0]


def test_interrupted_while_streaming() -> None:
    world = World([says("A long text that streams for a while.", pace=10)])
    frames = play(world, interrupt_at=5, partial=True)
    told = [frame for frame in frames if frame["type"] != "stream_event"]
    assert kinds(told) == ["system init", "assistant text", "user text", "result error_during_execution"]
    assert told[1]["message"]["content"][0]["text"] == "A long text that streams"
    assert told[2]["message"]["content"] == [{"type": "text", "text": "[Request interrupted by user]"}]
    assert "isSynthetic" not in told[2]
    assert (told[3]["terminal_reason"], told[3]["is_error"]) == ("aborted_streaming", True)


def test_interrupted_in_tools_every_call_is_answered() -> None:
    world = World([says(call("Bash", "a", ms=5_000), call("Bash", "b", ms=5_000))])
    frames = play(world, interrupt_at=6)  # the first one has started
    assert kinds(frames)[-4:] == ["user tool_result", "user tool_result", "user text", "result error_during_execution"]
    answered = [frame["message"]["content"][0] for frame in frames if kind(frame) == "user tool_result"]
    assert [(each["tool_use_id"], each["is_error"]) for each in answered] == [("a", True), ("b", True)]
    assert frames[-4]["tool_use_result"].startswith("Error: ")
    assert frames[-2]["message"]["content"][0]["text"] == "[Request interrupted by user for tool use]"
    assert frames[-1]["terminal_reason"] == "aborted_tools"


def test_what_we_tell_the_model_is_marked_as_ours() -> None:
    frames = play(World([says("Done."), says("Really.")], hooks=[StopDecision(("not yet",))]))
    [told] = [frame for frame in frames if kind(frame) == "user text"]
    assert (told["message"]["content"], told["isSynthetic"]) == ([{"type": "text", "text": "not yet"}], True)


def test_the_prompt_is_replayed_only_if_asked_for() -> None:
    assert "user" not in kinds(play(World([says("Hi.")]), "go"))
    said = play(World([says("Hi.")]), "go", replay=True)[1]
    assert (said["type"], said["message"], said["isReplay"]) == ("user", {"role": "user", "content": "go"}, True)


def test_cost_adds_up_over_runs_and_usage_does_not() -> None:
    frames = play(World([says("One."), says("Two.")]), "a", "b")
    first, second = [frame for frame in frames if frame["type"] == "result"]
    assert kinds(frames).count("system init") == 2
    assert second["total_cost_usd"] == pytest.approx(2 * first["total_cost_usd"])
    assert second["usage"] == first["usage"]
    assert second["modelUsage"][MODEL.name]["inputTokens"] == 200


def test_a_fallback_is_paid_for_at_its_own_price() -> None:
    config = Config(model=MODEL, fallbacks=(SMALL,))
    frames = play(World([fails(Trouble.OVERLOADED), says("Hi.")]), config=config)
    assert list(frames[-1]["modelUsage"]) == [SMALL.name]
    assert frames[-1]["total_cost_usd"] == pytest.approx((100 * 3 + 20 * 15) / 1e6)


def test_a_run_that_broke_off_has_a_result_too() -> None:
    frames = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "x", now=lambda: 0)
    [result] = frames.broke_off("the disk is full")
    needed = {"subtype", "duration_ms", "duration_api_ms", "is_error", "num_turns", "session_id"}
    assert needed <= result.keys()
    assert (result["is_error"], result["errors"]) == (True, ["the disk is full"])


# --- how runs end -----------------------------------------------------------------------------------


def test_every_cause_has_its_row() -> None:
    assert set(ROWS) == set(Cause)


# Where the wire's word is not our own (stream-json 6.4): an API's failure, and what the API would not take.
SURPRISES = {
    Cause.RATE_LIMIT, Cause.OVERLOADED, Cause.AUTH, Cause.INVALID_REQUEST, Cause.SERVER, Cause.NETWORK,
    Cause.WINDOW, Cause.MEDIA, Cause.TOO_LARGE, Cause.OUTPUT_LIMIT,
}  # fmt: skip


@pytest.mark.parametrize("cause", Cause)
def test_the_subtype_is_ours_unless_the_wire_has_another(cause: Cause) -> None:
    from mainspring.core.reasons import SUBTYPES

    row = ROWS[cause]
    assert row.subtype is (Subtype.SUCCESS if cause in SURPRISES else SUBTYPES[cause])
    assert row.is_error == (cause in SURPRISES or SUBTYPES[cause] is not Subtype.SUCCESS)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("failure", [None, Failure(Trouble.SERVER, "no", status=500)])
def test_every_end_has_words(cause: Cause, failure: Failure | None) -> None:
    made = make_outcome(Result(Terminal.COMPLETED, cause, Subtype.SUCCESS, "why", "said", Stop.END_TURN), failure)
    assert made.words
    assert (made.text is None) == (made.subtype is not Subtype.SUCCESS)
    assert bool(made.errors) == (made.text is None or cause is Cause.OUTPUT_LIMIT)


# --- random sessions --------------------------------------------------------------------------------

SESSIONS = 300


class Wordy(RandomWorld):
    """Now and then a result is longer than a line may be."""

    async def _act(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        outcome = await super()._act(call, asking)
        if not self.chance(0.02):
            return outcome
        return replace(outcome, result=replace(outcome.result, content=(Text("\x02" * 400_000),)))


async def random_frames(seed: int) -> list[Frame]:
    random = Random(seed)
    config = replace(random_config(random), model=MODEL, fallbacks=random.choice([(), (SMALL,)]))
    return await frames_of(
        Wordy(random),
        *["go"] * random.choice([1, 2]),
        config=config,
        interrupt_at=random.choice([None, random.randrange(1, 60)]),
        partial=random.random() < 0.5,
        ledger=Ledger(random.choice([None, 10**9, 10**7])),
    )


@pytest.mark.long
@pytest.mark.covers("O-02")
def test_random_sessions_make_good_frames(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Counter[str]()
    for seed in range(SESSIONS):
        frames = virtually(random_frames(seed))
        try:
            check(frames)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen.update(map(kind, frames))
        seen["cut"] += "cut here]" in json.dumps(frames)
    with capsys.disabled():
        print(f"\nrandom frames: {SESSIONS:,} sessions, {sum(seen.values()):,} frames of {len(seen)} kinds")
    assert {"system informational", "system compact_boundary", "user text", "result error_during_execution"} <= set(
        seen
    )
    assert seen["cut"] > 10


def check(frames: list[Frame]) -> None:
    assert all(frame["session_id"] == ABOUT.session_id for frame in frames)
    ids = [frame["uuid"] for frame in frames]
    assert len(set(ids)) == len(ids), "a uuid stands twice"
    for run in runs(frames):
        check_run(run)
    spent = frames[-1]["total_cost_usd"]
    assert spent == pytest.approx(sum(row["costUSD"] for row in frames[-1]["modelUsage"].values()))


def runs(frames: list[Frame]) -> list[list[Frame]]:
    begins = [at for at, frame in enumerate(frames) if kind(frame) == "system init"]
    assert begins[0] == 0, "something came before init"
    return [frames[begin:end] for begin, end in zip(begins, [*begins[1:], len(frames)], strict=True)]


def check_run(run: list[Frame]) -> None:
    assert [frame["type"] for frame in run].count("result") == 1
    assert run[-1]["type"] == "result", "something came after the result"
    called: dict[str, str] = {}  # the id of a call, and of its message
    answered: set[str] = set()
    withdrawn: set[str] = set()
    for frame in run:
        match frame:
            case {"type": "assistant", "message": {"id": message, "content": [{"type": "tool_use", "id": id}]}}:
                assert id not in called
                called[id] = message
            case {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id}]}}:
                assert id in called, "a result before its call"
                assert id not in answered, "a call was answered twice"
                answered.add(id)
            case {"type": "system", "withdrawn": message}:
                withdrawn.add(message)
            case _:
                pass
    open_calls = {id for id, message in called.items() if message not in withdrawn} - answered
    assert not open_calls, "a call was not answered"
    check_events([frame for frame in run if frame["type"] in ("stream_event", "assistant")])


def check_events(frames: list[Frame]) -> None:
    """Between a block's start and its stop stand its deltas and then its own frame."""
    at: int | None = None
    shown = 0
    for frame in frames:
        match frame:
            case {"event": {"type": "message_start"}}:
                at = None
            case {"event": {"type": "content_block_start", "index": index}}:
                assert at is None
                at, shown = index, 0
            case {"event": {"type": "content_block_delta", "index": index}}:
                assert (index, shown) == (at, 0)
            case {"event": {"type": "content_block_stop", "index": index}}:
                assert (index, shown) == (at, 1)
                at = None
            case {"type": "assistant"} if "error" not in frame:
                shown += 1
            case _:
                pass


@pytest.mark.covers("D-35")
def test_a_boundary_tells_its_sizes_and_what_was_freed() -> None:
    """Only a summary is a boundary, with both sizes; a layer knows only what it freed, and has a frame of its own."""
    frames = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 0)
    begins, summary, over = frames.of(Boundary("summary", 5_000, 1_000, 4_000))
    assert (begins["status"], over["status"]) == ("compacting", None)
    sizes = {"trigger": "auto", "pre_tokens": 5_000, "post_tokens": 1_000, "freed": 4_000}
    assert (summary["subtype"], summary["compact_metadata"]) == ("compact_boundary", sizes)
    for layer in ("tool_results", "snip", "microcompact", "collapse", "strip_media", "trim"):
        [frame] = frames.of(Boundary(layer, before=1_000, after=100, freed=900))
        assert (frame["type"], frame["subtype"]) == ("system", "mainspring_context_edit")
        assert (frame["layer"], frame["freed_tokens"], "compact_metadata" in frame) == (layer, 900, False)


@pytest.mark.covers("D-35", "D-36")
def test_a_summary_that_somebody_asked_for_is_told_as_such() -> None:
    """Not a summary of a run that follows by itself."""
    frames = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 0)
    room = Boundary("summary", 5_000, 1_000, 4_000)
    frames.opening(user("/compact keep the numbers"))
    assert frames.of(room)[1]["compact_metadata"]["trigger"] == "manual"
    [ended] = frames.of(Result(Terminal.COMPLETED, Cause.COMPACTED, Subtype.SUCCESS))
    assert ended["num_turns"] == 0, "there was no turn"
    assert frames.of(room)[1]["compact_metadata"]["trigger"] == "auto"
    frames.opening(user("what does this do?\n\n/compact"), "what does this do?")
    assert frames.of(room)[1]["compact_metadata"]["trigger"] == "auto"
    frames.opening(user("/compact\n\na file"), "/compact")
    assert frames.of(room)[1]["compact_metadata"]["trigger"] == "manual"


# --- why the loop went on (settled 41) --------------------------------------------------------------

NO_END = Failure(Trouble.NETWORK, "the stream broke off")


def line_of(update: Update) -> bytes:
    frames = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 0)
    [frame] = frames.of(update)
    return encode_line(frame)


@pytest.mark.covers("A-22", "B-14", "D-39")
def test_the_lines_about_the_loop_word_for_word() -> None:
    own = '"session_id":"5e55105e-0000-4000-8000-000000000000","uuid":"id"}\n'
    edited = PrefixBroken(7, "block 4 of the messages", "the context was edited", 900, 2_025_000, "context_edited")
    golden: dict[Update, str] = {
        RequestStarted(1, "m"): '"subtype":"mainspring_turn","turn":1,"model":"m","continue_reason":null',
        RequestStarted(2, "m", Transition.STREAM_RETRY): (
            '"subtype":"mainspring_turn","turn":2,"model":"m","continue_reason":"stream_retry"'
        ),
        MaxTurnsReached(3, 3): '"subtype":"mainspring_max_turns","max_turns":3,"turns":3',
        replace(edited, layers=("snip",)): (
            '"subtype":"mainspring_prefix_break","block":7,"position":"block 4 of the messages",'
            '"reason":"context_edited","layers":["snip"],"description":"the context was edited",'
            '"lost_tokens":900,"cost_usd":0.002025,"estimated":false'
        ),
    }
    edit, overloaded = Boundary("snip", freed=12), Failure(Trouble.OVERLOADED, "529", 529)
    golden |= {
        edit: '"subtype":"mainspring_context_edit","layer":"snip","freed_tokens":12',
        Retrying(overloaded, 3, 30_000, 81, 2): (
            '"subtype":"mainspring_heartbeat","attempt":3,"max_retries":80,"retry_delay_ms":30000,"error_status":529,'
            '"error":"server_error","heartbeat":2,"retry_at":30'
        ),
    }
    for update, fields in golden.items():
        assert line_of(update).decode() == f'{{"type":"system",{fields},{own}'
    encoder = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 0)
    queued = encoder.queued(PromptQueued("p", "steer"))
    fields = '"subtype":"mainspring_prompt","prompt_id":"p","status":"queued","delivery":"steer"'
    assert encode_line(queued).decode() == f'{{"type":"system",{fields},{own}'
    sources = Path(stream_json.__file__).parent.glob("*frames.py")
    named = {name for source in sources for name in re.findall(r'= .*"(mainspring_[a-z_]+)"', source.read_text())}
    lines = [*golden.values(), fields]
    assert {name for name in named if not any(f'"{name}"' in line for line in lines)} == set(), "a line for each frame"


@pytest.mark.covers("A-22")
def test_each_request_to_the_model_has_its_reason_and_none_comes_before_init() -> None:
    frames = play_all(World([says(call("Read", "toolu_1")), says("Half of", Break(NO_END)), says("Done.")]))
    assert frames[0]["subtype"] == "init"
    turns = [frame for frame in frames if frame.get("subtype") == "mainspring_turn"]
    assert [(turn["turn"], turn["continue_reason"]) for turn in turns] == [
        (1, None),
        (2, "next_turn"),
        (2, "stream_retry"),
    ]


def test_what_a_subagent_does_names_the_call_that_started_it() -> None:
    frames = FrameEncoder(ABOUT, UsageMeter(MODEL, lambda: 0), new_id=lambda: "id", now=lambda: 0)
    frames.of(AgentStarted("toolu_1", "a1", "general-purpose", "d", user("p")))
    broken = PrefixBroken(1, "tool 1", "the set of tools changed", 5, 6, "tools_changed")
    [turn] = frames.of(AgentUpdate("toolu_1", "a1", RequestStarted(1, "m")))
    [lost] = frames.of(AgentUpdate("toolu_1", "a1", broken))
    for frame, subtype in ((turn, "mainspring_turn"), (lost, "mainspring_prefix_break")):
        assert (frame["type"], frame["subtype"]) == ("system", subtype)
        assert (frame["parent_tool_use_id"], frame["agent_id"]) == ("toolu_1", "a1")
