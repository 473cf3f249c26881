"""The file checkpoints of one session: taking them, listing them, what changed between them, and going back.

Changes belong to the session or to the user. After some checkpoints the session rested: its run was over, and none of
it ran in the background. Changes from such a checkpoint to the next one are the user's; all others are the session's,
but for those that the times of the files show to be made between the end of a run and the look at the workspace.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Collection
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from mainspring.checkpoints.compare import (
    EntryChange,
    diff_change,
    is_below,
    is_covered,
    is_same,
    list_differences,
    without_obvious_folders,
)
from mainspring.checkpoints.entries import (
    Cause,
    FileCheckpoint,
    FileEntry,
    PromptChanges,
    RewindReport,
    Tree,
)
from mainspring.checkpoints.restore import (
    ActionResult,
    RestorePlan,
    carry_out,
    look_at,
)
from mainspring.checkpoints.rewind_plan import (
    PREFIX,
    RewindPlan,
    RewindPlanner,
    describe_checkpoint,
    list_refusals,
    list_spans,
    users_alone,
    with_results,
)
from mainspring.checkpoints.scan import (
    SECRET,
    CheckpointLimits,
    WorkspaceScan,
    WorkspaceScanner,
    read_heads,
    without_inner,
)
from mainspring.checkpoints.store import (
    CACHE,
    LOG,
    PLAN,
    CheckpointStore,
    LogEntry,
    PackWriter,
    StoredCheckpoint,
    TouchedFile,
    digest_of,
    encode_entry,
    link_history,
    read_bytes,
    read_log,
)
from mainspring.core.errors import UsageError
from mainspring.secrets.held import mask_secrets
from mainspring.sessions.line_format import SNAPSHOT
from mainspring.sessions.paths import history_folder, size_of

LONGEST_TEXT = 200  # characters of a prompt
MANY = 100  # files: after reading as many, the memory of the scan is stored


class FileHistory:
    """Safe for several threads."""

    def __init__(
        self, session_file: str, ours: str | None = None, limits: CheckpointLimits | None = None, *, home: str = ""
    ) -> None:
        """`ours`: our home, which no checkpoint contains. `home`: the user's, which is too much for one."""
        self._file, folder = session_file, history_folder(session_file)
        self._home = home
        self._lock = threading.RLock()
        self._folder, self._limits, self._ours = folder, limits or CheckpointLimits(), ours
        self._store: CheckpointStore | None = None
        self._scanner: WorkspaceScanner | None = None
        self._last: Tree | None = None  # of the last checkpoint
        self._kept: set[str] = set()  # touched since the last checkpoint
        self._edited: set[str] = set()  # by tools since the last checkpoint
        self._stopped = False
        self._continues = False  # the history of another session

    def stop(self) -> None:
        """A checkpoint that is being taken ends with `UsageError`, and does not count. From any thread."""
        self._stopped = True

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def store(self) -> CheckpointStore:
        with self._lock:
            if self._store is None:
                self._store = CheckpointStore(self._folder)
            return self._store

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._scanner = self._last = None

    def discard_unstored(self) -> None:
        """At the end of a session that began with a rewind to the first prompt, and has no file: no process can open it
        again, and the session before it has the checkpoints."""
        with self._lock:
            if self._continues and not size_of(self._file):
                self.close()
                shutil.rmtree(self._folder, ignore_errors=True)

    def take_over(self, folder: str, prompt: str) -> None:
        """Continues the history in this folder, in ours. The prompts from this one on are not listed any more."""
        with self._lock:
            if not self.store.records:  # else it is a fork, which has them
                self.close()
                link_history(folder, self._folder)
                self._continues = True
            found = [one.number for one in self.store.records if one.prompt == prompt]
            if found:
                self.store.append(LogEntry(dropped=(found[0], self.store.records[-1].number)))

    def take_back(self, folder: str) -> None:
        """A rewind is undone, so the session goes on where it was before: this history gets all that the one in this
        folder, which has continued it, has stored since. Does nothing if both have gone on."""
        with self._lock:
            store = self.store
            store.lock()
            ours, theirs = read_bytes(f"{self._folder}/{LOG}"), read_bytes(f"{folder}/{LOG}")
            if not ours or not theirs.startswith(ours):
                return
            entries = [said for _, said in read_log(theirs[len(ours) :])]
            more = [LogEntry(listed=said.dropped) for said in entries if said.dropped is not None]
            added = [said.checkpoint.number for said in entries if said.checkpoint and said.checkpoint.prompt]
            if added:
                more.append(LogEntry(dropped=(added[0], added[-1])))
            link_history(folder, self._folder, b"".join(map(encode_entry, more)))
            self.close()

    # --- taking checkpoints ---

    def take(  # noqa: PLR0913  # what a checkpoint says
        self,
        roots: tuple[str, ...],
        cause: Cause,
        at: int,
        *,
        prompt: str = "",
        text: str = "",
        rests: bool = False,
        ended: int = 0,
    ) -> StoredCheckpoint:
        """Looks at the workspace, and stores what is new. `ended`: a time in nanoseconds; the user made the changes
        after it. Raises `OSError` and `HistoryInUse`."""
        with self._lock:
            store = self.store
            store.lock()
            number = store.records[-1].number + 1 if store.records else 1
            pack = store.new_pack()
            try:
                found = self._scan(roots, pack)
                changes = list_differences(self._newest(), found.tree)
                record = StoredCheckpoint(
                    number=number,
                    cause=cause,
                    at=at,
                    prompt=prompt,
                    text=text[:LONGEST_TEXT],
                    roots=tuple(without_inner(roots)),
                    heads=read_heads(roots),
                    changed={os.fsencode(one.path): one.new for one in changes if one.new is not None},
                    removed=tuple([os.fsencode(one.path) for one in changes if one.new is None]),
                    contents=pack.finish(),
                    rests=rests,
                    late=self._find_late(changes, ended) if ended else {},
                )
                store.append(LogEntry(checkpoint=record))
            except BaseException:
                pack.drop()
                self._scanner = None  # it remembers contents that are not stored
                raise
            self._last = found.tree
            self._kept.clear()
            self._edited.clear()
            if found.read >= MANY:
                self._store_memory()
            return record

    def _scan(self, roots: tuple[str, ...], pack: PackWriter) -> WorkspaceScan:
        store = self.store

        def keep(digest: bytes, data: bytes) -> str:
            if self._stopped:
                raise UsageError("the session ends")
            if not store.has(digest) and store.stored + pack.size + len(data) > self._limits.total:
                return f"at most {self._limits.total:,} bytes are stored per session"
            pack.add(digest, data)
            return ""

        return self._new_scanner().scan(roots, keep)

    def _new_scanner(self) -> WorkspaceScanner:
        if self._scanner is None:
            self._scanner = WorkspaceScanner(self._limits, self._ours, self._home)
            if memory := self.store.read_file(CACHE):
                self._scanner.load(memory, self.store.has)
        return self._scanner

    def _store_memory(self) -> None:
        if self._scanner is not None:
            self.store.write_file(CACHE, self._scanner.dump(), sync=False)

    def _newest(self) -> Tree:
        if self._last is None:
            records = self.store.records
            self._last = self.store.tree(records[-1].number) if records else {}
        return self._last

    def _find_late(self, changes: list[EntryChange], ended: int) -> dict[bytes, bool]:
        """What changed after this moment. A removal leaves no time, and counts as the session's; so does everything if
        the clock of the file system is ahead of ours."""
        known = self._scanner.memory.files if self._scanner is not None else {}
        late: dict[bytes, bool] = {}
        moved = set[str]()  # folders that were renamed after it, with all that is in them
        newest = 0
        for path, old, new in changes:  # a folder comes before what is in it
            if new is None:
                continue
            found = known.get(path)
            changed, written = (found.mark[2], 0) if found is not None else read_times(path)
            newest = max(newest, changed)
            within = old is None and is_below(path, moved)
            if changed > ended or within:
                late[os.fsencode(path)] = path in self._edited
            if new.kind == "folder" and old is None and changed > ended and changed != written:
                moved.add(path)
        return late if newest <= time.time_ns() else {}

    def rest(self) -> None:
        """The session has changed nothing since the last checkpoint, and nothing of it runs: what follows is the
        user's."""
        with self._lock:
            records = self.store.records
            if records and records[-1].number not in self.store.resting:
                self.store.append(LogEntry(resting=records[-1].number))

    def touch(self, path: str) -> None:
        """Before a tool changes this file: stores its state, if no checkpoint covers it."""
        with self._lock:
            store = self.store
            self._edited.add(path)
            if path in self._kept or not store.records or self._covers(path):
                return
            self._kept.add(path)
            data: list[bytes] = []
            entry = look_at(path, data=data, most=self._limits.file)
            pack = store.new_pack()
            try:
                if entry is not None and entry.kind == "file" and not entry.why:
                    entry = self._keep_touched(entry, data, pack)
                touched = TouchedFile(store.records[-1].number, os.fsencode(path), entry, pack.finish())
                store.append(LogEntry(touched=touched))
            except BaseException:
                pack.drop()
                raise

    def _keep_touched(self, entry: FileEntry, data: list[bytes], pack: PackWriter) -> FileEntry:
        if not data:
            why = f"it had {entry.size:,} bytes; at most {self._limits.file:,} are stored per file"
        elif mask_secrets(data[0]) != data[0]:
            why = SECRET
        elif self.store.stored + entry.size > self._limits.total and not self.store.has(entry.digest):
            why = f"at most {self._limits.total:,} bytes are stored per session"
        else:
            pack.add(entry.digest, data[0])
            return entry
        return replace(entry, why=why)

    def _covers(self, path: str) -> bool:
        tree, record = self._newest(), self.store.records[-1]
        if not is_covered(tree, record.roots, path):
            return False
        return path in tree or (self._scanner is not None and self._scanner.would_take(path))

    # --- listing ---

    def checkpoints(self) -> tuple[FileCheckpoint, ...]:
        """All of them, the oldest first: also those after runs and around rewinds."""
        with self._lock:
            changed, names, found = self._count_changes(), set[bytes](), list[FileCheckpoint]()
            for record in self.store.records:
                names.update(record.changed)
                names.difference_update(record.removed)
                found.append(describe_checkpoint(record, changed.get(record.number, 0), len(names)))
            return tuple(found)

    def prompts(self) -> tuple[FileCheckpoint, ...]:
        """One for each prompt that has a checkpoint."""
        with self._lock:
            dropped = {f"{PREFIX}{number}" for first, last in self.store.dropped for number in range(first, last + 1)}
            return tuple([one for one in self.checkpoints() if one.prompt_id and one.id not in dropped])

    def points(self) -> tuple[FileCheckpoint, ...]:
        """What a user can rewind to, the oldest first: the prompts, and the checkpoints before rewinds, which undo
        them."""
        with self._lock:
            listed = {one.id for one in self.prompts()}
            return tuple([one for one in self.checkpoints() if one.id in listed or one.cause == "rewind"])

    def find(self, to: str) -> StoredCheckpoint:
        """The checkpoint with this id, or before the prompt with this id. Raises `UsageError`."""
        found = [record for record in self.store.records if to in (record.prompt or None, f"{PREFIX}{record.number}")]
        if not found:
            if was_marked(self._file, to):
                raise UsageError(
                    f"Files cannot be rewound to message '{to}': an earlier version of mainspring stored its "
                    "checkpoint in another form"
                )
            raise UsageError(
                f"No file checkpoint found for message '{to}': only prompts of this session that were sent while "
                "file checkpointing was enabled have one"
            )
        return found[0]

    def _count_changes(self) -> dict[int, int]:
        counts: dict[int, set[bytes]] = {}
        owner = 0
        for record in self.store.records[:1]:
            owner = record.number
        for span in list_spans(self.store):
            owner = span.before.number if span.before.prompt else owner
            if not span.by_user and span.after.cause != "rewound":
                theirs = users_alone(span.after)
                counts.setdefault(owner, set()).update([one for one in _changed_files(span.after) if one not in theirs])
        for touched in self.store.touched:
            counts.setdefault(touched.since, set()).add(touched.path)
        return {number: len(paths) for number, paths in counts.items()}

    # --- what changed ---

    def changes_by_prompt(self, roots: tuple[str, ...], since: str | None = None) -> tuple[PromptChanges, ...]:
        """What the session changed, for each prompt, with diffs. `since`: from this prompt on."""
        with self._lock:
            first = self.find(since).number if since else 0
            groups = self._groups(roots)
            return tuple([
                PromptChanges(describe_checkpoint(record, len(shown), 0), tuple([
                    diff_change(change, self._content) for change in shown
                ]))
                for record, changes in groups
                if record.number >= first and (record.prompt or changes)
                for shown in [without_obvious_folders(changes)]
            ])  # fmt: skip

    def _groups(self, roots: tuple[str, ...]) -> list[tuple[StoredCheckpoint, list[EntryChange]]]:
        """By prompt: each path with its first and its last state."""
        found: list[tuple[StoredCheckpoint, dict[str, EntryChange]]] = []
        tree: Tree = {}
        records = self.store.records
        for number, record in enumerate(records):
            before = records[number - 1] if number else None
            changes = apply_record(tree, record)
            if before is not None and before.number not in self.store.resting and record.cause != "rewound":
                users = users_alone(record)
                _note(found[-1][1], [
                    one for one in changes if is_known_change(one) and os.fsencode(one.path) not in users
                ])  # fmt: skip
            if record.prompt or not found:
                found.append((record, {}))
        if records and records[-1].number not in self.store.resting:
            now = self._look(roots or records[-1].roots)
            _note(found[-1][1], [one for one in list_differences(tree, now) if is_known_change(one)])
        self._note_touched(found)
        return [
            (record, [one for _, one in sorted(changes.items()) if not is_same(one.old, one.new)])
            for record, changes in found
        ]

    def _note_touched(self, found: list[tuple[StoredCheckpoint, dict[str, EntryChange]]]) -> None:
        for number, one in enumerate(self.store.touched):
            path = os.fsdecode(one.path)
            later = [two for two in self.store.touched[number + 1 :] if two.path == one.path]
            owner = [changes for record, changes in found if record.number <= one.since]
            if owner:
                _note(owner[-1], [EntryChange(path, one.entry, later[0].entry if later else look_at(path))])

    def _look(self, roots: tuple[str, ...]) -> Tree:
        """The workspace now. Nothing is stored."""
        scanner = WorkspaceScanner(self._limits, self._ours, self._home)
        if self._scanner is not None:
            scanner.learn(self._scanner)
        elif memory := self.store.read_file(CACHE):
            scanner.load(memory, self.store.has)
        return scanner.scan(roots, _accept).tree

    def _content(self, path: str, entry: FileEntry) -> bytes | None:
        """Stored, or still there."""
        if (data := self.store.read(entry.digest)) is not None:
            return data
        found: list[bytes] = []
        look_at(path, data=found, most=self._limits.file)
        return found[0] if found and digest_of(found[0]) == entry.digest else None

    # --- going back ---

    def plan(  # noqa: PLR0913  # what a plan depends on
        self,
        to: str,
        roots: tuple[str, ...],
        include: Collection[str] = (),
        *,
        over_user: bool = False,
        dry_run: bool = True,
        at: int = 0,
    ) -> RewindPlan:
        """What a rewind does. Without `dry_run` it takes a checkpoint first. `include`: files, or folders with all in
        them, that are restored although the user changed them; `over_user`: all those that the session changed, too."""
        with self._lock:
            record = self.find(to)
            undo = 0
            if dry_run:
                now = self._look(roots)
            else:
                undo = self.take(roots, "rewind", at).number
                now = self._newest()
            return RewindPlanner(self.store, self._newest(), self._content).plan(
                record, now, without_inner(roots), undo, include, over_user=over_user
            )

    def restore(self, planned: RewindPlan, refused: dict[str, str], at: int) -> RewindReport:
        """Carries a plan out, except for the refused paths. Then takes a checkpoint."""
        with self._lock:
            plan, report = planned
            done = plan.without(refused)
            for path in done.paths:
                if not is_covered(self._newest(), self.store.records[-1].roots, path):
                    self.touch(path)
            self.store.begin_rewind(msgspec.msgpack.encode(done))
            results = carry_out(done, self.store.read)
            try:
                self.take(plan.roots, "rewound", at, rests=True)  # before the plan goes: it says that all is done
            finally:
                self.store.end_rewind()
            return with_results(report, [*results, *list_refusals(plan, refused)])

    # --- after a crash ---

    def unfinished(self) -> RestorePlan | None:
        """The plan of a rewind that a crash has interrupted."""
        with self._lock:
            data = self.store.read_file(PLAN)
            if data is None:
                self.store.forget_rewind()  # it had not begun
                return None
            try:
                return msgspec.msgpack.decode(data, type=RestorePlan)
            except msgspec.MsgspecError:
                self.store.end_rewind()
                return None

    def finish(self, plan: RestorePlan, refused: dict[str, str], at: int) -> list[ActionResult]:
        """Carries it out to its end."""
        with self._lock:
            self.store.lock()
            if any(record.cause == "rewound" and record.number > plan.undo for record in self.store.records):
                results = [ActionResult(one) for one in plan.actions]  # only the plan was still there
            else:
                results = carry_out(plan.without(refused), self.store.read, self.store.tree(plan.undo))
                self.take(plan.roots, "rewound", at, rests=True)
            self.store.end_rewind()
            return [*results, *list_refusals(plan, refused)]


