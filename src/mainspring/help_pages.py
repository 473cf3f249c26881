"""The pages of the documentation, which an installed package has in `mainspring/help`, and a checkout in `docs`.

Comments on a page are for tests and for `mainspring simulate --page`, so readers do not see them.
"""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.version import PACKAGE

PLACES = (Path(PACKAGE, "help"), Path(PACKAGE).parents[1] / "docs")
INTERNAL = ("decisions", "screens", "spec", "reference/api")  # not for users, or written only when the site is built
COMMENT = re.compile(r"^<!--.*?-->\n+", re.DOTALL | re.MULTILINE)
MODEL = re.compile(r"<!-- model\s(.*?)-->", re.DOTALL)  # the replies of a page's model, as JSON
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def find_topics() -> dict[str, Path]:
    """Name of each page, such as `sessions` or `tutorial/first-answer`, and its file."""
    folder = next((place for place in PLACES if place.is_dir()), None)
    if folder is None:
        return {}
    pages = {page.relative_to(folder).with_suffix("").as_posix(): page for page in sorted(folder.rglob("*.md"))}
    return {name: page for name, page in pages.items() if not name.startswith(INTERNAL)}


def find_topic(name: str) -> Path | None:
    """By its name, or the last part of it: `ci` is `guides/ci`."""
    pages = find_topics()
    wanted = name.removesuffix(".md").strip("/")
    ends = [page for topic, page in pages.items() if topic.endswith(f"/{wanted}")]
    return pages.get(wanted) or (ends[0] if len(ends) == 1 else None)


def read_page(page: Path) -> str:
    """As readers see it."""
    return COMMENT.sub("", page.read_text("utf-8"))


def read_title(page: Path) -> str:
    found = TITLE.search(page.read_text("utf-8"))
    return found[1] if found else page.stem


def read_model_script(page: Path) -> str:
    """The JSON that scripts the page's model; empty: the page has none."""
    found = MODEL.search(page.read_text("utf-8"))
    return found[1] if found else ""
