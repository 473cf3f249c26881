"""JSON Schema of a tool's input, from the types of a struct's fields.

We have our own because it is on the start path: msgspec's takes 6 ms to load and adds what a model does not need
(titles, references, defaults). It supports the types that inputs use and rejects others by name.
"""

from __future__ import annotations

import re
import types
from collections import abc
from enum import Enum
from inspect import get_annotations
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)  # fmt: skip

from msgspec import NODEFAULT, Meta, Struct

from mainspring.core.errors import UsageError

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    dict: {"type": "object"},
    list: {"type": "array", "items": {}},  # some servers reject an array without the type of its items
    Any: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
}
_ARRAYS = (list, set, frozenset, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Set, abc.MutableSet)
_TABLES = (dict, abc.Mapping, abc.MutableMapping)

# The JSON Schema keywords of msgspec's constraints.
_LIMITS = {
    "ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "pattern": "pattern",
}  # fmt: skip


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The schema of an object: fields without a default are required. It does not forbid unknown fields: the model gets
    an error if it sends one, and saying so in every schema would cost 200 tokens in each request."""
    return _object(_members_of_struct(kind), _tag(kind))


# --- objects ------------------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    name: str
    key: str  # as the model writes it
    hint: Any
    required: bool


def _object(members: list[_Member], tag: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**tag, **{one.key: _member(one) for one in members}},
        "required": [*tag, *[one.key for one in members if one.required]],
    }


def _member(one: _Member) -> dict[str, Any]:
    """`None` is for the author of the function, if the model can leave the field out instead."""
    return _schema(one.hint if one.required else _without_none(one.hint), f"'{one.name}'")


def _without_none(hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_without_none(args[0]), *args[1:])]
    if origin in (Union, types.UnionType):
        kept = tuple([arg for arg in args if arg is not type(None)])
        return Union[kept]  # noqa: UP007  # of a tuple there is no other way
    return hint


def _tag(kind: type[Struct]) -> dict[str, Any]:
    """The tag that distinguishes the structs of a union."""
    config = kind.__struct_config__
    return {} if config.tag is None else {str(config.tag_field): _words((config.tag,))}


def _members_of_struct(kind: type[Struct]) -> list[_Member]:
    hints = _hints(kind)
    names = kind.__struct_fields__
    required = len(names) - len(kind.__struct_defaults__)
    defaults = (NODEFAULT,) * required + kind.__struct_defaults__
    return [
        _Member(name, key, hints[name], default is NODEFAULT)
        for name, key, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True)
    ]


def _hints(kind: type[Struct]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= get_annotations(base)
    if any(isinstance(hint, str) for hint in found.values()):  # written under `from __future__ import annotations`
        return get_type_hints(kind, include_extras=True)
    return found


def _members_of_dataclass(kind: Any) -> list[_Member]:
    from dataclasses import MISSING, fields  # already loaded by the code that defines a dataclass

    hints = get_type_hints(kind, include_extras=True)
    return [
        _Member(one.name, one.name, hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    ]


def _members_of_typed_dict(kind: Any) -> list[_Member]:
    """Python does not see `NotRequired` where hints are strings, so the hint itself decides."""
    found: list[_Member] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        said = get_origin(hint)
        required = said is Required or (said is not NotRequired and name in kind.__required_keys__)
        found.append(_Member(name, name, get_args(hint)[0] if said in (Required, NotRequired) else hint, required))
    return found


# --- types --------------------------------------------------------------------------------------------------------


def _schema(hint: Any, where: str) -> dict[str, Any]:  # one line for each kind of type
    if _hashable(hint) and hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _described(_schema(args[0], where), args[1:])
    if origin is Literal and all(type(value) in _PLAIN for value in args):
        return _words(args)
    if origin in _ARRAYS or (origin is tuple and args[1:] == (...,)):
        return {"type": "array", "items": _schema(args[0], where)}
    if origin in _TABLES:
        return {"type": "object", "additionalProperties": _schema(args[1], where)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(arg, where) for arg in args]}
    if isinstance(hint, NewType):
        return _schema(hint.__supertype__, where)
    return _named(hint, where)


def _named(hint: Any, where: str) -> dict[str, Any]:
    """The schema of a class."""
    kind: type[Any] = hint if isinstance(hint, type) else type(None)
    if issubclass(kind, Struct) and not kind.__struct_config__.array_like:
        return schema_of(kind)
    if issubclass(kind, Enum) and all(type(one.value) in _PLAIN for one in kind):
        return _words(tuple([one.value for one in kind]))
    if hasattr(kind, "__dataclass_fields__"):
        return _object(_members_of_dataclass(kind), {})
    if is_typeddict(hint):
        return _object(_members_of_typed_dict(hint), {})
    raise UsageError(
        f"{where} is of type {hint!r}, which has no JSON Schema: use str, int, float, bool, list, dict, "
        "Literal, an Enum, a union of these, a dataclass, a TypedDict or a msgspec struct"
    )


def _words(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_PLAIN[type(value)]["type"] for value in values}
    return {"type": kinds.pop(), "enum": list(values)} if len(kinds) == 1 else {"enum": list(values)}


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


# --- paths in a schema ----------------------------------------------------------------------------------------------


def subschema_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The subschema at a path of msgspec (`$.tasks[0].status`, `$.named[...]`). Empty below a union: the intended
    alternative is unknown."""
    found = schema
    for step in re.findall(r"\[[^]]*\]|[^.\[]+", path)[1:]:
        inner: Any = (
            found.get("items", found.get("additionalProperties"))
            if step.startswith("[")
            else found.get("properties", {}).get(step)
        )
        if not isinstance(inner, dict):
            return {}
        found = cast("dict[str, Any]", inner)
    return found


def known_part(value: object, schema: dict[str, Any], path: str = "") -> tuple[Any, list[str]]:
    """A value without the fields that its schema does not have, and the names of those. Below a union, all fields are
    kept."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        listed = cast("list[object]", value)
        found = [known_part(one, schema["items"], f"{path}[{place}]") for place, one in enumerate(listed)]
        return [one for one, _ in found], [name for _, names in found for name in names]
    if not isinstance(value, dict) or "properties" not in schema:
        return cast("Any", value), []
    named = cast("dict[str, object]", value)
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, one in named.items():
        whole = f"{path}.{name}" if path else name
        if name in schema["properties"]:
            kept[name], more = known_part(one, schema["properties"][name], whole)
            dropped += more
        else:
            dropped.append(whole)
    return kept, dropped
