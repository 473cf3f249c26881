"""Writing whole or not at all, over what was read and nothing else (security F4)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.processes import atomic_write
from mainspring.processes.atomic_write import MOST_REMEMBERED, FileChanged, ReadSet, digest, write_atomically
from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.processes.safe_open import FileMovedError, read_resolved_file
from processes.steps import Steps, left_over, names_in, open_descriptors


@pytest.fixture(params=["nameless", "named"])
def manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With files that have no name yet, and without, as on NFS and macOS."""
    if request.param == "named":
        monkeypatch.setattr(atomic_write, "_NAMELESS", 0)
    return str(request.param)


def put(folder: Path, name: str, data: bytes) -> None:
    """As a tool does it: over whatever is there."""
    path = resolve_path(name, str(folder))
    before = digest(read_resolved_file(path, limit=1 << 30)) if path.kind == "file" else None
    write_atomically(path, data, before=before)


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_new_and_replaced(tmp_path: Path, manner: str) -> None:
    before = open_descriptors()
    data = b"\xef\xbb\xbfone\r\ntwo\r\n\xff no newline"
    for content in (b"first", data, b""):
        put(tmp_path, "a/b/f", content)
        assert (tmp_path / "a/b/f").read_bytes() == content
        path = resolve_path("a/b/f", str(tmp_path))
        assert write_atomically(path, content, before=digest(content)) == digest(content)
    assert names_in(tmp_path / "a/b") == ["f"]
    assert open_descriptors() == before


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_every_byte_that_is_written_is_read(contents: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for content in contents:
            put(Path(folder), "f", content)
            assert read_resolved_file(resolve_path("f", folder), limit=100) == content
        assert len(names_in(folder)) == bool(contents)


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, manner: str) -> None:
    path = resolve_path("f", str(tmp_path))
    with Steps() as new:
        write_atomically(path, b"1", before=None)
    with Steps() as replaced:
        write_atomically(path, b"2", before=digest(b"1"))
    for names, last in ((new.names, "link"), (replaced.names, "rename")):
        assert names.index("write") < names.index("fsync") < names.index(last)


def test_the_mode_is_kept_and_a_new_file_obeys_the_umask(tmp_path: Path, manner: str) -> None:
    file = tmp_path / "f"
    put(tmp_path, "f", b"1")
    umask = os.umask(0)
    os.umask(umask)
    assert mode_of(file) == 0o666 & ~umask
    for mode in (0o755, 0o600, 0o444, 0o1644):
        file.chmod(mode)
        put(tmp_path, "f", str(mode).encode())
        assert mode_of(file) == mode
    file.chmod(0o4755)
    put(tmp_path, "f", b"set-uid")
    assert mode_of(file) == 0o755
    write_atomically(resolve_path("g", str(tmp_path)), b"", before=None, mode=0o600)
    assert mode_of(tmp_path / "g") == 0o600
    write_atomically(resolve_path("f", str(tmp_path)), b"", before=digest(b"set-uid"), mode=0o600)
    assert mode_of(file) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept_and_nobody_gains(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    file = tmp_path / "f"
    file.write_bytes(b"1")
    os.chown(file, 1_234, 1_235)
    file.chmod(0o660)
    put(tmp_path, "f", b"2")
    assert (file.stat().st_uid, file.stat().st_gid, mode_of(file)) == (1_234, 1_235, 0o660)
    # A member of another group may write it through the folder. The file was closed to that group, and stays so.
    script = (
        "import os, sys; from mainspring.processes import atomic_write as atomic, paths\n"
        "before = atomic.digest(b'2')\n"  # and it is all loaded, wherever Python is
        "os.setgroups([]); os.setgid(1236); os.setuid(1234)\n"
        "atomic.write_atomically(paths.Resolved('f', sys.argv[1], (), 'file'), b'3', before=before)"
    )
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o005)
    subprocess.run([sys.executable, "-c", script, file], check=True, timeout=60)
    assert (file.read_bytes(), file.stat().st_gid, mode_of(file)) == (b"3", 1_236, 0o600)


def test_a_link_stays_a_link_and_other_names_keep_the_old_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "l").symlink_to("f")
    (tmp_path / "hard").hardlink_to(tmp_path / "f")
    put(tmp_path, "l", b"new")
    assert (tmp_path / "l").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"new"
    assert (tmp_path / "hard").read_bytes() == b"old"
    (tmp_path / "dangling").symlink_to("made/here")
    put(tmp_path, "dangling", b"x")
    assert (tmp_path / "made/here").read_bytes() == b"x"


def test_what_was_not_read_is_not_written(tmp_path: Path, manner: str) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"mine")
    path = resolve_path("f", str(tmp_path))
    for before, why in ((None, "already exists"), (digest(b"other"), "changed since")):
        with pytest.raises(FileChanged, match=why):
            write_atomically(path, b"new", before=before)
    assert file.read_bytes() == b"mine"
    file.unlink()
    with pytest.raises(FileChanged, match="was removed"):
        write_atomically(path, b"new", before=digest(b"mine"))
    assert names_in(tmp_path) == []


