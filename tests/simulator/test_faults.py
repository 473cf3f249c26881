"""Faults one by one: what each puts on the wire, when it fits, and which requests it hits."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from mainspring.simulator.faults import FAULTS, NO_SUCH_TOOL, FaultPlan, FaultScene, PlannedFault
from mainspring.simulator.replies import RawReply, RawStream, Refuse, Reply, ReplyStamp, Say
from simulator.bodies import Json, ask, assistant, call, text, thought, user
from simulator.client import Event, assembled

STAMP = ReplyStamp("claude-sonnet-5-5", "msg_1", lambda: "sig:claude-sonnet-5-5:1")
SAY = Say.of({"type": "thinking", "thinking": "Let me see what there is."}, "I will read the file.", call())
WHOLE = ["thinking", "text", "tool_use"]


def spoilt(name: str, say: Say = SAY, argument: str = "", **body: Any) -> Reply:
    scene = FaultScene(ask(stream=body.pop("stream", True), **body), say, STAMP, argument)
    assert FAULTS[name].fits(scene)
    return FAULTS[name].make(scene)


def events(reply: Reply) -> list[Event]:
    """The events that can be read in a stream."""
    assert isinstance(reply, RawStream)
    found: list[Event] = []
    for record in b"".join(reply.frames).decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in record.split("\n") if ": " in line and line[0] != ":")
        if "data" in lines:
            found.append(Event(lines["event"], json.loads(lines["data"])))
    return found


def kinds(reply: Reply) -> list[str]:
    return [event.name for event in events(reply)]


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("rate_limited", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("server_error", 500, "api_error"),
        ("unauthorized", 401, "authentication_error"),
        ("invalid_request", 400, "invalid_request_error"),
        ("too_large", 413, "request_too_large"),
        ("prompt_too_long", 400, "invalid_request_error"),
        ("bad_image", 400, "invalid_request_error"),
    ],
)
def test_refusals(name: str, status: int, kind: str) -> None:
    reply = spoilt(name)
    assert isinstance(reply, Refuse)
    assert (reply.status, reply.type) == (status, kind)
    assert bool(reply.message)


def test_the_argument_of_a_rate_limit_is_the_wait() -> None:
    waits = [spoilt("rate_limited"), spoilt("rate_limited", argument="0.5")]
    assert [reply.headers["retry-after"] for reply in waits if isinstance(reply, Refuse)] == ["1", "0.5"]


def test_a_signature_is_refused_only_where_there_is_one() -> None:
    fits = FAULTS["bad_signature"].fits
    assert not fits(FaultScene(ask(), SAY, STAMP))
    assert fits(FaultScene(ask(user("a"), assistant(thought(), text("b")), user("c")), SAY, STAMP))


@pytest.mark.parametrize(("name", "end"), [("reset", "reset"), ("silence", "hang")])
def test_no_answer_at_all(name: str, end: str) -> None:
    assert spoilt(name) == RawStream((), end, head=False)  # type: ignore[arg-type]  # one of its ends


@pytest.mark.parametrize(
    ("name", "end", "shown"),
    [
        ("cut_at_start", "close", []),
        ("stall_at_start", "hang", []),
        ("cut_in_thinking", "close", ["thinking"]),
        ("cut_in_text", "close", ["thinking", "text"]),
        ("stall", "hang", ["thinking", "text"]),
        ("cut_in_call", "close", WHOLE),
        ("cut_after_call", "close", WHOLE),
    ],
)
def test_streams_that_stop(name: str, end: str, shown: list[str]) -> None:
    reply = spoilt(name)
    assert isinstance(reply, RawStream)
    assert (reply.end, reply.usage) == (end, SAY.spent)
    seen = events(reply)
    begun = [event.data["content_block"]["type"] for event in seen if event.name == "content_block_start"]
    assert begun == shown
    finished = sum(event.name == "content_block_stop" for event in seen)
    assert finished == len(shown) - (name != "cut_after_call" and bool(shown))
    assert "message_stop" not in kinds(reply)
    assert not any(event.data.get("delta", {}).get("type") == "signature_delta" for event in seen) or len(shown) > 1


def test_a_cut_is_in_the_middle_of_what_is_cut() -> None:
    texts = "".join(e.data["delta"].get("text", "") for e in events(spoilt("cut_in_text")) if "delta" in e.data)
    assert texts == "I will rea"
    pieces = "".join(
        e.data["delta"].get("partial_json", "") for e in events(spoilt("cut_in_call")) if "delta" in e.data
    )
    assert '{"file_path":"a.py"}'.startswith(pieces)
    assert 1 < len(pieces) < len('{"file_path":"a.py"}')


def test_errors_in_the_stream() -> None:
    middle, at_once = spoilt("error_event"), spoilt("error_at_once", argument="api_error")
    assert kinds(middle)[-1] == "error"
    assert kinds(middle)[0] == "message_start"
    assert [event.data["error"]["type"] for event in events(at_once)] == ["api_error"]


@pytest.mark.parametrize("name", ["malformed_json", "malformed_sse"])
def test_an_event_that_cannot_be_read(name: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        events(spoilt(name))


def test_a_chunk_without_a_length() -> None:
    reply = spoilt("malformed_http")
    assert isinstance(reply, RawStream)
    assert reply.frames[0].startswith(b"HTTP/1.1 200 OK")
    assert reply.frames[-1] == b"no length\r\n"


@pytest.mark.parametrize("name", ["drip", "pings", "unknown_events", "duplicate_events", "huge_text"])
def test_what_is_odd_but_right(name: str) -> None:
    """Whoever ignores what must be ignored reads the same message, or a longer one."""
    reply = spoilt(name, argument="1" if name == "drip" else "500")
    seen: list[Event] = []
    for event in events(reply):
        known = event.name in ("weather", "ping") or (event in seen and "delta" not in event.data)
        if not known:
            seen.append(event)
    message = assembled(seen)
    assert [block["type"] for block in message["content"]] == WHOLE
    assert len(message["content"][1]["text"]) == (500 if name == "huge_text" else len("I will read the file."))
    assert message["content"][2]["input"] == {"file_path": "a.py"}
    assert isinstance(reply, RawStream)
    assert reply.end == "done"


@pytest.mark.parametrize(
    ("name", "blocks", "stop"),
    [
        ("truncated", ["thinking", "text"], "max_tokens"),
        ("window_full", ["thinking", "text"], "model_context_window_exceeded"),
        ("refusal", ["thinking", "text"], "refusal"),
        ("paused", ["thinking", "text"], "pause_turn"),
        ("truncated_call", WHOLE, "max_tokens"),
        ("empty", [], "end_turn"),
        ("thinking_only", ["thinking"], "end_turn"),
        ("broken_call", WHOLE, "tool_use"),
        ("unknown_tool", WHOLE, "tool_use"),
        ("duplicate_ids", [*WHOLE, "tool_use"], "tool_use"),
    ],
)
def test_what_the_model_itself_gets_wrong(name: str, blocks: list[str], stop: str) -> None:
    reply = spoilt(name)
    assert isinstance(reply, Say)
    assert ([block["type"] for block in reply.blocks], reply.stopped) == (blocks, stop)


def test_calls_that_are_wrong() -> None:
    def last(name: str) -> Json:
        reply = spoilt(name)
        assert isinstance(reply, Say)
        return reply.blocks[-1]

    assert last("unknown_tool")["name"] == NO_SUCH_TOOL
    assert last("duplicate_ids") == SAY.blocks[-1]
    for name in ("broken_call", "truncated_call"):
        with pytest.raises(json.JSONDecodeError):
            json.loads(last(name)["partial_json"])


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_a_form_without_a_stream(name: str) -> None:
    body = ask(user("a"), assistant(thought(), text("b")), user("c"))
    reply = FAULTS[name].make(FaultScene(body, SAY, STAMP))
    if isinstance(reply, RawStream):
        assert not reply.head, "a message that was not to be streamed is no stream of events"
    assert not isinstance(reply, RawReply)


NOTHING = Say(())
NEED_A_PLACE = [name for name, fault in FAULTS.items() if not fault.fits(FaultScene(ask(stream=True), NOTHING, STAMP))]


def test_most_faults_need_a_place() -> None:
    assert len(NEED_A_PLACE) == 20


@pytest.mark.parametrize("name", NEED_A_PLACE)
def test_a_fault_without_a_place_leaves_the_reply_as_it_is(name: str) -> None:
    assert FaultPlan(PlannedFault(name)).spoil(FaultScene(ask(stream=True), NOTHING, STAMP)) == ("", NOTHING)


# --- when -----------------------------------------------------------------------------------------------


def hits(faults: FaultPlan, *bodies: Json) -> list[str]:
    return [faults.spoil(FaultScene({**body, "stream": True}, SAY, STAMP))[0] for body in bodies]


ONE, OTHER = ask(user("one")), ask(user("other"))


def test_a_fault_comes_as_often_as_planned_in_each_conversation() -> None:
    faults = FaultPlan(PlannedFault("overloaded", 2))
    assert hits(faults, ONE, OTHER, ONE, ONE, OTHER, OTHER) == ["overloaded"] * 3 + ["", "overloaded", ""]


def test_one_after_the_other() -> None:
    faults = FaultPlan(PlannedFault("overloaded"), PlannedFault("reset"))
    assert hits(faults, ONE, ONE, ONE) == ["overloaded", "reset", ""]


def test_for_ever_for_one_model_later_or_in_one_conversation() -> None:
    assert hits(FaultPlan(PlannedFault("overloaded", None)), *[ONE] * 5) == ["overloaded"] * 5
    small = ask(user("one"), model="claude-haiku-4-5")
    assert (
        hits(FaultPlan(PlannedFault("overloaded", None, "claude-haiku-4-5")), ONE, small, ONE, small)
        == ["", "overloaded"] * 2
    )
    assert hits(FaultPlan(PlannedFault("overloaded", after=2)), *[ONE] * 4) == ["", "", "overloaded", ""]
    assert hits(FaultPlan(PlannedFault("overloaded", prompt="oth")), ONE, OTHER) == ["", "overloaded"]


def test_what_finds_no_place_is_not_used_up() -> None:
    faults = FaultPlan(PlannedFault("cut_in_call"))
    assert faults.spoil(FaultScene(ONE, Say.of("words only"), STAMP))[0] == ""
    assert faults.spoil(FaultScene(ONE, SAY, STAMP))[0] == "cut_in_call"


def test_rates_replay_by_seed_and_do_not_depend_on_the_others() -> None:
    rates = {"overloaded": 0.2, "cut_in_text": 0.2}
    alone = hits(FaultPlan(seed=3, rates=rates), *[ONE] * 200)
    together = hits(FaultPlan(seed=3, rates=rates), *[ONE, OTHER] * 200)
    assert together[::2] == alone
    assert together[1::2] != alone
    assert hits(FaultPlan(seed=4, rates=rates), *[ONE] * 200) != alone
    share = Counter(alone)
    assert all(20 <= share[name] <= 60 for name in rates)


def test_a_rate_that_hits_what_has_no_place_for_it_hits_nothing() -> None:
    assert FaultPlan(rates={"cut_in_call": 1}).spoil(FaultScene(ONE, Say.of("words"), STAMP))[0] == ""


@pytest.mark.parametrize(
    ("written", "planned"),
    [
        ("overloaded", PlannedFault("overloaded")),
        ("overloaded:3", PlannedFault("overloaded", 3)),
        ("overloaded:*@claude-opus-5", PlannedFault("overloaded", None, "claude-opus-5")),
        ("rate_limited=0.5:2", PlannedFault("rate_limited", 2, argument="0.5")),
        ("drip=5:2@claude-opus-5~fix it", PlannedFault("drip", 2, "claude-opus-5", prompt="fix it", argument="5")),
        ("reset~[a]", PlannedFault("reset", prompt="[a]")),
    ],
)
def test_faults_in_writing(written: str, planned: PlannedFault) -> None:
    assert PlannedFault.read(written) == planned


@pytest.mark.parametrize("written", ["", "earthquake", "overloaded:often", "overloaded:3:4"])
def test_what_is_no_fault_is_named_with_those_that_are(written: str) -> None:
    with pytest.raises(ValueError, match=f"'{written}' is not a fault.*cut_in_text"):
        PlannedFault.read(written)


def test_a_fault_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="unknown fault 'rain'"):
        FaultPlan(rates={"rain": 0.1})
