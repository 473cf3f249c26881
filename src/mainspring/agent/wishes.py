"""What a prompt asks of the loop itself, beside what it asks of the model. The same for every door.

/compact keep the numbers      sums the conversation up, heeding these words (D-36)
+500k mend all the tests       goes on until that many tokens were written (H-01)
mend all the tests +500k       the same
"""

from __future__ import annotations

COMPACT = "/compact"
UNITS = {"k": 1_000, "m": 1_000_000}
MOST = 1_000_000_000  # tokens; nobody means more


def parse_compact_command(prompt: str) -> str | None:
    """The words for whoever sums up, if that is what the prompt is; None: it is something else."""
    command, *words = prompt.split(None, 1) or [""]
    return "".join(words).strip() if command == COMPACT else None


def parse_token_budget(prompt: str) -> int | None:
    """Tokens that the model is to use, if the prompt begins or ends with a number of them. The prompt keeps the words:
    the model may as well know."""
    words = prompt.split()
    if not words:
        return None
    first = _tokens(words[0])
    if first is not None or len(words) == 1 or not _ends_in_prose(prompt):
        return first
    return _tokens(words[-1].rstrip(".!"))


def _tokens(word: str) -> int | None:
    unit = UNITS.get(word[-1:].lower())
    number = word[1:-1]
    if unit is None or word[:1] != "+" or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return min(MOST, round(float(number) * unit)) or None


def _ends_in_prose(prompt: str) -> bool:
    """Not in a block of code, and not in a diff, whose lines begin with a plus, too."""
    lines = prompt.rstrip().splitlines()
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in lines)
    in_diff = lines[-1].startswith("+") and any(line.startswith(("+", "-", "@@")) for line in lines[-4:-1])
    return fences % 2 == 0 and not in_diff
