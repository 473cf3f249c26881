"""Frontmatter of a Markdown file: `key: value` lines between two `---`. A small subset of YAML.

Supports plain and quoted strings, lists, and multi-line text (`|`, `>`). Deeper structures are ignored. Aliases,
anchors and tags are rejected: they can make a small file a large one, or something other than text (security T4).
"""

from __future__ import annotations

import re

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle

LARGEST = 16_000  # characters between the two lines
FENCE = "---"
VERBATIM = frozenset({"argument-hint"})  # people write '[file] [words]' there, which is not a list

_KEY = re.compile(r"([A-Za-z][\w-]{0,63})[ \t]*:(?:[ \t]+(.*))?$")
_SCALAR = re.compile(r"[|>][+-]?\d?[+-]?")
_QUOTES = ("", "'", '"')
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class Frontmatter(Bundle):
    fields: dict[str, str]  # keys in lower case; list items are joined by ', '
    body: str


def split_frontmatter(text: str) -> Frontmatter:
    """Raises `UsageError` for rejected YAML. Without frontmatter, all text is body. Blank lines may precede it."""
    if text[:1].isspace() and (lean := text.lstrip()).startswith(f"{FENCE}\n"):
        text = lean
    if not text.startswith((f"{FENCE}\n", f"{FENCE} ")):
        return Frontmatter({}, text)
    lines = text[: LARGEST + len(FENCE) * 2].split("\n")
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == FENCE), None)
    if end is None:
        raise UsageError(f"its frontmatter is not closed by '{FENCE}' within {LARGEST:,} characters")
    body = text.split("\n", end + 1)[end + 1] if text.count("\n") > end else ""
    return Frontmatter(_fields(lines[1:end]), body)


def _fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while at < len(lines):
        found = _KEY.match(lines[at].rstrip())
        at += 1
        if found is None:
            continue  # blank, a comment, or too deep
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
            at += 1
        key, said = found[1].lower(), (found[2] or "").strip()
        fields[key] = said if key in VERBATIM and said[:1] not in _QUOTES else _value(said, lines[start:at])
    return fields


def _value(said: str, below: list[str]) -> str:
    if _SCALAR.fullmatch(said):
        return ("\n" if said[0] == "|" else " ").join([line.strip() for line in below]).strip()
    items = [line.strip() for line in below if line.strip()]
    if not said and items and all(item.startswith(("- ", "-\t")) for item in items):
        return ", ".join([_word(item[2:].strip()) for item in items])
    if said.startswith("[") and said.endswith("]"):
        return ", ".join([_word(item.strip()) for item in said[1:-1].split(",") if item.strip()])
    if not said:
        return ""  # a deeper structure
    return _word(" ".join([said, *items]))


def _word(said: str) -> str:
    if said[:1] in ("*", "&", "!"):
        raise UsageError(f"'{said[:40]}' in its frontmatter is an alias, an anchor or a tag: write the text instead")
    if said[:1] == '"':
        return _quoted(said)
    if said[:1] == "'":
        end = said.rfind("'")
        return said[1 : end or None].replace("''", "'")
    return said.split(" #", 1)[0].rstrip()


def _quoted(said: str) -> str:
    kept: list[str] = []
    at = 1
    while at < len(said) and said[at] != '"':
        if said[at] == "\\" and at + 1 < len(said):
            at += 1
            kept.append(_ESCAPES.get(said[at], said[at]))
        else:
            kept.append(said[at])
        at += 1
    return "".join(kept)
