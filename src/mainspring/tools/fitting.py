"""What the model cannot be given as it is, before it is an outcome: too much text, for which each tool has a limit of
its own (security P8), and NUL characters, whoever wrote the tool.
"""

import os

from msgspec.structs import replace

from mainspring.core.messages import Content, Text
from mainspring.processes.output import SpillFolder, both_ends
from mainspring.secrets.held import mask_secrets
from mainspring.tools.base import ToolAnswer, Workspace, without_nul


def fit_answer(made: ToolAnswer, most: int, place: Workspace, call_id: str) -> ToolAnswer:
    """The answer with at most so many characters of text."""
    texts = [part.text for part in made.content if isinstance(part, Text)]
    if any("\0" in text for text in texts):
        made = replace(made, content=tuple([_readable(part) for part in made.content]))
    if sum(map(len, texts)) <= most:
        return made
    whole = made.text
    name = f"{call_id[:48]}-{os.urandom(4).hex()}"  # ids of calls are the model's, and may come twice
    stored = SpillFolder(place.spill, mask_secrets).put(name, whole)
    head = most * 2 // 3  # what a text is about stands at its beginning
    others = tuple([part for part in made.content if not isinstance(part, Text)])
    return replace(made, content=(Text(both_ends(whole, most, stored, head=head)), *others))


MARKER = "reminder"
HIDDEN = "........"


def without_nonce(made: ToolAnswer, nonce: str) -> ToolAnswer:
    """A program that the model runs can read the session's file, and so can the model: what they print must not pass
    for a reminder of ours. Only the nonce in it is altered, and only beside what looks like one (settled 39)."""
    if not nonce or not any(nonce in part.text for part in made.content if isinstance(part, Text)):
        return made
    if MARKER not in made.text.lower():
        return made
    content = [
        replace(part, text=part.text.replace(nonce, HIDDEN)) if isinstance(part, Text) else part
        for part in made.content
    ]
    return replace(made, content=tuple(content))


def _readable(part: Content) -> Content:
    return replace(part, text=without_nul(part.text)) if isinstance(part, Text) else part
