"""JSON Schema of a tool's input, from the types of a struct's fields.

Our own, because it is on the start path: msgspec's takes 6 ms to load and says what a model need not know (titles,
references, defaults). It knows the types that inputs are made of and refuses others by name.
"""

from __future__ import annotations

import types
from inspect import get_annotations
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct

from mainspring.core.errors import UsageError

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    dict: {"type": "object"},
    list: {"type": "array"},
    Any: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
}

# What a constraint of msgspec is called in a schema.
_LIMITS = {
    "ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "pattern": "pattern",
}  # fmt: skip


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """Of an object: fields without a default are required. That unknown ones are not taken, the model is told if it
    sends one: to say so in every schema would cost 200 tokens in each request."""
    hints = _hints(kind)
    names = kind.__struct_fields__
    encoded = kind.__struct_encode_fields__
    required = len(names) - len(kind.__struct_defaults__)
    defaults = (NODEFAULT,) * required + kind.__struct_defaults__
    return {
        "type": "object",
        "properties": {key: _schema(hints[name], f"'{name}'") for name, key in zip(names, encoded, strict=True)},
        "required": [key for key, default in zip(encoded, defaults, strict=True) if default is NODEFAULT],
    }


def _hints(kind: type[Struct]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= get_annotations(base)
    if any(isinstance(hint, str) for hint in found.values()):  # written under `from __future__ import annotations`
        return get_type_hints(kind, include_extras=True)
    return found


def _schema(hint: Any, where: str) -> dict[str, Any]:  # one line for each kind of type
    if _hashable(hint) and hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _described(_schema(args[0], where), args[1:])
    if origin is Literal:
        return _words(args)
    if origin in (list, set, frozenset) or (origin is tuple and args[1:] == (...,)):
        return {"type": "array", "items": _schema(args[0], where)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(args[1], where)}
    if origin in (Union, types.UnionType):
        return _either([_schema(arg, where) for arg in args if arg is not type(None)], len(args))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return schema_of(hint)
    raise UsageError(
        f"{where} is of type {hint!r}, which no JSON Schema is known for: use str, int, float, bool, list, dict, "
        "Literal, a union of these or a msgspec struct"
    )


def _words(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_PLAIN[type(value)]["type"] for value in values}
    return {"type": kinds.pop(), "enum": list(values)} if len(kinds) == 1 else {"enum": list(values)}


def _either(kinds: list[dict[str, Any]], said: int) -> dict[str, Any]:
    """`None` is for whoever writes the function: the model leaves a field out instead."""
    if len(kinds) == 1 and said <= 2:  # a type and None
        return kinds[0]
    return {"anyOf": kinds}


def _described(made: dict[str, Any], notes: tuple[Any, ...]) -> dict[str, Any]:
    for note in notes:
        if isinstance(note, str):
            made["description"] = note
        elif isinstance(note, Meta):
            made |= {name: value for key, name in _LIMITS.items() if (value := getattr(note, key)) is not None}
            made |= _lengths(made, note)
            if note.description:
                made["description"] = note.description
    return made


def _lengths(made: dict[str, Any], note: Meta) -> dict[str, Any]:
    what = "Items" if made.get("type") == "array" else "Length"
    found = {f"min{what}": note.min_length, f"max{what}": note.max_length}
    return {name: value for name, value in found.items() if value is not None}


def _hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True
