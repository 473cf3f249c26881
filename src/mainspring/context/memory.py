"""Memory files: what the user and the project want every session to know (N-23, D-37).

`AGENTS.md` and `CLAUDE.md` are two names for the same thing, and both are read; a file that links to another, or has
the same text, is read once. They are read when the session starts (settled 23). Files of other directories are loaded
when a tool touches something there; a changed file is sent again. An untrusted project cannot lead out of its own
directory, neither by `@path` nor by a link (security T1). Files that cannot be read are left out and named in
`problems`, for the user; nothing here stops a session.

`find_mentions` returns which files `@path` names in a memory file or a prompt. It reads nothing, and ignores code: text
in backticks or in a fenced block is an example, not a request.

`make_excluder` implements `claudeMdExcludes`: which memory files are not loaded, by their paths. Patterns are those of
path rules.
"""

# ruff: noqa: PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from msgspec.structs import replace

from mainspring import permissions
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

NAMES = ("AGENTS.md", ".claude/CLAUDE.md", "CLAUDE.md")  # of each directory, the later ones take precedence
LOCAL = "CLAUDE.local.md"  # of one user, in a project
DEEPEST = 5  # nested includes
MOST_FILES = 60
LARGEST = MANNERS[AttachmentKind.MEMORY].most  # characters of one file
TOTAL = 64_000  # of all files at the start: about 18,000 tokens, a tenth of a usual window
TOTAL_NESTED = 32_000  # of those that are loaded later

# Files by other authors are not the project's instructions, though they are in its directory.
STRANGERS = frozenset(
    {".git", "node_modules", ".venv", "venv", "site-packages", "vendor", "third_party", "bower_components", "dist"}
)


class MemoryScope(StrEnum):
    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    NESTED = "nested"


class MemoryFile(Bundle):
    path: str  # the real path
    scope: MemoryScope
    text: str
    by: str = ""  # the including file
    size: int | None = None  # of the file in bytes, if this is only its beginning


def include_everything(path: str) -> bool:  # noqa: ARG001  # it has the shape of a rule
    return True


class MemoryLocations(Bundle):
    """Where to look, and which files may be read."""

    cwd: str
    user: str = ""  # the user's home directory
    home: str | None = None  # our directory in it
    trusted: bool = False  # the user trusts the working directory
    driven: bool = False  # a host drives us, and has chosen the directory and which sources are read
    sources: tuple[str, ...] | None = None  # as `--setting-sources` has them; None: all
    may_read: Callable[[str], bool] = include_everything  # the rules, for included files: deny applies here, too
    excluded: Callable[[str], bool] | None = None  # files that the settings exclude (`claudeMdExcludes`)
    skill_states: Mapping[str, str] = {}  # of hidden skills, by name
    skills: tuple[str, ...] | None = None  # the skills that the model sees (stream-json 3.1); None: all
    plugins: tuple[tuple[str, str, str], ...] = ()  # the plugin's name, a sort, and a folder or file of it

    @property
    def described(self) -> bool:
        """Whether to load the project's own agents, skills and commands: texts for the model, as its memory files are.
        They grant no permission and run nothing."""
        return self.trusted or self.driven


class MemoryFiles:
    """The memory of one session."""

    def __init__(self, where: MemoryLocations) -> None:
        real = os.path.realpath(where.cwd)
        self.where = replace(where, cwd=real, user=os.path.realpath(where.user) if where.user else "")
        self.project: Project = project_of(real, self.where.user)
        self.files: list[MemoryFile] = []  # the most general first
        self.problems: list[str] = []
        self._marks: dict[str, FileStamp | None] = {}  # by real path: all files that were read
        self._said: set[str] = set()  # the texts
        self._looked: set[str] = set(self.project.folders)  # directories, for files that are loaded later
        self._full = False
        self._load()

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """All memory, within its budget. `select_missing_attachments` decides what must be sent."""
        first = [file for file in self.files if file.scope is not MemoryScope.NESTED]
        later = [file for file in self.files if file.scope is MemoryScope.NESTED]
        return (*_fitted(first, TOTAL), *_fitted(later, TOTAL_NESTED))

    def touched(self, path: str) -> bool:
        """Whether a file or directory that a tool touched adds memory files. Fast for directories seen before."""
        before = len(self.files)
        for folder in self._new_folders(path):
            for name in NAMES:
                self._take(f"{folder}/{name}", MemoryScope.NESTED, self.project.root)
        return len(self.files) > before

    def places(self, sort: str) -> ConfigFolders:
        """The directories for skills, commands or agents. Those of an untrusted project cannot lead out of it (security
        T1)."""
        where, root = self.where, self.project.root
        bounds = "" if where.trusted else root
        folders = (where.cwd, root)
        return ConfigFolders(
            where.user, where.home, folders, where.described, where.sources, sort, bounds, where.may_read, where.plugins
        )

    def refresh(self) -> bool:
        """Whether any file has changed. One `lstat` for each."""
        changed = [file for file in self.files if stat_file(file.path) != self._marks[file.path]]
        news = [self._again(file) for file in changed]
        return any(news)

    @property
    def compaction(self) -> str:
        """The instructions for summaries in the files (D-36)."""
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
        """Claude Code's before ours: ours takes precedence."""
        theirs = f"{self.where.user}/.claude" if self.where.user else None
        return dict.fromkeys([folder for folder in (theirs, self.where.home) if folder])

    def _new_folders(self, path: str) -> list[str]:
        """Directories of the project down to this path that have not been checked yet."""
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
        except OSError:  # most of them do not exist
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
        self.problems.append(f"'{name}' is left out: a rule denies reading '{path.real}'")
        return False

    def _add(  # noqa: PLR0913  # all but one are where it stands
        self, path: Resolved, scope: MemoryScope, bounds: str, by: str, depth: int, *, anybodys: bool = True
    ) -> None:
        """`anybodys`: accept any owner. Otherwise the file must be ours, or it is left out."""
        if path.real in self._marks or self._is_excluded(path):
            return
        if len(self._marks) == MOST_FILES:
            if not self._full:
                self.problems.append(
                    f"'{path.real}' and more are left out: at most {MOST_FILES} memory files are loaded"
                )
            self._full = True
            return
        found = read_text(path)
        if not anybodys and found.owner not in (os.geteuid(), 0):  # of the opened file: names can be swapped
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
            self.problems.append(f"'@{names[0]}' in '{by}' is left out: includes nest at most {DEEPEST} deep")
            return
        if is_within(by, self.project.root):
            bounds = self.project.root  # whatever included it, a file of the project is the project's
        for name in names:
            self._include_one(name, by, scope, bounds, depth)

    def _include_one(self, name: str, by: str, scope: MemoryScope, bounds: str, depth: int) -> None:
        try:
            path = resolve_path(name, os.path.dirname(by), home=self.where.user or None)
            if path.kind != "file":  # most are not files: people, packages, addresses
                return
            if not self.where.trusted and not is_within(path.real, bounds):
                self.problems.append(f"'@{name}' in '{by}' is left out: it leads to '{path.real}'. {TRUST}")
            elif self._may_read(path, f"@{name}"):
                self._add(path, scope, bounds, by, depth)
        except (PathRefused, OSError) as error:
            self._complain(name, error)

    def _again(self, file: MemoryFile) -> bool:
        """Reload a changed file. New includes wait for the next session."""
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


