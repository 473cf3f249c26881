"""JSON Schema, as much of it as callers use: what does not fit, in words for a model, each with its place.

What is known of it are the rows of `KEYWORDS` in `json_keywords.py`. A schema is looked through once, when it is given:
a row that it does not keep, or a `$ref` that leads nowhere, is the programmer's mistake and named with its place.
Keywords without a row are ignored, as the standard has it; among them are `format`, `if`, `contains` and
`unevaluatedProperties`. `$ref` leads to places in the same schema only.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from mainspring.core.errors import UsageError
from mainspring.tools.json_keywords import KEYWORDS, KeywordLocation, list_refs, patterns_in, schemas_in
from mainspring.tools.json_values import is_object, object_items, shorten_json, unescape_pointer

MOST_DEEP = 100  # how far a schema may be nested
MOST_CHECKS = 100_000  # schemas tried on one value, half a second: alternatives within alternatives multiply
MOST_SAID = 10  # violations that are named at once


class SchemaValueTooLargeError(Exception):
    """The value is too large for this schema to be checked."""


class Schema:
    def __init__(self, schema: object) -> None:
        """Raises `UsageError` for a schema that cannot be understood."""
        self.root: Any = _as_json(schema)
        self._patterns: dict[str, Any] = {}
        self._all: list[Any] = []  # itself and those in it, each once
        self._seen: set[int] = set()
        self._open = [("#", self.root)]  # the whole, and where references lead
        while self._open:
            path, found = self._open.pop()
            self._understand(found, path, 0)
        self._refuse_loops()

    def violations(self, value: object) -> list[str]:
        """None: the value fits. Not more than `MOST_SAID`."""
        return list(islice(SchemaCheck(self).errors(self.root, value, "$"), MOST_SAID))

    # --- when it is given ---

    def _understand(self, schema: Any, path: str, depth: int) -> None:
        if isinstance(schema, bool) or id(schema) in self._seen:
            return
        if not is_object(schema):
            raise UsageError(f"the schema cannot be understood: '{path}' must be an object, or true or false")
        if depth > MOST_DEEP:
            raise UsageError(f"the schema cannot be understood: '{path}' is nested too deeply")
        self._seen.add(id(schema))  # the root is kept, so no other will have this id
        self._all.append(schema)
        for key, given in object_items(schema):
            self._understand_keyword(key, given, f"{path}/{key}", depth)

    def _understand_keyword(self, key: str, given: Any, path: str, depth: int) -> None:
        keyword = KEYWORDS.get(key)
        if keyword is None:
            return
        if not keyword.fits(given):
            raise UsageError(
                f"the schema cannot be understood: '{path}' must be {keyword.must}, not {shorten_json(given)}"
            )
        for pattern in patterns_in(key, given):
            self._compile(pattern, path)
        if key == "$ref":
            self._open.append((given, self.at(given, path)))
        for place, inner in schemas_in(key, given):
            self._understand(inner, f"{path}{place}", depth + 1)

    def _compile(self, pattern: str, path: str) -> None:
        import re

        try:
            self._patterns[pattern] = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"the schema cannot be understood: '{path}' is no regular expression: {error}") from None

    def at(self, ref: str, path: str = "") -> Any:
        """Where a `$ref` leads."""
        found: Any = self.root
        for part in ref.removeprefix("#").split("/")[1:]:
            key = unescape_pointer(part)
            if not is_object(found) or key not in found:
                raise UsageError(f"the schema cannot be understood: '{path}' leads to '{ref}', which is not in it")
            found = found[key]
        return found

    def _refuse_loops(self) -> None:
        """A schema may contain itself, for a value within the value; not for the same value again."""
        fine: set[str] = set()

        def follow(schema: Any, trail: tuple[str, ...]) -> None:
            for ref in list_refs(schema):
                if ref in trail or len(trail) > MOST_DEEP:
                    raise UsageError(f"the schema cannot be understood: '{ref}' leads back to itself, or to no end")
                if ref not in fine:
                    follow(self.at(ref), (*trail, ref))
                    fine.add(ref)

        for schema in self._all:
            follow(schema, ())

    def matches(self, pattern: str, text: str) -> bool:
        return self._patterns[pattern].search(text) is not None


class SchemaCheck:
    """One value on its way through a schema."""

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
            yield f"`{path}` must not be there"
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
    """A copy of our own, of nothing but JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"the schema cannot be understood: it is no JSON: {error}") from None
