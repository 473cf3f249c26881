"""Checks shell commands against the policy: what the line would run, read and write (security S2 to S9)."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from mainspring.permissions import commands
from mainspring.permissions.command_reads import ReadCheck
from mainspring.permissions.commands import MOST_FOLDERS, find_working_directories
from mainspring.permissions.coverage import RuleCoverage
from mainspring.permissions.files import Access, FileAccessRequest, FileRules
from mainspring.permissions.policy import Findings, Mode
from mainspring.permissions.rules import CommandRule, PermissionRule
from mainspring.permissions.shell import parse
from mainspring.permissions.shell.analyze import FOUND, analyze_command, base_name, is_runner, option_values
from mainspring.permissions.shell.file_effects import (
    find_emptied_folders,
    find_start_folders,
    find_touched_files,
    may_run,
    may_run_values,
)
from mainspring.permissions.shell.programs import GIT_COMMANDS, git_subcommand
from mainspring.permissions.shell.reads import find_reads
from mainspring.permissions.shell.removals import RemovalGuard, find_critical_removal
from mainspring.permissions.shell.tokenizer import SEPARATOR
from mainspring.permissions.shell.values import UNKNOWN, ShellWord
from mainspring.permissions.targets import (
    FREE_TARGETS,
    HOME_VARIABLE,
    base_of,
    computed_path,
    expand_brace_lists,
    folder_of,
    format_word,
    glob_parts,
    is_free,
    may_be_protected,
    path_of,
    redirect_ask,
)
from mainspring.processes.disk import AUTOCORRECT

_PUT_IN = frozenset({FOUND, "{}"})  # in `ShellWord.names`: inserted by `find`, or by `xargs` and the like
MOST_ALIASES = 5  # in a chain
_GIT_FOLDER = frozenset({"-C", "--git-dir", "--work-tree"})
_OUTWARD = re.compile(r"(?:\A|\A-[A-Za-z]|[=:@,])(~?/.*)", re.DOTALL)
_ROUGH_PATH = re.compile(r"""(?:\A|[\s=:@,'"`({\[<>|;&])((?:[~/]|\.\.)[^\s'"`;|&<>(){}]*)""")
_MARKS, _PARTS = re.compile(r"[=:@,]"), re.compile(r"[=:@,/]")
MOST_PATH = 4_096  # characters: no path is longer
MOST_GIVEN = 50  # words of a command that may be passed on; with more only its name counts


def _note(
    found: dict[str, list[tuple[ShellWord, ...]]], text: str, word: ShellWord, whole: tuple[ShellWord, ...]
) -> None:
    """Text that may be a command: its own words, or those from it on."""
    inner = tuple([ShellWord(part, word.start) for part in text.split()]) or (word,)
    found.setdefault(base_name(inner[0].text), []).append(inner if len(inner) > 1 or not whole else whole)


def _unknown_to_git(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """From the subcommand on, if it is none of git's own."""
    if not words[0].exact or base_name(words[0].text) != "git":
        return ()
    rest = git_subcommand(words)
    return rest if rest and rest[0].exact and rest[0].text not in GIT_COMMANDS else ()


def _meant(alias: str, words: tuple[ShellWord, ...], cwd: str, top: str | None) -> str:
    """The line that an alias means: a command of git, or after `!` one for a shell, at the repository's top."""
    given = "".join([" " + (shlex.quote(word.text) if word.exact else '"$GIVEN"') for word in words])
    if not alias.startswith("!"):
        return f"git {alias}{given}"
    return alias[1:] + given if top in (None, cwd) else f"cd {shlex.quote(top or '')} && {alias[1:]}{given}"


def _outward_path(word: ShellWord) -> str:
    """The part of a word that looks like a path out of the folder; "" if none does. Also of a program's name, and of
    an option's value: `--file=/x`, `-L/x`, `user@host:/x`."""
    text = path_of(word)
    found = _OUTWARD.search(text)
    path = found[1] if found is not None else _MARKS.split(text)[-1] if ".." in _PARTS.split(text) else ""
    known, unknown, _ = path.partition(UNKNOWN)
    return f"{known.rpartition('/')[0]}/" if unknown else path


def _rough_paths(text: str) -> list[str]:
    """Paths out of the folder anywhere in a line: also in lists of `for`, in assignments and in data."""
    found: list[str] = _ROUGH_PATH.findall(HOME_VARIABLE.sub("~", text))
    return ["~/" if path.startswith("~") and path[1:2] != "/" else path for path in found]


def check_bash_command(text: str, files: FileRules) -> Findings:
    return _Line(text, files).findings()


def names_closed_file(text: str, files: FileRules) -> bool:
    """Whether a line may open a file that the rules of `files` close, as far as its words and the text tell."""
    return _Line(text, files).names_closed_file()


class _Line:
    def __init__(self, text: str, files: FileRules, depth: int = 0) -> None:
        """`depth`: the number of aliases that led to this line."""
        self.text = text
        self.depth = depth
        self.stripped = text.lstrip()
        self.files = files
        self.rules = files.rules
        self.sight = analyze_command(text)
        first = [seen.words[0] for seen in self.sight.commands]
        # Names to look rules up by; None: every rule has to be tried.
        plain = not self.sight.unread and all(word.exact for word in first)
        self.names = {base_name(word.text) for word in first} if plain else None
        self.given = self._given()
        if self.names is not None:
            self.names.update(self.given)
        self.redirects = [redirect for script in self.sight.scripts for redirect in script.all_redirects]
        self.here = find_working_directories(self.sight, files)
        self.never: list[str] = []
        self.unenumerated: list[str] = []  # doubts about reads: reported only if there is no other
        # By what really runs: the words of a runner are those of the inner command.
        run = [seen.words for seen in self.sight.commands if seen.sure and seen.words[0].exact]
        self.touched = [
            find_touched_files(words)
            for words in run
            if not is_runner(words[0].text) or base_name(words[0].text) == "xargs"
        ]
        self.run = run
        self.aliased: list[tuple[ShellWord, ...]] = []  # commands that mean another line
        self.meant = self._aliases()
        self.asks = self._asks()
        self.rough: list[parse.Commands] | None = None

    def findings(self) -> Findings:
        deny = self._rule(self.rules.deny) or self._file_rule("deny")
        if deny is not None:
            return Findings(deny=deny)
        ask = self._rule(self.rules.ask) or self._file_rule("ask")
        aliased = [_Line(text, self.files, self.depth + 1).findings() for text in self.meant]
        deny = next((inner.deny for inner in aliased if inner.deny is not None), None)
        if deny is not None:
            return Findings(deny=deny)
        ask = ask or next((inner.ask for inner in aliased if inner.ask is not None), None)
        self._doubts()
        self._removals()
        self._protected()
        self.never.extend(self.unenumerated)
        self.never.extend([inner.never for inner in aliased if inner.never])
        coverage = RuleCoverage(self.sight, self.here, self.files).findings(self.text)
        if self.files.policy.mode is Mode.AUTO:
            coverage = replace(coverage, uncontained=self._uncontained())
        if not all(inner.covered for inner in aliased) and not self._names_alias(coverage):
            coverage = Findings(why="an alias of git runs something that no rule covers", uncontained="it is an alias")
        if ask is None and not self.never:
            return coverage
        return replace(coverage, ask=ask, never=self.never[0] if self.never else "")

    # --- deny and ask ------------------------------------------------------------------------------------------

    def _rule(self, rules: tuple[CommandRule, ...]) -> PermissionRule | None:
        for rule, pattern in rules:
            if pattern is None:
                return rule
            if (
                self.names is not None
                and pattern.name not in self.names
                and not pattern.open_name
                and not (pattern.whole_line and self.stripped.startswith(pattern.line_start))
                and "=" not in pattern.name
            ):
                continue
            if self._matches(pattern, rule.text):
                return rule
        return None

    def _matches(self, pattern: commands.CommandPattern, text: str) -> bool:
        for seen in self.sight.commands:
            found = commands.match_command(pattern, seen.words)
            if found == "yes" and seen.sure:
                return True
            if found != "no":
                self.never.append(f"it may run what the rule '{text}' is about")
        for words in self._given_as(pattern):
            if len(words) > MOST_GIVEN or commands.match_command(pattern, words) != "no":
                self.never.append(f"'{words[0].text}' is given to a program that may run it, and the rule is '{text}'")
                break
        if commands.line_matches(pattern, self.text) or ("=" in pattern.name and self._set_before(pattern)):
            return True
        if not self.sight.unread:
            return False
        if self.rough is None:
            self.rough = [parse.find_rough_commands(unread) for unread in self.sight.unread]
        parts = tuple(part.replace(SEPARATOR, " ") for part in pattern.parts)
        return any(parse.holds_command(found, parts, prefix=pattern.prefix) for found in self.rough)

    def _given(self) -> dict[str, list[tuple[ShellWord, ...]]]:
        """Words that unknown programs may take for commands, by name."""
        found: dict[str, list[tuple[ShellWord, ...]]] = {}
        if not self.rules.some:
            return found
        for seen in self.sight.commands:
            if not seen.sure or not seen.words[0].exact:
                continue
            runs, valued = may_run(seen.words), may_run_values(seen.words)
            if not runs and not valued:
                continue
            for index, word in enumerate(seen.words[1:], 1):
                if not word.exact:
                    continue
                if "=" in word.text:
                    _note(found, word.text.partition("=")[2], word, ())
                if runs:
                    _note(found, word.text, word, seen.words[index : index + MOST_GIVEN + 1])
        for script in self.sight.scripts:
            for command in script.commands:
                for assign in command.assigns if command.words else ():
                    if assign.value is not None and assign.value.exact:
                        _note(found, assign.value.text, assign.value, ())
        return found

    def _given_as(self, pattern: commands.CommandPattern) -> Iterator[tuple[ShellWord, ...]]:
        if not pattern.open_name:
            yield from self.given.get(pattern.name, ())
        elif pattern.name:
            for name, found in self.given.items():
                if name.startswith(pattern.name):
                    yield from found

    # --- aliases of git ------------------------------------------------------------------------------------------

    def _aliases(self) -> list[str]:
        """The lines that `git NAME` means in this folder, if NAME is no command of git's own."""
        found: list[str] = []
        for seen in self.sight.commands:
            rest = _unknown_to_git(seen.words)
            if not rest:
                continue
            if self.depth == MOST_ALIASES:
                self.never.append(f"more than {MOST_ALIASES} aliases of git lead to one another")
                break
            for cwd in self._git_folders(seen.words):
                known = self.files.disk.git_aliases(cwd, self.files.policy.home)
                if known is None or AUTOCORRECT in known:
                    if self.rules.some or self.rules.guarded:
                        self.never.append(f"'git {rest[0].text}' may be an alias")
                elif rest[0].text.lower() in known:
                    self.aliased.append(seen.words)
                    found.append(_meant(known[rest[0].text.lower()], rest[1:], cwd, self.files.disk.repository(cwd)))
        return list(dict.fromkeys(found))

    def _git_folders(self, words: tuple[ShellWord, ...]) -> list[str]:
        folders = [*self.here.cwds]
        for text, _ in option_values(_GIT_FOLDER, words):
            folders.extend([posixpath.normpath(posixpath.join(cwd, text)) for cwd in self.here.cwds])
        return folders

    def _names_alias(self, coverage: Findings) -> bool:
        """A rule for every command, or one that names more than `git`."""
        return self.rules.bare is not None or any(
            pattern is not None and pattern.words > 1 and rule in coverage.allow for rule, pattern in self.rules.allow
        )

    def _set_before(self, pattern: commands.CommandPattern) -> bool:
        """`Bash(FOO=1 npm:*)`: a rule about a variable that is set before a command."""
        for script in self.sight.scripts:
            for command in script.commands:
                words = (*map(commands.assignment_word, command.assigns), *command.words)
                if command.assigns and commands.match_command(pattern, words) == "yes":
                    return True
        return False

    def _doubts(self) -> None:
        """A line that is not fully resolvable is asked while any rule could be about it (security S4)."""
        if self.here.full:
            self.never.append(f"it goes to more than {MOST_FOLDERS} folders")
        if self.sight.opaque and (self.rules.some or self.rules.guarded):
            self.never.append(f"not all of it can be known: {self.sight.opaque[0]}")

    # --- files -------------------------------------------------------------------------------------------------

    def _file_rule(self, behavior: Literal["deny", "ask"]) -> PermissionRule | None:
        for ask in self.asks:
            for cwd in self.here.cwds:
                found = self.files.check(ask, at=cwd)
                rule = found.deny if behavior == "deny" else found.ask
                if rule is not None:
                    return rule
        return None

    def _asks(self) -> list[FileAccessRequest]:
        """The files that the line certainly names. Those that it may name are recorded as doubts."""
        asks = [ask for redirect in self.redirects if (ask := redirect_ask(redirect)) is not None]
        if not self.rules.guarded:
            return asks
        for redirect in self.redirects:
            if redirect.op not in ("<<", "<<<") and not redirect.target.exact:
                self.never.append("a redirect to a file whose name is computed")
        for words in self.run:
            for folder in find_emptied_folders(words):
                self._emptied(folder)
        reading = self._reading()
        for word in reading.files:
            self._file_word(word, "read", asks, known=True)
        for found in self.touched:
            for word in found.reads:
                self._file_word(word, "read", asks, known=found.known)
            for word in found.writes:
                self._file_word(word, "write", asks, known=found.known)
        for ask in asks:
            reading.named(ask.path)
        self.never.extend(reading.doubts)
        self.unenumerated.extend(reading.unenumerated)
        return asks

    def _reading(self) -> ReadCheck:
        reading = ReadCheck(self.sight, self.here, self.files)
        if self.rules.reading:
            reading.check([words for words in self.run if words not in self.aliased], self.redirects)
        return reading

    def _emptied(self, folder: ShellWord) -> None:
        for cwd in self.here.cwds:
            if not folder.exact or self.files.begins_in(path_of(folder), cwd):
                self.never.append(f"it is about all of '{format_word(folder)}', and a rule is about something in it")

    def _file_word(self, word: ShellWord, access: Access, asks: list[FileAccessRequest], *, known: bool) -> None:
        if not word.exact:
            safe = word.glob and not any(self.files.may_match_a_rule(glob_parts(word, cwd)) for cwd in self.here.cwds)
            if safe and access == "read" and self.rules.reading:
                safe = not any(self.files.glob_leads_to_a_rule(path_of(word), cwd) for cwd in self.here.cwds)
            if known and not safe:
                self.never.append(f"'{base_of(word)}' names files that are computed")
        elif word.text and known:
            asks.append(FileAccessRequest(access, path_of(word)))
        elif word.text and self._may_concern(path_of(word)):
            self.never.append(f"it names '{word.text}', which a rule is about")

    def _may_concern(self, path: str) -> bool:
        return any(self.files.is_named_by_a_rule(path, cwd) for cwd in self.here.cwds)

    def _protected(self) -> None:
        targets = [ask.path for redirect in self.redirects if (ask := redirect_ask(redirect)) and ask.access == "write"]
        for word in [word for found in self.touched for word in found.writes if word.text not in FREE_TARGETS | {""}]:
            targets.append(path_of(word) if word.exact else folder_of(word))
            if not word.exact and not word.glob:
                targets.append(computed_path(word))
            if word.glob and may_be_protected(word):
                self.never.append(f"'{base_of(word)}' may be in a protected place")
            if not _PUT_IN.isdisjoint(word.names):
                targets.extend(self._searched())
        for target in targets:
            for cwd in self.here.cwds:
                reason = self.files.check(FileAccessRequest("write", target), at=cwd).never
                if reason:
                    self.never.append(reason)

    def names_closed_file(self) -> bool:
        """Also if the word is data, an option's value, or part of a program's text: nothing harmless names the file."""
        if self._file_rule("deny") is not None or any(self._reads_closed_tree(words) for words in self.run):
            return True
        if self._passes_on_closed():
            return True
        written = [path_of(word) for seen in self.sight.commands for word in seen.words if word.exact]
        written += [path for seen in self.sight.commands for word in seen.words if (path := _outward_path(word))]
        for path in (*written, *_rough_paths(self.text)):
            if any(self._is_closed(path, cwd) for cwd in self.here.cwds):
                return True
        globs = [word for seen in self.sight.commands for word in seen.words if word.glob]
        globs += [redirect.target for redirect in self.redirects if redirect.target.glob]
        patterns = [path_of(word) for word in globs]
        for word in [word for seen in self.sight.commands for word in seen.words]:
            texts = expand_brace_lists(word)
            if texts is None:
                return True
            patterns += [text for text in texts if UNKNOWN in text]
            if any(self._is_closed(text, cwd) for text in texts if UNKNOWN not in text for cwd in self.here.cwds):
                return True
        if any(self.files.glob_finds_a_rule(pattern, cwd) for pattern in patterns for cwd in self.here.cwds):
            return True
        return any(_Line(text, self.files, self.depth + 1).names_closed_file() for text in self.meant)

    def _reads_closed_tree(self, words: tuple[ShellWord, ...]) -> bool:
        return any(
            self.files.read_in_passing(path_of(tree.word) if tree.word.exact else folder_of(tree.word), cwd,
                                       hidden=tree.hidden, follow=tree.follow)
            for tree in find_reads(words).trees
            for cwd in self.here.cwds
        )  # fmt: skip

    def _passes_on_closed(self) -> bool:
        """Whether `find` searches a folder with a closed file, and gives what it finds to another command."""
        words = [word for seen in self.sight.commands for word in seen.words]
        return any(not _PUT_IN.isdisjoint(word.names) for word in words) and any(
            self.files.read_in_passing(folder, cwd, hidden=True, follow=False)
            for folder in self._searched()
            for cwd in self.here.cwds
        )

    def _is_closed(self, path: str, cwd: str) -> bool:
        if not path or len(path) > MOST_PATH or "\0" in path:
            return False
        return self.files.check(FileAccessRequest("read", path), at=cwd).deny is not None

    # --- mode auto -----------------------------------------------------------------------------------------------

    def _uncontained(self) -> str:
        """Why only the user may approve the line, even if it runs in a sandbox; empty if a classifier may. A sandbox
        does not hide files outside of the workspace, so none may be named, nor computed."""
        if self.sight.opaque:  # law 6: a line that is not understood is asked
            return f"not all of it can be known: {self.sight.opaque[0]}"
        if self.here.lost or not self.here.inside:
            return "it leaves the working folders"
        for word in self._named_files():
            if not word.exact and not word.glob:
                return f"the name of '{format_word(word)}' is computed"
        outward = [path for seen in self.sight.commands for word in seen.words if (path := _outward_path(word))]
        named = [path_of(word) if word.exact else folder_of(word) for word in self._named_files()]
        outward += _rough_paths(self.text)
        for path in (*named, *[path for path in outward if path not in FREE_TARGETS]):
            if not all(self.files.is_inside(path, cwd) for cwd in self.here.cwds):
                return f"'{path}' is outside of the working folders"
        return ""

    def _named_files(self) -> Iterator[ShellWord]:
        """The files that the line names, to read or to write them."""
        for words in self.run:
            yield from (*find_reads(words).files, *[tree.word for tree in find_reads(words).trees])
        touched = [word for found in self.touched for word in (*found.writes, *(found.reads if found.known else ()))]
        yield from [word for word in touched if word.text not in FREE_TARGETS | {""}]
        yield from [redirect.target for redirect in self.redirects if not is_free(redirect)]

    def _searched(self) -> list[str]:
        """The start folders of the line's `find`: its results may be inserted into another command."""
        return [
            path_of(word)
            for words in self.run
            if base_name(words[0].text) == "find"
            for word in find_start_folders(words)
            if word.exact
        ]

    def _removals(self) -> None:
        if self.names is not None and self.names.isdisjoint(("rm", "rmdir", "find")):
            return
        ground = RemovalGuard(self.here.cwds, self.files.policy.folders, self.files.policy.home)
        reason = find_critical_removal(self.sight, ground, self.files.names)
        if reason:
            self.never.append(reason)
