"""Reads a settings file as a tree, with the line and column of every value (security T4). JSON and TOML.

The JSON parser is our own, a page long: it records positions, counts depth, and reports a duplicate key as a mistake.
A single parser also means that no two can disagree about a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import NamedTuple, cast

import msgspec

LARGEST = 256 * 1024  # bytes; a long list of rules has twenty thousand
DEEPEST = 32  # hooks need six

Tree = dict[str, object]
Path = tuple[str | int, ...]
Position = tuple[int, int]

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER = 40
_TOML_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*"|'[^'\n]*')"""
# Python's TOML parser takes quadratic time for such a key: ten seconds for forty kilobytes.
_TOML_DEEP_KEY = re.compile(rf"{_TOML_PART}(?:[ \t]*\.[ \t]*{_TOML_PART}){{{DEEPEST},}}")
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class UnreadableSettings(Exception):  # noqa: N818  # it reads as what it says
    """The file is not valid settings. `text` is its content, as far as it could be read."""

    def __init__(self, says: str, position: Position = (0, 0), text: str = "") -> None:
        super().__init__(says)
        self.says, self.position, self.text = says, position, text

    @property
    def where(self) -> str:
        line, column = self.position
        return f" in line {line}, column {column}" if line else ""


class ParsedFile(NamedTuple):
    tree: Tree
    position: Callable[[Path], Position]


class LocatedJson(NamedTuple):
    """A JSON text with offsets, for callers that change a part of it."""

    tree: Tree
    starts: dict[Path, int]  # of keys and of elements
    spans: dict[Path, tuple[int, int]]  # of values


def read_file(path: str) -> bytes | None:
    """The bytes of a file; None: it does not exist. Opens regular files only (security F3)."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # pathlib takes 8 ms to load
        if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
            return None  # the sandbox's placeholder for a missing file, while a command runs
        if not stat.S_ISREG(mode):
            raise UnreadableSettings("it is not a regular file")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableSettings(f"it cannot be read: {error.strerror}") from None
    try:
        return _bytes_of(fd)
    except OSError as error:
        raise UnreadableSettings(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _bytes_of(fd: int) -> bytes:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise UnreadableSettings("it is not a regular file")
    data = b""
    while len(data) <= LARGEST and (piece := os.read(fd, LARGEST + 1 - len(data))):
        data += piece
    return data


def parse_settings_text(data: bytes, *, toml: bool = False) -> ParsedFile:
    text = _decode(data)
    if len(data) > LARGEST:
        raise UnreadableSettings(f"it has more than {LARGEST:,} bytes", text=text)
    return _read_toml(text) if toml else _read_json(text)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        position = (before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise UnreadableSettings("it is not valid UTF-8", position, data.decode("utf-8-sig", "replace")) from None


def line_and_column(text: str, offset: int) -> Position:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


# --- JSON -------------------------------------------------------------------------------------------


def read_located(text: str) -> LocatedJson:
    reader = _Json(text)
    reader.is_locating = True
    return LocatedJson(_object(reader), reader.places, reader.spans)


def _object(reader: _Json) -> Tree:
    tree = reader.document()
    if not isinstance(tree, dict):
        raise UnreadableSettings("it must be an object: { ... }", (1, 1), reader.text)
    return cast("Tree", tree)


def _read_json(text: str) -> ParsedFile:
    reader = _Json(text)
    tree = _object(reader)

    def position(path: Path) -> Position:
        """Computed by parsing again: it is rarely needed."""
        if not reader.places:
            reader.at, reader.is_locating = 0, True
            reader.document()
        return line_and_column(text, reader.places.get(path, 0))

    return ParsedFile(tree, position)


class _Json:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.path: list[str | int] = []  # to the current position
        self.is_locating = False
        self.places: dict[Path, int] = {}  # of keys and of elements
        self.spans: dict[Path, tuple[int, int]] = {}  # of values

    def document(self) -> object:
        value = self.value()
        self.skip()
        if self.at < len(self.text):
            raise self.broken("there is text after its end")
        return value

    def broken(self, says: str) -> UnreadableSettings:
        return UnreadableSettings(says, line_and_column(self.text, self.at), self.text)

    def skip(self) -> str:
        """Skips white space; returns the next character, or nothing."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at : self.at + 1]

    def inner(self, step: str | int, start: int) -> object:
        """The value of a key, or an element."""
        self.path.append(step)
        if self.is_locating:
            self.places[tuple(self.path)] = start
        value = self.value()
        self.path.pop()
        return value

    def value(self) -> object:
        if len(self.path) > DEEPEST:
            raise self.broken(f"it is nested more than {DEEPEST} deep")
        token, start = self.skip(), self.at
        value = self.beginning_with(token)
        if self.is_locating:
            self.spans[tuple(self.path)] = (start, self.at)
        return value

    def beginning_with(self, token: str) -> object:
        match token:
            case "{":
                return self.pairs()
            case "[":
                return self.elements()
            case '"':
                return self.string()
            case _:
                return self.word()

    def pairs(self) -> Tree:
        found: Tree = {}
        while self.more(found, "}"):
            start = self.at
            if self.skip() != '"':
                raise self.broken("a key in double quotes is missing")
            key = self.string()
            if key in found:
                self.at = start
                raise self.broken(f"the key '{key}' is a duplicate")
            if self.skip() != ":":
                raise self.broken(f"':' is missing after the key '{key}'")
            self.at += 1
            found[key] = self.inner(key, start)
        return found

    def elements(self) -> list[object]:
        found: list[object] = []
        while self.more(found, "]"):
            found.append(self.inner(len(found), self.at))
        return found

    def more(self, found: Tree | list[object], end: str) -> bool:
        """Skips the bracket or comma before the next element. Returns whether there is one."""
        first = not found and self.text[self.at] in "{["
        if first:
            self.at += 1
        token = self.skip()
        if token == end and (first or found):
            self.at += 1
            return False
        if not first:
            if token != ",":
                raise self.broken(f"',' or '{end}' is missing")
            self.at += 1
            if self.skip() == end:
                raise self.broken(f"there is an extra ',' before '{end}'")
        return True

    def string(self) -> str:
        token = _STRING.match(self.text, self.at)
        if token is None:
            raise self.broken("a string is not closed, or contains a character that must be escaped")
        self.at = token.end()
        if "\\" not in token[0]:
            return token[0][1:-1]
        try:
            return msgspec.json.decode(token[0], type=str)
        except msgspec.DecodeError:
            self.at = token.start()
            raise self.broken("a string contains half of a surrogate pair") from None

    def word(self) -> object:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        token = _NUMBER.match(self.text, self.at)
        if token is None or len(token[0]) > _LONGEST_NUMBER:
            raise self.broken("a value is missing or is not valid JSON")
        number = float(token[0]) if token[1] or token[2] else int(token[0])
        if number in (float("inf"), float("-inf")):
            raise self.broken("the number is too large")
        self.at = token.end()
        return number


