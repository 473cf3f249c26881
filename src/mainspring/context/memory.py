"""Memory files: what the user and the project want every session to know (N-23, D-37).

`AGENTS.md` and `CLAUDE.md` are the same thing under two names, and both are read; one that is a link to the other, or
says the same, is read once. They are taken as they are when the session starts (settled 23). Files of folders below
come when something there is touched; a file that changes is sent again.

A project that is not trusted cannot lead out of its own folder, neither by `@path` nor by a link (security T1). What
cannot be read is left out and named in `problems`, for the user; nothing here stops a session.

`@path` in a memory file or a prompt: which files it asks for. Nothing is read here.

Not in code: what stands in backticks or in a fenced block is an example of how to write something, not a wish.

`claudeMdExcludes`: which memory files are not loaded, by their paths. Patterns are those of path rules.
"""

# ruff: noqa: PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from msgspec.structs import replace

from mainspring.context.attachments import MANNERS, Attachment, AttachmentKind, cut_with_note
from mainspring.context.project_files import (
    ConfigFolders,
    FileStamp,
    FileText,
    Project,
    project_of,
    read_text,
    stat_file,
)
from mainspring.core.value import Bundle
from mainspring.processes.paths import PathRefused, Resolved, is_within, resolve_path
from mainspring.settings.load import expand_tilde

NAMES = ("AGENTS.md", ".claude/CLAUDE.md", "CLAUDE.md")  # of each folder, the later ones count for more
LOCAL = "CLAUDE.local.md"  # of one person, in a project
DEEPEST = 5  # files that include each other
MOST_FILES = 60
LARGEST = MANNERS[AttachmentKind.MEMORY].most  # characters of one file
TOTAL = 64_000  # of all that are read at the start: about 18,000 tokens, a tenth of a usual window
TOTAL_NESTED = 32_000  # of those that come later

# What others wrote is not the project's own word, though it lies in its folder.
STRANGERS = frozenset(
    {".git", "node_modules", ".venv", "venv", "site-packages", "vendor", "third_party", "bower_components", "dist"}
)


class MemoryScope(StrEnum):
    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    NESTED = "nested"


class MemoryFile(Bundle):
    path: str  # the real one
    scope: MemoryScope
    text: str
    by: str = ""  # the file that includes it
    size: int | None = None  # of the file in bytes, if this is only its beginning


def include_everything(path: str) -> bool:  # noqa: ARG001  # it has the shape of a rule
    return True


class MemoryLocations(Bundle):
    """Where to look, and what may be looked at."""

    cwd: str
    user: str = ""  # the user's home folder
    home: str | None = None  # our own in it
    trusted: bool = False  # the user trusts the working folder
    driven: bool = False  # a program drives us, and has chosen the folder and which sources are read
    sources: tuple[str, ...] | None = None  # as `--setting-sources` has them; None: all
    may_read: Callable[[str], bool] = include_everything  # the rules, for files that are included: deny holds here, too
    excluded: Callable[[str], bool] | None = None  # files that the settings leave out (`claudeMdExcludes`)
    skill_states: Mapping[str, str] = {}  # of skills that the settings hide, by name
    skills: tuple[str, ...] | None = None  # of these the model is told (stream-json 3.1); None: of all

    @property
    def described(self) -> bool:
        """Whether the project's own agents, skills and commands are read: texts for the model, as its memory files are.
        Nothing in them grants a right or runs anything."""
        return self.trusted or self.driven


