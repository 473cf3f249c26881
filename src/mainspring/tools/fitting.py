"""What is too long for the model, before it is an outcome: each tool has a limit of its own (P8)."""

import os

from msgspec.structs import replace

from mainspring.core.messages import Text
from mainspring.processes.spill import Shelf, both_ends
from mainspring.secrets.held import covered
from mainspring.tools.base import Answer, Place


def fitted(made: Answer, most: int, place: Place, call_id: str) -> Answer:
    """The answer with at most so many characters of text."""
    length = sum(len(part.text) for part in made.content if isinstance(part, Text))
    if length <= most:
        return made
    whole = "".join([part.text for part in made.content if isinstance(part, Text)])
    name = f"{call_id[:48]}-{os.urandom(4).hex()}"  # ids of calls are the model's, and may come twice
    stored = Shelf(place.spill, covered).put(name, whole)
    head = most * 2 // 3  # what a text is about stands at its beginning
    others = tuple([part for part in made.content if not isinstance(part, Text)])
    return replace(made, content=(Text(both_ends(whole, most, stored, head=head)), *others))
