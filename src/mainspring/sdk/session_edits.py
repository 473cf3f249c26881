"""Stored sessions, changed: named, tagged, deleted, forked. Names and parameters are those of `claude-agent-sdk`.

Nothing is rewritten: a name is one more line at the end, also while a session is under way, and the last one counts. A
fork is there as a whole or not at all, and its source is only read. Ids are checked before they become part of a path.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from mainspring.messages_api import format_timestamp
from mainspring.sdk.session_info import note_prompt
from mainspring.sdk.sessions import SUFFIX, SessionFile, entries_in, files_of, is_id, payload_of
from mainspring.sdk.transcripts import Entry, as_entry, is_said, parent_of, reply_id
from mainspring.secrets.held import mask_secrets
from mainspring.sessions.paths import (
    draft_of,
    open_file,
    open_folder_of,
    payload_file,
    remove_session,
    rename_session_file,
    side_folder,
)

UNSEEN = frozenset(("Cf", "Co", "Cn"))  # classes of characters: format, private, none; they hide in a tag
LEFT_BEHIND = ("teamName", "agentName", "slug", "sourceToolAssistantUUID")  # of the session that a line is copied from
MOST_ROUNDS = 10  # in which a tag must settle


@dataclass
class ForkSessionResult:
    session_id: str  # the new one


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Raises `ValueError` for what is no id or no title, `FileNotFoundError` if there is no such session."""
    check_id(session_id)
    _append(session_id, title_entry(session_id, title), directory)


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """None takes a tag away. Raises as `rename_session`."""
    check_id(session_id)
    _append(session_id, tag_entry(session_id, tag), directory)


def delete_session(session_id: str, directory: str | None = None) -> None:
    """The session's file, and what is kept beside it: its sub-agents, large content, earlier versions of files.

    The file goes last: should the rest resist, the session is still listed, and can be deleted again.
    """
    file = _found(session_id, directory).file
    beside = Path(side_folder(file))
    if beside.is_symlink():
        beside.unlink()  # what it leads to is not ours
    elif beside.is_dir():
        shutil.rmtree(beside)
    file.unlink()


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """A copy of the conversation under a new id, up to a message and with it; the messages have new ids, too.

    Raises `ValueError` for ids that are none, for a message that is not there, and if there is nothing to copy;
    `FileNotFoundError` if there is no such session.
    """
    check_id(session_id)
    check_message_id(up_to_message_id)
    source = _found(session_id, directory).file
    new_id, lines = fork_of(list(entries_in(source)), session_id, up_to_message_id, title)
    file = source.with_name(new_id + SUFFIX)
    draft = draft_of(file)
    try:
        for name in filter(None, map(payload_of, lines)):
            _share_payload(name, source, file)
        _write_new(draft, lines)
        rename_session_file(draft, os.fspath(file))
    except BaseException:
        remove_session(draft)
        shutil.rmtree(side_folder(file), ignore_errors=True)
        raise
    return ForkSessionResult(new_id)


# --- what is checked ----------------------------------------------------------------------------------------------


def check_id(session_id: str) -> None:
    if not is_id(session_id):
        raise ValueError(f"Invalid session_id: '{session_id}' is no UUID; 'list_sessions()' names those that there are")


def check_message_id(message_id: str | None) -> None:
    if message_id and not is_id(message_id):
        raise ValueError(f"Invalid up_to_message_id: '{message_id}' is no UUID; 'get_session_messages()' has them")


def _found(session_id: str, directory: str | None) -> SessionFile:
    check_id(session_id)
    found = next(files_of(session_id, directory), None)
    if found is None:
        raise session_not_found(session_id, f"the folder '{directory}'" if directory else "any folder")
    return found


def session_not_found(session_id: str, where: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"Session '{session_id}' not found in {where}; 'list_sessions()' names those that there are"
    )


# --- lines that are added -------------------------------------------------------------------------------------------


def title_entry(session_id: str, title: str) -> Entry:
    if not title.strip():
        raise ValueError(f"title must be non-empty, and is '{title}'")
    return {"type": "custom-title", "customTitle": title.strip(), "sessionId": session_id}


def tag_entry(session_id: str, tag: str | None) -> Entry:
    shown = strip_invisible(tag).strip() if tag is not None else ""
    if tag is not None and not shown:
        raise ValueError("tag must be non-empty: it has no character that can be seen (use None to clear)")
    return {"type": "tag", "tag": shown, "sessionId": session_id}


def strip_invisible(text: str) -> str:
    """Without what cannot be seen. What is taken away may bring the next such character together, hence the rounds."""
    for _ in range(MOST_ROUNDS):
        before, plain = text, unicodedata.normalize("NFKC", text)
        text = "".join([character for character in plain if unicodedata.category(character) not in UNSEEN])
        if text == before:
            break
    return text


