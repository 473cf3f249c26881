"""The values of file checkpoints: entries of a tree, the checkpoints of a session, and what a rewind reports."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mainspring.core.value import Bundle

DIGEST = 32  # bytes of a blake2b, as in `processes/atomic_write.py`

EntryKind = Literal["file", "link", "folder", "other"]


class FileEntry(Struct, frozen=True, array_like=True, gc=False):
    """One name in a tree. With a `why`, its content (and, of a folder, all that is below it) is not stored: a rewind
    leaves that alone."""

    kind: EntryKind
    mode: int = 0  # permission bits; 0 for a link, which has none
    digest: bytes = b""  # of a file's content
    size: int = 0
    target: bytes = b""  # of a link
    why: str = ""


Tree = dict[str, FileEntry]  # by absolute path, without links on the way

ChangeKind = Literal["created", "deleted", "changed", "mode", "type"]  # the last: a file that became a link, say
Cause = Literal["prompt", "idle", "rewind", "rewound"]


class GitHead(Struct, frozen=True, array_like=True):
    """Where HEAD of the repository of a folder was."""

    folder: str
    branch: str = ""  # empty: detached
    commit: str = ""  # empty: no commit yet, or it cannot be read


class FileCheckpoint(Bundle):
    """The workspace at one moment."""

    id: str  # accepted by `rewind`, as the id of the prompt is
    prompt_id: str = ""  # of the message; empty: it belongs to no prompt
    text: str = ""  # the prompt, shortened
    at: int = 0  # milliseconds
    cause: Cause = "prompt"  # prompt: before it; idle: after a run; rewind and rewound: before and after a rewind
    files: int = 0  # names in it
    changed: int = 0  # names that the session has changed from this checkpoint to the next prompt
    heads: tuple[GitHead, ...] = ()


class LeftOut(Bundle):
    """What a checkpoint or a rewind has left alone."""

    path: str
    why: str


class FileChange(Bundle):
    """A file that differs between two moments. The counts are of lines; 0 for files that are not text."""

    path: str
    kind: ChangeKind
    plus: int = 0
    minus: int = 0
    binary: bool = False
    by_user: bool = False  # the user changed it, too
    folder: bool = False
    why: str = ""  # why a rewind left it as it is
    mode: bool = False  # not only its content changed, but its permissions, too


class FileDiff(Bundle):
    change: FileChange
    text: str = ""  # a unified diff; empty: there is nothing to compare line by line


class PromptChanges(Bundle):
    """What the session changed between this prompt and the next one."""

    checkpoint: FileCheckpoint
    files: tuple[FileDiff, ...] = ()


class HeadMove(Bundle):
    """HEAD of a repository is not where it was at the checkpoint. A rewind never moves it."""

    before: GitHead
    after: GitHead


class RewindReport(Bundle):
    """What a rewind did or, with `dry_run`, would do. `files` has the changes that the rewind itself makes: a file that
    the session created is `deleted`."""

    to: FileCheckpoint
    dry_run: bool = False
    files: tuple[FileChange, ...] = ()  # restored
    kept: tuple[FileChange, ...] = ()  # changed by the user since, and not in `include`: left as they are
    failed: tuple[FileChange, ...] = ()  # could not be restored: `why` says more
    left_out: tuple[LeftOut, ...] = ()  # not in the checkpoint
    heads: tuple[HeadMove, ...] = ()
    undo: str = ""  # the checkpoint before this rewind: `rewind` to it to undo it; empty: no file was touched
    conversation: bool = False  # whether the conversation was rewound, too
    session_before: str = ""  # ids of the session before and after it
    session_after: str = ""
    prompt: str = ""  # the text of the prompt, to edit it

    @property
    def plus(self) -> int:
        return sum([one.plus for one in self.files])

    @property
    def minus(self) -> int:
        return sum([one.minus for one in self.files])
