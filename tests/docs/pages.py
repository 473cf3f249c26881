"""The code blocks of the pages that are written for people.

- A block ```python title="agent.py" (or ```json, ```toml, ```markdown) is written to this file, which may begin with
  `~/`. Other Python blocks run, each in a process of its own; other JSON, TOML and Markdown is only shown.
- A block ```sh runs in bash. What a page runs, it runs in order, in one folder.
- `<!-- not run: REASON -->` on the line before a block says why it cannot run in a test.
- `<!-- model {"PROMPT": [REPLY, ...]} -->` scripts the model (`mainspring.simulator.scripts`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
FOLDERS = (".", "tutorial", "guides", "explanation")
SHOWN = ("json", "toml", "markdown")  # only written, if they have a title
# Pages that are generated or have tests of their own; the rest is for people.
ELSEWHERE = {"checklist", "compare", "library", "loop", "renames", "screens", "settings-keys"}
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]*?) -->\n\n?)?(?P<indent> *)```(?P<language>python|sh|json|toml|markdown)"
    r'(?: title="(?P<title>[^"]+)")?[^\n]*\n'
    r"(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


class CodeBlock(NamedTuple):
    language: str
    code: str
    title: str  # the file it is written to
    why: str  # it does not run


def find_pages() -> list[Path]:
    """Pages whose blocks `test_pages.py` runs."""
    pages = sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))
    return [page for page in pages if page.parent != DOCS or page.stem not in ELSEWHERE]


def find_blocks(text: str) -> list[CodeBlock]:
    return [
        CodeBlock(
            found["language"], dedent(found["code"], len(found["indent"])), found["title"] or "", found["why"] or ""
        )
        for found in BLOCK.finditer(text)
        if found["language"] not in SHOWN or found["title"]
    ]


def dedent(code: str, columns: int) -> str:
    return "".join(line[columns:] if line.strip() else line for line in code.splitlines(keepends=True))
