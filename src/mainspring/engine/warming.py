"""Loads what a call will need while the model still writes its input, which takes far longer.

In a thread: whoever reads the stream is not held up. Nothing depends on it: what is not loaded by then is loaded where
it is used.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module

ALWAYS = ("mainspring.engine.outcomes", "mainspring.permissions.decide", "mainspring.tools.pipeline")
BY_TOOL = {
    "Bash": ("mainspring.permissions.bash", "mainspring.processes.children", "mainspring.tools.bash"),
    "Read": ("mainspring.tools.read", "mainspring.processes.atomic_write"),
    "Edit": ("mainspring.tools.edit", "mainspring.processes.atomic_write"),
    "Write": ("mainspring.tools.write", "mainspring.processes.atomic_write"),
    "Grep": ("mainspring.tools.grep",),
    "Glob": ("mainspring.tools.glob",),
}


def preload_tool(tool: str) -> None:
    names = (*ALWAYS, *BY_TOOL.get(tool, ()))
    threading.Thread(target=_load, args=(names,), name="warming", daemon=True).start()


def warm_context() -> None:
    """The layers that the second request needs."""
    threading.Thread(target=_load, args=(("mainspring.context.compactor",),), name="warming", daemon=True).start()


def _load(names: tuple[str, ...]) -> None:
    for name in names:
        with suppress(Exception):  # whoever needs it will say what is wrong
            import_module(name)