class MemoryFiles:
    """The memory of one session."""

    def __init__(self, where: MemoryLocations) -> None:
        real = os.path.realpath(where.cwd)
        self.where = replace(where, cwd=real, user=os.path.realpath(where.user) if where.user else "")
        self.project: Project = project_of(real, self.where.user)
        self.files: list[MemoryFile] = []  # the most general first
        self.problems: list[str] = []
        self._marks: dict[str, FileStamp | None] = {}  # by real path: all that were read
        self._said: set[str] = set()  # the texts
        self._looked: set[str] = set(self.project.folders)  # folders, for files that come later
        self._full = False
        self._load()

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """All that holds, within its budget. What has to be sent of it, `attachments.missing` says."""
        first = [file for file in self.files if file.scope is not MemoryScope.NESTED]
        later = [file for file in self.files if file.scope is MemoryScope.NESTED]
        return (*_fitted(first, TOTAL), *_fitted(later, TOTAL_NESTED))

    def touched(self, path: str) -> bool:
        """Whether a file or a folder that a tool worked on brings memory of its own. Quick for folders seen before."""
        before = len(self.files)
        for folder in self._new_folders(path):
            for name in NAMES:
                self._take(f"{folder}/{name}", MemoryScope.NESTED, self.project.root)
        return len(self.files) > before

    def places(self, sort: str) -> ConfigFolders:
        """Of skills, commands, agents. Those of a folder that is not trusted cannot lead out of it (security T1)."""
        where, root = self.where, self.project.root
        bounds = "" if where.trusted else root
        folders = (where.cwd, root)
        return ConfigFolders(
            where.user, where.home, folders, where.described, where.sources, sort, bounds, where.may_read
        )

    def refresh(self) -> bool:
        """Whether any file is not what it was. One `lstat` for each."""
        changed = [file for file in self.files if stat_file(file.path) != self._marks[file.path]]
        news = [self._again(file) for file in changed]
        return any(news)

    @property
    def compaction(self) -> str:
        """What the files say about summaries (D-36)."""
        return "\n\n".join([found for file in self.files if (found := find_compact_section(file.text))])

    def _load(self) -> None:
        where, project = self.where, self.project
        sources = where.sources
        if sources is None or "user" in sources:
            for folder in self._users_folders():
                for name in ("AGENTS.md", "CLAUDE.md"):
                    self._take(f"{folder}/{name}", MemoryScope.USER, "/")
        for folder in project.folders:
            bounds = project.root if is_within(folder, project.root) else folder
            if sources is None or "project" in sources:
                for name in NAMES:
                    self._take(f"{folder}/{name}", MemoryScope.PROJECT, bounds)
            if sources is None or "local" in sources:
                self._take(f"{folder}/{LOCAL}", MemoryScope.LOCAL, bounds)

    def _users_folders(self) -> Iterable[str]:
        """Claude Code's before ours: ours counts for more."""
        theirs = f"{self.where.user}/.claude" if self.where.user else None
        return dict.fromkeys([folder for folder in (theirs, self.where.home) if folder])

    def _new_folders(self, path: str) -> list[str]:
        """Folders of the project down to this path that nobody looked at yet."""
        root = self.project.root
        found: list[str] = []
        folder = path
        while is_within(folder, root) and folder != root and folder not in self._looked:
            self._looked.add(folder)
            found.append(folder)
            folder = os.path.dirname(folder)
        return [folder for folder in found[::-1] if STRANGERS.isdisjoint(folder[len(root) :].split("/"))]

    # --- one file ---------------------------------------------------------------------------------

    def _take(self, name: str, scope: MemoryScope, bounds: str) -> None:
        try:
            os.lstat(name)
        except OSError:  # as with most of them
            return
        try:
            path = resolve_path(name, "/")
            is_named_so = not path.via  # else it is a link, which could lead to anything
            if self._is_allowed(path, name, bounds) and (is_named_so or self._may_read(path, name)):
                self._add(path, scope, bounds, "", 0, anybodys=is_within(name, self.where.cwd) or bounds == "/")
        except (PathRefused, OSError) as error:
            self._complain(name, error)

    def _is_allowed(self, path: Resolved, name: str, bounds: str) -> bool:
        if not self.where.trusted and not is_within(path.real, bounds):
            self.problems.append(f"'{name}' is left out: it leads to '{path.real}'. {TRUST}")
            return False
        return True

    def _may_read(self, path: Resolved, name: str) -> bool:
        if all(self.where.may_read(place) for place in path.names):
            return True
        self.problems.append(f"'{name}' is left out: a rule denies to read '{path.real}'")
        return False

    def _add(  # noqa: PLR0913  # all but one are where it stands
        self, path: Resolved, scope: MemoryScope, bounds: str, by: str, depth: int, *, anybodys: bool = True
    ) -> None:
        """`anybodys`: whoever owns the file. Else it is ours, or left out."""
        if path.real in self._marks or self._is_excluded(path):
            return
        if len(self._marks) == MOST_FILES:
            if not self._full:
                self.problems.append(f"'{path.real}' and more are left out: {MOST_FILES} memory files are the most")
            self._full = True
            return
        found = read_text(path)
        if not anybodys and found.owner not in (os.geteuid(), 0):  # of what was opened: names can be swapped
            self.problems.append(f"'{path.asked}' is left out: it belongs to another user")  # such as one in `/tmp`
            return
        self._marks[path.real] = found.mark
        text = found.text.strip()
        if text and text not in self._said:
            self._said.add(text)
            self.files.append(MemoryFile(path.real, scope, text, by, found.size if found.cut else None))
        self._include(path.real, text, scope, bounds, depth + 1)

    def _is_excluded(self, path: Resolved) -> bool:
        excluded = self.where.excluded
        return excluded is not None and any(excluded(name) for name in (path.real, *path.names))

    def _include(self, by: str, text: str, scope: MemoryScope, bounds: str, depth: int) -> None:
        if "@" not in text:
            return
        names = find_mentions(text)
        if depth > DEEPEST and names:
            self.problems.append(f"'@{names[0]}' in '{by}' is left out: {DEEPEST} files within each other are the most")
            return
        if is_within(by, self.project.root):
            bounds = self.project.root  # whoever led here, what the project says is the project's
        for name in names:
            self._include_one(name, by, scope, bounds, depth)

    def _include_one(self, name: str, by: str, scope: MemoryScope, bounds: str, depth: int) -> None:
        try:
            path = resolve_path(name, os.path.dirname(by), home=self.where.user or None)
            if path.kind != "file":  # most are no files: people's names, packages, addresses
                return
            if not self.where.trusted and not is_within(path.real, bounds):
                self.problems.append(f"'@{name}' in '{by}' is left out: it leads to '{path.real}'. {TRUST}")
            elif self._may_read(path, f"@{name}"):
                self._add(path, scope, bounds, by, depth)
        except (PathRefused, OSError) as error:
            self._complain(name, error)

    def _again(self, file: MemoryFile) -> bool:
        """A file that has changed. What it includes anew is left for the next session."""
        try:
            found = read_text(Resolved(file.path, file.path, kind="file"))
        except (PathRefused, OSError):
            found = FileText(GONE, 0, cut=False, mark=stat_file(file.path) or NOWHERE)
        self._marks[file.path] = stat_file(file.path) and found.mark
        text = found.text.strip()
        if text == file.text:
            return False
        self.files[self.files.index(file)] = replace(file, text=text, size=found.size if found.cut else None)
        return True

    def _complain(self, name: str, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) else str(error)
        self.problems.append(f"'{name}' is left out: {why}")


