"""The type of a check, and the servers that it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

CHAT, RESPONSES, MESSAGES = PROTOCOLS = ("chat", "responses", "messages")
PATIENCE = 90  # seconds for one check; the longest takes some 20


class Servers(NamedTuple):
    """The same model, twice."""

    own: str  # with its own template, which supports no tools
    tools: str  # with ours, and through the relay: a tool must be called


Check = Callable[[Servers, str], Awaitable[str]]  # the protocol; what was seen, or an exception


class Row(NamedTuple):
    what: str
    check: Check
    shows: str  # and how
