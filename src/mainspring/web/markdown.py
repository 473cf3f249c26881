"""HTML as Markdown, by `html-to-markdown` in a child process (`html_child.py`; docs/decisions/0018 says why)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mainspring.core.errors import ToolError

if TYPE_CHECKING:
    from mainspring.processes.children import Children

MOST_HTML = 2_000_000  # characters; what is longer is cut
MOST_MARKDOWN = 2_000_000  # bytes
SECONDS = 15.0
MISSING = 3  # as in `html_child.py`, which is not imported: it is a program

Convert = Callable[[str, str], Awaitable[str]]  # a page and its address, which links are relative to


def make_converter(children: Children, python: str = sys.executable, seconds: float = SECONDS) -> Convert:
    async def convert(html: str, base: str) -> str:
        from mainspring.processes.child import ProcessLimits, ProcessSpec
        from mainspring.processes.output import OutputSizes

        program = f"{__file__.rpartition('/')[0]}/html_child.py"
        job = ProcessSpec(
            (python, "-I", program, base, str(MOST_MARKDOWN)),
            "/",
            {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            ProcessLimits(seconds=seconds, output=OutputSizes(head=MOST_MARKDOWN, tail=4_000)),
            stdin=html.encode("utf-8", "replace"),
        )
        try:
            ended = await children.run(job)
        except OSError as error:
            raise ToolError(f"The page is HTML, and the program that converts it does not start: {error}.") from None
        if ended.code == MISSING:
            raise ToolError(
                "The page is HTML, and what converts it is not installed: the user can install it with "
                "pip install 'mainspring[web]'. Until then, use curl in Bash."
            )
        if ended.code != 0 or ended.timed_out:
            raise ToolError("The page is HTML that takes too much time or memory to convert: use curl in Bash.")
        return ended.stdout.data.decode("utf-8", "ignore")  # a character may be cut at the end

    return convert
