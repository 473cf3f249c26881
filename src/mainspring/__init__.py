"""The agent loop as a library. The public names are listed here and imported when they are used."""

from typing import TYPE_CHECKING

from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.engine.session_deps import open_run
    from mainspring.sdk.client import Client, query
    from mainspring.sdk.options import Options
    from mainspring.tools.base import Tool
    from mainspring.tools.custom import tool

__all__ = ["Client", "Options", "Tool", "__version__", "open_run", "query", "tool"]

_PLACES = {
    "Client": "mainspring.sdk.client",
    "Options": "mainspring.sdk.options",
    "Tool": "mainspring.tools.base",
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
