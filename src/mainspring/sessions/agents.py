"""The file of an agent: beside that of its session, with another that says whose it is (stream-json 14.4)."""

from __future__ import annotations

import os
from contextlib import suppress

from msgspec.structs import replace

from mainspring.messages_api import as_line
from mainspring.secrets.held import mask_secrets
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.opening import open_file
from mainspring.sessions.paths import agent_file


def open_journal(above: FileJournal, envelope: Envelope, agent_id: str, about: dict[str, str]) -> FileJournal:
    """As safe as that of its session, and mirrored with it. `envelope` is the session's."""
    file = agent_file(above.file, agent_id)
    journal = FileJournal.create(file, replace(envelope, agent_id=agent_id), above.options)
    if journal.stored:
        with suppress(OSError):  # who reads it can do without
            fd = open_file(meta_file(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(fd, "wb") as meta:  # noqa: PTH123  # see paths.py
                meta.write(mask_secrets(as_line(about)))
            if above.options.mirror is not None:
                above.options.mirror(file, mask_secrets(as_line({"type": "agent_metadata", **about})) + b"\n")
    return journal


def meta_file(file: str) -> str:
    return f"{file.removesuffix('.jsonl')}.meta.json"
