"""Looks through the prefixes of a command: wrappers, shells with `-c`, `eval`, `find -exec` and the like (security S5).

Deny and ask rules are matched against everything found here. Text that cannot be analyzed, such as code in another
language, is named in `opaque`: the line is then not fully resolvable.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from mainspring.core.value import Value
from mainspring.permissions.shell import inline_code, programs
from mainspring.permissions.shell.inline_code import CLIENTS, INLINE, has_way_out
from mainspring.permissions.shell.parse import parse_shell_script
from mainspring.permissions.shell.runners import (
    COMMAND_OPTIONS,
    LIKE_BASH,
    LOOSE_RUNNERS,
    READ_COMMANDS,
    RUNNERS,
    SHELLS,
    WITHOUT_SHELL,
    RunnerProgram,
    interpreter_family,
)
from mainspring.permissions.shell.values import UNKNOWN, ShellScript, ShellWord, SimpleCommand, names

FOUND = "find"  # in `ShellWord.names`: a path that `find` inserts
MOST_NESTED = 100  # shell strings in one line; further ones are searched, not parsed

# Wrappers in one command; of commands further inside only the first words are kept, and the line is asked.
MOST_WRAPPERS = 30
_FIRST_WORDS = 30

_NO_OPTIONS: frozenset[str] = frozenset()
_SSH_COMMAND = re.compile(r"\s*(?:proxy|local|knownhosts|remote)command\s*[=\s]\s*", re.IGNORECASE)
_MARKS = frozenset({"-I", "-i", "--replace"})  # of xargs: the placeholder for its input
_MAKERS = names("cp mv ln link install tee dd curl wget rsync scp sed gsed perl truncate patch")
_START_FILES = frozenset({"rcfile", "init-file"})
# Options that bash also accepts with one dash.
_LONG_FOR_BASH = names(
    """debug debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print restricted
    verbose version"""
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class FoundCommand(Value):
    """A command that runs, or may run."""

    words: tuple[ShellWord, ...]
    sure: bool = True  # not sure: the words may also be something else, such as the value of an option


class CommandAnalysis(Value):
    """Everything that is known of a command line."""

    script: ShellScript
    commands: tuple[FoundCommand, ...]
    scripts: tuple[ShellScript, ...]  # including the nested ones
    opaque: tuple[str, ...]  # why the line is not fully resolvable; empty when it is
    unread: tuple[str, ...]  # texts that could not be parsed at all


def analyze_command(text: str) -> CommandAnalysis:
    eyes = _Analyzer()
    script = eyes.text(text)
    while eyes.nested:
        eyes.text(eyes.nested.pop())
    eyes.guesses()
    eyes.compare_paths()
    return CommandAnalysis(script, tuple(eyes.commands), tuple(eyes.scripts), tuple(eyes.opaque), tuple(eyes.unread))


@lru_cache(256)
def is_runner(name: str) -> bool:
    return interpreter_family(base_name(name)) in RUNNERS


@lru_cache(256)  # called many times in each decision
def base_name(name: str) -> str:
    return name.rpartition("/")[2] or name


class _Analyzer:
    def __init__(self) -> None:
        self.commands: list[FoundCommand] = []
        self.scripts: list[ShellScript] = []
        self.opaque: list[str] = []
        self.unread: list[str] = []
        self.nested: list[str] = []
        self.guessed: list[str] = []  # texts that may be for a shell, or for something else
        self.ran: list[ShellWord] = []  # scripts for programs in whose language they are
        self.strings = 0
        self._nested_before: set[str] = set()
        self._seen: set[int] = set()
        self._loose_from = 0
        self._tried_from = 0  # from here on every word was tried as a command
        self._filled_from = 0  # and from here on there is no `{}` left
        self._todo: list[tuple[int, int, bool]] = []
        self._words: tuple[ShellWord, ...] = ()
        self._scanned: set[str] = set()
        self._stops: list[int] | None = None  # for each word, the position of the next `;` or `+`

    def text(self, text: str) -> ShellScript:
        self.strings += 1
        if self.strings > MOST_NESTED:
            self.opaque.append(f"more than {MOST_NESTED} nested shell strings")
            self.unread.append(text)
            return ShellScript(())
        script = parse_shell_script(text)
        self.scripts.append(script)
        if self.strings > 1 and script.counts:
            self.opaque.append(f"arithmetic on '{script.counts[0]}', which comes from outside")
        if script.unclear:
            self.opaque.append(script.unclear)
            self.unread.append(text)
        for command in script.commands:
            self._simple(command)
        return script

    def guesses(self) -> None:
        """Text that cannot be parsed is then not shell text: it is searched, and no doubt."""
        for number, text in enumerate(dict.fromkeys(self.guessed)):
            if number == MOST_NESTED:
                self.opaque.append(f"more than {MOST_NESTED} texts that may be for a shell")
            if text in self._nested_before:
                continue
            if number >= MOST_NESTED or parse_shell_script(text).unclear:
                self.unread.append(text)
            else:
                self._nest(text)
        while self.nested:
            self.text(self.nested.pop())

    # --- one simple command --------------------------------------------------------------------------------------

    def _simple(self, command: SimpleCommand) -> None:
        for assign in command.assigns:
            if assign.name == "IFS" and command.words and command.words[0].text == "read":
                continue  # for this one command, which only splits its input by it
            self._sets(assign.name, "" if assign.value is None else assign.value.text)
        if not command.words:
            return
        self._words = command.words
        self._seen = set()
        self._loose_from = len(command.words)
        self._tried_from = self._filled_from = sys.maxsize
        self._scanned = set()
        self._stops = None
        self._todo = [(0, len(command.words), True)]
        while self._todo:
            start, stop, sure = self._todo.pop()
            if start < stop and start not in self._seen:
                self._seen.add(start)
                self._walk(start, stop, sure=sure, command=command)

    def _sets(self, name: str, value: str) -> None:
        """A variable that makes programs run others: its value may be the command."""
        objection = programs.find_variable_objection(name)
        if objection:
            self.opaque.append(objection)
            if UNKNOWN not in value and " " in value:
                self._nest(value)

    def _walk(self, start: int, stop: int, *, sure: bool, command: SimpleCommand) -> None:
        if len(self._seen) > MOST_WRAPPERS:
            if len(self._seen) == MOST_WRAPPERS + 1:
                self.opaque.append(f"more than {MOST_WRAPPERS} wrappers around a command")
            words = self._words[start : min(stop, start + _FIRST_WORDS)]
        else:
            words = self._words[start:stop]
        self.commands.append(FoundCommand(words, sure))
        first = words[0]
        self.opaque.extend(programs.find_command_objections(words))
        if not first.exact:
            if start and sure:
                self.opaque.append("the name of a command is computed")
            return
        name = interpreter_family(base_name(first.text))
        if name.startswith("git-"):  # in git's own folder, or one that git would call: the same as `git NAME`
            words = (ShellWord("git", first.start), ShellWord(name[4:], first.start), *words[1:])
            self.commands.append(FoundCommand(words, sure))
            name = "git"
        if name == "find":
            self._find(start, stop)
        elif name in SHELLS:
            self._shell(name, words, command)
        else:
            self._known_program(name, words, sure=sure)
        self._scripts(name, words)
        self._input(name, command)
        if name in RUNNERS:
            self._runner(name, RUNNERS[name], start, stop, sure=sure)
        elif name in LOOSE_RUNNERS:
            self._loose(LOOSE_RUNNERS[name], start, stop)

    def _known_program(self, name: str, words: tuple[ShellWord, ...], *, sure: bool) -> None:
        if name == "git":
            self._git(words)
        elif name in inline_code.CODE_OPTIONS:
            self._code(name, words)
        elif name in READ_COMMANDS or (name == "parallel" and all(word.text.startswith("-") for word in words[1:])):
            self.opaque.append(f"'{name}' takes commands from its input")
        elif sure:
            self._builtin(name, words)

    def _scripts(self, name: str, words: tuple[ShellWord, ...]) -> None:
        """Commands in the values of options, and in scripts."""
        if name in COMMAND_OPTIONS and name not in self._scanned:
            self._scanned.add(name)  # once per program: the rest was then analyzed to the end
            for text, word in option_values(COMMAND_OPTIONS[name], words):
                self._option_value(text, word)
        if name in INLINE and INLINE[name](words):
            self.opaque.append(f"a '{name}' script that may run commands")

    def _input(self, name: str, command: SimpleCommand) -> None:
        """The input in the line of a program that may read commands from it."""
        for redirect in command.redirects:
            if redirect.op not in ("<<", "<<<"):
                continue
            if name in ("ssh", "rsh"):
                self._string([redirect.target])
            elif name in CLIENTS and has_way_out(redirect.target.text):
                self.opaque.append(f"input of '{name}' that may run commands")

    def _builtin(self, name: str, words: tuple[ShellWord, ...]) -> None:
        match name:
            case "eval":
                self._string([*words[2 if len(words) > 1 and words[1].text == "--" else 1 :]])
            case "." | "source":
                self.opaque.append(f"'{name}' runs a file in this shell")
            case "trap":
                if len(words) > 2 and words[1].text not in ("-", "", "-l", "-p"):
                    self._string([words[2] if words[1].text == "--" else words[1]])
            case "alias":
                for word in words[1:]:
                    self.opaque.append("'alias' changes what names mean")
                    self._string([ShellWord(word.text.partition("=")[2], word.start)])
            case _:
                pass

    def _string(self, words: list[ShellWord]) -> None:
        """Text that a shell will parse."""
        text = " ".join(word.text for word in words)
        if UNKNOWN in text or any(word.many for word in words):
            self.opaque.append("a shell string that is computed")
            self.unread.append(text)
        elif text.strip():
            self._nest(text)

    def _nest(self, text: str) -> None:
        if text not in self._nested_before:
            self._nested_before.add(text)
            self.nested.append(text)

    # --- runners -----------------------------------------------------------------------------------------------

    def _runner(self, name: str, runner: RunnerProgram, start: int, stop: int, *, sure: bool) -> None:
        if name == "command" and start + 1 < stop and self._words[start + 1].text in ("-v", "-V"):
            return
        inner, known = inner_start(runner, self._words, start, stop)
        for word in self._words[start + 1 : inner] if runner.assigns else ():
            variable, _, value = word.text.partition("=")
            self._sets(variable, value)
        if name == "xargs" and inner < stop:
            for mark, _ in option_values(_MARKS, self._words[start:inner]):
                self._put(inner, stop, mark)
            stop = self._feed(inner, stop)
        if known:
            self._todo.append((inner, stop, sure))
        else:
            if not all(word.exact for word in self._words[start + 1 : min(stop, start + _FIRST_WORDS)]):
                self.opaque.append("the name of a command is computed")
            for index in range(min(stop, self._tried_from) - 1, start, -1):
                self._todo.append((index, stop, False))
            self._tried_from = min(self._tried_from, start + 1)

    def _loose(self, after: frozenset[str], start: int, stop: int) -> None:
        if start >= self._loose_from:
            return  # all of these were already tried
        words = self._words[start:stop]
        if after and not _may_run(words, after):
            return
        for word in words[1:]:
            if word.exact and " " in word.text.strip():
                if base_name(self._words[start].text) in WITHOUT_SHELL:
                    self.guessed.append(word.text)
                else:
                    self._nest(word.text)
        first = next((i for i in range(start + 1, stop) if self._words[i].text in after), start) if after else start
        if not after:  # `parallel`, `fd` and the like: they add their own words
            stop = self._feed(start + 1, stop)
            if any(word.text.startswith((":::", "-I", "-J", "--replace")) for word in words):
                self.opaque.append("words that are put into another command")
        for index in range(min(stop, self._loose_from) - 1, first, -1):
            self._todo.append((index, stop, False))
        self._loose_from = min(self._loose_from, first)

    def _find(self, start: int, stop: int) -> None:
        index = start + 1
        while index < stop:
            word = self._words[index]
            if programs.may_be_find_action(word):
                self.opaque.append("'find' with words that are computed: they may be '-exec'")
            elif word.text in programs.FIND_RUNS:
                end = min(stop, self._next_stop(index + 1))
                self._fill(index + 1, end, FOUND)
                self._todo.append((index + 1, end, True))
                index = end
            index += 1

    def _fill(self, start: int, stop: int, by: str) -> None:
        """`{}` will be replaced."""
        if start >= self._filled_from:
            return
        self._filled_from = start if stop == len(self._words) else self._filled_from
        filled = [_filled(word, by) if "{}" in word.text else word for word in self._words[start:stop]]
        self._words = (*self._words[:start], *filled, *self._words[stop:])

    def _put(self, start: int, stop: int, mark: str) -> None:
        """The same for a placeholder that the line chooses."""
        filled = [_filled(word, "{}", mark) if mark and mark in word.text else word for word in self._words[start:stop]]
        self._words = (*self._words[:start], *filled, *self._words[stop:])

    def _feed(self, start: int, stop: int) -> int:
        """Inserts or appends words from elsewhere. Returns the new end of the command."""
        self._fill(start, stop, "{}")
        if stop < len(self._words):  # inside a `find -exec`
            self.opaque.append("words from elsewhere inside another command")
            return stop
        self._words = (*self._words, ShellWord(UNKNOWN, -1, many=True, names=("{}",)))
        return stop + 1

    def _next_stop(self, index: int) -> int:
        if self._stops is None:
            self._stops = [len(self._words)] * (len(self._words) + 1)
            for at in range(len(self._words) - 1, -1, -1):
                self._stops[at] = at if self._words[at].text in (";", "+") else self._stops[at + 1]
        return self._stops[index]

    def _git(self, words: tuple[ShellWord, ...]) -> None:
        reason = programs.git_objection(words)
        if reason:
            self.opaque.append(reason)
        rest = programs.git_subcommand(words)
        if rest and rest[0].text in ("bisect", "submodule"):
            for index, word in enumerate(rest):
                if word.text in ("run", "foreach"):
                    self._string([*rest[index + 1 :]])
        for word in words:
            if word.text.startswith("!") or "=!" in word.text:
                self._string([ShellWord(word.text.partition("!")[2], word.start)])
        if rest and len(rest) < len(words) - 1:  # matched as `git push`, whatever options precede `push`
            self.commands.append(FoundCommand((words[0], *rest)))

    def _option_value(self, text: str, word: ShellWord) -> None:
        found = _SSH_COMMAND.match(text)
        if found is not None:
            text = text[found.end() :]
        elif _ASSIGNMENT.match(text):  # `--checkpoint-action=exec=...`
            text = text.partition("=")[2]
        self._string([ShellWord(text, word.start, many=word.many)])

    def _shell(self, name: str, words: tuple[ShellWord, ...], command: SimpleCommand) -> None:
        if name not in LIKE_BASH:
            self.opaque.append(f"'{name}' reads commands in its own way")
        objection = _shell_start(words)
        if objection:
            self.opaque.append(f"'{name}' {objection}")
        kind, operand = shell_operand(words)
        if kind == "string":
            assert operand is not None
            self._string([operand])
        elif kind == "file":
            self.opaque.append(f"'{name}' runs a file")
        elif kind == "input":
            self.opaque.append(f"'{name}' takes commands from its input")
            for redirect in command.redirects:
                if redirect.op in ("<<", "<<<"):
                    self._string([redirect.target])

    def _code(self, name: str, words: tuple[ShellWord, ...]) -> None:
        found = inline_code.find_inline_code(name, words)
        if found.module:
            self.commands.append(FoundCommand(found.module))
        if found.code:
            self.opaque.append(f"code in '{name}'")
        elif found.script is not None:
            self.ran.append(found.script)
        elif not found.ends:
            self.opaque.append(f"'{name}' takes code from its input")

    # --- programs that were made in the same line ------------------------------------------------------------------

    def compare_paths(self) -> None:
        """`cp /bin/rm x; ./x y`: a program by a path that the same line names elsewhere is not known."""
        run = {seen.words[0] for seen in self.commands if seen.words[0].exact and "/" in seen.words[0].text}
        if not run and not self.ran:
            return
        commands = [command for script in self.scripts for command in script.commands if command.words]
        redirects = [redirect for script in self.scripts for redirect in script.all_redirects if redirect.op != "<<"]
        written = {_plain(redirect.target.text) for redirect in redirects}
        # A program that only reads, checks or stores a script has not made it.
        makers = [command.words for command in commands if base_name(command.words[0].text) in _MAKERS]
        written.update(_plain(word.text) for words in makers for word in words[1:] if word not in self.ran)
        others = {word for command in commands if command.words[0].text != "chmod" for word in command.words}
        named = written | {_plain(word.text) for word in others - run}
        if any(_plain(word.text) in named for word in run) or any(_plain(word.text) in written for word in self.ran):
            self.opaque.append("a program that the same line may have made")


def option_values(options: frozenset[str], words: tuple[ShellWord, ...]) -> Iterator[tuple[str, ShellWord]]:
    """The values of one of the options, in any spelling: `--name value`, `--name=value`, `-n value`, `-nvalue`, `-xyn
    value`, and abbreviated long ones.
    """
    shorts = "".join(option[1] for option in options if len(option) == 2)
    bundled = words[0].text == "tar"  # `tar cIf`: its first word needs no dash
    for index, word in enumerate(words[1:], 1):
        if not word.text.startswith("-") and not (bundled and index == 1):
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        name, equals, value = word.text.partition("=")
        if name in options or (name.startswith("--") and programs.has_option(name, "", options)):
            if equals:
                yield value, word
            elif following is not None:
                yield following.text, following
            continue
        text = "-" + word.text if bundled and index == 1 and not word.text.startswith("-") else word.text
        if text.startswith("--") or not programs.has_option(text, shorts, _NO_OPTIONS):
            continue
        at = min(found for letter in shorts if (found := text.find(letter, 1)) > 0)
        if at + 1 < len(text):
            yield text[at + 1 :], word
        if following is not None and not (at == 1 and len(text) > 2):
            yield following.text, following


def runs_by_option(name: str, words: tuple[ShellWord, ...]) -> bool:
    """Whether an option makes the program run another one. For ssh and its kin: only if it names one."""
    options = COMMAND_OPTIONS.get(name)
    if options is None or name == "git":
        return False
    values = option_values(options, words)
    if "-o" in options:
        named = any(_SSH_COMMAND.match(value) or UNKNOWN in value for value, _ in values)
        return named or ("-S" in options and any(word.text.startswith("-S") for word in words[1:]))
    return next(values, None) is not None


def _filled(word: ShellWord, by: str, mark: str = "{}") -> ShellWord:
    return ShellWord(word.text.replace(mark, UNKNOWN), word.start, names=(*word.names, by))


def _may_run(words: tuple[ShellWord, ...], after: frozenset[str]) -> bool:
    """Whether the subcommand makes the program run something. A word after an option may be its value, or the
    subcommand.
    """
    behind_option = False
    for index, word in enumerate(words[1:], 1):
        if word.text.startswith("-"):
            behind_option = True
            continue
        if word.text in ("compose", "container"):
            return any(later.text in after or not later.exact for later in words[index + 1 :])
        if word.text in after or not word.exact:
            return True
        if not behind_option:
            return False
        behind_option = False
    return False


def _plain(path: str) -> str:
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path


def inner_start(runner: RunnerProgram, words: tuple[ShellWord, ...], start: int, stop: int) -> tuple[int, bool]:
    """Where the inner command begins, and whether that is certain."""
    index = start + 1
    known = True
    while index < stop:
        word = words[index]
        text = word.text
        if not word.exact:
            return index, False
        if text == "--":
            index += 1
            break
        if not text.startswith("-"):
            break
        taken, understood = (1, True) if text == "-" else _option(runner, text)  # `env -` is `env -i`
        known = known and understood
        index += taken
    while runner.assigns and index < stop and "=" in words[index].text:
        # `env =1 rm`: for some programs every word with a `=` is an assignment.
        known = known and _ASSIGNMENT.match(words[index].text) is not None and not words[index].many
        index += 1
    if index < stop and words[index].text.startswith("-"):
        known = False  # an option where a command is expected
    for _ in range(runner.own):
        if index < stop and not words[index].exact and words[index].many:
            return index, False
        index += 1
    return min(index, stop), known


def _option(runner: RunnerProgram, text: str) -> tuple[int, bool]:
    """How many words the option takes, and whether it is in the table."""
    if text.startswith("--"):
        if "=" in text or text in runner.long_flags:
            return 1, True
        return (2, True) if text in runner.long_values else (1, False)
    if text[1:].isdigit():  # `nice -10`
        return 1, True
    for position, letter in enumerate(text[1:], 2):
        if letter in runner.values:
            return (1 if position < len(text) else 2), True
        if letter not in runner.flags:
            return 1, False
    return 1, True


def _shell_start(words: tuple[ShellWord, ...]) -> str:
    """Why a shell runs more than its arguments: start files, or ambiguous options."""
    for before, word in pairwise(words):
        text = word.text
        if not text.startswith(("-", "+")):
            if before.text[-1:] in ("o", "O") and before.text.startswith(("-", "+")):
                continue  # its value
            return ""
        if text.lstrip("-") in _START_FILES:
            return f"runs the file after '{text}'"
        if text.startswith("-") and not text.startswith("--"):
            if text[1:] in _LONG_FOR_BASH:
                return f"may read '{text}' in more than one way"
            if "i" in text:
                return "with '-i' runs its start files"
    return ""


def shell_operand(words: tuple[ShellWord, ...]) -> tuple[str, ShellWord | None]:
    """The operand of a shell: a "string", a "file", its "input", or "nothing" to run."""
    string = False
    index = 1
    while index < len(words):
        word = words[index]
        text = word.text
        if not word.exact and not word.text.startswith("-"):
            break
        if text in ("--version", "--help"):
            return "nothing", None
        if text in ("--rcfile", "--init-file", "-rcfile", "-init-file", "-o", "+o", "-O", "+O"):
            index += 2
        elif text in ("--", "-"):
            index += 1
            break
        elif text.startswith(("-", "+")):
            string = string or ("c" in text and not text.startswith("--"))
            index += 2 if text[-1] in "oO" and not text.startswith("--") else 1
        else:
            break
    operand = words[index] if index < len(words) else None
    if string:
        return ("string", operand) if operand is not None else ("nothing", None)
    if operand is None or any(word.text == "-s" for word in words[1:index]):
        return "input", None
    return "file", operand
