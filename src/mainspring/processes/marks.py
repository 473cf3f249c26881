"""How a process is known as one of a call's, wherever it went: two marks that every descendant inherits.

The first is a variable of the environment. A program may clear it (`env -i`), overwrite it (servers that change their
title), or be another user's (`sudo`); a zombie has none. So there is a second one that nobody thinks of changing: an
odd limit on the bytes of message queues. It survives `fork`, `exec`, `setsid` and closed descriptors, and anybody may
read it. Where a system has no such limit, the first one must do.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import NamedTuple

NAME = "MAINSPRING_CALL"  # of the variable; an agent within an agent adds its own to the value, so both are found

_USUAL = 819_200  # what Linux gives; taken where there is no limit at all
_SPREAD = 8  # the mark takes away an eighth of the limit at most: enough room for 100,000 different ones
_LEAST = 8_000  # below, there is no room for marks


class ProcessTag(NamedTuple):
    text: str
    limit: int  # 0: this system has none

    @property
    def token(self) -> bytes:
        return self.text.rpartition("/")[2].encode()


def new_mark() -> ProcessTag:
    """The text of one who was marked himself, as an agent's agent is, begins with his own."""
    mine = os.urandom(8).hex()
    outer = os.environ.get(NAME, "")
    return ProcessTag(f"{outer}/{mine}" if outer else mine, _odd_limit())


def put_limit(pid: int, mark: ProcessTag) -> None:
    """On a process that was just started, and may have started others already: so it is only the second net."""
    if mark.limit and sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):  # it is gone, or another user's by now
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (mark.limit, mark.limit))


def first_words(mark: ProcessTag) -> str:
    """The same, for a script of bash: there it is in force before anything else can be started."""
    return f"ulimit -q {mark.limit} 2>/dev/null; " if mark.limit else ""


def _odd_limit() -> int:
    if sys.platform != "linux":
        return 0
    top = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0]
    if top == resource.RLIM_INFINITY:
        top = _USUAL
    if top < _LEAST:
        return 0
    return top - 1 - int.from_bytes(os.urandom(4), "little") % (top // _SPREAD)
