"""What a server asks of the user in the middle of a call (`elicitation/create`): a form of plain fields, put to the
person field by field. What comes back is checked here, so the server gets what it asked for, or a no.

The words are the server's: they are shown with its name, cut, and nothing is sent without a yes to the whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Any, cast

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.tools.mcp.results import clean, named

Ask = Callable[[str], Awaitable[str]]

DECLINE: dict[str, Any] = {"action": "decline"}
CANCEL: dict[str, Any] = {"action": "cancel"}
MOST_FIELDS = 20
MOST_CHOICES = 50
LONGEST = 2_000  # characters of a message or an address
TRIES = 3  # answers to one field that do not fit, until the form is left
YES, NO = ("y", "yes", "true"), ("n", "no", "false")


class UnfitError(Exception):
    """An answer that the field does not take, in words for the person; or a form that cannot be put."""


class Field(Bundle):
    name: str
    kind: str  # string, number, integer, boolean, array
    about: str
    required: bool
    choices: tuple[tuple[str, str], ...] = ()  # what is sent, and what is shown
    default: Any = None
    least: float | None = None  # characters of a text, a number itself, or how many choices
    most: float | None = None


async def put(server: str, wish: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """The server's answer, as JSON. Whoever cannot be asked has said no."""
    try:
        if wish.get("mode") == "url":
            return await by_address(server, wish, ask)
        return await by_form(server, wish, fields_of(wish.get("requestedSchema")), ask)
    except (ToolError, UnfitError):
        return DECLINE


async def by_address(server: str, wish: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """We open nothing: the person does, or does not."""
    address = clean(wish.get("url"))
    if not address.startswith(("https://", "http://")) or len(address) > LONGEST or not address.isprintable():
        return DECLINE
    said = await ask(f"{head(server, wish)}\nIt wants you to open: {address}\nHave you done so? y, or n to decline.")
    return {"action": "accept"} if said.strip().lower() in YES else DECLINE


async def by_form(server: str, wish: dict[str, Any], fields: list[Field], ask: Ask) -> dict[str, Any]:
    wanted = ", ".join([f"{field.name}{'' if field.required else ' (may be left out)'}" for field in fields])
    wants = f"\nIt wants to know: {wanted}" if wanted else ""
    if (await ask(f"{head(server, wish)}{wants}\nAnswer it? y, or n to decline.")).strip().lower() not in YES:
        return DECLINE
    content: dict[str, Any] = {}
    for field in fields:
        try:
            value = await answered(field, ask)
        except UnfitError:
            return CANCEL
        if value is not None:
            content[field.name] = value
    return {"action": "accept", "content": content}


def head(server: str, wish: dict[str, Any]) -> str:
    return f"The MCP server '{server}' asks: {clean(wish.get('message')).strip()[:LONGEST] or '(nothing)'}"


async def answered(field: Field, ask: Ask) -> Any:
    """None: it is left out. Raises `UnfitError` if too many answers do not fit."""
    why = ""
    for _ in range(TRIES):
        said = (await ask(f"{why}{shown(field)}")).strip()
        try:
            return meant(field, said)
        except UnfitError as error:
            why = f"That does not fit: {error}.\n"
    raise UnfitError(why)


# --- a field --------------------------------------------------------------------------------------------------------


def fields_of(schema: Any) -> list[Field]:
    """Raises `UnfitError` for what is no form."""
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    properties, required = given.get("properties"), given.get("required")
    if not isinstance(properties, dict):
        raise UnfitError("it has no fields")
    found = cast("dict[str, Any]", properties)
    if len(found) > MOST_FIELDS:
        raise UnfitError("it has too many fields")
    needed = items_of(required)
    return [field_of(name, one, required=name in needed) for name, one in found.items()]


def field_of(name: str, schema: Any, *, required: bool) -> Field:
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    kind = given.get("type")
    if kind not in ("string", "number", "integer", "boolean", "array") or name != named(name):
        raise UnfitError(f"the field '{named(name)}' is none that can be asked for")
    items = given.get("items")
    choices = choices_of(cast("dict[str, Any]", items) if kind == "array" and isinstance(items, dict) else given)
    if kind == "array" and not choices:
        raise UnfitError(f"the field '{name}' has nothing to choose from")
    words = [named(given.get(key)) for key in ("title", "description")]
    low, high = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}.get(
        kind, ("minimum", "maximum")
    )
    return Field(
        name,
        kind,
        ": ".join([word for word in words if word and word != name]),
        required,
        choices,
        default_of(given.get("default")),
        number(given.get(low)),
        number(given.get(high)),
    )


