"""A well-formed request, with the views that rules need: by turn, by kind, all text, all media.

String content is shorthand for one text block, and neighbours of one role are one turn: the API reads them that way,
and so do the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

from mainspring.simulator.forms import join_path
from mainspring.simulator.shapes import ModelQuirks, manner_of

Json = dict[str, Any]
HOLDERS = frozenset({"tool_result", "search_result", "document"})  # blocks with blocks inside
Endpoint = Literal["/v1/messages", "/v1/messages/count_tokens"]


class PlacedBlock(NamedTuple):
    """A block and its path."""

    path: str
    role: str
    kind: str
    block: Json

    def at(self, field: str) -> str:
        return f"{self.path}.{self.kind}.{field}"


class RequestTurn(NamedTuple):
    role: str
    path: str  # of its first message
    blocks: list[PlacedBlock]
    calls: list[PlacedBlock]
    results: list[PlacedBlock]


class CheckedRequest:
    def __init__(self, body: Json, headers: Mapping[str, str], *, alternate: bool) -> None:
        self.body = body
        self.headers = headers
        self.alternate = alternate
        self.model: str = body["model"]
        self.manner: ModelQuirks | None = manner_of(self.model)
        self.messages: list[Json] = body["messages"]
        self.turns: list[RequestTurn] = []
        self.by_kind: dict[str, list[PlacedBlock]] = {}
        for number, message in enumerate(self.messages):
            self._place(f"messages.{number}", message)

    def _place(self, path: str, message: Json) -> None:
        blocks = placed_in(message["content"], f"{path}.content", message["role"])
        if not blocks and message["role"] == "system":  # it only changes the effort: no turn of its own
            return
        if not self.turns or self.turns[-1].role != message["role"]:
            self.turns.append(RequestTurn(message["role"], path, [], [], []))
        turn = self.turns[-1]
        turn.blocks.extend(blocks)
        for placed in blocks:
            kind = placed.kind
            self.by_kind.setdefault(kind, []).append(placed)
            if kind == "tool_use":
                turn.calls.append(placed)
            elif kind == "tool_result":
                turn.results.append(placed)

    def kind(self, *kinds: str) -> Iterator[PlacedBlock]:
        """All blocks of these kinds, in the order of the kinds."""
        for name in kinds:
            yield from self.by_kind.get(name, ())

    @property
    def last(self) -> RequestTurn | None:
        return self.turns[-1] if self.turns else None

    @property
    def thinking(self) -> str | None:
        """`thinking.type`, where the request has one."""
        config: Json | None = self.body.get("thinking")
        return config["type"] if config else None

    @property
    def effort(self) -> str | None:
        return self.output.get("effort")

    @property
    def output(self) -> Json:
        config: Json = self.body.get("output_config", {})
        return config

    @property
    def tools(self) -> list[Json]:
        tools: list[Json] = self.body.get("tools", [])
        return tools

    @cached_property
    def betas(self) -> frozenset[str]:
        return frozenset([name.strip() for name in self.headers.get("anthropic-beta", "").split(",")])

    @cached_property
    def system(self) -> list[PlacedBlock]:
        return placed_in(self.body.get("system", ""), "system", "system")

    @cached_property
    def held(self) -> dict[str, list[PlacedBlock]]:
        """The blocks inside results, search results and documents, by the path of the outer block."""
        return {holder.path: list_inner_blocks(holder) for holder in self.kind(*HOLDERS)}

    @cached_property
    def inner(self) -> list[PlacedBlock]:
        return [placed for inside in self.held.values() for placed in inside]

    @cached_property
    def texts(self) -> list[PlacedBlock]:
        return [*self.system, *self.kind("text"), *[placed for placed in self.inner if placed.kind == "text"]]

    @cached_property
    def media(self) -> list[PlacedBlock]:
        inner = [placed for placed in self.inner if placed.kind in ("image", "document")]
        return [*self.kind("image", "document"), *inner]

    @cached_property
    def marks(self) -> list[tuple[str, Json]]:
        """Every cache breakpoint with its path, in the order of the API's cache: inner blocks, then the outer one.

        The automatic breakpoint, which is a field of the body, applies to the last block, so it comes last.
        """
        marked = [(f"tools.{number}", tool) for number, tool in enumerate(self.tools) if "cache_control" in tool]
        marked += [(placed.path, placed.block) for placed in self.system if "cache_control" in placed.block]
        for turn in self.turns:
            for outer in turn.blocks:
                for placed in (*self.held.get(outer.path, ()), outer):
                    if "cache_control" in placed.block:
                        marked.append((placed.path, placed.block))
        marked.append(("", self.body))
        return [(join_path(path, "cache_control"), mark) for path, it in marked if (mark := it.get("cache_control"))]


def placed_in(content: str | list[Json], path: str, role: str) -> list[PlacedBlock]:
    if isinstance(content, list):
        return [PlacedBlock(f"{path}.{number}", role, block["type"], block) for number, block in enumerate(content)]
    return [PlacedBlock(path, role, "text", {"type": "text", "text": content})] if content else []


def list_inner_blocks(holder: PlacedBlock) -> list[PlacedBlock]:
    content, path = holder.block.get("content", ""), f"{holder.path}.{holder.kind}.content"
    if holder.kind == "document":
        source: Json = holder.block["source"]
        content, path = source["content"] if source["type"] == "content" else "", holder.at("source.content.content")
    found: list[PlacedBlock] = []
    for placed in placed_in(content, path, holder.role):
        found.append(placed)
        if placed.kind in HOLDERS:
            found += list_inner_blocks(placed)
    return found
