"""Every key goes to what has the keyboard, by the names of `drawing.KEYS`."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from mainspring.cli.tui.drawing import KEYS

# In the words of prompt-toolkit, where they are not ours.
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
