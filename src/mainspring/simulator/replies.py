"""Replies of the simulated model, their encoding as a stream, and received requests. Pure.

    Say.of("Let me look.", {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}})
    Refuse(529, "overloaded_error", "Overloaded")
    RawStream((b"event: ping\\ndata: {}\\n\\n",), end="reset")
    RawReply((b"HTTP/1.1 200 OK\\r\\n", b"\\r\\n"))

Blocks are plain objects in the API's own format. Thinking without a signature is signed with `sig:<model>:<number>`,
which `validate.py` checks against the model it comes back to. A call whose block has `partial_json` is written with
that text in place of its input, so that it can be cut short or broken.

`ReceivedRequest` is a request as it came, and `ReceivedConversation` the conversation in it: a reply is chosen by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.json import encode

from mainspring.core.money import Usage
from mainspring.simulator.forms import is_list, is_object
from mainspring.simulator.shapes import SERVER_RESULTS

Json = dict[str, Any]

PIECE = 12  # characters per delta: about three tokens
INPUT, OUTPUT = 100, 20  # tokens, if the script does not say


class Say(Struct, frozen=True, tag="say", tag_field="reply"):
    """A message. Without a stop reason, the blocks determine it."""

    blocks: tuple[Json, ...]
    stop_reason: str = ""
    usage: Usage | None = None  # None: metered by the server, or the two figures above
    pace_ms: int = 0  # before each event
    odd: tuple[str, ...] = ()  # quirks of odd servers: see `server_quirks.py`
    cleared: tuple[int, int] | None = None  # results and tokens that the service cleared; for clients that asked for it

    @classmethod
    def of(
        cls,
        *parts: str | Json,
        stop_reason: str = "",
        usage: Usage | None = None,
        pace_ms: int = 0,
        odd: tuple[str, ...] = (),
        cleared: tuple[int, int] | None = None,
    ) -> Say:
        blocks = tuple([make_text_block(part) if isinstance(part, str) else part for part in parts])
        return cls(blocks, stop_reason, usage, pace_ms, odd, cleared)

    @property
    def spent(self) -> Usage:
        return self.usage or Usage(input=INPUT, output=OUTPUT, web_searches=count_web_searches(self.blocks))

    @property
    def stopped(self) -> str:
        calls = any(block["type"] == "tool_use" for block in self.blocks)
        return self.stop_reason or ("tool_use" if calls else "end_turn")


class Refuse(Struct, frozen=True, tag="refuse", tag_field="reply"):
    """An error instead of an answer."""

    status: int
    type: str
    message: str = ""
    headers: dict[str, str] = {}
    code: str = ""  # only OpenAI's protocols have these two; with a code, the type is sent unchanged
    param: str = ""


class RawReply(Struct, frozen=True, tag="raw", tag_field="reply"):
    """Bytes sent as they are, including the status line; then the connection is closed."""

    chunks: tuple[bytes, ...]
    pace_ms: int = 0  # before each chunk


class RawStream(Struct, frozen=True, tag="stream", tag_field="reply"):
    """A hand-made answer and its end: faults are built from these."""

    frames: tuple[bytes, ...] = ()
    end: Literal["done", "close", "reset", "hang"] = "done"  # whole; cut; reset; never, until the client disconnects
    head: bool = True  # False: nothing is added to the frames
    usage: Usage | None = None  # its cost; None: free
    pace_ms: int = 0  # before each frame


Reply = Say | Refuse | RawReply | RawStream


def make_text_block(words: str) -> Json:
    return {"type": "text", "text": words}


# --- web search on the server's side -----------------------------------------------------------------


def make_web_search(query: str, *pages: tuple[str, str], id: str = "srvtoolu_1", error: str = "") -> tuple[Json, Json]:
    """A search and its result: pages as address and title, or an error such as `max_uses_exceeded`.

    Say.of(*make_web_search("python 3.14", ("https://docs.python.org/3.14/", "Python 3.14")), "It is out.")
    """
    call: Json = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}}
    found: object = [
        {"type": "web_search_result", "url": url, "title": title, "encrypted_content": "e30=", "page_age": None}
        for url, title in pages
    ]
    if error:
        found = {"type": "web_search_tool_result_error", "error_code": error}
    return call, {"type": "web_search_tool_result", "tool_use_id": id, "content": found}


def count_web_searches(blocks: Iterable[Json]) -> int:
    """Those that are billed: a search that failed is free, as documented."""
    results = [block for block in blocks if block["type"] == "web_search_tool_result"]
    return sum([is_list(block["content"]) for block in results])


# --- as one message --------------------------------------------------------------------------------


class ReplyStamp(NamedTuple):
    """The server's additions to a reply."""

    model: str
    id: str  # of the message
    sign: Callable[[], str]  # a new signature


def make_message(say: Say, stamp: ReplyStamp) -> Json:
    content = [without_scraps(sign_thinking(block, stamp)) for block in say.blocks]
    said = {"content": content, "stop_reason": say.stopped, "usage": usage_to_api(say.spent)}
    return {**make_message_envelope(say, stamp), **said, **make_context_management(say)}


def make_message_envelope(say: Say, stamp: ReplyStamp) -> Json:
    """A message before its first block."""
    return {
        "id": stamp.id,
        "type": "message",
        "role": "assistant",
        "model": stamp.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage_to_api(say.spent), "output_tokens": min(1, say.spent.output)},
    }


