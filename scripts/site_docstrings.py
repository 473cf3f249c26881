"""For the site: the text below `Example:` in a docstring is Python, and is shown as such."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^( *)Example:\n((?:\1 {4}.*\n|\s*\n)+)", re.MULTILINE)


class ExamplesAsCode(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(fence, f"{obj.docstring.value}\n").rstrip()


def fence(found: re.Match[str]) -> str:
    body = "\n".join(line[len(found[1]) + 4 :] for line in found[2].rstrip().splitlines())
    return f"**Example**\n\n```python\n{body}\n```\n\n"
