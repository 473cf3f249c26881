"""The cache marks of requests, as the prices of prompts assume them (`core/money.py`)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mainspring.core.config import RunSource
from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, ToolSpec


def test_no_mark_lasts_an_hour_and_the_newest_message_has_one() -> None:
    messages = [replace(user("One."), id="m1"), replace(user("Two."), id="m2")]
    asked = Conversation(History(messages), (), ("Be brief.",), (ToolSpec("Look", "Look.", {}),), (messages[-1].id,))
    prepared = Anthropic("a key").prepare(Request("claude-sonnet-5", 1_000, 1, RunSource.SDK, "", 0, 1), asked)
    body = b"".join(prepared.body)
    assert b"ttl" not in body
    marks = body.count(b"cache_control")
    assert marks == 2
    assert msgspec.json.decode(body)["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
