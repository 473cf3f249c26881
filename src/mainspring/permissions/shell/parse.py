"""Parses a command line with both parsers, ours and tree-sitter's, which must agree (security S1).

Each parser has its own mistakes; a command that hides from both in the same way is far less likely than one that hides
from either. tree-sitter is imported at the first command that is checked, not at the start.

Text that cannot be parsed, because it is too long, too deep or invalid, is searched for denied commands in plain
sight. Without that a limit of the parser would turn a deny into an ask (security S10). The search takes linear time,
whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell import values
from mainspring.permissions.shell.grammar import ScriptReader
from mainspring.permissions.shell.simple_commands import RESERVED
from mainspring.permissions.shell.values import Redirect, ShellScript, ShellWord, SimpleCommand, names

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


# Where a command begins. `[` is one of them, `[[` is not.
_STARTS = frozenset({"command_name", "declaration_command", "unset_command"})
KNOWN = names(
    """program command command_name word number string string_content raw_string ansi_c_string concatenation
    simple_expansion expansion special_variable_name variable_name variable_assignment variable_assignments array
    subscript command_substitution process_substitution arithmetic_expansion binary_expression unary_expression
    postfix_expression ternary_expression parenthesized_expression brace_expression regex extglob_pattern
    test_command test_operator list pipeline subshell compound_statement negated_command redirected_statement
    file_redirect file_descriptor herestring_redirect heredoc_redirect heredoc_start heredoc_body heredoc_content
    heredoc_end if_statement elif_clause else_clause while_statement for_statement c_style_for_statement do_group
    case_statement case_item function_definition declaration_command unset_command comment"""
)


def find_reader_difference(text: str, script: ShellScript) -> str:
    """Where the two parsers differ, or ""."""
    data = text.encode()
    root = _parser().parse(data).root_node
    if root.has_error:
        return "the second reader finds an error"
    try:
        theirs = _starts(root, data)
    except LookupError as unknown:
        return f"the second reader finds {unknown}"
    ours = {command.words[0].start for command in script.commands if command.words}
    if len(data) != len(text):
        ours = {len(text[:start].encode()) for start in ours}
    return "" if ours == theirs else "the two readers see different commands"


def _starts(root: Node, data: bytes) -> set[int]:
    starts: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        kind = node.type
        if kind == "word":
            continue  # more than half of them
        if kind in _STARTS or (
            kind == "test_command"
            and data.startswith(b"[", node.start_byte)
            and not data.startswith(b"[[", node.start_byte)
        ):
            starts.add(node.start_byte)
        if kind not in KNOWN:
            raise LookupError(kind)
        todo.extend(node.named_children)
    return starts


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


# A line without any special character of a shell has one reading: its words.
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


@lru_cache(maxsize=64)  # the same line is decided again after hooks, and for suggestions
def parse_shell_script(text: str) -> ShellScript:
    """What the line would run. `unclear` says why not all of that is known."""
    objection = values.find_character_objection(text)
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
    objection = find_reader_difference(text, script)
    return replace(script, unclear=objection) if objection else script


def _joined(text: str) -> tuple[SimpleCommand, ...]:
    """Words and operators in one pass. Nothing if an operator has no command: then the grammar reports the error."""
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


_QUOTES = str.maketrans("", "", "'\"\\")
_ENDS = re.compile(r"[;&|(){}`\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# Words before a command: they run what follows, or are keywords of the shell.
_BEFORE = names(
    "! $ do then else elif if while until exec sudo doas env nohup command builtin xargs time eval coproc nice setsid"
)
_REMOVAL = re.compile(r"(?<![\w.-])(?:rm|rmdir)(?![\w.-])")

Commands = dict[str, list[str]]  # by the base name of the command; each from its name on, words joined by one blank


def strip_quotes(text: str) -> str:
    return text.replace("\\\n", "").translate(_QUOTES)


def may_remove(text: str) -> bool:
    return _REMOVAL.search(strip_quotes(text)) is not None


def find_rough_commands(text: str) -> Commands:
    """Text that looks like a command."""
    found: Commands = {}
    before = set(_BEFORE)
    for piece in set(_ENDS.split(strip_quotes(text))):
        words = piece.split()
        start = 0
        while start < len(words) - 1 and (words[start] in before or _ASSIGNMENT.match(words[start])):
            before.add(words[start])  # a line may repeat it a great many times
            start += 1
        if words:
            name = words[start].rpartition("/")[2]
            found.setdefault(name, []).append(" ".join([name, *words[start + 1 :]]))
    return found


def holds_command(found: Commands, parts: tuple[str, ...], *, prefix: bool) -> bool:
    """Whether one of the commands is the parts, with anything between them; words are joined by one blank."""
    first = parts[0].partition(" ")[0]
    for line in _named(found, first, whole=" " in parts[0] or len(parts) == 1):
        if glob_matches(parts, line) or (prefix and line.startswith(parts[0] + " ")):
            return True
    return False


def _named(found: Commands, name: str, *, whole: bool) -> Iterator[str]:
    if whole:
        yield from found.get(name.rpartition("/")[2], ())
        return
    for other, lines in found.items():
        if other.startswith(name):
            yield from lines
