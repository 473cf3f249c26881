"""What the context layers come to, for the loop."""

from __future__ import annotations

from mainspring.core.events import Shrunk
from mainspring.core.messages import User
from mainspring.core.money import Usage
from mainspring.core.value import Value
from mainspring.core.view import Edit


class PreparedContext(Value):
    """What the context layers made of the conversation."""

    tokens: int
    edits: tuple[Edit, ...] = ()
    attachments: tuple[User, ...] = ()
    shrunk: tuple[Shrunk, ...] = ()
    staged: int = 0
    media: int = 0
    usage: Usage = Usage()  # of side questions since the last time,
    cost: int = 0  # and what they came to


class Summary(Value):
    """What a compaction came to."""

    edits: tuple[Edit, ...] = ()
    before: int = 0
    after: int = 0
    usage: Usage = Usage()
    cost: int = 0
    failed: str = ""
