"""What a stream of OpenAI's protocols amounts to, read by the book and by nothing of ours."""

from __future__ import annotations

import json
from typing import Any

from simulator.bodies import Json


def records(raw: bytes) -> list[tuple[str, str]]:
    """Name and data of each event that has data; comments and what is unknown are passed over."""
    found: list[tuple[str, str]] = []
    for record in raw.decode().split("\n\n"):
        held = dict(line.split(": ", 1) for line in record.split("\n") if ": " in line and line[0] != ":")
        if "data" in held:
            found.append((held.get("event", ""), held["data"]))
    return found


class Chat:
    """A chat completion, put together again."""

    def __init__(self, raw: bytes) -> None:
        self.fields: dict[str, str] = {}  # what was said, by the field it came in
        self.calls: list[Json] = []
        self.finish: str | None = None
        self.usage: Json | None = None
        self.error: Json | None = None
        self.done = False
        for _, data in records(raw):
            if data == "[DONE]":
                self.done = True
            elif not self.done:
                self._add(json.loads(data))

    @property
    def text(self) -> str:
        return self.fields.get("content", "")

    def _add(self, chunk: Json) -> None:
        self.error = chunk.get("error") or self.error
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices") or ():
            self.finish = choice["finish_reason"] or self.finish
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for piece in value:
                        self._piece(piece)
                elif name != "role" and value is not None:
                    self.fields[name] = self.fields.get(name, "") + value

    def _piece(self, piece: Json) -> None:
        """A piece without a number is a new call where it has a name."""
        begins = "name" in piece["function"]
        at = piece.get("index", len(self.calls) if begins else len(self.calls) - 1)
        if at == len(self.calls):
            self.calls.append({"id": piece.get("id"), "name": piece["function"]["name"], "arguments": ""})
        given: Any = piece["function"].get("arguments", "")
        self.calls[at]["arguments"] = given if isinstance(given, dict) else self.calls[at]["arguments"] + given


class Response:
    """A response, put together from its pieces, and the one that the last event holds."""

    def __init__(self, raw: bytes) -> None:
        self.items: dict[int, Json] = {}  # as they were when they were done
        self.pieces: dict[str, str] = {}  # all deltas of an item, by its id
        self.final: Json | None = None
        self.error: Json | None = None
        self.kinds: list[str] = []
        self.numbers: list[int] = []
        for name, data in records(raw):
            event = json.loads(data)
            assert event["type"] == name
            self.kinds.append(name)
            self.numbers.append(event["sequence_number"])
            self._add(event)

    @property
    def text(self) -> str:
        return "".join([words for id, words in self.pieces.items() if id.startswith("msg")])

    def _add(self, event: Json) -> None:
        kind = event["type"]
        if kind.endswith(".delta") and "item_id" in event:
            self.pieces[event["item_id"]] = self.pieces.get(event["item_id"], "") + event["delta"]
        elif kind == "response.output_item.done":
            self.items[event["output_index"]] = event["item"]
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self.final = event["response"]
        elif kind == "error":
            self.error = event
