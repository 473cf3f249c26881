"""The keys of the terminal: one table, from which the bindings, the help and the documentation are made."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from prompt_toolkit.filters import Condition, Filter, has_focus, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from mainspring.cli.tui.editor import Editor


class KeyActions(Protocol):
    """What the conversation does for a key."""

    def send(self) -> None: ...
    def stop(self) -> None:
        """Ctrl-C: interrupts; else drops what is typed; else leaves, if it is the second time."""
        ...

    def escape(self) -> None:
        """Drops completions; else interrupts."""
        ...

    def leave(self) -> None: ...
    def next_mode(self) -> None: ...
    def edit(self) -> None: ...
    def suspend(self) -> None: ...
    def unfold(self) -> None: ...
    def toggle_tasks(self) -> None: ...
    def toggle_help(self) -> None: ...
    def take_back(self) -> bool:
        """What was said and is still waiting, into the input. False: nothing waits."""
        ...

    def complete(self) -> None: ...
    def paste(self, text: str) -> None: ...
    def erase(self) -> None:
        """One character before the cursor, or what stands there for a paste."""
        ...

    def erase_next(self) -> None: ...


class KeyBinding(NamedTuple):
    shown: str  # as the user knows it
    about: str
    keys: tuple[tuple[str, ...], ...]
    does: str = ""  # its method here; empty: prompt-toolkit's own


NEWLINE = ("escape", "c-m")

TABLE = (
    KeyBinding(
        "Enter", "send; while something runs, it is heard as soon as the model can hear it", (("c-m",),), "_send"
    ),
    KeyBinding("Ctrl-J, Alt-Enter, \\ Enter", "a new line", (("c-j",), NEWLINE), "_newline"),
    KeyBinding("Esc", "interrupt what is under way", (("escape",),), "_escape"),
    KeyBinding("Ctrl-C", "interrupt what is under way; else drop what is typed; twice: leave", (("c-c",),), "_stop"),
    KeyBinding("Ctrl-D", "leave, if nothing is typed", (("c-d",),), "_leave"),
    KeyBinding("Shift-Tab", "the next mode: default, acceptEdits, plan", (("s-tab",),), "_next_mode"),
    KeyBinding("Tab", "complete a word with '/' or '@', or take what is suggested", (("c-i",),), "_complete"),
    KeyBinding(
        "Up, Down", "what was said before; if nothing is typed, take back what waits", (("up",), ("down",)), "_move"
    ),
    KeyBinding("Ctrl-R", "search in what was said before", (("c-r",),)),
    KeyBinding("Ctrl-O", "show all of what the last calls brought", (("c-o",),), "_unfold"),
    KeyBinding("Ctrl-T", "show or hide the list of tasks", (("c-t",),), "_toggle_tasks"),
    KeyBinding("Ctrl-G", "edit the input in $EDITOR", (("c-g",),), "_edit"),
    KeyBinding("Ctrl-L", "draw the screen anew", (("c-l",),)),
    KeyBinding("Ctrl-Z", "stop; 'fg' goes on", (("c-z",),), "_suspend"),
    KeyBinding("?", "these keys, if nothing is typed", (("?",),), "_help"),
)


class TerminalKeyBindings:
    def __init__(self, editor: Editor, actions: KeyActions) -> None:
        self._editor, self._actions = editor, actions
        self.made = KeyBindings()
        tell_shift_enter()
        typing = has_focus(editor.control)
        for key in TABLE:
            for keys in key.keys if key.does else ():
                self.made.add(*keys, filter=typing & self._where(key.does))(getattr(self, key.does))
        self.made.add(Keys.BracketedPaste, filter=typing)(self._paste)
        self.made.add("c-h", filter=typing)(self._erase)
        self.made.add("delete", filter=typing)(self._erase_next)
        self.made.add("c-c", filter=is_searching)(self._end_search)

    def _where(self, does: str) -> Filter:
        """A key that is a letter is one, where something is typed."""
        if does == "_help":
            return Condition(lambda: not self._editor.buffer.text)
        return Condition(lambda: True)

    def _send(self, _: KeyPressEvent) -> None:
        buffer = self._editor.buffer
        if self._editor.is_choosing:
            self._editor.take_completion()
        elif self._editor.is_half_a_word():
            self._editor.take_completion()
            if not buffer.text.endswith(" "):  # nothing more is wanted
                self._actions.send()
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            self._actions.send()

    def _newline(self, _: KeyPressEvent) -> None:
        self._editor.buffer.insert_text("\n")

    def _escape(self, _: KeyPressEvent) -> None:
        if self._editor.is_offering:
            self._editor.drop_completions()
        else:
            self._actions.escape()

    def _stop(self, _: KeyPressEvent) -> None:
        self._actions.stop()

    def _leave(self, _: KeyPressEvent) -> None:
        if self._editor.buffer.text:
            self._editor.buffer.delete()
        else:
            self._actions.leave()

    def _next_mode(self, _: KeyPressEvent) -> None:
        self._actions.next_mode()

    def _complete(self, _: KeyPressEvent) -> None:
        self._actions.complete()

    def _move(self, event: KeyPressEvent) -> None:
        buffer, up = self._editor.buffer, event.key_sequence[0].key == Keys.Up
        if self._editor.is_offering:
            (buffer.complete_previous if up else buffer.complete_next)()
        elif up and not buffer.text and self._actions.take_back():
            pass
        elif up:
            buffer.auto_up()
        else:
            buffer.auto_down()

    def _unfold(self, _: KeyPressEvent) -> None:
        self._actions.unfold()

    def _toggle_tasks(self, _: KeyPressEvent) -> None:
        self._actions.toggle_tasks()

    def _help(self, _: KeyPressEvent) -> None:
        self._actions.toggle_help()

    def _edit(self, _: KeyPressEvent) -> None:
        self._actions.edit()

    def _suspend(self, _: KeyPressEvent) -> None:
        self._actions.suspend()

    def _paste(self, event: KeyPressEvent) -> None:
        self._actions.paste(event.data)

    def _erase(self, _: KeyPressEvent) -> None:
        self._actions.erase()

    def _erase_next(self, _: KeyPressEvent) -> None:
        self._actions.erase_next()

    def _end_search(self, event: KeyPressEvent) -> None:
        from prompt_toolkit.search import stop_search

        stop_search()
        event.app.layout.focus(self._editor.control)


def tell_shift_enter() -> None:
    """Terminals that tell Shift-Enter from Enter do so in one of two ways, of which prompt-toolkit knows none."""
    for sequence in ("\x1b[13;2u", "\x1b[27;2;13~"):
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)


def help_rows() -> list[tuple[str, str]]:
    return [(key.shown, key.about) for key in TABLE]
