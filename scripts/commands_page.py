"""Writes `docs/reference/commands.md`: the help of every subcommand. `make docs` runs it; a test compares the two."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from unittest import mock

from mainspring.cli.flags import SUBCOMMANDS

PAGE = Path(__file__).parents[1] / "docs/reference/commands.md"
HEAD = """# Subcommands

`mainspring SUBCOMMAND --help` prints the same. [The command](../cli.md) has the flags of a conversation and of `-p`,
the exit codes, and examples.
`make docs` writes this page.
"""


def read_help(name: str) -> str:
    from mainspring.cli.main import run_subcommand

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run_subcommand([name, "--help"])
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE).strip()


def build() -> str:
    with mock.patch.dict(os.environ, COLUMNS="100"):  # argparse wraps to this
        sections = [f"\n## {name}\n\n```text\n{read_help(name)}\n```\n" for name in SUBCOMMANDS]
    return HEAD + "".join(sections)


if __name__ == "__main__":
    PAGE.write_text(build(), "utf-8")
