"""The way in: a command line, read by both readers."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec.structs import replace

from mainspring.permissions.shell import characters, second
from mainspring.permissions.shell.grammar import Grammar
from mainspring.permissions.shell.values import Script

# Without a character that means anything to a shell a line has one reading: it needs no second reader.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^ -]*\Z", re.ASCII)


@lru_cache(maxsize=64)  # the same line is decided again after hooks, and for what to suggest
def read(text: str) -> Script:
    """What the line would run. `unclear` says why not all of that is known."""
    objection = characters.objection(text)
    if objection:
        return Script((), unclear=objection)
    script = Grammar(text).script()
    if script.unclear or not script.commands or _PLAIN.match(text):
        return script
    objection = second.objection(text, script)
    return replace(script, unclear=objection) if objection else script
