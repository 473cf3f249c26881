"""Parses one simple command: assignments, words, redirects; and blanks, comments and here-documents between them."""

from __future__ import annotations

import re
from typing import NamedTuple

from mainspring.permissions.shell.tokenizer import COUNTED, MADE, WordReader
from mainspring.permissions.shell.values import UNKNOWN, Assignment, Redirect, ShellWord, UnclearError, names

RESERVED = names("! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while")
# Reserved, but parsed as if they were commands that run what follows: both parsers do so.
RUN_WHAT_FOLLOWS = frozenset({"time", "coproc"})

_BLANK = re.compile(r"(?:[ \t]|(?<=[ \t\n])\\\n)*")
_PLAIN = re.compile(r"[ \t]*([A-Za-z0-9_./:@%+,=^-]+)(?=[ \t\n;&|)]|\Z)", re.ASCII)
_REDIRECT = re.compile(r"(&>>|&>)|[0-9]*(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)")
_HERE_END = re.compile(
    r"""(?:'([A-Za-z_][\w.-]*)'|"([A-Za-z_][\w.-]*)"|\\([A-Za-z_][\w.-]*)|([A-Za-z_][\w.-]*))(?=[ \t\n;&|)<>]|\Z)""",
    re.ASCII,
)
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[0-9]+\])?\+?=", re.ASCII)
_ASSIGNING = names("read mapfile readarray printf getopts declare typeset local export readonly wait")
# They print a number, whatever they read.
_PRINT_NUMBERS = frozenset(
    {
        ("wc", "-l"),
        ("wc", "-c"),
        ("wc", "-w"),
        ("wc", "-m"),
        ("date", "+%s"),
        ("date", "+%s%N"),
        ("nproc",),
        ("id", "-u"),
    }
)
_NUMBER = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


class CommandDraft(NamedTuple):
    """A simple command while it is parsed. The text of its here-documents comes after its end."""

    words: list[ShellWord]
    assigns: list[Assignment]
    redirects: list[Redirect]


def is_number(word: ShellWord) -> bool:
    return _NUMBER.match(word.text) is not None or (word.text == UNKNOWN and word.names == (COUNTED,))


