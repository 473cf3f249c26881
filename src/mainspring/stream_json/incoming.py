"""Parses the lines that a driving program sends (stream-json 1.4, 2 and 3.2). Pure.

Unknown frames are ignored, so that newer programs can send more. A line that is not JSON, or a malformed prompt, is an
error: the program would otherwise wait for an answer that never comes.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.agent.prompt_expansion import Prompt
from mainspring.core.messages import Content, Document, Image, Text
from mainspring.core.value import Bundle
from mainspring.text import as_list, as_object

LONGEST_SHOWN = 200  # characters of a line that cannot be parsed


class BadLineError(Exception):
    """A line cannot be parsed. The message is for the author of the program."""


class WirePrompt(Prompt):
    as_blocks: bool = False  # it was a list of blocks, and is replayed as one


class ControlRequest(Bundle):
    id: str
    subtype: str
    fields: dict[str, Any]


class ControlReply(Bundle):
    """The reply to one of our requests."""

    id: str
    value: dict[str, Any]
    error: str | None = None  # the callback failed


Incoming = WirePrompt | ControlRequest | ControlReply


def parse_incoming(line: bytes) -> Incoming | None:
    """None: an empty line or an unknown frame. Raises `BadLineError`."""
    if not line.strip():
        return None
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLineError(f"a line on standard input is not JSON ({error}): '{shorten_line(line)}'") from None
    except RecursionError:
        raise BadLineError("a line on standard input is nested too deeply") from None
    if not isinstance(said, dict):
        raise BadLineError(f"a line on standard input is not a JSON object: '{shorten_line(line)}'")
    frame = cast("dict[str, Any]", said)
    match frame.get("type"):
        case "user":
            return parse_prompt_frame(frame)
        case "control_request":
            return parse_control_request(frame)
        case "control_response":
            return parse_control_reply(as_object(frame.get("response")))
        case _:
            return None


def parse_control_request(frame: dict[str, Any]) -> ControlRequest | None:
    name, fields = frame.get("request_id"), as_object(frame.get("request"))
    return ControlRequest(name, str(fields.get("subtype", "")), fields) if isinstance(name, str) else None


def parse_control_reply(response: dict[str, Any]) -> ControlReply | None:
    name = response.get("request_id")
    if not isinstance(name, str):
        return None
    if response.get("subtype") == "error":
        return ControlReply(name, {}, error=str(response.get("error", "")) or "it failed")
    return ControlReply(name, as_object(response.get("response")))


# --- prompts ----------------------------------------------------------------------------------------


def parse_prompt_frame(frame: dict[str, Any]) -> WirePrompt:
    message = as_object(frame.get("message"))
    if message.get("role") != "user":
        raise BadLineError(f"a message with the role '{message.get('role')}' is not a prompt: the role must be 'user'")
    said, own_id, origin = message.get("content"), frame.get("uuid"), frame.get("origin")
    parts = (
        [parse_text(said)]
        if isinstance(said, str)
        else [part for one in as_list(said) for part in parse_content_block(as_object(one))]
    )
    return WirePrompt(
        tuple(parts),
        own_id if isinstance(own_id, str) else "",
        as_blocks=not isinstance(said, str),
        literal=frame.get("client_composed") is True,
        origin=as_object(origin) or None,
        delivery="steer" if frame.get("delivery") == "steer" else "next_run",
    )


def parse_content_block(one: dict[str, Any]) -> list[Content]:
    """A block of the API. An unsupported block becomes a text that says so, so that it does not vanish silently."""
    kind, source = one.get("type"), as_object(one.get("source"))
    match kind, source.get("type"):
        case "text", _:
            return [parse_text(one.get("text"))]
        case "image", "base64":
            return [Image(str(source.get("media_type", "image/png")), str(source.get("data", "")))]
        case "document", "base64":
            return [Document(str(source.get("media_type", "application/pdf")), str(source.get("data", "")))]
        case "document", "text":
            return [parse_text(source.get("data"))]
        case "tool_result", _:
            inner = one.get("content")
            if isinstance(inner, str):
                return [parse_text(inner)]
            return [part for each in as_list(inner) for part in parse_content_block(as_object(each))]
        case (("image" | "document"), other):
            return [Text(f"[{kind} left out: its source is '{other}', and only 'base64' is known here]")]
        case _:
            return [Text(f"[a block of the type '{kind}' was left out: it is not known here]")]


def parse_text(said: object) -> Text:
    return Text(said if isinstance(said, str) else "")


def shorten_line(line: bytes) -> str:
    return line[:LONGEST_SHOWN].decode(errors="replace")
