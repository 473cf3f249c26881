"""Whether allow rules, the read-only table and acceptEdits cover a line: each command, each redirect (security S2, S5
to S7).
"""

from __future__ import annotations

import re

from mainspring.core.value import Value
from mainspring.permissions import commands
from mainspring.permissions.commands import WorkingDirectories
from mainspring.permissions.files import FileAccessRequest, FileRules
from mainspring.permissions.policy import Findings
from mainspring.permissions.rules import PermissionRule
from mainspring.permissions.shell import programs
from mainspring.permissions.shell.analyze import CommandAnalysis, base_name, inner_start, runs_by_option, shell_operand
from mainspring.permissions.shell.file_effects import plain_file_command
from mainspring.permissions.shell.inline_code import INLINE
from mainspring.permissions.shell.programs import (
    FIND_CHANGES,
    FIND_RUNS,
    SAFE_VARIABLES,
    can_run_programs,
    git_runs,
    git_subcommand,
    may_be_find_action,
)
from mainspring.permissions.shell.readonly import files_read
from mainspring.permissions.shell.runners import ALLOW_LOOKS_THROUGH, LOOSE_RUNNERS, RUNNERS, SHELLS
from mainspring.permissions.shell.values import UNKNOWN, Assignment, Redirect, ShellWord, SimpleCommand, names
from mainspring.permissions.targets import (
    folder_of,
    format_word,
    glob_parts,
    is_free,
    is_network,
    path_of,
    redirect_ask,
    redirect_writes,
)

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
# They control the shell and do nothing else.
_CONTROL = names("break continue exit return shift wait set read local")
# Never covered by a prefix rule for themselves, because they run their arguments (security S6).
_RUN_ANYTHING = frozenset(RUNNERS) - frozenset(ALLOW_LOOKS_THROUGH) | names(
    """watch parallel entr ssh rsh eval source . trap alias su runuser sg script systemd-run start-stop-daemon pkexec
    gosu"""
)


class CommandCover(Value):
    """How one command, or one redirect, is covered."""

    by_rule: PermissionRule | None = None
    reads: bool = False
    edits: bool = False
    covered: bool = False


_NOT = CommandCover()
_FREE = CommandCover(reads=True, edits=True, covered=True)


