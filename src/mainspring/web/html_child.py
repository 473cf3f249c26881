"""Child program that converts HTML to Markdown. It is a process of its own, because its input is untrusted and native
code parses it.

    python -I html_child.py BASE MOST < page.html > page.md

It has little memory and time, which does not affect our process. It imports none of our modules, so that it starts at
once.
"""

import sys
from importlib import import_module
from typing import Any

MEMORY = 512 << 20  # bytes; 2 MB of ordinary HTML take 130 MB, 2 MB of the worst that we found 760 MB
SECONDS = 10  # of the processor
MISSING = 3  # the exit code if the library is not installed


def limit_resources() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def main(base: str, most: int) -> int:
    try:
        library: Any = import_module("html_to_markdown")  # optional: type checkers may not find it
    except ImportError:
        return MISSING
    limit_resources()
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    options = library.ConversionOptions(base_url=base, inline_data_media="alt_text_only")
    content: str = library.convert(html, options).content or ""
    sys.stdout.buffer.write(content.encode("utf-8", "replace")[:most])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
