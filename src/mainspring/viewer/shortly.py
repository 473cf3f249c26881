"""Values of the core in a few words, for people: an event, an effect, a field of the state before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import fields

from mainspring.core.history import History
from mainspring.core.messages import Assistant, ToolCall, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.state import State
from mainspring.secrets.redaction import redact
from mainspring.text import strip_control_characters
from mainspring.viewer.spans import may_hold_secret

SHORT = 200  # characters of a value
PIECE = 60  # of a text within one
DEEP = 3  # levels of a value that are shown
WIDE = 5  # of a list, how many

NOT_TOLD = frozenset({"history", "now", "waiting_for"})  # a length, the event's own stamp, and the effect
MONEY = frozenset({"cost", "funds", "reserve", "agents"})  # fields that are nano-dollars


def list_state_changes(before: State, after: State) -> list[tuple[str, str, str]]:
    """The fields that are not what they were, those of values within the state by name."""
    found: list[tuple[str, str, str]] = []
    old_length, new_length = len(before.history), len(after.history)
    if old_length != new_length:
        found.append(("history", f"{old_length:,} messages", f"{new_length:,} messages"))
    for name in STATE_FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old is not new and old != new:
            found += list_inner_changes(name, old, new)
    return found


STATE_FIELDS = tuple([field.name for field in fields(State) if field.name not in NOT_TOLD])
WHOLE = (Model, Assistant)  # one is not a changed other


def list_inner_changes(name: str, old: object, new: object) -> list[tuple[str, str, str]]:
    if not isinstance(old, Struct) or type(old) is not type(new) or isinstance(old, WHOLE):
        part = name.rpartition(".")[2]
        return [(name, shorten_top_value(old, part), shorten_top_value(new, part))]
    found: list[tuple[str, str, str]] = []
    for part in old.__struct_fields__:
        one, other = getattr(old, part), getattr(new, part)
        if one != other:
            found += list_inner_changes(f"{name}.{part}", one, other)
    return found


def shorten_top_value(value: object, name: str = "") -> str:
    text = shorten_value(value, 0, name)
    if may_hold_secret(text):
        text = redact(text)
    text = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
    return text if text.isprintable() else strip_control_characters(text)


def shorten_value(value: object, depth: int, name: str = "") -> str:
    for kind, words in WORDS:
        if isinstance(value, kind):
            return words(value, depth, name)
    return str(value)


def shorten_text(value: str, _depth: int, _name: str) -> str:
    line = " ".join(value[: 2 * PIECE].split())
    return line if len(line) <= PIECE else f"{line[: PIECE - 1]}…"


def shorten_number(value: int, _depth: int, name: str) -> str:
    return f"${value / NANOS_PER_USD:.4f}" if name in MONEY else f"{value:,}"


def shorten_list(value: tuple[object, ...] | list[object], depth: int, _name: str) -> str:
    items = [shorten_value(item, depth + 1) for item in value[:WIDE]] if depth < DEEP else []
    more = f" … {len(value):,} in all" if len(value) > len(items) else ""
    return f"[{', '.join(items)}{more}]"


def shorten_dict(value: dict[str, object], depth: int, _name: str) -> str:
    items = [f"{name}: {shorten_value(value[name], depth + 1)}" for name in list(value)[:WIDE]] if depth < DEEP else []
    return "{" + ", ".join(items) + (" …" if len(items) < len(value) else "") + "}"


def shorten_message_value(value: User | ToolResult | Assistant, depth: int, _name: str) -> str:
    text = shorten_text(value.text, depth, "")
    calls = [call.name for call in value.calls] if isinstance(value, Assistant) else []
    made = " ".join([f'"{text}"'] * bool(text) + calls)
    return f"{type(value).__name__} {made}"


def shorten_call(value: ToolCall, depth: int, _name: str) -> str:
    return f"{value.name} {shorten_dict(value.input, depth, '')}"


def shorten_struct(value: Struct, depth: int, _name: str) -> str:
    """The fields that are not as usual."""
    kind = type(value)
    if depth >= DEEP:
        return kind.__name__
    parts = [
        f"{name}={shorten_value(given, depth + 1, name)}"
        for name, usual in usual_values(kind)
        if (given := getattr(value, name)) != usual
    ]
    return " ".join(parts) if depth == 0 else f"{kind.__name__}({' '.join(parts)})"


_usual: dict[type[Struct], list[tuple[str, object]]] = {}


def usual_values(kind: type[Struct]) -> list[tuple[str, object]]:
    if kind not in _usual:
        _usual[kind] = [(field.name, field.default) for field in fields(kind) if field.name != "stamp"]
    return _usual[kind]


Say = Callable[[Any, int, str], str]

# The first that fits.
WORDS: tuple[tuple[type | tuple[type, ...], Say], ...] = (
    (str, shorten_text),
    (bool, lambda value, _depth, _name: "yes" if value else "no"),
    (int, shorten_number),
    (type(None), lambda _value, _depth, _name: "none"),
    ((tuple, list), cast("Say", shorten_list)),
    (dict, cast("Say", shorten_dict)),
    (Model, lambda value, _depth, _name: cast("Model", value).name),
    ((User, ToolResult, Assistant), shorten_message_value),
    (ToolCall, shorten_call),
    (History, lambda value, _depth, _name: f"{len(value):,} messages"),
    (Struct, shorten_struct),
)
