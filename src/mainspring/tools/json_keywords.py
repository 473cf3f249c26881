"""The keywords of JSON Schema that are known, one row each: what its value must be, and what it asks of a value."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mainspring.core.value import Bundle
from mainspring.tools.json_values import (
    TYPES,
    array_elements,
    is_list,
    is_number,
    is_object,
    is_text,
    is_whole,
    join_value_path,
    key_of,
    kind_of,
    object_items,
    shorten_json,
)  # fmt: skip


class SchemaChecker(Protocol):
    """Whoever walks a value through a schema."""

    def errors(self, schema: Any, value: Any, path: str) -> Iterator[str]: ...

    def fits(self, schema: Any, value: Any, path: str) -> bool: ...

    def matches(self, pattern: str, text: str) -> bool: ...

    def at(self, ref: str) -> Any:
        """Where a `$ref` leads."""
        ...


class KeywordLocation(Bundle):
    """A keyword in its place."""

    checking: SchemaChecker
    schema: Any  # of which it is part
    given: Any  # its value
    path: str  # in the value

    def inner(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        return self.checking.errors(schema, value, path)


Check = Callable[[KeywordLocation, Any], Iterator[str]]


class SchemaKeyword(Bundle):
    fits: Callable[[Any], bool]  # whether a schema may say this
    must: str  # the same in words
    check: Check | None = None


# --- schemas within schemas ---------------------------------------------------------------------------------------

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset({"items", "additionalProperties", "not"})
SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not"})  # they speak of the value itself, not of one within it


def schemas_in(key: str, given: Any) -> list[tuple[str, Any]]:
    if key in MAPS:
        return [(f"/{name}", schema) for name, schema in object_items(given)]
    if key in LISTS:
        return [(f"/{number}", schema) for number, schema in enumerate(array_elements(given))]
    return [("", given)] if key in SINGLE else []


def list_refs(schema: Any) -> list[str]:
    """Of a schema, and of those in it that speak of the same value."""
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
            yield f"`{join_value_path(at.path, name)}` is not known: leave it out"
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
        yield f"`{at.path}` holds something twice"


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
        _is_count, A_COUNT, make_limit_check(is_text, lambda v, n: len(v) >= n, "have at least {} characters")
    ),
    "maxLength": SchemaKeyword(
        _is_count, A_COUNT, make_limit_check(is_text, lambda v, n: len(v) <= n, "have at most {} characters")
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
