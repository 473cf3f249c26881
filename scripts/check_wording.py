"""Check the wording of docs, messages, comments and docstrings against the list of constructions that we do not use.

    scripts/check_wording.py [--only KIND] [PATH ...]

Write plain technical English: name the actor, use the verbs of the trade, one word for one thing.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DEFAULT = ("src", "scripts", "bench", "examples", "docs", "README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md")

# A construction, and what to write instead.
BANNED: dict[str, str] = {
    r"\bwhoever\b": "name the actor: the caller, the client, the reader",
    r"\bsomebody\b|\bsomeone\b": "name the actor: the user, the client, another process",
    r"\bnobody (?!can approve\b)": "say who does not: 'no reader waits', 'there is no consumer'",
    r"\bnobody\b[.,;:)]": "say who does not",
    (
        r"\b(?:Who|What) (?:is|was|has|asks|wants|gives|says|takes|brings|comes|goes|holds|stands|knows|leaves|reads)\b"
        r"[^?]*$"
    ): "subject first: no relative clause as a subject",
    r"\b(?:is|are|was|were|be|been|being) told\b": "'gets an error', 'is notified', 'prints'; name what it receives",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\btak(?:e|es|en|ing) (?:\w+ )?up again\b|\btook (?:\w+ )?up again\b": "resume",
    r"\bsumm?(?:ed|ing|s)? up\b|\bsummed (?:\w+ )?up\b": "compact, summarize",
    r"\bcomes? to nothing\b|\bcomes? to an end\b|\bcome to its end\b": "end, stop",
    r"\bthe way out\b": "what to do",
    r"\bwinced?\b": "say what was wrong",
    r"\bmakes? do with\b": "gets, has",
    r"\bthrows? (?:it |them )?away\b": "discard",
    r"\bhonour(?:s|ed|ing)?\b": "support, apply",
    r"\bpassed over\b": "skipped, ignored",
    r"\bput down in\b|\bputs? down\b": "record, store",
    r"\bkinds? of agents?\b": "agent type",
    r"\bword(?:s)? with a slash\b|\bslash word": "slash command",
    r"\bbehind walls\b": "in a sandbox",
    r"\bfor ever\b": "forever, without limit",
    r"\bof its own accord\b|\bof (?:their|its) own(?: accord)\b": "by itself",
    r"\bmay stand\b|\bstands? (?:there|in its place|for itself|behind|before|after|at the)\b": (
        "is, follows, precedes; 'repeatable'"
    ),
}
PATTERNS = [(re.compile(pattern, re.MULTILINE), instead) for pattern, instead in BANNED.items()]
SKIPPED = re.compile(r"check_wording\.py$|docs/(?:decisions/|renames\.md)")
PROSE = re.compile(r"[a-z]+ [a-z]+ [a-z]+", re.IGNORECASE)  # at least three words


class Finding(NamedTuple):
    path: Path
    line: int
    kind: str  # message, docstring, comment, docs
    words: str
    instead: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--only", choices=("message", "docstring", "comment", "docs"), help="check only this kind")
    given = parser.parse_args()
    found = [one for path in files(given.paths) for one in findings(path) if given.only in (None, one.kind)]
    for one in found:
        print(f"{one.path}:{one.line}: {one.kind}: '{one.words}': {one.instead}")
    return 1 if found else 0


def files(given: list[str]) -> Iterator[Path]:
    for name in given or DEFAULT:
        path = Path(name)
        if path.is_dir():
            yield from sorted([one for one in path.rglob("*") if one.suffix in (".py", ".md")])
        elif path.exists():
            yield path


def findings(path: Path) -> Iterator[Finding]:
    if SKIPPED.search(str(path)):
        return
    text = path.read_text(encoding="utf-8")
    pieces = prose_of_python(text) if path.suffix == ".py" else [(1, "docs", text)]
    for start, kind, piece in pieces:
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(piece):
                line = start + piece.count("\n", 0, match.start())
                yield Finding(path, line, kind, " ".join(match[0].split())[:60], instead)


def prose_of_python(text: str) -> Iterator[tuple[int, str, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string[:8]:
            yield token.start[0], "comment", token.string
    tree = ast.parse(text)
    docstrings = {id(found) for node in ast.walk(tree) if (found := docstring(node)) is not None}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PROSE.search(node.value):
            yield node.lineno, "docstring" if id(node) in docstrings else "message", node.value


def docstring(node: ast.AST) -> ast.Constant | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


if __name__ == "__main__":
    sys.exit(main())
