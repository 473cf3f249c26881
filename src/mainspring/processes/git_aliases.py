"""The aliases of git, from the repository's configuration and the user's: `git x` may be any command.

Only what is certain is told. A configuration that includes other files, or lies somewhere unusual, is not certain.
"""

# ruff: noqa: PTH112, PTH123  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import re

LARGEST = 256_000  # characters of a configuration
AUTOCORRECT = "help.autocorrect"  # with this git takes a name for one that is close to it
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*("(?:[^"\\\n]|\\.)*")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?\Z")
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|(\\.)|([#;].*)|([^"\\#;]+)|(.)')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def git_aliases(top: str | None, home: str) -> dict[str, str] | None:
    """By name, in lower case; `help.autocorrect` among them if it is on. `top`: of the working tree that git finds.
    None: they cannot be told."""
    files = ["/etc/gitconfig", f"{home}/.config/git/config", f"{home}/.gitconfig"]
    if top is not None:
        if not os.path.isdir(f"{top}/.git"):
            return None  # a worktree or a submodule
        files += [f"{top}/.git/config", f"{top}/.git/config.worktree"]
    found: dict[str, str] = {}
    for file in files:
        text = _text(file)
        aliases = None if text is None else _aliases(text)
        if aliases is None:
            return None
        found.update(aliases)
    return found


def _text(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    return text if len(text) <= LARGEST else None


def _aliases(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    section = ""
    for written in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        line = written.strip()
        head = _SECTION.match(line)
        if head is not None:
            section = head[1].lower()
            if section.startswith(("include", "alias.")) or (section == "alias" and head[2]):
                return None
            line = line[head.end() :].strip()
        key = _KEY.match(line) if section in ("alias", "help") else None
        if key is None:
            continue
        name, value = key[1].lower(), _value(key[2] or "")
        if section == "alias":
            found[name] = value
        elif name == "autocorrect" and value not in ("0", "never", "prompt", "show", "false", "no", "off"):
            found[AUTOCORRECT] = value
    return found


def _value(written: str) -> str:
    pieces: list[str] = []
    for quoted, escape, comment, plain, odd in _PIECE.findall(written.strip()):
        if comment:
            break
        text = quoted or escape
        pieces.append(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text) if text else plain or odd)
    return "".join(pieces).strip()
