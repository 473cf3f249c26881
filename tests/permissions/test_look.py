"""What is seen through a line: `looks.txt` has lines, and below each what it runs, may run, and why that is not all.

Taken from the code and read line by line; what bash really runs is in `test_differential.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.permissions.shell.analyze import MOST_WRAPPERS, analyze_command
from mainspring.permissions.shell.values import UNKNOWN


def sections() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in (Path(__file__).parent / "looks.txt").read_text().splitlines():
        if line.startswith("    "):
            found[-1][1].append(line.strip())
        elif line and not line.startswith("# "):
            found.append((line, []))
    return found


def seen(line: str) -> list[str]:
    """What is computed is shown as `*`."""
    sight = analyze_command(line)
    commands = [(" ".join(word.text for word in one.words), one.sure) for one in sight.commands]
    found = [f"{'runs' if sure else 'may run'} {text}" for text, sure in commands]
    found.extend(f"because {reason}" for reason in sight.opaque)
    found.extend(f"unread {text}" for text in sight.unread)
    return [text.replace(UNKNOWN, "*") for text in found]


SECTIONS = sections()


@pytest.mark.covers("N-10")
@pytest.mark.parametrize(("line", "wanted"), SECTIONS, ids=[line for line, _ in SECTIONS])
def test_what_is_seen(line: str, wanted: list[str]) -> None:
    assert seen(line) == wanted


def test_a_limit_is_named_once_and_what_is_behind_it_is_kept_in_part() -> None:
    last = MOST_WRAPPERS + 1
    sight = analyze_command("nohup " * MOST_WRAPPERS + "rm x")
    assert (len(sight.commands), sight.opaque) == (last, (f"more than {MOST_WRAPPERS} wrappers around a command",))
    sight = analyze_command("nohup " * (MOST_WRAPPERS - 1) + "rm x")
    assert (len(sight.commands), sight.opaque) == (MOST_WRAPPERS, ())
    sight = analyze_command("nohup " * 100 + "rm " + "x " * 100)
    assert sight.opaque == (f"more than {MOST_WRAPPERS} wrappers around a command",)
    assert [len(one.words) for one in sight.commands[-2:]] == [30, 30]