class RuleCoverage:
    def __init__(self, sight: CommandAnalysis, here: WorkingDirectories, files: FileRules) -> None:
        self.sight = sight
        self.here = here
        self.files = files
        self.rules = files.rules.allow
        self.bare = files.rules.bare
        self.functions = sight.script.functions
        if self.functions and any(seen.words[0].text == "unset" for seen in sight.commands):
            self.functions = ()  # they may have been unset

    def findings(self, text: str) -> Findings:
        if self.bare is not None:
            return self._by_bare_rule(self.bare)
        script = self.sight.script
        if script.unclear:
            exact = next((rule for rule, _ in self.rules if _same(rule, text)), None)
            return Findings(
                allow=() if exact is None else (exact,), covered=exact is not None, edits=exact is not None,
                why=f"not all of it can be known: {script.unclear}",
            )  # fmt: skip
        why = self._combination()
        if why:
            return Findings(why=why)
        covers = [self.command(command) for command in script.commands]
        covers.extend([self.redirect(redirect) for redirect in script.all_redirects])
        rules: list[PermissionRule] = []
        covered = reads = edits = True
        for cover in covers:
            if cover.by_rule is not None and cover.by_rule not in rules:
                rules.append(cover.by_rule)
            covered = covered and cover.covered
            reads = reads and cover.reads
            edits = edits and (cover.edits or cover.covered)
        why = "" if covered else self._why(covers)
        return Findings(allow=tuple(rules), covered=covered, reads=reads, edits=edits, why=why)

    def _by_bare_rule(self, rule: PermissionRule) -> Findings:
        """Covers every command; and the target of a redirect, if it is in the working folders (security S7)."""
        redirects = [redirect for script in self.sight.scripts for redirect in script.all_redirects]
        for redirect in redirects:
            if not self._bare_redirect(redirect):
                return Findings(why=f"a redirect to '{format_word(redirect.target)}'")
        if (
            self.here.moves
            and not self.here.inside
            and (self._runs_git() or any(redirect_writes(one) for one in redirects))
        ):
            return Findings(why="it goes to another folder and runs git or writes there")
        return Findings(allow=(rule,), covered=True, edits=True, reads=self._all_read())

    def _all_read(self) -> bool:
        script = self.sight.script
        if script.unclear or self._combination():
            return False
        return all(self._read_only(command) for command in script.commands) and all(
            self.redirect(redirect).reads for redirect in script.all_redirects
        )

    def _combination(self) -> str:
        """`cd` and git, or `cd` and a redirect: the effect depends on a folder that was not checked (security S7)."""
        if not self.here.moves:
            return ""
        if self._runs_git():
            return "it goes to another folder and runs git there"
        if any(not is_free(redirect) for redirect in self.sight.script.all_redirects):
            return "it goes to another folder and redirects there"
        return "" if self.here.known else "it goes to a folder that is computed"

    def _runs_git(self) -> bool:
        return any(seen.words[0].exact and base_name(seen.words[0].text) == "git" for seen in self.sight.commands)

    def _why(self, covers: list[CommandCover]) -> str:
        """About the first that is not covered."""
        index = next(index for index, cover in enumerate(covers) if not cover.covered)
        script = self.sight.script
        if index < len(script.commands):
            command = script.commands[index]
            words = [format_word(word) for word in (*map(commands.assignment_word, command.assigns), *command.words)]
            return f"no rule covers '{' '.join(words)}'"
        redirect = script.all_redirects[index - len(script.commands)]
        return f"no rule covers the redirect to '{format_word(redirect.target)}'"

    # --- one command -------------------------------------------------------------------------------------------

    def command(self, command: SimpleCommand) -> CommandCover:
        if not command.words:
            return _FREE if all(_harmless(assign) for assign in command.assigns) else _NOT
        words = self._stripped(command)
        objected = words is None or any(programs.find_command_objections(words))
        if words is not None and not objected and self._only_reads(words, command):
            return _FREE
        if _reads_commands(command.words):
            return _NOT
        found = self._exact_rule(command)
        if words is None or objected or found.covered:
            return found
        for rule, pattern in self.rules:
            assert pattern is not None
            if commands.pattern_covers(pattern, words) and may_cover(pattern, words):
                return CommandCover(rule, edits=True, covered=True)
        return CommandCover(edits=self._file_command(words))

    def _exact_rule(self, command: SimpleCommand) -> CommandCover:
        """Whatever a command does: a rule that names it, word by word, covers it. So does one with its variables."""
        before = tuple(map(commands.assignment_word, command.assigns))
        for rule, pattern in self.rules if before else self.files.rules.exact:
            assert pattern is not None
            if pattern.words < len(before) or not all(word.exact for word in before):
                continue
            if commands.pattern_covers(pattern, (*before, *command.words)) and (
                pattern.is_exact or may_cover(pattern, command.words, len(before))
            ):
                return CommandCover(rule, edits=True, covered=True)
        return _NOT

    def _stripped(self, command: SimpleCommand) -> tuple[ShellWord, ...] | None:
        """Without the prefixes that allow rules look through; None if there is any other."""
        words = command.words
        splits = words[0].text == "read"  # and IFS only says how
        for assign in command.assigns:
            if assign.name not in SAFE_VARIABLES and not (splits and assign.name == "IFS"):
                return None
        while words[0].exact and words[0].text in ALLOW_LOOKS_THROUGH:
            runner = ALLOW_LOOKS_THROUGH[words[0].text]
            if words[0].text == "command" and any(word.text in ("-v", "-V") for word in words[1:2]):
                return words
            start, known = inner_start(runner, words, 0, len(words))
            set_here = [
                found[1] for word in words[1:start] if runner.assigns and (found := _ASSIGNMENT.match(word.text))
            ]
            if not known or start >= len(words) or not all(name in SAFE_VARIABLES for name in set_here):
                return None
            words = words[start:]
        return words

    def _read_only(self, command: SimpleCommand) -> bool:
        if not command.words:
            return all(_harmless(assign) for assign in command.assigns)
        words = self._stripped(command)
        return (
            words is not None and not any(programs.find_command_objections(words)) and self._only_reads(words, command)
        )

    def _only_reads(self, words: tuple[ShellWord, ...], command: SimpleCommand) -> bool:
        """`words`: the command without the prefixes that allow rules look through."""
        if not words[0].exact:
            return False
        name = words[0].text
        if name == "git" and not self.files.policy.trusted:
            return False  # its configuration and hooks are the repository's, and would run (security P6)
        if words is command.words and self._is_function(words[0]):
            return True  # its body is among the commands
        if name in _CONTROL or (name == "command" and all(word.exact for word in words)):
            return True
        if name == "export" and all(_exports_safely(word) for word in words[1:]):
            return True
        if name == "cd":
            return self.here.inside and len(words) > 1
        named = files_read(words)
        return named is not None and all(self._may_read(word) for word in named)

    def _is_function(self, name: ShellWord) -> bool:
        """Certainly defined before, and not unset: else a program of that name would run."""
        return any(name.text == defined and name.start >= start for defined, start in self.functions)

    def _may_read(self, word: ShellWord) -> bool:
        if word.text == "-":
            return True
        path = path_of(word)
        if not word.exact:  # a glob: the folder before it
            if _may_climb(path) or any(self.files.may_match_a_rule(glob_parts(word, cwd)) for cwd in self.here.cwds):
                return False
            path = folder_of(word)
        return bool(path) and all(self._at(FileAccessRequest("read", path), cwd).reads for cwd in self.here.cwds)

    def _at(self, ask: FileAccessRequest, cwd: str) -> Findings:
        return self.files.check(ask, at=cwd)

    def _file_command(self, words: tuple[ShellWord, ...]) -> bool:
        """Commands that acceptEdits allows."""
        found = plain_file_command(words)
        return found is not None and all(self._may_edit(path_of(word)) for word in found.writes)

    def _may_edit(self, path: str) -> bool:
        found = [self._at(FileAccessRequest("write", path), cwd) for cwd in self.here.cwds]
        return all(one.edits and not one.never and one.ask is None for one in found)

    # --- redirects ---------------------------------------------------------------------------------------------

    def redirect(self, redirect: Redirect) -> CommandCover:
        if is_free(redirect):
            return _FREE
        ask = redirect_ask(redirect)
        if ask is None or is_network(ask.path) or redirect.target.tilde:
            return _NOT
        found = self._at(ask, self.here.cwds[0])
        if ask.access == "read":
            return CommandCover(
                found.allow[0] if found.allow else None, reads=found.reads, edits=found.reads, covered=found.reads
            )
        return CommandCover(
            found.allow[0] if found.allow else None,
            edits=found.edits and not found.never,
            covered=found.covered and not found.never,
        )

    def _bare_redirect(self, redirect: Redirect) -> bool:
        if is_free(redirect):
            return True
        ask = redirect_ask(redirect)
        if ask is None or is_network(ask.path) or not self.here.known:
            return not redirect_writes(redirect) and not is_network(redirect.target.text)
        if ask.access == "read":
            return True
        return all(self._may_edit_at(ask, cwd) for cwd in self.here.cwds)

    def _may_edit_at(self, ask: FileAccessRequest, cwd: str) -> bool:
        found = self._at(ask, cwd)
        return found.edits and not found.never


