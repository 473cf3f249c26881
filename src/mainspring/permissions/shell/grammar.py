"""Parses a command line by bash's grammar and collects every simple command in it, at any depth (security S2).

Lists, pipes, groups, conditions, loops, functions, substitutions, here-documents. It parses the forms that people and
models write; at anything else it stops with `UnclearError`, and the commands found until then are kept for deny rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from mainspring.permissions.shell.simple_commands import RESERVED, CommandDraft, SimpleCommandReader, is_number
from mainspring.permissions.shell.values import (
    UNKNOWN,
    Assignment,
    Redirect,
    ShellScript,
    ShellWord,
    SimpleCommand,
    UnclearError,
    names,
)

_KEYWORD = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[ \t\n;&|()<>]|\Z)")
_FUNCTION = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\([ \t]*\)", re.ASCII)
_NAMED_FUNCTION = re.compile(r"function[ \t]+([A-Za-z_][A-Za-z0-9_-]*)(?:[ \t]*\([ \t]*\))?(?=[ \t\n])", re.ASCII)
_LOOP_NAME = re.compile(r"[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?=[ \t\n;])", re.ASCII)
_REGEX = re.compile(r"(?:[^\s`'\"\\$]|\$(?![({'\"\[]))+")
_TEST_OPERATORS = names("== = != =~ < > -eq -ne -lt -le -gt -ge -nt -ot -ef")
_COUNTING = names("-eq -ne -lt -le -gt -ge")
# They contain values that a line sets without naming them, or the output of a command.
_ANYTHING = names("( @ * _ REPLY MAPFILE OPTARG BASH_COMMAND BASH_ARGV BASH_REMATCH COPROC")
_COUNTS = names("(( # ? $ ! - RANDOM SECONDS LINENO EPOCHSECONDS UID EUID PPID SHLVL COLUMNS LINES OPTIND")
_NO_STOP: frozenset[str] = frozenset()


class ScriptReader(SimpleCommandReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.loose: list[Redirect] = []
        self.functions: list[tuple[str, int]] = []
        self._defined = ""  # the function that the last command defined

    def script(self) -> ShellScript:
        try:
            self.statements_until("")
            if self.waiting:
                raise UnclearError("a here-document without its text")
        except UnclearError as why:
            self.doubts.append(str(why))
        mixed = sorted(self.counted & (self.given | _ANYTHING) | {name for name in self.counted if name.isdigit()})
        if mixed:
            self.doubts.append(f"arithmetic on {mixed[0]!r}, which may hold more than a number")
        commands = tuple(
            SimpleCommand(tuple(one.words), tuple(one.assigns), tuple(one.redirects)) for one in self.commands
        )
        unclear = self.doubts[0] if self.doubts else ""
        counts = tuple(sorted(self.counted - self.numbers - _COUNTS))
        return ShellScript(commands, tuple(self.loose), tuple(self.functions), counts, unclear)

    # --- lists -------------------------------------------------------------------------------------------------

    def statements_until(self, closer: str) -> None:
        self._statements(_NO_STOP, closer)

    def _statements(self, stops: Collection[str], closer: str = "", *, may_be_empty: bool = False) -> None:
        """Commands up to one of the words, which is not consumed, or to the character, which is, or to the end."""
        empty = not may_be_empty and (bool(closer) or bool(stops))
        while True:
            self._lines()
            if self.at >= self.end:
                if closer or stops:
                    raise UnclearError(f"no `{closer or min(stops)}`")
                return
            if self._closed(stops, closer):
                if empty:
                    raise UnclearError("an empty list of commands")
                return
            self._defined = ""
            alone = self._and_or()
            empty = False
            at = self.at
            self._separator(stops, closer)
            if alone and self._defined and self.depth == 0 and not self.text.startswith("&", at):
                self.functions.append((self._defined, at))

    def _closed(self, stops: Collection[str], closer: str) -> bool:
        if closer and self.text[self.at] == closer:
            self.at += 1
            return True
        if ";;" in stops and self.text.startswith((";;", ";&"), self.at):
            return True
        word = self._keyword()
        return bool(word) and word in stops

    def _separator(self, stops: Collection[str], closer: str) -> None:
        self._blank()
        if self.at >= self.end:
            return
        character = self.text[self.at]
        ends = character == ";" and not self.text.startswith((";;", ";&"), self.at)
        if ends or (character == "&" and not self.text.startswith("&&", self.at)):
            self.at += 1
        elif character not in "\n#" and character != closer and not (character == ";" and ";;" in stops):
            raise UnclearError(f"an unexpected {self.text[self.at : self.at + 12]!r}")

    def _and_or(self) -> bool:
        """Returns whether it was one command alone."""
        alone = self._pipeline()
        while self.text.startswith(("&&", "||"), self.at) and self.at + 1 < self.end:
            alone = False
            self.at += 2
            self._lines()
            self._pipeline()
        return alone

    def _pipeline(self) -> bool:
        while self._keyword() == "!":
            self.at += 1
            self._blank()
        self._command()
        self._blank()
        alone = True
        while self._at("|") and not self.text.startswith("||", self.at):
            alone = False
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._lines()
            self._command()
            self._blank()
        return alone

    def _keyword(self) -> str:
        found = _KEYWORD.match(self.text, self.at, self.end)
        return "" if found is None else found.group()

    def _expect(self, word: str) -> None:
        self._lines()
        if self._keyword() != word:
            raise UnclearError(f"no `{word}`")
        self.at += len(word)

    # --- commands ----------------------------------------------------------------------------------------------

    def _command(self) -> None:
        if self.at >= self.end:
            raise UnclearError("a command is missing")
        if self._function():
            return
        keyword = self._keyword()
        compound = _COMPOUND.get(keyword)
        if self.text[self.at] == "(":
            self._parenthesis()
        elif compound is not None:
            self.deeper()
            self.at += len(keyword)
            compound(self)
            self.depth -= 1
            self._trailing_redirects()
        else:
            self._simple()
        self._defined = ""  # one inside it may not be defined afterwards

    def _parenthesis(self) -> None:
        self.deeper()
        if self.text.startswith("((", self.at):
            self.at += 2
            self.arithmetic("))")
        else:
            self.at += 1
            self._statements(_NO_STOP, ")")
        self.depth -= 1
        self._trailing_redirects()

    def _trailing_redirects(self) -> None:
        self._blank()
        while self._redirect(self.loose):
            self._blank()

    def _function(self) -> bool:
        found = _FUNCTION.match(self.text, self.at, self.end) or _NAMED_FUNCTION.match(self.text, self.at, self.end)
        if found is None:
            return False
        if found[1] in RESERVED:
            raise UnclearError(f"a function named {found[1]!r}")
        self.at = found.end()
        self._lines()
        if not self._at("(") and self._keyword() != "{":
            raise UnclearError("a function whose body is no group")
        self._command()
        self._defined = found[1]
        return True

    def read_group(self) -> None:
        self._statements({"}"})
        self._expect("}")

    def read_if(self) -> None:
        self._statements({"then"})
        self._expect("then")
        self._statements({"elif", "else", "fi"})
        while self._keyword() == "elif":
            self.at += 4
            self._statements({"then"})
            self._expect("then")
            self._statements({"elif", "else", "fi"})
        if self._keyword() == "else":
            self.at += 4
            self._statements({"fi"})
        self._expect("fi")

    def read_while(self) -> None:
        self._statements({"do"})
        self._do()

    def _do(self) -> None:
        self._expect("do")
        self._statements({"done"})
        self._expect("done")

    def read_for(self) -> None:
        found = _LOOP_NAME.match(self.text, self.at, self.end)
        if found is None:
            self._counting_for()
            return
        self.at = found.end()
        self._lines()
        values: list[ShellWord] = []
        if self._keyword() == "in":
            self.at += 2
            values = self._loop_words(found[1])
        else:
            self.given.add(found[1])
        assigns = [Assignment(found[1], value) for value in values] or [Assignment(found[1], None)]
        self.commands.append(CommandDraft([], assigns, []))
        if self._at(";"):
            self.at += 1
        self._do()

    def _loop_words(self, name: str) -> list[ShellWord]:
        words: list[ShellWord] = []
        while True:
            self._blank()
            if self.at >= self.end or self.text[self.at] in ";\n":
                return words
            word = self._argument()
            words.append(word)
            (self.numbers if is_number(word) else self.given).add(name)

    def _counting_for(self) -> None:
        self._blank()
        if not self.text.startswith("((", self.at):
            raise UnclearError("a loop without a name")
        self.at += 2
        for closer in (";", ";", "))"):
            self.arithmetic(closer)
            if closer == ";":
                if not self._at(";"):
                    raise UnclearError("a counting loop without three parts")
                self.at += 1
        self._blank()
        if self._at(";"):
            self.at += 1
        self._do()

    def read_case(self) -> None:
        self._blank()
        self._argument()
        self._expect("in")
        while True:
            self._lines()
            if self._keyword() == "esac":
                self.at += 4
                return
            if self._at("("):
                self.at += 1
            self._patterns()
            self._statements({";;", "esac"}, may_be_empty=True)
            if self._at(";"):
                self.at += 3 if self.text.startswith(";;&", self.at) else 2

    def _patterns(self) -> None:
        while True:
            self._blank()
            self._argument()
            self._blank()
            if self._at(")"):
                self.at += 1
                return
            if not self._at("|"):
                raise UnclearError("a case without `)`")
            self.at += 1

    def read_test(self) -> None:
        """`[[ ... ]]`: words and operators. It runs only substitutions, and what arithmetic evaluates."""
        previous: ShellWord | None = None
        operator = ""
        while True:
            self._blank()
            if self.text.startswith("]]", self.at):
                self.at += 2
                return
            if self.text.startswith(("&&", "||"), self.at):
                self.at += 2
                previous, operator = None, ""
            elif self.at < self.end and self.text[self.at] in "()":
                self.at += 1
            else:
                word = self._test_word(operator)
                if word.text in _COUNTING and previous is not None:
                    self._count(previous)
                if operator in _COUNTING:
                    self._count(word)
                operator = word.text if word.bare and word.text in _TEST_OPERATORS else ""
                if previous is not None and previous.text in ("-v", "-R") and ("[" in word.text or not word.exact):
                    raise UnclearError("a test of a variable whose name is computed")
                previous = word

    def _test_word(self, operator: str) -> ShellWord:
        start = self.at
        if start < self.end and self.text[start] in "<>":
            self.at += 1
            return ShellWord(self.text[start], start, bare=True)
        if self.text.startswith(("=~ ", "=~\t"), start):
            self.at += 2
            return ShellWord("=~", start, bare=True)
        if operator == "=~":
            found = _REGEX.match(self.text, start, self.end)
            if found is None or self.text[found.end() : found.end() + 1] in ("'", '"', "\\", "`", "$"):
                return self._argument()
            self.at = found.end()
            return ShellWord(UNKNOWN, start)
        return self._argument()

    def _count(self, word: ShellWord) -> None:
        """Arithmetic evaluates a word: the variables it names, and those in it."""
        if word.exact and not is_number(word):
            if not word.text.isidentifier():
                raise UnclearError("a comparison of something that is neither a number nor a name")
            self.counted.add(word.text)
        self.counted.update(word.names)


_COMPOUND: dict[str, Callable[[ScriptReader], None]] = {
    "{": ScriptReader.read_group,
    "if": ScriptReader.read_if,
    "while": ScriptReader.read_while,
    "until": ScriptReader.read_while,
    "for": ScriptReader.read_for,
    "select": ScriptReader.read_for,
    "case": ScriptReader.read_case,
    "[[": ScriptReader.read_test,
}
