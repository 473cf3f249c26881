"""Prompt caching as the API meters it, and the binding of thinking to its conversation. No I/O.

    cache = PromptCache()
    metered = cache.look(body, now)        # when the request arrives
    cache.keep(metered, now)               # when the answer begins: only then can others read the entry

The rules for caching, as documented on platform.claude.com and read on 2026-11-15:

- A prompt is tools, then system, then messages, one list of blocks. A breakpoint ends a prefix; the prefix is written
  there, and only there. Prefixes are compared exactly, without the breakpoints.
- A breakpoint looks for earlier entries: at its own position, then at the positions before it, 20 in all.
- A prefix shorter than the model's minimum is neither written nor found, without an error.
- It lives for five minutes or an hour, and each read refreshes it. Each model has a cache of its own.
- With A the longest prefix found, B the last one-hour breakpoint after it, C the last breakpoint: A is read, B - A is
  written for an hour, C - B for five minutes, and the rest is plain input.
- Another tool choice or thinking setting keeps the cached tools and system, but no messages.

Tokens are estimated as a quarter of the bytes; pass your own count function for other figures.

Preserved thinking: newer models accept a thinking block only after the same conversation in which it was written.
Everything before the block is compared: tools, system, messages, without breakpoints and empty texts (the API refuses
those, so no client can send one back). After an edit the API refuses the request, or drops the block if
`thinking.block_binding.prefix_mismatch_behavior` says so (which needs a beta header; `message_rules.py` checks it). As
documented by Anthropic, read on 2026-11-15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count
from typing import Any, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from mainspring.core.money import Usage
from mainspring.simulator.forms import Violation, is_list, is_object
from mainspring.simulator.replies import Json, Say, blocks_of, strip_cache_marks
from mainspring.simulator.shapes import manner_of, strip_model_date_suffix

RULE = "thinking.prefix"
SAID = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". This setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
)


class SignatureBinding:
    """Signs thinking, and remembers the conversation of each signature."""

    def __init__(self) -> None:
        self._before: dict[str, bytes] = {}  # the conversation before the block with this signature
        self._numbers = count(1)

    def sign_reply(self, say: Say, body: Json) -> Say:
        """The reply with its thinking signed. A signature in the script is kept."""
        chain = ConversationFingerprint(body)
        for _ in chain.walk(body["messages"]):
            pass
        blocks: list[Json] = []
        for given in say.blocks:
            block = given
            if block["type"] == "thinking":
                if "signature" not in block:
                    block = {**block, "signature": f"sig:{body['model']}:{next(self._numbers)}"}
                self._before[block["signature"]] = chain.digest
            chain.add("assistant", block)
            blocks.append(block)
        return replace(say, blocks=tuple(blocks))

    def broken(self, body: Json) -> Violation | None:
        """The first block that is not where it was written, if this model checks that."""
        manner = manner_of(body["model"])
        if manner is None or not manner.binds or thinking_behaviour(body) == "drop_block":
            return None
        chain = ConversationFingerprint(body)
        for path, block in chain.walk(body["messages"]):
            known = self._before.get(block.get("signature", ""))
            if known is not None and known != chain.digest:
                return Violation(path, RULE, SAID)
        return None


def thinking_behaviour(body: Json) -> str:
    thinking: Json = body.get("thinking") or {}
    binding: Json = thinking.get("block_binding") or {}
    return str(binding.get("prefix_mismatch_behavior", "error"))


class ConversationFingerprint:
    """A fingerprint that grows with the conversation."""

    def __init__(self, body: Json) -> None:
        system: Any = body.get("system") or []
        if isinstance(system, str):
            system = [{"type": "text", "text": system}]
        self.digest = extend_fingerprint(b"", [strip_cache_marks(body.get("tools") or []), strip_cache_marks(system)])

    def add(self, role: str, block: Json) -> None:
        if block["type"] != "text" or block["text"].strip():
            self.digest = extend_fingerprint(self.digest, [role, strip_cache_marks(block)])

    def walk(self, messages: list[Json]) -> Iterator[tuple[str, Json]]:
        """Each thinking block, when everything before it is in the fingerprint and the block itself is not yet."""
        for number, message in enumerate(messages):
            for place, block in enumerate(blocks_of(message)):
                if block["type"] == "thinking":
                    yield f"messages.{number}.content.{place}", block
                self.add(message["role"], block)


def extend_fingerprint(before: bytes, value: Any) -> bytes:
    return blake2b(before + encode(value), digest_size=16).digest()


LOOK_BACK = 20  # positions, including the breakpoint's own
MINUTE = 60_000  # times are in milliseconds
LIVES = {"5m": 5 * MINUTE, "1h": 60 * MINUTE}
LEAST_CACHED = 1_024  # for unknown models

BYTES_PER_TOKEN = 4
MEDIA_TOKENS = 1_600  # an image or a page, about the size of the largest


class CacheBlock(NamedTuple):
    """The end of a block."""

    digest: bytes  # of the prefix up to here
    tokens: int  # tokens in it
    mark: str | None  # the requested lifetime


class MeteredRequest(NamedTuple):
    model: str
    usage: Usage  # without any output
    found: CacheBlock | None
    written: tuple[CacheBlock, ...]  # the breakpoints that are worth caching


class PromptCache:
    def __init__(self, count: Callable[[Any], int] | None = None) -> None:
        self._count = count or tokens_in
        self._entries: dict[tuple[str, bytes], tuple[int, int]] = {}  # when it expires, and its lifetime

    def look(self, body: Json, now: int) -> MeteredRequest:
        model = strip_model_date_suffix(body["model"])
        row = list(self._places(body))
        marks = [number for number, place in enumerate(row) if place.mark and place.tokens >= least_cached(model)]
        hits = [hit for mark in marks if (hit := self._look_back(model, row, mark, now)) is not None]
        found = row[max(hits)] if hits else None
        total = row[-1].tokens if row else 0
        usage = charge_usage(total, found.tokens if found else 0, [row[mark] for mark in marks])
        return MeteredRequest(model, usage, found, tuple([row[mark] for mark in marks]))

    def keep(self, metered: MeteredRequest, now: int) -> None:
        """Refresh the entry that was read; write those that have a breakpoint."""
        if metered.found is not None:
            self._refresh((metered.model, metered.found.digest), now)
        for place in metered.written:
            key = (metered.model, place.digest)
            if not self._refresh(key, now):
                life = LIVES[place.mark or "5m"]
                self._entries[key] = (now + life, life)

    def _refresh(self, key: tuple[str, bytes], now: int) -> bool:
        expires, life = self._entries.get(key, (0, 0))
        if expires <= now:
            return False
        self._entries[key] = (now + life, life)
        return True

    def _look_back(self, model: str, row: list[CacheBlock], mark: int, now: int) -> int | None:
        for number in range(mark, max(-1, mark - LOOK_BACK), -1):
            if self._entries.get((model, row[number].digest), (0, 0))[0] > now:
                return number
        return None

    def _places(self, body: Json) -> Iterator[CacheBlock]:
        digest, tokens = b"", 0
        settings = [body.get("tool_choice"), body.get("thinking")]
        automatic: Json | None = body.get("cache_control")
        row = list(blocks_in_order(body))
        markable = [number for number, (_, block) in enumerate(row) if "thinking" not in block.get("type", "")]
        last = max(markable, default=-1)
        for number, (section, block) in enumerate(row):
            plain = strip_cache_marks(block)
            digest = extend_fingerprint(digest, [section, plain, settings if section == "messages" else None])
            tokens += self._count(plain)
            mark = mark_in(block) or (automatic if number == last else None)
            yield CacheBlock(digest, tokens, (mark.get("ttl") or "5m") if mark else None)


def charge_usage(total: int, read: int, marks: list[CacheBlock]) -> Usage:
    hour = max([place.tokens for place in marks if place.mark == "1h"], default=0)
    last = max([place.tokens for place in marks], default=0)
    hour = max(hour, read)
    last = max(last, hour)
    return Usage(input=total - last, cache_write=last - hour, cache_write_1h=hour - read, cache_read=read)


def least_cached(model: str) -> int:
    manner = manner_of(model)
    return manner.least_cached if manner is not None else LEAST_CACHED


def blocks_in_order(body: Json) -> Iterator[tuple[str, Json]]:
    for tool in body.get("tools") or ():
        yield "tools", tool
    system: str | list[Json] = body.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", block
    for message in body["messages"]:
        for block in blocks_of(message):
            yield "messages", {"role": message["role"], **block}


def mark_in(block: Json) -> Json | None:
    """Its own breakpoint, or that of the last block inside it: a block inside a result ends where the result ends."""
    own: Json | None = block.get("cache_control")
    content: Any = block.get("content")
    if own is not None or not is_list(content):
        return own
    return next((mark for inner in reversed(content) if (mark := inner.get("cache_control"))), None)


def tokens_in(value: Any) -> int:
    if is_object(value):
        if value.get("type") in ("image", "document"):
            return MEDIA_TOKENS
        if value.get("type") == "tool_result" and is_list(value.get("content")):
            return 4 + sum(tokens_in(each) for each in value["content"])
    return -(-len(encode(value)) // BYTES_PER_TOKEN)


def tokens_written(blocks: tuple[Json, ...]) -> int:
    """The tokens of a reply."""
    return sum(-(-len(encode(block)) // BYTES_PER_TOKEN) for block in blocks)
