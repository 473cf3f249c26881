"""Preserved thinking: newer models take a thinking block back only behind the very conversation it was written in.

What is compared is everything before the block: tools, system, messages, cache marks left out. Where that was edited
the API refuses the request, or drops the block if `thinking.block_binding.prefix_mismatch_behavior` says so (which
needs a beta header; `rules/` looks for it). As documented by Anthropic, read on 2026-11-15.

Empty texts are left out too: the API refuses them, so nobody can hand one back.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from mainspring.simulator.manners import manner_of
from mainspring.simulator.received import Json, blocks_of, strip_cache_marks
from mainspring.simulator.replies import Say
from mainspring.simulator.violation import Violation

RULE = "thinking.prefix"
SAID = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". This setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
)


class SignatureBinding:
    """Signs what the model thinks, and knows where each signature belongs."""

    def __init__(self) -> None:
        self._before: dict[str, bytes] = {}  # what stood before the block with this signature
        self._numbers = count(1)

    def sign_reply(self, say: Say, body: Json) -> Say:
        """The reply with its thinking signed. A signature that the script gives is left as it is."""
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
        """The first block that does not stand where it was written, if this model minds."""
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
        """Each block of thinking, when everything before it is in the fingerprint and it is not yet."""
        for number, message in enumerate(messages):
            for place, block in enumerate(blocks_of(message)):
                if block["type"] == "thinking":
                    yield f"messages.{number}.content.{place}", block
                self.add(message["role"], block)


def extend_fingerprint(before: bytes, value: Any) -> bytes:
    return blake2b(before + encode(value), digest_size=16).digest()
