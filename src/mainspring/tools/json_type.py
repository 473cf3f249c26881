"""`JsonType`: a Python type as JSON Schema, and the decoder from a JSON value to it.

    found = JsonType(list[Weather])
    found.schema               # for the model
    found.decode(value)        # a list of Weather; raises `InvalidValueError`, which says what is wrong where

Parameters of tools, results of tools (`encode_json`) and typed outputs share it. A type is read into a tree of nodes.
Where msgspec can decode a part of it, that part is one node, and msgspec does the work; the other nodes are for what it
does not have: unions of several objects, limits of other libraries, paths, types that contain themselves, and pydantic
(`pydantic_type.py`).
"""

from __future__ import annotations

import sys
import types
from collections import abc
from collections.abc import Callable
from enum import Enum
from inspect import get_annotations
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)  # fmt: skip

import msgspec
from msgspec import NODEFAULT, Struct

from mainspring.core.errors import InvalidValueError, UsageError
from mainspring.tools.constraints import Constraints
from mainspring.tools.type_nodes import (
    CUSTOM,
    ArrayNode,
    CheckedNode,
    ChoiceNode,
    NativeNode,
    ObjectNode,
    PathNode,
    ReferenceNode,
    TableNode,
    TupleNode,
    TypeMember,
    TypeNode,
    UnionNode,
    make_generic,
)

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
# Classes of the standard library by name: a program that uses one has loaded its module.
_FORMATS = {
    ("datetime", "datetime"): "date-time",
    ("datetime", "date"): "date",
    ("datetime", "time"): "time",
    ("datetime", "timedelta"): "duration",
    ("uuid", "UUID"): "uuid",
    ("decimal", "Decimal"): "decimal",
}
_ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Set: set,
    abc.MutableSet: set,
}
_TABLES = (dict, abc.Mapping, abc.MutableMapping)
_BYTES = (bytes, bytearray, memoryview)

NO_SCHEMA = (
    "use str, int, float, bool, list, dict, tuple, Literal, an Enum, datetime, date, UUID, Decimal, Path, a union of "
    "these, a dataclass, a TypedDict, a msgspec struct or a pydantic model"
)


class JsonType:
    def __init__(self, hint: Any, name: str = "the type") -> None:
        """Raises `UsageError` if JSON cannot hold such values; it begins with `name`."""
        definitions = Definitions()
        self._node = TypeReader(definitions).read_whole(hint, name)
        self.schema: dict[str, Any] = definitions.add_to(self._node.schema)

    def decode(self, value: object) -> Any:
        """Make the Python value of a JSON value. Raises `InvalidValueError`."""
        try:
            return self._node.decode(value, "$")
        except RecursionError:
            raise InvalidValueError(["The value is nested too deeply"]) from None
        except UnicodeEncodeError:
            raise InvalidValueError(["The value contains half a character (a lone surrogate)"]) from None


class Definitions:
    """The types that contain themselves, for `$defs`."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}

    def reserve(self, name: str) -> str:
        number, free = 1, name
        while free in self._schemas:
            number += 1
            free = f"{name}_{number}"
        self._schemas[free] = {}
        return free

    def add(self, name: str, schema: dict[str, Any]) -> None:
        self._schemas[name] = schema

    def include(self, other: Definitions) -> None:
        self._schemas |= other._schemas

    def add_to(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The whole schema. At its top there is no reference: servers want an object there."""
        if not self._schemas:
            return schema
        target = schema.get("$ref", "").removeprefix("#/$defs/")
        whole = {**self._schemas[target], **schema} if target else dict(schema)
        whole.pop("$ref", None)
        return {**whole, "$defs": self._schemas}


# --- reading a type -------------------------------------------------------------------------------------------------


