"""Security V3: what the checker calls resolvable is run in a real bash; only predicted programs run, with the predicted
words.

A thousand lines from fixed seeds here; `scripts/fuzz_permissions.py --bash` runs tens of thousands.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tiers import long

from mainspring.permissions.shell.analyze import CommandAnalysis, analyze_command, base_name
from mainspring.permissions.shell.values import UNKNOWN
from permissions.real_bash import Ran, executed
from permissions.shell_lines import PROGRAMS, Lines


def resolvable(first_seed: int, count: int) -> list[tuple[str, CommandAnalysis]]:
    found: list[tuple[str, CommandAnalysis]] = []
    seed = first_seed
    while len(found) < count:
        line = Lines(seed).line()
        seed += 1
        sight = analyze_command(line)
        if not sight.opaque:
            found.append((line, sight))
    return found


def unpredicted(sight: CommandAnalysis, runs: list[Ran]) -> list[Ran]:
    return [run for run in runs if not any(_predicts(sight, index, run) for index in range(len(sight.commands)))]


def _predicts(sight: CommandAnalysis, index: int, run: Ran) -> bool:
    words = sight.commands[index].words
    if base_name(words[0].text) != base_name(run[0]):
        return False
    if base_name(run[0]) in ("xargs", "find", "bash", "sh") or any(
        seen.words[0].text in ("xargs", "find") for seen in sight.commands
    ):
        return True  # their children are given words from elsewhere
    if all(word.exact and not word.tilde for word in words):
        return [word.text for word in words] == [words[0].text, *run[2:]]
    if any(word.many for word in words):
        return True
    return len(words) == len(run) - 1 and all(
        _fits(word.text, given) or word.tilde for word, given in zip(words[1:], run[2:], strict=True)
    )


def _fits(text: str, given: str) -> bool:
    before, unknown, after = text.partition(UNKNOWN)
    after = after.rpartition(UNKNOWN)[2]
    return given.startswith(before) and given.endswith(after) if unknown else given == text


@pytest.mark.needs("strace")
@pytest.mark.parametrize("count", [100, long(1_000)])
def test_v3_programs_that_run_are_among_those_predicted(tmp_path: Path, count: int) -> None:
    lines = resolvable(0, count)
    ran = executed([line for line, _ in lines], tmp_path / "root", PROGRAMS)
    assert sum(map(len, ran)) > count  # the lines do run something
    wrong = [(line, bad) for (line, sight), runs in zip(lines, ran, strict=True) if (bad := unpredicted(sight, runs))]
    assert wrong == []
