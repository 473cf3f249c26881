"""The lower walls (security X4), on a kernel that has landlock: what they stop, what they cannot, and what is said of
it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.traces import descriptors, new_nap, until, with_word

from mainspring.processes import landlock_helper
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.sandbox import sandbox
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.sandbox.landlock import (
    CHANGE,
    HANDLED,
    HELPER,
    READ,
    TREE,
    LandlockRule,
    LandlockSandbox,
    Right,
    pack_rules,
)
from mainspring.sandbox.probes import PROBES, Probe, ProbeRunner, run_one
from mainspring.sandbox.sandbox import (
    ProbeResult,
    SandboxBackend,
    SandboxLayout,
    SandboxLevel,
    build_sandbox,
    decide_status,
)
from sandbox.walls import ENV, LINUX, NOBODY, python_for, seen_folder

pytestmark = [
    LINUX,
    pytest.mark.skipif(
        sys.platform == "linux" and not landlock_helper.landlock_version(), reason="this kernel has no landlock"
    ),
]
USERS = [None, NOBODY] if os.getuid() == 0 else [None]
OPEN = ("change a mode outside", "change times outside", "set an attribute outside", "list a denied folder",
        "outlive the command")  # fmt: skip


@pytest.fixture(scope="module")
def field() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def pythons() -> dict[int | None, str]:
    return {user: python_for(user) for user in USERS}


class Yard:
    """A workspace behind the lower walls."""

    def __init__(self, base: Path, denied: tuple[str, ...] = ()) -> None:
        self.base, self.work = base, base / "work"
        for name in ("work", "temp", "state", "out"):
            (base / name).mkdir(exist_ok=True)
        rooms = SandboxLayout((str(self.work),), str(base / "temp"), str(base / "state"), denied=denied)
        self.walls = build_sandbox(ProbeResult(sys.executable, kind=SandboxBackend.LANDLOCK), rooms)
        self.notes: tuple[str, ...] = ()  # of the last command

    def job(self, command: str, walls: SandboxAccess = SandboxAccess.USUAL) -> ProcessSpec:
        return ProcessSpec(("/bin/bash", "-c", command), str(self.work), ENV, merged=True, walls=walls)

    def run(self, command: str, walls: SandboxAccess = SandboxAccess.USUAL) -> ProcessResult:
        ended = asyncio.run(Children(around=self.walls.around).run(self.job(command, walls)))
        self.notes = ended.notes
        return ended

    def names(self) -> list[str]:
        return sorted([path.name for path in self.work.iterdir()])


@pytest.fixture
def yard() -> Iterator[Yard]:
    with seen_folder() as base:
        yield Yard(base)


# --- the probes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", USERS, ids=["me", "an ordinary user"][: len(USERS)])
@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_which_get_out(probe: Probe, user: int | None, field: Path, pythons: dict[int | None, str]) -> None:
    """Those that landlock cannot stop do get out: the table says so, and no others."""
    python = pythons[user]
    outcome = run_one(probe, str(field), program=python, who=ProbeRunner(python, user, kind=SandboxBackend.LANDLOCK))
    if probe.name == "end another process" and landlock_helper.landlock_version() < landlock_helper.VERSION_SCOPES:
        return  # older ones do not look at signals
    if probe.landlock or probe.able != "depends":
        assert outcome.escaped is not probe.landlock, outcome.said
    assert outcome.escaped or "Error" in outcome.said
    assert "mainspring-landlock" not in outcome.said


def test_the_table_names_what_stays_open() -> None:
    assert tuple([probe.name for probe in PROBES if not probe.landlock]) == OPEN


# --- what is there ------------------------------------------------------------------------------------------------


def test_the_workspace_and_temp_can_be_written_and_nothing_else(yard: Yard) -> None:
    said = yard.run(
        f"echo 1 > a; mkdir -p d/e; mv a d/e/a; echo 2 > $TMPDIR/b; echo 3 > {yard.base}/out/c; echo x > /tmp/y"
    )
    assert said.stdout.text.count("Permission denied") == 2
    assert (yard.work / "d/e/a").read_text() == "1\n"
    assert (yard.base / "temp/b").read_text() == "2\n"
    assert list((yard.base / "out").iterdir()) == []


def test_codes_output_signals_and_descriptors_are_as_without(yard: Yard) -> None:
    before = descriptors()
    ended = yard.run("echo out > /dev/stderr; yes | head -1; ls /proc/self/fd; exit 7")
    assert (ended.code, ended.stdout.text.split()) == (7, ["out", "y", "0", "1", "2", "3"])
    ask = "grep SigIgn /proc/self/status"
    outside = asyncio.run(Children().run(yard.job(ask)._replace(walls=SandboxAccess.NONE))).stdout.text
    assert yard.run(ask).stdout.text == outside  # Python ignores two, and whoever started us may ignore others
    assert descriptors() == before
    plain = yard.job("env | sort")._replace(env={"PATH": "/usr/bin:/bin"})
    said = asyncio.run(Children(around=yard.walls.around).run(plain)).stdout.text
    assert [line.partition("=")[0] for line in said.split()] == [
        "MAINSPRING_CALL", "PATH", "PWD", "SHLVL", "TEMP", "TMP", "TMPDIR", "_",
    ]  # fmt: skip


def test_no_rights_and_a_filter(yard: Yard) -> None:
    status = yard.run("cat /proc/self/status").stdout.text
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    names = ("CapEff", "CapPrm", "CapBnd", "CapAmb")
    if os.getuid() == 0:
        assert {name: int(fields[name], 16) for name in names} == dict.fromkeys(names, 0)
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


def test_a_protected_place_closes_the_folders_around_it(yard: Yard) -> None:
    work = yard.work
    for folder in (".git/hooks", "sub/.git", "src/deep"):
        (work / folder).mkdir(parents=True)
    (work / "file").write_text("old")
    said = yard.run(
        "echo x > .git/hooks/x; mv .git g; mv sub s; echo new > file; echo x > src/deep/x; mkdir src/more; "
        "rm -r src/deep; touch fresh; rm file; touch sub/fresh; mkdir .claude"
    )
    assert said.stdout.text.count("Permission denied") == 7
    assert (work / "file").read_text() == "new\n"
    assert yard.names() == [".git", "file", "src", "sub"]
    assert [path.name for path in (work / "src").iterdir()] == ["more"]
    assert list((work / ".git/hooks").iterdir()) == list((work / "sub").glob("fresh")) == []


def test_without_a_protected_place_what_came_is_taken_away(yard: Yard) -> None:
    yard.run("mkdir .claude; echo x > .claude/settings.json; touch fresh")
    assert yard.names() == ["fresh"]
    (note,) = yard.notes
    assert note.startswith(f"'{yard.work}/.claude' was created by a command")
    (aside,) = (yard.base / "state/aside").iterdir()
    assert (aside / "settings.json").read_text() == "x\n"


def test_denied_places_cannot_be_read_and_all_others_can(yard: Yard) -> None:
    (yard.base / "out/secret").write_text("secret")
    (yard.base / "out/open").write_text("open")
    (yard.work / ".env").write_text("secret")
    denied = Yard(yard.base, (f"{yard.base}/out/secret", f"{yard.work}/.env"))
    said = denied.run(
        f"cat {yard.base}/out/secret .env; ln .env e; cat {yard.base}/out/open; ls -A; head -c4 /etc/passwd"
    )
    assert "secret\n" not in said.stdout.text
    assert said.stdout.text.count("ermission denied") == 3
    assert said.stdout.text.endswith("open.env\nroot")


def test_git_is_not_let_in(yard: Yard) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=yard.work, check=True)
    assert yard.run("touch x; git add .", SandboxAccess.GIT).code != 0
    assert yard.notes == ("landlock cannot open '.git' for git alone: install the package 'bubblewrap'",)


# --- the end ------------------------------------------------------------------------------------------------------


def test_it_hears_term_and_all_ends_with_it(yard: Yard) -> None:
    nap = new_nap()

    async def main() -> tuple[int | None, str]:
        children = Children(around=yard.walls.around)
        command = f"trap 'echo asked; exit 5' TERM; (setsid env -i sleep {nap} &); touch started; sleep {nap} & wait"
        child = children.start(yard.job(command))
        await until((yard.work / "started").exists)
        await children.end(child)
        return child.code, child.stdout.text

    assert asyncio.run(main()) == (5, "asked\n")
    assert with_word(nap) == []


AGENT = """
import asyncio, sys
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.sandbox.landlock import LandlockSandbox
from mainspring.sandbox.sandbox import SandboxLayout
base, nap = sys.argv[1:]
walls = LandlockSandbox(sys.executable, SandboxLayout((f"{base}/work",), f"{base}/temp", f"{base}/state"))
job = ProcessSpec(("/bin/bash", "-c", f"touch started; exec sleep {nap}"), f"{base}/work", {"PATH": "/bin"},
    walls=SandboxAccess.USUAL)
