"""Opening: regular files under the name that was decided on; nothing blocks (security F1, F3)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.processes.safe_open import (
    FileMovedError,
    open_child,
    open_folder,
    open_read,
    read_resolved_file,
    refuse_if_moved,
    refuse_unless_regular,
)
from processes.steps import Steps, open_descriptors


def test_bytes_are_read_as_they_are(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\rthree\n\xff\0no newline at the end"
    (tmp_path / "f").write_bytes(data)
    assert read_resolved_file(resolve_path("f", str(tmp_path)), limit=len(data)) == data
    with pytest.raises(PathRefused, match="more than 10 bytes"):
        read_resolved_file(resolve_path("f", str(tmp_path)), limit=10)


def test_a_link_is_read_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("there")
    (tmp_path / "l").symlink_to("f")
    assert read_resolved_file(resolve_path("l", str(tmp_path)), limit=100) == b"there"


def test_what_is_refused_without_being_touched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for asked, why in (("pipe", "regular"), (".", "folder"), ("/dev/zero", "regular"), ("/proc/kmsg", "regular")):
        path = resolve_path(asked, str(tmp_path))
        with Steps() as steps, pytest.raises(PathRefused, match=why):
            open_read(path)
        assert steps.count == 0
    with pytest.raises(FileNotFoundError):
        open_read(resolve_path("nothing", str(tmp_path)))


def test_nothing_blocks_even_if_it_was_a_file_a_moment_ago(tmp_path: Path) -> None:
    """What `resolve_path` saw is out of date: the open itself must refuse each of these, at once."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "through").symlink_to("folder")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    before = open_descriptors()
    for name in ("pipe", "folder", "link", "socket", "through/x", "link/x"):
        with pytest.raises((PathRefused, FileNotFoundError)) as caught:
            open_read(Resolved(name, f"{tmp_path}/{name}", (), "file"))
        assert isinstance(caught.value, PathRefused), name
    for real in ("/dev/zero", "/dev/tty", "/proc/self/status", "/proc/kmsg", "/sys/kernel/notes", "/sys/kernel/mm"):
        with pytest.raises((PathRefused, OSError)):
            open_read(Resolved(real, real, (), "file"))
    assert open_descriptors() == before


def test_a_link_in_place_of_a_file_is_not_even_opened(tmp_path: Path) -> None:
    """Where it leads is not looked at: not there, a file, or a pipe that would block."""
    (tmp_path / "target").write_text("")
    os.mkfifo(tmp_path / "pipe")
    folder = open_folder(str(tmp_path))
    try:
        for number, target in enumerate(("nothing", "target", "pipe", "/etc/passwd")):
            (tmp_path / f"l{number}").symlink_to(target)
            with pytest.raises(PathRefused, match="symbolic links"):  # the kernel's own word for it
                open_child(folder, f"l{number}", "name")
    finally:
        os.close(folder)


def test_files_of_the_kernel_are_known_by_their_device() -> None:
    fd = os.open("/proc/self/status", os.O_RDONLY)
    try:
        with pytest.raises(PathRefused, match="regular"):
            refuse_unless_regular(fd, "/somewhere/else")
    finally:
        os.close(fd)


def test_a_file_that_was_moved_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        refuse_if_moved(fd, f"{tmp_path}/f")
        (tmp_path / "f").rename(tmp_path / "g")
        with pytest.raises(FileMovedError, match=r"'.*/g'"):
            refuse_if_moved(fd, f"{tmp_path}/f")
    finally:
        os.close(fd)


def test_a_save_by_an_editor_in_between_is_no_trouble(tmp_path: Path) -> None:
    """The file is replaced right before the descriptor is checked: the second attempt reads the new one."""
    file = tmp_path / "f"
    file.write_text("old")
    path = resolve_path("f", str(tmp_path))

    def save() -> None:
        (tmp_path / "new").write_text("new")
        (tmp_path / "new").rename(file)

    seen: set[bytes] = set()
    with Steps() as plain:
        assert read_resolved_file(path, limit=10) == b"old"
    for at in range(plain.count):
        file.write_text("old")
        with Steps(at, save):
            seen.add(read_resolved_file(path, limit=10))
    assert seen == {b"old", b"new"}


def test_a_file_that_is_always_replaced_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    path, before = resolve_path("f", str(tmp_path)), open_descriptors()

    def save() -> None:
        (tmp_path / "new").write_text("new")
        (tmp_path / "new").rename(tmp_path / "f")

    with Steps("readlink", save), pytest.raises(FileMovedError, match="deleted"):
        open_read(path)
    assert open_descriptors() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave /proc behind")
def test_without_proc_the_walk_alone_must_do(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    script = (
        "import os, sys; from mainspring.processes.safe_open import open_read\n"
        "from mainspring.processes.paths import Resolved\n"
        "os.chroot(sys.argv[1])\n"
        "os.close(open_read(Resolved('f', '/f', (), 'file'))); print('opened')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("opened\n", 0), done.stderr


def test_folders_are_made_where_they_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_folder(f"{tmp_path}/a/b")
    os.close(open_folder(f"{tmp_path}/a/b", make=True))
    os.close(open_folder(f"{tmp_path}/a/b", make=True))
    assert (tmp_path / "a/b").is_dir()


def test_a_folder_made_by_somebody_else_in_between_will_do(tmp_path: Path) -> None:
    for at in range(100):
        name = f"n{at}"
        with Steps(at, partial(os.makedirs, tmp_path / name, exist_ok=True)) as steps:
            fd = open_folder(f"{tmp_path}/{name}", make=True)
        os.close(fd)
        if at >= steps.count:
            return
    raise AssertionError("it never ended")
