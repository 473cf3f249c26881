"""Words for the person: on standard error, so that the answer stays alone on standard output."""

from __future__ import annotations

import sys


def print_stderr(words: str) -> None:
    print(f"mainspring: {words}", file=sys.stderr, flush=True)


def print_hook_message(words: str) -> None:
    """Not ours: a hook's."""
    print(words, file=sys.stderr, flush=True)
