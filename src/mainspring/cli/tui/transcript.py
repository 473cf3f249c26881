"""A conversation, or the output of a command, as a document that is drawn piece by piece.

A document has numbered parts: of a conversation its messages, and what streams at the moment as the last. A part is
drawn only when it is visible, and a bounded number of drawn parts is kept: neither opening a conversation nor a key
depends on its length.

Calls and thinking are blocks that can be folded. The results of a call are drawn with the call.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rich.text import Text

from mainspring.cli.tui.call_view import LOOKING, make_call_title
from mainspring.cli.tui.layout import NARROWEST, clean_for_drawing, clip_text, indent_lines, lines_in, wrap_rows
from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.cli.tui.run_view import draw_prompt
from mainspring.core.messages import Assistant, Image, Message, Origin, Stop, Thinking, ToolCall, ToolResult, User
from mainspring.core.messages import Text as TextBlock
from mainspring.core.updates import BlockKind
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.agent.background_tasks import BackgroundTask
    from mainspring.cli.tui.notices import RecentCalls
    from mainspring.cli.tui.streamed_reply import StreamedReply
    from mainspring.core.history import History
    from mainspring.core.messages import Block

MOST_KEPT = 200  # drawn parts
MOST_LINES = 2_000  # of one result; the editor shows all of it
MOST_OUTPUT = 200_000  # bytes of a command's output
MOST_STREAMED = 8_000  # characters of a reply that streams: it is drawn anew thirty times a second
CHUNK = 100  # lines of output that are one part
BULLET, FOLDED, OPEN = "● ", "▸ ", "▾ "
NAMES = {
    Origin.ATTACHMENT: "Added context",
    Origin.SUMMARY: "Summary of the conversation before",
    Origin.RECOVERY: "Asked to continue",
    Origin.HOOK: "Objection of a hook",
    Origin.BUDGET: "Budget",
    Origin.ADVICE: "Advice",
    Origin.INTERRUPTION: "Interrupted",
    Origin.REPORT: "Report of a background task",
}


class BlockKey(NamedTuple):
    """A block that can be folded."""

    part: int
    block: int


class DocumentLine(NamedTuple):
    text: Text
    block: BlockKey | None = None
    heads: bool = False  # it is the first line of its block


class TranscriptDocument(Protocol):
    @property
    def first(self) -> int:
        """The first part that there is."""
        ...

    @property
    def end(self) -> int:
        """One more than the number of the last part. It only grows."""
        ...

    def lines(self, part: int, width: int) -> Sequence[DocumentLine]: ...

    def text(self, part: int) -> str:
        """All of it, for a search and for the clipboard."""
        ...

    def block_text(self, block: BlockKey) -> str: ...

    def is_folded(self, block: BlockKey) -> bool: ...

    def fold(self, block: BlockKey, *, folded: bool) -> None: ...

    def fold_all(self, *, folded: bool) -> None: ...


class ConversationDocument:
    def __init__(
        self,
        history: Callable[[], History],
        streamed: StreamedReply | None = None,
        *,
        root: str = "",
        more: Callable[[], str] = str,
        recent: RecentCalls | None = None,
    ) -> None:
        """`more`: a last line about what runs at the moment. `recent`: calls that are known in more detail."""
        self._history, self._streamed, self._root, self._more = history, streamed, root, more
        self._recent = recent
        self._flipped: set[BlockKey] = set()  # folded differently from the rest
        self._all_folded: bool | None = None  # None: as `folds_at_first` says
        self._drawn: OrderedDict[tuple[int, int], tuple[object, list[DocumentLine]]] = OrderedDict()

    @property
    def first(self) -> int:
        return self._history().begin

    @property
    def end(self) -> int:
        return len(self._history()) + 1  # what streams is the last part

    # --- folding ---

    def is_folded(self, block: BlockKey) -> bool:
        usual = self._folds_at_first(block) if self._all_folded is None else self._all_folded
        return usual != (block in self._flipped)

    def _folds_at_first(self, block: BlockKey) -> bool:
        """Context for the model, and files that were read: they would bury the rest."""
        history = self._history()
        message = history[block.part] if block.part < len(history) else None
        if isinstance(message, User):
            return message.origin is Origin.ATTACHMENT
        found = message.blocks[block.block] if isinstance(message, Assistant) else None
        return isinstance(found, ToolCall) and found.name in LOOKING

    def fold(self, block: BlockKey, *, folded: bool) -> None:
        if folded != self.is_folded(block):
            self._flipped ^= {block}
            self._forget(block.part)

    def fold_all(self, *, folded: bool) -> None:
        self._all_folded = folded
        self._flipped.clear()
        self._drawn.clear()

    def _forget(self, part: int) -> None:
        for key in [key for key in self._drawn if key[0] == part]:
            del self._drawn[key]

    # --- drawing ---

    def lines(self, part: int, width: int) -> Sequence[DocumentLine]:
        history = self._history()
        if part >= len(history):
            return list(self._draw_streamed(width)) if part == len(history) else []
        message = history[part]
        state: tuple[object, ...] = (message.id or id(message),)
        if isinstance(message, Assistant) and message.calls:
            done = self._results(history, part)
            running = [call.id for call in message.calls if call.id not in done]
            outputs = [self._streamed.output(call_id) for call_id in running] if self._streamed is not None else []
            state = (*state, len(running), *outputs)
        found = self._drawn.get((part, width))
        if found is None or found[0] != state:
            found = state, list(self._draw_message(history, part, message, width))
            self._drawn[part, width] = found
            while len(self._drawn) > MOST_KEPT:
                self._drawn.popitem(last=False)
        else:
            self._drawn.move_to_end((part, width))
        return found[1]

    def _results(self, history: History, part: int) -> dict[str, ToolResult]:
        """The results of this reply's calls: they follow it."""
        found: dict[str, ToolResult] = {}
        for at in range(part + 1, len(history)):
            message = history[at]
            if isinstance(message, Assistant):
                break
            if isinstance(message, ToolResult):
                found[message.call_id] = message
        return found

    def _draw_message(self, history: History, part: int, message: Message, width: int) -> Iterator[DocumentLine]:
        match message:
            case User(origin=Origin.PROMPT):
                yield DocumentLine(Text())
                words = message.shown_text or f"({plural(len(message.content), 'attachment')})"
                for line in draw_prompt(words, max(NARROWEST, width)):
                    yield DocumentLine(line)
                pictures = sum([isinstance(one, Image) for one in message.content])
                if pictures:
                    yield DocumentLine(clip_text(Text(f"  + {plural(pictures, 'image')}", "note"), width))
            case User():
                yield from self._draw_block(BlockKey(part, 0), NAMES[message.origin], message.text, width)
            case Assistant():
                results = self._results(history, part) if message.calls else {}
                for at, block in enumerate(message.blocks):
                    yield from self._draw_reply_block(BlockKey(part, at), block, results, width)
                if message.stop is Stop.UNFINISHED:
                    yield DocumentLine(clip_text(Text("  (cut off)", "warning"), width))
            case ToolResult():
                pass  # drawn with its call

    def _draw_reply_block(
        self, key: BlockKey, block: Block, results: dict[str, ToolResult], width: int
    ) -> Iterator[DocumentLine]:
        match block:
            case TextBlock() if block.text.strip():
                yield DocumentLine(Text())
                for line in draw_prose(block.text, width):
                    yield DocumentLine(line)
            case Thinking() if block.text.strip():
                yield from self._draw_block(key, "Thinking", block.text, width, "thinking")
            case ToolCall():
                yield from self._draw_call(key, block, results.get(block.id), width)
            case _:
                pass

    def _draw_block(
        self, key: BlockKey, name: str, text: str, width: int, style: str = "detail"
    ) -> Iterator[DocumentLine]:
        lines, folded = lines_in(text), self.is_folded(key)
        count = f" · {plural(len(lines), 'line')}" if folded else ""
        yield DocumentLine(Text())
        head = Text.assemble((FOLDED if folded else OPEN, style), (f"{name}{count}", style))
        yield DocumentLine(clip_text(head, width), key, heads=True)
        if not folded:
            yield from self._inside(key, lines, style, width)

    def _inside(self, key: BlockKey, lines: list[str], style: str, width: int) -> Iterator[DocumentLine]:
        rows = wrap_rows(lines[:MOST_LINES], style, width - 4)
        for row in indent_lines(rows, Text("    "), 4):
            yield DocumentLine(row, key)
        if len(lines) > MOST_LINES:
            more = f"    … {plural(len(lines) - MOST_LINES, 'more line')}: press v to open them in your editor"
            yield DocumentLine(clip_text(Text(more, "detail"), width), key)

    def _draw_call(
        self, key: BlockKey, call: ToolCall, result: ToolResult | None, width: int
    ) -> Iterator[DocumentLine]:
        title, folded = make_call_title(call, root=self._root), self.is_folded(key)
        failed = result is not None and result.is_error
        style = "call.failed" if failed else "call.running" if result is None else "call.done"
        lines = lines_in(result.text) if result is not None else []
        what = "" if result is not None else " · running"
        count = f" · {plural(len(lines), 'line')}" if folded and lines else what
        yield DocumentLine(Text())
        known = self._recent.find(call.id) if self._recent is not None else None
        if known is not None and not folded:
            for at, line in enumerate(known.whole(width)):
                yield DocumentLine(line, key, heads=at == 0)
            return
        yield DocumentLine(title.draw(style, width, count), key, heads=True)
        if folded:
            return
        yield from self._inside(key, list(input_lines(call)), "detail", width)
        if result is None and self._streamed is not None:
            lines = lines_in(self._streamed.output(call.id))
        if lines:
            yield from self._inside(key, lines, "error" if failed else "", width)

    def _draw_streamed(self, width: int) -> Iterator[DocumentLine]:
        for kind, whole in self._streamed.parts if self._streamed is not None else ():
            text = whole if len(whole) <= MOST_STREAMED else f"…{whole[-MOST_STREAMED:].partition(chr(10))[2]}"
            yield DocumentLine(Text())
            if kind is BlockKind.THINKING:
                yield DocumentLine(clip_text(Text(f"{OPEN}Thinking", "thinking"), width))
                for row in indent_lines(wrap_rows(lines_in(text), "thinking", width - 4), Text("    "), 4):
                    yield DocumentLine(row)
            else:
                for line in draw_prose(text, width):
                    yield DocumentLine(line)
        if words := self._more():
            yield DocumentLine(Text())
            yield DocumentLine(clip_text(Text(clean_for_drawing(words), "note"), width))

    # --- texts ---

    def text(self, part: int) -> str:
        history = self._history()
        if part >= len(history):
            return "\n".join([text for _, text in self._streamed.parts]) if self._streamed is not None else ""
        message = history[part]
        match message:
            case User():
                return message.shown_text
            case ToolResult():
                return ""  # it belongs to its call
            case Assistant():
                results = self._results(history, part) if message.calls else {}
                return "\n\n".join([words for block in message.blocks if (words := block_text(block, results))])

    def block_text(self, block: BlockKey) -> str:
        history = self._history()
        message = history[block.part]
        if isinstance(message, Assistant) and block.block < len(message.blocks):
            return block_text(message.blocks[block.block], self._results(history, block.part))
        return self.text(block.part)


