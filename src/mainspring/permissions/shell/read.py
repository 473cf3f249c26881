"""The way in: a command line, read by both readers."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec.structs import replace

from mainspring.permissions.shell import characters, parse
from mainspring.permissions.shell.grammar import ScriptReader
from mainspring.permissions.shell.simple_commands import RESERVED
from mainspring.permissions.shell.values import Redirect, ShellScript, ShellWord, SimpleCommand

# Without a character that means anything to a shell a line has one reading: its words.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_./:@%+,^ -]|(?<=[A-Za-z0-9])~)+\Z", re.ASCII)
_WORD = re.compile(r"[^ ]+")
# Such words, single quotes around a word, and operators between blanks: these need no grammar, either, as long as no
# word is reserved.
_JOINED = re.compile(
    r"(?:[A-Za-z0-9_./:@%+,^ -]|(?<=[A-Za-z0-9])~|(?<= )'[^'\\`$\n]*'(?= |\Z)"
    r"|(?<= )(?:\|\|?|&&|;)(?= )|(?<= )2>&1(?= |\Z))+\Z",
    re.ASCII,
)
_TOKEN = re.compile(r"'([^']*)'|[^ ]+")
_BETWEEN = frozenset({"|", "||", "&&", ";"})


@lru_cache(maxsize=64)  # the same line is decided again after hooks, and for what to suggest
def parse_shell_script(text: str) -> ShellScript:
    """What the line would run. `unclear` says why not all of that is known."""
    objection = characters.find_character_objection(text)
    if objection:
        return ShellScript((), unclear=objection)
    if _PLAIN.match(text):
        words = tuple([ShellWord(found.group(), found.start(), bare=True) for found in _WORD.finditer(text)])
        if words and words[0].text not in RESERVED:
            return ShellScript((SimpleCommand(words),))
    if _JOINED.match(text) and RESERVED.isdisjoint(text.split()):
        commands = _joined(text)
        if commands:
            return ShellScript(commands)
    script = ScriptReader(text).script()
    if script.unclear or not script.commands:
        return script
    objection = parse.find_reader_difference(text, script)
    return replace(script, unclear=objection) if objection else script


def _joined(text: str) -> tuple[SimpleCommand, ...]:
    """Words and operators in one pass. Nothing where an operator stands without a command: there the grammar says what
    is wrong."""
    commands: list[SimpleCommand] = []
    words: list[ShellWord] = []
    redirects: list[Redirect] = []
    for found in _TOKEN.finditer(text):
        token, start = found.group(), found.start()
        if token in _BETWEEN:
            if not words:
                return ()
            commands.append(SimpleCommand(tuple(words), (), tuple(redirects)))
            words, redirects = [], []
        elif token == "2>&1":
            redirects.append(Redirect(">&", ShellWord("1", start + 3, bare=True)))
        elif token.startswith("'"):
            words.append(ShellWord(found[1], start))
        else:
            words.append(ShellWord(token, start, bare=True))
    return (*commands, SimpleCommand(tuple(words), (), tuple(redirects))) if words else ()
