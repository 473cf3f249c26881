"""The surroundings of a session, for the model.

What is the same from session to session in one folder stands in the system prompt, whose cache it shares: folder and
platform. Where many folders are to share that cache, it goes with the first prompt instead. The date and the state of
the repository are attachments: they change, and a system prompt that changes is paid for again. Git is asked while the
first reply streams (`git.py`), so no start waits for it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mainspring.context.attachments import Attachment, AttachmentKind

if TYPE_CHECKING:
    from mainspring.context.git import GitSnapshot


def describe_workspace(cwd: str, *, git: bool) -> str:
    """For the end of the system prompt."""
    system = os.uname()
    return "\n".join(
        [
            f"Working folder: {cwd.encode(errors='replace').decode()}",
            f"Git repository: {'yes' if git else 'no'}",
            f"Platform: {system.sysname} {system.machine}",
        ]
    )


def place_apart(cwd: str, *, git: bool) -> Attachment:
    """The same, for a system prompt that is to be alike in all folders."""
    return Attachment(AttachmentKind.ENVIRONMENT, "place", describe_workspace(cwd, git=git))


def format_today(at: int) -> str:
    """`at` is in milliseconds; the day is that of the user's clock."""
    return time.strftime("%A, %Y-%m-%d", time.localtime(at / 1_000))


def make_date_attachment(at: int) -> Attachment:
    return Attachment(AttachmentKind.ENVIRONMENT, "date", f"Today is {format_today(at)}.")


def make_repository_attachment(found: GitSnapshot) -> Attachment:
    branch = f"Branch: {found.branch}" if found.branch else f"Detached at {found.head[:12]}" if found.head else ""
    return Attachment(
        AttachmentKind.ENVIRONMENT, "git", "\n\n".join([part for part in (branch, _status(found), _log(found)) if part])
    )


def _status(found: GitSnapshot) -> str:
    if found.status is None:
        return f"The state of the files is not known: {found.problem}."
    if not found.status:
        return "No file is changed."
    more = ["(There are more: run 'git status'.)"] if found.more else []
    return "\n".join(["Changed files, as in 'git status --short':", *found.status, *more])


def _log(found: GitSnapshot) -> str:
    return "\n".join(["Last commits:", *found.commits]) if found.commits else ""
