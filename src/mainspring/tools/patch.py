"""The difference between two texts as hunks of lines: for people (a diff) and for programs (`structuredPatch`).

An edit knows where it changed something. For a file that was written anew, Myers' algorithm finds the shortest edit
script; it gives up when the two texts have little in common, and reports one large change.
"""

from typing import Any, NamedTuple

from mainspring.text import plural

CONTEXT = 3  # lines around a change, the usual number
MOST_STEPS = 300  # lines that differ; the search takes quadratic time
NO_NEWLINE = "\\ No newline at end of file"


class ChangedRange(NamedTuple):
    """Lines of the old text that became those of the new one. Counted from 0, the ends are exclusive."""

    old: int
    old_end: int
    new: int
    new_end: int


def lines_of(text: str) -> list[str]:
    """Lines with their ends: the last one may have none."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{part}\n" for part in parts]
    return [*lines, last] if last else lines


def make_hunks(old: list[str], new: list[str], ranges: list[ChangedRange]) -> list[dict[str, Any]]:
    """Hunks in the shape of 'structuredPatch'."""
    made: list[dict[str, Any]] = []
    for group in _groups(ranges):
        first, last = group[0], group[-1]
        before = min(CONTEXT, first.old)
        after = min(CONTEXT, len(old) - last.old_end)
        lines: list[str] = []
        at = first.old - before
        for one in group:
            lines += _marked(" ", old[at : one.old])
            lines += _marked("-", old[one.old : one.old_end])
            lines += _marked("+", new[one.new : one.new_end])
            at = one.old_end
        lines += _marked(" ", old[at : at + after])
        old_lines = last.old_end + after - (first.old - before)
        new_lines = last.new_end + after - (first.new - before)
        made.append(
            {
                "oldStart": first.old - before + (1 if old_lines else 0),
                "oldLines": old_lines,
                "newStart": first.new - before + (1 if new_lines else 0),
                "newLines": new_lines,
                "lines": lines,
            }
        )
    return made


def _groups(ranges: list[ChangedRange]) -> list[list[ChangedRange]]:
    """Changes whose context lines overlap share a hunk."""
    groups: list[list[ChangedRange]] = []
    for one in ranges:
        if groups and one.old - groups[-1][-1].old_end <= 2 * CONTEXT:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _marked(sign: str, lines: list[str]) -> list[str]:
    marked: list[str] = []
    for line in lines:
        marked.append(sign + line.removesuffix("\n"))
        if not line.endswith("\n"):
            marked.append(NO_NEWLINE)
    return marked


def format_patch(patch: list[dict[str, Any]], name: str, most: int) -> str:
    """Format for a screen, with at most `most` lines."""
    out = [f"--- {name}", f"+++ {name}"]
    for hunk in patch:
        old, new = f"{hunk['oldStart']},{hunk['oldLines']}", f"{hunk['newStart']},{hunk['newLines']}"
        out += [f"@@ -{old} +{new} @@", *hunk["lines"]]
    if len(out) > most:
        out = [*out[:most], f"[{plural(len(out) - most, 'more line')}]"]
    return "\n".join(out) + "\n"


def count_changes(patch: list[dict[str, Any]]) -> tuple[int, int]:
    """Numbers of added and removed lines."""
    signs = [line[:1] for hunk in patch for line in hunk["lines"]]
    return signs.count("+"), signs.count("-")


# --- where they differ ------------------------------------------------------------------------------


def trim_range(old: list[str], new: list[str], one: ChangedRange) -> ChangedRange | None:
    """Remove the equal lines at the beginning and end; None: nothing is left."""
    a, a_end, b, b_end = one
    while a < a_end and b < b_end and old[a] == new[b]:
        a, b = a + 1, b + 1
    while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    return ChangedRange(a, a_end, b, b_end) if a < a_end or b < b_end else None


def ranges_between(old: list[str], new: list[str]) -> list[ChangedRange]:
    whole = trim_range(old, new, ChangedRange(0, len(old), 0, len(new)))
    if whole is None:
        return []
    kept = _kept(old[whole.old : whole.old_end], new[whole.new : whole.new_end])
    return [whole] if kept is None else _between(whole, kept)


def _between(whole: ChangedRange, kept: list[tuple[int, int]]) -> list[ChangedRange]:
    """The gaps between the lines that were kept."""
    found: list[ChangedRange] = []
    a, b = whole.old, whole.new
    for x, y in [*kept, (whole.old_end - whole.old, whole.new_end - whole.new)]:
        to_a, to_b = whole.old + x, whole.new + y
        if a < to_a or b < to_b:
            found.append(ChangedRange(a, to_a, b, to_b))
        a, b = to_a + 1, to_b + 1
    return found


def _kept(old: list[str], new: list[str]) -> list[tuple[int, int]] | None:
    """Pairs of lines that are in both texts, in order, as many as possible; None: it would take too long."""
    furthest = {1: 0}  # on each diagonal, how far into `old` this many steps lead
    trail: list[dict[int, int]] = []
    for steps in range(MOST_STEPS + 1):
        trail.append(dict(furthest))
        for diagonal in range(-steps, steps + 1, 2):
            x = _start(furthest, diagonal, steps)
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _back(trail, len(old), len(new))
    return None


def _start(furthest: dict[int, int], diagonal: int, steps: int) -> int:
    """Continue from the neighbour that leads further."""
    if _comes_down(furthest, diagonal, steps):
        return furthest[diagonal + 1]
    return furthest[diagonal - 1] + 1


def _comes_down(furthest: dict[int, int], diagonal: int, steps: int) -> bool:
    """Whether the step adds a line of the new text; otherwise it removes one of the old text."""
    if diagonal in (-steps, steps):
        return diagonal == -steps
    return furthest[diagonal - 1] < furthest[diagonal + 1]


def _back(trail: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """The same path from its end."""
    kept: list[tuple[int, int]] = []
    for steps in range(len(trail) - 1, -1, -1):
        diagonal = x - y
        start = _start(trail[steps], diagonal, steps)
        while x > start:
            x, y = x - 1, y - 1
            kept.append((x, y))
        if _comes_down(trail[steps], diagonal, steps):
            y -= 1
        else:
            x -= 1
    return kept[::-1]
