"""File checkpoints of a live session: when they are taken, and what a rewind may write.

A checkpoint is taken beside the first request with a prompt, in a thread, and is complete before the first call that
can write: the tool pipeline and the hooks wait for it. Another look at the end of each run that could write separates
the changes of the user, between two runs, from those of the session.

A rewind writes back only what would be allowed now: in the workspace, and no protected path; or what a tool of this
very process has changed. So a program that could write our home could still not make us write any path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.checkpoints.compare import is_below
from mainspring.checkpoints.entries import Cause, FileCheckpoint, PromptChanges, RewindReport
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.rewind_plan import describe_results
from mainspring.checkpoints.store import HistoryInUse
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Origin, User
from mainspring.engine.tasks import await_uncancellable
from mainspring.permissions.policy import PermissionRequest
from mainspring.processes.paths import Resolved, resolve_path
from mainspring.sessions.paths import PROJECTS, history_folder
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.engine.shared_state import EnginePolicy
    from mainspring.permissions.checker import PermissionChecker

MOST_NAMED = 10
PATIENCE = 2.0  # seconds at the end of a session
FREE = ("acceptEdits", "bypassPermissions")  # modes in which edits in the workspace need no approval


class FileCheckpoints:
    """The checkpoints of one live session. Create it inside the event loop: tools call `keep` from their threads."""

    def __init__(
        self,
        history: FileHistory,
        writable: RewindPermissions,
        roots: Callable[[], tuple[str, ...]],
        tell: Callable[[str], object],
    ) -> None:
        """`roots`: the folders of the workspace. `tell` receives a warning if checkpoints cannot be stored."""
        self._history, self._writable, self._roots, self._tell = history, writable, roots, tell
        self._taken: set[str] = set()  # ids of prompts
        self._work: asyncio.Task[None] | None = None  # the last one; each waits for the one before
        self._could_write = False  # a call that can write has begun since the last checkpoint
        self._failed = False
        self._loop = asyncio.get_running_loop()

    # --- when ---

    def before_request(self, newest_first: Iterable[Message]) -> None:
        """Called when a request is about to be sent: its new prompts get a checkpoint, beside it."""
        for message in newest_first:
            if isinstance(message, Assistant):
                return
            if isinstance(message, User) and message.origin is Origin.PROMPT and message.id not in self._taken:
                self._taken.add(message.id)
                # Not at once: first the request is written.
                asyncio.get_running_loop().call_soon(self._start, "prompt", message.id, message.shown_text)

    async def before_hooks(self, prompt: User) -> None:
        """Hooks are commands, and see the prompt before there is a request."""
        if prompt.id not in self._taken:
            self._taken.add(prompt.id)
            self._start("prompt", prompt.id, prompt.shown_text)
            await self._settled()

    async def before_writing(self) -> None:
        """Called before anything that can change files. Waits for the checkpoint."""
        await self._settled()
        self._could_write = True

    def keep(self, path: Resolved) -> None:
        """Called in a tool's thread, right before it writes this file."""
        self._writable.changed.add(path.real)
        try:
            self._history.touch(path.real)
        except (OSError, UsageError) as error:
            self._loop.call_soon_threadsafe(self._fail, error)

    def end_run(self, *, works_on: bool) -> None:
        """Called when a run is over. `works_on`: something of it still runs in the background, so changes that follow
        are not the user's."""
        if self._work is None or works_on:
            return
        if self._could_write:
            self._could_write = False
            self._start("idle", ended=time.time_ns())
        else:
            self._chain(self._rest())

    async def close(self) -> None:
        """Does not wait for a first look at a large workspace: then there is no such checkpoint."""
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work], timeout=PATIENCE)
            self._failed = True  # there is no one to warn any more
            self._history.stop()
        await self._settled()
        await asyncio.to_thread(self._history.close)
        await asyncio.to_thread(self._history.discard_unstored)

    def _start(self, cause: Cause, prompt: str = "", text: str = "", *, ended: int = 0) -> None:
        """`ended`: when the run was over, in nanoseconds; what comes later is the user's."""
        self._chain(self._take(cause, prompt, text, ended))

    def _chain(self, work: Any) -> None:
        before = self._work

        async def after() -> None:
            if before is not None:
                await asyncio.wait([before])
            await work

        self._work = asyncio.get_running_loop().create_task(after())

    async def _take(self, cause: Cause, prompt: str, text: str, ended: int) -> None:
        take, roots = self._history.take, self._roots()
        try:
            await asyncio.to_thread(
                take, roots, cause, now_ms(), prompt=prompt, text=text, rests=ended > 0, ended=ended
            )
        except (OSError, UsageError) as error:
            self._fail(error)

    async def _rest(self) -> None:
        with suppress(OSError, UsageError):
            await asyncio.to_thread(self._history.rest)

    async def _settled(self) -> None:
        await asyncio.sleep(0)  # for `call_soon` in `before_request`
        while (work := self._work) is not None and not work.done():
            await asyncio.wait([work])

    def _fail(self, error: Exception) -> None:
        """A full disk must not end the run. Says it once."""
        if not self._failed:
            self._failed = True
            self._tell(f"File checkpoints are incomplete, so files may not be rewound: {describe_error(error)}")

    async def take_over(self, file: str, prompt: str) -> None:
        """The conversation of this session was rewound to before this prompt, and continues here: so do the
        checkpoints of the session in that file. Those of prompts from this one on are not listed any more."""
        await asyncio.to_thread(self._history.take_over, history_folder(file), prompt)

    async def take_back(self, file: str) -> None:
        """The rewind after which this session was continued from the one in that file is undone: that one gets what has
        happened since. It may be in use elsewhere; then its checkpoints stay as they are."""
        await self._settled()
        before = FileHistory(file)
        with suppress(OSError, UsageError):
            await asyncio.to_thread(before.take_back, self._history.folder)
        before.close()

    # --- reading ---

    async def list(self) -> tuple[FileCheckpoint, ...]:
        await self._settled()
        return await asyncio.to_thread(self._history.prompts)

    async def list_points(self) -> tuple[FileCheckpoint, ...]:
        await self._settled()
        return await asyncio.to_thread(self._history.points)

    async def changes(self, since: str | None) -> tuple[PromptChanges, ...]:
        await self._settled()
        return await asyncio.to_thread(self._history.changes_by_prompt, self._roots(), since)

    # --- going back ---

    async def rewind(
        self, to: str, *, include: Collection[str] = (), over_user: bool = False, dry_run: bool = False
    ) -> RewindReport:
        """`over_user`: files that the user changed after the session are restored, too. Raises `UsageError`."""
        await self._settled()
        return await await_uncancellable(
            asyncio.get_running_loop().create_task(
                rewind_history(
                    self._history, self._writable, to, self._roots(), include, over_user=over_user, dry_run=dry_run
                )
            )
        )

    async def recover(self) -> str:
        """Finishes a rewind that a crash has interrupted. Returns what to say about it; empty: there was none."""
        return await recover_history(self._history, self._writable)

    async def rewind_files(self, prompt: str) -> dict[str, Any]:
        """As the protocol has it (stream-json 4): there is no choice, so all that the session changed is restored."""
        report = await self.rewind(prompt, over_user=True)
        if report.failed:
            left = [f"'{one.path}' ({one.why})" for one in report.failed]
            raise UsageError(describe_incomplete_rewind(len(report.files), left))
        return {
            "canRewind": True,
            "filesChanged": [one.path for one in report.files if not one.folder],
            "insertions": report.plus,
            "deletions": report.minus,
        }


