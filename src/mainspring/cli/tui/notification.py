"""Escape sequences that reach a user who looks at another window: notifications, the window title, and links.

Every text is sanitized and bounded here: it may come from a model. Nothing here waits or writes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.text import strip_control_characters

BELL = "\x07"
END = "\x1b\\"
LONGEST = 80  # characters of a title or a notification
OFF = "notifications_disabled"

# The setting `preferredNotifChannel`, with the names of Claude Code.
CHANNELS = {
    "terminal_bell": ("bell",),
    "iterm2": ("osc9",),
    "iterm2_with_bell": ("osc9", "bell"),
    "kitty": ("osc9",),
    "ghostty": ("osc777",),
    OFF: (),
}
# By `TERM_PROGRAM`, if nothing is set; other terminals ring.
KNOWN = {"iTerm.app": "iterm2", "WezTerm": "iterm2", "ghostty": "ghostty"}


def make_notification(words: str, channel: str, environ: Mapping[str, str]) -> str:
    """The bytes that tell the user; empty if they want none. `channel`: the setting, empty or 'auto' if not set."""
    if channel not in CHANNELS:
        found = "kitty" if "kitty" in environ.get("TERM", "") else KNOWN.get(environ.get("TERM_PROGRAM", ""), "")
        channel = found or "terminal_bell"
    text = make_plain(words)
    sequences = {"bell": BELL, "osc9": f"\x1b]9;{text}{END}", "osc777": f"\x1b]777;notify;mainspring;{text}{END}"}
    return "".join([sequences[way] for way in CHANNELS[channel]])


def make_title(words: str) -> str:
    """Set the title of the window; empty words reset it."""
    return f"\x1b]2;{make_plain(words)}{END}"


SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"


def make_plain(words: str) -> str:
    """One short line without control characters. A semicolon separates the fields of OSC 777."""
    return " ".join(strip_control_characters(words[: 4 * LONGEST]).split())[:LONGEST].replace(";", ",")
