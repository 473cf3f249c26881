"""Questions of a server to the user in the middle of a call (`elicitation/create`).

A question is a form of plain fields; the user is asked field by field. Answers are checked here, so the server gets
what it asked for, or `decline`. The texts are the server's: they are shown with its name, shortened, and nothing is
sent before the user agrees to the whole form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Any, cast

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.tools.results import clean_mcp_text, one_line_name

Ask = Callable[[str], Awaitable[str]]

DECLINE: dict[str, Any] = {"action": "decline"}
CANCEL: dict[str, Any] = {"action": "cancel"}
MOST_FIELDS = 20
MOST_CHOICES = 50
LONGEST = 2_000  # characters of a message or an address
TRIES = 3  # invalid answers to one field before the form is declined
YES, NO = ("y", "yes", "true"), ("n", "no", "false")


class FormAnswerError(Exception):
    """An answer that does not fit the field, with a text for the user; or a form that cannot be shown."""


class FormField(Bundle):
    name: str
    kind: str  # string, number, integer, boolean, array
    about: str
    required: bool
    choices: tuple[tuple[str, str], ...] = ()  # the value that is sent, and the label that is shown
    default: Any = None
    least: float | None = None  # length of a text, value of a number, or number of choices
    most: float | None = None


async def ask_form(server: str, wish: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """The answer for the server, as JSON. If the user cannot be asked, it is `decline`."""
    try:
        if wish.get("mode") == "url":
            return await ask_to_open_url(server, wish, ask)
        return await ask_fields(server, wish, fields_of(wish.get("requestedSchema")), ask)
    except (ToolError, FormAnswerError):
        return DECLINE


async def ask_to_open_url(server: str, wish: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Show the address. The user opens it or does not; we never do."""
    address = clean_mcp_text(wish.get("url"))
    if not address.startswith(("https://", "http://")) or len(address) > LONGEST or not address.isprintable():
        return DECLINE
    said = await ask(
        f"{format_form_head(server, wish)}\nIt wants you to open: {address}\nHave you done so? y, or n to decline."
    )
    return {"action": "accept"} if said.strip().lower() in YES else DECLINE


async def ask_fields(server: str, wish: dict[str, Any], fields: list[FormField], ask: Ask) -> dict[str, Any]:
    wanted = ", ".join([f"{field.name}{'' if field.required else ' (optional)'}" for field in fields])
    wants = f"\nIt wants to know: {wanted}" if wanted else ""
    if (
        await ask(f"{format_form_head(server, wish)}{wants}\nAnswer it? y, or n to decline.")
    ).strip().lower() not in YES:
        return DECLINE
    content: dict[str, Any] = {}
    for field in fields:
        try:
            value = await ask_for_field(field, ask)
        except FormAnswerError:
            return CANCEL
        if value is not None:
            content[field.name] = value
    return {"action": "accept", "content": content}


def format_form_head(server: str, wish: dict[str, Any]) -> str:
    return f"The MCP server '{server}' asks: {clean_mcp_text(wish.get('message')).strip()[:LONGEST] or '(nothing)'}"


async def ask_for_field(field: FormField, ask: Ask) -> Any:
    """The value, or None to leave the field out. Raises `FormAnswerError` after too many invalid answers."""
    why = ""
    for _ in range(TRIES):
        said = (await ask(f"{why}{format_field(field)}")).strip()
        try:
            return parse_field_answer(field, said)
        except FormAnswerError as error:
            why = f"Not a valid answer: {error}.\n"
    raise FormAnswerError(why)


# --- a field --------------------------------------------------------------------------------------------------------


def fields_of(schema: Any) -> list[FormField]:
    """Raises `FormAnswerError` if the form is invalid."""
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    properties, required = given.get("properties"), given.get("required")
    if not isinstance(properties, dict):
        raise FormAnswerError("it has no fields")
    found = cast("dict[str, Any]", properties)
    if len(found) > MOST_FIELDS:
        raise FormAnswerError("it has too many fields")
    needed = items_of(required)
    return [field_of(name, one, required=name in needed) for name, one in found.items()]


