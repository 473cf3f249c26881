"""Write `src/mainspring/tools/catalog.py`: descriptions and schemas of the built-in tools, from the tools themselves.

    .venv/bin/python scripts/tool_catalog.py

With the catalog, a start need not load the tools. A test compares the file with the output of this script.
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

# In the order in which the model sees them. The toolset imports the catalog, which may not exist yet.
NAMES = (
    "Bash", "BashOutput", "KillShell", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "WebFetch",
    "WebSearch", "Agent", "Recall", "Sleep",
    "TaskCreate", "TaskUpdate", "TaskList", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "Skill",
)  # fmt: skip

CATALOG = Path(__file__).parents[1] / "src" / "mainspring" / "tools" / "catalog.py"

HEAD = '''"""Specs of the built-in tools. Written by `scripts/tool_catalog.py`: change the tools instead."""

# ruff: noqa: E501
from typing import Any

SPECS: dict[str, tuple[str, dict[str, Any]]] = {
'''


def page() -> str:
    blank = types.ModuleType("mainspring.tools.catalog")
    blank.SPECS = {}  # type: ignore[attr-defined]
    sys.modules.setdefault("mainspring.tools.catalog", blank)
    from mainspring.tools.base import Workspace
    from mainspring.tools.builtin import BuiltinTools

    kit = BuiltinTools(Workspace("/"), {})
    rows = [(spec.name, (spec.description, spec.schema)) for spec in (kit.tool(name).spec for name in NAMES)]
    text = HEAD + "".join([f"    {name!r}: {value!r},\n" for name, value in rows]) + "}\n"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(CATALOG), "-"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return formatted.stdout


if __name__ == "__main__":
    CATALOG.write_text(page())
