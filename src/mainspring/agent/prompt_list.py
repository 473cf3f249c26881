"""The prompts of a conversation, read from its session file: also those before a compaction, which a resumed session
does not have in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mainspring import sessions
from mainspring.agent.options import StartError
from mainspring.checkpoints.entries import FileCheckpoint
from mainspring.core.messages import Origin, User
from mainspring.messages_api import Unreadable

if TYPE_CHECKING:
    from mainspring.sessions.line_parser import JournalLine


def list_prompts_in_file(file: str) -> list[FileCheckpoint]:
    """The oldest first; each with its own id, since nothing is said here about files. Prompts that the conversation has
    left behind are not listed. Raises `StartError`."""
    parents, prompts, leaf = dict[str, str](), dict[str, list[FileCheckpoint]](), ""
    try:
        with sessions.JournalReader(Path(file)) as reader:
            for _, line in reader.lines():
                if line.uuid and not line.isSidechain:
                    leaf, parents[line.uuid] = line.uuid, line.parentUuid or line.logicalParentUuid or ""
                    prompts[line.uuid] = prompts_in_line(line, reader)
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    found: list[FileCheckpoint] = []
    while leaf in parents:
        found += reversed(prompts[leaf])
        leaf = parents.pop(leaf)  # once: a damaged file may have a circle
    return found[::-1]


def prompts_in_line(line: JournalLine, reader: sessions.JournalReader) -> list[FileCheckpoint]:
    if line.type != "user" or line.isMeta or not line.message:
        return []
    try:
        kept = reader.payload((line.mainspring or sessions.PLAIN).payload)
        said = sessions.user_messages(line, sessions.spoke_of(line), kept)
    except Unreadable:
        return []
    users = [one for one in said if isinstance(one, User) and one.origin is Origin.PROMPT]
    return [FileCheckpoint(one.id, one.id, one.shown_text, one.at) for one in users]
