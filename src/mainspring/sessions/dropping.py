"""What going on from an earlier message leaves behind: only the one turn that the caller means, or a refusal.

A caller that takes a turn back names its prompt (`--resume-drops-turn`). Meanwhile the session may have taken up more
than the caller has seen: a prompt that waited, an agent's report. That must not be lost without a word.
"""

from __future__ import annotations

from mainspring.core.errors import UsageError
from mainspring.core.messages import Origin, User
from mainspring.messages_api import Unreadable
from mainspring.sessions.line_parser import spoke_of, user_messages
from mainspring.sessions.parent_links import ChainNode, ParentChain
from mainspring.sessions.reader import JournalReader

BEGINS = {  # a turn of its own, whoever began it
    Origin.PROMPT: "another prompt",
    Origin.REPORT: "an agent's report",
    Origin.SUMMARY: "a summary of what came before",
}


class WouldDropMore(UsageError):  # noqa: N818  # it reads as what it says
    """Callers match on the first words (stream-json 1.6)."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Resume rejected by --resume-drops-turn: {why}")


def check_drops(reader: JournalReader, chain: ParentChain, at: str, prompt: str) -> None:
    """Raises unless every message after `at` belongs to the turn that begins with `prompt`."""
    kept, way = {each.uuid for each in chain.way_to(at)}, chain.way_to()
    if at not in {each.uuid for each in way}:
        raise WouldDropMore(f"message '{at}' is no longer part of the conversation")
    turn, began = "", "the turn before it"  # whose turn a line belongs to, and what began that
    for each in sorted(way, key=lambda each: each.place):
        origin = _origin(reader, each)
        if origin is not None and origin in BEGINS:
            turn, began = each.uuid, BEGINS[origin]
        if each.uuid not in kept and turn != prompt:
            what = f"{began}, '{turn}'," if turn else "what no prompt began"
            raise WouldDropMore(f"'{each.uuid}' after message '{at}' belongs to {what} and not to '{prompt}'")


def _origin(reader: JournalReader, node: ChainNode) -> Origin | None:
    """Who put a user's message there; None for what is none, or cannot be read and so is not in the conversation."""
    line = reader.line_at(node.offset) if node.kind == "user" else None
    try:
        messages = user_messages(line, spoke_of(line), None) if line is not None else []
    except Unreadable:
        return None
    said = [message.origin for message in messages if isinstance(message, User)]
    return said[0] if said else None