def test_a_change_at_any_system_call_is_noticed_or_came_too_late(tmp_path: Path, manner: str) -> None:
    """Somebody else's save before the last call fails ours. After it, theirs comes later, and wins."""
    file = tmp_path / "f"
    outcomes: list[str] = []
    for at in range(1_000):
        file.write_bytes(b"read")
        path, before = resolve_path("f", str(tmp_path)), digest(b"read")
        changed = Steps(at, lambda: file.write_bytes(b"theirs"))
        with changed:
            try:
                write_atomically(path, b"ours", before=before)
            except FileChanged:
                outcomes.append("refused")
                assert file.read_bytes() == b"theirs"
            else:
                outcomes.append(file.read_text())
        assert names_in(tmp_path) == ["f"]
        if at >= changed.count:
            break
    last_refused = len(outcomes) - 1 - outcomes[::-1].index("refused")
    assert set(outcomes[: last_refused + 1]) == {"refused"}
    # One call is left in which a change is lost: the rename itself. Nothing in the kernel closes it.
    assert outcomes[last_refused + 1 :].count("ours") == 2  # that one, and the round in which nobody changed anything


def test_a_file_that_appears_meanwhile_is_not_written_over(tmp_path: Path, manner: str) -> None:
    file = tmp_path / "f"
    seen: set[bytes] = set()
    for at in range(1_000):
        file.unlink(missing_ok=True)
        path = resolve_path("f", str(tmp_path))

        def appear() -> None:
            if not file.exists():
                file.write_bytes(b"theirs")

        with Steps(at, appear) as steps:
            try:
                write_atomically(path, b"ours", before=None)
            except FileChanged:
                assert file.read_bytes() == b"theirs"
        seen.add(file.read_bytes())
        assert names_in(tmp_path) == ["f"]
        if at >= steps.count:
            break
    assert seen == {b"ours", b"theirs"}


def test_a_folder_that_is_moved_away_gets_nothing(tmp_path: Path, manner: str) -> None:
    for name, before in (("f", digest(b"old")), ("new", None)):
        (tmp_path / "a").mkdir()
        (tmp_path / "a/f").write_bytes(b"old")
        path, away = resolve_path(f"a/{name}", str(tmp_path)), tmp_path / f"away-{name}"
        with Steps("fsync", partial(os.rename, tmp_path / "a", away)), pytest.raises(FileMovedError):
            write_atomically(path, b"new", before=before)
        assert names_in(away) == ["f"]
        assert (away / "f").read_bytes() == b"old"


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for asked in ("folder", "folder/", "new/", "pipe", "/dev/null", "/proc/self/comm", "/proc/x"):
        with Steps() as steps, pytest.raises(PathRefused):
            write_atomically(resolve_path(asked, str(tmp_path)), b"", before=None)
        assert steps.count > 0  # of `resolve_path`
    for name in ("folder", "pipe"):  # and when they came later
        with pytest.raises(PathRefused):
            write_atomically(Resolved(name, f"{tmp_path}/{name}", (), "file"), b"", before=None)
    assert names_in(tmp_path) == ["folder", "pipe"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, manner: str) -> None:
    import resource
    import signal

    file = tmp_path / "f"
    file.write_bytes(b"old")
    path = resolve_path("f", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_atomically(path, b"x" * 5_000, before=digest(b"old"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert file.read_bytes() == b"old"
    assert names_in(tmp_path) == ["f"]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("target", ["f", "new", "made/new"])
def test_kill_at_every_system_call(tmp_path: Path, target: str, named: bool) -> None:
    """The file is the old one or the new one, and what is left beside it is what the head of `atomic_write.py` says."""
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, target, str(int(named))],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[1])},
    )
    rounds = json.loads(done.stdout)
    assert len(rounds) > 15
    assert rounds[-1] == {"killed": False, "content": "new", "left": 0}
    assert all(one["killed"] for one in rounds[:-1])
    old = "old" if target == "f" else None
    contents = [one["content"] for one in rounds]
    switch = contents.index("new")
    assert contents == [old] * switch + ["new"] * (len(rounds) - switch)
    left = [number for number, one in enumerate(rounds) if one["left"]]
    if named:
        assert left == list(range(left[0], left[-1] + 1))
        assert left[-1] <= switch + 2
    else:
        # Only while it has a name and is not yet in place: the check that it may be moved, and the move.
        assert left == ([switch - 2, switch - 1] if target == "f" else [])


def test_the_read_set_forgets_the_oldest(tmp_path: Path) -> None:
    seen = ReadSet()
    path = resolve_path("f", str(tmp_path))
    assert seen.of(path) is None
    seen.remember(path, b"one")
    assert seen.of(path) == digest(b"one")
    seen.keep(path, digest(b"two"))
    assert seen.of(path) == digest(b"two")
    for number in range(MOST_REMEMBERED - 1):
        seen.remember(Resolved("", f"/{number}"), b"")
    assert seen.of(path) is not None
    seen.remember(Resolved("", "/one-more"), b"")
    assert seen.of(path) is None
    assert left_over(tmp_path) == []
