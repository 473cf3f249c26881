"""What a command finds in the sandbox, and what it leaves behind outside: nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.traces import descriptors, new_nap, until, with_word

from mainspring.processes.child import ProcessLimits, ProcessSpec
from mainspring.processes.children import Children
from mainspring.sandbox import sandbox
from mainspring.sandbox.bubblewrap import SandboxError, SandboxPathAccess
from mainspring.sandbox.paths import BARE, HELD, SETTLED, Seen, scan_workspace
from mainspring.sandbox.placeholders import MODE, is_ours
from mainspring.sandbox.sandbox import ProbeResult, Sandbox, SandboxLayout, SandboxLevel, decide_status
from sandbox.walls import ENV, LINUX, Box, seen_folder

pytestmark = LINUX


@pytest.fixture
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


@pytest.fixture
def box(base: Path) -> Iterator[Box]:
    box = Box(base, folders=("work", "second"))
    yield box
    box.sandbox.close()


# --- what is there ------------------------------------------------------------------------------------------------


def test_workspaces_and_temp_can_be_written_and_nothing_else(box: Box) -> None:
    out, second = box.base / "out", box.base / "second"
    ended = box.run(
        f"pwd; echo 1 > a; echo 2 > {second}/b; echo 3 > /tmp/c; echo 4 > $TMPDIR/d; echo 5 > {out}/e; id -u"
    )
    assert ended.stdout.text.splitlines()[0] == str(box.work)
    assert "Read-only file system" in ended.stdout.text
    assert ended.stdout.text.splitlines()[-1] == str(os.getuid())
    found = {name: (box.base / name).read_text() for name in ("work/a", "second/b", "temp/c", "temp/d")}
    assert found == {"work/a": "1\n", "second/b": "2\n", "temp/c": "3\n", "temp/d": "4\n"}
    assert list(out.iterdir()) == []
    assert box.run(f"cat /tmp/c /var/tmp/c {box.base}/temp/c; ls -A /tmp /run").stdout.text.split()[:3] == [
        "3",
        "3",
        "3",
    ]


def test_codes_output_and_descriptors_get_through(box: Box) -> None:
    async def main() -> tuple[int, str, bytes]:
        ours, its = os.pipe()
        job = box.job(f"echo out; echo err >&2; echo told >&{its}; exit 7")._replace(passed=(its,))
        with box.sandbox.around(job) as inner:
            ended = await Children().run(inner)
        os.close(its)
        with os.fdopen(ours, "rb") as answer:
            return ended.code, ended.stdout.text, answer.read()

    assert asyncio.run(main()) == (7, "out\nerr\n", b"told\n")
    assert box.run("exec 3>&-; ls /proc/self/fd").stdout.text.split() == ["0", "1", "2", "3"]  # the last is of `ls`


def test_no_rights_and_a_filter(box: Box) -> None:
    status = box.run("cat /proc/self/status").stdout.text
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {name: int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == dict.fromkeys(
        ("CapEff", "CapPrm", "CapBnd", "CapAmb"), 0
    )
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    links = box.run("for n in pid ipc uts net user mnt; do readlink /proc/self/ns/$n; done").stdout.text.split()
    ours = [str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("pid", "ipc", "uts", "net", "user", "mnt")]
    assert not set(links) & set(ours)
    assert len(links) == 6


def test_ordinary_work_goes_on(box: Box) -> None:
    """Threads, pipes, pairs of sockets, a loopback of its own, renames and links within the workspace."""
    script = (
        "import os, socket, subprocess, threading\n"
        "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('loopback')\n"
        "open('x', 'w').close(); os.rename('x', 'y'); os.link('y', 'z'); os.symlink('y', 'l'); os.mkfifo('f')\n"
        "print(subprocess.check_output(['echo', 'child'], text=True).strip())\n"
    )
    (box.work / "script.py").write_text(script)
    ended = box.run(f"{os.path.realpath(sys.executable)} -I script.py")
    assert (ended.code, ended.stdout.text.split()) == (0, ["thread", "loopback", "child"])


def test_a_denied_place_within_the_workspace_is_empty_and_closed(base: Path) -> None:
    (base / "work").mkdir()
    (base / "work/.env").write_text("secret")
    (base / "work/keys").mkdir()
    (base / "work/keys/one").write_text("secret")
    (base / "work/link").symlink_to("keys/one")
    box = Box(base, denied=(str(base / "work/.env"), str(base / "work/keys"), str(base / "work/missing")))
    said = box.run(
        "cat .env; ls keys; cat keys/one link; echo x > .env; rm -rf keys .env; mv keys k; ls -A"
    ).stdout.text
    box.sandbox.close()
    assert "secret" not in said
    assert (box.work / ".env").read_text() == (box.work / "keys/one").read_text() == "secret"
    assert box.names() == [".env", "keys", "link"]


# --- what is protected ----------------------------------------------------------------------------------------------


def test_missing_places_are_held_and_nothing_is_left(box: Box) -> None:
    (box.work / "file").touch()
    tries = "; ".join([f"mkdir -p {name}; touch {name}/x; rmdir {name}; echo x > {name}" for name in (*HELD, BARE)])
    box.run(f"{tries}; touch new")
    assert box.names() == ["file", "new"]
    assert list((box.base / "second").iterdir()) == []
    assert set(box.run("ls -A").stdout.text.split()) == {"file", "new", *HELD, BARE}
    assert box.names() == ["file", "new"]


def test_git_does_not_see_what_is_held(box: Box) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=box.work, check=True)
    (box.work / "file").touch()
    assert box.run("git status --short").stdout.text == "?? file\n"
    assert "Read-only file system" in box.run("git add file").stdout.text


def test_what_exists_is_read_only_at_the_top_and_deeper(box: Box) -> None:
    work = box.work
    for folder in (".git/hooks", ".github/workflows", "sub/deep/.git/hooks", ".vscode"):
        (work / folder).mkdir(parents=True)
    (work / ".npmrc").write_text("as it was")
    tries = (
        "touch .git/hooks/x .github/workflows/x sub/deep/.git/hooks/x .vscode/x; echo x > .npmrc; rm .npmrc; "
        "mv .git g; mv .github h; mv sub s; mv sub/deep d; rm -rf .git sub; touch .github/ok sub/ok sub/deep/ok"
    )
    box.run(tries)
    found = sorted([str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()])
    assert found == [".github/ok", ".npmrc", "sub/deep/ok", "sub/ok"]
    assert (work / ".npmrc").read_text() == "as it was"
    assert (work / "sub/deep/.git/hooks").is_dir()


def test_a_repository_that_comes_later_is_found(box: Box) -> None:
    """The search before each command looks again where something changed, and only there."""
    (box.work / "a/b").mkdir(parents=True)
    seen: Seen = {}

    def found() -> list[str]:
        places = scan_workspace(str(box.work), (str(box.work),), seen).places
        return [place.path for place in places if place.access is SandboxPathAccess.READ]

    assert found() == []
    time.sleep(2 * SETTLED / 1e9)  # until then nothing is remembered: there is no other state to wait for
    assert found() == []
    remembered = dict(seen)
    assert len(remembered) == 3
    assert found() == []
    assert all(seen[key] is value for key, value in remembered.items())
    (box.work / "a/b/.git").mkdir()
    assert found() == [str(box.work / "a/b/.git")]
    (box.work / "a/b/.git").rmdir()
    assert found() == []


def test_a_link_cannot_be_replaced_and_what_it_leads_to_cannot_be_written(box: Box) -> None:
    work = box.work
    (work / "real").mkdir()
    (work / "real/settings.json").write_text("as it was")
    (work / "code.py").write_text("old")
    (work / ".claude").symlink_to("real")
    (work / ".vscode").symlink_to("later/vscode")  # leads to what does not exist yet
    said = box.run(
        "echo x > .claude/settings.json; rm .claude; mkdir .claude; mv real r; mkdir -p later/vscode; "
        "touch later/vscode/x; echo new > code.py; echo x > fresh"
    )
    assert (work / "real/settings.json").read_text() == "as it was"
    assert (work / ".claude").is_symlink()
    assert not (work / "later").exists()
    assert not (work / "fresh").exists()  # the price: nothing new beside a link
    assert (work / "code.py").read_text() == "new\n"
    assert "is a link" in box.notes[0]
    assert said.code == 1


def test_two_sessions_hold_together(box: Box) -> None:
    """What one lets go, the other still needs."""

    async def main() -> str:
        other, children = box.another(), Children()
        with box.sandbox.around(
            box.job("touch started; while [ ! -e go ]; do sleep 0.01; done; touch .mcp.json/x .git/x")
        ) as job:
            running = asyncio.create_task(children.run(job))
            await until((box.work / "started").exists)
            with other.around(box.job("true")) as second:
                await children.run(second)
            assert is_ours(str(box.work / ".git"))
            other.close()
            assert is_ours(str(box.work / ".git"))
            (box.work / "go").touch()
            return (await running).stdout.text

    assert asyncio.run(main()).count("Permission denied") == 2
    assert box.names() == ["go", "started"]


def test_a_guard_that_was_ended_is_replaced(box: Box) -> None:
    box.run("true")
    (guard, *_) = with_word(f"{box.base}/state/held-")
    os.kill(guard, signal.SIGKILL)
    asyncio.run(until(lambda: "State:\tZ" in Path(f"/proc/{guard}/status").read_text()))
    box.run("touch .git/x; touch made")
    assert box.names() == ["made"]


def test_what_a_power_cut_left_is_taken_away_later(box: Box) -> None:
    left = box.work / ".claude"
    left.mkdir()
    left.chmod(MODE)
    own = box.work / ".vscode"
    own.mkdir()  # a person's, empty too
    box.run("true")
    assert box.names() == [".vscode"]


@pytest.mark.parametrize("folder", ["/", "/proc", "/dev/shm", "/sys/fs"])
def test_not_every_folder_can_be_a_workspace(box: Box, folder: str) -> None:
    with pytest.raises(SandboxError, match=f"'{folder}'"):
        Sandbox(box.program, box.rooms._replace(folders=(folder,)))


# --- the end ----------------------------------------------------------------------------------------------------


def test_all_ends_with_the_command_and_with_a_limit(box: Box) -> None:
    nap = new_nap()
    assert box.run(f"setsid sleep {nap} >/dev/null 2>&1 & (setsid env -i sleep {nap} &) ; exit 3").code == 3

    async def main() -> bool:
        job = box.job(f"setsid sleep {nap} & sleep {nap}")._replace(limits=ProcessLimits(0.3))
        with box.sandbox.around(job) as inner:
            return (await Children().run(inner)).timed_out

    before = descriptors()
    assert asyncio.run(main())
    assert with_word(nap) == []
    assert descriptors() == before


AGENT = """
import asyncio, sys
from mainspring.processes.child import ProcessSpec
from mainspring.processes.children import Children
from mainspring.sandbox.sandbox import SandboxLayout, Sandbox
program, base, nap = sys.argv[1:]
async def main():
    sandbox = Sandbox(program, SandboxLayout((f"{base}/work",), f"{base}/temp", f"{base}/state"))
    command = f"setsid sleep {nap} & (setsid env -i sleep {nap} &) ; touch started; trap '' TERM; sleep {nap}"
    with sandbox.around(ProcessSpec(("/bin/bash", "-c", command), f"{base}/work", {"PATH": "/usr/bin:/bin"})) as job:
        await Children().run(job)
