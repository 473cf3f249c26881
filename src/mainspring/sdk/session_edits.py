"""Change stored sessions: rename, tag, delete, fork. Names and parameters are those of `claude-agent-sdk`.

Nothing is rewritten: a title is one more line at the end, even while a session runs, and the last one counts. A fork is
created as a whole or not at all, and its source is only read. Ids are checked before they become part of a path.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
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
    history_folder,
    open_file,
    open_folder_of,
    payload_file,
    remove_session,
    rename_session_file,
    side_folder,
)

UNSEEN = frozenset(("Cf", "Co", "Cn"))  # Unicode categories format, private, unassigned: invisible in a tag
LEFT_BEHIND = ("teamName", "agentName", "slug", "sourceToolAssistantUUID")  # of the session that a line is copied from
MOST_ROUNDS = 10  # rounds until a tag must be stable


@dataclass
class ForkSessionResult:
    """The result of `fork_session`."""

    session_id: str  # the new id


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Raises `ValueError` for an invalid id or title, `FileNotFoundError` if there is no such session."""
    check_id(session_id)
    _append(session_id, title_entry(session_id, title), directory)


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """None removes a tag. Raises as `rename_session`."""
    check_id(session_id)
    _append(session_id, tag_entry(session_id, tag), directory)


def delete_session(session_id: str, directory: str | None = None) -> None:
    """Delete the session's file and its data: subagents, large content, earlier versions of files.

    The file goes last: if deleting the rest fails, the session is still listed and can be deleted again. Raises
    `RuntimeError` if the session is in use, in this process or another one.
    """
    file = _found(session_id, directory).file
    with hold_session(file):
        _delete_with_data(file)


@contextmanager
def hold_session(file: Path) -> Generator[None]:
    """Takes the lock that a session in use holds. A link is not followed, and needs none."""
    if file.is_symlink():
        yield
        return
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"session '{file.stem}' is in use: close it first") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(fd)


def _delete_with_data(file: Path) -> None:
    for beside in (Path(history_folder(file)), Path(side_folder(file))):
        if beside.is_symlink():
            beside.unlink()  # the target of a link is not ours
        elif beside.is_dir():
            shutil.rmtree(beside)
    file.unlink()


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """Copy the conversation under a new id, up to and including a message; the messages get new ids, too.

    Raises `ValueError` for invalid ids, for an unknown message, and if there is nothing to copy; `FileNotFoundError` if
    there is no such session.
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


# --- checks -------------------------------------------------------------------------------------------------------


def check_id(session_id: str) -> None:
    if not is_id(session_id):
        raise ValueError(f"Invalid session_id: '{session_id}' is not a UUID; 'list_sessions()' lists the sessions")


def check_message_id(message_id: str | None) -> None:
    if message_id and not is_id(message_id):
        raise ValueError(
            f"Invalid up_to_message_id: '{message_id}' is not a UUID; 'get_session_messages()' has the ids"
        )


def _found(session_id: str, directory: str | None) -> SessionFile:
    check_id(session_id)
    found = next(files_of(session_id, directory), None)
    if found is None:
        raise session_not_found(session_id, f"the folder '{directory}'" if directory else "any folder")
    return found


def session_not_found(session_id: str, where: str) -> FileNotFoundError:
    return FileNotFoundError(f"Session '{session_id}' not found in {where}; 'list_sessions()' lists the sessions")


# --- appended lines ---------------------------------------------------------------------------------------------------


def title_entry(session_id: str, title: str) -> Entry:
    if not title.strip():
        raise ValueError(f"title must be non-empty, not '{title}'")
    return {"type": "custom-title", "customTitle": title.strip(), "sessionId": session_id}


def tag_entry(session_id: str, tag: str | None) -> Entry:
    shown = strip_invisible(tag).strip() if tag is not None else ""
    if tag is not None and not shown:
        raise ValueError("tag must be non-empty: it has no visible character (use None to clear)")
    return {"type": "tag", "tag": shown, "sessionId": session_id}


def strip_invisible(text: str) -> str:
    """Remove invisible characters. A removal may join parts of another one, so this runs several rounds."""
    for _ in range(MOST_ROUNDS):
        before, plain = text, unicodedata.normalize("NFKC", text)
        text = "".join([character for character in plain if unicodedata.category(character) not in UNSEEN])
        if text == before:
            break
    return text


def _append(session_id: str, entry: Entry, directory: str | None) -> None:
    """One write, at the end, safe beside other writers. A line that a crash cut short is closed first (settled 7)."""
    file = _found(session_id, directory).file
    fd = open_file(os.fspath(file), os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        _write_all(fd, (b"\n" if torn else b"") + mask_secrets(line_of(entry)))
    finally:
        os.close(fd)


def line_of(entry: Entry) -> bytes:
    """In ASCII: lone surrogates survive, and no Unicode line separator splits the line."""
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


# --- forks ------------------------------------------------------------------------------------------------------------


def fork_of(entries: list[Entry], session_id: str, up_to: str | None, title: str | None) -> tuple[str, list[Entry]]:
    """The id of the copy, and its lines. For files and for stores."""
    said = _up_to([entry for entry in entries if is_said(entry) and not entry.get("isSidechain")], up_to, session_id)
    kept = [entry for entry in said if entry["type"] != "progress"]
    if not kept:
        raise ValueError(f"Session '{session_id}' has no messages to fork")
    new_id, at = str(uuid4()), timestamp_now()
    copy = TranscriptCopy(said, session_id, new_id)
    lines = [copy.of(entry) | {"timestamp": entry.get("timestamp", at)} for entry in kept]
    lines[-1]["timestamp"] = at  # so it is the newest for readers that sort by time
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
    """Lines under new ids, with links to the same messages."""

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
        """The nearest ancestor that is copied: progress lines are not."""
        passed: set[str] = set()
        parent = parent_of(entry)
        while parent is not None and parent in self._by_id and parent not in passed:
            passed.add(parent)
            if self._by_id[parent]["type"] != "progress":
                return self._new[parent]
            parent = parent_of(self._by_id[parent])
        return None

    def _kept_after(self, entry: Entry) -> str | None:
        """Our own note at a compaction. If it names a user message, the old id would still be understood in this copy,
        but not in a copy of the copy. The id of a reply is part of its lines and does not change.
        """
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
    """Content that is too large for a line is written once and never changed, so both sessions can share the file."""
    theirs, ours = payload_file(source, name), payload_file(file, name)
    if not name.isalnum() or os.path.exists(ours):  # noqa: PTH110  # the paths are strings
        return
    with open_folder_of(ours) as (fd, own_name):
        try:
            os.link(theirs, own_name, dst_dir_fd=fd)
            return
        except OSError:  # another file system
            pass
    with suppress(FileNotFoundError):  # then its beginning is used, as in the source
        data = Path(theirs).read_bytes()
        with os.fdopen(open_file(ours, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as copy:
            copy.write(data)
