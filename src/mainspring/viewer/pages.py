"""The files of the page, by the names that the server gives them. No name of a request is ever the name of a file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("data.js", "rows.js", "timeline.js", "replay.js", "app.js")  # in the order in which they are loaded
STYLE = "style.css"
INDEX = "index.html"

FILES = {
    "": (INDEX, "text/html"),
    STYLE: (STYLE, "text/css"),
    **{name: (name, "text/javascript") for name in SCRIPTS},
}


@cache
def read_page_file(name: str) -> bytes:
    return (PAGE / name).read_bytes()
