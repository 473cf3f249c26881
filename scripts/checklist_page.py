"""Writes docs/checklist.md: every requirement, with the tests that show it or the later work that owns it.

Requirements are rows of scripts/requirements.tsv. Tests cite them with `@pytest.mark.covers("C-01")`, on a test, on a
class or for a whole module. The script parses tests and never imports them, so the page does not depend on what is
installed.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("mark.covers", "marks.covers")
MOST_TESTS = 3  # per row; a table with every test of a law would be unreadable
# Finished work: its requirements must have a test. Add a name here when you finish another.
DONE = (
    "core",
    "engine",
    "wire",
    "journal",
    "faults",
    "permissions",
    "tools",
    "context",
    "sandbox",
    "openai",
    "sdk",
    "terminal",
    "proof",
)
# fmt: on

# The work that owns a requirement, in the planned order.
OWNERS = {
    "core": "the pure decisions",
    "engine": "the driver, the streaming executor, sessions in memory",
    "wire": "the transport, the Anthropic provider, requests, retries, headless runs",
    "journal": "sessions on disk: resume, fork, crash safety",
    "faults": "the simulator, and recovery from all it can do",
    "permissions": "rules, modes, settings, trust",
    "tools": "the built-in tools, the pipeline of a call, running hooks",
    "context": "layers, prompt, memory, skills, budgets in the front ends",
    "sandbox": "what a command can reach, secrets, web tools",
    "openai": "the OpenAI protocols",
    "sdk": "the SDK, sub-agents, MCP",
    "terminal": "the interactive terminal",
    "fleet": "many sessions at once",
    "proof": "measurements of the whole",
}

GROUPS = {
    "A": "Loop: entry, generator contract, inputs",
    "B": "Loop: state and stages",
    "C": "Terminal reasons and continue reasons",
    "D": "Context management",
    "E": "Streaming, withholding, fallback",
    "F": "Tool execution",
    "G": "Error recovery and retry",
    "H": "Budgets",
    "I": "Hooks",
    "J": "Abort",
    "K": "Thinking",
    "L": "Sessions and persistence",
    "M": "SDK surface",
    "N": "Built-in tools, permissions, sub-agents, MCP, skills, memory",
    "O": "Command line, REPL, configuration",
    "P": "Performance claims",
    "Q": "Worked examples",
}

HEAD = """\
# The checklist

<!-- Written by scripts/checklist_page.py: change scripts/requirements.tsv or a `covers` mark, then run `make docs`. -->

Every requirement and its state: the tests that show it, or the later work that owns it. `make docs` writes this
page from `scripts/requirements.tsv` and from the `covers` marks of the tests; a test keeps it current.

- {shown} of {total} are shown by tests.
- {later} are owned by later work. Some of these are cited by tests already, which show the part that exists.
- {missing} belong to work that is done ({done}) and have no test yet.

P-01, P-02, P-05 and P-07 are figures of a real model at work, and no test here can reach one. Their tests show what the
loop adds to these figures: no turn, no wait, and little processor time and memory.
"""


class Requirement(NamedTuple):
    id: str
    owner: str
    text: str


class Citation(NamedTuple):
    number: str
    test: str
    place: str  # file and line


class CitationError(Exception):
    """A `covers` mark with an unknown number."""


def requirements(root: Path) -> list[Requirement]:
    _, *lines = (root / "scripts/requirements.tsv").read_text(encoding="utf-8").splitlines()
    return [Requirement(*line.split("\t")) for line in lines]


# --- what the tests cite ------------------------------------------------------------------------------


def shown_by(root: Path) -> dict[str, list[str]]:
    """For each number, the tests that cite it. Reports all unknown numbers in one error."""
    tests: dict[str, list[str]] = {row.id: [] for row in requirements(root)}
    cited = list(citations(root))
    wrong = [f"{at}: {number!r} is not in scripts/requirements.tsv" for number, _, at in cited if number not in tests]
    if wrong:
        raise CitationError("\n".join(sorted(wrong)))
    for number, test in sorted({(citation.number, citation.test) for citation in cited}):
        tests[number].append(test)
    return tests


def citations(root: Path) -> Iterator[Citation]:
    for path in (root / "tests").rglob("*.py"):
        file, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if ".covers(" not in source:
            continue
        for test, mark in marks(ast.parse(source, file), file):
            for number in mark.args:
                # Anything but a plain string keeps its source text, which is not a number, and is rejected.
                text = number.value if isinstance(number, ast.Constant) else ast.unparse(number)
                yield Citation(str(text), test, f"{file}:{number.lineno}")


def marks(node: ast.AST, test: str) -> Iterator[tuple[str, ast.Call]]:
    """Each `pytest.mark.covers(...)` below a node, with the test it is on.

    A decorator is a child of what it decorates, so the name that surrounds a mark is the name of its test.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in child.decorator_list:
                yield from marks(ast.Expr(decorator), f"{test}::{child.name}")
            continue
        if isinstance(child, ast.ClassDef):
            yield from marks(child, f"{test}::{child.name}")
            continue
        if isinstance(child, ast.Call) and is_covers(child.func):
            yield test, child
        yield from marks(child, test)


def is_covers(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "covers" and ast.unparse(function).endswith(NAMES)


def missing(root: Path) -> list[str]:
    return missing_in(root, shown_by(root))


def missing_in(root: Path, tests: dict[str, list[str]]) -> list[str]:
    return [row.id for row in requirements(root) if row.owner in DONE and not tests[row.id]]


# --- the page -----------------------------------------------------------------------------------------


def build(root: Path) -> str:
    rows, tests = requirements(root), shown_by(root)
    later = Counter(row.owner for row in rows if row.owner not in DONE)
    lacking = len(missing_in(root, tests))
    shown = len(rows) - later.total() - lacking
    head = HEAD.format(total=len(rows), shown=shown, later=later.total(), missing=lacking, done=", ".join(DONE))
    works = [f"| {owner} | {what} | {later[owner]} |" for owner, what in OWNERS.items() if later[owner]]
    parts = [head, *(table("| later work | what it adds | owns |", works) if works else [])]
    for letter, title in GROUPS.items():
        group = [row for row in rows if row.id.startswith(f"{letter}-")]
        lines = [f"| {row.id} | {row.text} | {standing(row, tests[row.id])} |" for row in group]
        parts += [f"\n## {letter}. {title}\n", *table("| id | requirement | shown by |", lines)]
    return "\n".join(parts) + "\n"


def table(header: str, lines: list[str]) -> list[str]:
    return [header, "|---" * (header.count("|") - 1) + "|", *lines]


def standing(row: Requirement, tests: list[str]) -> str:
    named = [f"`{test}`" for test in tests[:MOST_TESTS]]
    if len(tests) > MOST_TESTS:
        named.append(f"and {len(tests) - MOST_TESTS} more")
    if row.owner not in DONE:
        named.append(f"the rest later: {row.owner}" if tests else f"later: {row.owner}")
    elif not tests:
        named.append("**missing**")
    return "<br>".join(named)


def main() -> None:
    try:
        page = build(ROOT)
    except CitationError as error:
        sys.exit(str(error))
    (ROOT / "docs/checklist.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
