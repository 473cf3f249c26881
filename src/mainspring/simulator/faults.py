"""The faults of a model server, by name, and what each sends on the wire.

    FaultPlan(PlannedFault("overloaded", times=3))        # the first three requests of each conversation
    FaultPlan(PlannedFault("overloaded", times=None, model="claude-opus-5"))      # every request for one model
    FaultPlan(PlannedFault("cut_in_text", after=1))       # the second request of each conversation
    FaultPlan(seed=7, rates={"overloaded": 0.05, "stall": 0.01})

A fault spoils a reply. If it does not apply (a cut inside a tool call, where there is none), the reply stays as it is,
and the fault is not used up. Which requests are hit depends on the conversation and the seed, never on other clients.

Faults are built from the events of the Messages API; the protocol of the request encodes them (`protocol.py`). The
quirks of odd servers (`server_quirks.py`) can be planned like faults, and have a table of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from mainspring.simulator.protocol import MESSAGES, ApiDialect
from mainspring.simulator.replies import (
    Json,
    RawStream,
    ReceivedConversation,
    Refuse,
    Reply,
    ReplyStamp,
    Say,
    make_text_block,
    stream_events,
    written_input,
)
from mainspring.simulator.server_quirks import ODDITIES, Oddity, apply_oddities

STREAMED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NO_SUCH_TOOL = "NoSuchTool"
HUGE = 1_000_000  # characters
PIECES = 60  # bytes per write of a dripping answer


class FaultScene(NamedTuple):
    """The input of a fault: the request, and the reply to spoil."""

    body: Json  # in the form of the Messages API
    say: Say
    stamp: ReplyStamp
    argument: str = ""
    speech: ApiDialect = MESSAGES
    asked: Json | None = None  # the request as it came, if that is another form

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    def first(self, kind: str) -> int | None:
        """The position of the first block of this kind in the reply."""
        return next((number for number, block in enumerate(self.say.blocks) if block["type"] == kind), None)

    def frames(self, say: Say | None = None) -> list[bytes]:
        """One for each event of the Messages API; some may be empty."""
        return [frame for _, frame in self.told(say or self.say)]

    def told(self, say: Say, said: Iterable[Json] | None = None) -> Iterator[tuple[Json, bytes]]:
        """The events of a reply, or the given ones, encoded."""
        teller = self.speech.teller(say, self.stamp, self.asked or self.body)
        for event in stream_events(say, self.stamp) if said is None else said:
            yield event, teller(event)

    def error(self, kind: str, words: str, behind: Sequence[bytes]) -> bytes:
        """An error in the stream. An encoder may write it differently after the first event."""
        teller = self.speech.teller(self.say, self.stamp, self.asked or self.body)
        if behind:
            for event in stream_events(self.say, self.stamp):
                teller(event)
                break
        return teller({"type": "error", "error": {"type": kind, "message": words}})


def has_block(kind: str) -> Callable[[FaultScene], bool]:
    return lambda scene: scene.first(kind) is not None


# --- refused ----------------------------------------------------------------------------------------


def make_refusal(status: int, kind: str, words: str) -> Callable[[FaultScene], Reply]:
    return lambda _: Refuse(status, kind, words)


def rate_limited(scene: FaultScene) -> Reply:
    """The argument is the value of `retry-after`, in seconds."""
    words = "This request would exceed your organization's rate limit."
    return Refuse(429, "rate_limit_error", words, {"retry-after": scene.argument or "1"})


def was_thinking(scene: FaultScene) -> bool:
    return any(block.get("signature") for block in ReceivedConversation(scene.body).blocks("thinking"))


# --- no answer --------------------------------------------------------------------------------------


def reset_connection(_: FaultScene) -> Reply:
    return RawStream(end="reset", head=False)


def never_answer(_: FaultScene) -> Reply:
    return RawStream(end="hang", head=False)


# --- cut ----------------------------------------------------------------------------------------------


def first_half(words: str) -> str:
    return words[: max(1, len(words) // 2)]


def halve_block(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {**block, "text": first_half(block["text"])}
        case "thinking":
            return {**block, "thinking": first_half(block["thinking"])}
        case _:
            return {**block, "partial_json": first_half(written_input(block) or "{}")}


def frames_into_first(scene: FaultScene, kind: str) -> list[bytes]:
    """The frames up to the middle of the first block of this kind."""
    at = scene.first(kind)
    assert at is not None
    block = halve_block(scene.say.blocks[at])
    frames: list[bytes] = []
    for event, frame in scene.told(replace(scene.say, blocks=(*scene.say.blocks[:at], block))):
        if event["type"] == "content_block_stop" and event["index"] == at:
            break
        if event.get("delta", {}).get("type") != "signature_delta" or event["index"] != at:
            frames.append(frame)
    return frames


def end_stream(scene: FaultScene, frames: list[bytes], end: str) -> Reply:
    """A stream with this end; a message that is not streamed is cut in its middle."""
    if scene.streams:
        return RawStream(tuple(frames), "hang" if end == "hang" else "close", usage=scene.say.spent)
    return RawStream((half_a_message(scene),), "hang" if end == "hang" else "close", head=False, usage=scene.say.spent)


def half_a_message(scene: FaultScene) -> bytes:
    body = encode(scene.speech.whole(scene.say, scene.stamp, scene.asked or scene.body))
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    return head + body[: len(body) // 2]


def cut_in(kind: str) -> Callable[[FaultScene], Reply]:
    return lambda scene: end_stream(scene, frames_into_first(scene, kind), "close")


def cut_at_start(scene: FaultScene) -> Reply:
    return end_stream(scene, scene.frames()[:1], "close")


def cut_after_call(scene: FaultScene) -> Reply:
    """The last call is complete, the reply is not."""
    last = max(number for number, block in enumerate(scene.say.blocks) if block["type"] == "tool_use")
    whole = replace(scene.say, blocks=scene.say.blocks[: last + 1])
    return end_stream(scene, scene.frames(whole)[:-2], "close")


def stall_stream(scene: FaultScene) -> Reply:
    return end_stream(scene, frames_into_first(scene, "text"), "hang")


def stall_at_start(scene: FaultScene) -> Reply:
    return end_stream(scene, scene.frames()[:1], "hang")


# --- wrong bytes --------------------------------------------------------------------------------------


def error_after(scene: FaultScene, frames: list[bytes]) -> Reply:
    """The argument is the error's type."""
    kind = scene.argument or "overloaded_error"
    if not scene.streams:
        return Refuse(529 if kind == "overloaded_error" else 500, kind, "Overloaded")
    error = scene.error(kind, "Overloaded", frames)
    return RawStream((*frames, error), usage=scene.say.spent if frames else None)


