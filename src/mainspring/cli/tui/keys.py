"""The keys of the terminal: one table for the bindings, the help and the documentation."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from prompt_toolkit.filters import Condition, Filter, has_focus, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import stop_search

from mainspring.cli.tui.editor import Editor


class KeyActions(Protocol):
    """What the application does for a key."""

    def send(self) -> None: ...
    def stop(self) -> None:
        """Ctrl-C: interrupt; else clear the input; else exit, if pressed twice."""
        ...

    def escape(self) -> None:
        """Close the help and interrupt. The binding closes open completions instead."""
        ...

    def leave(self) -> None: ...
    def next_mode(self) -> None: ...
    def edit(self) -> None: ...
    def suspend(self) -> None: ...
    def unfold(self) -> None: ...
    def toggle_tasks(self) -> None: ...
    def toggle_help(self) -> None: ...
    def take_back(self) -> bool:
        """Move the last queued prompt back into the input. Returns False if there is none."""
        ...

    def complete(self) -> None: ...
    def paste(self, text: str) -> None: ...
    def erase(self) -> None:
        """Delete one character before the cursor, or a whole paste placeholder."""
        ...

    def erase_next(self) -> None: ...


class KeyBinding(NamedTuple):
    shown: str  # the name the user knows
    about: str
    keys: tuple[tuple[str, ...], ...]
    does: str = ""  # method of `TerminalKeyBindings`; empty: prompt-toolkit's own binding


NEWLINE = ("escape", "c-m")

TABLE = (
    KeyBinding("Enter", "send; during a run, the prompt goes out with the next request", (("c-m",),), "_send"),
    KeyBinding("Ctrl-J, Alt-Enter, \\ Enter", "insert a new line", (("c-j",), NEWLINE), "_newline"),
    KeyBinding("Esc", "interrupt the run", (("escape",),), "_escape"),
    KeyBinding("Ctrl-C", "interrupt the run; else clear the input; twice: exit", (("c-c",),), "_stop"),
    KeyBinding("Ctrl-D", "exit, if the input is empty", (("c-d",),), "_leave"),
    KeyBinding(
        "Shift-Tab",
        "switch to the next mode: default, acceptEdits, plan (then auto and bypassPermissions, if allowed)",
        (("s-tab",),),
        "_next_mode",
    ),
    KeyBinding("Tab", "complete a '/command' or an '@path', or accept the suggestion", (("c-i",),), "_complete"),
    KeyBinding(
        "Up, Down",
        "recall earlier prompts; if the input is empty, take back a queued one",
        (("up",), ("down",)),
        "_move",
    ),
    KeyBinding("Ctrl-R", "search earlier prompts", (("c-r",),)),
    KeyBinding("Ctrl-O", "show the full output of the last tool calls", (("c-o",),), "_unfold"),
    KeyBinding("Ctrl-T", "show or hide the task list", (("c-t",),), "_toggle_tasks"),
    KeyBinding("Ctrl-G", "edit the input in $EDITOR", (("c-g",),), "_edit"),
    KeyBinding("Ctrl-L", "redraw the screen", (("c-l",),)),
    KeyBinding("Ctrl-Z", "suspend; 'fg' resumes", (("c-z",),), "_suspend"),
    KeyBinding("?", "show these keys, if the input is empty", (("?",),), "_help"),
)


class TerminalKeyBindings:
    def __init__(self, editor: Editor, actions: KeyActions) -> None:
        self._editor, self._actions = editor, actions
        self.made = KeyBindings()
        extend_key_sequences()
        typing = has_focus(editor.control)
        for key in TABLE:
            for keys in key.keys if key.does else ():
                self.made.add(*keys, filter=typing & self._where(key.does))(getattr(self, key.does))
        self.made.add(Keys.BracketedPaste, filter=typing)(self._paste)
        self.made.add("c-h", filter=typing)(self._erase)
        self.made.add("delete", filter=typing)(self._erase_next)
        self.made.add("c-c", filter=is_searching)(self._end_search)

    def _where(self, does: str) -> Filter:
        """A key that is also a character is a binding only while the input is empty."""
        if does == "_help":
            return Condition(lambda: not self._editor.buffer.text)
        return Condition(lambda: True)

    def _send(self, _: KeyPressEvent) -> None:
        buffer = self._editor.buffer
        if self._editor.is_choosing:
            self._editor.take_completion()
        elif self._editor.is_half_a_word():
            self._editor.take_completion()
            if not buffer.text.endswith(" "):  # the command takes no arguments
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
        stop_search()
        event.app.layout.focus(self._editor.control)


def extend_key_sequences() -> None:
    """Sequences that prompt-toolkit does not know. It would read them as Escape and text, and Escape denies a call.

    Terminals that distinguish Shift-Enter from Enter send one of two sequences. A terminal reports that it got or lost
    the focus if another program asked for it and ended before it could undo that."""
    for sequence in ("\x1b[13;2u", "\x1b[27;2;13~"):
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)
    for sequence in ("\x1b[I", "\x1b[O"):
        ANSI_SEQUENCES[sequence] = Keys.Ignore


def help_rows() -> list[tuple[str, str]]:
    return [(key.shown, key.about) for key in TABLE]
