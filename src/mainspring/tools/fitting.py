"""What the model cannot be given as it is, before it is an outcome: too much text, for which each tool has a limit of
its own (P8), and NUL characters, whoever wrote the tool.
"""

import os

from msgspec.structs import replace

from mainspring.core.messages import Content, Text
from mainspring.processes.spill import Shelf, both_ends
from mainspring.secrets.held import covered
from mainspring.tools.base import Answer, Place, without_nul


def fitted(made: Answer, most: int, place: Place, call_id: str) -> Answer:
    """The answer with at most so many characters of text."""
    texts = [part.text for part in made.content if isinstance(part, Text)]
    if any("\0" in text for text in texts):
        made = replace(made, content=tuple([_readable(part) for part in made.content]))
    if sum(map(len, texts)) <= most:
        return made
    whole = made.text
    name = f"{call_id[:48]}-{os.urandom(4).hex()}"  # ids of calls are the model's, and may come twice
    stored = Shelf(place.spill, covered).put(name, whole)
    head = most * 2 // 3  # what a text is about stands at its beginning
    others = tuple([part for part in made.content if not isinstance(part, Text)])
    return replace(made, content=(Text(both_ends(whole, most, stored, head=head)), *others))


def _readable(part: Content) -> Content:
    return replace(part, text=without_nul(part.text)) if isinstance(part, Text) else part