def error_event(scene: FaultScene) -> Reply:
    return error_after(scene, frames_into_first(scene, "text"))


def error_at_once(scene: FaultScene) -> Reply:
    return error_after(scene, [])


def spoil_stream(scene: FaultScene, frame: bytes) -> Reply:
    """Half a text, then something unreadable, then the rest as if nothing had happened."""
    if not scene.streams:
        return end_stream(scene, [], "close")
    frames = frames_into_first(scene, "text")
    return RawStream((*frames, frame, *scene.frames()[len(frames) :]), usage=scene.say.spent)


def malformed_json(scene: FaultScene) -> Reply:
    return spoil_stream(scene, scene.speech.broken_json)


def malformed_sse(scene: FaultScene) -> Reply:
    """A line break in the middle of the data."""
    return spoil_stream(scene, scene.speech.broken_sse)


def malformed_http(scene: FaultScene) -> Reply:
    """A chunk whose length is not a number."""
    if not scene.streams:
        return end_stream(scene, [], "close")
    chunks = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames_into_first(scene, "text") if frame]
    return RawStream((STREAMED, *chunks, b"no length\r\n"), "close", head=False, usage=scene.say.spent)


# --- odd, but valid -------------------------------------------------------------------------------------


def stream_frames(scene: FaultScene, frames: Iterator[bytes], pace_ms: int = 0) -> Reply:
    return RawStream(tuple(frames), usage=scene.say.spent, pace_ms=pace_ms) if scene.streams else scene.say


