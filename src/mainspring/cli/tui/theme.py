"""How each kind of thing looks. Sixteen colours at most: they are what the user's own terminal makes of them.

What is less important is dim, not bright black: in some palettes (Solarized) that is the background. And since there
may be no colours at all (`NO_COLOR`), what has to be told apart differs in more than its colour.
"""

from __future__ import annotations

from rich.theme import Theme

STYLES = {
    # what happens
    "prompt": "bold",  # what the user said
    "call": "bold",  # the name of a tool
    "call.done": "green",
    "call.failed": "red",
    "call.running": "cyan",
    "detail": "dim",  # what belongs to the line above
    "thinking": "italic dim",
    "note": "dim",
    "warning": "yellow",
    "error": "red",
    "busy": "cyan",
    # changes to files: what comes is bold, what goes is plain, what stays is dim
    "added": "bold green",
    "removed": "red",
    "kept": "dim",
    "hunk": "cyan",
    # tasks
    "task.open": "none",
    "task.now": "bold cyan",
    "task.done": "dim strike",
    # what a model says: rich has backgrounds for some of these, which are black on every terminal
    "markdown.code": "cyan",
    "markdown.code_block": "none",
    "code.plain": "bold",  # commands and what has no language: no colours of syntax tell them from prose
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
    "frame": "dim",
    # modes
    "mode.default": "dim",
    "mode.acceptEdits": "magenta",
    "mode.plan": "cyan",
    "mode.dontAsk": "yellow",
    "mode.auto": "yellow",
    "mode.bypassPermissions": "bold red",
}

THEME = Theme(STYLES)
