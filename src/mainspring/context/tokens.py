"""The size of the next prompt, and side calls as values.

The meter takes the API's count for the last prompt and estimates what changed since (D-31). Sizes are bytes of UTF-8; a
scale per model converts them to tokens. It learns from the API's own counts: if one request only extends another, the
added bytes and the added tokens belong together. Additions count slightly more than that, removals slightly less, so
that the total errs high.

`SideCall` and `SideCallReply` are what the context asks of a model and what it gets. The engine makes the call and pays
for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import assert_never

from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Document,
    Image,
    Message,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.money import Usage
from mainspring.core.value import Bundle, as_json

BYTES_PER_TOKEN = 3.0  # initially: English has four and more, code about three and a half
LEAST, MOST = 2.0, 5.0  # a scale outside of these is an artifact
PRIOR = 1_000  # tokens of the initial ratio: the weight it has against what is learned
FADES = 0.9  # the weight of earlier observations, with each new one: the kind of text changes in a session
WORTH_LEARNING = 100  # tokens; a smaller step is mostly overhead
HIGH, LOW = 1.05, 0.95

OF_A_BLOCK = 30  # bytes of its encoding on the wire
OF_AN_IMAGE = 6_400  # 1,600 tokens, the size of the largest
OF_A_PAGE = 80_000  # characters of base64; a page counts as an image


def message_bytes(message: Message) -> int:
    """In bytes."""
    match message:
        case User() | ToolResult():
            return sum(map(weight_of, message.content)) + OF_A_BLOCK
        case Assistant():
            return sum(map(weight_of, message.blocks)) + OF_A_BLOCK
        case _:
            assert_never(message)


def weight_of(part: Content | Block) -> int:
    match part:
        case Text() | Thinking():
            return text_bytes(part.text) + OF_A_BLOCK
        case Image():
            return OF_AN_IMAGE
        case Document():
            return OF_AN_IMAGE * (1 + len(part.data) // OF_A_PAGE)
        case ToolCall():
            return len(part.name) + len(as_json(part.input)) + 2 * OF_A_BLOCK
        case ServerBlock():
            return text_bytes(part.json)
        case RedactedThinking():
            return len(part.data)
        case _:
            assert_never(part)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def total_bytes(messages: Iterable[Message]) -> int:
    return sum(map(message_bytes, messages))


def strip_model_date(model: str) -> str:
    """Servers return a name with a date; it is the same model."""
    name, _, date = model.rpartition("-20")
    return name if name and len(date) == 6 and date.isdigit() else model


class TokenScale:
    """Bytes per token, for one model."""

    def __init__(self) -> None:
        self._bytes = PRIOR * BYTES_PER_TOKEN
        self._tokens = float(PRIOR)

    def learn(self, size: int, tokens: int) -> None:
        if tokens < WORTH_LEARNING or not 1 <= size / tokens <= 2 * MOST:
            return
        self._bytes = self._bytes * FADES + size
        self._tokens = self._tokens * FADES + tokens

    @property
    def ratio(self) -> float:
        return min(MOST, max(LEAST, self._bytes / self._tokens))

    def high(self, size: int) -> int:
        return round(size * HIGH / self.ratio)

    def low(self, size: int) -> int:
        return round(size * LOW / self.ratio)

    def to_bytes(self, tokens: int) -> int:
        return round(tokens * self.ratio)


class MeasuredRequest:
    """One request, as far as needed to compare the next with it."""

    def __init__(self, model: str, size: int, tokens: int) -> None:
        self.model, self.size, self.tokens = model, size, tokens


class TokenMeter:
    """Follows the view as it grows and shrinks. Processes only what changed."""

    def __init__(self, fixed: int = 0, *, floor: bool = True) -> None:
        """`floor`: reject a count far below the size of the view; not if the service clears by itself."""
        self._floor = floor
        self.size = fixed  # bytes of the whole prompt: system and tools, then the view
        self.fixed = fixed
        self.sent = 0  # bytes that the last request contained
        self._scales: dict[str, TokenScale] = {}
        self._reported: int | None = None  # tokens, including the last reply
        self._added = self._removed = 0  # bytes, since then
        self._last: MeasuredRequest | None = None  # None: the next one does not extend it
        self._sure = False  # nothing was removed since the report, as far as known

    def scale(self, model: str) -> TokenScale:
        return self._scales.setdefault(strip_model_date(model), TokenScale())

    def begin(self) -> None:
        """The view starts over."""
        self.size, self.sent, self._added, self._removed = self.fixed, 0, 0, 0
        self._reported, self._last, self._sure = None, None, False

    def move(self, size: int) -> None:
        """The view was rebuilt and is now so large; the last report still applies to its previous state."""
        change = size - self.size
        if change < 0:
            self.remove(-change)
        else:
            self.add(change)

    def add(self, size: int) -> None:
        """Negative if something that was not sent yet became smaller."""
        self.size += size
        self._added += size

    def remove(self, size: int) -> None:
        self.size -= size
        self.sent = max(0, self.sent - size)
        self._removed += size
        self._last = None

    def reply(self, reply: Assistant, size: int, *, live: bool = True) -> None:
        """A reply to the current prompt. `live`: we sent the prompt, and did not only read about it."""
        usage = reply.usage
        self.sent = self.size
        if usage.prompt and reply.stop is not Stop.UNFINISHED:  # else it is our own estimate
            last, now = self._last, MeasuredRequest(reply.model, self.size, usage.prompt)
            if live and last is not None and last.model == now.model:
                self.scale(now.model).learn(now.size - last.size, now.tokens - last.tokens)
            self._last = now if live else None
            self._reported, self._sure = usage.total, live
            self._added = self._removed = 0
            self.size += size
        else:
            self.add(size)

    def count(self, model: str) -> int:
        scale = self.scale(model)
        whole = scale.high(self.size)
        if self._reported is None:
            return whole
        counted = self._reported + scale.high(self._added) - scale.low(self._removed)
        # A report that we only read may be older than the last summary. Then both figures are rather too high.
        return max(self.least(model, self.size), counted if self._sure else min(counted, whole))

    def least(self, model: str, size: int) -> int:
        """The lowest credible count for so many bytes: some servers report far less, or always the same."""
        return self.scale(model).low(size) // 2 if self._floor else 0


class SideCall(Bundle):
    messages: tuple[Message, ...]  # the last one is the request itself
    max_output: int
    small: bool = False  # for the small model, without tools and system text; else like the conversation
    marks: tuple[str, ...] = ()  # where the prompt was cached by the last request of the conversation
    spare: bool = False  # no other call waits for the money that this one reserves


class SideCallReply(Bundle):
    text: str
    usage: Usage = Usage()
    cost: int = 0  # nano-dollars
    stop: Stop = Stop.END_TURN
    failed: str = ""  # why there is no answer; the cost is above


Ask = Callable[[SideCall], Awaitable[SideCallReply]]


def wrong_with(answer: SideCallReply, most: int) -> str:
    """Why this cannot replace the conversation; empty if it can."""
    if answer.failed:
        return answer.failed
    if answer.stop is Stop.REFUSAL:
        return "the model refused to write a summary"
    if not answer.text.strip():
        return "the summary is empty"
    if answer.stop is Stop.MAX_TOKENS or len(answer.text) > most:
        return f"the summary is too long: more than {most:,} characters"
    return ""