asyncio.run(main())
"""


def test_killing_the_agent_ends_all_and_leaves_nothing(box: Box) -> None:
    nap = new_nap()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, box.program, str(box.base), nap])

    async def main() -> None:
        try:
            await until((box.work / "started").exists)
            await until(lambda: len(with_word(nap)) >= 5)  # the agent, bubblewrap twice, the shell, three sleeps
            assert is_ours(str(box.work / ".git"))
        finally:
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        await until(lambda: with_word(nap) == [])
        await until(lambda: with_word(str(box.base)) == [])  # the shell that cleans up, too
        assert box.names() == ["started"]

    asyncio.run(main())


# --- whether there is one -----------------------------------------------------------------------------------------


def test_levels_are_never_lowered_in_silence() -> None:
    no = ProbeResult(None, "bubblewrap is not installed: install the package 'bubblewrap'")
    with pytest.raises(SandboxError, match="required, but bubblewrap is not installed"):
        decide_status(SandboxLevel.REQUIRED, no)
    assert decide_status(SandboxLevel.ON, no).words == f"sandbox: off ({no.reason})"
    assert (
        decide_status(SandboxLevel.OFF, ProbeResult("/usr/bin/bwrap")).words
        == "sandbox: off (switched off by the user's settings)"
    )
    assert decide_status(SandboxLevel.REQUIRED, ProbeResult("/usr/bin/bwrap")).words == "sandbox: on (bubblewrap)"


def test_the_probe_asks_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    home = box.base / "home"
    home.mkdir()
    first = sandbox.probe_sandbox(str(home))
    kept = home / sandbox.FILE
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted([path.name for path in home.iterdir()]) == [sandbox.FILE]
    stamp = kept.stat().st_ino
    assert sandbox.probe_sandbox(str(home)) == first
    assert kept.stat().st_ino == stamp  # not written again, so not asked again
    kept.write_text('{"program": 1}')
    assert sandbox.probe_sandbox(str(home)) == first
    assert kept.stat().st_ino != stamp
    outside = sandbox.probe_sandbox(str(home), outside=("/bin", "/usr/bin"))
    assert outside == ProbeResult(None, "bubblewrap is not installed: install the package 'bubblewrap'")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "it needs Linux" in sandbox.probe_sandbox(str(home)).reason


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("No permissions to create new namespace, likely because ...", "user namespaces cannot be created"),
        ("Creating new namespace failed: No space left on device", "set 'user.max_user_namespaces'"),
        ("setting up uid map: Permission denied", "restricted"),
        ("Unknown option --disable-userns", "version 0.8"),
        ("something new", "says: 'something new'"),
    ],
)
def test_a_bubblewrap_that_does_not_work_is_explained(box: Box, says: str, told: str) -> None:
    fake = box.base / "bwrap"
    fake.write_text(f"#!/bin/sh\necho 'bwrap: {says}' >&2; exit 1\n")
    fake.chmod(0o755)
    assert told in sandbox._try(str(fake), str(box.base))


def test_without_user_namespaces_it_says_so(box: Box) -> None:
    """As in a container that has none: really switched off, in a namespace of its own."""
    home = box.base / "home"
    home.mkdir()
    asks = "import sys; from mainspring.sandbox.sandbox import probe_sandbox; print(probe_sandbox(sys.argv[1]))"
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", sys.executable, "-c", asks, str(home)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "program=None" in ended.stdout, ended.stderr
    assert "user namespaces" in ended.stdout
    assert not (home / sandbox.FILE).exists()  # a no is asked again


def test_a_command_without_its_walls_does_not_run(box: Box) -> None:
    """A folder that is gone, say: bubblewrap fails, and nothing runs instead."""
    broken = Sandbox(box.program, SandboxLayout((str(box.work),), str(box.base / "no-temp"), str(box.base / "state")))

    async def main() -> int:
        with broken.around(ProcessSpec(("/usr/bin/touch", f"{box.work}/ran"), str(box.work), ENV)) as job:
            return (await Children().run(job)).code

    assert asyncio.run(main()) == 1
    broken.close()
    assert box.names() == []
