"""What differs between two trees, as values and as unified diffs. Pure: contents come from the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from mainspring.checkpoints.entries import ChangeKind, FileChange, FileDiff, FileEntry, GitHead, HeadMove, Tree
from mainspring.tools import patch

MOST_DIFF_LINES = 2_000

ReadContent = Callable[[str, FileEntry], bytes | None]  # of a path in a state; None: it cannot be had


class EntryChange(NamedTuple):
    path: str
    old: FileEntry | None
    new: FileEntry | None


def is_covered(tree: Tree, roots: Iterable[str], path: str) -> bool:
    """Whether the tree knows the state of this path: also that nothing was there."""
    if not is_below(path, roots):
        return False
    here = path
    while here:
        entry = tree.get(here)
        if entry is not None and (entry.why or (here != path and entry.kind != "folder")):
            return not entry.why
        here = here.rpartition("/")[0]
    return True


def is_below(path: str, roots: Iterable[str]) -> bool:
    return any(path.startswith(f"{root.rstrip('/')}/") for root in roots)


def is_same(one: FileEntry | None, other: FileEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.digest, one.target) == (other.kind, other.mode, other.digest, other.target)


def list_differences(old: Tree, new: Tree) -> list[EntryChange]:
    """All names with different entries, in order."""
    changed = [path for path, entry in new.items() if old.get(path) != entry]
    gone = [path for path in old if path not in new]
    return [EntryChange(path, old.get(path), new.get(path)) for path in sorted([*changed, *gone])]


def describe_change(change: EntryChange, read: ReadContent, *, by_user: bool = False, why: str = "") -> FileChange:
    return diff_change(change, read, by_user=by_user, why=why, text=False).change


def diff_change(
    change: EntryChange, read: ReadContent, *, by_user: bool = False, why: str = "", text: bool = True
) -> FileDiff:
    """`text`: whether the diff itself is wanted, besides the counts."""
    path, old, new = change
    kind = _kind(old, new)
    is_folder = (new or old or FileEntry("other")).kind == "folder"
    mode = kind == "changed" and old is not None and new is not None and old.mode != new.mode
    about = FileChange(path, kind, by_user=by_user, folder=is_folder, why=why, mode=mode)
    if kind == "mode" or about.folder:
        return FileDiff(about)
    before, after = _lines(path, old, read), _lines(path, new, read)
    if before is None or after is None:
        return FileDiff(_with(about, 0, 0, binary=True))
    ranges = patch.ranges_between(before, after)
    plus, minus = sum([one.new_end - one.new for one in ranges]), sum([one.old_end - one.old for one in ranges])
    shown = patch.format_patch(patch.make_hunks(before, after, ranges), path, MOST_DIFF_LINES) if text else ""
    return FileDiff(_with(about, plus, minus, binary=False), shown)


def _with(about: FileChange, plus: int, minus: int, *, binary: bool) -> FileChange:
    return replace(about, plus=plus, minus=minus, binary=binary)


def _kind(old: FileEntry | None, new: FileEntry | None) -> ChangeKind:
    if old is None or new is None:
        return "created" if old is None else "deleted"
    if old.kind != new.kind:
        return "type"
    return "mode" if (old.digest, old.target) == (new.digest, new.target) else "changed"


def _lines(path: str, entry: FileEntry | None, read: ReadContent) -> list[str] | None:
    """None: it is not text, or its content is not known."""
    if entry is None or entry.kind == "folder":
        return []
    if entry.kind == "link":
        return [f"link to {entry.target.decode(errors='replace')}"]
    data = read(path, entry)
    if data is None or b"\0" in data:
        return None
    return patch.lines_of(data.decode(errors="replace"))


def without_obvious_folders(changes: list[EntryChange]) -> list[EntryChange]:
    """Without folders that came or went together with a file in them."""
    parents = {change.path.rpartition("/")[0] for change in changes}
    return [
        change
        for change in changes
        if (change.new or change.old or FileEntry("other")).kind != "folder" or change.path not in parents
    ]


def list_head_moves(before: tuple[GitHead, ...], after: tuple[GitHead, ...]) -> tuple[HeadMove, ...]:
    now = {head.folder: head for head in after}
    return tuple(
        [HeadMove(head, now.get(head.folder, GitHead(head.folder))) for head in before if now.get(head.folder) != head]
    )
