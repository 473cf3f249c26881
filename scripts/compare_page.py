"""Writes the programs and their line counts into docs/compare.md. Run it with `make docs`.

The programs are files in `examples/`, which tests run (tests/library/test_programs.py); the text around them is written
by hand. A line counts if it is not blank. All programs are formatted by ruff, with the same line length.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compare.md"
FOLDERS = {
    "mainspring": ROOT / "examples/library",
    "pydantic-ai": ROOT / "examples/peers/pydantic_ai",
    "openai-agents": ROOT / "examples/peers/openai_agents",
}
TASKS = {
    "one_answer": "One answer",
    "typed_result": "A tool and a typed result",
    "streamed_chat": "A streamed chat",
    "injected_database": "An injected database, with a test that needs no key",
    "guarded_shell": "A guarded shell: rules, approval, a budget in money, a subagent",
}
BEGIN, END = "<!-- {}: written by scripts/compare_page.py -->\n", "<!-- end of {} -->\n"


def read_program(library: str, task: str) -> str:
    return (FOLDERS[library] / f"{task}.py").read_text(encoding="utf-8")


def count_lines(program: str) -> int:
    return sum(bool(line.strip()) for line in program.splitlines())


def count_all() -> dict[str, dict[str, int]]:
    return {task: {name: count_lines(read_program(name, task)) for name in FOLDERS} for task in TASKS}


def format_counts() -> str:
    rows = [f"| task | {' | '.join(FOLDERS)} |", f"| --- |{' ---: |' * len(FOLDERS)}"]
    for task, row in count_all().items():
        rows.append(f"| [{TASKS[task]}](#{make_anchor(TASKS[task])}) | {' | '.join(map(str, row.values()))} |")
    return "\n".join(rows) + "\n"


def make_anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return "".join(sign for sign in title.lower().replace(" ", "-") if sign.isalnum() or sign == "-")


def format_programs() -> str:
    parts: list[str] = []
    for task, title in TASKS.items():
        parts.append(f"### {title}\n")
        for library, lines in count_all()[task].items():
            parts.append(f"{library}, {lines} lines:\n\n```python\n{read_program(library, task)}```\n")
    return "\n".join(parts)


def replace_section(page: str, name: str, text: str) -> str:
    before, begin, rest = page.partition(BEGIN.format(name))
    _, end, after = rest.partition(END.format(name))
    if not begin or not end:
        raise SystemExit(f"docs/compare.md has no section '{name}'")
    return f"{before}{begin}\n{text}\n{end}{after}"


def build() -> str:
    page = PAGE.read_text(encoding="utf-8")
    return replace_section(replace_section(page, "counts", format_counts()), "programs", format_programs())


if __name__ == "__main__":
    PAGE.write_text(build(), encoding="utf-8")
