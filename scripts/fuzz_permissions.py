"""Fuzzes the permission checker: nothing may crash, take long, or be allowed by mistake.

    scripts/fuzz_permissions.py [--minutes 10] [--seed N]      texts of many kinds, against every entry point
    scripts/fuzz_permissions.py --bash [--minutes 10]          resolvable lines, run in a real bash, with traced execve

A failure is printed with its seed; `--seed N --minutes 0` repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from permissions.real_bash import executed
from permissions.shell_lines import PROGRAMS, Lines
from permissions.spellings import spellings
from permissions.test_differential import resolvable, unpredicted

from mainspring.cli.flags import split_list
from mainspring.permissions.decide import decide
from mainspring.permissions.explain import explain_lines
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import parse_rules
from mainspring.permissions.shell.analyze import CommandAnalysis
from mainspring.permissions.suggest import suggest_rules
from mainspring.processes.paths import resolve_path

SLOWEST = 0.2  # seconds for one decision, whatever the input
TRIES = 20  # of a line that ran a program that was not predicted
PIECES: list[str] = [
    *"'\"\\`$(){}[]<>|&;#!*?~=^%,:/.- \t\n\0\x1b\x1f\u202e\u200b\ud800é日",
    *(
        "$(",
        "<<E\n",
        "\nE\n",
        "bash -c '",
        "rm -rf ",
        "/",
        "git ",
        "sudo ",
        "eval ",
        "find . -exec ",
        "xargs ",
        "${x:-",
    ),
    *("$((", "))", "<(", ">(", "&>", "2>&1", "for i in ", "; do ", "; done", "case x in ", ";; esac", "function f "),
    *(
        "[[ ",
        " ]]",
        "coproc ",
        "time ",
        "env A=",
        "$'\\x",
        "~/",
        ".git/",
        "http://",
        "@",
        "mcp__",
        "Bash(",
        ":*)",
        " *)",
    ),
    *("Read(//", "**", "domain:"),
]
EVERY: list[tuple[str, str, str]] = list(spellings())


def text(random: Random) -> str:
    kind = random.random()
    if kind < 0.35:
        return Lines(random.getrandbits(40)).line()
    if kind < 0.45:
        return random.choice(EVERY)[2]
    if kind < 0.5:
        return random.choice(PIECES) * random.randrange(1, 30_000)
    return "".join(random.choice(PIECES) for _ in range(random.randrange(40)))


def once(seed: int) -> str:
    """Why this seed fails, or ""."""
    random = Random(seed)
    rules = {
        name: [
            text(random)[:200] if random.random() < 0.5 else f"Bash({text(random)[:60]})"
            for _ in range(random.randrange(3))
        ]
        for name in ("deny", "ask", "allow")
    }
    split_list(text(random))
    policy = PermissionPolicy(
        parse_rules(deny=rules["deny"], ask=rules["ask"], allow=rules["allow"]),
        random.choice(list(Mode)),
        ("/nowhere/w",),
        "/nowhere/h",
    )
    tool = random.choice(
        [
            "Bash",
            "Bash",
            "Bash",
            "Read",
            "Edit",
            "Write",
            "Grep",
            "WebFetch",
            "Agent",
            "Skill",
            "mcp__a__b",
            text(random)[:20],
        ]
    )
    field = {"Bash": "command", "WebFetch": "url", "Agent": "subagent_type", "Skill": "skill", "Grep": "path"}.get(
        tool, "file_path"
    )
    asked = PermissionRequest(
        tool, {field: text(random)}, "/nowhere/w", before={field: text(random)} if random.random() < 0.1 else None
    )
    paths = partial(resolve_path, home="/nowhere/h")
    start = time.process_time()
    verdict = decide(asked, policy, paths)
    taken = time.process_time() - start
    if taken > SLOWEST * 2:  # of processor time, and even that is longer on a busy machine: the benchmark is exact
        return f"slow: {taken:.2f} s"
    if verdict.decision == "ask":
        suggest_rules(asked, policy, paths)
    line = json.dumps(
        {"tool": tool, "input": dict(asked.input), "rules": rules, "mode": policy.mode, "cwd": "/nowhere/w"}
    )
    answer = json.loads(next(explain_lines([line], cwd="/", home="/nowhere/h", paths=paths)))
    if asked.before is None and answer["decision"] != verdict.decision:
        return f"batch says {answer['decision']}, decide says {verdict.decision}"
    what, rule, spelled = random.choice(EVERY)
    tight = PermissionPolicy(
        parse_rules(deny=[rule], allow=["Bash"]),
        random.choice([Mode.DEFAULT, Mode.BYPASS]),
        ("/nowhere/w",),
        "/nowhere/h",
    )
    if (
        decide(
            PermissionRequest("Bash", {"command": f"{spelled}\n{text(random)[:20]}"}, "/nowhere/w"), tight, paths
        ).decision
        == "allow"
    ):
        return f"allowed: {what}, with something after it"
    return ""


def play(seed: int, minutes: float) -> int:
    end = time.monotonic() + minutes * 60
    count = 0
    while True:
        try:
            wrong = once(seed)
        except Exception as error:  # noqa: BLE001  # that is what we look for
            wrong = f"{type(error).__name__}: {error}"
        count += 1
        if wrong:
            print(f"seed {seed}: {wrong}")
            return 1
        seed += 1
        if time.monotonic() >= end:
            print(f"{count:,} seeds up to {seed - 1}: nothing wrong")
            return 0


def play_in_bash(seed: int, minutes: float) -> int:
    end = time.monotonic() + minutes * 60
    count = runs = 0
    while True:
        lines = resolvable(seed, 2_000)
        with tempfile.TemporaryDirectory() as folder:
            ran = executed([line for line, _ in lines], Path(folder), PROGRAMS)
        for (line, sight), found in zip(lines, ran, strict=True):
            if unpredicted(sight, found) and (again := unpredicted_again(line, sight)):
                print(f"not predicted: {line!r} ran {again}")
                return 1
        count += len(lines)
        runs += sum(map(len, ran))
        seed += 1_000_000
        if time.monotonic() >= end:
            print(f"{count:,} lines ran {runs:,} programs: all were predicted")
            return 0


def unpredicted_again(line: str, sight: CommandAnalysis) -> object:
    """If the system cannot start a program at the first attempt, it is started in another way (`execvp` uses a shell),
    so only a line that repeats it counts."""
    with tempfile.TemporaryDirectory() as folder:
        ran = executed([line] * TRIES, Path(folder), PROGRAMS)
    return next((unpredicted(sight, found) for found in ran if unpredicted(sight, found)), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(5)))
    parser.add_argument("--bash", action="store_true")
    given = parser.parse_args()
    return (play_in_bash if given.bash else play)(given.seed, given.minutes)


if __name__ == "__main__":
    sys.exit(main())
