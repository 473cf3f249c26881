"""Hooks and status lines are the user's own programs: they run in the sandbox, but with the real temporary folders."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiers import parametrize_few

from mainspring.processes.child import SandboxAccess
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.sandbox.probes import PROBES, Probe, ProbeRunner, run_one
from mainspring.sandbox.sandbox import ProbeResult, Sandbox, SandboxBackend, SandboxLayout, SandboxRunner, build_sandbox
from sandbox.walls import LINUX, Box, bubblewrap, seen_folder

pytestmark = LINUX


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as folder:
        box = Box(folder)
        yield box
        box.sandbox.close()


def behind(box: Box, walls: SandboxRunner) -> None:
    box.sandbox.close()
    box.sandbox = walls  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]  # of either kind


@pytest.fixture
def real() -> Iterator[Path]:
    """A folder in the real temporary one."""
    folder = Path(tempfile.mkdtemp(prefix="own-test-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("temp", ["/tmp", "/var/tmp"])
def test_what_is_written_there_stays(box: Box, temp: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="own-test-", dir=temp))
    try:
        assert box.run(f"echo logged > {folder}/log && cat {folder}/log", SandboxAccess.OWN).stdout.text == "logged\n"
        assert (folder / "log").read_text() == "logged\n"
        assert box.run(f"test -e {folder}", SandboxAccess.USUAL).code == 1  # commands of the model have their own
    finally:
        shutil.rmtree(folder)


def test_mktemp_goes_there(box: Box) -> None:
    made = Path(box.run("mktemp", SandboxAccess.OWN).stdout.text.strip())
    assert made.is_file()
    made.unlink()


@pytest.mark.parametrize(("said", "found"), [("{real}", "{real}"), ("/srv", "/tmp"), ("/etc/../tmp", "/tmp")])
def test_a_folder_of_ones_own_among_them_is_used(real: Path, said: str, found: str) -> None:
    with seen_folder() as folder:
        box = Box(folder, env={"TMPDIR": said.format(real=real)})
        assert box.run("echo $TMPDIR", SandboxAccess.OWN).stdout.text.strip() == found.format(real=real)
        box.sandbox.close()


def test_nothing_else_is_opened(box: Box) -> None:
    ended = box.run(
        f"touch {box.base}/out/x; touch /etc/x; touch .git/x; curl -s http://127.0.0.1:1 || exit 7", SandboxAccess.OWN
    )
    assert ended.code == 7
    assert not (box.base / "out/x").exists()
    assert not Path("/etc/x").exists()


def test_folders_of_sessions_cannot_be_exchanged(box: Box, real: Path) -> None:
    """Renamed, a link could be put where the next command's private folder is looked for."""
    shared = real / "mainspring-0"
    for name in ("mine/tmp", "other/tmp"):
        (shared / name).mkdir(parents=True)
    behind(box, Sandbox(box.program, box.rooms._replace(temp=str(shared / "mine/tmp"), kept=(str(shared),))))
    rename = 'python3 -c "import os, sys; os.rename(*sys.argv[1:])"'
    for name in ("", "/mine", "/mine/tmp", "/other", "/other/tmp"):
        path = f"{shared}{name}"
        box.run(
            f"{rename} {path} {real}/gone; {rename} {path} {path}.gone; rm -rf {path}; touch {path}/x",
            SandboxAccess.OWN,
        )
    assert sorted([str(path.relative_to(real)) for path in real.rglob("*")]) == [
        "mainspring-0", "mainspring-0/mine", "mainspring-0/mine/tmp", "mainspring-0/other", "mainspring-0/other/tmp",
    ]  # fmt: skip


def test_a_private_folder_that_was_replaced_is_not_used(box: Box) -> None:
    (box.base / "temp").rename(box.base / "moved")
    (box.base / "temp").symlink_to(box.base / "out")
    with pytest.raises(SandboxError, match="was replaced: restart mainspring"):
        box.run("touch /tmp/x")
    assert list((box.base / "out").iterdir()) == []


def test_our_home_and_denied_places_in_there_stay_shut(box: Box, real: Path) -> None:
    for name in ("home/.mainspring", "secret", "work"):
        (real / name).mkdir(parents=True)
    (real / "secret/key").write_text("k")
    rooms = SandboxLayout(
        (str(real / "work"),), str(box.base / "temp"), str(box.base / "state"),
        denied=(str(real / "secret"),), kept=(str(real / "home/.mainspring"),),
    )  # fmt: skip
    behind(box, Sandbox(box.program, rooms))
    tries = (
        f"cat {real}/secret/key; echo x > {real}/home/.mainspring/settings.json; mv {real}/home {real}/other; "
        f"mv {real}/secret {real}/open; mkdir {real}/work/.claude; touch {real}/work/fine"
    )
    assert "k\n" not in box.run(tries, SandboxAccess.OWN).stdout.text
    assert sorted([str(path.relative_to(real)) for path in real.rglob("*")]) == [
        "home", "home/.mainspring", "secret", "secret/key", "work", "work/fine",
    ]  # fmt: skip


@parametrize_few("probe", PROBES, keep=5, ids=[probe.name for probe in PROBES])
def test_no_probe_gets_out(probe: Probe) -> None:
    with seen_folder() as base:
        outcome = run_one(probe, str(base), program=bubblewrap(base), who=ProbeRunner(walls=SandboxAccess.OWN))
        assert not outcome.escaped, outcome.said
        assert "bwrap:" not in outcome.said


def test_behind_the_lower_walls_too(box: Box, real: Path) -> None:
    behind(box, build_sandbox(ProbeResult(sys.executable, kind=SandboxBackend.LANDLOCK), box.rooms))
    assert box.run(f"echo logged > {real}/log", SandboxAccess.OWN).code == 0
    assert (real / "log").read_text() == "logged\n"
    assert box.run(f"echo logged > {real}/more").code != 0
    kept = box.rooms._replace(kept=(str(real),))  # landlock cannot keep a part: then all of it stays closed
    behind(box, build_sandbox(ProbeResult(sys.executable, kind=SandboxBackend.LANDLOCK), kept))
    assert box.run(f"echo logged > {real}/more", SandboxAccess.OWN).code != 0
