"""Words for the person: on standard error, so that the answer stays alone on standard output."""

from __future__ import annotations

import sys


def tell(words: str) -> None:
    print(f"mainspring: {words}", file=sys.stderr, flush=True)


def say(words: str) -> None:
    """Not ours: a hook's."""
    print(words, file=sys.stderr, flush=True)