class TypeReader:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._open: dict[Any, ReferenceNode] = {}  # types that are being read

    def read_whole(self, hint: Any, where: str) -> TypeNode:
        """Read a type, and make sure that msgspec accepts its part."""
        node = self.read(hint, where)
        if node.native is not CUSTOM and (why := why_unsupported(node.native)):
            raise UsageError(f"{where} cannot be read from JSON: {why}")
        return node

    def read(self, hint: Any, where: str) -> TypeNode:  # one line for each kind of type
        if is_hashable(hint) and hint in _PLAIN:
            return NativeNode(dict(_PLAIN[hint]), hint)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(hint, args, where)
        if origin is Literal and all(type(value) in _PLAIN for value in args):
            return choice_node(hint, [(value, value) for value in args])
        if origin is tuple and args[1:] != (...,):
            return self._tuple(hint, args, where)
        if origin in _ARRAYS:
            return self._array(origin, args, where)
        if origin in _TABLES:
            return self._table(origin, args, where)
        if origin in (Union, types.UnionType):
            return self._union(args, where)
        if isinstance(hint, NewType):
            return self.read(hint.__supertype__, where)
        if type(hint).__name__ == "TypeAliasType":
            return self.read(hint.__value__, where)
        return self._class(hint, where)

    def _annotated(self, hint: Any, args: tuple[Any, ...], where: str) -> TypeNode:
        constraints = Constraints(args[1:], where)
        if constraints.is_for_pydantic:
            return self._pydantic(hint, where)
        inner = self.read(args[0], where)
        schema = constraints.add_to_schema(inner.schema)
        if constraints.is_empty:
            return inner.described(schema)
        if inner.native is not CUSTOM:
            meta = constraints.make_meta()
            notes = (meta,) if constraints.is_foreign else args[1:]
            native = make_generic(Annotated, inner.native, *notes)
            if meta is not None and not why_unsupported(native):
                return NativeNode(schema, native, is_rewritten=inner.is_rewritten or constraints.is_foreign)
        return CheckedNode(inner, constraints)

    def _tuple(self, hint: Any, args: tuple[Any, ...], where: str) -> TypeNode:
        if not args:
            raise no_schema(hint, where)
        items = [self.read(arg, where) for arg in args]
        schema = tuple_schema([item.schema for item in items])
        if all(item.native is not CUSTOM for item in items):
            rewritten = any(item.is_rewritten for item in items)
            return NativeNode(schema, make_generic(tuple, *[item.native for item in items]), is_rewritten=rewritten)
        return TupleNode(schema, items)

    def _array(self, origin: Any, args: tuple[Any, ...], where: str) -> TypeNode:
        item = self.read(args[0], where)
        schema = {"type": "array", "items": item.schema}
        if item.native is not CUSTOM:
            native = make_generic(origin, item.native, *((...,) if origin is tuple else ()))
            return NativeNode(schema, native, is_rewritten=item.is_rewritten)
        return ArrayNode(schema, item, _ARRAYS[origin])

    def _table(self, origin: Any, args: tuple[Any, ...], where: str) -> TypeNode:
        item = self.read(args[1], where)
        if self.read(args[0], where).native is CUSTOM:
            raise UsageError(f"{where} has keys of type {args[0]!r}, which cannot be read from JSON: use str")
        schema = {"type": "object", "additionalProperties": item.schema}
        if item.native is not CUSTOM:
            return NativeNode(schema, make_generic(origin, args[0], item.native), is_rewritten=item.is_rewritten)
        if why := why_unsupported(make_generic(dict, args[0], Any)):
            raise UsageError(f"{where} cannot be read from JSON: {why}")
        return TableNode(schema, args[0], item)

    def _union(self, args: tuple[Any, ...], where: str) -> TypeNode:
        choices = [self.read(arg, where) for arg in args]
        schema = {"anyOf": [node.schema for node in choices]}
        natives = [node for node in choices if node.native is not CUSTOM]
        whole = Union[tuple([node.native for node in natives])] if natives else None  # noqa: UP007  # of a tuple
        if whole is not None and not why_unsupported(whole):
            merged = NativeNode(schema, whole, is_rewritten=any(node.is_rewritten for node in natives))
            if len(natives) == len(choices):
                return merged
            merged.schema = {"anyOf": [node.schema for node in natives]}
            choices = [merged if node is natives[0] else node for node in choices if node not in natives[1:]]
        return UnionNode(schema, choices)

    # --- classes ---

    def _class(self, hint: Any, where: str) -> TypeNode:
        kind: type[Any] = hint if isinstance(hint, type) else type(None)
        if issubclass(kind, DecodedField):
            self._definitions.include(kind.definitions)
            return kind.node
        if issubclass(kind, _BYTES):
            raise UsageError(f"{where} is of type {kind.__name__}, which JSON cannot hold: take a str, such as base64")
        if is_pydantic(hint):
            return self._pydantic(hint, where)
        if (form := _FORMATS.get((kind.__module__, kind.__name__))) is not None:
            return NativeNode({"type": "string", "format": form}, hint)
        if issubclass(kind, Enum) and all(type(one.value) in _PLAIN for one in kind):
            return choice_node(hint, [(one.value, one) for one in kind])
        if "pathlib" in sys.modules and issubclass(kind, sys.modules["pathlib"].PurePath):
            return PathNode(kind)
        if (members := list_members(hint, where)) is not None:
            return self._object(hint, members)
        raise no_schema(hint, where)

    def _pydantic(self, hint: Any, where: str) -> TypeNode:
        from mainspring.tools.pydantic_type import PydanticNode

        return PydanticNode(hint, where, self._definitions)

    def _object(self, kind: Any, members: list[TypeMember]) -> TypeNode:
        if (known := self._open.get(kind)) is not None:
            if not known.name:
                known.refer(self._definitions.reserve(kind.__name__))
            return known
        reference = self._open[kind] = ReferenceNode()
        try:
            nodes = [(one, self.read(one.hint, f"'{one.name}'")) for one in members]
        finally:
            del self._open[kind]
        schema = object_schema(kind, nodes)
        native = all(node.native is not CUSTOM and not node.is_rewritten for _, node in nodes)
        made: TypeNode = NativeNode(schema, kind) if native else ObjectNode(schema, kind, nodes)
        if not reference.name:
            return made
        self._definitions.add(reference.name, schema)
        reference.target = made
        return reference


