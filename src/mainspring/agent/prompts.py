"""What a front end submits: text and images, and how they are to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from mainspring.core.messages import Content, Text
from mainspring.core.value import Bundle


class Prompt(Bundle):
    content: tuple[Content, ...]
    id: str = ""  # the client's; empty: the session makes one
    data: str = ""  # piped in beside the prompt: never read for slash commands, mentions or token budgets
    literal: bool = False  # nothing in it is expanded
    origin: Mapping[str, Any] | None = None  # comes back with the result
    delivery: Literal["next_run", "steer"] = "next_run"  # steer: joins the run under way, if nothing must be expanded

    @property
    def text(self) -> str:
        """Without `data`."""
        return "".join([part.text for part in self.content if isinstance(part, Text)])


class QueuedPrompt(Bundle):
    """A prompt that waits for its run."""

    id: str
    prompt: Prompt
    restored: bool = False  # it waited already when the session was last closed: `release()` sends it


def text_prompt(text: str) -> Prompt:
    return Prompt((Text(text),))


def append_piped_data(content: tuple[Content, ...], data: str) -> tuple[Content, ...]:
    """Behind the last text, as one text with it."""
    if not data:
        return content
    if content and isinstance(last := content[-1], Text):
        return (*content[:-1], Text(last.text + data))
    return (*content, Text(data))
