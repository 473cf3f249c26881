"""A message that is too large to be sent: found when no rung is left, and out of the model's sight from then on.

Nothing that makes a conversation smaller touches what was said last, so without this one giant prompt would spoil
every later turn of its session.
"""

from __future__ import annotations

from itertools import takewhile

from msgspec.structs import replace

from mainspring.core.messages import Assistant, Message, Origin, User, user
from mainspring.core.state import State, say
from mainspring.core.updates import Decided
from mainspring.core.value import as_json
from mainspring.core.view import Drop, view

LARGE = 10_000  # bytes; whatever window a model has, it is not a shorter message that fills it,
SHARE = 4  # nor one that makes up less than a quarter of what is in view
MEGABYTE = 1024 * 1024

NOTE = "[{what} stood before this. It was too large to be sent, and is left out.]"
WORDS = "{what} will be left out from now on: put it into a file, and name the file instead"


def leave_out(state: State) -> tuple[State, tuple[Decided, ...], str]:
    """Without what was said since the last reply and is too large; and words that say so, if there is any."""
    found = too_large(state)
    if not found:
        return state, (), ""
    size = in_words(sum(map(size_of, found)))
    what = f"A message of {size}" if len(found) == 1 else f"{len(found)} messages of {size} in all"
    state = replace(state, edits=(*state.edits, Drop(tuple([message.id for message in found]))))
    state, said = say(state, user(NOTE.format(what=what), Origin.RECOVERY))
    return state, said, WORDS.format(what=what)


def too_large(state: State) -> list[User]:
    """Newest first. Results are shortened by a rung, and replies have a limit of their own."""
    seen = view(state.history, state.edits)
    least = max(LARGE, sum(map(size_of, seen)) // SHARE)
    since = takewhile(lambda message: not isinstance(message, Assistant), reversed(seen))
    return [message for message in since if isinstance(message, User) and size_of(message) >= least]


def size_of(message: Message) -> int:
    """In bytes, about as many as a request needs for it."""
    return len(as_json(message))


def in_words(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB" if size >= MEGABYTE // 10 else f"{-(-size // 1024)} kB"
