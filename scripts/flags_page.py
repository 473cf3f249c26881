"""Write the table of flags in docs/cli.md, from `mainspring.cli.flags`.

    .venv/bin/python scripts/flags_page.py

The rest of the page is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.cli.flags import flags_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
TABLE = re.compile(r"^\| flag \| what it does \| supported \|\n(\|.*\n)+", re.MULTILINE)


def page(text: str) -> str:
    """The page with the current table instead of the one that it has."""
    written, count = TABLE.subn(lambda _: flags_table(), text)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has {count} tables of flags, not one")
    return written


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
