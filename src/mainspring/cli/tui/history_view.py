"""The last exchanges of a resumed session, printed to the scrollback.

An exchange is a prompt and the reply to it. The prompt and the last part of the newest exchange are always complete;
what does not fit is counted. The width decides which lines fit, so the choice is made when they are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mainspring.cli.tui.call_view import make_call_title
from mainspring.cli.tui.layout import NARROWEST, WidthAware, clip_text, indent_lines, sanitize_text
from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.cli.tui.run_view import draw_prompt
from mainspring.core.messages import Assistant, Message, Origin, Stop, ToolCall, User
from mainspring.core.messages import Text as Said
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Scrollback

MOST_PROMPTS = 3
MOST_LINES = 80  # about two screens
BULLET = "● "
CUT_OFF, INTERRUPTED = "(cut off)", "(interrupted)"


class ExchangePart(NamedTuple):
    """A part of the reply to a prompt: a text, a tool call, or how the reply ended."""

    draw: Callable[[int], list[Text]]
    tight: bool = False  # no blank line between two of these

    def lines(self, width: int, above: ExchangePart | None) -> list[Text]:
        blank = [] if above is not None and above.tight and self.tight else [Text()]
        return [*blank, *self.draw(width)]


class PastExchange(NamedTuple):
    prompt: str | None  # None: it is not in the known history
    newest_first: list[ExchangePart]


def put_past(paper: Scrollback, talk: TerminalSession) -> None:
    """Print the end of the session that was just resumed, if it was."""
    loaded = talk.opened.loaded
    if loaded is None:
        return
    history = talk.world.session.state.history
    found = render_past(history.newest_first(), loaded.partial, forgotten=bool(history.begin))
    if found is not None:
        paper.put(found)


def render_past(
    newest_first: Iterable[Message], cut_off: Assistant | None = None, *, forgotten: bool = False
) -> WidthAware | None:
    """`cut_off`: the visible part of an unfinished reply that is not in the history yet. `forgotten`: earlier messages
    were compacted. Returns None if the history is empty."""
    said = iter(newest_first)
    exchanges = last_exchanges(said, cut_off)
    earlier = sum([is_prompt(message) for message in said])
    if not exchanges:
        return None
    return WidthAware(lambda width: render_exchanges(exchanges, earlier, width, forgotten=forgotten))


# --- the history ----------------------------------------------------------------------------------------------------


def is_prompt(message: Message) -> bool:
    return isinstance(message, User) and message.origin is Origin.PROMPT


def last_exchanges(newest_first: Iterator[Message], cut_off: Assistant | None) -> list[PastExchange]:
    """Newest first. Consumes no more messages than needed."""
    made: list[PastExchange] = []
    parts = parts_of(cut_off, CUT_OFF) if cut_off is not None else []
    ended = CUT_OFF
    for message in newest_first:
        if isinstance(message, Assistant):
            parts += parts_of(message, ended)
            ended = CUT_OFF
        elif isinstance(message, User) and message.origin is Origin.INTERRUPTION:
            ended = INTERRUPTED
        elif isinstance(message, User) and message.origin is Origin.PROMPT:
            made.append(PastExchange(message.shown_text, parts))
            parts = []
            if len(made) == MOST_PROMPTS:
                return made
    return [*made, *([PastExchange(None, parts)] if parts else [])]


def parts_of(reply: Assistant, ended: str) -> list[ExchangePart]:
    """Last part first. `ended`: why an unfinished reply ended."""
    made: list[ExchangePart] = []
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            made.append(ExchangePart(partial(render_call_part, block), tight=True))
        elif isinstance(block, Said) and block.text.strip():
            made.append(ExchangePart(partial(render_text_part, block.text)))
    if reply.stop is Stop.UNFINISHED:
        made.append(ExchangePart(partial(render_end_part, ended), tight=True))
    return made[::-1]


def render_text_part(text: str, width: int) -> list[Text]:
    prose = MarkdownText(sanitize_text(text.replace("\r", "")))
    return indent_lines(lines_of(prose, width - len(BULLET)), Text(BULLET), len(BULLET))


def render_call_part(call: ToolCall, width: int) -> list[Text]:
    title = make_call_title(call)
    words = f"{title.name}({title.words})" if title.words else title.name
    return [clip_text(Text(f"{BULLET}{words}", "detail"), width)]


def render_end_part(words: str, width: int) -> list[Text]:
    return [clip_text(Text(f"  {words}", "warning"), width)]


# --- layout ---------------------------------------------------------------------------------------------------------


def render_exchanges(exchanges: list[PastExchange], earlier: int, width: int, *, forgotten: bool) -> list[Text]:
    made: list[list[Text]] = []  # newest first
    room = MOST_LINES
    for exchange in exchanges:
        lines = lines_for(exchange, width, room)
        if made and len(lines) > room:
            break
        made.append(lines)
        room -= len(lines)
    hidden = earlier + sum([one.prompt is not None for one in exchanges[len(made) :]])
    head = [Text(words, "note")] if (words := told_of_earlier(hidden, forgotten=forgotten)) else []
    return [*head, *[line for lines in made[::-1] for line in lines]]


def told_of_earlier(prompts: int, *, forgotten: bool) -> str:
    before = plural(prompts, "earlier prompt") if prompts else ""
    more = "compacted messages" if forgotten else ""
    words = ", and ".join([one for one in (before, more) if one])
    return f"… {words}" if words else ""


def lines_for(exchange: PastExchange, width: int, room: int) -> list[Text]:
    """The prompt, and as much of the end of the reply as fits: at least its last part."""
    head = lines_of_prompt(exchange.prompt, width) if exchange.prompt is not None else []
    tail: list[list[Text]] = []
    used = len(head)
    parts = exchange.newest_first
    for place, part in enumerate(parts):
        lines = part.lines(width, parts[place + 1] if place + 1 < len(parts) else None)
        if tail and used + len(lines) + 2 > room:  # room for the line that counts the rest
            break
        tail.append(lines)
        used += len(lines)
    left = len(parts) - len(tail)
    gap = [Text(), Text(f"  … {plural(left, 'earlier step')}", "note")] if left else []
    return [*head, *gap, *[line for lines in tail[::-1] for line in lines]]


def lines_of_prompt(prompt: str, width: int) -> list[Text]:
    return [Text(), *draw_prompt(prompt if prompt.strip() else "(empty prompt)", max(NARROWEST, width))]
