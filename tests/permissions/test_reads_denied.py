"""Deny rules for reading hold in the shell: each command that is allowed is run for real, and prints no denied byte.

A part of the commands that are allowed in a sandbox runs here; `tests/long` runs all of them, and random ones.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.sandbox import SandboxConfig, SessionSandbox
from mainspring.engine.shared_state import EnginePolicy as Standing
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.permissions.policy import PermissionRequest
from mainspring.processes.child import ProcessSpec
from mainspring.processes.children import Children
from mainspring.settings.values import SandboxOptions as Wanted
from permissions.deciding import bash, verdict
from permissions.reading_commands import DENIED, RULES, families, make_project, shows

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"allow": ["Bash"]},
    {"mode": "bypassPermissions"},
    {"mode": "acceptEdits", "allow": ["Bash"]},
    {"mode": "plan"},
    {"mode": "auto"},
    {"allow": ["Bash"], "hook": "allow"},
)
MILD = ("Read(.env)", "Read(./secrets/**)", "Read(~/.ssh/**)")  # as many people have them


class Field:
    """A project with denied files, fresh for each command."""

    def __init__(self, folder: Path, *, tracked: bool) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._template = folder / "template"
        (self._template / "project").mkdir(parents=True)
        make_project(self._template / "project", tracked=tracked)
        self._run = folder / "run"
        self.project = self._run / "project"
        self._looks: object = None
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_PAGER": "cat"}
        self.renew()

    def renew(self) -> None:
        """As it was, if the last command changed anything."""
        if self._looks is None or self._looks != self._look():
            shutil.rmtree(self._run, ignore_errors=True)
            shutil.copytree(self._template, self._run, symlinks=True)
            self._looks = self._look()

    def _look(self) -> object:
        files = [Path(folder, name) for folder, _, names in os.walk(self._run) for name in names]
        looks = [(file, file.lstat()) for file in files]
        return sorted([(str(file), found.st_size, found.st_mtime_ns, found.st_mode) for file, found in looks])

    def decide(self, line: str, deny: tuple[str, ...] = RULES, **way: Any) -> str:
        return bash(line, deny=deny, cwd=str(self.project), home=str(self.home), **way)

    def leaks(self, line: str) -> bool:
        """Whether a denied byte comes out of it: printed, or in a file that no rule denies."""
        self.renew()
        try:
            done = subprocess.run(
                ["bash", "-c", line], cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=5, check=False,
            )  # fmt: skip
            printed = done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            printed = (error.stdout or b"") + (error.stderr or b"")
        return shows(printed) or any(self.opened())

    def opened(self) -> Iterator[str]:
        """Files that hold the secret, and that no rule denies."""
        for folder, folders, names in os.walk(self._run):
            if ".git" in folders:
                folders.remove(".git")
            for name in names:
                path = Path(folder, name)
                inner = os.path.relpath(path, self.project)
                denied = name == ".env" or name.endswith(".key") or inner.startswith("secrets/")
                if not denied and not path.is_symlink() and path.is_file() and shows(path.read_bytes()):
                    yield inner


def run_those_allowed(field: Field, ways: tuple[dict[str, Any], ...]) -> None:
    asked, every, leaked = Counter[str](), Counter[str](), list[str]()
    for family, lines in families().items():
        for line in lines:
            every[family] += 1
            if not any(field.decide(line, **way) == "allow" for way in ways):
                asked[family] += 1
            elif field.leaks(line):
                leaked.append(line)
    assert leaked == []
    reading = [family for family in every if family != "benign"]
    assert sum(every[family] for family in reading) >= 800
    assert asked["benign"] <= every["benign"] * 0.1
    assert all(asked[family] >= every[family] * 0.97 for family in reading), asked


def test_what_is_allowed_without_a_sandbox_prints_no_denied_byte(tmp_path: Path) -> None:
    run_those_allowed(Field(tmp_path.resolve(), tracked=False), WAYS[:3])


def more_lines(rules: tuple[str, ...]) -> list[str]:
    lines = (Path(__file__).parent / "more_reading_commands.txt").read_text().splitlines()
    return lines if "Read(*.key)" in rules else [line for line in lines if not KEYS.search(line)]


KEYS = re.compile(r"cert|\.key|\bc\*|\*/\*\.|[|] xargs|\*\*")  # they reach 'certs/a.key', which MILD does not deny


@pytest.mark.parametrize("rules", [RULES, MILD], ids=["strict", "mild"])
def test_nor_do_those_of_somebody_who_did_not_know_the_lists(tmp_path: Path, rules: tuple[str, ...]) -> None:
    """Two thousand lines, written after the code, by somebody who had not."""
    field = Field(tmp_path.resolve(), tracked=False)
    lines = more_lines(rules)
    allowed = [line for line in lines if any(field.decide(line, rules, **way) == "allow" for way in WAYS[:3])]
    assert [line for line in allowed if field.leaks(line)] == []
    assert len(lines) - len(allowed) > 1_500


def test_many_of_the_commands_would_leak(tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    field = Field(tmp_path.resolve(), tracked=False)
    some = [line for family, lines in families().items() if family != "benign" for line in lines[::23]]
    leaking = [line for line in some if "sudo" not in line and "docker" not in line and field.leaks(line)]
    assert len(leaking) > len(some) / 3


# --- in a sandbox ----------------------------------------------------------------------------------------------------


class Walled:
    """The same with a real sandbox, and the rules beside it."""

    def __init__(self, field: Field, rules: tuple[str, ...] = RULES) -> None:
        self.field = field
        written = (*[RuleText("deny", rule, "user") for rule in rules], RuleText("allow", "Bash", "user"))
        self.gate = PermissionChecker(written, folders=(str(field.project),), home=str(field.home))
        ground = SandboxConfig(
            Wanted(), (str(field.project),), str(field.home), os.environ["PATH"],
            policy=lambda: self.gate.policy(Standing()),
            unreadable=lambda: self.gate.unreadable(str(field.project), Standing()),
        )  # fmt: skip
        self.gate.sandbox = self.sandboxing = SessionSandbox(ground)

    async def decide(self, line: str) -> str:
        return (
            await self.gate.verdict(PermissionRequest("Bash", {"command": line}, str(self.field.project)), Standing())
        ).decision

    async def leaking(self, lines: list[str]) -> tuple[list[str], int]:
        """Of those that are allowed; and how many are."""
        leaked: list[str] = []
        allowed = 0
        children = Children(around=self.sandboxing.around)
        for line in lines:
            self.field.renew()
            if await self.decide(line) != "allow":
                continue
            allowed += 1
            walls = self.sandboxing.walls(line, leave=False)
            argv = ("/bin/sh", "-c", 'exec timeout -s KILL 5 bash -c "$1" < /dev/null 2>&1', "sh", line)
            ended = await children.run(ProcessSpec(argv, str(self.field.project), self.field.environment, walls=walls))
            if shows(ended.stdout.text.encode(errors="surrogateescape")) or any(self.field.opened()):
                leaked.append(line)
        await children.close()
        await self.sandboxing.close()
        return leaked, allowed


@pytest.mark.needs("bwrap")
def test_what_is_allowed_in_a_sandbox_prints_no_denied_byte(tmp_path: Path) -> None:
    walled = Walled(Field(tmp_path.resolve(), tracked=False))
    lines = [line for lines in families(1).values() for line in lines[::11]]
    leaked, allowed = asyncio.run(walled.leaking(lines))
    assert leaked == []
    assert allowed > len(lines) / 4


@pytest.mark.needs("bwrap")
def test_a_sandbox_makes_free_what_it_enforces(tmp_path: Path) -> None:
    async def decided(line: str) -> str:
        return await walled.decide(line)

    walled = Walled(Field(tmp_path.resolve(), tracked=False))
    for line in ("npm test", "make", "python3 leak.py", "./leak.sh", "grep -r x src"):
        assert asyncio.run(decided(line)) == "allow", line
        assert walled.field.decide(line, allow=["Bash"]) == "ask", line
    for line in ("git log -p", "git show", "git archive HEAD", "git peek", "cat .env"):
        assert asyncio.run(decided(line)) != "allow", line  # no sandbox hides what commits hold
    assert walled.sandboxing.hides_denied("npm test", leave=False)
    assert not walled.sandboxing.hides_denied("npm test", leave=True)


# --- over-strictness -------------------------------------------------------------------------------------------------

# They must be free beside the rules that people have: each names what it reads.
MUST = [line for line in families()["benign"] if line != "stat .env"]
MUST += ["python3 --version", "node --version", "man ls", "npm ls", "pip list", "bash --version", "echo $HOME", "cd .."]
# They should be.
SHOULD = """
git diff
git diff src
git diff README.md src/app.py
git show --stat
git show --name-only HEAD~1
git grep hello
git grep hello -- src
git grep hello src
git add -u
git commit -qam x
git reset -q --hard
git pull -q
git push -q
git switch -q -c x
git merge -q --no-edit main
git log --graph --oneline --all
git log -S hello --oneline
git rebase --abort
rg hello
rg -n hello src
grep -rn hello src
grep -rn --include=*.py hello src
cp -r src copy
tar czf src.tgz src
find src -name '*.py' -exec wc -l {} +
find src -name '*.py' | xargs wc -l
sort -o sorted.csv data.csv
curl -sS -H 'Accept: text/html' -d a=1 http://127.0.0.1:1/
docker ps -a
gh pr list
systemctl status x
rsync -a src/ copy/
unzip -l x.zip
less README.md
mktemp -d
seq 3 | while read -r n; do echo "$n"; done
kill %1
base64 -d README.md
split -l 10 README.md part.
ln -s src code
"""


@pytest.fixture
def usual(tmp_path: Path) -> Field:
    """Denied files at the top, ignored by git and never committed."""
    field = Field(tmp_path.resolve(), tracked=False)
    project = field.project
    for name in DENIED[1:]:
        (project / name).unlink()
    for name in ("src/linked", "here", "innocent", ".git", "secrets/deep", "secrets", "certs", "sub"):
        path = project / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for step in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *step], cwd=project, check=True)
    assert (project / ".env").exists()
    return field


def test_over_strictness(usual: Field) -> None:
    def strict(lines: list[str]) -> list[str]:
        return [line for line in lines if usual.decide(line, MILD, allow=["Bash"]) != "allow"]

    should = SHOULD.strip().splitlines()
    assert strict(MUST) == []
    found = strict(should)
    assert len(found) <= len(should) * 0.1, found


# --- settled 40, word by word ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("git log -p", "Bash(git log:*)"),
        ("git log -p", "Bash(git log -p)"),
        ("git show", "Bash(git show:*)"),
        ("npm test", "Bash(npm test)"),
        ("npm test -- -x", "Bash(npm test:*)"),
        ("make all", "Bash(make:*)"),
        ("python3 x.py", "Bash(python3 x.py)"),
        ("timeout 5 npm test", "Bash(npm test)"),
        ("npm test | tail", "Bash(npm:*)"),
    ],
)
def test_a_rule_that_names_a_command_stands(line: str, rule: str) -> None:
    deny = ["Read(.env)"]
    for way in ({"allow": ["Bash"]}, {"mode": "bypassPermissions"}, {"mode": "acceptEdits", "allow": ["Bash"]}):
        assert bash(line, deny=deny, **way) == "ask"
        assert bash(line, deny=deny, **{**way, "allow": [*way.get("allow", []), rule]}) == "allow"
    assert bash(line, deny=deny, allow=[rule]) == "allow"
    assert bash(line, deny=deny, mode="dontAsk", allow=["Bash"]) == "deny"
    assert bash(line, allow=["Bash"]) == "allow"  # without a rule about reading
    assert bash(line, deny=["Edit(.env)"], allow=["Bash"]) == "allow"


@pytest.mark.parametrize("rule", ["Bash(n*)", "Bash(* test)", "Bash(npm install:*)", "Bash(*)"])
def test_a_rule_that_names_no_command_does_not(rule: str) -> None:
    assert bash("npm test", deny=["Read(.env)"], allow=["Bash", rule]) == "ask"


def test_a_known_reader_is_decided_by_its_words_whatever_rule_names_it() -> None:
    assert bash("cat .env", deny=["Read(.env)"], allow=["Bash(cat:*)"]) == "deny"
    assert bash("grep -r x .", deny=["Read(.env)"], allow=["Bash(grep:*)"]) == "ask"
    assert bash("git show HEAD:.env", deny=["Read(.env)"], allow=["Bash(git show:*)"]) == "ask"


def test_what_is_said_and_offered() -> None:
    found = verdict("npm test", deny=["Read(.env)"], allow=["Bash"])
    assert found.reason == (
        "the words of 'npm' do not show what it reads, and a rule keeps files from being read: Read(.env)"
    )
