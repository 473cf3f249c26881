"""One value as one line of JSON: always valid, and never longer than a reader takes.

The reader of stream-json gives up on a line of more than 1 MiB (stream-json 1.4). What is too long is cut where it is
longest, and says so; short values beside it, ids above all, stay whole.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec

MOST = 1_048_576  # bytes, the newline not counted; the reader counts characters, of which there are never more
LEAST = 64  # bytes: of values that would get less, only the first ones are kept
LONGEST_KEY = 200  # characters of a key, in an object that is cut

Json: TypeAlias = "str | float | bool | list[Json] | dict[str, Json] | None"
T = TypeVar("T")


def _no_messages(_: object) -> list[object]:
    """A checkpoint holds no messages (settled 6)."""
    return []


_encoder = msgspec.json.Encoder(enc_hook=_no_messages)


def encode_line(value: object, most: int = MOST) -> bytes:
    data, room = encode_json(value), most
    while len(data) > most:  # once, as a rule: keys and commas are only estimated
        data = encode_json(cut_to_size(msgspec.to_builtins(value), room))
        room = room * 3 // 4
    return data + b"\n"


def encode_json(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half a character: models and file names hold such things
        return _encoder.encode(replace_half_characters(msgspec.to_builtins(value, enc_hook=_no_messages)))


def replace_half_characters(value: Json) -> Json:
    """The same with a question mark for each half character."""
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {whole_text(key): replace_half_characters(item) for key, item in value.items()}
        case list():
            return [replace_half_characters(item) for item in value]
        case _:
            return value


def whole_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# --- cutting ----------------------------------------------------------------------------------------


def cut_to_size(value: Json, room: int) -> Json:
    """The value, shortened so that its JSON fits into so many bytes."""
    if json_size(value) <= room:
        return value
    match value:
        case str():
            return cut_text(value, room)
        case {"type": "image" | "document" as kind}:
            return {"type": "text", "text": f"[{kind} left out: a line holds at most {MOST:,} bytes]"}
        case dict():
            named = {key[:LONGEST_KEY]: item for key, item in take_first_items(list(value.items()), room)}
            return dict(
                zip(named, share_out(list(named.values()), room - json_size(dict.fromkeys(named))), strict=True)
            )
        case list():
            items = take_first_items(value, room)
            return share_out(items, room - 2 - len(items))
        case _:
            return value  # a number, or the like


def take_first_items(items: list[T], room: int) -> list[T]:
    """As many as can get a share worth having."""
    return items[: max(1, room // (2 * LEAST))]


def share_out(items: list[Json], room: int) -> list[Json]:
    """Small ones stay whole; the others get an equal share of what is left."""
    share = 0
    for count, length in zip(range(len(items), 0, -1), sorted(map(json_size, items)), strict=True):
        share = room // count
        if length > share:
            break
        room -= length
    return [cut_to_size(item, share) for item in items]


def cut_text(text: str, room: int) -> str:
    note = f"... [{len(text):,} characters, cut here]"
    kept = max(0, room - len(note) - 2)
    while kept and json_size(text[:kept] + note) > room:
        kept = kept * room // (json_size(text[:kept] + note) + 1)  # what is escaped takes up to six bytes
    return text[:kept] + note if kept else note


def json_size(value: Json) -> int:
    return len(encode_json(value))
