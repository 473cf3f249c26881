"""vi keys in the input: prompt-toolkit's own, switched on by `editorMode` in the settings or by `/vim`.

A prompt begins in insert mode. Escape enters normal mode; there, Escape does what it does without vi keys.
"""

from __future__ import annotations

from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode

NAMES = {
    InputMode.INSERT: "INSERT",
    InputMode.INSERT_MULTIPLE: "INSERT",
    InputMode.NAVIGATION: "NORMAL",
    InputMode.REPLACE: "REPLACE",
    InputMode.REPLACE_SINGLE: "REPLACE",
}
TYPING = frozenset({InputMode.INSERT, InputMode.INSERT_MULTIPLE, InputMode.REPLACE, InputMode.REPLACE_SINGLE})


class ViMode:
    """Of one application."""

    def __init__(self, app: Application[Any]) -> None:
        self._app = app

    def switch(self, *, on: bool) -> None:
        wanted = EditingMode.VI if on else EditingMode.EMACS
        if self._app.editing_mode is not wanted:
            self._app.editing_mode = wanted
            self.insert()

    @property
    def is_on(self) -> bool:
        return self._app.editing_mode is EditingMode.VI

    @property
    def types(self) -> bool:
        """Whether a letter is text: always without vi keys."""
        return not self.is_on or self._app.vi_state.input_mode in TYPING

    @property
    def has_own_escape(self) -> bool:
        """Whether Escape leaves a state of vi: typing, a selection, or half a command."""
        state = self._app.vi_state
        if not self.is_on:
            return False
        return (
            self.types
            or self._app.current_buffer.selection_state is not None
            or state.operator_func is not None
            or state.waiting_for_digraph
            or bool(self._app.key_processor.arg)
        )

    @property
    def name(self) -> str:
        """For the status line; empty without vi keys."""
        if not self.is_on:
            return ""
        if self._app.current_buffer.selection_state is not None and not self.types:
            return "VISUAL"
        return NAMES[self._app.vi_state.input_mode]

    def add_bindings(self, bindings: KeyBindings, typing: Filter) -> None:
        """`cw` changes up to the end of the word, and not the space after it, as in vi."""

        def is_on_word() -> bool:
            return (
                self.is_on and not self.has_own_escape and not self._app.current_buffer.document.current_char.isspace()
            )

        def change_word(event: KeyPressEvent) -> None:
            count = str(event.arg) if event.arg_present else ""
            presses = [KeyPress(key, key) for key in (*count, "c", "e")]
            event.app.key_processor.feed_multiple(presses, first=True)

        bindings.add("c", "w", filter=typing & Condition(is_on_word))(change_word)

    def insert(self) -> None:
        """The next prompt begins in insert mode."""
        self._app.vi_state.reset()
        self._app.vi_state.input_mode = InputMode.INSERT