# --- TOML -------------------------------------------------------------------------------------------


def _read_toml(text: str) -> ParsedFile:
    import tomllib  # 9 ms, and few people have such a file

    if deep := _TOML_DEEP_KEY.search(text):
        raise UnreadableSettings(f"it is nested more than {DEEPEST} deep", line_and_column(text, deep.start()), text)
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise UnreadableSettings(f"it is nested more than {DEEPEST} deep", text=text) from None
    except ValueError as error:
        found = _TOML_POSITION.search(str(error))
        at = (int(found[1]), int(found[2])) if found and found[1] else line_and_column(text, len(text))
        raise UnreadableSettings(_TOML_POSITION.sub("", str(error)), at, text) from None
    if _is_too_deep(tree):
        raise UnreadableSettings(f"it is nested more than {DEEPEST} deep", text=text)

    def position(path: Path) -> Position:
        """The TOML parser gives no positions: this finds the first line that begins with the last key of the path."""
        key = re.escape(next((str(part) for part in reversed(path) if isinstance(part, str)), ""))
        line = re.search(rf"(?m)^[ \t]*\[*(?:[\w.\"' -]*\.)?[\"']?{key}\b", text)
        return line_and_column(text, line.start()) if line and key else (1, 1)

    return ParsedFile(tree, position)


def _is_too_deep(tree: object) -> bool:
    """Without recursion: dotted keys can nest thousands deep."""
    level: list[object] = [tree]
    for _ in range(DEEPEST + 1):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]
            elif isinstance(value, list):
                inner.extend(value)  # pyright: ignore[reportUnknownArgumentType]
        level = inner
    return bool(level)


# --- salvage of a broken file -----------------------------------------------------------------------

_JSON_LIST = re.compile(r'"(deny|ask)"\s*:\s*(?=["\[])')
_TOML_LIST = re.compile(r"""["']?\b(deny|ask)["']?\s*=\s*(?=["'\[])""")
_JSON_RULE = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_TOML_RULE = re.compile(r""""(?:[^"\\\x00-\x1f]|\\.)*"|'[^'\x00-\x1f]*'""")
_BEHIND_A_KEY = re.compile(r"\s*[:=]")


def salvage_rules(text: str, *, toml: bool = False) -> dict[str, list[str]]:
    """The deny and ask rules that can still be read, before the mistake and after it. They apply (security T4)."""
    found: dict[str, list[str]] = {"deny": [], "ask": []}
    begin, rule = (_TOML_LIST, _TOML_RULE) if toml else (_JSON_LIST, _JSON_RULE)
    at = 0
    while start := begin.search(text, at):
        rules, at = _strings(text, start.end(), begin, rule)
        found[start[1]] += rules
    return found


def _strings(text: str, at: int, begin: re.Pattern[str], rule: re.Pattern[str]) -> tuple[list[str], int]:
    """Up to the end of the list, or to the next key if the end is missing; and the offset of that."""
    is_list = text[at] == "["
    at += is_list
    found: list[str] = []
    while at < len(text) and text[at] not in "]{}" and not begin.match(text, at):
        token = rule.match(text, at)
        if token is None:
            at = _past(text, at, "\"'" if rule is _TOML_RULE else '"')
            continue
        if _BEHIND_A_KEY.match(text, token.end()):
            break
        found += _unquoted(token[0])
        at = token.end()
        if not is_list:
            break
    return found, at


def _past(text: str, at: int, quotes: str) -> int:
    """Skips what is not a string. An unterminated string spoils its line; searching it would take quadratic time."""
    if text[at] not in quotes:
        return at + 1
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _unquoted(token: str) -> list[str]:
    if token[0] == "'" or "\\" not in token:
        return [token[1:-1]]
    try:
        return [msgspec.json.decode(token, type=str)]
    except msgspec.DecodeError:
        return []