TRUST = "'mainspring trust' lets this folder lead out of itself"
GONE = "(This file was removed: what it said holds no longer.)"
NOWHERE = FileStamp(0, 0, 0)


# --- what the model gets ----------------------------------------------------------------------------


def _fitted(files: list[MemoryFile], total: int) -> list[Attachment]:
    """Within a budget that the last ones, which count for more, draw on first. What was cut says so."""
    left = total
    fitted: list[Attachment] = []
    for file in reversed(files):
        most = max(0, min(LARGEST, left))
        left -= min(len(file.text), most)
        fitted.append(Attachment(AttachmentKind.MEMORY, file.path, _shown(file, most)))
    return fitted[::-1]


def _shown(file: MemoryFile, most: int) -> str:
    head = f"({file.scope} memory{f', included by {file.by!r}' if file.by else ''})\n\n"
    room = min(most, LARGEST - len(head) - LONGEST_NOTE)  # the whole stays within the limit of its kind
    if len(file.text) > room:
        return head + (cut_with_note(file.text, room, file.path) if room > LONGEST_NOTE else LEFT_OUT)
    more = f"\n[Cut: the file has {file.size:,} bytes. Read it for the rest.]" if file.size is not None else ""
    return head + file.text + more


LONGEST_NOTE = 500  # characters; it names the path, and few paths are longer
LEFT_OUT = "[Left out: memory files have more text than fits. Read it when its subject comes up.]"


# --- words about summaries --------------------------------------------------------------------------

LONGEST_SECTION = 4_000  # characters

_TITLES = frozenset(
    {
        *("compact", "compact instructions", "compaction", "compaction instructions", "compaction rules"),
        *("summary instructions", "summary rules", "summarization instructions", "summarisation instructions"),
    }
)


def find_compact_section(text: str) -> str:
    """The part under a heading such as '# Compact instructions', down to the next heading of its rank."""
    rank = 0
    lines: list[str] = []
    for line in text.split("\n"):
        hashes = len(line) - len(line.lstrip("#"))
        if hashes and (not rank or hashes <= rank):
            rank = hashes if line.strip("# \t\r").lower() in _TITLES else 0
        elif rank:
            lines.append(line)
    return "\n".join(lines).strip()[:LONGEST_SECTION]


