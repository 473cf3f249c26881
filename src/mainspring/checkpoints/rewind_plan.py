"""What a rewind to a checkpoint does: which paths change back, and which are kept because the user has changed them
since. Nothing is written here: `restore.py` carries a plan out.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from mainspring.checkpoints.compare import (
    EntryChange,
    ReadContent,
    describe_change,
    is_below,
    is_covered,
    is_same,
    list_differences,
    list_head_moves,
    without_obvious_folders,
)
from mainspring.checkpoints.entries import FileChange, FileCheckpoint, FileEntry, LeftOut, RewindReport, Tree
from mainspring.checkpoints.restore import ActionResult, RestoreAction, RestorePlan, look_at, make_plan
from mainspring.checkpoints.scan import OUT_OF_SCOPE, read_heads
from mainspring.checkpoints.store import CheckpointStore, StoredCheckpoint, TouchedFile
from mainspring.text import plural

PREFIX = "checkpoint:"  # before the number, in an id
MOST_NAMED = 10  # paths in a message


class CheckpointSpan(NamedTuple):
    """The names that changed between two checkpoints, and whose changes they are."""

    before: StoredCheckpoint
    after: StoredCheckpoint
    by_user: bool


class RewindPlan(NamedTuple):
    """What a rewind would do."""

    plan: RestorePlan
    report: RewindReport

    @property
    def paths(self) -> list[str]:
        return self.plan.paths

    def refuse(self, refused: dict[str, str]) -> RewindReport:
        """The report, if these paths may not be written."""
        return with_results(
            self.report, [ActionResult(one, refused.get(os.fsdecode(one.path), "")) for one in self.plan.actions]
        )


class RewindPlanner:
    def __init__(self, store: CheckpointStore, newest: Tree, read: ReadContent) -> None:
        """`newest`: the workspace at the last checkpoint. `read` returns contents, to count lines."""
        self._store, self._newest, self._read = store, newest, read

    def plan(  # noqa: PLR0913  # what a plan depends on
        self,
        record: StoredCheckpoint,
        now: Tree,
        roots: Iterable[str],
        undo: int,
        include: Collection[str],
        *,
        over_user: bool,
    ) -> RewindPlan:
        wanted = self._store.tree(record.number)
        mine, others = self._owners(record.number, now)
        found = {
            one.path: one
            for one in self._touched_changes(record.number)
            if not is_covered(wanted, record.roots, one.path) or (one.path in now and now[one.path].why)
        }
        found |= {one.path: one for one in self._tree_changes(record, wanted, now, tuple(roots))}
        known = [one for _, one in sorted(found.items())]
        blocked = [one for one in known if why_blocked(one)]
        changes = [one for one in known if not why_blocked(one)]
        chosen: list[EntryChange] = []
        kept: list[EntryChange] = []
        for change in changes:
            users = change.path in others and not _is_included(change.path, include)
            (kept if users and not (over_user and change.path in mine) else chosen).append(change)
        chosen = _without_parents_of(kept, chosen, now)
        actions = [RestoreAction(os.fsencode(one.path), one.old, one.new) for one in chosen]
        plan = make_plan(record.number, undo, record.roots, actions)
        report = RewindReport(
            describe_checkpoint(record, 0, 0),
            files=self._describe(chosen, others),
            kept=self._describe(kept, others),
            failed=tuple([describe_change(one, self._read, why=why_blocked(one)) for one in blocked]),
            left_out=tuple([LeftOut(path, entry.why) for path, entry in sorted(wanted.items()) if entry.why]),
            heads=list_head_moves(record.heads, read_heads(tuple(roots))),
            undo=f"{PREFIX}{undo}" if undo else "",
        )
        return RewindPlan(plan, report)

    def _describe(self, changes: list[EntryChange], others: set[str]) -> tuple[FileChange, ...]:
        return tuple([
            describe_change(one, self._read, by_user=one.path in others) for one in without_obvious_folders(changes)
        ])  # fmt: skip

    def _owners(self, since: int, now: Tree) -> tuple[set[str], set[str]]:
        """The paths that the session changed since, and those that the user changed."""
        mine, others = set[str](), set[str]()
        for span in list_spans(self._store, since):
            paths = {os.fsdecode(path) for path in (*span.after.changed, *span.after.removed)}
            if span.by_user:
                others |= paths
            else:
                others.update(map(os.fsdecode, span.after.late))
                mine |= paths.difference(map(os.fsdecode, users_alone(span.after)))
        last = self._store.records[-1].number
        if now is not self._newest:
            paths = {one.path for one in list_differences(self._newest, now)}
            (others if last in self._store.resting else mine).update(paths)
        mine |= {os.fsdecode(one.path) for one in self._store.touched if one.since >= since}
        return mine, others

    def _tree_changes(
        self, record: StoredCheckpoint, wanted: Tree, now: Tree, roots: tuple[str, ...]
    ) -> list[EntryChange]:
        """From now to then. What one of the two does not know is left alone."""
        found: list[EntryChange] = []
        for path, have, want in list_differences(now, wanted):
            if is_out_of_scope(have) or is_out_of_scope(want) or not is_below(path, record.roots):
                continue  # a root itself stays as it is, too
            if want is None and ((have is not None and have.why) or not is_covered(wanted, record.roots, path)):
                continue  # a content that is not stored stays: its removal could not be undone
            seen = have if is_covered(now, roots, path) else look_at(path)
            if not is_same(seen, want):
                found.append(EntryChange(path, seen, want))
        return found

    def _touched_changes(self, since: int) -> list[EntryChange]:
        """Files that no checkpoint covered when a tool changed them: as before the first such change."""
        first: dict[str, TouchedFile] = {}
        for one in self._store.touched:
            if one.since >= since:
                first.setdefault(os.fsdecode(one.path), one)
        found = [EntryChange(path, look_at(path), one.entry) for path, one in first.items()]
        return [one for one in found if not is_same(one.old, one.new)]


def list_spans(store: CheckpointStore, since: int = 0) -> list[CheckpointSpan]:
    """Between one checkpoint and the next, from this one on."""
    return [
        CheckpointSpan(before, after, before.number in store.resting)
        for before, after in pairwise(store.records)
        if before.number >= since
    ]


def list_refusals(plan: RestorePlan, refused: dict[str, str]) -> list[ActionResult]:
    found = [(one, refused.get(os.fsdecode(one.path), "")) for one in plan.actions]
    return [ActionResult(one, why) for one, why in found if why]


def describe_results(results: list[ActionResult]) -> str:
    """Of a rewind that was finished after a crash."""
    left = [f"'{os.fsdecode(one.action.path)}' ({one.why})" for one in results if one.why]
    said = f"A rewind of files was interrupted by a crash. It is finished now: {plural(len(results), 'path')}"
    return f"{said}, but not {', '.join(left[:MOST_NAMED])}" if left else said


def describe_checkpoint(record: StoredCheckpoint, changed: int, files: int) -> FileCheckpoint:
    return FileCheckpoint(
        f"{PREFIX}{record.number}", record.prompt, record.text, record.at, record.cause, files, changed, record.heads
    )


def with_results(report: RewindReport, results: list[ActionResult]) -> RewindReport:
    """What could not be done goes from `files` to `failed`."""
    why = {os.fsdecode(one.action.path): one.why for one in results if one.why}
    named = {one.path for one in report.files}
    failed = [replace(one, why=why[one.path]) for one in report.files if one.path in why]
    failed += [*report.failed]
    failed += [
        FileChange(path, "deleted" if entry.action.want is None else "changed", folder=True, why=entry.why)
        for entry in results
        if entry.why and (path := os.fsdecode(entry.action.path)) not in named
    ]
    return replace(report, files=tuple([one for one in report.files if one.path not in why]), failed=tuple(failed))


def is_out_of_scope(entry: FileEntry | None) -> bool:
    return entry is not None and entry.why in OUT_OF_SCOPE


def why_blocked(change: EntryChange) -> str:
    """Why this path cannot be restored; empty: it can."""
    for entry in (change.new, change.old):
        if entry is not None and entry.why and (entry is change.new or entry.kind != "file"):
            return entry.why
    return ""


def users_alone(record: StoredCheckpoint) -> set[bytes]:
    """What only the user changed, after the run and before this look at the workspace."""
    return {path for path, edited in record.late.items() if not edited}


def _is_included(path: str, include: Collection[str]) -> bool:
    return path in include or is_below(path, include)


def _without_parents_of(kept: list[EntryChange], chosen: list[EntryChange], now: Tree) -> list[EntryChange]:
    """Without folders that would go although something in them stays."""
    going = {one.path for one in chosen if one.new is None or one.new.kind != "folder"}
    stays = {one.path for one in kept if one.old is not None}
    stays |= {path for path in now if path not in going and now[path].kind != "folder"}
    parents = set[str]()
    for path in stays:
        above = path.rpartition("/")[0]
        while above and above not in parents:
            parents.add(above)
            above = above.rpartition("/")[0]
    return [
        one
        for one in chosen
        if not (one.path in parents and one.old is not None and one.old.kind == "folder" and one.path in going)
    ]
