"""The notes in `Annotated[...]`: descriptions and limits, from msgspec, `annotated_types` and pydantic.

Neither library is imported: a note of theirs exists only if the program has loaded them. A limit that we do not know is
an error, because a limit that is silently dropped is worse than none. Notes of other libraries are ignored, as Python
asks of readers of `Annotated`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

from msgspec import Meta

from mainspring.core.errors import UsageError

LOWER, UPPER = ("ge", "gt", "min_length"), ("le", "lt", "max_length")
KEYWORDS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
WORDS = {
    "ge": "at least {}",
    "le": "at most {}",
    "gt": "more than {}",
    "lt": "less than {}",
    "multiple_of": "a multiple of {}",
    "pattern": "a match of the pattern {!r}",
    "min_length": "of length {} or more",
    "max_length": "of length {} or less",
}
LIMITS = tuple(WORDS)
UNFIT = ("alias", "validation_alias", "serialization_alias")


class Constraints:
    """What the notes of one type say."""

    def __init__(self, notes: Iterable[Any], where: str) -> None:
        self.limits: dict[str, Any] = {}
        self.predicates: list[Callable[[Any], object]] = []
        self.description = ""
        self.extra: dict[str, Any] = {}  # more of the schema
        self.tz: bool | None = None
        self.is_foreign = False  # msgspec does not read all of them
        self.is_for_pydantic = False  # only pydantic can apply all of them
        self._where = where
        for note in notes:
            self._read(note)

    @property
    def is_empty(self) -> bool:
        return not self.limits and not self.predicates and self.tz is None

    # --- reading ---

    def _read(self, note: Any) -> None:
        if isinstance(note, str):
            self.description = note
        elif isinstance(note, Meta):
            self._read_meta(note)
        elif is_field_info(note):
            self._read_field(note)
        elif hasattr(note, "documentation"):  # `typing_extensions.Doc`, `annotated_types.doc`
            self.description = note.documentation
        elif is_a(note, "annotated_types", "GroupedMetadata"):  # `Interval`, `Len`
            for one in note:
                self._read(one)
        elif is_a(note, "annotated_types", "BaseMetadata"):
            self._read_limit(note)
        elif hasattr(note, "__get_pydantic_core_schema__"):
            self.is_for_pydantic = True
        elif isinstance(note, slice):  # an old form of `Len`
            raise self._unknown(note)

    def _read_meta(self, note: Meta) -> None:
        for name in LIMITS:
            if (value := getattr(note, name)) is not None:
                self._tighten(name, value)
        if note.tz is not None:
            self.tz = note.tz
        self.description = note.description or self.description
        if note.examples:
            self.extra["examples"] = list(note.examples)
        self.extra |= note.extra_json_schema or {}

    def _read_field(self, field: Any) -> None:
        self.is_foreign = True
        for name in UNFIT:
            if getattr(field, name, None) is not None:
                raise UsageError(f"{self._where} has a Field with '{name}': give it the name that the model writes")
        if getattr(field, "discriminator", None) is not None:
            self.is_for_pydantic = True
        self.description = field.description or self.description
        if field.examples:
            self.extra["examples"] = list(field.examples)
        if isinstance(field.json_schema_extra, dict):
            self.extra |= cast("dict[str, Any]", field.json_schema_extra)
        for note in field.metadata:
            self._read(note)

    def _read_limit(self, note: Any) -> None:
        self.is_foreign = True
        for name in list_attributes(note):
            value: Any = getattr(note, name)
            if name in LIMITS and value is not None:
                self._tighten(name, getattr(value, "pattern", value))  # it may be compiled
            elif name == "func" and value is not None:
                self.predicates.append(value)
            elif name == "tz" and (value is None or value is ...):
                self.tz = value is ...
            elif name == "strict" and value is not False:
                pass  # as we are
            elif value is not None and type(note).__module__.startswith("pydantic"):
                self.is_for_pydantic = True
            elif value is not None:
                raise self._unknown(note)

    def _tighten(self, name: str, value: Any) -> None:
        known = self.limits.get(name)
        if known is not None and name in LOWER + UPPER:
            value = max(known, value) if name in LOWER else min(known, value)
        self.limits[name] = value

    def _unknown(self, note: Any) -> UsageError:
        return UsageError(
            f"{self._where} has the constraint {note!r}, which is not supported: check it in the function"
        )

    # --- using ---

    def make_meta(self) -> Meta | None:
        """The limits as msgspec takes them; None if it cannot take all of them."""
        if self.predicates:
            return None
        try:
            return Meta(**self.limits, tz=self.tz)
        except (TypeError, ValueError):  # a lower limit of both kinds, a limit that is no number
            return None

    def add_to_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with the limits. JSON Schema has keywords for numbers and lengths; other limits become words of
        the description."""
        words = [f"must satisfy {getattr(one, '__name__', repr(one))}" for one in self.predicates]
        made, unsaid = add_limits(schema, self.limits)
        words += [f"must be {WORDS[name].format(self.limits[name])}" for name in unsaid]
        description = self.description or schema.get("description", "")
        if words:
            description = f"{description} ({'; '.join(words)})".lstrip()
        return {**made, **self.extra, **({"description": description} if description else {})}

    def check(self, value: Any) -> str:
        """Why a value breaks a limit; empty if it does not."""
        if value is None:
            return ""
        for name, limit in self.limits.items():
            if not holds(name, limit, value):
                return f"Expected a value {WORDS[name].format(limit)}"
        if self.tz is not None and hasattr(value, "tzinfo") and (value.tzinfo is not None) != self.tz:
            return f"Expected a time {'with' if self.tz else 'without'} a time zone"
        for one in self.predicates:
            if not one(value):
                return f"Expected a value that satisfies {getattr(one, '__name__', repr(one))}"
        return ""