def make_context_management(say: Say) -> Json:
    """Edits of the context by the service, if there are any."""
    if say.cleared is None:
        return {}
    results, tokens = say.cleared
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": results, "cleared_input_tokens": tokens}
    return {"context_management": {"applied_edits": [edit]}}


def sign_thinking(block: Json, stamp: ReplyStamp) -> Json:
    if block["type"] == "thinking" and "signature" not in block:
        return {**block, "signature": stamp.sign()}
    return block


def usage_to_api(usage: Usage) -> Json:
    searched = {"server_tool_use": {"web_search_requests": usage.web_searches}} if usage.web_searches else {}
    return {
        **searched,
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write + usage.cache_write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


# --- as a stream -----------------------------------------------------------------------------------


def stream_events(say: Say, stamp: ReplyStamp) -> Iterator[Json]:
    """In the documented order: the ping follows the first block start."""
    yield {"type": "message_start", "message": make_message_envelope(say, stamp)}
    if not say.blocks:
        yield {"type": "ping"}
    for index, block in enumerate(say.blocks):
        start, deltas = split_block(sign_thinking(block, stamp))
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": say.stopped, "stop_sequence": None}
    said = usage_to_api(say.spent)
    total = {name: said[name] for name in said if name.endswith("_tokens") or name == "server_tool_use"}  # cumulative
    yield {"type": "message_delta", "delta": ended, "usage": total, **make_context_management(say)}
    yield {"type": "message_stop"}


def split_block(block: Json) -> tuple[Json, list[Json]]:
    """The start of a block, and the deltas that complete it."""
    kind: str = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
        return {**block, "text": "", **({"citations": []} if cited else {})}, [
            *make_text_deltas("text", block["text"]),
            *cited,
        ]
    if kind == "thinking":
        begun = {"type": kind, "thinking": "", "signature": ""}
        return begun, [
            *make_text_deltas("thinking", block["thinking"]),
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind in ("tool_use", "server_tool_use"):
        written = make_text_deltas("input_json", written_input(block), field="partial_json")
        empty: Json = {**without_scraps(block), "input": {}}
        return empty, [{"type": "input_json_delta", "partial_json": ""}, *written]
    assert kind in (*SERVER_RESULTS, "redacted_thinking"), f"'{kind}' is not a block that a model writes"
    return block, []


def written_input(block: Json) -> str:
    """As JSON text. A call without arguments has only the empty delta, as from the API."""
    given: str | None = block.get("partial_json")
    if given is not None:
        return given
    return encode(block["input"]).decode() if block["input"] else ""


def without_scraps(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "partial_json"}


def make_text_deltas(kind: str, whole: str, *, field: str = "") -> list[Json]:
    cuts = [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]
    return [{"type": f"{kind}_delta", field or kind: cut} for cut in cuts]


def frame_event(event: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), encode(event))


def keep_body(body: Json) -> Json:
    return body


class ReceivedRequest(NamedTuple):
    """A request, valid or not."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any  # decoded; None if it is not JSON
    at: int  # milliseconds of the monotonic clock, when it was complete
    connection: int  # connections are numbered from 1
    hear: Callable[[Json], Json] = keep_body  # the request in the format of the Messages API
    query: str = ""

    @property
    def heard(self) -> Json:
        """Only for a well-formed request."""
        return self.hear(self.body)

    @property
    def talk(self) -> ReceivedConversation:
        return ReceivedConversation(self.heard)


class ReceivedConversation:
    """The conversation of a well-formed request, in the format of the Messages API."""

    def __init__(self, body: Json) -> None:
        self.body = body
        self.model: str = body["model"]
        self.messages: list[Json] = body["messages"]

    @property
    def key(self) -> str:
        """The conversation's identity: the first user text, and the user's id if there is one.

        It distinguishes sessions that share a server, so give each a prompt of its own.
        """
        first = next((words for _, words in self.said()), "")
        metadata: Json = self.body.get("metadata") or {}
        return f"{metadata.get('user_id') or ''}:{first}"

    def said(self) -> Iterator[tuple[int, str]]:
        """The user texts, with the number of the message."""
        for number, message in enumerate(self.messages):
            if message["role"] == "user":
                for block in blocks_of(message):
                    if block["type"] == "text":
                        yield number, block["text"]

    @property
    def prompt(self) -> str:
        """The last user text."""
        return [words for _, words in self.said()][-1] if any(self.said()) else ""

    def turns(self, since: int = 0) -> int:
        """The number of replies, from the message with this number on."""
        return sum(message["role"] == "assistant" for message in self.messages[since:])

    def results(self, tool: str = "") -> list[Json]:
        """The results of tool calls, in order; of one tool, or of all."""
        calls = {block["id"]: block["name"] for block in self.blocks("tool_use")}
        return [block for block in self.blocks("tool_result") if not tool or calls.get(block["tool_use_id"]) == tool]

    def blocks(self, kind: str) -> list[Json]:
        return [block for message in self.messages for block in blocks_of(message) if block["type"] == kind]


def blocks_of(message: Json) -> list[Json]:
    content: str | list[Json] = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def strip_cache_marks(value: Any) -> Any:
    """Without cache breakpoints, at any depth: they are not content."""
    if is_object(value):
        return {name: strip_cache_marks(item) for name, item in value.items() if name != "cache_control"}
    if is_list(value):
        return [strip_cache_marks(item) for item in value]
    return value