TRUST = "Run 'mainspring trust' to allow links and includes that lead out of this folder"
GONE = "(This file was removed: what it said holds no longer.)"
NOWHERE = FileStamp(0, 0, 0)


# --- for the model ----------------------------------------------------------------------------------


def _fitted(files: list[MemoryFile], total: int) -> list[Attachment]:
    """Fit into a budget that the last files, which take precedence, use first. Truncated files say so."""
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


# --- instructions for summaries ---------------------------------------------------------------------

LONGEST_SECTION = 4_000  # characters

_TITLES = frozenset(
    {
        *("compact", "compact instructions", "compaction", "compaction instructions", "compaction rules"),
        *("summary instructions", "summary rules", "summarization instructions", "summarisation instructions"),
    }
)


def find_compact_section(text: str) -> str:
    """The part under a heading such as '# Compact instructions', down to the next heading of its level."""
    rank = 0
    lines: list[str] = []
    for line in text.split("\n"):
        hashes = len(line) - len(line.lstrip("#"))
        if hashes and (not rank or hashes <= rank):
            rank = hashes if line.strip("# \t\r").lower() in _TITLES else 0
        elif rank:
            lines.append(line)
    return "\n".join(lines).strip()[:LONGEST_SECTION]


MOST = 100  # in one file; a list of a thousand people should not cost a thousand file accesses

_TICKS = r"(`+)"
_QUOTED = r'"([^"\n]+)"(#L[\dL-]+)?'
_MENTION = rf"@(?<![^\s(]@)(?:{_QUOTED}|((?:\\ |[^\s`\\])+))"  # begins with the rare character, which is fast to search
_AFTER = ".,;:!?)]}'\"*"  # ends a sentence rather than a name
_PLAIN = r"[\w./~ +-]+"  # no call, no pattern, no line number
# 'notes.md', and neither 'app.route', 'pytest.mark.skip' nor 'types/node'
_SUFFIX = r".*\w\.([A-Za-z][A-Za-z0-9]{0,2}|conf|docx|html|ipynb|java|jpeg|json|lock|scss|text|toml|xlsx|yaml)"


def find_mentions(text: str) -> tuple[str, ...]:
    """The paths that a text mentions, in order, each once."""
    if "@" not in text:  # as in most texts
        return ()
    found: dict[str, None] = {}
    for quoted, lines, name in dict.fromkeys(re.findall(_MENTION, _without_code(text))):
        if len(found) == MOST:
            break
        if plain := quoted + lines if quoted else name.replace("\\ ", " ").rstrip(_AFTER):
            found[plain] = None
    return tuple(found)


def find_absent_mentions(text: str, folder: str) -> tuple[str, ...]:
    """Mentions that clearly mean a file that does not exist, relative to a directory. People and packages are not
    files."""
    return tuple([name for name in find_mentions(text) if re.fullmatch(_PLAIN, name) and _is_absent(name, folder)])


def _is_absent(name: str, folder: str) -> bool:
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
    """The lines outside of fenced blocks. An unclosed block extends to the end."""
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
    """Three or more backticks or tildes at the beginning of a line."""
    bare = line.lstrip(" ")
    if not bare.startswith(("```", "~~~")) or len(line) - len(bare) > 3:
        return ""
    return bare[: len(bare) - len(bare.lstrip(bare[0]))]


def _without_spans(line: str) -> str:
    """Remove text between two equal runs of backticks. Linear, unlike a regular expression for this."""
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
    """Whether a pattern matches an absolute path. A relative pattern matches at any depth."""
    anchored = [expand_tilde(pattern, home) for pattern in patterns]
    rooted = [f"//{one.lstrip('/')}" if one.startswith("/") else f"//**/{one}" for one in anchored]
    places = [permissions.parse_path_pattern(one, allow=True) for one in rooted]

    def is_excluded(path: str) -> bool:
        names = [name for name in path.split("/") if name]
        return any(
            (*names[: len(one.literal)],) == one.literal
            and permissions.matches_below(one.rest, names[len(one.literal) :])
            for one in places
        )

    return is_excluded
