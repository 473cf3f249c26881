"""A program that can read only what it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sandbox.walls import LINUX

from mainspring.processes import landlock_helper
from mainspring.processes.confined import LIBRARIES, can_be_confined, hold_descriptors, start_confined

pytestmark = [
    LINUX,
    pytest.mark.skipif(
        sys.platform == "linux" and not landlock_helper.landlock_version(), reason="this kernel has no landlock"
    ),
]


def cat(readable: tuple[int, ...], *files: Path) -> subprocess.CompletedProcess[str]:
    with hold_descriptors(("/bin/cat", *LIBRARIES)) as system:
        child = start_confined(
            lambda: subprocess.Popen(
                ["/bin/cat", *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ),
            (*readable, *system),
        )
    out, errors = child.communicate(timeout=10)
    return subprocess.CompletedProcess(files, child.returncode, out, errors)


def test_it_reads_below_the_folder_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/f").write_text("inside\n")
    (tmp_path / "out").write_text("outside\n")
    (tmp_path / "in/link").symlink_to("../out")
    with hold_descriptors([str(tmp_path / "in")]) as folder:
        (tmp_path / "in").rename(tmp_path / "moved")  # it is about the folder, not about its name
        done = cat(folder, tmp_path / "moved/deep/f", tmp_path / "out", tmp_path / "moved/link", Path("/etc/passwd"))
    assert done.stdout == "inside\n"
    assert done.stderr.count("Permission denied") == 3
    assert (tmp_path / "out").read_text() == "outside\n"  # we ourselves still can


def test_what_goes_wrong_at_the_start_is_raised() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        start_confined(fails, ())
    with pytest.raises(OSError, match="Bad file descriptor"):
        start_confined(lambda: None, (9_999,))


def test_a_script_needs_more_than_itself_and_is_not_even_run(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/made\n")
    script.chmod(0o755)
    assert not can_be_confined(str(script))
    assert not (tmp_path / "made").exists()
    assert not can_be_confined(str(tmp_path / "missing"))
    assert not can_be_confined("/bin/false")
    assert can_be_confined("/bin/true")
