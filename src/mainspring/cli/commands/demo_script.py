"""The demo's project, with its bug, and the model's part of the conversation. Everything else in the demo is real."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.models import Model
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.base import Retry
from mainspring.providers.scripted import Break, Pause, ScriptedReply, call, says

FILES = {
    "pages.py": '''\
def page_count(items: int, size: int) -> int:
    """How many pages of `size` it takes to show `items`."""
    return items // size
''',
    "catalog.py": """\
from pages import page_count


def last_page(titles: list[str], size: int) -> list[str]:
    return titles[(page_count(len(titles), size) - 1) * size :]
""",
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

OVERLOADED = Failure(Trouble.OVERLOADED, "Overloaded", status=529)
WAIT = 100  # milliseconds; a real provider waits for seconds

SCRIPT: tuple[ScriptedReply, ...] = (
    says(
        "I'll run the tests to see what fails.",
        call("Bash", command=RUN_TESTS),
        "They run while I am still writing this: a call that changes nothing starts as soon as it is complete, "
        "not when the reply is. So the wait for a tool is shorter, or there is none.",
    ),
    # So that a recovery can be seen: the provider tries twice more, then the loop turns to the other model.
    says(Retry(OVERLOADED, 1, WAIT), Pause(WAIT), Retry(OVERLOADED, 2, WAIT), Pause(WAIT), Break(OVERLOADED)),
    says(
        "21 items need a third, short page, but it is not counted. I'll look at the code, its caller and the tests.",
        call("Read", file_path="pages.py"),
        call("Read", file_path="catalog.py"),
        call("Read", file_path="test_pages.py"),
        "The files were opened while I was still writing. The caller relies on the count and would show the wrong page "
        "as the last one; the tests are right. So the bug is in `pages.py`.",
    ),
    says(
        "`//` rounds down and drops the page that is not full. It has to round up.",
        call(
            "Edit",
            file_path="pages.py",
            old_string="items // size",
            new_string="(items + size - 1) // size",
        ),
        "An edit waits until I have finished: a reply may yet be withdrawn, a written file cannot.",
    ),
    says(
        "Now the tests again.",
        call("Bash", command=RUN_TESTS),
    ),
    says("Fixed: `page_count` rounded down, so a short last page was lost. It rounds up now, and both tests pass."),
)


def make_demo_script(pace: int) -> list[ScriptedReply]:
    """With so many milliseconds before each piece."""
    return [replace(reply, pace=pace) for reply in SCRIPT]
