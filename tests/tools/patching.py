"""A patch applied by somebody who knows only the format."""

from __future__ import annotations

from typing import Any

from mainspring.tools.patch import NO_NEWLINE


def applied(text: str, hunks: list[dict[str, Any]]) -> str:
    old = split(text)
    out: list[str] = []
    at = 0
    for hunk in hunks:
        start = hunk["oldStart"] - (1 if hunk["oldLines"] else 0)
        out += old[at:start]
        at = start
        assert len(out) == hunk["newStart"] - (1 if hunk["newLines"] else 0)
        before = len(out)
        rows: list[str] = []
        for line in hunk["lines"]:
            if line == NO_NEWLINE:
                rows[-1] = rows[-1][:-1]
            else:
                rows.append(line + "\n")
        for row in rows:
            sign, content = row[0], row[1:]
            if sign in " -":
                assert old[at] == content
                at += 1
            if sign in " +":
                out.append(content)
        assert at - start == hunk["oldLines"]
        assert len(out) - before == hunk["newLines"]
    return "".join(out + old[at:])


def split(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
