"""Python's garbage collector, for a process that is ours: it rests while modules load."""

from __future__ import annotations

import gc


def freeze_garbage_collector() -> None:
    """All is loaded, and stays: the collector need not look at it again."""
    gc.freeze()
    gc.enable()
