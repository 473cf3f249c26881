"""Messages name pages that an installed package has: `mainspring help TOPIC`, and no file of the repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from check_wording import docstring

from mainspring.cli.flags import SUBCOMMANDS
from mainspring.help_pages import find_topics

SOURCES = Path(__file__).parents[2] / "src"
TOPIC = re.compile(r"mainspring help ([a-z][\w/-]*)")


def messages() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {id(found) for node in ast.walk(tree) if (found := docstring(node)) is not None}
        fields = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings of fields
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | fields:
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", node.value


def test_no_message_names_a_file_that_is_not_installed() -> None:
    assert [place for place, text in messages() if re.search(r"\bdocs/[\w-]+(\.md)?", text)] == []


def test_every_topic_that_a_message_names_exists() -> None:
    known = {*find_topics(), *SUBCOMMANDS, "topics"}
    named = [(place, topic) for place, text in messages() for topic in TOPIC.findall(text)]
    assert named
    assert [one for one in named if one[1] not in known] == []
