"""Colours of the terminal: themes, and how many colours the terminal has.

A style has a name; a theme says how it looks. `ANSI` uses the sixteen colours that every terminal has, as the user's
palette defines them, and no backgrounds. The other themes add an accent colour and faint backgrounds; wherever they set
a background they set the text colour, too, so that text is readable if the theme does not fit the terminal.

Less important text is dim, not bright black: in some palettes (Solarized) that is the background. Things to tell apart
differ in more than their colour, since there may be no colours. This module is on the start path: it needs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

ANSI = {
    # runs
    "prompt": "bold",  # the user's prompt
    "prompt.mark": "bold cyan",
    "call": "bold",  # the name of a tool
    "call.done": "green",
    "call.failed": "red",
    "call.running": "cyan",
    "detail": "dim",  # belongs to the line above
    "thinking": "italic dim",
    "note": "dim",
    "warning": "yellow",
    "error": "red",
    "busy": "cyan",
    # file changes: added lines are bold, removed lines plain, unchanged lines dim
    "added": "bold green",
    "removed": "red",
    "kept": "dim",
    "hunk": "cyan",
    # code in file changes
    "code.keyword": "magenta",
    "code.string": "none",
    "code.number": "cyan",
    "code.name": "none",
    "code.comment": "italic",
    # tasks
    "task.open": "none",
    "task.now": "bold cyan",
    "task.done": "dim strike",
    # Markdown: rich gives some of these a background, which is black on every terminal
    "markdown.code": "cyan",
    "markdown.code_block": "none",
    "code.plain": "bold",  # commands and code without a language: no syntax colours distinguish them from prose
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
    "title": "bold cyan",
    "asks": "bold",  # the question of a dialog
    "chosen": "bold cyan",
    "key": "bold",
    "frame": "dim",
    "rule": "cyan",  # above a dialog
    # modes
    "mode.default": "dim",
    "mode.acceptEdits": "magenta",
    "mode.plan": "cyan",
    "mode.dontAsk": "yellow",
    "mode.auto": "yellow",
    "mode.bypassPermissions": "bold red",
}


def _coloured(accent: str, text: str, bar: str, added: tuple[str, str], removed: tuple[str, str]) -> dict[str, str]:
    """`text` and `bar`: the user's prompts; `added`, `removed`: text and background of changed lines."""
    return {
        "prompt": f"{text} on {bar}",
        "prompt.mark": f"bold {accent} on {bar}",
        "call.running": accent,
        "busy": accent,
        "added": f"{added[0]} on {added[1]}",
        "removed": f"{removed[0]} on {removed[1]}",
        "kept": "dim",
        "hunk": accent,
        "task.now": f"bold {accent}",
        "title": f"bold {accent}",
        "chosen": f"bold {accent}",
        "rule": accent,
    }


def _code(keyword: str, string: str, number: str, name: str, comment: str) -> dict[str, str]:
    return {
        "code.keyword": keyword,
        "code.string": string,
        "code.number": number,
        "code.name": name,
        "code.comment": f"italic {comment}",
    }


_ON_DARK = _code("#d7afff", "#d7d787", "#87d7d7", "#87d7ff", "#afafaf")
_ON_LIGHT = _code("#8700af", "#875f00", "#005f5f", "#005faf", "#5f5f5f")

THEMES: dict[str, dict[str, str]] = {
    "dark": _coloured("#5fafff", "#eeeeee", "#303030", ("#eeeeee", "#12351f"), ("#eeeeee", "#4a1a1f")) | _ON_DARK,
    "light": _coloured("#005fd7", "#1c1c1c", "#e4e4e4", ("#1c1c1c", "#d7f5dd"), ("#1c1c1c", "#ffdfe0")) | _ON_LIGHT,
    # Blue and orange in place of green and red.
    "dark-daltonized": _coloured("#5fafff", "#eeeeee", "#303030", ("#eeeeee", "#0f2f55"), ("#eeeeee", "#553310"))
    | _ON_DARK
    | {"call.done": "#5fafff", "call.failed": "#ffaf5f", "error": "#ffaf5f"},
    "light-daltonized": _coloured("#005fd7", "#1c1c1c", "#e4e4e4", ("#1c1c1c", "#d7e8ff"), ("#1c1c1c", "#ffe6cc"))
    | _ON_LIGHT
    | {"call.done": "#005fd7", "call.failed": "#af5f00", "error": "#af5f00"},
    "ansi": {},  # the terminal's own sixteen colours
    "none": {},  # bold, dim and the like
}
AUTO = "auto"
NAMES = (AUTO, *THEMES)
OTHER_NAMES = {"dark-ansi": "ansi", "light-ansi": "ansi"}  # of Claude Code


class ColourDepth(IntEnum):
    NONE = 0
    SIXTEEN = 4
    MANY = 8  # 256
    TRUE = 24


def find_colour_depth(environ: Mapping[str, str]) -> ColourDepth:
    """What the terminal can show. See https://no-color.org."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term == "dumb":
        return ColourDepth.NONE
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return ColourDepth.TRUE
    return ColourDepth.MANY if "256color" in term or "kitty" in term or "ghostty" in term else ColourDepth.SIXTEEN


def choose_theme(wanted: str, environ: Mapping[str, str]) -> str:
    """The name of a theme that the terminal can show. `wanted`: the setting."""
    depth = find_colour_depth(environ)
    name = OTHER_NAMES.get(wanted, wanted)
    if depth is ColourDepth.NONE or name == "none":
        return "none"
    if depth is ColourDepth.SIXTEEN or name == "ansi":
        return "ansi"
    return name if name in THEMES else ("light" if has_light_background(environ) else "dark")


def has_light_background(environ: Mapping[str, str]) -> bool:
    """By `COLORFGBG` ('0;15'), which some terminals set. Without it the background is taken for dark."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return last in ("7", "15")


def styles_of(theme: str) -> dict[str, str]:
    return ANSI | THEMES.get(theme, {})
