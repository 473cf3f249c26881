"""`mainspring help TOPIC`: a page of the documentation, as text."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.markdown import Markdown

from mainspring.agent.options import StartError
from mainspring.cli.flags import SUBCOMMANDS, find_near_flag
from mainspring.help_pages import find_topic, find_topics, read_page, read_title

WIDTH = 100  # longer lines are hard to read
TOPICS = "topics"


def print_topic(topic: str) -> int:
    """Raises `StartError` for an unknown topic."""
    if topic == TOPICS:
        print_topics()
    elif page := find_topic(topic):
        show_page(read_page(page))
    else:
        pages = find_topics()
        names = (*SUBCOMMANDS, *pages, *[name.rpartition("/")[2] for name in pages], TOPICS)
        near = find_near_flag(topic, names) or "."
        raise StartError(f"no help for '{topic}'{near} 'mainspring help topics' lists the pages")
    return 0


def print_topics() -> None:
    pages = find_topics()
    width = max(map(len, pages), default=0)
    print("Print one of these with 'mainspring help TOPIC':\n")
    for name, page in pages.items():
        print(f"  {name:<{width}}  {read_title(page)}")


def show_page(text: str) -> None:
    """In colours, and page by page, at a terminal; else as it is."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    os.environ.setdefault("LESS", "-RFX")  # colours; no pager for a page that fits; leave it on the screen
    console = Console(width=min(WIDTH, Console().width))
    with console.pager(styles=True):
        console.print(Markdown(text))
