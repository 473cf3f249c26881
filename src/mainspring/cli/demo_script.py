"""The demo's project, with its bug, and the model's part of the conversation. Everything else in the demo is real."""

from __future__ import annotations

from mainspring.core.config import Config
from mainspring.core.messages import Block, Text, ToolCall
from mainspring.core.models import Model
from mainspring.core.reasons import Failure, Trouble

FILES = {
    "pages.py": '''\
def page_count(items: int, size: int) -> int:
    """How many pages of `size` it takes to show `items`."""
    return items // size
''',
    "test_pages.py": """\
import unittest

from pages import page_count


class PageCount(unittest.TestCase):
    def test_full_pages(self) -> None:
        self.assertEqual(page_count(20, 10), 2)

    def test_short_last_page(self) -> None:
        self.assertEqual(page_count(21, 10), 3)
""",
}

TASK = "A test of this project fails. Find the bug and fix it."
RUN_TESTS = '"$PYTHON" -m unittest'  # the Bash tool says which Python that is
CONFIG = Config(model=Model("scripted-model"), fallbacks=(Model("scripted-fallback"),))

Line = tuple[Block, ...] | Failure  # what one request to the model brings

SCRIPT: tuple[Line, ...] = (
    (
        Text("I'll run the tests to see what fails."),
        ToolCall("call-1", "Bash", {"command": RUN_TESTS}),
    ),
    Failure(Trouble.OVERLOADED, "Overloaded", status=529),  # so that a recovery can be seen
    (
        Text("21 items need a third, short page, but it is not counted. I'll look at the code."),
        ToolCall("call-2", "Read", {"file_path": "pages.py"}),
    ),
    (
        Text("`//` rounds down and drops the page that is not full. It has to round up."),
        ToolCall(
            "call-3",
            "Edit",
            {"file_path": "pages.py", "old_string": "items // size", "new_string": "(items + size - 1) // size"},
        ),
    ),
    (
        Text("Now the tests again."),
        ToolCall("call-4", "Bash", {"command": RUN_TESTS}),
    ),
    (Text("Fixed: `page_count` rounded down, so a short last page was lost. It rounds up now, and both tests pass."),),
)
