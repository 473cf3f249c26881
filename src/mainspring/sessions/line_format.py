"""The lines of a session file: how a message, a block or an event is written. `line_parser.py` reads them.

There are two kinds (docs/decisions/0010). Conversation lines have the format that the Claude Agent SDK reads
(stream-json 14.2): the API's own form of a message in an envelope; a field `mainspring` has what that form cannot
express. Lines of type `mainspring` are ours: events, checkpoints and other records. Content is stored once, in a
conversation line; events name it by id.

This module does no I/O and has no state: see `encoder.py` and `decoder.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.events import Aborted, CallFailed, Compacted, ContextReady, Event, Replied, ToolsDone
from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Defect,
    Message,
    Origin,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.money import Usage
from mainspring.core.value import Bundle
from mainspring.messages_api import (
    as_line,
    block_id,
    block_to_api,
    contents_to_api,
    fits_api_form,
    format_timestamp,
    one_line,
    usage_to_api,
)
from mainspring.sessions.records import (
    AgentRecord,
    CommandRecord,
    PolicyRecord,
    PrefixRecord,
    Record,
    SideCallsRecord,
)

VERSION = 1  # of our own lines; a reader skips those of an unknown version
LARGEST_INLINE = 256 * 1024  # bytes of content in a line; more goes into a separate file
STAND_IN = 2_000  # characters of large content that stay in the line: for people, and if the rest is missing
MOST_FIELDS = 20  # of the input of a call that stay in the line; the largest tool has fewer
LONGEST_FIELD = 100  # characters of the name of one
ELSEWHERE = "the rest is kept elsewhere"

OURS = b'{"type":"mainspring","v":1,'
CHECKPOINT = OURS + b'"checkpoint":'
SNAPSHOT = b'{"type":"file-history-snapshot",'  # of other programs, and of our earlier versions


# --- conversation lines, written ------------------------------------------------------------------------------


EMPTY = Raw(b"")  # one object, or it would not be left out


class LineMark(Struct, omit_defaults=True, frozen=True):
    """What we know about a conversation line that the API's form cannot express."""

    i: int = 0  # a block's position in its reply
    origin: Origin = Origin.PROMPT
    defect: Defect | None = None
    synthetic: bool = False
    typed: str = ""  # the slash command that the user typed
    payload: str = ""  # the content is in the payload of this name; the line has only a placeholder
    odd: Raw = EMPTY  # a block that does not fit the API's form, in our own


PLAIN = LineMark()
OWN = LineMark()  # like the default, but written: it marks our prompts among those of other programs


TESTS, DEMO = "test", "demo/"  # the entrypoint of sessions with a model for tests; how the demo's models begin


class Envelope(Bundle):
    """The fields that all conversation lines of a session share."""

    session_id: str
    cwd: str
    version: str
    entrypoint: str = "cli"
    branch: str = ""
    agent_id: str = ""  # of a subagent, whose lines are a side chain

    def encode_fields(self) -> bytes:
        fields: dict[str, object] = {
            "isSidechain": bool(self.agent_id),
            "sessionId": self.session_id,
            "cwd": self.cwd,
            "version": self.version,
            "userType": "external",
            "entrypoint": self.entrypoint,
            "gitBranch": self.branch,
        }
        fields |= {"agentId": self.agent_id} if self.agent_id else {}
        return as_line(fields)[1:-1]


class Payload(Bundle):
    """Content that is too large for a line. Its name is its hash, so the same content is stored once."""

    name: str
    data: bytes


class ConversationLine(Bundle):
    """A conversation line to be written: everything but its position in the chain."""

    kind: bytes  # user, assistant
    uuid: str
    at: int
    head: bytes  # of the message, up to its content
    content: object
    tail: bytes  # of the message, after its content
    mark: LineMark = PLAIN
    flags: bytes = b""
    source: User | ToolResult | Block | None = None  # what it is made from, in case it is too large


