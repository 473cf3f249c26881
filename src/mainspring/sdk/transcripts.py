"""Convert the lines of a session file to the messages of its conversation, in the order of `claude-agent-sdk`: along
`parentUuid` from the newest message to its root, and then the messages that these links skip.

The links skip messages wherever calls ran in parallel: each result is linked to its own call, and the next message only
to one of them. The lines of a reply share an id, and results name their calls; that is how the others are found.

Nothing here reads files. `mainspring.sessions.parent_links` does the same to resume a session: there the messages must
be valid for a model, here they are shown as written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from mainspring.messages_api import Unreadable
from mainspring.sessions.parent_links import KINDS

Entry = dict[str, Any]  # a line, written by any program
SPOKEN = ("user", "assistant")


@dataclass
class SessionMessage:
    """A message of a stored session. `message` is in the format of the API."""

    type: Literal["user", "assistant"]
    uuid: str
    session_id: str
    message: Any
    parent_tool_use_id: str | None = None  # of a subagent: the call that started it,
    parent_agent_id: str | None = None  # and the subagent that made that call; None: the session itself


# --- lines --------------------------------------------------------------------------------------------------


def entry_of(line: bytes | str) -> Entry | None:
    """None if the line cannot be read, or is not an object."""
    return as_entry(value_of(line))


def as_entry(value: object) -> Entry | None:
    return cast("Entry", value) if isinstance(value, dict) else None


def value_of(text: bytes | str) -> Any:
    """None if it cannot be read. A lone surrogate, or a number out of range, must not lose a message."""
    try:
        return msgspec.json.decode(text)
    except Unreadable:
        pass
    try:
        return json.loads(text if isinstance(text, str) else text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def is_said(entry: Entry) -> bool:
    """Whether the line belongs to the conversation; titles, tags and our own records do not."""
    return entry.get("type") in KINDS and isinstance(entry.get("uuid"), str)


def parent_of(entry: Entry) -> str | None:
    parent = entry.get("parentUuid")
    return parent if isinstance(parent, str) and parent else None


# --- messages -----------------------------------------------------------------------------------------------


def is_shown(entry: Entry) -> bool:
    hidden = entry.get("isMeta") or entry.get("isSidechain") or entry.get("teamName")
    return entry["type"] in SPOKEN and not hidden


def message_of(entry: Entry, call: str | None = None, agent: str | None = None) -> SessionMessage:
    kind: Literal["user", "assistant"] = "user" if entry["type"] == "user" else "assistant"
    return SessionMessage(kind, entry["uuid"], entry.get("sessionId", ""), entry.get("message"), call, agent)


def slice_page(found: list[Entry], limit: int | None, offset: int) -> list[Entry]:
    if limit is not None and limit > 0:
        return found[offset : offset + limit]
    return found[offset:] if offset > 0 else found


# --- links ------------------------------------------------------------------------------------------------------


def select_conversation(entries: list[Entry]) -> list[Entry]:
    """From the root to the newest message; turns with parallel calls are complete."""
    by_id = {entry["uuid"]: entry for entry in entries}
    leaf = _leaf(entries, by_id)
    if leaf is None:
        return []
    way = list(_up(leaf, by_id))[::-1]
    return _with_siblings(way, by_id)


def agent_conversation(entries: list[Entry]) -> list[Entry]:
    """A subagent has one branch, and its last message is the newest."""
    leaf = next((entry for entry in reversed(entries) if entry["type"] in SPOKEN), None)
    by_id = {entry["uuid"]: entry for entry in entries}
    return list(_up(leaf, by_id))[::-1] if leaf is not None else []


def _up(entry: Entry, by_id: Mapping[str, Entry]) -> Iterator[Entry]:
    seen: set[str] = set()
    at: Entry | None = entry
    while at is not None and at["uuid"] not in seen:  # links may form a cycle
        seen.add(at["uuid"])
        yield at
        at = _above(at, by_id)


def _above(entry: Entry, by_id: Mapping[str, Entry]) -> Entry | None:
    parent = parent_of(entry)
    return by_id.get(parent) if parent is not None else None


def _leaf(entries: list[Entry], by_id: Mapping[str, Entry]) -> Entry | None:
    """The newest message without a successor; one of the main conversation, if there is any."""
    parents = {parent_of(entry) for entry in entries}
    passed: set[str] = set()  # by any of the walks: two that meet end at the same message
    ends: list[Entry] = []
    for entry in entries:
        at = entry if entry["uuid"] not in parents else None
        while at is not None and at["uuid"] not in passed:
            passed.add(at["uuid"])
            if at["type"] in SPOKEN:
                ends.append(at)
                break
            at = _above(at, by_id)
    places = {entry["uuid"]: place for place, entry in enumerate(entries)}
    own = [end for end in ends if is_shown(end)]
    return max(own or ends, key=lambda end: places[end["uuid"]], default=None)


# --- messages that the links skip -----------------------------------------------------------------------------------


def _with_siblings(way: list[Entry], by_id: Mapping[str, Entry]) -> list[Entry]:
    """Insert the missing lines and results of a reply after its last line that the links reach."""
    last = {name: entry["uuid"] for entry in way if (name := reply_id(entry))}
    if not last:
        return way
    replies, seen = TranscriptReplies(by_id), {entry["uuid"] for entry in way}
    answered = {call for entry in way for call in answers_of(entry)}
    behind: dict[str, list[Entry]] = {}
    for name, uuid in last.items():
        behind[uuid] = replies.missing(name, seen, answered)
        seen.update(entry["uuid"] for entry in behind[uuid])
    return [each for entry in way for each in (entry, *behind.get(entry["uuid"], ()))]


class TranscriptReplies:
    """The lines and results of each reply of a session, wherever they are linked."""

    def __init__(self, by_id: Mapping[str, Entry]) -> None:
        self._places = {uuid: place for place, uuid in enumerate(by_id)}
        self._lines: dict[str, list[Entry]] = {}  # per reply
        self._callers: dict[str, Entry | None] = {}  # the line that made a call; None: two replies say so
        self._results: dict[str, list[Entry]] = {}  # candidates for a line
        results: list[Entry] = []
        for entry in by_id.values():
            if name := reply_id(entry):
                self._lines.setdefault(name, []).append(entry)
                self._note_calls(name, entry)
            elif is_result(entry):
                results.append(entry)
        for result in results:
            for uuid in self._may_belong_to(result, by_id):
                self._results.setdefault(uuid, []).append(result)

    def _note_calls(self, name: str, entry: Entry) -> None:
        for call in ids_in(entry, "tool_use", "id"):
            other = self._callers.get(call, entry)
            self._callers[call] = entry if other is not None and reply_id(other) == name else None

    def _may_belong_to(self, result: Entry, by_id: Mapping[str, Entry]) -> Iterator[str]:
        yield result["parentUuid"]
        source = result.get("sourceToolAssistantUUID")
        claimed = [by_id.get(source) if isinstance(source, str) else None]
        for line in (*claimed, *map(self._callers.get, answers_of(result))):
            if line is not None and _writer(line) == _writer(result):
                yield line["uuid"]

    def missing(self, name: str, seen: set[str], answered: set[str]) -> list[Entry]:
        """Of a reply: its lines first, then its results, each sorted by time."""
        lines = self._lines[name]
        members = {line["uuid"] for line in lines}
        found = {
            result["uuid"]: result
            for line in lines
            for result in self._results.get(line["uuid"], ())
            if result["uuid"] not in seen
        }
        results = [result for result in found.values() if result["parentUuid"] in members]
        strays = [result for result in found.values() if result["parentUuid"] not in members]
        results += self._wanted(strays, members, answered.union(*map(answers_of, results)) if strays else answered)
        siblings = [line for line in lines if line["uuid"] not in seen]
        return sorted(siblings, key=_time) + sorted(results, key=_time)

    def _wanted(self, strays: list[Entry], members: set[str], answered: set[str]) -> Iterator[Entry]:
        """Results linked elsewhere, if they answer a call that has no other result."""
        for result in sorted(strays, key=lambda stray: self._places[stray["uuid"]]):
            calls = answers_of(result)
            callers = [self._callers.get(call) for call in calls if call not in answered]
            if any(caller is not None and caller["uuid"] in members for caller in callers):
                answered.update(calls)
                yield result


def reply_id(entry: Entry) -> str:
    """The id that the lines of a reply share; "" for other lines."""
    name = (as_entry(entry.get("message")) or {}).get("id") if entry.get("type") == "assistant" else None
    return name if isinstance(name, str) else ""


def is_result(entry: Entry) -> bool:
    return entry.get("type") == "user" and parent_of(entry) is not None and bool(blocks_of(entry, "tool_result"))


def answers_of(entry: Entry) -> list[str]:
    """The calls that a line answers."""
    return ids_in(entry, "tool_result", "tool_use_id")


def ids_in(entry: Entry, kind: str, field: str) -> list[str]:
    return [block[field] for block in blocks_of(entry, kind) if isinstance(block.get(field), str)]


def blocks_of(entry: Entry, kind: str) -> list[Entry]:
    blocks = content_of(entry)
    found = map(as_entry, cast("list[object]", blocks) if isinstance(blocks, list) else ())
    return [block for block in found if block is not None and block.get("type") == kind]


def content_of(entry: Entry) -> object:
    return (as_entry(entry.get("message")) or {}).get("content")


def _writer(entry: Entry) -> tuple[bool, Any]:
    return bool(entry.get("isSidechain")), entry.get("agentId")


def _time(entry: Entry) -> str:
    moment = entry.get("timestamp")
    return moment if isinstance(moment, str) else ""