def drip_bytes(scene: FaultScene) -> Reply:
    """A few bytes at a time. The argument is the pause between them, in milliseconds."""
    whole = b"".join(scene.frames())
    size = max(1, len(whole) // PIECES)
    pieces = (whole[start : start + size] for start in range(0, len(whole), size))
    return stream_frames(scene, pieces, int(scene.argument or 1))


def send_only_pings(scene: FaultScene) -> Reply:
    return stream_frames(scene, (frame + 3 * scene.speech.ping for frame in scene.frames()))


def unknown_events(scene: FaultScene) -> Reply:
    strange = scene.speech.strange
    return stream_frames(scene, (frame + strange[number % len(strange)] for number, frame in enumerate(scene.frames())))


def duplicate_events(scene: FaultScene) -> Reply:
    """All but the deltas of blocks: clients could not tell these from new ones."""
    pieces = ("content_block_delta", "message_delta") if scene.speech is MESSAGES else ("content_block_delta",)
    return stream_frames(
        scene, (frame * (1 if event["type"] in pieces else 2) for event, frame in scene.told(scene.say))
    )


# --- said by the model --------------------------------------------------------------------------------


def cut_short(scene: FaultScene, kind: str, stop_reason: str) -> Reply:
    at = scene.first(kind)
    assert at is not None
    return replace(
        scene.say, blocks=(*scene.say.blocks[:at], halve_block(scene.say.blocks[at])), stop_reason=stop_reason
    )


def truncate_reply(scene: FaultScene) -> Reply:
    return cut_short(scene, "text", "max_tokens")


def truncated_call(scene: FaultScene) -> Reply:
    return cut_short(scene, "tool_use", "max_tokens")


def window_full(scene: FaultScene) -> Reply:
    return cut_short(scene, "text", "model_context_window_exceeded")


def pause_reply(scene: FaultScene) -> Reply:
    return cut_short(scene, "text", "pause_turn")


def refuse_in_stream(scene: FaultScene) -> Reply:
    return cut_short(scene, "text", "refusal")


def reply_with_nothing(scene: FaultScene) -> Reply:
    return replace(scene.say, blocks=(), stop_reason="end_turn")


def thinking_only(scene: FaultScene) -> Reply:
    thoughts = tuple([block for block in scene.say.blocks if block["type"] == "thinking"])
    return replace(scene.say, blocks=thoughts, stop_reason="end_turn")


def change_first_call(scene: FaultScene, changed: Callable[[Json], tuple[Json, ...]]) -> Reply:
    """The reply with its first call changed, and without any other call."""
    at = scene.first("tool_use")
    assert at is not None
    return replace(scene.say, blocks=(*scene.say.blocks[:at], *changed(scene.say.blocks[at])))


def broken_call(scene: FaultScene) -> Reply:
    return change_first_call(scene, lambda call: ({**call, "partial_json": '{"broken": yes, }'},))


def unknown_tool(scene: FaultScene) -> Reply:
    return change_first_call(scene, lambda call: ({**call, "name": NO_SUCH_TOOL},))


def duplicate_ids(scene: FaultScene) -> Reply:
    return change_first_call(scene, lambda call: (call, call))


def huge_text(scene: FaultScene) -> Reply:
    """The argument is the length."""
    at = scene.first("text")
    assert at is not None
    size = int(scene.argument or HUGE)
    words: str = scene.say.blocks[at]["text"] + " "
    long = make_text_block((words * (size // len(words) + 1))[: size - 1] + ".")
    say = replace(scene.say, blocks=(*scene.say.blocks[:at], long, *scene.say.blocks[at + 1 :]))
    if not scene.streams:
        return say
    return RawStream(
        tuple([frame for _, frame in scene.told(say, stream_large_deltas(say, scene.stamp))]), usage=say.spent
    )


def stream_large_deltas(say: Say, stamp: ReplyStamp) -> Iterator[Json]:
    """As few events as possible: one delta has all of its block."""
    waiting: Json | None = None
    for event in stream_events(say, stamp):
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            if waiting is None:
                waiting = {**event, "pieces": []}
            waiting["pieces"].append(event["delta"]["text"])
            continue
        if waiting is not None:
            delta = {"type": "text_delta", "text": "".join(waiting["pieces"])}
            yield {"type": "content_block_delta", "index": waiting["index"], "delta": delta}
            waiting = None
        yield event


# --- the table ----------------------------------------------------------------------------------------


class Fault(NamedTuple):
    about: str
    make: Callable[[FaultScene], Reply]
    fits: Callable[[FaultScene], bool] = lambda _: True
    delivers: bool = False  # the client gets a usable reply, and will not send the same request again


TOO_LONG = "prompt is too long: 1000001 tokens > 1000000 maximum"
BAD_SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
BAD_IMAGE = "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum"
SERVER = make_refusal(500, "api_error", "Internal server error")

FAULTS: dict[str, Fault] = {
    "rate_limited": Fault("429 with retry-after", rate_limited),
    "overloaded": Fault("529", make_refusal(529, "overloaded_error", "Overloaded")),
    "server_error": Fault("500", SERVER),
    "unauthorized": Fault("401", make_refusal(401, "authentication_error", "invalid x-api-key")),
    "invalid_request": Fault(
        "400 that no retry fixes", make_refusal(400, "invalid_request_error", "messages: nonsense")
    ),
    "too_large": Fault("413", make_refusal(413, "request_too_large", "Request exceeds the maximum size")),
    "prompt_too_long": Fault("400 prompt is too long", make_refusal(400, "invalid_request_error", TOO_LONG)),
    "bad_image": Fault("400 about an image", make_refusal(400, "invalid_request_error", BAD_IMAGE)),
    "bad_signature": Fault(
        "400 about a signature in the request", make_refusal(400, "invalid_request_error", BAD_SIGNATURE), was_thinking
    ),
    "reset": Fault("the connection is reset before any header", reset_connection),
    "silence": Fault("nothing comes, ever", never_answer),
    "cut_at_start": Fault("the stream ends after message_start", cut_at_start),
    "cut_in_text": Fault("the stream ends inside a text", cut_in("text"), has_block("text")),
    "cut_in_thinking": Fault("the stream ends inside thinking", cut_in("thinking"), has_block("thinking")),
    "cut_in_call": Fault("the stream ends inside a tool's arguments", cut_in("tool_use"), has_block("tool_use")),
    "cut_after_call": Fault(
        "the stream ends after a finished call", cut_after_call, has_block("tool_use"), delivers=True
    ),
    "stall": Fault("nothing more comes in the middle of a text", stall_stream, has_block("text")),
    "stall_at_start": Fault("nothing more comes after message_start", stall_at_start),
    "error_event": Fault("an error event in the middle of a text", error_event, has_block("text")),
    "error_at_once": Fault("an error event in place of message_start", error_at_once),
    "malformed_json": Fault("an event whose data is not JSON", malformed_json, has_block("text")),
    "malformed_sse": Fault("an event with a line break in its data", malformed_sse, has_block("text")),
    "malformed_http": Fault("a chunk without a length", malformed_http, has_block("text")),
    "drip": Fault("a few bytes at a time", drip_bytes, delivers=True),
    "pings": Fault("three pings after each event", send_only_pings, delivers=True),
    "unknown_events": Fault("unknown events, comments and fields", unknown_events, delivers=True),
    "duplicate_events": Fault("starts and stops come twice", duplicate_events, delivers=True),
    "truncated": Fault("max_tokens inside a text", truncate_reply, has_block("text")),
    "truncated_call": Fault("max_tokens inside a tool's arguments", truncated_call, has_block("tool_use")),
    "window_full": Fault("model_context_window_exceeded", window_full, has_block("text")),
    "refusal": Fault("the model declines in the middle of a text", refuse_in_stream, has_block("text")),
    "paused": Fault("pause_turn", pause_reply, has_block("text")),
    "empty": Fault("an answer with nothing in it", reply_with_nothing),
    "thinking_only": Fault("an answer that only thinks", thinking_only, has_block("thinking")),
    "broken_call": Fault("arguments that are not JSON", broken_call, has_block("tool_use")),
    "unknown_tool": Fault("a call of an unknown tool", unknown_tool, has_block("tool_use")),
    "duplicate_ids": Fault("the same call twice, with one id", duplicate_ids, has_block("tool_use"), delivers=True),
    "huge_text": Fault("a million characters", huge_text, has_block("text"), delivers=True),
}


def fault_from_oddity(name: str, oddity: Oddity) -> Fault:
    """A quirk of odd servers, planned for some of the replies."""

    def make(scene: FaultScene) -> Reply:
        return apply_oddities(scene.say, [f"{name}={scene.argument}" if scene.argument else name])

    def fits(scene: FaultScene) -> bool:
        return scene.speech.path in oddity.paths and (not oddity.needs or scene.first(oddity.needs) is not None)

    return Fault(oddity.about, make, fits, delivers=True)


ODD: dict[str, Fault] = {name: fault_from_oddity(name, oddity) for name, oddity in ODDITIES.items()}
KNOWN: dict[str, Fault] = {**FAULTS, **ODD}


# --- when -----------------------------------------------------------------------------------------------


FORM = "NAME[=ARGUMENT][:TIMES][@MODEL][~PROMPT]"


def fault_fits(name: str, scene: FaultScene) -> bool:
    return name not in scene.speech.without and KNOWN[name].fits(scene)


def is_delivering_fault(name: str, speech: ApiDialect) -> bool:
    """Whether a client can use the reply, and will not send the same request again."""
    return KNOWN[name].delivers and name not in speech.undelivered


class PlannedFault(NamedTuple):
    name: str
    times: int | None = 1  # in each conversation; None: no limit
    model: str = ""  # only this model
    after: int = 0  # not before this many requests of the conversation were answered
    prompt: str = ""  # only in conversations whose first user text contains this
    argument: str = ""

    @classmethod
    def read(cls, written: str) -> PlannedFault:
        """In the format of `FORM`; `*` means no limit."""
        parts = re.fullmatch(r"(\w+)(?:=([^:@~]+))?(?::(\d+|\*))?(?:@([^~]+))?(?:~(.+))?", written)
        if parts is None or parts[1] not in KNOWN:
            raise ValueError(f"'{written}' is not a fault; write {FORM}, with one of these names: {', '.join(KNOWN)}")
        times = None if parts[3] == "*" else int(parts[3] or 1)
        return cls(parts[1], times, parts[4] or "", prompt=parts[5] or "", argument=parts[2] or "")


class FaultPlan:
    """Decides which requests are spoiled, and how. One per server."""

    def __init__(self, *planned: PlannedFault, seed: int = 0, rates: Mapping[str, float] | None = None) -> None:
        named = [*[fault.name for fault in planned], *(rates or ())]
        if unknown := [name for name in named if name not in KNOWN]:
            raise ValueError(f"unknown fault '{unknown[0]}'; use one of {', '.join(KNOWN)}")
        self._planned = planned
        self._seed = seed
        self._rates = dict(rates or {})
        self._used: Counter[tuple[str, int]] = Counter()  # by conversation and fault
        self._asked: Counter[str] = Counter()  # requests of a conversation

    def spoil(self, scene: FaultScene) -> tuple[str, Reply]:
        """The fault's name and the spoiled reply; without a name, the reply is unchanged."""
        key = ReceivedConversation(scene.body).key
        self._asked[key] += 1
        for number, planned in enumerate(self._planned):
            hit = self._is_due(planned, (key, number), scene)
            if hit is not None:
                self._used[key, number] += 1
                return planned.name, KNOWN[planned.name].make(hit)
        name = self._drawn(key)
        if name and fault_fits(name, scene):
            return name, KNOWN[name].make(scene)
        return "", scene.say

    def _is_due(self, planned: PlannedFault, use: tuple[str, int], scene: FaultScene) -> FaultScene | None:
        key, _ = use
        used_up = planned.times is not None and self._used[use] >= planned.times
        if used_up or self._asked[key] <= planned.after or planned.prompt not in key:
            return None
        if planned.model not in ("", ReceivedConversation(scene.body).model):
            return None
        scene = scene._replace(argument=planned.argument)
        return scene if fault_fits(planned.name, scene) else None

    def _drawn(self, key: str) -> str:
        """At most one per request: the rates share one draw."""
        share = Random(f"{self._seed}:{key}:{self._asked[key]}").random()  # noqa: S311  # it must be reproducible
        for name, rate in self._rates.items():
            share -= rate
            if share < 0:
                return name
        return ""


# Former names, for one release.
Faults = FaultPlan
Planned = PlannedFault