def draw_prose(text: str, width: int) -> list[Text]:
    prose = MarkdownText(clean_for_drawing(text))
    return indent_lines(lines_of(prose, max(NARROWEST, width - len(BULLET))), Text(BULLET), len(BULLET))


def input_lines(call: ToolCall) -> Iterator[str]:
    """The input of a call, as far as its title does not show it."""
    for name, value in call.input.items():
        words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines = clean_for_drawing(words).split("\n")
        if len(lines) == 1:
            yield f"{clean_for_drawing(name)}: {lines[0]}"
        else:
            yield f"{clean_for_drawing(name)}:"
            yield from [f"  {line}" for line in lines]


def block_text(block: Block, results: dict[str, ToolResult]) -> str:
    match block:
        case TextBlock() | Thinking():
            return block.text
        case ToolCall():
            result = results.get(block.id)
            said = result.text if result is not None else ""
            return "\n".join([block.name, *input_lines(block), said]).rstrip()
        case _:
            return ""


class OutputDocument:
    """The output of a background command: what is kept in memory, or the end of its file."""

    def __init__(self, task: Callable[[], BackgroundTask | None]) -> None:
        self._task = task
        self._end = 1

    @property
    def first(self) -> int:
        return 0

    @property
    def end(self) -> int:
        self._end = max(self._end, -(-len(self._lines()) // CHUNK), 1)
        return self._end

    def _lines(self) -> list[str]:
        task = self._task()
        text = task.output(MOST_OUTPUT) if task is not None and task.output is not None else ""
        return clean_for_drawing(text).rstrip("\n").split("\n")

    def lines(self, part: int, width: int) -> Sequence[DocumentLine]:
        lines = self._lines()[part * CHUNK : (part + 1) * CHUNK]
        return [DocumentLine(row) for row in wrap_rows(lines, "", max(NARROWEST, width))]

    def text(self, part: int) -> str:
        return "\n".join(self._lines()[part * CHUNK : (part + 1) * CHUNK])

    def block_text(self, block: BlockKey) -> str:
        return self.text(block.part)

    def is_folded(self, block: BlockKey) -> bool:  # noqa: ARG002  # nothing folds
        return False

    def fold(self, block: BlockKey, *, folded: bool) -> None:
        pass

    def fold_all(self, *, folded: bool) -> None:
        pass
