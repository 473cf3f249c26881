"""What the site changes in the pages. Of links to files outside of `docs/`, which the site does not have, only the text
stays. Comments for tests go."""

from __future__ import annotations

import re
from typing import Any

COMMENT = re.compile(r"^<!-- (?:model\s.*?|not run: [^\n]*?)-->\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    depth = page.file.src_uri.count("/") + 1
    text = COMMENT.sub("", markdown)
    return LINK.sub(lambda found: found["text"] if leaves(found["target"], depth) else found[0], text)


def leaves(target: str, depth: int) -> bool:
    """Whether a relative link goes above `docs/`, or to a folder, which is no page."""
    return target.startswith("../" * depth) or target.rstrip("/").endswith("decisions")
