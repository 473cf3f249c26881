"""Write docs/settings-keys.md: every settings key of Claude Code, its state here, and the test that shows it.

    .venv/bin/python scripts/settings_keys_page.py

States are those of `mainspring.settings.claude_code_keys`; tests cite keys with `@pytest.mark.setting("model")`. The
script parses tests and never imports them.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from mainspring.settings.claude_code_keys import (
    CLAUDE_CODE_KEYS,
    EARLIER,
    NOTHING_TO_RESTRICT,
    ClaudeCodeKey,
    Support,
)

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings-keys.md"
ALL = "tests/settings/test_claude_code_keys.py"

HEAD = """\
# Settings keys of Claude Code

<!-- Written by scripts/settings_keys_page.py from settings/claude_code_keys.py and the `setting` marks of tests. -->

You can use the settings files that you have for Claude Code. This page lists every key of Claude Code 2.1.325 and what
mainspring does with it. `mainspring config` shows which keys of your files are in force.

| state | meaning | keys |
|---|---|---|
| supported | The key does what it does in Claude Code, or there is nothing to do. | {supported} |
| refused | The key restricts something, and mainspring cannot enforce it. mainspring does not start. | {refused} |
| unsupported | The key has no effect. A warning and `mainspring config` name it. | {unsupported} |

A refused key in your own settings, in your administrator's or on the command line stops the start. In a folder that
you trust it does so too; remove the key, leave the file out with `--setting-sources user`, or revoke your trust
with `mainspring trust --remove`. In a folder that you do not trust, mainspring starts, names the key and denies
the tools that it restricts. A key that asks for nothing (`false`, an empty list) needs no support and is accepted.

A restriction that is supported but cannot be read, such as `"deniedModels": 1`, is treated as a refused key. So is one
in a file that is broken as a whole. `mainspring config` still shows your settings, and exits with 1.

"""


def marked_tests() -> dict[str, list[str]]:
    """The tests that cite each key."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "mark.setting(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in _cited(node):
                    found.setdefault(name, []).append(f"{file.relative_to(ROOT)}::{node.name}")
    return found


def _cited(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    calls = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
    named = [arg for call in calls if ast.unparse(call.func).endswith("mark.setting") for arg in call.args]
    return [str(arg.value) for arg in named if isinstance(arg, ast.Constant)]


def page() -> str:
    counted = Counter(_state(key.support) for key in CLAUDE_CODE_KEYS)
    marked = marked_tests()
    lines = [HEAD.format(**counted)]
    for support in Support:
        rows = sorted([key for key in CLAUDE_CODE_KEYS if key.support is support], key=lambda key: key.name.lower())
        lines.append(f"## {_state(support).capitalize()}\n\n| key | {_meaning(support)} | test |\n|---|---|---|\n")
        lines += [_row(key, marked) for key in rows]
        lines.append("\n")
    return "".join(lines).rstrip("\n") + "\n"


def _state(support: Support) -> str:
    return "supported" if support is Support.HONOURED else support.value


def _meaning(support: Support) -> str:
    return {Support.HONOURED: "what it does", Support.REFUSED: "it restricts"}.get(support, "why")


def _row(key: ClaudeCodeKey, marked: dict[str, list[str]]) -> str:
    note = f"{key.note} (an earlier version's key)" if key.name in EARLIER else key.note
    return f"| `{key.name}` | {note} | {_test(key, marked)} |\n"


def _test(key: ClaudeCodeKey, marked: dict[str, list[str]]) -> str:
    if key.name in NOTHING_TO_RESTRICT:
        return f"`{ALL}::test_what_restricts_something_that_does_not_exist_is_accepted`"
    if key.support is Support.HONOURED:
        return ", ".join([f"`{test}`" for test in marked.get(key.name, [])[:2]])
    shown = "a_refused_key_stops_the_start" if key.support is Support.REFUSED else "an_unsupported_key_is_named"
    return f"`{ALL}::test_{shown}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
