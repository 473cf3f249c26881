"""JSON Schema, the part that callers use: check a value, and report each violation with its path in words for a model.

`KEYWORDS` lists the supported keywords, one row each: the valid values of the keyword, and its check. `Schema` checks a
schema once, when it is given: an invalid keyword, or a `$ref` without a target, is the programmer's mistake and is
reported with its path. Other keywords are ignored, as the standard requires; among them are `format`, `if`, `contains`
and `unevaluatedProperties`. `$ref` can only refer to the same schema.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle

LONGEST = 200  # characters of a value in a message


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """1.0 is an integer, too: JSON has one number type."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_whole,
    "number": is_number,
    "string": is_text,
    "array": is_list,
    "object": is_object,
}


def kind_of(value: Any) -> str:
    return next((name for name, holds in TYPES.items() if holds(value)), type(value).__name__)


def key_of(value: Any) -> object:
    """A key that is equal for values that JSON calls equal: 1 is 1.0, and neither is true."""
    if isinstance(value, dict):
        return "object", frozenset([(key, key_of(inner)) for key, inner in object_items(value)])
    if isinstance(value, list):
        return "array", tuple([key_of(inner) for inner in array_elements(value)])
    return ("boolean" if isinstance(value, bool) else "plain"), value


# Type checkers know nothing of the content of a dict that was `Any`.
def object_items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items())


def array_elements(value: Any) -> list[Any]:
    return list(value)


def shorten_json(value: object) -> str:
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def unescape_pointer(part: str) -> str:
    """Decode one part of a JSON pointer in a URI."""
    if "%" in part:
        from urllib.parse import unquote

        part = unquote(part)
    return part.replace("~1", "/").replace("~0", "~")


def join_value_path(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{shorten_json(name)}]"


class SchemaChecker(Protocol):
    """What a keyword check can call: the walk of a value through a schema."""

    def errors(self, schema: Any, value: Any, path: str) -> Iterator[str]: ...

    def fits(self, schema: Any, value: Any, path: str) -> bool: ...

    def matches(self, pattern: str, text: str) -> bool: ...

    def at(self, ref: str) -> Any:
        """The schema that a `$ref` refers to."""
        ...