MOST = 100  # in one file; a list of a thousand people's names should not cost a thousand looks at the disk

_TICKS = r"(`+)"
_QUOTED = r'"([^"\n]+)"(#L[\dL-]+)?'
_MENTION = (
    rf"@(?<![^\s(]@)(?:{_QUOTED}|((?:\\ |[^\s`\\])+))"  # it begins with what is rare: that is searched for quickly
)
_AFTER = ".,;:!?)]}'\"*"  # ends a sentence rather than a name
_PLAIN = r"[\w./~ +-]+"  # no call, no pattern, no line number
# 'notes.md', and neither 'app.route', 'pytest.mark.skip' nor 'types/node'
_SUFFIX = r".*\w\.([A-Za-z][A-Za-z0-9]{0,2}|conf|docx|html|ipynb|java|jpeg|json|lock|scss|text|toml|xlsx|yaml)"


def find_mentions(text: str) -> tuple[str, ...]:
    """The paths that a text asks for, in order, each once."""
    if "@" not in text:  # as with most
        return ()
    import re

    found: dict[str, None] = {}
    for quoted, lines, name in dict.fromkeys(re.findall(_MENTION, _without_code(text))):
        if len(found) == MOST:
            break
        if plain := quoted + lines if quoted else name.replace("\\ ", " ").rstrip(_AFTER):
            found[plain] = None
    return tuple(found)


def find_absent_mentions(text: str, folder: str) -> tuple[str, ...]:
    """What plainly means a file, and there is none; seen from a folder. People and packages are no files."""
    import re

    return tuple([name for name in find_mentions(text) if re.fullmatch(_PLAIN, name) and _is_absent(name, folder)])


def _is_absent(name: str, folder: str) -> bool:
    import re

    path = os.path.join(folder, os.path.expanduser(name))  # noqa: PTH111, PTH118  # pathlib takes 8 ms to load
    if os.path.lexists(path):
        return False
    first, slash, _ = name.partition("/")
    is_in_a_folder = bool(slash) and os.path.isdir(os.path.join(folder, first or "/"))  # noqa: PTH112, PTH118
    return is_in_a_folder or name.startswith("~/") or re.fullmatch(_SUFFIX, name) is not None


def _without_code(text: str) -> str:
    lines = _outside_code(text) if "```" in text or "~~~" in text else text.split("\n")
    if "`" in text:
        lines = [_without_spans(line) if "`" in line and "@" in line else line for line in lines]
    return "\n".join(lines)


def _outside_code(text: str) -> list[str]:
    """The lines that are in no fenced block. One that is not closed goes on to the end."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _fence(line)
        if fence:
            if mark.startswith(fence) and not line.strip(" `~\r\t"):
                fence = ""
        elif mark:
            fence = mark
        else:
            lines.append(line)
    return lines


def _fence(line: str) -> str:
    """Three backticks or tildes, or more, at the beginning of a line."""
    bare = line.lstrip(" ")
    if not bare.startswith(("```", "~~~")) or len(line) - len(bare) > 3:
        return ""
    return bare[: len(bare) - len(bare.lstrip(bare[0]))]


def _without_spans(line: str) -> str:
    """Without what stands between two equal runs of backticks. Linear: an expression for this is not."""
    import re

    parts = re.split(_TICKS, line)  # text, ticks, text, ticks, ..., text
    last = {ticks: place for place, ticks in enumerate(parts) if place % 2}
    kept: list[str] = []
    opened = ""
    for place, part in enumerate(parts):
        if opened:
            opened = "" if part == opened and place % 2 else opened
        elif place % 2 and last[part] > place:
            opened = part
            kept.append(" ")
        else:
            kept.append(part)
    return "".join(kept)


def make_excluder(patterns: Iterable[str], home: str) -> Callable[[str], bool]:
    """Whether a pattern matches an absolute path. One that is not absolute matches at any depth."""
    from mainspring.permissions.patterns import matches_below, parse_path_pattern

    anchored = [expand_tilde(pattern, home) for pattern in patterns]
    rooted = [f"//{one.lstrip('/')}" if one.startswith("/") else f"//**/{one}" for one in anchored]
    places = [parse_path_pattern(one, allow=True) for one in rooted]

    def is_excluded(path: str) -> bool:
        names = [name for name in path.split("/") if name]
        return any(
            (*names[: len(one.literal)],) == one.literal and matches_below(one.rest, names[len(one.literal) :])
            for one in places
        )

    return is_excluded