def _append(session_id: str, entry: Entry, directory: str | None) -> None:
    """One write, at the end whoever else writes there. A line that a crash has torn is closed first (settled 7)."""
    file = _found(session_id, directory).file
    fd = open_file(os.fspath(file), os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        _write_all(fd, (b"\n" if torn else b"") + mask_secrets(line_of(entry)))
    finally:
        os.close(fd)


def line_of(entry: Entry) -> bytes:
    """In ASCII: so half a character stays what it was, and no line end of another script splits the line."""
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


# --- forks ------------------------------------------------------------------------------------------------------------


def fork_of(entries: list[Entry], session_id: str, up_to: str | None, title: str | None) -> tuple[str, list[Entry]]:
    """The id of the copy, and its lines. For files and for stores alike."""
    said = _up_to([entry for entry in entries if is_said(entry) and not entry.get("isSidechain")], up_to, session_id)
    kept = [entry for entry in said if entry["type"] != "progress"]
    if not kept:
        raise ValueError(f"Session '{session_id}' has no messages to fork")
    new_id, at = str(uuid4()), timestamp_now()
    copy = TranscriptCopy(said, session_id, new_id)
    lines = [copy.of(entry) | {"timestamp": entry.get("timestamp", at)} for entry in kept]
    lines[-1]["timestamp"] = at  # so it is the newest, for whoever goes by the time
    if replaced := _replacements(entries, session_id):
        lines.append(stamp_entry({"type": "content-replacement", "sessionId": new_id, "replacements": replaced}, at))
    name = (title or "").strip() or f"{title_of(entries) or 'Forked session'} (fork)"
    lines.append(stamp_entry({"type": "custom-title", "sessionId": new_id, "customTitle": name}, at))
    return new_id, lines


def _up_to(said: list[Entry], message_id: str | None, session_id: str) -> list[Entry]:
    if not message_id:
        return said
    places = [place for place, entry in enumerate(said) if entry["uuid"] == message_id]
    if said and not places:
        raise ValueError(f"Message '{message_id}' not found in session '{session_id}'")
    return said[: places[0] + 1] if places else said


class TranscriptCopy:
    """Lines under new ids, with links that lead where they led."""

    def __init__(self, said: list[Entry], session_id: str, new_id: str) -> None:
        self._by_id = {entry["uuid"]: entry for entry in said}
        self._new = {uuid: str(uuid4()) for uuid in self._by_id}
        self._session_id, self._new_id = session_id, new_id

    def of(self, entry: Entry) -> Entry:
        uuid, logical = entry["uuid"], entry.get("logicalParentUuid")
        line = entry | {
            "uuid": self._new[uuid],
            "parentUuid": self._parent(entry),
            "logicalParentUuid": self._new.get(logical) if isinstance(logical, str) and logical else logical,
            "sessionId": self._new_id,
            "isSidechain": False,
            "forkedFrom": {"sessionId": self._session_id, "messageUuid": uuid},
        }
        if after := self._kept_after(entry):
            line["compactMetadata"] = entry["compactMetadata"] | {"keptAfter": after}
        return {name: value for name, value in line.items() if name not in LEFT_BEHIND}

    def _parent(self, entry: Entry) -> str | None:
        """The next one above that is copied: lines of progress are not."""
        passed: set[str] = set()
        parent = parent_of(entry)
        while parent is not None and parent in self._by_id and parent not in passed:
            passed.add(parent)
            if self._by_id[parent]["type"] != "progress":
                return self._new[parent]
            parent = parent_of(self._by_id[parent])
        return None

    def _kept_after(self, entry: Entry) -> str | None:
        """Our own note at a compaction. If it names a user's message it would still be understood in this copy, and no
        longer in a copy of that. The id of a reply stands in its lines and stays what it is."""
        noted = (as_entry(entry.get("compactMetadata")) or {}).get("keptAfter")
        named = self._by_id.get(noted) if isinstance(noted, str) else None
        return self._new[named["uuid"]] if named is not None and not reply_id(named) else None


def _replacements(entries: Iterable[Entry], session_id: str) -> list[Any]:
    found: list[Any] = []
    for entry in entries:
        if entry.get("type") == "content-replacement" and entry.get("sessionId") == session_id:
            listed: Any = entry.get("replacements")
            found += listed if isinstance(listed, list) else []
    return found


def timestamp_now() -> str:
    return format_timestamp(int(time.time() * 1000))


def stamp_entry(entry: Entry, at: str) -> Entry:
    return entry | {"uuid": str(uuid4()), "timestamp": at}


def title_of(entries: Iterable[Entry]) -> str:
    known: dict[str, Any] = {}
    for entry in entries:
        note_prompt(known, entry)
        known.update({name: entry[name] for name in ("customTitle", "aiTitle") if isinstance(entry.get(name), str)})
    wanted = ("customTitle", "aiTitle", "first_prompt", "command_fallback")
    return next((known[name] for name in wanted if known.get(name)), "")


def _write_new(draft: str, lines: list[Entry]) -> None:
    fd = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for line in lines:
            _write_all(fd, line_of(line))
    finally:
        os.close(fd)


def _share_payload(name: str, source: Path, file: Path) -> None:
    """Content that is too large for a line is written once and never changed, so both may have the same file."""
    theirs, ours = payload_file(source, name), payload_file(file, name)
    if not name.isalnum() or os.path.exists(ours):  # noqa: PTH110  # the places are strings
        return
    with open_folder_of(ours) as (fd, own_name):
        try:
            os.link(theirs, own_name, dst_dir_fd=fd)
            return
        except OSError:  # another file system
            pass
    with suppress(FileNotFoundError):  # then its beginning stands for it, there as here
        data = Path(theirs).read_bytes()
        with os.fdopen(open_file(ours, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as copy:
            copy.write(data)