def encode_conversation_line(
    spoken: ConversationLine, parent: str | None, envelope: bytes
) -> tuple[bytes, Payload | None]:
    content, payload = as_line(spoken.content), None
    if len(content) > LARGEST_INLINE:
        from hashlib import sha256  # seldom needed, and slow to load

        payload = Payload(sha256(content).hexdigest(), content)
        spoken = replace(spoken, mark=replace(spoken.mark, payload=payload.name))
        content = as_line(stand_in(spoken.source))
    mark = b"" if spoken.mark is PLAIN else b',"mainspring":' + as_line(spoken.mark)
    line = b'{"type":"%b","uuid":%b,"parentUuid":%b,"timestamp":"%b",%b%b,"message":{%b"content":%b%b}%b}\n' % (
        spoken.kind,
        as_line(spoken.uuid),
        b"null" if parent is None else as_line(parent),
        format_timestamp(spoken.at).encode(),
        envelope,
        spoken.flags,
        spoken.head,
        content,
        spoken.tail,
        mark,
    )
    return one_line(line), payload


_HIDDEN = b',"isMeta":true'
_SUMMARY = b',"isCompactSummary":true'

FLAGS: dict[Origin, bytes] = {
    Origin.PROMPT: b"",
    Origin.INTERRUPTION: b"",
    Origin.SUMMARY: _SUMMARY,
    Origin.ATTACHMENT: _HIDDEN,
    Origin.RECOVERY: _HIDDEN,
    Origin.HOOK: _HIDDEN,
    Origin.BUDGET: _HIDDEN,
    Origin.ADVICE: _HIDDEN,
    Origin.REPORT: _HIDDEN,
}


def user_line(message: User) -> ConversationLine:
    mark = OWN if message.origin is Origin.PROMPT else LineMark(origin=message.origin)
    if message.typed:
        mark = replace(mark, typed=message.typed)
    if not all(map(fits_api_form, message.content)):
        mark = replace(mark, odd=Raw(as_line(message.content)))
    return ConversationLine(
        b"user",
        message.id,
        message.at,
        b'"role":"user",',
        contents_to_api(message.content),
        b"",
        mark,
        FLAGS[message.origin],
        message,
    )


def result_line(result: ToolResult) -> ConversationLine:
    mark = LineMark(synthetic=True) if result.synthetic else PLAIN
    content = tool_result(result, contents_to_api(result.content))
    return ConversationLine(b"user", result.id, result.at, b'"role":"user",', content, b"", mark, source=result)


def tool_result(result: ToolResult, content: object) -> object:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    if result.is_error:
        made["is_error"] = True
    return [made]


def block_line(  # noqa: PLR0913  # what a line holds
    reply_id: str, index: int, block: Block, at: int, *, model: str, usage: Usage, stop: Stop | None = None
) -> ConversationLine:
    mark = PLAIN
    if index or not fits_api_form(block) or (isinstance(block, ToolCall) and block.defect):
        odd = EMPTY if fits_api_form(block) else Raw(as_line(block))
        mark = LineMark(index, defect=block.defect if isinstance(block, ToolCall) else None, odd=odd)
    head = _reply_head(reply_id, model)
    tail = b',"stop_reason":%b,"stop_sequence":null,"usage":%b' % (as_line(stop), usage_to_api(usage))
    content = [block_to_api(block)] if not mark.odd else [{"type": "text", "text": ""}]
    return ConversationLine(b"assistant", block_id(reply_id, index), at, head, content, tail, mark, source=block)


@lru_cache(maxsize=8)  # the blocks of a reply come one after the other
def _reply_head(reply_id: str, model: str) -> bytes:
    return b'"id":%b,"type":"message","role":"assistant","model":%b,' % (as_line(reply_id), as_line(model))