asyncio.run(Children(around=walls.around).run(job))
"""


def test_killing_the_agent_ends_the_command_itself(yard: Yard) -> None:
    """Itself only: there is no namespace of processes around it."""
    nap = new_nap()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(yard.base), nap])

    async def main() -> None:
        try:
            await until((yard.work / "started").exists)
        finally:
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        await until(lambda: with_word(nap) == [])

    asyncio.run(main())


# --- the kernel's side --------------------------------------------------------------------------------------------


def test_each_version_gets_what_it_knows() -> None:
    """The kernel takes what an older one took, so all of them can be tried on a young one."""
    newest = landlock_helper.landlock_version()
    sizes = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16, 6: 24, 7: 24, 8: 24}
    for version, size in sizes.items():
        attributes = landlock_helper.ruleset_of(HANDLED, version)
        assert len(attributes) == size
        if version <= newest:
            created = landlock_helper.libc.syscall(444, attributes, ctypes.c_size_t(size), 0)
            assert created >= 0
            os.close(created)
    (first, second, third) = (struct.unpack_from("=Q", landlock_helper.ruleset_of(HANDLED, n))[0] for n in (1, 2, 3))
    assert not first & (Right.MOVE | Right.TRUNCATE)
    assert (second & Right.MOVE, second & Right.TRUNCATE) == (Right.MOVE, 0)
    assert third & Right.TRUNCATE
    assert not third & Right.DEVICE_REQUESTS


def test_what_is_packed_is_read_again() -> None:
    rules = [LandlockRule(TREE, "/a b"), LandlockRule(CHANGE, "/c\nd")]
    handled, program, read = landlock_helper.parse_rules_file(pack_rules(rules, b"\0\1filter", reading=True))
    assert (handled, program) == (HANDLED | READ, b"\0\1filter")
    assert read == [tuple(rule) for rule in rules]
    assert not HANDLED & (Right.EXECUTE | Right.READ_FILE | Right.READ_FOLDER)


# As an old kernel, or one that has it switched off: the call is answered with "no such call" (38).
OLD = f"""
import os, struct, sys
sys.path.insert(0, {str(Path(HELPER).parent)!r})
import landlock_helper as helper
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)]
helper.libc.prctl(38, 1, 0, 0, 0)
helper.filter_calls(b"".join(struct.pack("=HBBI", *line) for line in lines))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_without_landlock_nothing_runs_and_it_is_said(yard: Yard) -> None:
    with yard.walls.around(yard.job("touch ran")) as job:
        argv = [sys.executable, "-c", OLD, *job.argv]
        ended = subprocess.run(argv, cwd=job.cwd, pass_fds=job.passed, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (125, "mainspring-landlock: this kernel has no landlock\n")
    assert yard.names() == []
    asks = (
        "import sys; from mainspring.sandbox.sandbox import *; print(probe_sandbox(sys.argv[1], "
        "kinds=tuple(SandboxBackend)[1:]))"
    )
    asked = subprocess.run(
        [sys.executable, "-c", OLD, sys.executable, "-c", asks, str(yard.base)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "program=None" in asked.stdout, asked.stderr
    assert "landlock does not work here: this kernel has no landlock" in asked.stdout


# --- whether there is one -----------------------------------------------------------------------------------------


@pytest.mark.needs("bwrap")
def test_it_is_taken_only_where_there_is_no_bubblewrap_and_said(yard: Yard) -> None:
    both = (SandboxBackend.BUBBLEWRAP, SandboxBackend.LANDLOCK)
    home = str(yard.base)
    assert sandbox.probe_sandbox(home, kinds=both).kind is SandboxBackend.BUBBLEWRAP
    answer = sandbox.probe_sandbox(home, kinds=both, outside=("/bin", "/usr/bin"))
    reason = "bubblewrap is not installed: install the package 'bubblewrap'"
    assert answer == ProbeResult(sys.executable, reason, SandboxBackend.LANDLOCK)
    standing = decide_status(SandboxLevel.REQUIRED, answer)
    assert (standing.level, standing.words) == ("landlock", f"sandbox: on (landlock; {reason})")
    assert isinstance(build_sandbox(standing, SandboxLayout((), home, home)), LandlockSandbox)
    with pytest.raises(SandboxError, match="there is no sandbox: switched off"):
        build_sandbox(decide_status(SandboxLevel.OFF, answer), SandboxLayout((), home, home))
