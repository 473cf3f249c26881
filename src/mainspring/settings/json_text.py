"""Changes one value or list in a JSON text, and keeps the rest as it was written: keys, order, white space and unknown
parts. New parts take the format of their neighbours; an empty or new file looks as `json.dumps(indent=2)` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, cast

import msgspec

from mainspring.settings.read import LocatedJson, UnreadableSettings, line_and_column, read_located

EMPTY = "{}\n"

Keys = tuple[str, ...]
_INDENT = re.compile(r"[ \t]*")


class JsonLayout(NamedTuple):
    """The layout of a bracketed value: where its lines begin."""

    newline: str
    indent: str  # of the line with the bracket
    unit: str

    @property
    def deeper(self) -> JsonLayout:
        return self._replace(indent=self.indent + self.unit)


def set_value(text: str, keys: Keys, value: object) -> str:
    """Sets one key in nested objects; creates those that are missing."""
    found = read_located(text)
    for depth in range(len(keys)):
        outer = keys[:depth]
        if not isinstance(get_value(found.tree, outer), dict):
            raise _broken(text, found, outer, "it must be a table of names and values")
        if keys[: depth + 1] not in found.spans:
            return _with_member(text, found, keys[: depth + 1], _nested(keys[depth + 1 :], value))
    start, end = found.spans[keys]
    return text[:start] + _rendered(value, _layout(text, found, keys[:-1])) + text[end:]


def remove_value(text: str, keys: Keys) -> str:
    """Removes one key; without it, the text stays."""
    found = read_located(text)
    if keys not in found.spans:
        return text
    start, (_, end) = found.starts[keys], found.spans[keys]
    siblings = sorted([at for path, at in found.starts.items() if len(path) == len(keys) and path[:-1] == keys[:-1]])
    following = [at for at in siblings if at > start]
    if following:
        return text[:start] + text[following[0] :]
    if len(siblings) > 1:
        before = next(path for path, at in found.starts.items() if at == siblings[-2] and len(path) == len(keys))
        return text[: found.spans[before][1]] + text[end:]
    outer, last = found.spans[keys[:-1]]
    return f"{text[:outer]}{{}}{text[last:]}"


def edit_list(text: str, keys: Keys, keep: Callable[[object], bool], added: tuple[str, ...]) -> str:
    """Removes the elements that are not kept, and appends `added` without those that are already in the list."""
    found = read_located(text)
    old = get_value(found.tree, keys)
    if isinstance(old, str):  # a single rule without a list is accepted, too (`keys.narrowing`)
        kept = [old] if keep(old) else []
        new = [*kept, *[one for one in added if one not in kept]]
        return text if new == [old] else set_value(text, keys, new)
    if old is None and keys not in found.spans:
        return set_value(text, keys, [*added]) if added else text
    if not isinstance(old, list):
        raise _broken(text, found, keys, "it must be a list of strings")
    return _with_elements(text, found, keys, _Elements(cast("list[object]", old), keep, added))


class _Elements(NamedTuple):
    old: list[object]
    keep: Callable[[object], bool]
    added: tuple[str, ...]

    @property
    def kept(self) -> list[int]:
        return [number for number, one in enumerate(self.old) if self.keep(one)]

    @property
    def new(self) -> list[str]:
        kept = [self.old[number] for number in self.kept]
        return [_quoted(one) for one in dict.fromkeys(self.added) if one not in kept]


def _with_elements(text: str, found: LocatedJson, keys: Keys, elements: _Elements) -> str:
    """Copies elements that stay as they were written: a number may be larger than Python can represent."""
    start, end = found.spans[keys]
    kept, new = elements.kept, elements.new
    spans = [found.spans[*keys, number] for number in range(len(elements.old))]
    if len(kept) < len(spans) or not spans:
        if not new and len(kept) == len(spans):
            return text
        one_line = bool(spans) and "\n" not in text[start:end]
        layout = None if one_line else _layout(text, found, keys[:-1])
        items = [*[text[slice(*spans[number])] for number in kept], *new]
        return text[:start] + _bracketed("[", items, "]", layout) + text[end:]
    before = text[start + 1 : spans[0][0]]  # the text before the first element is also put before each new one
    gap = f",{before}" if "\n" in before else ", "
    last = spans[-1][1]
    return text[:last] + "".join([gap + one for one in new]) + text[last:]


def _with_member(text: str, found: LocatedJson, keys: Keys, value: object) -> str:
    start, end = found.spans[keys[:-1]]
    inner = [span for path, span in found.spans.items() if len(path) == len(keys) and path[:-1] == keys[:-1]]
    if not inner:
        return text[:start] + _rendered({keys[-1]: value}, _outer_layout(text, found, keys[:-1])) + text[end:]
    layout = _layout(text, found, keys[:-1])
    gap = ", " if layout is None else f",{layout.newline}{layout.indent}"
    last = max([ends for _, ends in inner])
    return f"{text[:last]}{gap}{_quoted(keys[-1])}: {_rendered(value, layout)}{text[last:]}"


def _nested(keys: Keys, value: object) -> object:
    return {keys[0]: _nested(keys[1:], value)} if keys else value


def get_value(tree: object, keys: Keys) -> object:
    if not keys or not isinstance(tree, dict):
        return None if keys else tree
    return get_value(cast("dict[str, object]", tree).get(keys[0]), keys[1:])


# --- layout -----------------------------------------------------------------------------------------


def _layout(text: str, found: LocatedJson, keys: Keys) -> JsonLayout | None:
    """Of the members of an object; None: it is in one line."""
    start, end = found.spans[keys]
    if "\n" not in text[start:end]:
        return None
    first = min([at for path, at in found.starts.items() if len(path) == len(keys) + 1 and path[:-1] == keys])
    return JsonLayout(_newline(text), _indent(text, first), _unit(text, found))


def _outer_layout(text: str, found: LocatedJson, keys: Keys) -> JsonLayout | None:
    """Of an empty object: derived from its surroundings."""
    if not keys:
        return JsonLayout(_newline(text), "", _unit(text, found))
    return _layout(text, found, keys[:-1])


def _unit(text: str, found: LocatedJson) -> str:
    first = min([at for path, at in found.starts.items() if len(path) == 1], default=0)
    return _indent(text, first) or "  "


def _indent(text: str, offset: int) -> str:
    """The white space that the line begins with."""
    found = _INDENT.match(text, text.rfind("\n", 0, offset) + 1)
    return found[0] if found else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rendered(value: object, layout: JsonLayout | None) -> str:
    inner = None if layout is None else layout.deeper
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return _bracketed("{", [f"{_quoted(key)}: {_rendered(one, inner)}" for key, one in pairs], "}", layout)
    if isinstance(value, list):
        return _bracketed("[", [_rendered(one, inner) for one in cast("list[object]", value)], "]", layout)
    return _quoted(value)


def _bracketed(opening: str, items: list[str], closing: str, layout: JsonLayout | None) -> str:
    if layout is None or not items:
        return opening + ", ".join(items) + closing
    line = layout.newline + layout.deeper.indent
    return opening + line + f",{line}".join(items) + layout.newline + layout.indent + closing


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _broken(text: str, found: LocatedJson, keys: Keys, says: str) -> UnreadableSettings:
    return UnreadableSettings(f"'{'.'.join(keys)}': {says}", line_and_column(text, found.starts.get(keys, 0)), text)
