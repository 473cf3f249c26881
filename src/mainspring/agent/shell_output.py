"""Commands that the user runs with `!`, for the model: each goes to it as an attachment of the next prompt.

The text is sanitized and bounded, and secrets are removed: the user ran the command for their own eyes.
"""

from __future__ import annotations

import re

from mainspring import context
from mainspring.context.attachments import Attachment, AttachmentKind
from mainspring.core.messages import User
from mainspring.secrets.redaction import redact
from mainspring.text import strip_control_characters

MOST_OUTPUT = 30_000  # characters of one command: its beginning and its end
MOST_KEPT = 20  # commands that wait for the next prompt; the oldest go first
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)(?=[^\n])")


class ShellOutputs:
    """Of one session: they wait for the next prompt."""

    def __init__(self) -> None:
        self._waiting: list[Attachment] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, command: str, output: str, ended: str) -> int:
        """`ended`: such as 'exit code 1'. Returns the number of lines that the model will get."""
        text = clean_output(output)
        head = f"$ {clean_output(command)}"
        self._waiting.append(Attachment(AttachmentKind.SHELL, "", f"{head}\n{text}\n({ended})".replace("\n\n(", "\n(")))
        del self._waiting[:-MOST_KEPT]
        return text.count("\n") + bool(text)

    def take(self, nonce: str) -> tuple[User, ...]:
        taken, self._waiting = self._waiting, []
        return tuple([context.render_attachment(one, nonce) for one in taken])


def clean_output(text: str) -> str:
    """As a terminal would leave it: without escape sequences, secrets and lines that were written over."""
    lines = _SEQUENCE.sub("", text).replace("\r\n", "\n")
    plain = strip_control_characters(_OVERWRITTEN.sub("", lines).replace("\r", "")).rstrip("\n")
    return cut_middle(redact(plain))


def cut_middle(text: str) -> str:
    if len(text) <= MOST_OUTPUT:
        return text
    half = MOST_OUTPUT // 2
    begin, end = text[:half].rpartition("\n")[0] or text[:half], text[-half:].partition("\n")[2] or text[-half:]
    return f"{begin}\n[{len(text) - len(begin) - len(end):,} characters left out]\n{end}"
