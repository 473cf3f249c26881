"""What one permission decision costs, compared with its targets. It fails when a target is missed.

Each decision starts from nothing: caches are cleared, except compiled rules and the names of the working directories,
which a session keeps. The working directory and the files are real. `bench/README.md` explains the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns

from mainspring.permissions.decide import decide
from mainspring.permissions.policy import PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import parse_rules
from mainspring.permissions.shell.parse import parse_shell_script
from mainspring.processes.paths import resolve_path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, best_speed, import_figures, scaled, show

# What agents send all day, in the proportions of a working session.
COMMANDS = (
    "ls -la src",
    "git status --short",
    "git diff HEAD~1 --stat",
    "git log --oneline -10",
    "cat src/app.py",
    "npm test",
    "npm run build 2>&1 | tail -20",
    "grep -rn 'def main' src | head",
    "cd src && ls",
    "find . -name '*.py' -type f | wc -l",
    "python3 -m pytest -q tests/test_app.py",
    "rm -rf build",
    "mkdir -p out/logs",
    "sed -n '1,40p' src/app.py",
    'echo "$HOME"',
    'for f in *.py; do echo "$f"; done',
    "git add -A && git commit -m 'a change'",
    "curl -s http://localhost:8000/health | jq .",
    "git commit -m \"$(cat <<'EOF'\nA change\n\nwith a text of several lines\nEOF\n)\"",
    "timeout 60 npm run lint -- --fix",
    "wc -l src/*.py",
)
ALLOW = (
    "Bash(npm run:*)",
    "Bash(npm test *)",
    "Bash(git add:*)",
    "Bash(git commit *)",
    "Edit(src/**)",
    "WebFetch(domain:docs.python.org)",
)
DENY = (
    "Bash(rm -rf /:*)",
    "Bash(curl * | sh)",
    "Bash(sudo:*)",
    "Read(.env)",
    "Read(~/.ssh/**)",
    "Edit(.github/**)",
    "WebFetch(domain:*.evil.com)",
)
ASK = ("Bash(git push:*)", "Bash(docker:*)")
ROUNDS = 200
LARGE = 1_000_000  # characters

# The worst million characters, for a parser and for a search.
HOSTILE: dict[str, str] = {
    "one word": "echo " + "a" * LARGE,
    "many commands": "ls;" * (LARGE // 3),
    "a denied command at the end": "ls;" * (LARGE // 3) + "sudo x",
    "nearly denied, often": "sudoo x;" * (LARGE // 8),
    "open parentheses": "(" * LARGE,
    "quotes": "'\"" * (LARGE // 2),
    "backslashes": "\\" * LARGE,
    "assignments": "A=1 " * (LARGE // 4),
    "blanks": " " * LARGE,
}
# And ten thousand, which are parsed.
HOSTILE_READ: dict[str, str] = {
    "words": "echo " + "a " * 4_990,
    "commands": "ls;" * 3_333,
    "wrappers": "env " * 2_490 + "ls",
    "runners": "watch " * 1_660 + "ls",
    "nested shells": "sh -c '" * 40 + "ls",
    "substitutions": "echo " + "$(ls)" * 1_990,
    "groups": "{ " * 48 + "ls" + "; }" * 48,
    "quotes": "echo " + "''" * 4_990,
    "finds": "find . " + "-exec find . " * 760,
    "globs": "rm " + "*" * 9_990,
    "files": "cat " + "a/b " * 2_490,
}


def figures(folder: Path) -> Iterator[Figure]:
    speed = best_speed()
    yield Figure("yardstick", speed, "us")
    yield from import_figures("mainspring.core.value", "mainspring.permissions")
    policy = PermissionPolicy(
        parse_rules(allow=ALLOW, deny=DENY, ask=ASK), folders=(str(folder),), home=str(folder.parent)
    )
    calls = [PermissionRequest("Bash", {"command": command}, str(folder)) for command in COMMANDS]
    calls.append(PermissionRequest("Read", {"file_path": str(folder / "src" / "app.py")}, str(folder)))
    calls.append(PermissionRequest("Edit", {"file_path": str(folder / "src" / "app.py")}, str(folder)))
    calls.append(PermissionRequest("WebFetch", {"url": "https://docs.python.org/3/"}, str(folder)))
    times = [[taken(call, policy) for call in calls] for _ in range(ROUNDS)]
    best = sorted(map(min, zip(*times, strict=True)))
    every = sorted(time for once in times for time in once)
    yield Figure("one decision, half of the calls, their best times", best[len(best) // 2], "us", scaled(100, speed))
    yield Figure("one decision, the slowest call, its best time", best[-1], "us", scaled(1_000, speed))
    yield Figure("one decision, half of all times", every[len(every) // 2], "us")
    yield Figure("one decision, 99 of 100 times", every[len(every) * 99 // 100], "us", scaled(1_000, speed))
    for size, hostile in (("1 MB", HOSTILE), ("10 KB", HOSTILE_READ)):
        for name, text in hostile.items():
            asked = PermissionRequest("Bash", {"command": text}, str(folder))
            worst = min(taken(asked, policy) for _ in range(3)) / 1_000
            yield Figure(f"{size}: {name}", worst, "ms", 200)


def taken(asked: PermissionRequest, policy: PermissionPolicy) -> float:
    """In microseconds."""
    parse_shell_script.cache_clear()
    work: Callable[[], object] = partial(decide, asked, policy, resolve_path)
    start = perf_counter_ns()
    work()
    return (perf_counter_ns() - start) / 1_000


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "src").mkdir()
        (folder / "src" / "app.py").write_text("")
        if not show(figures(folder)):
            sys.exit(1)


if __name__ == "__main__":
    main()
