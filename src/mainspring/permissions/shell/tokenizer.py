"""Parses one word as bash does: quotes, escapes, expansions, globs. Text that bash knows only at run time is UNKNOWN.

Where bash's own rules are intricate, this parser does not follow them: it raises `UnclearError`. The commands inside
substitutions are parsed by the grammar in `grammar.py`, which is built on this class.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from mainspring.permissions.shell.programs import can_run_programs
from mainspring.permissions.shell.values import UNKNOWN, ShellWord, UnclearError, decode_ansi_c, only_in_quotes

DEEPEST = 50  # nested substitutions and groups; bash has no limit, people stop at three or four
SEPARATOR = "\x1f"  # separates words where rules are matched, so no word can contain it

_WHOLE = re.compile(r"[A-Za-z0-9_./:@%+,=^-]+(?=[ \t\n;&|)]|\Z)", re.ASCII)
_RUN = re.compile(r"[A-Za-z0-9_./@%+,^!\]}#-]+", re.ASCII)
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_BODY_RUN = re.compile(r"[^\\$`]+")
_META = frozenset(" \t\n;&|()<>")
_NAMED = re.compile(r"\$(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<special>[0-9@*#?$!-]))", re.ASCII)
_BRACED = re.compile(
    r"""\$\{(?P<length>\#)?(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*\#?$!-])(?P<index>\[(?:[0-9]+|[@*])\])?
    (?:(?P<op>:?[-=+?]|\#\#?|%%?|//?[\#%]?|\^\^?|,,?)
       (?P<word>(?:[^`$(){}'"\\\n<>&|;]|\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|"[^"`$\\\n]*")*)
      |:\ ?-?[0-9]+(?::\ ?-?[0-9]+)?)?\}""",
    re.ASCII | re.VERBOSE,
)
# No subscripts and no quotes: the shell would evaluate, and so run, the text in them.
_ARITHMETIC = re.compile(r"[A-Za-z0-9_ \t+\-*/%<>=!&|^~?:,()$\#]*", re.ASCII)
_ADJACENT = re.compile(r"[A-Za-z0-9_)][ \t]+[A-Za-z0-9_(]", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_.+-]*", re.ASCII)
_CLASS = re.compile(r"[A-Za-z0-9_.,!^-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"\$([0-9@*])", re.ASCII)
_SET = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?!=)", re.ASCII)
_RANGE = re.compile(r"\{-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?\}\Z", re.ASCII)

_INSTEAD = frozenset({"-", ":-", "=", ":=", "+", ":+"})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", re.ASCII)

MADE = "mktemp"  # in `ShellWord.names`: the unknown part is the name of a new file
COUNTED = "(("  # in `ShellWord.names`: the unknown part is a number


class WordReader(ABC):
    """A position in a text. Subclasses parse the list of commands in a substitution."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0
        self.waiting = 0  # here-documents whose text has not begun
        self.documents = 0  # and those whose text has been read
        self.counted: set[str] = set()  # variables that arithmetic evaluates, and with them their values
        self.given: set[str] = set()  # variables that may have a value other than a number
        self.numbers: set[str] = set()  # variables that are set to numbers

    @abstractmethod
    def statements_until(self, closer: str) -> None:
        """Parses commands up to the character and consumes it; "": up to the end."""

    @abstractmethod
    def found(self) -> int:
        """The number of simple commands so far."""

    @abstractmethod
    def printed(self, since: int) -> str:
        """What the commands found since then print: COUNTED for only a number, MADE for a new file's name, "(" for
        anything.
        """

    # --- a whole word ------------------------------------------------------------------------------------------

    def word(self, *, value: bool = False) -> ShellWord:
        """The word that begins here. `value`: it is the right side of an assignment."""
        start = self.at
        found = _WHOLE.match(self.text, start, self.end)
        if found is not None:
            self.at = found.end()
            return ShellWord(found.group(), start, bare=True)
        return _Parts(self, start, value=value).read()

    # --- expansions --------------------------------------------------------------------------------------------

    def expansion(self, *, quoted: bool) -> tuple[str, tuple[str, ...], bool]:
        """An expansion with `$`: its text, the variables in it, whether it may become several words."""
        text, at = self.text, self.at
        found = _NAMED.match(text, at, self.end)
        if found is not None:
            self.at = found.end()
            name = found["name"] or found["special"]
            return UNKNOWN, (name,), not quoted or name == "@"
        following = text[at + 1 : at + 2]
        if following == "{":
            return self._braced(quoted=quoted)
        if following == "(":
            if text.startswith("((", at + 1):
                self.at += 3
                self.arithmetic("))")
                return UNKNOWN, (COUNTED,), not quoted
            self.at += 2
            before = self.found()
            self.nested(")")
            return UNKNOWN, (self.printed(before),), not quoted
        if not quoted and following == "'":
            return self._ansi(), (), False
        if following == "[" or (following == '"' and not quoted):
            raise UnclearError(f"`${following}`")
        self.at += 1
        return "$", (), False

    def _braced(self, *, quoted: bool) -> tuple[str, tuple[str, ...], bool]:
        found = _BRACED.match(self.text, self.at, self.end)
        if found is None:
            raise UnclearError("an expansion that is more than a plain `${...}`")
        self.at = found.end()
        name = found["name"]
        if found["length"]:
            return UNKNOWN, (COUNTED,), not quoted
        if found["op"] in ("=", ":="):
            self.given.add(name)
            if can_run_programs(name):
                raise UnclearError(f"{name!r} is set, which can make other programs run")
        several = name == "@" or found["index"] == "[@]"
        # A default value counts as computed, unless it is a plain name.
        other = ("(",) if found["op"] in _INSTEAD and not _PLAIN_NAME.match(found["word"]) else ()
        return UNKNOWN, (name, *other), not quoted or several

    def _ansi(self) -> str:
        at = self.at + 2
        while True:
            close = self.text.find("'", at, self.end)
            if close < 0:
                raise UnclearError("a $'...' without an end")
            slashes = 0
            while self.text[close - 1 - slashes] == "\\" and close - 1 - slashes >= self.at + 2:
                slashes += 1
            if slashes % 2 == 0:
                break
            at = close + 1
        text = decode_ansi_c(self.text[self.at + 2 : close])
        if SEPARATOR in text:
            raise UnclearError("a separator character in $'...'")
        self.at = close + 1
        return text

    def arithmetic(self, closer: str) -> None:
        """Up to `))` or, in the head of a loop, `;`. Records the variables."""
        found = _ARITHMETIC.match(self.text, self.at, self.end)
        assert found is not None  # the expression matches the empty text
        inner = found.group()
        if closer == "))":
            close = self._closing(inner)
            inner = inner[:close]
            self.at += close + 2
        else:
            self.at = found.end()
        if _ADJACENT.search(inner):  # no expression: more likely commands in two parentheses
            raise UnclearError("arithmetic that is more than names, numbers and operators")
        self.counted.update(_NAME.findall(inner), _PLACE.findall(inner))
        self.numbers.update(_SET.findall(inner))

    def _closing(self, inner: str) -> int:
        open_ones = 0
        for index, character in enumerate(inner):
            if character == "(":
                open_ones += 1
            elif character == ")":
                if open_ones == 0:
                    if inner.startswith("))", index):
                        return index
                    break
                open_ones -= 1
        raise UnclearError("arithmetic that is more than names, numbers and operators")

    def backticks(self, *, quoted: bool) -> None:
        close = self.text.find("`", self.at + 1, self.end)
        if close < 0:
            raise UnclearError("a backtick without its partner")
        inner = self.text[self.at + 1 : close]
        if "\\" in inner or (quoted and '"' in inner):
            raise UnclearError("backticks with quoting inside")
        end, self.end = self.end, close
        self.at += 1
        self.nested("")
        self.at, self.end = close + 1, end

    def nested(self, closer: str) -> None:
        """The commands of a substitution.

        bash 5.2 prints them from its parse tree and parses that again. With a here-document among them it joins
        separate commands: `c;d` becomes `c d`.
        """
        self.deeper()
        if self.waiting:
            raise UnclearError("a substitution between `<<` and its text")
        documents, commands = self.documents, self.found()
        self.statements_until(closer)
        if self.documents > documents and self.found() > commands + 1:
            raise UnclearError("a here-document and further commands in one substitution")
        if self.waiting:
            raise UnclearError("a here-document without its text")
        self.depth -= 1

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnclearError(f"more than {DEEPEST} levels of nesting")

    # --- text with expansions in it ------------------------------------------------------------------------------

    def in_double_quotes(self) -> tuple[str, tuple[str, ...], bool]:
        """From the opening quote to after the closing one."""
        self.at += 1
        return self._mixed(_QUOTED_RUN, '$`"\\', '"')

    def here_text(self, start: int, end: int) -> tuple[str, tuple[str, ...], bool]:
        """The text of an unquoted here-document."""
        if "\\\n" in self.text[start:end]:
            raise UnclearError("a backslash at the end of a line in a here-document")
        if "`" in self.text[start:end]:
            raise UnclearError("a backtick in a here-document")
        kept = self.at, self.end
        self.at, self.end = start, end
        found = self._mixed(_BODY_RUN, "$`\\", "")
        self.at, self.end = kept
        return found

    def _mixed(self, run: re.Pattern[str], escaped: str, closer: str) -> tuple[str, tuple[str, ...], bool]:
        parts: list[str] = []
        names: tuple[str, ...] = ()
        several = False
        while self.at < self.end:
            found = run.match(self.text, self.at, self.end)
            if found is not None:
                parts.append(found.group())
                self.at = found.end()
                continue
            character = self.text[self.at]
            if character == closer:
                self.at += 1
                return "".join(parts), names, several
            if character == "\\":
                parts.append(self._escape(escaped))
            elif character == "`":
                self.backticks(quoted=True)
                parts.append(UNKNOWN)
                names = (*names, "(")
            else:
                text, new, more = self.expansion(quoted=True)
                parts.append(text)
                names, several = (*names, *new), several or more
        if closer:
            raise UnclearError("a quote without its partner")
        return "".join(parts), names, several

    def _escape(self, escaped: str) -> str:
        following = self.text[self.at + 1 : self.at + 2]
        if not following or self.at + 1 >= self.end:
            raise UnclearError("a backslash at the end")
        if following == "\n":  # bash joins the lines first: `"$\` and `(rm)"` on the next line run rm
            raise UnclearError("a backslash at the end of a line, inside quotes")
        self.at += 2
        return following if following in escaped else "\\" + following


class _Parts:
    """A word with more than plain characters, while it is parsed."""

    def __init__(self, reader: WordReader, start: int, *, value: bool) -> None:
        self.reader = reader
        self.start = start
        self.value = value
        self.texts: list[str] = []
        self.names: tuple[str, ...] = ()
        self.many = self.glob = self.other = self.tilde = self.quoted = self.brace = self.listed = False

    def read(self) -> ShellWord:
        reader = self.reader
        text = reader.text
        while reader.at < reader.end:
            character = text[reader.at]
            if character in _META and not self._substitution(character):
                break
            run = _RUN.match(text, reader.at, reader.end)
            if run is not None:
                self._plain(run.group())
            elif character not in _META:
                self._special(character)
        return self._whole()

    def _substitution(self, character: str) -> bool:
        """`<(...)` and `>(...)`, also in the middle of a word."""
        reader = self.reader
        if character not in "<>" or not reader.text.startswith("(", reader.at + 1):
            return False
        reader.at += 2
        reader.nested(")")
        self._unknown(("<(",), several=False)
        return True

    def _plain(self, run: str) -> None:
        self.reader.at += len(run)
        self.texts.append(run)
        if self.brace and ("," in run or ".." in run.partition("}")[0]):
            self.listed = True

    def _special(self, character: str) -> None:
        reader = self.reader
        match character:
            case "'":
                close = reader.text.find("'", reader.at + 1, reader.end)
                if close < 0:
                    raise UnclearError("a quote without its partner")
                self.texts.append(reader.text[reader.at + 1 : close])
                reader.at = close + 1
                self.quoted = True
            case '"':
                self._add(reader.in_double_quotes())
                self.quoted = True
            case "$":
                self.quoted = self.quoted or reader.text.startswith("'", reader.at + 1)
                self._add(reader.expansion(quoted=False))
            case "`":
                reader.backticks(quoted=False)
                self._unknown(("(",), several=True)
            case "\\":
                self._backslash()
            case "*" | "?" | "[":
                self._glob(character)
            case "{":
                self._brace()
            case "~":
                self._tilde()
            case _:
                self._literal(character)

    def _add(self, found: tuple[str, tuple[str, ...], bool]) -> None:
        text, names, several = found
        self.texts.append(text)
        self.names = (*self.names, *names)
        self.many = self.many or several
        self.other = self.other or UNKNOWN in text

    def _unknown(self, names: tuple[str, ...], *, several: bool) -> None:
        self._add((UNKNOWN, names, several))

    def _backslash(self) -> None:
        reader = self.reader
        following = reader.text[reader.at + 1 : reader.at + 2]
        if following in ("", "\n") or reader.at + 1 >= reader.end:
            raise UnclearError("a backslash at the end of a line, inside a word")
        self.texts.append(following)
        self.quoted = True
        reader.at += 2

    def _glob(self, character: str) -> None:
        reader = self.reader
        if character == "[" and self._no_class():
            if reader.text[self.start : reader.at].isidentifier():
                # In the position of an assignment, bash reads on to the `]`, over blanks and operators.
                raise UnclearError("a bracket after a name that is not closed at once")
            self._literal(character)
            return
        reader.at += 1
        if self.value:  # no globs there
            self.texts.append(character)
            return
        self.texts.append(UNKNOWN)
        self.glob = self.many = True
        if character == "[":  # the text between the brackets is part of the pattern
            close = reader.text.find("]", reader.at, reader.end)
            if not _CLASS.fullmatch(reader.text, reader.at, close):
                raise UnclearError("a character class with more than plain characters")
            reader.at = close + 1

    def _no_class(self) -> bool:
        """A bracket that is not closed in this word is a plain character, as in the command `[`."""
        reader = self.reader
        close = reader.text.find("]", reader.at, reader.end)
        return close < 0 or any(character in _META for character in reader.text[reader.at : close])

    def _brace(self) -> None:
        reader = self.reader
        if reader.text.startswith("{}", reader.at):
            self.texts.append("{}")
            reader.at += 2
            return
        self.brace = True
        self._literal("{")

    def _tilde(self) -> None:
        reader = self.reader
        first = reader.at == self.start
        if not first and reader.text[reader.at - 1] not in "=:":
            self._literal("~")
            return
        following = reader.text[reader.at + 1 : min(reader.at + 2, reader.end)]
        reader.at += 1
        if first and not self.value and (following in ("", "/") or following in _META):
            self.tilde = True
            self.texts.append("~")
        else:  # `~name`, `~+`: only the shell knows whose home
            found = _USER.match(reader.text, reader.at, reader.end)
            assert found is not None
            reader.at = found.end()
            self._unknown((), several=False)

    def _literal(self, character: str) -> None:
        if not character.isascii() and only_in_quotes(character):
            raise UnclearError(f"the character U+{ord(character):04X} outside quotes")
        self.texts.append(character)
        self.reader.at += 1

    def _whole(self) -> ShellWord:
        reader = self.reader
        text = "".join(self.texts)
        raw = reader.text[self.start : reader.at]
        if self.brace:
            if reader.text.startswith(("<", ">"), reader.at):
                raise UnclearError("a descriptor in braces")
            if self.listed and not self.value:
                counted = (COUNTED,) if _RANGE.match(raw) else ("{" + raw, *self.names)
                return ShellWord(UNKNOWN, self.start, many=True, names=counted)
        return ShellWord(
            text,
            self.start,
            many=self.many and not self.value,
            glob=self.glob and not self.other,
            tilde=self.tilde,
            bare=not self.quoted and raw == text,
            names=self.names,
        )