def stand_in(source: User | ToolResult | Block | None) -> object:
    """The placeholder in a line for content that is too large for it.

    On another machine it is all that exists (stream-json 14.5), so it is fit for a model, and says what is missing.
    """
    match source:
        case User():
            return shorten_content_text(source.content)
        case ToolResult():
            return tool_result(source, shorten_content_text(source.content))
        case ToolCall():
            return [{"type": "tool_use", "id": source.id, "name": source.name, "input": shorten_input(source.input)}]
        case Text():
            return [{"type": "text", "text": shorten_line_text(source.text)}]
        case Thinking():  # unsigned, so that no model gets half a thought
            return [{"type": "thinking", "thinking": shorten_line_text(source.text), "signature": ""}]
        case _:
            return [{"type": "text", "text": "[a large block; it is kept elsewhere]"}]


def shorten_content_text(parts: tuple[Content, ...]) -> str:
    text = "".join([part.text for part in parts if isinstance(part, Text)])
    media = sum(not isinstance(part, Text) for part in parts)
    return f"{text[:STAND_IN]}\n[{len(text):,} characters and {media} media in all; {ELSEWHERE}]"


def shorten_line_text(text: str) -> str:
    return f"{text[:STAND_IN]}\n[{len(text):,} characters in all; {ELSEWHERE}]"


def shorten_input(input: dict[str, Any]) -> dict[str, object]:
    """Keeps small fields complete: which file was written, though not what."""
    fields = [(name, value) for name, value in input.items() if len(name) <= LONGEST_FIELD]
    return {name: shorten_field(value) for name, value in fields[:MOST_FIELDS]}