class KeywordLocation(Bundle):
    """A keyword and where it occurs."""

    checking: SchemaChecker
    schema: Any  # the schema that contains it
    given: Any  # its value
    path: str  # in the value

    def inner(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        return self.checking.errors(schema, value, path)


Check = Callable[[KeywordLocation, Any], Iterator[str]]


class SchemaKeyword(Bundle):
    fits: Callable[[Any], bool]  # whether a schema may have this value
    must: str  # the same as text
    check: Check | None = None


# --- schemas within schemas ---------------------------------------------------------------------------------------

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset({"items", "additionalProperties", "not"})
SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not"})  # they apply to the value itself, not to one within it


def schemas_in(key: str, given: Any) -> list[tuple[str, Any]]:
    if key in MAPS:
        return [(f"/{name}", schema) for name, schema in object_items(given)]
    if key in LISTS:
        return [(f"/{number}", schema) for number, schema in enumerate(array_elements(given))]
    return [("", given)] if key in SINGLE else []


def list_refs(schema: Any) -> list[str]:
    """The references of a schema, and of its subschemas that apply to the same value."""
    if not is_object(schema):
        return []
    found: list[str] = [schema["$ref"]] if "$ref" in schema else []
    for key in SAME_VALUE & schema.keys():
        for _, inner in schemas_in(key, schema[key]):
            found += list_refs(inner)
    return found


def patterns_in(key: str, given: Any) -> list[str]:
    if key == "pattern":
        return [given]
    return [name for name, _ in object_items(given)] if key == "patternProperties" else []


# --- checks -------------------------------------------------------------------------------------------------------


def check_type(at: KeywordLocation, value: Any) -> Iterator[str]:
    names: list[str] = [at.given] if isinstance(at.given, str) else at.given
    if not any(TYPES[name](value) for name in names):
        yield f"`{at.path}` must be of type {' or '.join(names)}, not {kind_of(value)}"


def check_enum(at: KeywordLocation, value: Any) -> Iterator[str]:
    if key_of(value) not in [key_of(one) for one in at.given]:
        yield f"`{at.path}` must be one of {shorten_json(at.given)[1:-1]}, not {shorten_json(value)}"


def check_const(at: KeywordLocation, value: Any) -> Iterator[str]:
    if key_of(value) != key_of(at.given):
        yield f"`{at.path}` must be {shorten_json(at.given)}, not {shorten_json(value)}"


def check_required(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_object(value):
        yield from [f"`{join_value_path(at.path, name)}` is missing" for name in at.given if name not in value]


def check_properties(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_object(value):
        for name, schema in at.given.items():
            if name in value:
                yield from at.inner(schema, value[name], join_value_path(at.path, name))


def check_pattern_properties(at: KeywordLocation, value: Any) -> Iterator[str]:
    if not is_object(value):
        return
    for pattern, schema in at.given.items():
        for name, inner in value.items():
            if at.checking.matches(pattern, name):
                yield from at.inner(schema, inner, join_value_path(at.path, name))


def check_additional(at: KeywordLocation, value: Any) -> Iterator[str]:
    if not is_object(value):
        return
    known, patterns = at.schema.get("properties", {}), at.schema.get("patternProperties", {})
    for name, inner in value.items():
        if name in known or any(at.checking.matches(pattern, name) for pattern in patterns):
            continue
        if at.given is False:
            yield f"`{join_value_path(at.path, name)}` is unknown: leave it out"
        else:
            yield from at.inner(at.given, inner, join_value_path(at.path, name))


def check_items(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_list(value):
        first = len(at.schema.get("prefixItems", ()))
        for number, inner in enumerate(value[first:], first):
            yield from at.inner(at.given, inner, f"{at.path}[{number}]")


def check_prefix(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_list(value):
        for number, (schema, inner) in enumerate(zip(at.given, value, strict=False)):
            yield from at.inner(schema, inner, f"{at.path}[{number}]")


def check_unique(at: KeywordLocation, value: Any) -> Iterator[str]:
    if at.given and is_list(value) and len({key_of(inner) for inner in value}) < len(value):
        yield f"`{at.path}` contains duplicates"


def check_pattern(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_text(value) and not at.checking.matches(at.given, value):
        yield f"`{at.path}` must match the pattern {shorten_json(at.given)}"


def check_multiple(at: KeywordLocation, value: Any) -> Iterator[str]:
    if is_number(value) and not is_multiple(value, at.given):
        yield f"`{at.path}` must be a multiple of {at.given}"


def is_multiple(value: Any, of: Any) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        times = value / of
        return bool(abs(times - round(times)) <= 1e-9 * max(1.0, abs(times)))  # 0.3 is three times 0.1
    except OverflowError:
        return False


def check_all(at: KeywordLocation, value: Any) -> Iterator[str]:
    for schema in at.given:
        yield from at.inner(schema, value, at.path)


def check_any(at: KeywordLocation, value: Any) -> Iterator[str]:
    found: list[str] = []
    for schema in at.given:
        wrong = next(at.inner(schema, value, at.path), None)
        if wrong is None:
            return
        found.append(wrong)
    yield f"`{at.path}` fits none of {len(found)} alternatives ({'; or '.join(found[:4])})"


def check_one(at: KeywordLocation, value: Any) -> Iterator[str]:
    fitting = [number for number, schema in enumerate(at.given, 1) if at.checking.fits(schema, value, at.path)]
    if not fitting:
        yield from check_any(at, value)
    elif len(fitting) > 1:
        yield f"`{at.path}` must fit one alternative of {len(at.given)}, and fits {' and '.join(map(str, fitting))}"


def check_not(at: KeywordLocation, value: Any) -> Iterator[str]:
    if at.checking.fits(at.given, value, at.path):
        yield f"`{at.path}` must not fit {shorten_json(at.given)}"


def check_ref(at: KeywordLocation, value: Any) -> Iterator[str]:
    yield from at.inner(at.checking.at(at.given), value, at.path)


def make_limit_check(applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool], words: str) -> Check:
    def check(at: KeywordLocation, value: Any) -> Iterator[str]:
        if applies(value) and not holds(value, at.given):
            yield f"`{at.path}` must {words.format(at.given)}"

    return check


# --- the rows -----------------------------------------------------------------------------------------------------


def _is_types(given: Any) -> bool:
    names = [given] if isinstance(given, str) else given
    return is_list(names) and bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_names(given: Any) -> bool:
    return is_list(given) and all(isinstance(name, str) for name in given)


def _is_schema(given: Any) -> bool:
    return isinstance(given, dict | bool)


def _is_schemas(given: Any) -> bool:
    return is_list(given) and bool(given) and all(_is_schema(one) for one in given)


def _is_map(given: Any) -> bool:
    return is_object(given) and all(_is_schema(one) for one in given.values())


def _is_count(given: Any) -> bool:
    return is_whole(given) and given >= 0


def _is_local(given: Any) -> bool:
    return given == "#" or (is_text(given) and given.startswith("#/"))


A_MAP, A_LIST, A_SCHEMA = "an object of schemas", "a list of schemas, not empty", "a schema"
A_COUNT, A_NUMBER = "a whole number from 0 on", "a number"

KEYWORDS: dict[str, SchemaKeyword] = {
    "type": SchemaKeyword(_is_types, f"one of {', '.join(TYPES)} or a list of them", check_type),
    "enum": SchemaKeyword(is_list, "a list of values", check_enum),
    "const": SchemaKeyword(lambda _: True, "a value", check_const),
    "required": SchemaKeyword(_is_names, "a list of names", check_required),
    "properties": SchemaKeyword(_is_map, A_MAP, check_properties),
    "patternProperties": SchemaKeyword(_is_map, A_MAP, check_pattern_properties),
    "additionalProperties": SchemaKeyword(_is_schema, A_SCHEMA, check_additional),
    "items": SchemaKeyword(_is_schema, "a schema (use 'prefixItems' for a list of them)", check_items),
    "prefixItems": SchemaKeyword(_is_schemas, A_LIST, check_prefix),
    "uniqueItems": SchemaKeyword(lambda given: isinstance(given, bool), "true or false", check_unique),
    "pattern": SchemaKeyword(is_text, "a regular expression", check_pattern),
    "allOf": SchemaKeyword(_is_schemas, A_LIST, check_all),
    "anyOf": SchemaKeyword(_is_schemas, A_LIST, check_any),
    "oneOf": SchemaKeyword(_is_schemas, A_LIST, check_one),
    "not": SchemaKeyword(_is_schema, A_SCHEMA, check_not),
    "$ref": SchemaKeyword(_is_local, "a place in the same schema, as '#/$defs/Name'", check_ref),
    "$defs": SchemaKeyword(_is_map, A_MAP),
    "definitions": SchemaKeyword(_is_map, A_MAP),
    "multipleOf": SchemaKeyword(lambda given: is_number(given) and given > 0, "a number above 0", check_multiple),
    "minimum": SchemaKeyword(is_number, A_NUMBER, make_limit_check(is_number, lambda v, n: v >= n, "be at least {}")),
    "maximum": SchemaKeyword(is_number, A_NUMBER, make_limit_check(is_number, lambda v, n: v <= n, "be at most {}")),
    "exclusiveMinimum": SchemaKeyword(
        is_number, A_NUMBER, make_limit_check(is_number, lambda v, n: v > n, "be more than {}")
    ),
    "exclusiveMaximum": SchemaKeyword(
        is_number, A_NUMBER, make_limit_check(is_number, lambda v, n: v < n, "be less than {}")
    ),
    "minLength": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_text, lambda v, n: len(v) >= n, "have a length of at least {}")
    ),
    "maxLength": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_text, lambda v, n: len(v) <= n, "have a length of at most {}")
    ),
    "minItems": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_list, lambda v, n: len(v) >= n, "have at least {} elements")
    ),
    "maxItems": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_list, lambda v, n: len(v) <= n, "have at most {} elements")
    ),
    "minProperties": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_object, lambda v, n: len(v) >= n, "have at least {} fields")
    ),
    "maxProperties": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_object, lambda v, n: len(v) <= n, "have at most {} fields")
    ),
}


