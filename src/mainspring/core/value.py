"""The base of every message, event, effect, update and state."""

from typing import dataclass_transform

from msgspec import Struct, field


# The transform tells both type checkers what msgspec does, so subclasses need no repetition.
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, gc=False, tag=True):
    """Frozen, comparable by content, encodable, tagged with its class name.

    `gc=False` keeps the collector from walking long histories; it is safe because values hold only
    values, tuples and JSON, and so can never form a cycle.
    """


class Stamp(Value):
    """Where a record stands: an id and a time in milliseconds, both made by the driver, never by the core."""

    id: str = ""
    at: int = 0

    def derive(self, position: int) -> str:
        """The id of a message that the core makes while it handles this event.

        The core has no source of ids, so it counts up the last eight hex digits of the event's own id
        by the place the message takes in the history: a uuid stays a uuid, and as unique as it was.
        """
        head, tail = self.id[:-8], self.id[-8:]
        try:
            return f"{head}{(int(tail, 16) + position) & 0xFFFF_FFFF:08x}"
        except ValueError:  # not a uuid
            return f"{self.id}.{position}"


class Stamped(Value, kw_only=True):
    """What carries an id and a time. The id on the wire, in the journal and in a request is this one."""

    id: str = ""
    at: int = 0
