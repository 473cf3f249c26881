"""The second reader: tree-sitter's bash grammar. What it sees must agree with what ours saw (security S1).

Each reader has mistakes of its own; a command that hides from both in the same way is far less likely than one that
hides from either. tree-sitter is imported at the first command that is checked, not before: it is no part of a start.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from mainspring.permissions.shell.tables import names
from mainspring.permissions.shell.values import ShellScript

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
    """Where the two readers differ, or ""."""
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
