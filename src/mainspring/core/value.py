"""The base of every message, event, effect, update and state."""

from typing import dataclass_transform

import msgspec
from msgspec import Struct, field


# The transform tells both type checkers what msgspec does, so subclasses need no repetition.
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, gc=False, tag=True):
    """Frozen, comparable by content, encodable, tagged with its class name.

    `gc=False` keeps the collector from walking long histories; it is safe because values hold only
    values, tuples and JSON, and so can never form a cycle.
    """


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Bundle(Struct, frozen=True):
    """Things that go together, under names; nothing that is stored or sent.

    A NamedTuple would do, and take 140 us to import instead of 20: there are some forty of them on the start path.
    """


def as_json(value: object) -> bytes:
    """JSON; for what is no Unicode, such as half a character, something that still tells values apart."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return repr(value).encode()


HEX = frozenset("0123456789abcdefABCDEF")
UUID_LENGTH = 36


class Stamp(Value):
    """Where a record stands: an id and a time in milliseconds, both made by the driver, never by the core."""

    id: str = ""
    at: int = 0

    def derive(self, position: int) -> str:
        """The id of a message that the core makes while it handles this event.

        The core has no source of ids, so it counts up the end of the event's own id by the place that the message
        takes in the history. A uuid stays a uuid, but of version 8, "made by its application": the driver makes none
        of those, so the two kinds never meet. Of two events the later one also adds the larger place.
        """
        if len(self.id) != UUID_LENGTH or not HEX.issuperset(self.id[-8:]):  # a damaged file may hold anything
            return f"{self.id}.{position}"
        tail = (int(self.id[-8:], 16) + position) & 0xFFFF_FFFF
        return f"{self.id[:14]}8{self.id[15:28]}{tail:08x}"


class Stamped(Value, kw_only=True):
    """What carries an id and a time. The id on the wire, in the journal and in a request is this one."""

    id: str = ""
    at: int = 0