class RewindPermissions:
    """Which paths a rewind may write."""

    def __init__(self, gate: PermissionChecker, root: str, policy: Callable[[], EnginePolicy]) -> None:
        """`root`: the working directory, which rules are relative to. `policy`: the one in force."""
        self._gate, self._root, self._policy = gate, root, policy
        self.changed: set[str] = set()  # by tools of this process

    async def refused(self, paths: Iterable[str]) -> dict[str, str]:
        """Those that may not be written now, with the reasons."""
        policy = self._policy()
        standing = policy if policy.mode in FREE else replace(policy, mode=FREE[0])
        found: dict[str, str] = {}
        for path in paths:
            if path not in self.changed:
                request = PermissionRequest("Edit", {"file_path": path}, self._root)
                verdict = await self._gate.verdict(request, standing, name_literally)
                if verdict.decision != "allow":
                    found[path] = f"tools may not change it now: {verdict.reason}"
        return found


def name_literally(path: str, cwd: str) -> Resolved:
    """A rewind follows no link, so it writes exactly this name or nothing."""
    return Resolved(path, path, kind="file") if path.startswith("/") else resolve_path(path, cwd)


async def rewind_history(  # noqa: PLR0913  # as `FileCheckpoints.rewind`
    history: FileHistory,
    writable: RewindPermissions,
    to: str,
    roots: tuple[str, ...],
    include: Collection[str] = (),
    *,
    over_user: bool = False,
    dry_run: bool = False,
) -> RewindReport:
    """Restores the files of a session, live or stored. Raises `UsageError`."""
    try:
        planned = await asyncio.to_thread(
            history.plan, to, roots, include, over_user=over_user, dry_run=dry_run, at=now_ms()
        )
        refused = await writable.refused(planned.paths)
        if dry_run:
            return planned.refuse(refused)
        return await asyncio.to_thread(history.restore, planned, refused, now_ms())
    except OSError as error:
        raise UsageError(f"Cannot rewind files: {describe_error(error)}") from None


async def recover_history(
    history: FileHistory, writable: RewindPermissions, folders: tuple[str, ...] | None = None
) -> str:
    """Finishes a rewind that a crash has interrupted. Returns what to say about it; empty: there was none. `folders`:
    a workspace that the rewind must be in, if it is one of another session."""
    try:
        plan = await asyncio.to_thread(history.unfinished)
        if plan is None or (folders is not None and not share_folder(plan.roots, folders)):
            return ""
        refused = await writable.refused(plan.paths)
        results = await asyncio.to_thread(history.finish, plan, refused, now_ms())
    except HistoryInUse:  # a process that is alive works on it
        return ""
    except (OSError, UsageError) as error:
        return f"A rewind was interrupted, and cannot be finished: {describe_error(error)}"
    return describe_results(results)


async def finish_rewinds(
    sessions: Iterable[str], home: str, folders: tuple[str, ...], writable: RewindPermissions
) -> AsyncGenerator[str]:
    """Finishes the rewinds in these folders that a crash has interrupted, of these sessions in this home. Yields what
    to say."""
    for name in sessions:
        history = FileHistory(f"{home}{PROJECTS}-/{name}.jsonl", home)
        try:
            if said := await recover_history(history, writable, folders):
                yield said
        finally:
            history.close()


def share_folder(some: Iterable[str], others: tuple[str, ...]) -> bool:
    """Whether one of them is in one of the others, or the other way round."""
    return any(one == other or is_below(one, (other,)) or is_below(other, (one,)) for one in some for other in others)


def now_ms() -> int:
    return int(time.time() * 1_000)


def describe_error(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.strerror}: '{error.filename}'" if error.filename else f"{error.strerror or error}"


def describe_incomplete_rewind(done: int, left: list[str]) -> str:
    more = f", and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    return f"Restored {plural(done, 'file')}, but not {', '.join(left[:MOST_NAMED])}{more}"