def add_limits(schema: dict[str, Any], limits: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The schema with the keywords of the limits, and the limits that have none here."""
    if "anyOf" in schema:
        none: list[str] = []
        parts = [add_limits(one, limits) if one.get("type") != "null" else (one, none) for one in schema["anyOf"]]
        told = {name for _, unsaid in parts for name in unsaid}
        return {**schema, "anyOf": [one for one, _ in parts]}, [name for name in limits if name in told]
    made = dict(schema)
    unsaid: list[str] = []
    for name, value in limits.items():
        if (keyword := find_keyword(name, schema.get("type"), value)) is not None:
            made[keyword] = value
        else:
            unsaid.append(name)
    return made, unsaid


def find_keyword(name: str, kind: object, limit: object) -> str | None:
    if name in ("min_length", "max_length"):
        nouns = {"string": "Length", "array": "Items", "object": "Properties"}
        return f"{name[:3]}{nouns[kind]}" if isinstance(kind, str) and kind in nouns else None
    if name == "pattern":
        return "pattern" if kind == "string" else None
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    return KEYWORDS[name] if number and kind in ("integer", "number") else None


def holds(name: str, limit: Any, value: Any) -> bool:
    """Whether a limit holds; also if it is about other types than the value's, as in a union."""
    try:
        match name:
            case "ge":
                return bool(value >= limit)
            case "gt":
                return bool(value > limit)
            case "le":
                return bool(value <= limit)
            case "lt":
                return bool(value < limit)
            case "multiple_of":
                return bool(value % limit == 0)
            case "min_length":
                return bool(len(value) >= limit)
            case "max_length":
                return bool(len(value) <= limit)
            case _:
                return not isinstance(value, str) or re.search(limit, value) is not None
    except TypeError:
        return True


# --- classes of libraries that may not be loaded --------------------------------------------------------------------


def is_a(note: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(note, kind)


def list_attributes(note: Any) -> list[str]:
    """Dataclasses with slots have no `__dict__`."""
    return [*getattr(note, "__dict__", ()), *getattr(note, "__dataclass_fields__", ())]


def is_field_info(note: object) -> bool:
    """Whether it is what `pydantic.Field(...)` returns."""
    return is_a(note, "pydantic.fields", "FieldInfo")
