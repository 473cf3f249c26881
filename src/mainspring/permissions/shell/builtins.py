"""What a command does to the shell itself that makes the rest of the line uncertain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mainspring.permissions.shell.programs import can_run_programs
from mainspring.permissions.shell.values import ShellWord

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=|\Z)")
_ASSIGNING = frozenset(
    {"read", "mapfile", "readarray", "getopts", "declare", "typeset", "local", "export", "readonly", "unset", "let"}
)
_ASSIGNING_BY = {"printf": "v", "wait": "p"}  # with this option
_COMPARED = frozenset({"=", "==", "!=", "-n", "-z"})
_HARMLESS_SHOPT = frozenset({"-s", "-u", "globstar", "nullglob", "failglob", "inherit_errexit", "lastpipe"})
_CHANGING = frozenset({"enable", "bind", "complete", "compgen", "compopt", "fc", "set", "shopt", "hash"})
_CONCERNED = _ASSIGNING | _CHANGING | frozenset(_ASSIGNING_BY) | {"test", "["}
_PLAIN_SET = re.compile(r"[-+][abefhmnuvxCEH]+\Z|--\Z|-\Z")
_PLAIN_SET_NAMES = frozenset(
    {"pipefail", "errexit", "nounset", "xtrace", "verbose", "noglob", "noclobber", "allexport"}
)


def find_variable_objection(name: str) -> str:
    """The objection to setting a variable, or ""."""
    return f"'{name}' is set, which can make other programs run" if can_run_programs(name) else ""


def find_command_objections(words: tuple[ShellWord, ...]) -> Iterable[str]:
    """To one command, without what stands before it."""
    return _objections(words) if words[0].text in _CONCERNED and words[0].exact else ()


def _objections(words: tuple[ShellWord, ...]) -> Iterator[str]:
    name = words[0].text
    if name in _ASSIGNING or (name in _ASSIGNING_BY and _has(_ASSIGNING_BY[name], words)):
        yield from _assigning(name, words[1:])
    elif name in _CHANGING and not _plain(name, words[1:]):
        yield f"'{name}' changes how the shell reads or finds commands"
    elif name not in _CHANGING and name not in _ASSIGNING_BY and _tests_a_name(words[1:]):
        yield "a test of a variable whose name is computed"


def _tests_a_name(words: tuple[ShellWord, ...]) -> bool:
    """`-v a[...]` evaluates what stands in the brackets; so it does if the `-v`, or the name, is computed."""
    subscript = any("[" in word.text and len(word.text) > 1 for word in words)
    if any(word.text in ("-v", "-R") for word in words):
        return subscript or not all(word.exact for word in words)
    return subscript and not all(word.exact for word in words[:-1] if "[" not in word.text) and _short(words)


def _short(words: tuple[ShellWord, ...]) -> bool:
    """`[ $x a[1] ]`: too few words for `=` to stand between."""
    return not any(word.text in _COMPARED for word in words)


def _has(letter: str, words: tuple[ShellWord, ...]) -> bool:
    return any(word.text.startswith("-") and letter in word.text for word in words[1 : 3 if letter == "v" else None])


def _assigning(name: str, words: tuple[ShellWord, ...]) -> Iterator[str]:
    if name == "let":
        yield "'let' evaluates its words"
        return
    for word in words:
        text = word.text
        if text.startswith("-") and word.exact:
            if name in ("declare", "typeset", "local") and ("n" in text or "i" in text):
                yield f"'{name} {text}' evaluates what it is given"
            if name in ("mapfile", "readarray") and "C" in text:
                yield f"'{name} -C' runs a command"
            continue
        found = _NAME.match(text)
        if found is None:
            if not word.exact or "[" in text:
                yield f"'{name}' with a name that is computed"
        elif text[found.end() :].startswith("("):
            yield f"'{name}' evaluates what stands in the parentheses"
        elif objection := find_variable_objection(found[1]):
            yield objection


def _plain(name: str, words: tuple[ShellWord, ...]) -> bool:
    if name == "set":
        return all(
            word.exact
            and (
                _PLAIN_SET.match(word.text)
                or word.text in ("-o", "+o", "-eo", "-euo", "-uo", "-exo", "-euxo")
                or word.text in _PLAIN_SET_NAMES
            )
            for word in words
        )
    if name == "hash":
        return not any(word.text.startswith("-p") or not word.exact for word in words)
    if name == "shopt":
        return all(word.text in _HARMLESS_SHOPT for word in words)
    if name == "compgen":
        return not any(word.text.startswith(("-C", "-F", "-W")) or not word.exact for word in words)
    return not words
