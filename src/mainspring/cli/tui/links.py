"""Hyperlinks (OSC 8) in printed text: addresses in it, and the files of tool calls.

A link shows where it leads: its text is the address or the path itself. Only http, https and file links are written,
with targets of printable ASCII, and only to terminals that are known to support them; others print garbage, or nothing.
Escape sequences in text from models, tools and files never get here: `SafeConsole` strips them first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

ADDRESS = re.compile(r"""https?://[A-Za-z0-9\[][!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*""")
TRAILING = ".,:;!?'"  # ends the sentence rather than the address
TARGET = re.compile(r"(?:https?|file)://[!-~]+")
LONGEST = 2_000  # characters of a target; terminals have limits
PROGRAMS = frozenset(("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "WarpTerminal", "Tabby"))
TERMS = ("kitty", "ghostty", "foot", "alacritty", "wezterm", "contour", "rio")
LEAST_VTE = 5000  # GNOME Terminal and its relatives, since 0.50


def has_links(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows hyperlinks. `FORCE_HYPERLINK`, as other programs read it, decides for others."""
    forced = environ.get("FORCE_HYPERLINK")
    if environ.get("NO_COLOR") or environ.get("TERM", "") in ("", "dumb", "linux"):
        return False
    if forced:
        return forced != "0"
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM_PROGRAM") == "tmux":
        return False  # the terminal around it is not known
    if environ.get("TERM_PROGRAM") in PROGRAMS or any(name in environ["TERM"] for name in TERMS):
        return True
    version = environ.get("VTE_VERSION", "")
    return (version.isdecimal() and int(version) >= LEAST_VTE) or bool(environ.get("WT_SESSION"))


def make_file_link(path: str, root: str) -> str:
    """The target for a file; empty if it has none. With the name of this machine: over SSH, a terminal must not open
    a file of its own."""
    if not path or path.startswith("~") or not (path.startswith("/") or root):
        return ""
    from urllib.parse import quote  # seldom needed at the start

    whole = os.path.normpath(os.path.join(root, path))  # noqa: PTH118
    return f"file://{quote(os.uname().nodename)}{quote(whole, errors='surrogateescape')}"


def make_link(target: str) -> Style:
    return Style(link=target)


def add_links(segments: Iterable[Segment], width: int) -> Iterator[Segment]:
    """Link the addresses in rows of printed text."""
    row: list[Segment] = []
    for segment in segments:
        if segment.text == "\n" or segment.control:
            yield from link_row(row, width)
            yield segment
            row = []
        else:
            row.append(segment)
    yield from link_row(row, width)


def link_row(row: list[Segment], width: int) -> Iterator[Segment]:
    text = "".join([segment.text for segment in row])
    if "://" not in text:
        yield from row
        return
    ends = list(find_addresses(text, is_full=cell_len(text.rstrip()) >= width))
    at = 0
    for segment in row:
        begin, at = at, at + len(segment.text)
        cuts = sorted({begin, at, *[place for pair in ends for place in pair if begin < place < at]})
        for one, other in pairwise(cuts):
            target = next((text[first:last] for first, last in ends if first <= one and other <= last), "")
            style = (segment.style or Style.null()) + make_link(target) if target else segment.style
            yield Segment(text[one:other], style)


def find_addresses(text: str, *, is_full: bool) -> Iterator[tuple[int, int]]:
    """Where each address begins and ends. `is_full`: an address at the end of the row may continue in the next one, and
    is not linked."""
    for found in ADDRESS.finditer(text):
        address = found[0].rstrip(TRAILING)
        for opening, closing in ("()", "[]"):
            while address.endswith(closing) and address.count(closing) > address.count(opening):
                address = address[:-1].rstrip(TRAILING)
        end = found.start() + len(address)
        if not (is_full and found.end() == len(text.rstrip())) and len(address) <= LONGEST:
            yield found.start(), end


def keep_safe_link(style: Style | None, *, wanted: bool) -> Style | None:
    if style is None or not style.link:
        return style
    is_safe = wanted and len(style.link) <= LONGEST and TARGET.fullmatch(style.link) is not None
    return style if is_safe else style.update_link(None)
