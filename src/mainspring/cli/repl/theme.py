"""How each kind of thing looks. Sixteen colours at most: they are what the user's own terminal makes of them."""

from __future__ import annotations

from rich.theme import Theme

STYLES = {
    # what happens
    "prompt": "bold",  # what the user said
    "call": "bold",  # the name of a tool
    "call.done": "green",
    "call.failed": "red",
    "call.running": "cyan",
    "detail": "bright_black",  # what belongs to the line above
    "thinking": "italic bright_black",
    "note": "bright_black",
    "warning": "yellow",
    "error": "red",
    "busy": "cyan",
    # changes to files
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
    # tasks
    "task.open": "none",
    "task.now": "bold cyan",
    "task.done": "bright_black strike",
    # what a model says: rich has backgrounds for some of these, which are black on every terminal
    "markdown.code": "cyan",
    "markdown.code_block": "none",
    "markdown.block_quote": "italic",
    "markdown.item.bullet": "none",
    "markdown.item.number": "none",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold italic",
    "markdown.h5": "italic",
    "markdown.h6": "italic",
    # menus
    "title": "bold",
    "chosen": "bold cyan",
    "key": "bold",
    "frame": "bright_black",
    # modes
    "mode.default": "bright_black",
    "mode.acceptEdits": "magenta",
    "mode.plan": "cyan",
    "mode.dontAsk": "yellow",
    "mode.auto": "yellow",
    "mode.bypassPermissions": "bold red",
}

THEME = Theme(STYLES)
