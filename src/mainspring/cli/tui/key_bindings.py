"""The user's own keys: `keybindings.json` in our home folder, else Claude Code's.

    {"bindings": [{"context": "Chat", "bindings": {"ctrl+e": "chat:externalEditor", "ctrl+t": null}}]}

Names of actions and keys are Claude Code's. Contexts other than `Chat` and `Global` are about screens that we do not
have, and are ignored. A key with `null` does nothing. Mistakes cost a warning, never the start; a file that cannot be
read changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mainspring.text import closest_name

NAME = "keybindings.json"
LARGEST = 1 << 20  # bytes
CONTEXTS = ("Chat", "Global")
MOST_PROBLEMS = 3  # named in the warning

# Names of keys, and how prompt-toolkit calls them.
NAMED = {
    "enter": "c-m",
    "return": "c-m",
    "tab": "c-i",
    "space": " ",
    "escape": "escape",
    "esc": "escape",
    "backspace": "c-h",
    "delete": "delete",
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "home": "home",
    "end": "end",
    "pageup": "pageup",
    "pagedown": "pagedown",
    "insert": "insert",
    **{f"f{number}": f"f{number}" for number in range(1, 25)},
}
ALT = ("alt", "meta", "opt", "option")
WITH_CTRL = frozenset(("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "delete", "insert"))
RESERVED = ("c-c", "c-d", "c-m")  # interrupt, exit, and what a terminal sends for Enter

KeySequence = tuple[str, ...]


class KeyChange(NamedTuple):
    shown: str  # as the user wrote it
    keys: KeySequence
    action: str | None  # None: the keys do nothing


class OwnKeys(NamedTuple):
    changes: tuple[KeyChange, ...] = ()
    warning: str = ""


class _Block(Struct):
    bindings: dict[str, str | None]
    context: str = "Global"


class _File(Struct):
    bindings: list[_Block] = []


def load_own_keys(folders: Iterable[str], actions: Iterable[str]) -> OwnKeys:
    """From the first folder that has the file."""
    for folder in folders:
        path = f"{folder}/{NAME}"
        try:
            with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes 8 ms to load
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            return OwnKeys(warning=f"Key bindings not loaded: cannot read '{path}': {error.strerror}.")
        return read_own_keys(path, data, frozenset(actions))
    return OwnKeys()


def find_key_folders(home: str | None, environ: Mapping[str, str]) -> list[str]:
    """Ours, then Claude Code's."""
    theirs = environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")  # noqa: PTH111
    return [folder for folder in (home, theirs) if folder]


def read_own_keys(path: str, data: bytes, actions: frozenset[str]) -> OwnKeys:
    try:
        if len(data) > LARGEST:
            raise ValueError("it is too large")
        blocks = msgspec.json.decode(data, type=_File).bindings
    except (ValueError, RecursionError) as error:  # a DecodeError is a ValueError
        return OwnKeys(warning=f"Key bindings not loaded: '{path}' is not valid: {error}.")
    changes: dict[KeySequence, KeyChange] = {}
    problems: list[str] = []
    for block in blocks:
        for shown, action in block.bindings.items() if block.context in CONTEXTS else ():
            keys = parse_keys(shown)
            if isinstance(keys, str):
                problems.append(keys)
            elif action is not None and action not in actions:
                near = closest_name(action, sorted(actions))
                problems.append(f"no action '{action}'" + (f", did you mean '{near}'?" if near else ""))
            else:
                changes[keys] = KeyChange(shown, keys, action)
    return OwnKeys(tuple(changes.values()), describe_problems(path, problems))


def describe_problems(path: str, problems: list[str]) -> str:
    if not problems:
        return ""
    more = f" and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
    return f"Ignored in '{path}': {'; '.join(problems[:MOST_PROBLEMS])}{more}."


def parse_keys(shown: str) -> KeySequence | str:
    """Keys such as 'ctrl+g', 'alt+p' or 'ctrl+x ctrl+e', as prompt-toolkit names them; a text says what is wrong."""
    found: list[str] = []
    for stroke in shown.lower().split():
        keys = _parse_stroke(stroke)
        if keys is None:
            return f"no key '{shown}'"
        found += keys
    if not found:
        return "a key without a name"
    if any(one in RESERVED for one in found) and shown.lower() not in ("enter", "return"):
        return f"'{shown}' cannot be changed"
    if len(found) == 1 and len(found[0]) == 1:
        return f"'{shown}' is text: add ctrl or alt"
    return tuple(found)


def _parse_stroke(stroke: str) -> KeySequence | None:
    *modifiers, name = stroke.split("+") if stroke != "+" else ["+"]
    held = {"alt" if one in ALT else "ctrl" if one == "control" else one for one in modifiers}
    if not name or held - {"ctrl", "alt", "shift"}:
        return None
    key = NAMED.get(name, name if len(name) == 1 and name.isprintable() else "")
    if "ctrl" in held:
        if len(name) == 1 and ("a" <= name <= "z" or name in "[]\\^_@"):
            key = f"c-{name}"
        elif name == "space":
            key = "c-@"
        elif name in WITH_CTRL:
            key = f"c-s-{key}" if "shift" in held else f"c-{key}"
        else:
            return None
    elif "shift" in held:
        if name == "tab":
            key = "s-tab"
        elif name in WITH_CTRL:
            key = f"s-{key}"
        elif len(name) == 1 and name.isalpha():
            key = name.upper()
        else:
            return None
    if not key:
        return None
    return ("escape", key) if "alt" in held else (key,)
