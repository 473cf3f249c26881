"""The agent loop as a library. This module lists the public names and imports them on first use."""

import sys
from typing import TYPE_CHECKING

from mainspring.version import __version__

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from mainspring.core.errors import ToolError
    from mainspring.core.messages import Document, Image, Text
    from mainspring.engine.session_deps import open_run
    from mainspring.sdk.client import Client, query
    from mainspring.sdk.options import Options
    from mainspring.tools.base import Tool, ToolAnswer, ToolContext
    from mainspring.tools.custom import tool

__all__ = [
    "Client",
    "Document",
    "Image",
    "Options",
    "Text",
    "Tool",
    "ToolAnswer",
    "ToolContext",
    "ToolError",
    "__version__",
    "open_run",
    "query",
    "tool",
]

_PLACES = {
    "Client": "mainspring.sdk.client",
    "Document": "mainspring.core.messages",
    "Image": "mainspring.core.messages",
    "Options": "mainspring.sdk.options",
    "Text": "mainspring.core.messages",
    "Tool": "mainspring.tools.base",
    "ToolAnswer": "mainspring.tools.base",
    "ToolContext": "mainspring.tools.base",
    "ToolError": "mainspring.core.errors",
    "open_run": "mainspring.engine.session_deps",
    "query": "mainspring.sdk.client",
    "tool": "mainspring.tools.custom",
}


def __getattr__(name: str) -> object:
    """So that `import mainspring`, and with it `mainspring --version`, costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'mainspring' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_PLACES[name]), name)
    return value


class _MovedModules:
    """Python asks it last, when no module of a name exists: it may have moved."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":  # noqa: ARG004
        if not name.startswith("mainspring.") or name == "mainspring.renamed":
            return None
        from mainspring.renamed import find_spec

        return find_spec(name)


sys.meta_path.append(_MovedModules)
