"""The trace viewer: a session on a time axis, and its replay step by step (docs/viewer.md)."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.viewer.export import export_html as export_html
    from mainspring.viewer.server import ViewServer as ViewServer
    from mainspring.viewer.text_view import render_axis as render_axis
    from mainspring.viewer.trace import Trace as Trace

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "Trace": "trace",
    "ViewServer": "server",
    "export_html": "export",
    "render_axis": "text_view",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
