"""Answers in the format of OpenAI's Chat Completions, whole and streamed, with the quirks of servers that imitate it.

OpenAI itself shows no thinking here; the quirk `reasoning_content` sends it as other servers do.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.json import encode

from mainspring.core.money import Usage
from mainspring.simulator.cache import tokens_written
from mainspring.simulator.forms import is_object
from mainspring.simulator.openai_chat_request import find_violations, to_messages
from mainspring.simulator.openai_errors import error_of, make_openai_headers, make_openai_refusal, violation_to_error
from mainspring.simulator.protocol import ApiDialect
from mainspring.simulator.replies import Json, Refuse, ReplyStamp, Say, written_input
from mainspring.simulator.server_quirks import CHAT, get_spelling_oddities

CREATED = 1_794_700_000  # a day in November 2026; constant, so that answers can be compared
FINISHED = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
NO_ID: dict[str, Json] = {"": {}, "empty": {"id": ""}, "null": {"id": None}}


def finish_reason(say: Say) -> str | None:
    odd = get_spelling_oddities(say)
    if "no_finish" in odd:
        return None
    return "stop" if "stop_with_calls" in odd else FINISHED.get(say.stopped, "stop")


def usage_to_chat(say: Say) -> Json:
    usage: Usage = say.spent
    thinking = tokens_written(tuple([block for block in say.blocks if block["type"] == "thinking"]))
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write + usage.cache_write_1h,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": min(thinking, usage.output), "audio_tokens": 0},
    }


def make_chat_envelope(stamp: ReplyStamp, kind: str) -> Json:
    return {
        "id": stamp.id.replace("msg_", "chatcmpl-"),
        "object": kind,
        "created": CREATED,
        "model": stamp.model,
        "service_tier": "default",
        "system_fingerprint": "fp_simulated",
    }


# --- as one message --------------------------------------------------------------------------------------


def make_chat_completion(say: Say, stamp: ReplyStamp, _: Json) -> Json:
    odd = get_spelling_oddities(say)
    words = "".join([block["text"] for block in say.blocks if block["type"] == "text"])
    thoughts = "".join([block["thinking"] for block in say.blocks if block["type"] == "thinking"])
    calls = [call_of(block, odd) for block in say.blocks if block["type"] == "tool_use"]
    refuses = "refusal_field" in odd
    message: Json = {
        "role": "assistant",
        "content": None if refuses or (calls and not words) else words,
        "refusal": words if refuses else None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = calls
    if thoughts and "reasoning_content" in odd:
        message[odd["reasoning_content"] or "reasoning_content"] = thoughts
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(say)}
    usage = {} if "no_usage" in odd else {"usage": usage_to_chat(say)}
    return {**make_chat_envelope(stamp, "chat.completion"), "choices": [choice], **usage}


def call_of(block: Json, odd: dict[str, str]) -> Json:
    return {**id_of(block, odd), "type": "function", "function": {"name": block["name"], **arguments_of(block, odd)}}


def id_of(block: Json, odd: dict[str, str]) -> Json:
    return NO_ID[odd["no_ids"]] if "no_ids" in odd else {"id": block["id"]}


def arguments_of(block: Json, odd: dict[str, str]) -> Json:
    return {"arguments": spell_arguments(written_input(block) or "{}", odd)}


def spell_arguments(arguments: str, odd: dict[str, str]) -> Any:
    """Text, or the object itself with that quirk. A value that is not an object stays text."""
    if "object_arguments" not in odd:
        return arguments
    try:
        decoded = msgspec.json.decode(arguments)
    except ValueError:
        return arguments
    return decoded if is_object(decoded) else arguments


# --- as a stream -----------------------------------------------------------------------------------------


class ChatStreamWriter:
    """Encodes event by event. It numbers the calls and keeps their arguments so far."""

    def __init__(self, say: Say, stamp: ReplyStamp, asked: Json) -> None:
        self._say = say
        self._odd = get_spelling_oddities(say)
        self._head = make_chat_envelope(stamp, "chat.completion.chunk")
        options: Json = asked.get("stream_options") or {}
        self._counts = bool(options.get("include_usage")) and "no_usage" not in self._odd
        self._in_one_piece = not {"object_arguments", "whole_calls"}.isdisjoint(self._odd)
        self._calls: dict[int, int] = {}  # the number of a call, by its block
        self._open: Json = {}  # the call that is being written
        self._written = ""  # of its arguments

    def __call__(self, event: Json) -> bytes:
        match event["type"]:
            case "message_start":
                silent = any(block["type"] == "tool_use" for block in self._say.blocks[:1])
                return self._chunk({"role": "assistant", "content": None if silent else "", "refusal": None})
            case "content_block_start":
                return self._begun(event["index"], event["content_block"])
            case "content_block_delta":
                return self._more(event["index"], event["delta"])
            case "content_block_stop":
                return self._done(event["index"])
            case "message_delta":
                counted: Json = {**self._head, "choices": [], "usage": usage_to_chat(self._say)}
                return self._chunk({}, finish_reason(self._say)) + (frame_chat_event(counted) if self._counts else b"")
            case "message_stop":
                return b"" if "no_done" in self._odd else b"data: [DONE]\n\n"
            case "error":
                return frame_chat_event(
                    {"error": error_of(Refuse(500, event["error"]["type"], event["error"]["message"]))}
                )
            case _:
                return b""

    def _begun(self, index: int, block: Json) -> bytes:
        if block["type"] != "tool_use":
            return b""
        self._calls.setdefault(index, len(self._calls))
        self._open, self._written = block, ""
        if self._in_one_piece:
            return b""
        begun = {"name": block["name"], "arguments": ""}
        return self._piece(index, {**id_of(block, self._odd), "type": "function", "function": begun})

    def _more(self, index: int, delta: Json) -> bytes:
        match delta["type"]:
            case "text_delta":
                field = "refusal" if "refusal_field" in self._odd else "content"
                return self._chunk({field: delta["text"]})
            case "thinking_delta" if "reasoning_content" in self._odd:
                return self._chunk({self._odd["reasoning_content"] or "reasoning_content": delta["thinking"]})
            case "input_json_delta" if index in self._calls:
                self._written += delta["partial_json"]
                if not delta["partial_json"] or self._in_one_piece:
                    return b""
                return self._piece(index, {"function": {"arguments": delta["partial_json"]}})
            case _:
                return b""

    def _done(self, index: int) -> bytes:
        """A call without arguments is written as an empty object here, not as empty text."""
        if index not in self._calls:
            return b""
        if self._in_one_piece:
            block = {**self._open, "partial_json": self._written or "{}"}
            return self._piece(index, call_of(block, self._odd))
        return b"" if self._written else self._piece(index, {"function": {"arguments": "{}"}})

    def _piece(self, index: int, piece: Json) -> bytes:
        number = {} if "no_index" in self._odd else {"index": self._calls[index]}
        return self._chunk({"tool_calls": [{**number, **piece}]})

    def _chunk(self, delta: Json, finished: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finished}
        return frame_chat_event({**self._head, "choices": [choice], **({"usage": None} if self._counts else {})})


def frame_chat_event(data: Json) -> bytes:
    return b"data: %s\n\n" % encode(data)


SPEECH = ApiDialect(
    path=CHAT,
    judge=find_violations,
    hear=to_messages,
    complain=violation_to_error,
    refuse=make_openai_refusal,
    headers=make_openai_headers,
    whole=make_chat_completion,
    teller=ChatStreamWriter,
    ping=b": PROCESSING\n\n",
    broken_json=b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"del\n\n',
    broken_sse=b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk",\n"choices":[]}\n\n',
    strange=(
        b": a comment\n\n",
        frame_chat_event({"id": "chatcmpl-1", "object": "weather", "choices": [], "rain": "drops"}),
        b"retry: 10\nid: 7\n\n",
        b"event: nothing\n\n",
    ),
    without=frozenset({"paused", "bad_signature"}),
    undelivered=frozenset({"cut_after_call"}),  # only the next event shows that a call is finished
)
