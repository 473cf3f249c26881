"""The nodes of a type's tree: each has the JSON Schema of its part, and decodes a value to it (`json_type.py`).

Errors use msgspec's words, whether msgspec found them or we did, and name the place as the model wrote it:
"Expected `int`, got `str` - at `$.city.zip`".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from mainspring.core.errors import InvalidValueError
from mainspring.tools.constraints import Constraints
from mainspring.tools.json_schema import array_elements, is_list, is_number, is_object, kind_of, object_items

WORDS: dict[Any, str] = {dict: "object", list: "array", type(None): "null"}  # msgspec's, in errors

CUSTOM: Any = object()


class TypeNode:
    """A type: its schema, and its decoder."""

    native: Any = CUSTOM  # the type for which msgspec decodes the same
    is_rewritten = False  # `native` is not what the program wrote

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def decode(self, value: object, path: str) -> Any:
        """Make the Python value of a JSON value. Raises `InvalidValueError`."""
        raise NotImplementedError

    def described(self, schema: dict[str, Any]) -> TypeNode:
        """The same type with another schema."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.schema = schema
        return made


class NativeNode(TypeNode):
    def __init__(self, schema: dict[str, Any], native: Any, *, is_rewritten: bool = False) -> None:
        super().__init__(schema)
        self.native, self.is_rewritten = native, is_rewritten

    def decode(self, value: object, path: str) -> Any:
        try:
            return msgspec.convert(value, self.native, str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidValueError([move_error(str(error), path)]) from None


def move_error(said: str, path: str) -> str:
    """An error of msgspec about the value at `path`, with the whole path."""
    words, found, inner = said.partition(" - at ")
    if found:
        return f"{words} - at {inner.replace('$', path, 1)}"
    return words if path == "$" else f"{words} - at `{path}`"


class ArrayNode(TypeNode):
    def __init__(self, schema: dict[str, Any], item: TypeNode, make: Callable[[list[Any]], Any]) -> None:
        super().__init__(schema)
        self._item, self._make = item, make

    def decode(self, value: object, path: str) -> Any:
        parts = as_list(value, path)
        found, problems = decode_all([(self._item, part, f"{path}[{n}]") for n, part in enumerate(parts)])
        return construct(lambda: self._make(found), problems, path)


class TupleNode(TypeNode):
    def __init__(self, schema: dict[str, Any], items: list[TypeNode]) -> None:
        super().__init__(schema)
        self._items = items

    def decode(self, value: object, path: str) -> Any:
        parts = as_list(value, path)
        if len(parts) != len(self._items):
            raise InvalidValueError([f"Expected `array` of length {len(self._items)}, got {len(parts)} - at `{path}`"])
        rows = [(item, part, f"{path}[{n}]") for n, (item, part) in enumerate(zip(self._items, parts, strict=True))]
        found, problems = decode_all(rows)
        return construct(lambda: tuple(found), problems, path)


class TableNode(TypeNode):
    def __init__(self, schema: dict[str, Any], key: Any, item: TypeNode) -> None:
        super().__init__(schema)
        self._key, self._item = key, item

    def decode(self, value: object, path: str) -> Any:
        table = as_table(value, path)
        keys = NativeNode({}, make_generic(dict, self._key, Any)).decode(dict.fromkeys(table), path)
        found, problems = decode_all([(self._item, one, f"{path}[{key!r}]") for key, one in table.items()])
        return construct(lambda: dict(zip(keys, found, strict=True)), problems, path)


class TypeMember(NamedTuple):
    name: str
    key: str  # as the model writes it
    hint: Any
    required: bool


class ObjectNode(TypeNode):
    """A struct, dataclass or TypedDict that msgspec cannot decode, because of one of its members."""

    def __init__(self, schema: dict[str, Any], kind: Any, members: list[tuple[TypeMember, TypeNode]]) -> None:
        super().__init__(schema)
        self._kind, self._members = kind, members
        config = getattr(kind, "__struct_config__", None)
        self._tag = (config.tag_field, config.tag) if config is not None and config.tag is not None else None
        self._is_closed = config is not None and config.forbid_unknown_fields

    def decode(self, value: object, path: str) -> Any:
        table = as_table(value, path)
        rows = [(one, node) for one, node in self._members if one.key in table]
        found, problems = decode_all([(node, table[one.key], f"{path}.{one.key}") for one, node in rows])
        absent = [one.key for one, _ in self._members if one.required and one.key not in table]
        problems += [f"Object missing required field `{key}`{at(path)}" for key in absent]
        problems += self._check_tag(table, path)
        if self._is_closed:
            known = [*[one.key for one, _ in self._members], *((self._tag[0],) if self._tag else ())]
            problems += [f"Object contains unknown field `{key}`{at(path)}" for key in table if key not in known]
        named = dict(zip([one.name for one, _ in rows], found, strict=False))
        return construct(lambda: self._kind(**named), problems, path)

    def _check_tag(self, table: dict[str, Any], path: str) -> list[str]:
        if self._tag is None or table.get(self._tag[0]) == self._tag[1]:
            return []
        field = self._tag[0]
        return [
            f"Invalid value {table[field]!r} - at `{path}.{field}`"
            if field in table
            else f"Object missing required field `{field}`{at(path)}"
        ]


class UnionNode(TypeNode):
    """The first alternative that fits."""

    def __init__(self, schema: dict[str, Any], choices: list[TypeNode]) -> None:
        super().__init__(schema)
        self._choices = choices

    def decode(self, value: object, path: str) -> Any:
        found: list[tuple[TypeNode, InvalidValueError]] = []
        for node in self._choices:
            try:
                return node.decode(value, path)
            except InvalidValueError as error:
                found.append((node, error))
        meant = [error for node, error in found if has_right_type(node.schema, value)]
        if len(meant) == 1:
            raise meant[0]
        words = "; or ".join([str(error) for error in meant or [error for _, error in found]])
        raise InvalidValueError([f"`{path}` fits none of {len(found)} alternatives ({words})"])


class CheckedNode(TypeNode):
    """Limits that msgspec does not know."""

    def __init__(self, inner: TypeNode, constraints: Constraints) -> None:
        super().__init__(constraints.add_to_schema(inner.schema))
        self._inner, self._constraints = inner, constraints

    def decode(self, value: object, path: str) -> Any:
        found = self._inner.decode(value, path)
        if why := self._constraints.check(found):
            raise InvalidValueError([f"{why}{at(path)}"])
        return found


class ChoiceNode(TypeNode):
    """Values of a `Literal` or an `Enum` that msgspec cannot tell apart."""

    def __init__(self, schema: dict[str, Any], values: list[tuple[Any, Any]]) -> None:
        super().__init__(schema)
        self._values = values  # in JSON, in Python

    def decode(self, value: object, path: str) -> Any:
        for said, meant in self._values:
            if type(said) is type(value) and said == value:
                return meant
        raise InvalidValueError([f"Invalid enum value {value!r}{at(path)}"])


class PathNode(TypeNode):
    def __init__(self, kind: type[Any]) -> None:
        super().__init__({"type": "string", "format": "path"})
        self._kind = kind

    def decode(self, value: object, path: str) -> Any:
        if not isinstance(value, str):
            raise InvalidValueError([f"Expected `str`, got `{json_word(value)}`{at(path)}"])
        return self._kind(value)


class ReferenceNode(TypeNode):
    """A type inside itself."""

    def __init__(self) -> None:
        super().__init__({})
        self.name = ""  # in the definitions; empty: the type does not contain itself
        self.target: TypeNode = self  # set when the type has been read

    def refer(self, name: str) -> None:
        self.name, self.schema = name, {"$ref": f"#/$defs/{name}"}

    def decode(self, value: object, path: str) -> Any:
        return self.target.decode(value, path)


def make_generic(origin: Any, *args: Any) -> Any:
    """`origin[args]`, which type checkers take for a type of theirs."""
    return origin[args]


def at(path: str) -> str:
    return "" if path == "$" else f" - at `{path}`"


def as_list(value: object, path: str) -> list[Any]:
    if not is_list(value):
        raise InvalidValueError([f"Expected `array`, got `{json_word(value)}`{at(path)}"])
    return array_elements(value)


def as_table(value: object, path: str) -> dict[str, Any]:
    if not is_object(value):
        raise InvalidValueError([f"Expected `object`, got `{json_word(value)}`{at(path)}"])
    return dict(object_items(value))


def json_word(value: object) -> str:
    return WORDS.get(type(value), type(value).__name__)


def has_right_type(schema: dict[str, Any], value: object) -> bool:
    """Whether a schema allows the value's type of JSON, whatever else it says."""
    if (choices := schema.get("anyOf") or schema.get("oneOf")) is not None:
        return any(has_right_type(one, value) for one in choices)
    kind = "object" if "$ref" in schema else schema.get("type", kind_of(value))
    return kind_of(value) == kind or (kind == "number" and is_number(value))


def decode_all(rows: list[tuple[TypeNode, Any, str]]) -> tuple[list[Any], list[str]]:
    """The decoded values, and the problems of all that do not fit."""
    found: list[Any] = []
    problems: list[str] = []
    for node, value, path in rows:
        try:
            found.append(node.decode(value, path))
        except InvalidValueError as error:
            problems += error.problems
    return found, problems


def construct(make: Callable[[], Any], problems: list[str], path: str) -> Any:
    """A type of the program may check its own fields: what it raises is for the model."""
    if problems:
        raise InvalidValueError(problems)
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise InvalidValueError([f"{error}{at(path)}"]) from None