MOST_DEEP = 100  # how far a schema may be nested
MOST_CHECKS = 100_000  # schemas tried on one value, half a second: nested alternatives multiply
MOST_SAID = 10  # violations reported at once


class SchemaValueTooLargeError(Exception):
    """The value is too large for this schema to be checked."""


class Schema:
    def __init__(self, schema: object) -> None:
        """Raises `UsageError` for an invalid schema."""
        self.root: Any = _as_json(schema)
        self._patterns: dict[str, Any] = {}
        self._all: list[Any] = []  # the schema and its subschemas, each once
        self._seen: set[int] = set()
        self._open = [("#", self.root)]  # the root, and the targets of references
        while self._open:
            path, found = self._open.pop()
            self._understand(found, path, 0)
        self._refuse_loops()

    def violations(self, value: object) -> list[str]:
        """Empty: the value fits. At most `MOST_SAID`."""
        return list(islice(SchemaCheck(self).errors(self.root, value, "$"), MOST_SAID))

    # --- when it is given ---

    def _understand(self, schema: Any, path: str, depth: int) -> None:
        if isinstance(schema, bool) or id(schema) in self._seen:
            return
        if not is_object(schema):
            raise UsageError(f"invalid schema: '{path}' must be an object, or true or false")
        if depth > MOST_DEEP:
            raise UsageError(f"invalid schema: '{path}' is nested too deeply")
        self._seen.add(id(schema))  # the root is kept alive, so no other object gets this id
        self._all.append(schema)
        for key, given in object_items(schema):
            self._understand_keyword(key, given, f"{path}/{key}", depth)

    def _understand_keyword(self, key: str, given: Any, path: str, depth: int) -> None:
        keyword = KEYWORDS.get(key)
        if keyword is None:
            return
        if not keyword.fits(given):
            raise UsageError(f"invalid schema: '{path}' must be {keyword.must}, not {shorten_json(given)}")
        for pattern in patterns_in(key, given):
            self._compile(pattern, path)
        if key == "$ref":
            self._open.append((given, self.at(given, path)))
        for place, inner in schemas_in(key, given):
            self._understand(inner, f"{path}{place}", depth + 1)

    def _compile(self, pattern: str, path: str) -> None:
        try:
            self._patterns[pattern] = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"invalid schema: '{path}' is not a regular expression: {error}") from None

    def at(self, ref: str, path: str = "") -> Any:
        """The schema that a `$ref` refers to."""
        found: Any = self.root
        for part in ref.removeprefix("#").split("/")[1:]:
            key = unescape_pointer(part)
            if not is_object(found) or key not in found:
                raise UsageError(f"invalid schema: '{path}' refers to '{ref}', which is not in it")
            found = found[key]
        return found

    def _refuse_loops(self) -> None:
        """A schema may contain itself for a nested value, but not for the same value again."""
        fine: set[str] = set()

        def follow(schema: Any, trail: tuple[str, ...]) -> None:
            for ref in list_refs(schema):
                if ref in trail or len(trail) > MOST_DEEP:
                    raise UsageError(f"invalid schema: '{ref}' refers to itself without end")
                if ref not in fine:
                    follow(self.at(ref), (*trail, ref))
                    fine.add(ref)

        for schema in self._all:
            follow(schema, ())

    def matches(self, pattern: str, text: str) -> bool:
        return self._patterns[pattern].search(text) is not None


class SchemaCheck:
    """The check of one value against a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._left = MOST_CHECKS

    def errors(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        self._left -= 1
        if self._left < 0:
            raise SchemaValueTooLargeError
        if schema is True:
            return
        if schema is False:
            yield f"`{path}` must be absent"
            return
        for key in schema:
            keyword = KEYWORDS.get(key)
            if keyword is not None and keyword.check is not None:
                yield from keyword.check(KeywordLocation(self, schema, schema[key], path), value)

    def fits(self, schema: Any, value: Any, path: str) -> bool:
        return next(self.errors(schema, value, path), None) is None

    def matches(self, pattern: str, text: str) -> bool:
        return self.schema.matches(pattern, text)

    def at(self, ref: str) -> Any:
        return self.schema.at(ref)


def _as_json(schema: object) -> Any:
    """A copy of our own, of plain JSON values."""
    try:
        return msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"invalid schema: it is not JSON: {error}") from None