def field_of(name: str, schema: Any, *, required: bool) -> FormField:
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    kind = given.get("type")
    if kind not in ("string", "number", "integer", "boolean", "array") or name != one_line_name(name):
        raise FormAnswerError(f"the field '{one_line_name(name)}' has a type that is not supported")
    items = given.get("items")
    choices = choices_of(cast("dict[str, Any]", items) if kind == "array" and isinstance(items, dict) else given)
    if kind == "array" and not choices:
        raise FormAnswerError(f"the field '{name}' has nothing to choose from")
    words = [one_line_name(given.get(key)) for key in ("title", "description")]
    low, high = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}.get(
        kind, ("minimum", "maximum")
    )
    return FormField(
        name,
        kind,
        ": ".join([word for word in words if word and word != name]),
        required,
        choices,
        default_of(given.get("default")),
        as_number(given.get(low)),
        as_number(given.get(high)),
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
        raise FormAnswerError("its choices cannot be shown")
    return tuple([(value, one_line_name(title)) for value, title in found if isinstance(value, str)])


def items_of(value: Any) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def default_of(value: Any) -> Any:
    """The default, if it can be sent back."""
    if isinstance(value, str | int | float | bool):
        return value
    texts = items_of(value)
    return texts if texts and all(isinstance(one, str) for one in texts) else None


def as_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


HOW = {"number": "A number", "integer": "A whole number", "boolean": "y or n"}


def format_field(field: FormField) -> str:
    lines = [f"{field.name}: {field.about}" if field.about else field.name]
    lines += [f"  {place}. {title}" for place, (_, title) in enumerate(field.choices, 1)]
    how = "Numbers, with commas between them" if field.kind == "array" else "A number or a name"
    empty = f"empty for {one_line_name(str(field.default))}" if field.default is not None else "empty to leave it out"
    words = [how if field.choices else HOW.get(field.kind, "Text")]
    if field.default is not None or not field.required:
        words.append(empty)
    return "\n".join([*lines, f"{'; '.join(words)}."])


def parse_field_answer(field: FormField, said: str) -> Any:
    """The value of an answer; None to leave the field out. Raises `FormAnswerError`."""
    if not said:
        if field.default is not None:
            return field.default
        if field.required:
            raise FormAnswerError("an answer is needed")
        return None
    if field.kind == "array":
        chosen = list(dict.fromkeys([parse_choice(field, part) for part in said.split(",")]))
        check_range(field, len(chosen), "choices")
        return chosen
    if field.choices:
        return parse_choice(field, said)
    match field.kind:
        case "boolean":
            if said.lower() not in (*YES, *NO):
                raise FormAnswerError("'y' or 'n'")
            return said.lower() in YES
        case "string":
            check_range(field, len(said), "characters")
            return said
        case _:
            value = parse_numeric(field, said)
            check_range(field, value, "")
            return value


def parse_choice(field: FormField, said: str) -> str:
    wanted = said.strip().casefold()
    for place, (value, title) in enumerate(field.choices, 1):
        if wanted in (str(place), value.casefold(), title.casefold()):
            return value
    raise FormAnswerError(f"'{one_line_name(said)}' is not one of the choices")


def parse_numeric(field: FormField, said: str) -> float:
    try:
        return int(said) if field.kind == "integer" else float(said)
    except ValueError:
        raise FormAnswerError(
            f"'{one_line_name(said)}' is no {'whole ' if field.kind == 'integer' else ''}number"
        ) from None


def check_range(field: FormField, size: float, what: str) -> None:
    unit = f" {what}" if what else ""
    if not isfinite(size):  # JSON cannot represent it
        raise FormAnswerError("that is not a number")
    if field.least is not None and size < field.least:
        raise FormAnswerError(f"{field.least:g}{unit} is the minimum")
    if field.most is not None and size > field.most:
        raise FormAnswerError(f"{field.most:g}{unit} is the maximum")