def no_schema(hint: Any, where: str) -> UsageError:
    return UsageError(f"{where} is of type {hint!r}, which has no JSON Schema: {NO_SCHEMA}")


def why_unsupported(native: Any) -> str:
    """Why msgspec cannot decode a type; empty if it can."""
    try:
        msgspec.convert(None, native)
    except msgspec.ValidationError:
        pass  # supported, and None is not a value of it
    except (TypeError, RecursionError) as error:
        return str(error)
    return ""


def is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


def is_pydantic(hint: Any) -> bool:
    if "pydantic" not in sys.modules:
        return False
    from mainspring.tools.pydantic_type import is_pydantic_type

    return is_pydantic_type(hint)


def choice_node(hint: Any, values: list[tuple[Any, Any]]) -> TypeNode:
    schema = choice_schema([said for said, _ in values])
    return ChoiceNode(schema, values) if why_unsupported(hint) else NativeNode(schema, hint)


def choice_schema(values: list[Any]) -> dict[str, Any]:
    kinds = {_PLAIN[type(value)]["type"] for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}


def tuple_schema(items: list[dict[str, Any]]) -> dict[str, Any]:
    """With `items` for servers that do not know `prefixItems`."""
    different = [one for number, one in enumerate(items) if one not in items[:number]]
    size = {"minItems": len(items), "maxItems": len(items)}
    if len(different) == 1:
        return {"type": "array", "items": items[0], **size}
    return {"type": "array", "prefixItems": items, "items": {"anyOf": different}, **size}


def object_schema(kind: Any, nodes: list[tuple[TypeMember, TypeNode]]) -> dict[str, Any]:
    """Fields without a default are required. It does not forbid unknown fields: the model gets an error if it sends
    one, and saying so in every schema would cost 200 tokens in each request."""
    tag = tag_schema(kind)
    return {
        "type": "object",
        "properties": {
            **tag,
            **{one.key: node.schema if one.required else drop_null(node.schema) for one, node in nodes},
        },
        "required": [*tag, *[one.key for one, _ in nodes if one.required]],
    }


def drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """`None` is for the author of the function, if the model can leave the field out instead."""
    if "anyOf" not in schema:
        return schema
    others = [one for one in schema["anyOf"] if one != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


def tag_schema(kind: Any) -> dict[str, Any]:
    """The tag that distinguishes the structs of a union."""
    config = getattr(kind, "__struct_config__", None)
    return {} if config is None or config.tag is None else {str(config.tag_field): choice_schema([config.tag])}


# --- members of a class ---------------------------------------------------------------------------------------------


def list_members(hint: Any, where: str) -> list[TypeMember] | None:
    """None: it is not a class with members."""
    kind: type[Any] = hint if isinstance(hint, type) else type(None)
    try:
        if issubclass(kind, Struct):
            return None if kind.__struct_config__.array_like else members_of_struct(kind)
        if hasattr(kind, "__dataclass_fields__"):
            return members_of_dataclass(kind)
        return members_of_typed_dict(hint) if is_typeddict(hint) else None
    except NameError as error:
        raise UsageError(f"{where} is of type {hint!r}, whose hints cannot be read: {error}") from None


def members_of_struct(kind: type[Struct]) -> list[TypeMember]:
    hints = hints_of_struct(kind)
    names = kind.__struct_fields__
    required = len(names) - len(kind.__struct_defaults__)
    defaults = (NODEFAULT,) * required + kind.__struct_defaults__
    return [
        TypeMember(name, key, hints[name], default is NODEFAULT)
        for name, key, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True)
    ]


def hints_of_struct(kind: type[Struct]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= get_annotations(base)
    if any(isinstance(hint, str) for hint in found.values()):  # written under `from __future__ import annotations`
        return get_type_hints(kind, include_extras=True)
    return found


def members_of_dataclass(kind: Any) -> list[TypeMember]:
    from dataclasses import MISSING, fields  # already loaded by the code that defines a dataclass

    hints = get_type_hints(kind, include_extras=True)
    return [
        TypeMember(one.name, one.name, hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
        if one.init
    ]


def members_of_typed_dict(kind: Any) -> list[TypeMember]:
    """Python does not see `NotRequired` where hints are strings, so the hint itself decides."""
    found: list[TypeMember] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        said = get_origin(hint)
        required = said is Required or (said is not NotRequired and name in kind.__required_keys__)
        found.append(TypeMember(name, name, get_args(hint)[0] if said in (Required, NotRequired) else hint, required))
    return found


# --- to JSON --------------------------------------------------------------------------------------------------------


def encode_json(value: object) -> bytes:
    """Encode what a tool returns: JSON values and all types above. Raises `TypeError` or `ValueError`."""
    return msgspec.json.encode(value, enc_hook=encode_other)


def encode_other(value: Any) -> Any:
    if "pathlib" in sys.modules and isinstance(value, sys.modules["pathlib"].PurePath):
        return str(value)
    if "pydantic" in sys.modules and isinstance(value, sys.modules["pydantic"].BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


# --- a part of a struct that msgspec does not decode ------------------------------------------------------------------


class _AnyInstance(type):
    """msgspec checks what its hook returns against the type of the field."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class DecodedField(metaclass=_AnyInstance):
    """The type of a struct's field that a node decodes: `base.py` calls it."""

    node: TypeNode
    path: str
    definitions: Definitions


def make_field_type(hint: Any, name: str, definitions: Definitions) -> Any:
    """The type for a field of a struct: the hint itself if msgspec can decode it."""
    node = TypeReader(definitions).read_whole(hint, f"'{name}'")
    if node.native is not CUSTOM and not node.is_rewritten:
        return hint
    return type(name, (DecodedField,), {"node": node, "path": f"$.{name}", "definitions": definitions})