def was_marked(session_file: str, prompt: str) -> bool:
    """Whether an earlier version stored a checkpoint of its own kind with this prompt."""
    mark = b'"messageId":"%b"' % prompt.encode()
    with suppress(OSError), open(session_file, "rb") as lines:  # noqa: PTH123  # pathlib takes 8 ms to load
        return any(line.startswith(SNAPSHOT) and b'"v":' in line and mark in line for line in lines)
    return False


def apply_record(tree: Tree, record: StoredCheckpoint) -> list[EntryChange]:
    """Brings the tree to this checkpoint, and returns the changes."""
    changes: list[EntryChange] = []
    for raw in record.removed:
        path = os.fsdecode(raw)
        changes.append(EntryChange(path, tree.pop(path, None), None))
    for raw, entry in record.changed.items():
        path = os.fsdecode(raw)
        changes.append(EntryChange(path, tree.get(path), entry))
        tree[path] = entry
    return changes


def is_known_change(change: EntryChange) -> bool:
    """Not one that only came into view or went out of it."""
    return not any(entry is not None and entry.why for entry in (change.old, change.new))


def read_times(path: str) -> tuple[int, int]:
    """When it was changed in any way, and when it was written to, in nanoseconds."""
    try:
        look = os.lstat(path)
    except OSError:
        return 0, 0
    return look.st_ctime_ns, look.st_mtime_ns


def _note(known: dict[str, EntryChange], changes: list[EntryChange]) -> None:
    for one in changes:
        before = known.get(one.path)
        known[one.path] = one if before is None else EntryChange(one.path, before.old, one.new)


def _changed_files(record: StoredCheckpoint) -> list[bytes]:
    shown = [path for path, entry in record.changed.items() if entry.kind in ("file", "link") and not entry.why]
    return [*shown, *record.removed]


def _accept(digest: bytes, data: bytes) -> str:  # noqa: ARG001  # as a scan calls it
    return ""
