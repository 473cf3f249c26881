"""The keys of the terminal: one table for the bindings, the help and the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prompt_toolkit.filters import Condition, Filter, has_focus, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import stop_search

from mainspring.cli.tui.editor import Editor

if TYPE_CHECKING:
    from mainspring.cli.tui.key_bindings import KeyChange, KeySequence
    from mainspring.cli.tui.vi_mode import ViMode


class KeyActions(Protocol):
    """What the application does for a key."""

    def send(self) -> None: ...
    def stop(self) -> None:
        """Ctrl-C: interrupt; else clear the input; else exit, if pressed twice."""
        ...

    def escape(self) -> None:
        """Close the help and interrupt; twice at an empty input: rewind. The binding closes completions instead."""
        ...

    def leave(self) -> None: ...
    def next_mode(self) -> None: ...
    def edit(self) -> None: ...
    def suspend(self) -> None: ...
    def show_transcript(self) -> None: ...
    def show_board(self) -> bool:
        """Returns False if there is no task to show."""
        ...

    def move_to_background(self) -> None: ...
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
    def search_history(self) -> None: ...
    def stash(self) -> None:
        """Put the input aside, or bring back what was put aside."""
        ...

    def paste_image(self) -> None: ...
    def pick_model(self) -> None: ...


class KeyBinding(NamedTuple):
    shown: str  # the name the user knows
    about: str
    keys: tuple[tuple[str, ...], ...]
    does: str = ""  # method of `TerminalKeyBindings`; empty: prompt-toolkit's own binding
    action: str = ""  # its name in `keybindings.json`; empty: fixed


NEWLINE = ("escape", "c-m")

TABLE = (
    KeyBinding(
        "Enter", "send; during a run, the prompt goes out with the next request", (("c-m",),), "_send", "chat:submit"
    ),
    KeyBinding("Ctrl-J, Alt-Enter, \\ Enter", "insert a new line", (("c-j",), NEWLINE), "_newline", "chat:newline"),
    KeyBinding(
        "Esc", "interrupt the run; else, twice: clear the input, or rewind", (("escape",),), "_escape", "chat:cancel"
    ),
    KeyBinding("Ctrl-C", "interrupt the run; else clear the input; twice: exit", (("c-c",),), "_stop"),
    KeyBinding("Ctrl-D", "exit, if the input is empty", (("c-d",),), "_leave"),
    KeyBinding(
        "Shift-Tab",
        "switch to the next mode: default, acceptEdits, plan (then auto and bypassPermissions, if allowed)",
        (("s-tab",),),
        "_next_mode",
        "chat:cycleMode",
    ),
    KeyBinding(
        "Tab",
        "complete a '/command' or an '@path', or accept the suggestion",
        (("c-i",),),
        "_complete",
        "autocomplete:accept",
    ),
    KeyBinding(
        "Up, Down",
        "recall earlier prompts; if the input is empty, take back a queued one, or show the tasks (Down)",
        (("up",), ("down",)),
        "_move",
    ),
    KeyBinding("Ctrl-R", "list earlier prompts, here or everywhere", (("c-r",),), "_search", "history:search"),
    KeyBinding("Ctrl-S", "stash the input, or bring it back", (("c-s",),), "_stash", "chat:stash"),
    KeyBinding("Ctrl-V", "paste an image from the clipboard", (("c-v",),), "_paste_image", "chat:imagePaste"),
    KeyBinding("Alt-P", "pick the model", (("escape", "p"),), "_pick_model", "chat:modelPicker"),
    KeyBinding(
        "Ctrl-O",
        "show the transcript: scroll, search, fold, copy",
        (("c-o",),),
        "_show_transcript",
        "app:toggleTranscript",
    ),
    KeyBinding(
        "Ctrl-B",
        "move the running command or subagent to the background",
        (("c-b",),),
        "_move_to_background",
        "task:background",
    ),
    KeyBinding("Ctrl-T", "show or hide the task list", (("c-t",),), "_toggle_tasks", "app:toggleTodos"),
    KeyBinding("Ctrl-G", "edit the input in $EDITOR", (("c-g",),), "_edit", "chat:externalEditor"),
    KeyBinding("Ctrl-L", "redraw the screen", (("c-l",),)),
    KeyBinding("Ctrl-Z", "suspend; 'fg' resumes", (("c-z",),), "_suspend"),
    KeyBinding("?", "show these keys, if the input is empty", (("?",),), "_help", "app:help"),
)
ACTIONS = {key.action: key.does for key in TABLE if key.action}


class TerminalKeyBindings:
    def __init__(self, editor: Editor, actions: KeyActions) -> None:
        self._editor, self._actions = editor, actions
        self.made = KeyBindings()
        self.vi: ViMode | None = None  # until there is an application
        self._own: dict[KeySequence, str] = {}  # keys of the user, and what they do
        self._shown: dict[str, list[str]] = {}  # their names, by what they do
        extend_key_sequences()
        self._typing = typing = has_focus(editor.control)
        for key in TABLE:
            for keys in key.keys if key.does else ():
                self._add(keys, key.does)
        self.made.add(Keys.BracketedPaste, filter=typing)(self._paste)
        self.made.add("c-h", filter=typing & Condition(self._types))(self._erase)
        self.made.add("delete", filter=typing & Condition(self._types))(self._erase_next)
        self.made.add("c-c", filter=is_searching)(self._end_search)

    def _add(self, keys: KeySequence, does: str) -> None:
        self.made.add(*keys, filter=self._typing & self._where(keys, does))(getattr(self, does))

    def _where(self, keys: KeySequence, does: str) -> Filter:
        """A key that is also a character is a binding only while the input is empty; a key of the user replaces ours,
        and Escape is first one of vi."""

        def holds() -> bool:
            if self._own.get(keys, does) != does or (does == "_help" and bool(self._editor.buffer.text)):
                return False
            return does != "_escape" or self.vi is None or self._editor.is_offering or not self.vi.has_own_escape

        return Condition(holds)

    def _types(self) -> bool:
        return self.vi is None or self.vi.types

    def take_vi(self, vi: ViMode) -> None:
        self.vi = vi
        vi.add_bindings(self.made, self._typing)

    def take_own(self, changes: Iterable[KeyChange]) -> None:
        """The user's own keys, besides ours and before them."""
        for change in changes:
            does = ACTIONS[change.action] if change.action else "_nothing"
            self._own[change.keys] = does
            if does != "_nothing":
                self._shown.setdefault(does, []).append(change.shown)
            if not any(change.keys in key.keys and key.does == does for key in TABLE):
                self._add(change.keys, does)

    def help_rows(self) -> list[tuple[str, str]]:
        """With the user's own keys."""
        rows = [(", ".join([key.shown, *self._shown.get(key.does, ())]), key.about) for key in TABLE]
        return [*rows, ("Esc, then i", "vi keys: normal mode, insert mode")] if self.vi and self.vi.is_on else rows

    def _nothing(self, _: KeyPressEvent) -> None:
        pass

    def _search(self, _: KeyPressEvent) -> None:
        self._actions.search_history()

    def _stash(self, _: KeyPressEvent) -> None:
        self._actions.stash()

    def _paste_image(self, _: KeyPressEvent) -> None:
        self._actions.paste_image()

    def _pick_model(self, _: KeyPressEvent) -> None:
        self._actions.pick_model()

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
        elif not buffer.text and self._actions.show_board():
            pass
        else:
            buffer.auto_down()

    def _show_transcript(self, _: KeyPressEvent) -> None:
        self._actions.show_transcript()

    def _move_to_background(self, _: KeyPressEvent) -> None:
        self._actions.move_to_background()

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
