"""Convert undocumented forms of chat completion chunks to the documented one.

    arguments as an object              {"function": {"name": "Read", "arguments": {"file_path": "a.py"}}}
    text in parts                       {"content": [{"type": "text", "text": "Hello"}]}
    thinking in parts                   {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": ""}]}]}
    numbers as text, text as numbers    {"index": "0", "id": 7}

OpenRouter also sends `reasoning_details`: signatures and encrypted parts of the thinking. They come in pieces, a list
of objects each; those with the same type and index belong together. They are sent back unchanged, in the same field of
the message, to the model that produced them: some models behind OpenRouter continue their thinking only then, and some
refuse a call without it.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from mainspring.core.messages import Block, Thinking
from mainspring.providers.text_tool_calls import UNREADABLE, as_list, decode_loosely

T = TypeVar("T")


def repair_chunk(data: bytes, form: type[T]) -> T | None:
    """None if it cannot be repaired."""
    try:
        found = decode_loosely(data)
        if not isinstance(found, dict):
            return None
        chunk = cast("dict[str, Any]", found)
        keep_raw(chunk, "error")
        if isinstance(chunk.get("choices"), list):
            chunk["choices"] = only_objects(chunk["choices"])  # without nulls
        for choice in only_objects(chunk.get("choices")):
            for name in ("delta", "message"):
                if isinstance(delta := choice.get(name), dict):
                    mend_delta(cast("dict[str, Any]", delta))
            choice["finish_reason"] = text_of_content(choice.get("finish_reason"))
        return msgspec.convert(chunk, form, strict=False)
    except UNREADABLE:
        return None


def mend_delta(delta: dict[str, Any]) -> None:
    if isinstance(delta.get("content"), list):
        parts = only_objects(delta["content"])
        thoughts = [part for part in parts if part.get("type") in ("thinking", "reasoning")]
        delta["content"] = "".join([text_in(part) for part in parts if part not in thoughts])
        if thoughts:
            delta["reasoning_content"] = "".join(map(text_in, thoughts))
    if isinstance(delta.get("content"), dict):
        delta["content"] = text_in(cast("dict[str, Any]", delta["content"]))
    if not isinstance(delta.get("reasoning_details"), list):
        delta.pop("reasoning_details", None)
    if isinstance(delta.get("reasoning"), dict):
        delta["reasoning"] = text_in(delta["reasoning"])
    if isinstance(delta.get("tool_calls"), dict):
        delta["tool_calls"] = [delta["tool_calls"]]
    if isinstance(delta.get("tool_calls"), list):
        delta["tool_calls"] = only_objects(delta["tool_calls"])
    for call in only_objects(delta.get("tool_calls")):
        call["id"] = text_of_content(call.get("id"))
        keep_raw(call, "extra_content")
        if isinstance(function := call.get("function"), dict):
            mend_function(cast("dict[str, Any]", function))
        elif "name" in call:  # the function's fields, one level up
            call["function"] = {"name": call["name"], "arguments": call.get("arguments")}
            mend_function(call["function"])
    if isinstance(function := delta.get("function_call"), dict):
        mend_function(cast("dict[str, Any]", function))


def keep_raw(found: dict[str, Any], name: str) -> None:
    """Fields for other readers, unchanged."""
    if name in found:
        found[name] = msgspec.Raw(msgspec.json.encode(found[name]))


def mend_function(function: dict[str, Any]) -> None:
    given = function.get("arguments")
    if given is not None and not isinstance(given, str):
        function["arguments"] = msgspec.json.encode(given).decode()


def only_objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in as_list(value) if isinstance(each, dict)] if isinstance(value, list) else []


def text_in(part: dict[str, Any]) -> str:
    """The text, wherever it is."""
    for name in ("text", "thinking", "content", "summary"):
        found = part.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return "".join(map(text_in, only_objects(as_list(found))))
    return ""


def text_of_content(value: Any) -> str | None:
    return None if value is None else str(value)


FIELD = "reasoning_details"
SIGNED = f"{FIELD} "  # precedes the list, in a signature of ours
WRITTEN = ("text", "summary", "data")  # fields that come in pieces


class ReasoningDetails:
    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, given: list[Any]) -> str:
        """Returns the text in the details, for servers that send it only here. Values that are not objects are
        ignored.
        """
        return "".join([self._add(piece) for piece in only_objects(given)])

    def _add(self, piece: dict[str, Any]) -> str:
        place = str(piece.get("type")), str(piece.get("index"))
        part = self._parts.setdefault(place, {})
        for name, value in piece.items():
            if name in WRITTEN and isinstance(value, str) and isinstance(part.get(name), str):
                part[name] += value
            elif value is not None or name not in part:
                part[name] = value
        said = piece.get("text") or piece.get("summary")
        return said if isinstance(said, str) else ""

    @property
    def signature(self) -> str:
        """All details, for the thinking block; empty if there are none."""
        return SIGNED + msgspec.json.encode(list(self._parts.values())).decode() if self._parts else ""


def has_details(block: Block) -> bool:
    return isinstance(block, Thinking) and block.signature.startswith(SIGNED)


def encode_details(block: Thinking) -> bytes:
    """The list, without its brackets."""
    return block.signature.removeprefix(SIGNED).encode()[1:-1]