def choices_of(schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[object, object]]
    if listed := items_of(schema.get("oneOf") or schema.get("anyOf")):
        tables = [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]
        found = [(one.get("const"), one.get("title") or one.get("const")) for one in tables]
    else:
        values, titles = items_of(schema.get("enum")), items_of(schema.get("enumNames"))
        found = list(zip(values, titles if len(titles) == len(values) else values, strict=True))
    if len(found) > MOST_CHOICES or not all(isinstance(value, str) for value, _ in found):
        raise UnfitError("its choices are none that can be shown")
    return tuple([(value, named(title)) for value, title in found if isinstance(value, str)])


def items_of(value: Any) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def default_of(value: Any) -> Any:
    """What can be sent back at all."""
    if isinstance(value, str | int | float | bool):
        return value
    texts = items_of(value)
    return texts if texts and all(isinstance(one, str) for one in texts) else None


def number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


HOW = {"number": "A number", "integer": "A whole number", "boolean": "y or n"}


def shown(field: Field) -> str:
    lines = [f"{field.name}: {field.about}" if field.about else field.name]
    lines += [f"  {place}. {title}" for place, (_, title) in enumerate(field.choices, 1)]
    how = "Numbers, with commas between them" if field.kind == "array" else "A number or a name"
    empty = f"empty for {named(str(field.default))}" if field.default is not None else "empty to leave it out"
    words = [how if field.choices else HOW.get(field.kind, "Text")]
    if field.default is not None or not field.required:
        words.append(empty)
    return "\n".join([*lines, f"{'; '.join(words)}."])


def meant(field: Field, said: str) -> Any:
    """The value that an answer stands for; None: it is left out. Raises `UnfitError`."""
    if not said:
        if field.default is not None:
            return field.default
        if field.required:
            raise UnfitError("an answer is needed")
        return None
    if field.kind == "array":
        chosen = list(dict.fromkeys([choice(field, part) for part in said.split(",")]))
        within(field, len(chosen), "choices")
        return chosen
    if field.choices:
        return choice(field, said)
    match field.kind:
        case "boolean":
            if said.lower() not in (*YES, *NO):
                raise UnfitError("'y' or 'n'")
            return said.lower() in YES
        case "string":
            within(field, len(said), "characters")
            return said
        case _:
            value = numeric(field, said)
            within(field, value, "")
            return value


def choice(field: Field, said: str) -> str:
    wanted = said.strip().casefold()
    for place, (value, title) in enumerate(field.choices, 1):
        if wanted in (str(place), value.casefold(), title.casefold()):
            return value
    raise UnfitError(f"'{named(said)}' is none of the choices")


def numeric(field: Field, said: str) -> float:
    try:
        return int(said) if field.kind == "integer" else float(said)
    except ValueError:
        raise UnfitError(f"'{named(said)}' is no {'whole ' if field.kind == 'integer' else ''}number") from None


def within(field: Field, size: float, what: str) -> None:
    unit = f" {what}" if what else ""
    if not isfinite(size):  # which JSON cannot hold
        raise UnfitError("that is no number")
    if field.least is not None and size < field.least:
        raise UnfitError(f"{field.least:g}{unit} is the least")
    if field.most is not None and size > field.most:
        raise UnfitError(f"{field.most:g}{unit} is the most")
