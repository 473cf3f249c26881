"""The conversation by its parent links, for files of other programs and damaged files.

The newest branch wins. Broken links are replaced by the order of the file; missing results are filled in, and what does
not fit is left out, so that the result is always a conversation that can be sent to a model (security D2).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, ToolResult, User, result, user
from mainspring.core.pairing import NeverRan
from mainspring.core.value import Stamp
from mainspring.sessions.line_parser import (
    ApiMessage,
    JournalLine,
    preserved_messages,
    preserved_segment,
    raw_blocks,
    spoke_of,
)

LOST_BEGINNING = "[The beginning of this conversation could not be read.]"
_MADE = 1_000  # ids of created messages count from here, beyond any reply's blocks


class ChainCall(Struct):
    """A block, as far as it says whose call it makes or answers."""

    type: str = ""
    id: str = ""
    tool_use_id: str = ""


_call = msgspec.json.Decoder(ChainCall)


class ChainNode(NamedTuple):
    """What a walk needs to know about a line. Lines on the path are read again."""

    uuid: str
    parent: str | None
    offset: int
    place: int  # among the conversation lines
    kind: str
    shared: str  # of a reply's lines: the id that they share
    calls: tuple[str, ...]  # ids of the calls that a reply's line makes, or that a user's line answers
    aside: bool  # of a subagent
    hidden: bool
    logical_parent: str | None = None
    kept_after: str = ""
    is_boundary: bool = False
    preserved: tuple[str, ...] = ()  # of a boundary of Claude Code: the lines that stay in view,
    segment: tuple[str, str] = ("", "")  # or the first and the last of them
    copy_of: str = ""  # the uuid that it had in another file


KINDS = ("user", "assistant", "system", "attachment", "progress")


def make_node(offset: int, line: JournalLine, place: int) -> ChainNode:
    spoke = spoke_of(line) if line.message else ApiMessage()
    kept = line.compactMetadata.keptAfter if line.compactMetadata else ""
    calls = [_call.decode(raw) for raw in raw_blocks(spoke.content)] if b'"tool_' in bytes(line.message) else []
    shared = spoke.id or line.uuid if line.type == "assistant" else ""
    return ChainNode(
        line.uuid,
        line.parentUuid,
        offset,
        place,
        line.type,
        shared,
        tuple([call.id or call.tool_use_id for call in calls if call.type in ("tool_use", "tool_result")]),
        line.isSidechain,
        line.isMeta,
        line.logicalParentUuid,
        kept,
        line.subtype == "compact_boundary",
        preserved_messages(line.compactMetadata),
        preserved_segment(line.compactMetadata),
        line.forkedFrom.messageUuid if line.forkedFrom else "",
    )


SPOKEN = ("user", "assistant")


class ParentChain:
    """`known` are further lines, which end a walk: the caller has what comes before them."""

    def __init__(self, nodes: Iterable[ChainNode], known: Container[str] = ()) -> None:
        self._known = known
        self._nodes = [each for each in nodes if not each.aside]
        self._by_uuid = {each.uuid: each for each in self._nodes}  # of two with the same id the later one counts
        self._places = {each.place: number for number, each in enumerate(self._nodes)}
        self.last = self._nodes[-1].uuid if self._nodes else ""
        self.broken: list[str] = []  # links to missing lines
        self.circles: list[str] = []  # messages whose parents lead back to themselves

    def way_to(self, uuid: str = "") -> list[ChainNode]:
        """From the root to a line and everything that belongs to its reply; by default, to the newest."""
        leaf = self._by_uuid.get(uuid) if uuid else self._leaf()
        if uuid and leaf is None:
            raise UsageError(f"No message found with message.uuid of: {uuid}")
        return self._with_siblings(self._up_to(leaf)) if leaf is not None else []

    def way_through_boundaries(self) -> list[ChainNode]:
        """To the newest line, and on before each summary: including what is no longer in view."""
        leaf, way = self._leaf(), list[ChainNode]()
        while leaf is not None:
            seen = {each.uuid for each in way}
            way += [each for each in self._back(leaf, "") if each.uuid not in seen]
            root = way[-1]
            parent = root.logical_parent if root.is_boundary and root.uuid not in seen else None
            leaf = self._by_uuid.get(parent or "")
        return self._with_siblings(way[::-1])

    def _leaf(self) -> ChainNode | None:
        """The end of the branch in which a user or a model spoke last. Claude Code ends a turn with attachments, and
        takes a branch that leaves them out for an abandoned one."""
        parents = {each.parent for each in self._nodes}
        ends = [(spoken, each) for each in self._nodes if each.uuid not in parents and (spoken := self._spoken(each))]
        in_a_ring = [(each, each) for each in self._nodes if each.kind in SPOKEN]  # a cycle has no end
        for group in ([(spoken, end) for spoken, end in ends if not spoken.hidden], ends, in_a_ring):
            if group:
                return max(group, key=lambda found: (found[0].place, found[1].place))[1]
        return None

    def _spoken(self, end: ChainNode) -> ChainNode | None:
        seen: set[str] = set()
        at: ChainNode | None = end
        while at is not None and at.kind not in SPOKEN and at.uuid not in seen:
            seen.add(at.uuid)
            at = self._by_uuid.get(at.parent or "")
        return at if at is not None and at.kind in SPOKEN else None

    def _up_to(self, leaf: ChainNode) -> list[ChainNode]:
        way = list(self._back(leaf, ""))
        root = way[-1]
        seen = {each.uuid for each in way}
        # After the summary, before what followed it: we go backwards.
        way[-2:-2] = [each for each in self._kept_by(root) if each.uuid not in seen]
        return way[::-1]

    def _kept_by(self, boundary: ChainNode) -> list[ChainNode]:
        """The lines before a summary that are still in view, newest first."""
        last = self._by_uuid.get(boundary.logical_parent or "")
        if boundary.kind != "system" or last is None:
            return []
        if boundary.kept_after:
            return list(self._back(last, boundary.kept_after))
        if boundary.preserved:
            return [self._by_uuid[uuid] for uuid in reversed(boundary.preserved) if uuid in self._by_uuid]
        head, tail = boundary.segment
        kept = list(self._back(self._by_uuid[tail], "")) if tail in self._by_uuid else []
        places = [place for place, each in enumerate(kept) if each.uuid == head]
        return kept[: places[0] + 1] if places else []

    def _back(self, leaf: ChainNode, until: str) -> Iterator[ChainNode]:
        """From a line to its root, or to the message `until`, which is left out."""
        seen: set[str] = set()
        at: ChainNode | None = leaf
        while at is not None and at.uuid not in seen:
            if until and until in (at.uuid, at.shared, at.copy_of):
                return
            seen.add(at.uuid)
            yield at
            at = self._parent(at)
        if at is not None and at.uuid not in self.circles:
            self.circles.append(at.uuid)

    def _parent(self, child: ChainNode) -> ChainNode | None:
        if child.parent is None or child.parent in self._known:
            return None
        found = self._by_uuid.get(child.parent)
        if found is None:  # its line was lost: the previous line in the file is the best guess
            self.broken.append(child.uuid)
            before = self._places.get(child.place, 0) - 1
            found = self._nodes[before] if before >= 0 else None
        return found

    def _with_siblings(self, way: list[ChainNode]) -> list[ChainNode]:
        """Parallel calls may fork the tree: their lines are found by what they share."""
        seen = {each.uuid for each in way}
        shared = {each.shared for each in way if each.shared}
        siblings = [each for each in self._nodes if each.uuid not in seen and each.shared in shared]
        made = {call for each in (*way, *siblings) if each.kind == "assistant" for call in each.calls}
        answers = [
            each
            for each in self._nodes
            if each.kind == "user" and each.uuid not in seen and not made.isdisjoint(each.calls)
        ]
        return [*way, *siblings, *answers]


def repair_conversation(
    messages: Iterable[Message], started: set[str] | None, taken: set[str] | None = None, *, continues: bool = False
) -> tuple[list[Message], list[Message]]:
    """A valid conversation: each call with one result, the user first. Also returns the messages that had to be
    created.

    `started` are the calls that are known to have started; None: unknown. `taken` are the ids of earlier calls, to
    which those found here are added. If it `continues` another conversation, it need not begin with the user.
    """
    given = list({message.id: message for message in messages}.values())
    results: dict[str, ToolResult] = {}
    for message in given:
        if isinstance(message, ToolResult):
            results.setdefault(message.call_id, message)
    sound: list[Message] = []
    made: list[Message] = []
    taken = set() if taken is None else taken
    for message in given:
        if isinstance(message, User):
            sound.append(message)
        elif isinstance(message, Assistant):
            reply = _with_fresh_calls(message, taken)
            if not reply.blocks:
                continue
            if not sound and not continues:
                opening = replace(user(LOST_BEGINNING, Origin.ATTACHMENT), id=_made_id(reply, 0), at=reply.at)
                sound.append(opening)
                made.append(opening)
            sound.append(reply)
            for number, call in enumerate(reply.calls, 1):
                answer = results.get(call.id)
                if answer is None:
                    answer = replace(make_lost_result(call, started), id=_made_id(reply, number), at=reply.at)
                    made.append(answer)
                sound.append(answer)
    return sound, made


def _with_fresh_calls(reply: Assistant, taken: set[str]) -> Assistant:
    """Remove calls whose id an earlier one has: their results would be ambiguous."""
    blocks = tuple([block for block in reply.blocks if not isinstance(block, ToolCall) or block.id not in taken])
    taken.update(call.id for call in reply.calls)
    return reply if len(blocks) == len(reply.blocks) else replace(reply, blocks=blocks)


NOT_STARTED = "The session ended before this call was started. It had no effect."


def make_lost_result(call: ToolCall, started: set[str] | None) -> ToolResult:
    words = NOT_STARTED if started is not None and call.id not in started else NeverRan.LOST
    return result(call.id, words, is_error=True, synthetic=True)


def _made_id(reply: Assistant, number: int) -> str:
    return Stamp(reply.id).derive(_MADE + number)
