"""A request as it came, and what the conversation in it says: what a reply is chosen by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mainspring.simulator.forms import is_list, is_object

Json = dict[str, Any]


def keep_body(body: Json) -> Json:
    return body


class ReceivedRequest(NamedTuple):
    """A request, right or wrong."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any  # decoded; None where it is no JSON
    at: int  # milliseconds of the monotonic clock, when it was complete
    connection: int  # connections are numbered from 1
    hear: Callable[[Json], Json] = keep_body  # what it says in the form of the Messages API
    query: str = ""

    @property
    def heard(self) -> Json:
        """Only of a request whose form is right."""
        return self.hear(self.body)

    @property
    def talk(self) -> ReceivedConversation:
        return ReceivedConversation(self.heard)


class ReceivedConversation:
    """The conversation of a request whose form is right, in the form of the Messages API."""

    def __init__(self, body: Json) -> None:
        self.body = body
        self.model: str = body["model"]
        self.messages: list[Json] = body["messages"]

    @property
    def key(self) -> str:
        """Who is talking: the first words of the user, and the user's id where there is one.

        Sessions that share a server are told apart by this, so give each a prompt of its own.
        """
        first = next((words for _, words in self.said()), "")
        metadata: Json = self.body.get("metadata") or {}
        return f"{metadata.get('user_id') or ''}:{first}"

    def said(self) -> Iterator[tuple[int, str]]:
        """What users said in their own words, with the number of the message."""
        for number, message in enumerate(self.messages):
            if message["role"] == "user":
                for block in blocks_of(message):
                    if block["type"] == "text":
                        yield number, block["text"]

    @property
    def prompt(self) -> str:
        """The last thing that a user said."""
        return [words for _, words in self.said()][-1] if any(self.said()) else ""

    def turns(self, since: int = 0) -> int:
        """Replies that stand in the conversation, from the message with this number on."""
        return sum(message["role"] == "assistant" for message in self.messages[since:])

    def results(self, tool: str = "") -> list[Json]:
        """The results of tool calls, in their order; of one tool, or of all."""
        calls = {block["id"]: block["name"] for block in self.blocks("tool_use")}
        return [block for block in self.blocks("tool_result") if not tool or calls.get(block["tool_use_id"]) == tool]

    def blocks(self, kind: str) -> list[Json]:
        return [block for message in self.messages for block in blocks_of(message) if block["type"] == kind]


def blocks_of(message: Json) -> list[Json]:
    content: str | list[Json] = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def strip_cache_marks(value: Any) -> Any:
    """Without cache marks, wherever they stand: they are no part of what is said."""
    if is_object(value):
        return {name: strip_cache_marks(item) for name, item in value.items() if name != "cache_control"}
    if is_list(value):
        return [strip_cache_marks(item) for item in value]
    return value