class SimpleCommandReader(WordReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.commands: list[CommandDraft] = []
        self.doubts: list[str] = []
        self._here: list[tuple[str, bool, bool, list[Redirect]]] = []

    def found(self) -> int:
        return len(self.commands)

    def printed(self, since: int) -> str:
        texts = tuple([word.text for word in self.commands[-1].words]) if len(self.commands) > since else ()
        if texts in _PRINT_NUMBERS:
            return COUNTED
        return MADE if texts in (("mktemp",), ("mktemp", "-d")) else "("

    # --- blanks, comments, here-documents ------------------------------------------------------------------------

    def _blank(self) -> None:
        if self.at < self.end and self.text[self.at] in " \t\\":
            found = _BLANK.match(self.text, self.at, self.end)
            assert found is not None
            self.at = found.end()

    def _lines(self) -> None:
        """Blanks, comments and ends of lines."""
        while True:
            self._blank()
            if self._at("#"):
                line_end = self.text.find("\n", self.at, self.end)
                self.at = self.end if line_end < 0 else line_end
            if not self._at("\n"):
                return
            self.at += 1
            if self._here:
                self._here_documents()

    def _at(self, character: str) -> bool:
        return self.at < self.end and self.text[self.at] == character

    def _here_documents(self) -> None:
        for delimiter, quoted, tabs, owner in self._here:
            start = self.at
            while True:
                line_end = self.text.find("\n", self.at, self.end)
                stop = self.end if line_end < 0 else line_end
                line = self.text[self.at : stop]
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                if line_end < 0:
                    raise UnclearError(f"a here-document without {delimiter!r}")
                self.at = line_end + 1
            body_end = self.at
            self.at = min(stop + 1, self.end)
            self.waiting -= 1
            self.documents += 1
            owner.append(Redirect("<<", self._here_word(start, body_end, quoted=quoted)))
        self._here = []

    def _here_word(self, start: int, end: int, *, quoted: bool) -> ShellWord:
        if quoted:
            return ShellWord(self.text[start:end], start)
        kept, self.waiting = self.waiting, 0
        text, variables, _ = self.here_text(start, end)
        self.waiting = kept
        return ShellWord(text, start, names=variables)

    # --- simple commands ---------------------------------------------------------------------------------------

    def _simple(self) -> None:
        draft = CommandDraft([], [], [])
        start = self.at
        while True:
            plain = _PLAIN.match(self.text, self.at, self.end)
            if plain is not None and (draft.words or "=" not in plain[1]):
                self.at = plain.end()  # the usual case, in one step
                word = ShellWord(plain[1], plain.start(1), bare=True)
                self._check(word, draft.words)
                draft.words.append(word)
                continue
            self._blank()
            if self.at >= self.end:
                break
            character = self.text[self.at]
            if character in "<>&0123456789" and self._redirect(draft.redirects):
                continue
            if character in ";&|\n)#":
                break
            if not draft.words and self._assignment(draft.assigns):
                continue
            word = self._argument()
            self._check(word, draft.words)
            draft.words.append(word)
        if self.at == start:
            raise UnclearError(f"an unexpected {self.text[start : start + 12]!r}")
        self._note_variables(draft.words)
        self.commands.append(draft)

    def _note_variables(self, words: list[ShellWord]) -> None:
        """Variables that `read x`, `export x=...` and `time x=...` set may not be numbers."""
        assigning = any(word.text in _ASSIGNING for word in words[:3])
        for word in words[1:]:
            found = _ASSIGN.match(word.text) if "=" in word.text else None
            if found is not None:
                self.given.add(found[1])
            elif assigning and word.text.isidentifier():
                self.given.add(word.text)

    def _check(self, word: ShellWord, before: list[ShellWord]) -> None:
        if not word.bare:
            if not before and not word.exact:
                self.doubts.append("the name of a command is computed")
            return
        if word.text not in RESERVED:
            return
        if not before and word.text not in RUN_WHAT_FOLLOWS:
            raise UnclearError(f"`{word.text}` where no command can begin with it")
        if before and before[0].bare and before[0].text in RUN_WHAT_FOLLOWS:
            raise UnclearError(f"`{before[0].text}` before more than a simple command")

    def _argument(self) -> ShellWord:
        start = self.at
        word = self.word()
        if self.at == start or self._at("("):
            raise UnclearError(f"an unexpected {self.text[self.at : self.at + 12]!r}")
        return word

    def _assignment(self, assigns: list[Assignment]) -> bool:
        found = _ASSIGN.match(self.text, self.at, self.end)
        if found is None:
            return False
        name = found[1]
        self.at = found.end()
        if self._at("("):
            self._list_value()
            value = None
        elif self.at >= self.end or self.text[self.at] in " \t\n;&|)":
            value = ShellWord("", self.at)
        else:
            value = self.word(value=True)
            if self._at("("):
                raise UnclearError("a `(` inside a value")
        (self.numbers if value is not None and is_number(value) else self.given).add(name)
        assigns.append(Assignment(name, value))
        return True

    def _list_value(self) -> None:
        self.at += 1
        while True:
            self._lines()
            if self.at >= self.end:
                raise UnclearError("a list without `)`")
            if self._at(")"):
                self.at += 1
                return
            if self._at("["):  # bash evaluates the text in the brackets
                raise UnclearError("a list with keys")
            self._argument()

    def _redirect(self, owner: list[Redirect]) -> bool:
        found = _REDIRECT.match(self.text, self.at, self.end)
        if found is None:
            return False
        operator = found[1] or found[2]
        if operator in "<>" and self.text.startswith("(", found.end()):
            if found.end() - found.start() > 1:
                raise UnclearError("a descriptor before a substitution")
            return False  # `<(...)`: a word
        self.at = found.end()
        self._blank()
        if operator in ("<<", "<<-"):
            self._here_start(operator, owner)
        else:
            owner.append(Redirect(operator, self._argument()))
        return True

    def _here_start(self, operator: str, owner: list[Redirect]) -> None:
        found = _HERE_END.match(self.text, self.at, self.end)
        if found is None:
            raise UnclearError("a here-document with an unusual end mark")
        self.at = found.end()
        self.waiting += 1
        delimiter = found[1] or found[2] or found[3] or found[4]
        self._here.append((delimiter, found[4] is None, operator == "<<-", owner))
