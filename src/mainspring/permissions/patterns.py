"""Path rules: `//from/root`, `~/from/home`, `/from/the/settings`, `./from/here`, `anywhere/below`, as in a .gitignore.

`*` and `?` match characters of one name, `**` any number of folders; everything below a match matches too. Names are
compared as they are: nothing is decoded or folded (security F2). Matching takes time in proportion to pattern and
path, also for patterns that are crafted to be slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar, cast

Anchor = Literal["root", "home", "settings", "here"]
Token = TypeVar("Token")
Item = TypeVar("Item")

_ANY = object()  # any number of items


class PathPattern(NamedTuple):
    """A parsed pattern: its anchor, the literal names, the rest."""

    anchor: Anchor
    literal: tuple[str, ...]
    rest: tuple[object, ...]  # tokens for one component each, or _ANY


@lru_cache(maxsize=4_096)
def parse_path_pattern(specifier: str, *, allow: bool) -> PathPattern:
    anchor, text = _anchor(specifier)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    # A single name, and `folder/**` in deny and ask rules, match at any depth; every other form where it is anchored.
    named_anywhere = len(parts) == 1 or (not allow and len(parts) == 2 and parts[1] == "**")
    anywhere = anchor == "here" and not specifier.startswith("./") and named_anywhere and parts[0] != "**"
    tokens = [_component(part) for part in parts]
    literal: list[str] = []
    if not anywhere:
        for token in tokens:
            if not isinstance(token, str):
                break
            literal.append(token)
    rest = [*([_ANY] if anywhere else []), *tokens[len(literal) :], _ANY]
    return PathPattern(anchor, tuple(literal), tuple(rest))


def find_needle(specifier: str) -> str:
    """A name that occurs in every path that a deny rule matches, or ""."""
    found = parse_path_pattern(specifier, allow=False)
    return next((token for token in (*found.literal, *found.rest)[::-1] if isinstance(token, str)), "")


def is_hidden(tokens: Sequence[object]) -> bool:
    """Whether every path that matches has a name that begins with a dot."""
    return any(isinstance(token, str) and token.startswith(".") for token in tokens)


def _anchor(specifier: str) -> tuple[Anchor, str]:
    if specifier.startswith("//"):
        return "root", specifier[2:]
    if specifier.startswith("~/") or specifier == "~":
        return "home", specifier[2:]
    if specifier.startswith("/"):
        return "settings", specifier[1:]
    return "here", specifier


def matches_below(rest: Sequence[object], names: Sequence[str]) -> bool:
    """Whether the components of a path, from the literal part on, match the rest of the pattern."""
    if len(rest) == 1:  # `folder/**`, and a pattern without wildcards
        return True
    if len(rest) == 3 and rest[0] is _ANY and isinstance(rest[1], str):  # a name, anywhere
        return rest[1] in names
    return _walk(rest, names, _one_component)


def is_literal(rest: Sequence[object]) -> bool:
    """Whether a pattern without its literal part matches everything: one path, and all below it."""
    return all(token is _ANY for token in rest)


def may_reach(rest: Sequence[object], names: Sequence[str]) -> bool:
    """Whether something below a folder may match; these are its components from the literal part on."""
    for token, name in zip(rest, names, strict=False):
        if token is _ANY:
            return True
        if not _one_component(token, name):
            return False
    return True


def _one_component(token: object, name: str) -> bool:
    if isinstance(token, str):
        return token == name
    return _walk(cast("tuple[object, ...]", token), name, _one_character)


def _one_character(token: object, character: str) -> bool:
    return token == character if isinstance(token, str) else bool(token(character))  # type: ignore[operator]


def _walk(tokens: Sequence[Token], items: Sequence[Item], fits: Callable[[Token, Item], bool]) -> bool:
    """The classic match with one wildcard: only the last one has to be retried, so it never takes long."""
    token = item = 0
    star, retry = -1, 0
    while item < len(items):
        if token < len(tokens) and tokens[token] is _ANY:
            star, retry = token, item
            token += 1
        elif token < len(tokens) and fits(tokens[token], items[item]):
            token += 1
            item += 1
        elif star >= 0:
            retry += 1
            token, item = star + 1, retry
        else:
            return False
    return all(left is _ANY for left in tokens[token:])


# --- one component -----------------------------------------------------------------------------------------------


def _component(part: str) -> object:
    """A plain text, `_ANY` for `**`, else tokens for single characters."""
    if part == "**":
        return _ANY
    tokens: list[object] = []
    index = 0
    while index < len(part):
        token, index = _token(part, index)
        if token is not _ANY or not tokens or tokens[-1] is not _ANY:
            tokens.append(token)
    if all(isinstance(token, str) for token in tokens):
        return "".join(str(token) for token in tokens)
    return tuple(tokens)


def _token(part: str, index: int) -> tuple[object, int]:
    match part[index]:
        case "\\" if index + 1 < len(part):
            return part[index + 1], index + 2
        case "*":
            return _ANY, index + 1
        case "?":
            return _anything, index + 1
        case "[" if (close := part.find("]", index + 2)) > 0:
            return _class(part[index + 1 : close]), close + 1
        case character:
            return character, index + 1


def _anything(_: str) -> bool:
    return True


def _class(text: str) -> Callable[[str], bool]:
    negated = text.startswith(("!", "^"))
    body = text[1:] if negated else text
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(body):
        if index + 2 < len(body) and body[index + 1] == "-":
            ranges.append((body[index], body[index + 2]))
            index += 3
        else:
            ranges.append((body[index], body[index]))
            index += 1
    return lambda character: any(low <= character <= high for low, high in ranges) != negated


# --- against paths -----------------------------------------------------------------------------------------------


def split_components(path: str) -> tuple[str, ...]:
    return tuple([part for part in path.split("/") if part not in ("", ".")])


def matches_under(found: PathPattern, base: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Whether a path matches, relative to the folder of the literal part. Both as components."""
    if ".." in name or name[: len(base)] != base:
        return False
    return matches_below(found.rest, name[len(base) :])
