"""What somebody said, as it stands on paper."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from mainspring.text import plural, strip_control_characters

MOST_LINES = 30  # of a long paste
MOST_TEXT = 8_000  # characters, if it is one long line


def render_markdown(text: str) -> tuple[RenderableType, ...]:
    lines = strip_control_characters(text[:MOST_TEXT]).splitlines() or [""]
    if len(text) > MOST_TEXT:
        lines.append("…")
    more = len(lines) - MOST_LINES
    shown = Text("\n".join(lines[:MOST_LINES]), "prompt")
    if more > 0:
        shown.append(f"\n… {plural(more, 'more line')}", "note")
    head = Text("❯ ", "prompt")
    hanging = Text("\n").join(
        [head + line if place == 0 else Text("  ") + line for place, line in enumerate(shown.split())]
    )
    return Text(), hanging
