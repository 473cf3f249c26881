"""A rule that a request breaks."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    path: str  # as the API writes it: "messages.3.content.0"; empty for the whole request
    rule: str  # a name to test against; it does not change when the words do
    message: str

    @property
    def said(self) -> str:
        """As the API would say it."""
        return f"{self.path}: {self.message}" if self.path else self.message