def _reads_commands(words: tuple[ShellWord, ...]) -> bool:
    """A shell that reads its commands from its input: a rule shows none of them (security S10)."""
    return words[0].exact and base_name(words[0].text) in SHELLS and shell_operand(words)[0] == "input"


def _may_climb(path: str) -> bool:
    """Whether a glob may lead to a folder above: `.*` also matches `..`, and `..` may follow it."""
    dots = "." + UNKNOWN
    return any(
        name == ".." or (UNKNOWN in name and name.startswith(".") and not name.strip(dots)) for name in path.split("/")
    )


def _harmless(assign: Assignment) -> bool:
    """A variable of the shell that no program reads. Programs' variables are in capitals."""
    return assign.name in SAFE_VARIABLES or (assign.name.islower() and not can_run_programs(assign.name))


def _exports_safely(word: ShellWord) -> bool:
    found = _ASSIGNMENT.match(word.text)
    return found is not None and not word.many and found[1] in SAFE_VARIABLES


def _same(rule: PermissionRule, text: str) -> bool:
    return rule.specifier is not None and "*" not in rule.specifier and rule.specifier.strip() == text.strip()


def may_cover(pattern: commands.CommandPattern, words: tuple[ShellWord, ...], before: int = 0) -> bool:
    """A rule for a program that runs others covers a command only if it names the inner one, too (security S6)."""
    if pattern.is_exact:
        return True
    inner = _inner_word(words)
    return pattern.words > before + inner if inner is not None else pattern.words > before or not before


def _inner_word(words: tuple[ShellWord, ...]) -> int | None:
    """The word that names the program that really runs; None if it is the first one."""
    name = base_name(words[0].text)
    if name == "find":
        changes = any(may_be_find_action(word) or word.text in FIND_RUNS or word.text in FIND_CHANGES for word in words)
        return len(words) if changes else None
    if name == "git":
        return _git_word(words)
    if name in SHELLS:
        kind, operand = shell_operand(words)
        return None if kind == "nothing" else len(words) if operand is None else words.index(operand)
    if (name in INLINE and INLINE[name](words)) or runs_by_option(name, words):
        return len(words)
    if name not in _RUN_ANYTHING or len(words) == 1:
        return None
    if name in RUNNERS and name not in LOOSE_RUNNERS:
        start, known = inner_start(RUNNERS[name], words, 0, len(words))
        if known and start < len(words):
            further = _inner_word(words[start:])
            return start + (further or 0)
    return len(words)


def _git_word(words: tuple[ShellWord, ...]) -> int | None:
    rest = git_subcommand(words)
    if rest and git_runs(rest):
        return len(words)
    if len(rest) == len(words) - 1 and all(word.exact for word in rest[:1]):
        return None
    return len(words) - len(rest) if rest else len(words)
