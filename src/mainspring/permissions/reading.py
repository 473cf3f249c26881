"""What a line reads besides the files that it names, held against the rules about reading.

Where a rule denies reading, a command is free only if all that it reads is known (settled 40). What it may read in
passing is a doubt; what cannot be told is one only if no allow rule names the command and no sandbox hides the files.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Sequence

from mainspring.permissions import commands
from mainspring.permissions.coverage import may_cover
from mainspring.permissions.files import Files
from mainspring.permissions.places import Here
from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.look import Sight, base
from mainspring.permissions.shell.reads import Reads, Tree, may_make_links, reads
from mainspring.permissions.shell.tables import names
from mainspring.permissions.shell.touches import touched
from mainspring.permissions.shell.values import UNKNOWN, Redirect, Word
from mainspring.permissions.targets import path_of, shown
from mainspring.processes.paths import PathRefused

_MAGIC = re.compile(r"[*?\[\]\\:^]")  # in a path that git is given
_STAGE = re.compile(r"\A:[0-3]:")
_NAMES_ONLY = names("ls dir du tree stat readlink realpath file")


class Reading:
    def __init__(self, sight: Sight, here: Here, files: Files) -> None:
        self.sight = sight
        self.here = here
        self.own = files
        self.rules = files.rules
        self.files: list[Word] = []  # read for certain
        self.doubts: list[str] = []
        self.unenumerated: list[str] = []

    def check(self, run: Sequence[tuple[Word, ...]], redirects: Sequence[Redirect]) -> None:
        called = self._functions()
        for words in run:
            if id(words[0]) not in called:
                self._command(words)
        if not self.own.policy.reads_enforced and _reads_what_it_unpacks(run, redirects):
            self.unenumerated.append("it may put links in the place of the files that it reads, and a rule denies some")

    def _functions(self) -> set[int]:
        """Names that call a function of the line, there for certain: what is in it is seen by itself."""
        script = self.sight.script
        if not script.functions or any(seen.words[0].text == "unset" for seen in self.sight.commands):
            return set()
        first = dict(reversed(script.functions))
        called = [command.words[0] for command in script.commands if command.words]
        return {id(word) for word in called if word.start >= first.get(word.text, sys.maxsize)}

    def named(self, path: str, *, whole: bool = False) -> None:
        """A path that is opened under another name than the rules know it by. `whole`: with all that is in it."""
        for cwd in self.here.cwds if self.rules.reading else ():
            if self.own.leads_elsewhere(path, cwd):
                self.doubts.append(f"'{path}' leads somewhere that only the kernel knows")
            if self.own.holds_commits(path, cwd, whole=whole):
                self.doubts.append(f"'{path}' holds files as they were, and a rule is about some")

    def _command(self, words: tuple[Word, ...]) -> None:
        found = reads(words)
        self.files.extend(found.files)
        for tree in found.trees:
            self._tree(tree)
        doubt = found.unknown if found.unknown and not self.own.policy.reads_enforced else ""
        doubt = doubt or self._content(found)
        if doubt and not self._is_vouched(words):
            self.unenumerated.append(f"{doubt}, and a rule keeps files from being read: {self.rules.reading[0].text}")

    def _is_vouched(self, words: tuple[Word, ...]) -> bool:
        """An allow rule names the command. One for every command does not."""
        return any(
            pattern is not None and pattern.words and commands.covers(pattern, words) and may_cover(pattern, words)
            for _, pattern in self.rules.allow
        )

    # --- whole folders -----------------------------------------------------------------------------------------

    def _tree(self, tree: Tree) -> None:
        self.named(path_of(tree.word), whole=True)
        for cwd in self.here.cwds:
            found = self._expanded(tree, cwd)
            if found is None or any(
                self.own.read_in_passing(path, cwd, hidden=tree.hidden, follow=tree.follow) for path in found
            ):
                self.doubts.append(f"it is about all of '{shown(tree.word)}', and a rule is about something in it")

    def _expanded(self, tree: Tree, cwd: str) -> list[str] | None:
        """The paths that a word stands for; None: not known."""
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

    def _content(self, found: Reads) -> str:
        """Why git may print files that a rule is about, or ""."""
        if found.history is None and not found.tracked:
            return ""
        for cwd in self.here.cwds:
            top = self.own.disk.repository(cwd)
            words = found.history or ()
            in_tree = found.tracked and all(self._kind(word, cwd) in ("file", "folder") for word in words)
            if in_tree and not self.own.tracks_what_a_rule_is_about(top):
                continue
            reason = self._commits(words, cwd, top)
            if reason:
                return reason
        return ""

    def _commits(self, words: tuple[Word, ...], cwd: str, top: str | None) -> str:
        """The words are files in commits (`HEAD:path`), paths that limit what is shown, or revisions."""
        limited = False
        blobs = 0
        for word in words:
            _, colon, path = _STAGE.sub(":", word.text).partition(":")
            if colon and not path.startswith(("/", "(", "!", "^")):
                blobs += 1
                start = cwd if path.startswith(("./", "../")) or top is None else top
                if self.own.is_named_by_a_rule(path, start):
                    return f"git would print '{path}'"
                continue
            kind = self._kind(word, cwd)
            if kind == "folder" and self.own.may_hold(word.text, cwd):
                return f"git would print what is or was in '{word.text}'"
            limited = limited or kind in ("file", "folder")
        only_blobs = bool(blobs) and blobs == len(words)
        if limited or only_blobs or not self.own.may_hold(top or self.own.policy.root or cwd, cwd):
            return ""
        return "git would print what files are or were in"

    def _kind(self, word: Word, cwd: str) -> str:
        if _MAGIC.search(word.text):
            return "missing"
        try:
            return self.own.resolve(word.text, cwd).kind
        except PathRefused:
            return "missing"


def _reads_what_it_unpacks(run: Sequence[tuple[Word, ...]], redirects: Sequence[Redirect]) -> bool:
    others = [words for words in run if not may_make_links(words)]
    if len(others) == len(run):
        return False
    found = [touched(words) for words in others if base(words[0].text) not in _NAMES_ONLY]
    return any(one.known and one.reads for one in found) or any(redirect.op == "<" for redirect in redirects)
