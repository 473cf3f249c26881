"""Checks what a line reads besides the files that it names against the rules about reading.

If a rule denies reading, a command is allowed without asking only if everything it reads is known (settled 40). Files
that it may read in passing are doubts; unknown reads are doubts only if no allow rule names the command and no sandbox
hides the files.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Sequence

from mainspring.permissions import commands
from mainspring.permissions.commands import WorkingDirectories
from mainspring.permissions.coverage import may_cover
from mainspring.permissions.files import FileRules
from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.analyze import CommandAnalysis, base_name
from mainspring.permissions.shell.file_effects import find_touched_files
from mainspring.permissions.shell.reads import CommandReads, ReadTree, find_reads, may_make_links
from mainspring.permissions.shell.values import UNKNOWN, Redirect, ShellWord, names
from mainspring.permissions.targets import format_word, path_of
from mainspring.processes.paths import PathRefused

_MAGIC = re.compile(r"[*?\[\]\\:^]")  # in a path argument of git
_ALL = "git would print what files are or were in"
# The second form asks for a parent, which only a commit has.
_COMMIT = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*|@?\{[^{}]*\})*\Z|[^:]+[~^][0-9]*\Z", re.ASCII)
_STAGE = re.compile(r"\A:[0-3]:")
_NAMES_ONLY = names("ls dir du tree stat readlink realpath file")


class ReadCheck:
    def __init__(self, sight: CommandAnalysis, here: WorkingDirectories, files: FileRules) -> None:
        self.sight = sight
        self.here = here
        self.own = files
        self.rules = files.rules
        self.files: list[ShellWord] = []  # certainly read
        self.doubts: list[str] = []
        self.unenumerated: list[str] = []

    def check(self, run: Sequence[tuple[ShellWord, ...]], redirects: Sequence[Redirect]) -> None:
        called = self._functions()
        for words in run:
            if id(words[0]) not in called:
                self._command(words)
        if self.own.policy.reads_enforced:
            return
        if self.here.lost and _reads_files(run, redirects):
            self.unenumerated.append("it reads in a folder that its words do not name, and a rule denies some")
        if _reads_what_it_unpacks(run, redirects):
            self.unenumerated.append("it may put links in the place of the files that it reads, and a rule denies some")

    def _functions(self) -> set[int]:
        """Names that certainly call a function of the line, whose body is analyzed by itself."""
        script = self.sight.script
        if not script.functions or any(seen.words[0].text == "unset" for seen in self.sight.commands):
            return set()
        first = dict(reversed(script.functions))
        called = [command.words[0] for command in script.commands if command.words]
        return {id(word) for word in called if word.start >= first.get(word.text, sys.maxsize)}

    def named(self, path: str, *, whole: bool = False) -> None:
        """A path that is opened under another name than the rules use. `whole`: with everything in it."""
        for cwd in self.here.cwds if self.rules.reading else ():
            if self.own.leads_elsewhere(path, cwd):
                self.doubts.append(f"'{path}' leads somewhere that only the kernel knows")
            if self.own.holds_commits(path, cwd, whole=whole):
                self.doubts.append(f"'{path}' holds files as they were, and a rule is about some")

    def _command(self, words: tuple[ShellWord, ...]) -> None:
        found = find_reads(words)
        self.files.extend(found.files)
        for tree in found.trees:
            self._tree(tree)
        doubt = found.unknown if found.unknown and not self.own.policy.reads_enforced else ""
        doubt = doubt or self._content(found)
        if doubt and not self._is_vouched(words):
            self.unenumerated.append(f"{doubt}, and a rule keeps files from being read: {self.rules.reading[0].text}")

    def _is_vouched(self, words: tuple[ShellWord, ...]) -> bool:
        """An allow rule names the command. One for every command does not."""
        return any(
            pattern is not None
            and pattern.words
            and commands.pattern_covers(pattern, words)
            and may_cover(pattern, words)
            for _, pattern in self.rules.allow
        )

    # --- whole folders -----------------------------------------------------------------------------------------

    def _tree(self, tree: ReadTree) -> None:
        self.named(path_of(tree.word), whole=True)
        for cwd in self.here.cwds:
            found = self._expanded(tree, cwd)
            if found is None or any(
                self.own.read_in_passing(path, cwd, hidden=tree.hidden, follow=tree.follow) for path in found
            ):
                self.doubts.append(
                    f"it is about all of '{format_word(tree.word)}', and a rule is about something in it"
                )

    def _expanded(self, tree: ReadTree, cwd: str) -> list[str] | None:
        """The paths that a word matches; None: not known."""
        word = tree.word
        if word.exact:
            return [path_of(word)]
        folder, _, last = path_of(word).rpartition("/")
        if not (tree.expand and word.glob) or UNKNOWN in folder:
            return None
        start = posixpath.join(cwd, folder)
        listed = [entry.path.rpartition("/")[2] for entry in self.own.disk.list_folder(start)]
        return [posixpath.join(start, name) for name in listed if glob_matches(last.split(UNKNOWN), name)]

    # --- git -------------------------------------------------------------------------------------------------------

    def _content(self, found: CommandReads) -> str:
        """Why git may print files that a rule is about, or ""."""
        if found.history is None and not found.tracked:
            return ""
        for cwd in self.here.cwds:
            top = self.own.disk.repository(cwd)
            words = (*(found.history or ()), *found.paths)
            in_tree = found.tracked and all(self._kind(word, cwd) in ("file", "folder") for word in words)
            if in_tree and not found.revisions and not self.own.tracks_what_a_rule_is_about(top):
                continue
            reason = self._commits(found, cwd, top)
            if reason:
                return reason
        return ""

    def _commits(self, found: CommandReads, cwd: str, top: str | None) -> str:
        """The words are files in commits (`HEAD:path`), paths that limit the output, or revisions."""
        limited = False
        blobs = 0
        words = (*(found.history or ()), *found.revisions)
        for word in words:
            kind = "missing" if word in found.revisions else self._kind(word, cwd)
            if kind == "missing" and _is_pathspec(word.text):
                return _ALL
            if ":" in word.text:
                if ".." in word.text.partition(":")[0]:
                    return _ALL  # two of them
                blobs += 1
                reason = self._in_commit(found, word, cwd, top)
                if reason:
                    return reason
            elif kind == "missing" and found.objects and not self._is_commit(word.text, top):
                return f"'{word.text}' may be a file in the repository"
            elif kind == "folder" and self.own.may_hold(word.text, cwd):
                return f"git would print what is or was in '{word.text}'"
            limited = limited or kind in ("file", "folder")
        for word in found.paths:
            if _MAGIC.search(word.text):
                return _ALL
            kind = self._kind(word, cwd)
            if kind != "file" and self.own.may_hold(word.text, cwd):
                return f"git would print what is or was in '{word.text}'"
            limited = limited or kind in ("file", "folder")
        only_blobs = bool(blobs) and blobs == len(words)
        if limited or only_blobs or not self.own.may_hold(top or self.own.policy.root or cwd, cwd):
            return ""
        return _ALL

    def _in_commit(self, found: CommandReads, word: ShellWord, cwd: str, top: str | None) -> str:
        """`HEAD:path`. Before the path there may be more colons: `HEAD^{/fix: x}:path`, `HEAD@{10:00}:path`."""
        rest, start = _STAGE.sub(":", word.text), cwd
        while ":" in rest:
            rest = rest.partition(":")[2]
            start = cwd if rest.startswith(("./", "../")) or top is None else top
            if self.own.is_named_by_a_rule(rest, start):
                return f"git would print '{rest}'"
        if found.folders and self._kind(ShellWord(rest, -1), start) != "file" and self.own.may_hold(rest, start):
            return f"git would print what was in '{rest}'"
        return ""

    def _is_commit(self, text: str, top: str | None) -> bool:
        """Whether a word certainly means commits: a tag and a number may also mean a file."""
        sides = [side for side in text.removeprefix("^").replace("...", "..").split("..") if side]
        return all(_COMMIT.match(side) or (top is not None and self.own.disk.is_branch(top, side)) for side in sides)

    def _kind(self, word: ShellWord, cwd: str) -> str:
        if _MAGIC.search(word.text):
            return "missing"
        try:
            return self.own.resolve(word.text, cwd).kind
        except PathRefused:
            return "missing"


def _is_pathspec(text: str) -> bool:
    """No name of a commit has a wildcard, and none of them begins like `:/` or `:(top)`."""
    return any(letter in text.partition("^{")[0] for letter in "*?[\\") or text.startswith((":/", ":(", ":!", ":^"))


def _reads_what_it_unpacks(run: Sequence[tuple[ShellWord, ...]], redirects: Sequence[Redirect]) -> bool:
    others = [words for words in run if not may_make_links(words)]
    if len(others) == len(run):
        return False
    return _reads_files(others, redirects)


def _reads_files(run: Sequence[tuple[ShellWord, ...]], redirects: Sequence[Redirect]) -> bool:
    """Whether it reads the content of files, and not only their names."""
    for words in run:
        if base_name(words[0].text) in _NAMES_ONLY:
            continue
        named, found = find_touched_files(words), find_reads(words)
        if (named.known and named.reads) or found.files or any(tree.follow for tree in found.trees):
            return True
    return any(redirect.op == "<" for redirect in redirects)
