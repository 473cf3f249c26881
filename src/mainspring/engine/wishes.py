"""What a prompt asks of the loop itself, beside what it asks of the model. The same for every door.

/compact keep the numbers      sums the conversation up, heeding these words (D-36)
+500k mend all the tests       goes on until that many tokens were written (H-01)
"""

from __future__ import annotations

COMPACT = "/compact"
UNITS = {"k": 1_000, "m": 1_000_000}
MOST = 1_000_000_000  # tokens; nobody means more


def compaction(prompt: str) -> str | None:
    """The words for whoever sums up, if that is what the prompt is; None: it is something else."""
    command, *words = prompt.split(None, 1) or [""]
    return "".join(words).strip() if command == COMPACT else None


def token_budget(prompt: str) -> int | None:
    """Tokens that the model is to use. The prompt keeps the words: the model may as well know."""
    word = next(iter(prompt.split(None, 1)), "")
    unit = UNITS.get(word[-1:].lower())
    number = word[1:-1]
    if unit is None or word[:1] != "+" or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return min(MOST, round(float(number) * unit)) or None
