"""The list entry of a session, read from the two ends of its file.

Facts are a dict with the keys that `fold_session_summary` keeps in a store: those of `claude-agent-sdk`, so that each
can read what the other has stored.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.sdk.transcripts import Entry, blocks_of, content_of, entry_of, value_of
from mainspring.sessions.listing import TITLE, WINDOW
from mainspring.text import as_object


@dataclass
class SDKSessionInfo:
    """A session in a list. Times are milliseconds since 1970."""

    session_id: str
    summary: str  # its title, otherwise the last prompt, otherwise the first
    last_modified: int
    file_size: int | None = None  # bytes; None: it is in a store
    custom_title: str | None = None  # given by the user, otherwise by a model
    first_prompt: str | None = None
    git_branch: str | None = None  # at its end
    cwd: str | None = None
    tag: str | None = None
    created_at: int | None = None


# --- the two ends of a file ---------------------------------------------------------------------------------------


class FileEnds(NamedTuple):
    """64 KiB from each end, as text; twice the same for a small file."""

    head: str
    tail: str
    changed: int
    size: int


def window_of(file: Path) -> FileEnds | None:
    """None if the file cannot be read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(fd)
        head = os.pread(fd, WINDOW, 0)
        tail = os.pread(fd, WINDOW, about.st_size - WINDOW) if about.st_size > WINDOW else head
    except OSError:
        return None
    finally:
        os.close(fd)
    return make_file_ends(head, tail, modified_ms(about), about.st_size) if head else None


def modified_ms(about: os.stat_result) -> int:
    return int(about.st_mtime * 1000)  # as claude-agent-sdk rounds


def make_file_ends(head: bytes, tail: bytes, changed: int, size: int) -> FileEnds:
    return FileEnds(head.decode(errors="replace"), tail.decode(errors="replace"), changed, size)


# --- facts --------------------------------------------------------------------------------------------------------

_VALUE = re.compile(r' ?"((?:[^"\\\n]|\\.)*+)"')
_ASIDE = re.compile(r'"isSidechain": ?true')
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>")
_NOT_TYPED = re.compile(  # text that programs insert as user messages
    r"<local-command-stdout>|<session-start-hook>|<tick>|<goal>|\[Request interrupted by user[^\]]*\]"
    r"|\s*<ide_(opened_file|selection)>[\s\S]*</ide_\1>\s*$"
)


def read_facts(window: FileEnds) -> dict[str, Any]:
    """From the text: even a line that is cut in half has some facts."""
    head, tail = window.head, window.tail
    known: dict[str, Any] = {
        "is_sidechain": _ASIDE.search(head.partition("\n")[0]) is not None,
        "created_at": parse_moment(_first(head, "timestamp")),
        "cwd": _first(head, "cwd"),
        "custom_title": _last(tail, "customTitle") or _last(head, "customTitle"),
        "ai_title": _last(tail, "aiTitle") or _last(head, "aiTitle"),
        "last_prompt": _last(tail, "lastPrompt"),
        "summary_hint": _last(tail, "summary"),
        "git_branch": _last(tail, "gitBranch") or _first(head, "gitBranch"),
    }
    tagged = tail.rfind('\n{"type":"tag"') + 1
    if tagged or tail.startswith('{"type":"tag"'):
        known["tag"] = _last(tail[tagged:].partition("\n")[0], "tag")
    for line in head.split("\n"):
        if '"user"' in line and not known.get("first_prompt_locked"):
            note_prompt(known, entry_of(line) or {})
    return known


def _first(text: str, field: str) -> str:
    at = -1
    while (at := text.find(f'"{field}":', at + 1)) >= 0:
        if found := _VALUE.match(text, at + len(field) + 3):
            return _plain(found[1])
    return ""


def _last(text: str, field: str) -> str:
    at = len(text)
    while (at := text.rfind(f'"{field}":', 0, at)) >= 0:
        if found := _VALUE.match(text, at + len(field) + 3):
            return _plain(found[1])
    return ""


def _plain(written: str) -> str:
    """A JSON string, decoded."""
    meant = value_of(f'"{written}"') if "\\" in written else written
    return meant if isinstance(meant, str) else written


def parse_moment(written: object) -> int | None:
    try:
        return int(datetime.fromisoformat(written).timestamp() * 1000) if isinstance(written, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def note_prompt(known: dict[str, Any], entry: Entry) -> None:
    """The first prompt that the user typed. Slash commands count only if there is nothing else."""
    hidden = entry.get("isMeta") is True or entry.get("isCompactSummary") is True
    if known.get("first_prompt_locked") or entry.get("type") != "user" or hidden or blocks_of(entry, "tool_result"):
        return
    if typed := typed_command(entry):
        known["command_fallback"] = known.get("command_fallback") or typed
        return
    for text in texts_of(entry):
        words = text.replace("\n", " ").strip()
        if command := _COMMAND.search(words):
            known["command_fallback"] = known.get("command_fallback") or command[1]
        elif words and not _NOT_TYPED.match(words):
            short = words if len(words) <= TITLE else words[:TITLE].rstrip() + "\u2026"
            known.update(first_prompt=short, first_prompt_locked=True)
            return


def typed_command(entry: Entry) -> str:
    """The slash command that the text of a line of ours is the expansion of."""
    typed = as_object(entry.get("mainspring")).get("typed")
    return typed if isinstance(typed, str) else ""


def texts_of(entry: Entry) -> list[str]:
    content = content_of(entry)
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in blocks_of(entry, "text") if isinstance(block.get("text"), str)]


def info_of(
    session_id: str, known: dict[str, Any], changed: int, size: int | None = None, project: str | None = None
) -> SDKSessionInfo | None:
    """None for a subagent, and for a session without messages."""
    first = known.get("first_prompt" if known.get("first_prompt_locked") else "command_fallback")
    title = known.get("custom_title") or known.get("ai_title")
    summary = title or known.get("last_prompt") or known.get("summary_hint") or first
    if known.get("is_sidechain") or not summary:
        return None
    return SDKSessionInfo(
        session_id,
        summary,
        changed,
        file_size=size,
        custom_title=title or None,
        first_prompt=first or None,
        git_branch=known.get("git_branch") or None,
        cwd=known.get("cwd") or project or None,
        tag=known.get("tag") or None,
        created_at=known.get("created_at"),
    )


def info_in(session_id: str, window: FileEnds, project: str | None) -> SDKSessionInfo | None:
    return info_of(session_id, read_facts(window), window.changed, window.size, project)
