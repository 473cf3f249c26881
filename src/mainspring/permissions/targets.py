"""The files that words and redirects of a shell command name."""

from __future__ import annotations

import re

from mainspring.permissions.files import FileAccessRequest
from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.analyze import base_name
from mainspring.permissions.shell.values import UNKNOWN, Redirect, ShellWord, names

# bash makes descriptors of the last two; they are no files (security S7).
FREE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})

_DESCRIPTOR = re.compile(r"[0-9]*-?\Z", re.ASCII)  # other digits name a file

HOME_VARIABLE = re.compile(r"\$(?:HOME\b|\{HOME\b[^}]*\})")
_BRACES = re.compile(r"\{([^{}]*)\}")
_COMPUTED = re.compile(r"\$\w*|[*?]|\[[^\]]*\]")
_QUOTES = str.maketrans("", "", "'\"\\")
MOST_EXPANDED = 1_000  # words of one with brace lists

_PROTECTED = names(
    """.git .hg .svn .claude .mainspring .mcp.json .vscode .idea .husky .githooks .npmrc .yarnrc .envrc .bashrc .profile
    .bash_profile .zshrc .ssh .github .devcontainer .cursor .gitconfig .gitmodules .pre-commit-config.yaml"""
)


def base_of(word: ShellWord) -> str:
    return base_name(format_word(word)) or "*"


def path_of(word: ShellWord) -> str:
    """As a path: a quoted `~` is an ordinary name (security F2)."""
    if word.tilde:
        return word.text if word.text.startswith("~/") else "~/"
    return f"./{word.text}" if word.text.startswith("~") else word.text


def folder_of(word: ShellWord) -> str:
    """The folder before a wildcard, or before any other unknown part."""
    path = path_of(word)
    return path.partition(UNKNOWN)[0].rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def may_be_protected(word: ShellWord) -> bool:
    """Whether a name with wildcards may be one of the best known protected ones."""
    return any(
        UNKNOWN in name and glob_matches(name.split(UNKNOWN), one)
        for name in word.text.split("/")
        if name.startswith(".")
        for one in _PROTECTED
    )


def computed_path(word: ShellWord) -> str:
    """A path whose beginning is not known, as if that were an ordinary folder: the rest may be protected."""
    return path_of(word).replace(UNKNOWN, "x")


def glob_parts(word: ShellWord, cwd: str) -> list[list[str]]:
    """The names in a path with wildcards, each as the texts between these."""
    path = path_of(word)
    full = path if path.startswith(("/", "~")) else f"{cwd}/{path}"
    return [name.split(UNKNOWN) for name in full.split("/") if name]


def redirect_ask(redirect: Redirect) -> FileAccessRequest | None:
    """The file that a redirect opens; None if there is none, or its name is computed."""
    target = redirect.target
    if redirect.op in ("<<", "<<<") or not target.exact or target.text in FREE_TARGETS or not target.text:
        return None
    if redirect.op in (">&", "<&") and _DESCRIPTOR.match(target.text):
        return None
    return FileAccessRequest("read" if redirect.op in ("<", "<&") else "write", path_of(target))


def is_free(redirect: Redirect) -> bool:
    """It certainly opens no file."""
    target = redirect.target
    return redirect.op in ("<<", "<<<") or (target.exact and bool(target.text) and redirect_ask(redirect) is None)


def redirect_writes(redirect: Redirect) -> bool:
    return redirect.op not in ("<", "<<", "<<<", "<&") and not is_free(redirect)


def is_network(path: str) -> bool:
    return path.startswith(("/dev/tcp/", "/dev/udp/"))


def format_word(word: ShellWord) -> str:
    """For a person: computed parts as `*`."""
    return word.text.replace(UNKNOWN, "*")


def expand_brace_lists(word: ShellWord) -> list[str] | None:
    """What a word with `{a,b}` may become, with UNKNOWN for each part that only the shell will know; nothing for other
    words. None: too many."""
    raw = next((name[1:] for name in word.names if name.startswith("{") and len(name) > 2), "")
    known = _COMPUTED.sub(UNKNOWN, HOME_VARIABLE.sub("~", raw)).translate(_QUOTES)
    coming, found = [known] if raw else [], list[str]()
    while coming:
        text = coming.pop()
        inner = _BRACES.search(text)
        if inner is None:
            found.append(text)
            continue
        parts = inner[1].split(",") if "," in inner[1] else [UNKNOWN]
        coming += [f"{text[: inner.start()]}{part}{text[inner.end() :]}" for part in parts]
        if len(coming) + len(found) > MOST_EXPANDED:
            return None
    return found
