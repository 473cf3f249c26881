"""The screen: the input at the bottom, the live region above it, and the terminal's scrollback.

One prompt-toolkit application runs for the whole session, not in full screen: it owns only the last lines of the
terminal. To print to the scrollback, it erases those lines, writes the text in their place, and draws the lines again
below it, all in one write. Text in the scrollback is never changed again; the live region is redrawn as often as
needed, from the lines that each `Drawable` returns.

Callers sanitize text from outside (a model, a file, a command) before they put it into a `Text` (`text.py`), so nothing
here sends control characters to the terminal.

Every key goes to the part that has the keyboard, by the names in `KEYS`.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Protocol, cast

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.search import stop_search
from prompt_toolkit.styles import DynamicStyle, Style
from rich.text import Text

from mainspring import cli
from mainspring.cli.tui.dialog import Dialog
from mainspring.cli.tui.editor import Editor
from mainspring.cli.tui.layout import clip_text, one_line
from mainspring.cli.tui.theme import ColourDepth

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mainspring.cli.tui.layout import Painter


class Drawable(Protocol):
    """A part of the live region."""

    def draw(self, width: int, height: int) -> Sequence[Text]:
        """Return at most `height` lines, one `Text` each, none wider than `width` columns. It is called at each redraw,
        up to thirty times a second: its cost must depend on what is shown, not on what there is."""
        ...


class Modal(Drawable, Protocol):
    """Takes the keyboard until it has its answer; the caller that opened it waits for that."""

    unheard: str  # typed text that was meant for the input

    def press(self, key: str, text: str = "") -> None:
        """`key` is one of `KEYS`; for typed text it is 'text', for a paste 'paste', and `text` contains it."""
        ...

    def settle(self) -> None:
        """Called regularly while it is visible and no key is waiting to be read."""
        ...


class Scrollback(Protocol):
    def put(self, *parts: RenderableType) -> None:
        """Print each part on a line of its own, in order."""
        ...

    def redraw(self) -> None:
        """The live region has changed: draw it soon. Several requests become one redraw."""
        ...


# fmt: off
KEYS = frozenset((
    "text", "paste", "enter", "newline", "escape", "tab", "s-tab", "space", "backspace", "delete", "left", "right",
    "up", "down", "home", "end", "pageup", "pagedown",
    "c-a", "c-c", "c-d", "c-e", "c-k", "c-n", "c-o", "c-p", "c-t", "c-u", "c-w",
))
# fmt: on


# Names of prompt-toolkit, where they differ from ours.
OTHERS = {
    "enter": ("c-m",),
    "newline": ("escape", "c-m"),
    "tab": ("c-i",),
    "space": (" ",),
    "backspace": ("c-h",),
}
SAME = KEYS - {"text", "paste", *OTHERS}


def modal_keys(press: Callable[[str, str], None]) -> KeyBindings:
    bindings = KeyBindings()

    def bind(name: str, *keys: str) -> None:
        def pressed(_: KeyPressEvent) -> None:
            press(name, " " if name == "space" else "")

        bindings.add(*keys)(pressed)

    for name in SAME:
        bind(name, name)
    for name, keys in OTHERS.items():
        bind(name, *keys)
    bind("newline", "c-j")

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable() and event.data:
            press("text", event.data)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        press("paste", event.data)

    return bindings


FRAME = 1 / 30  # seconds: the eye sees no more
MID_WORD = 2.0  # seconds after a typed letter in which its Enter may follow
INPUT = "Input: "  # before what is typed while a dialog is open
GLANCE = 0.05  # seconds between two checks for waiting keys while a dialog is open
ESCAPE = 0.05  # seconds until a lone Escape counts, and is not the start of a key sequence
CHORD = 1.0  # seconds between the keys of a sequence, such as 'f' and a letter in vi
LEAST = 3  # lines for the live region, however long the input is
STYLES = {  # of the input and the status line
    "footer": "dim",
    "chosen": "bold fg:ansicyan",
    "frame": "dim",
    "nbsp": "noinherit",
}
BEGIN_FULL, END_FULL = "\x1b[?1049h\x1b[H", "\x1b[?1049l"  # the alternate screen
BEGIN_AT_ONCE, END_AT_ONCE = "\x1b[?2026h", "\x1b[?2026l"  # supporting terminals show what is between in one update

DEPTHS = {
    ColourDepth.NONE: ColorDepth.DEPTH_1_BIT,
    ColourDepth.SIXTEEN: ColorDepth.DEPTH_4_BIT,
    ColourDepth.MANY: ColorDepth.DEPTH_8_BIT,
    ColourDepth.TRUE: ColorDepth.DEPTH_24_BIT,
}

Fragments = Callable[[], StyleAndTextTuples]


def reflows(environment: Mapping[str, str]) -> bool:
    """Whether the terminal wraps the lines that it shows anew when it becomes narrower. Nearly all do; xterm, the Linux
    console and GNU screen cut them off."""
    if "TMUX" in environment:
        return True
    return not ({"XTERM_VERSION", "STY"} & environment.keys() or environment.get("TERM", "") in ("linux", "dumb"))


def rows_of(row: Mapping[int, Char], end: int, columns: int) -> int:
    """How many rows the first `end` cells of a line take in a terminal of so many columns."""
    rows, used = 1, 0
    for at in range(end):
        wide = row[at].width if at in row else 1
        if used + wide > columns:
            rows, used = rows + 1, 0
        used += wide
    return rows


def end_of(row: Mapping[int, Char]) -> int:
    return max([at + 1 for at, cell in row.items() if cell.char != " " or "bg:" in cell.style], default=0)


class ResizedApplication(Application[None]):
    """Erases all of its last drawing when the terminal has become narrower and has wrapped it. prompt-toolkit erases as
    many rows as it drew, which leaves the upper ones in the scrollback."""

    def _on_resize(self) -> None:
        drawn = self.renderer.last_rendered_screen
        if drawn is not None and reflows(os.environ):
            columns, cursor = self.output.get_size().columns, drawn.get_cursor_position(self.layout.current_window)
            above = sum(
                rows_of(row, end_of(row), columns) - 1 for row in map(drawn.data_buffer.get, range(cursor.y)) if row
            )
            beside = rows_of(drawn.data_buffer[cursor.y], cursor.x, columns) - 1
            self.output.cursor_up(above + beside)
        super()._on_resize()


class Screen:
    """`above`: the parts of the live region, in this order; `footer`: the status line."""

    def __init__(  # noqa: PLR0913  # what it is made of
        self,
        editor: Editor,
        bindings: KeyBindings,
        footer: Fragments,
        *,
        input: Input | None = None,
        output: Output | None = None,
        depth: ColourDepth = ColourDepth.SIXTEEN,
    ) -> None:
        self.above: Sequence[Drawable] = ()
        self._editor = editor
        self._modals: list[Modal] = []  # the last one has the keyboard
        self._modal_drawn = False
        self._is_full = False  # the alternate screen is shown
        self._typed = -inf  # when the text of the input last changed
        editor.buffer.on_text_changed += self._note_typing
        self._attended = 0.0
        self._pending: list[RenderableType] = []
        self._written = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None
        self._height = 0  # of the last drawing
        self._style = Style.from_dict(STYLES)
        self._paint: Painter | None = None
        self._modal_window = Window(
            FormattedTextControl(self._modal_lines, focusable=True, show_cursor=False, key_bindings=self._modal_keys()),
            dont_extend_height=True,
        )
        footing = Window(FormattedTextControl(footer), height=1, wrap_lines=False)
        asked = Condition(lambda: self._modal is not None)
        happening = Window(FormattedTextControl(self._above_lines), dont_extend_height=True, wrap_lines=False)
        self.app: Application[None] = ResizedApplication(
            Layout(
                HSplit(
                    [
                        happening,
                        ConditionalContainer(self._modal_window, asked),
                        ConditionalContainer(HSplit([*editor.windows, footing]), ~asked),
                    ]
                ),
                focused_element=editor.control,
            ),
            style=DynamicStyle(lambda: self._style),
            include_default_pygments_style=False,
            key_bindings=bindings,
            erase_when_done=True,
            terminal_size_polling_interval=None,  # SIGWINCH tells; polling would wake an idle terminal twice a second
            color_depth=DEPTHS[depth],
            input=input,
            output=output,
            before_render=lambda _: self._write(),
            after_render=lambda _: self._is_rendered(),
        )
        self.app.ttimeoutlen = ESCAPE
        self.app.key_processor.after_key_press += self._choose_patience
        self._depth, self._theme = depth, "ansi"

    def _choose_patience(self, processor: KeyProcessor) -> None:
        """How long a key that may begin a sequence waits for the next one."""
        begins = [press.key for press in processor.key_buffer[:1]]
        self.app.timeoutlen = ESCAPE if begins == [Keys.Escape] else CHORD

    # --- scrollback -------------------------------------------------------------------------------------------------

    def put(self, *parts: RenderableType) -> None:
        self._pending += parts
        self.redraw()

    def redraw(self) -> None:
        """Streaming text is drawn thirty times a second. prompt-toolkit draws the effect of a key at once."""
        if self._due is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # called from a thread: completion reads skills there, and reports broken ones
            if self.app.loop is not None:
                self.app.loop.call_soon_threadsafe(self.redraw)
            return
        self._due = loop.call_later(FRAME, self._redraw_now)

    def _redraw_now(self) -> None:
        self._due = None
        self.app.invalidate()

    def write_sequence(self, sequence: str) -> None:
        """Write an escape sequence that moves no cursor and draws nothing."""
        if sequence and self.app.is_running:
            self.app.output.write_raw(sequence)
            self.app.output.flush()

    async def settled(self) -> None:
        """Wait until everything is printed. Closes full views, below which nothing can be printed."""
        for modal in self._dialogs:
            if modal.is_full_screen:
                modal.close()
        while self._is_full:
            self._written.clear()
            self.redraw()
            await self._written.wait()
        while self._pending and self.app.is_running:
            self._written.clear()
            self.redraw()
            await self._written.wait()

    @property
    def size(self) -> Size:
        return self.app.output.get_size()

    def _write(self) -> None:
        """Called before the lower lines are drawn. If their number changes they are erased first: they do not shrink by
        themselves, and tmux takes a row that was written over for as wide as it ever was when it wraps it."""
        output, pending = self.app.output, self._pending
        preferred = self.app.layout.container.preferred_height(self.size.columns, self.size.rows).preferred
        wanted = min(preferred, self.size.rows)
        output.write_raw(BEGIN_AT_ONCE)
        self._switch_screens()
        if pending or wanted != self._height:
            self.app.renderer.erase(leave_alternate_screen=False)
        self._written.set()
        if pending and not self._is_full:
            self._pending = []
            output.write_raw(self._painter.printed(pending, self.size.columns))
        self._height = wanted

    def _switch_screens(self) -> None:
        """A full view is drawn on the terminal's alternate screen. The live region is erased before, so that it is
        drawn anew at the same place afterwards, below what was printed meanwhile."""
        wanted = any(modal.is_full_screen for modal in self._dialogs)
        if wanted != self._is_full:
            self.app.renderer.erase(leave_alternate_screen=False)
            self.app.output.write_raw(BEGIN_FULL if wanted else END_FULL)
            self._is_full, self._height = wanted, 0

    def close_all(self) -> None:
        """The application is over, for whatever reason."""
        for modal in self._dialogs:
            modal.close()
        if self._is_full:
            self._is_full = False
            self.app.output.write_raw(END_FULL)
            self.app.output.flush()

    @property
    def _painter(self) -> cli.Painter:
        if self._paint is None:
            self._paint = cli.Painter(depth=self._depth, name=self._theme, links=cli.has_links(os.environ))
        return self._paint

    def set_theme(self, name: str) -> None:
        if name == self._theme:
            return
        self._theme, self._paint = name, None
        self._style = Style.from_dict(STYLES | {"chosen": self._painter.name_of("chosen")})
        self.redraw()

    # --- live region ------------------------------------------------------------------------------------------------

    def _above_lines(self) -> StyleAndTextTuples:
        if self._modal is not None:
            room = max(0, self.size.rows - len(self._drawn_modal()) - 1)
        else:
            room = max(LEAST, self.size.rows - self._editor.height(self.size) - 2)
        texts: list[Text] = []
        for part in self.above:
            texts += part.draw(self.size.columns, room - len(texts)) if len(texts) < room else ()
        return [*self._painter.lines(texts)] if texts else []

    def _modal_lines(self) -> StyleAndTextTuples:
        return [*self._painter.lines(self._drawn_modal())]

    def _drawn_modal(self) -> Sequence[Text]:
        if self._modal is None:
            return ()
        if not self._modal_drawn:
            self._modal_drawn, self._attended = True, time.monotonic()
        width, height = self.size.columns, max(1, self.size.rows - 1)
        typed = self._draw_input_of_dialog(width) if height > LEAST else ()
        return [*self._modal.draw(width, height - len(typed)), *typed]

    def _draw_input_of_dialog(self, width: int) -> Sequence[Text]:
        """The text of the input as it will be when the dialog closes: keys that are no answer are appended to it."""
        if self._modal is None or not self._modal.unheard.strip():
            return ()
        room = max(1, width - len(INPUT))
        words = one_line(f"{self._editor.buffer.text}{self._modal.unheard}")[-room:]
        return (Text.assemble((INPUT, "note"), clip_text(Text(words, "note"), room)),)

    @property
    def _modal(self) -> Modal | None:
        return self._modals[-1] if self._modals else None

    @property
    def _dialogs(self) -> list[Dialog[object]]:
        return [cast("Dialog[object]", modal) for modal in self._modals if isinstance(modal, Dialog)]

    @property
    def has_dialog(self) -> bool:
        return self._modal is not None

    # --- keyboard focus ---------------------------------------------------------------------------------------------

    def attended(self) -> float:
        """The clock of dialogs, in seconds. It stops while keys wait to be read: however late we read them, they count
        as pressed at the last check, not as an answer to what was drawn in the meantime."""
        return self._attended

    def _is_rendered(self) -> None:
        self.app.output.write_raw(END_AT_ONCE)
        self._glance()

    def _glance(self) -> None:
        if self._modal is not None and self._modal_drawn and not self._keys_wait():
            self._attended = time.monotonic()
            self._modal.settle()

    def _keys_wait(self) -> bool:
        with suppress(OSError, ValueError, NotImplementedError):  # the terminal is gone, or there is none
            return bool(select.select([self.app.input.fileno()], [], [], 0)[0])
        return False

    def _watch(self, modal: Modal) -> None:
        if self._modal is modal:
            self._glance()
            asyncio.get_running_loop().call_later(GLANCE, self._watch, modal)

    def _note_typing(self, _: object) -> None:
        self._typed = time.monotonic()

    def open(self, modal: Modal) -> None:
        if self.app.layout.is_searching:
            stop_search()
        self._modals.append(modal)
        self._modal_drawn = False
        if self._editor.buffer.text and time.monotonic() - self._typed < MID_WORD:
            _tell_of_half_a_word(modal)
        self._watch(modal)
        self.app.layout.focus(self._modal_window)
        self.redraw()

    def close(self, modal: Modal) -> None:
        """If another one was open before, it has the keyboard again."""
        if modal in self._modals:
            if modal is self._modal:
                self._modal_drawn = False
            self._modals.remove(modal)
            if not self._modals:
                self.app.layout.focus(self._editor.control)
            else:
                self._watch(self._modals[-1])
            if modal.unheard.strip():  # it was meant for the input
                self._editor.buffer.insert_text(modal.unheard)
            self.redraw()

    def _modal_keys(self) -> KeyBindings:
        def press(key: str, text: str) -> None:
            if self._modal is not None:
                self._modal.press(key, text)
                self.redraw()

        return modal_keys(press)


def _tell_of_half_a_word(modal: object) -> None:
    if isinstance(modal, Dialog):
        cast("Dialog[object]", modal).expect_rest_of_word()