def shorten_field(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= STAND_IN else shorten_line_text(value)
    length = len(as_line(value))
    return value if length <= STAND_IN else f"[{length:,} bytes; they are kept elsewhere]"


def boundary_line(uuid: str, event: Compacted, old_leaf: str | None, envelope: bytes, *, kept_after: str) -> bytes:
    """The conversation begins again here. Messages after `kept_after` are still in view, after the summary."""
    sizes = {"preTokens": event.before, "postTokens": event.after}
    metadata = {"trigger": event.trigger} | sizes | {"keptAfter": kept_after}
    return (
        b'{"type":"system","subtype":"compact_boundary","uuid":%b,"parentUuid":null,"logicalParentUuid":%b,'
        b'"timestamp":"%b",%b,"content":"Conversation compacted","level":"info","compactMetadata":%b}\n'
    ) % (as_line(uuid), as_line(old_leaf), format_timestamp(event.stamp.at).encode(), envelope, as_line(metadata))


def last_prompt_line(prompt: str, leaf: str | None, session_id: str) -> bytes:
    fields = {"type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf, "sessionId": session_id}
    return one_line(as_line(fields)) + b"\n"


def name_lines(title: str, tag: str, session_id: str) -> bytes:
    """A client looks for these near the end of the file only, so they are written again now and then."""
    titled = {"type": "custom-title", "customTitle": title, "sessionId": session_id}
    tagged = {"type": "tag", "tag": tag, "sessionId": session_id}
    lines = [one_line(as_line(line)) + b"\n" for line, given in ((titled, title), (tagged, tag)) if given]
    return b"".join(lines)


# --- our own lines, written -----------------------------------------------------------------------------------


def record_line(record: Record) -> bytes:
    return one_line(b'%b"record":%b}\n' % (OURS, as_line(record)))


def event_line(number: int, husk: Event, blocks: int, messages: list[str], results: list[str]) -> bytes:
    """An event without its content; `blocks`, `messages` and `results` say where that is."""
    refers = b""
    if blocks:
        refers += b',"blocks":%d' % blocks
    if messages:
        refers += b',"messages":' + as_line(messages)
    if results:
        refers += b',"results":' + as_line(results)
    return one_line(b'%b"n":%d,"event":%b%b}\n' % (OURS, number, as_line(husk), refers))


class CheckpointExtras(Struct, omit_defaults=True):
    """What a checkpoint stores besides the state: everything else that a later process needs, so that it reads no
    further."""

    n: int = 0  # events so far
    first: str = ""  # the id of the first message of the history
    added: tuple[str, ...] | None = None  # ids of its messages since the previous checkpoint; None: unknown
    start: int = 0  # where the lines of those messages begin
    before: int = -1  # the position of the previous checkpoint
    resumed: str = ""  # how the state was found, if a process began with it: then `added` has all ids
    leaf: str | None = None  # the line that the next one follows
    seen: str = ""  # the last line of the conversation, of any program, when a process began with the file
    spent: int = 0  # nano-dollars, the whole session
    # by model, the one that replied last after the others; None: unknown, computed from the messages
    used: tuple[tuple[str, Usage], ...] | None = None
    turns: int = 0
    config: Config | None = None
    policy: PolicyRecord | None = None
    commands: tuple[CommandRecord, ...] = ()  # submitted, and not yet taken
    away: tuple[AgentRecord, ...] = ()  # subagents that have started and not ended
    unbooked: int = 0  # nano-dollars that subagents and side calls have spent, and no event has reported
    breaks: tuple[tuple[str, int, int], ...] = ()  # by event: how often the prefix broke, and nano-dollars
    prompt: str = ""  # the last one, truncated
    title: str = ""  # as a client has named the session,
    tag: str = ""  # and marked it


def note_agent(standing: CheckpointExtras, record: AgentRecord) -> None:
    others = tuple([one for one in standing.away if one.agent_id != record.agent_id])
    standing.away = others if record.ended else (*others, record)
    standing.unbooked += record.cost
    for model, usage in record.used:
        _book(standing, model, usage, is_last=False)
    for row in record.breaks:
        _add_breaks(standing, *row)


def note_side_calls(standing: CheckpointExtras, record: SideCallsRecord) -> None:
    standing.unbooked += record.cost
    _book(standing, _last_model(standing), record.usage, is_last=True)


def note_break(standing: CheckpointExtras, record: PrefixRecord) -> None:
    _add_breaks(standing, record.event, 1, record.price)


def _add_breaks(standing: CheckpointExtras, event: str, times: int, price: int) -> None:
    known = {name: (count, paid) for name, count, paid in standing.breaks}
    count, paid = known.get(event, (0, 0))
    known[event] = count + times, paid + price
    standing.breaks = tuple([(name, *row) for name, row in known.items()])


def note_usage(standing: CheckpointExtras, event: Event) -> None:
    """Usage without a reply is booked on the model that replied last, as in the results of runs."""
    match event:
        case Replied(reply=reply):
            _book(standing, reply.model, reply.usage, is_last=True)
        case ContextReady() | CallFailed() | Compacted() | Aborted():
            _book(standing, _last_model(standing), event.usage, is_last=True)
        case _:
            pass


def _last_model(standing: CheckpointExtras) -> str:
    configured = standing.config.model.name if standing.config is not None else ""
    return standing.used[-1][0] if standing.used else configured


def note_replies(standing: CheckpointExtras, messages: Iterable[Message]) -> None:
    """Replies without an event: another program has written them."""
    for message in messages:
        if isinstance(message, Assistant):
            _book(standing, message.model, message.usage, is_last=True)


def used_by(messages: Iterable[Message]) -> tuple[tuple[str, Usage], ...]:
    """For files whose checkpoints do not have it."""
    counted = CheckpointExtras(used=())
    note_replies(counted, messages)
    return counted.used or ()


def _book(standing: CheckpointExtras, model: str, usage: Usage, *, is_last: bool) -> None:
    if standing.used is None or not model or not usage.total:
        return
    others = tuple([(name, one) for name, one in standing.used if name != model])
    row = ((model, dict(standing.used).get(model, Usage()) + usage),)
    standing.used = (*others, *row) if is_last else (*row, *others)


def agents_cost(event: Event) -> int:
    """What an event reports about the spending of subagents."""
    match event:
        case ContextReady() | Aborted():
            return event.agents
        case ToolsDone():
            return event.cost
        case _:
            return 0
