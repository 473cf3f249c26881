"""Where a path leads: the kernel is the reference (security F1, F2)."""

# ruff: noqa: PTH111, PTH114, PTH115, PTH116, PTH119  # pathlib tidies names up before the kernel sees them

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.errors import UsageError
from mainspring.processes.paths import MOST_LINKS, PathRefused, Resolved, is_inside_all, is_within, resolve_path

# Look-alikes, spaces, what a shell would expand, what a decoder would decode. All are names like any other.
NAMES = ("a", "b", "A", "\u0430", "e\u0301", "\u00e9", "x y", " ", "~", "$HOME", "%2e%2e", "*", "a\\b", "...", "n\nl")
names = st.sampled_from(NAMES)
steps = st.one_of(names, names, st.sampled_from((".", "..", "")))
spellings = st.tuples(st.sampled_from(("", "", "{base}/", "{base}//")), st.lists(steps, min_size=1, max_size=6)).map(
    lambda drawn: drawn[0] + "/".join(drawn[1])
)
entries = st.lists(
    st.tuples(
        st.lists(names, min_size=1, max_size=3), st.one_of(st.sampled_from(("file", "folder", "pipe")), spellings)
    ),
    max_size=8,
)


def build(base: Path, drawn: list[tuple[list[str], str]]) -> None:
    for parts, what in drawn:
        place = base.joinpath(*parts)
        if os.path.lexists(place):
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            match what:
                case "file":
                    place.write_text("")
                case "folder":
                    place.mkdir()
                case "pipe":
                    os.mkfifo(place)
                case target:
                    place.symlink_to(target.format(base=base) or ".")
        except OSError:
            continue  # something else stands in the way: the first one has it


def kind_of(found: os.stat_result) -> str:
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    return "file" if stat.S_ISREG(found.st_mode) else "special"


def same_as_the_kernel(asked: str, base: Path) -> None:
    spelled = f"{base}/{asked}" if not asked.startswith("/") else asked
    try:
        found = os.stat(spelled)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            with pytest.raises(PathRefused):
                resolve_path(asked, str(base))
            return
        if error.errno != errno.ENOENT:
            raise
        try:
            resolved = resolve_path(asked, str(base))
        except PathRefused:  # the kernel stops at the first thing that is wrong
            return
        # Behind a missing name `..` may lead back to something: then that is what would be opened, nothing else.
        assert resolved.kind == "missing" or ".." in spelled or any(".." in os.readlink(p) for p in links(base))
        no_links_left(resolved)
        return
    resolved = resolve_path(asked, str(base))
    there = os.lstat(resolved.real)
    assert (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
    assert resolved.kind == kind_of(found)
    no_links_left(resolved)
    assert all(os.path.lexists(name) for name in resolved.via)


def links(base: Path) -> list[str]:
    return [str(p) for p in base.rglob("*") if p.is_symlink()]


def no_links_left(resolved: Resolved) -> None:
    parts = resolved.real.split("/")
    assert resolved.real.startswith("/")
    assert not {"", ".", ".."} & set(parts[1:]) or resolved.real == "/"
    assert not any(os.path.islink("/".join(parts[:end])) for end in range(2, len(parts) + 1))


@given(entries, spellings)
@example([(["a"], "a")], "a")  # a loop
@example([(["a"], "b"), (["b"], "a")], "a/a")
@example([(["a"], "folder"), (["b"], "a/..")], "b/b/a/")
@example([(["a"], "file")], "a/")
@example([(["a"], "file")], "a/.")
@example([(["a"], "file")], "a/../a")
@example([(["a", "b"], "file"), (["x y"], "{base}/a")], "x y//b")
def test_a_path_leads_where_the_kernel_says(drawn: list[tuple[list[str], str]], asked: str) -> None:
    base = Path(os.path.realpath(tempfile.mkdtemp()))
    try:
        build(base, drawn)
        same_as_the_kernel(asked.format(base=base) or ".", base)
    finally:
        shutil.rmtree(base)


@given(st.text(max_size=300), st.sampled_from(("/", "/tmp", "/no/such/folder")))
def test_any_text_is_resolved_or_refused(asked: str, cwd: str) -> None:
    try:
        resolved = resolve_path(asked, cwd)
    except PathRefused:
        return
    no_links_left(resolved)
    if "." not in asked.split("/") and ".." not in asked.split("/") and "/" not in asked:
        assert os.path.basename(resolved.real) == asked  # taken as it stands


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("\ud800", "half a character"),
        ("a/" * 2_049, "bytes"),
        ("n" * 256, "cannot be looked up"),
    ],
)
def test_no_file_name(asked: str, why: str) -> None:
    with pytest.raises(PathRefused, match=why):
        resolve_path(asked, "/")


def test_the_longest_path_is_taken() -> None:
    assert resolve_path("a/" * 2_048, "/nowhere").kind == "missing"


def test_bytes_that_are_no_utf8_are_a_name(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xfe")
    (tmp_path / name).write_text("")
    assert resolve_path(name, str(tmp_path)) == Resolved(name, f"{tmp_path}/{name}", (), "file")


def test_every_name_on_the_way_is_kept(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/f").write_text("")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "deep")
    (tmp_path / "deep/g").symlink_to("f")
    base = str(tmp_path)
    assert resolve_path("one/g", base) == Resolved(
        "one/g", f"{base}/deep/f", (f"{base}/one/g", f"{base}/two/g", f"{base}/deep/g"), "file"
    )
    # Behind a link `..` is the parent of where it leads; the name before it says nothing about the file.
    assert resolve_path("one/../deep/f", base).via == (f"{base}/one", f"{base}/two")
    assert resolve_path("one/../deep/f", base).names[-1] == f"{base}/deep/f"


def test_only_a_leading_tilde_and_slash_is_the_home() -> None:
    assert resolve_path("~/x", "/w", home="/home/me").real == "/home/me/x"
    assert resolve_path("~", "/w", home="/home/me").real == "/w/~"
    assert resolve_path("~root/x", "/w", home="/home/me").real == "/w/~root/x"
    assert resolve_path("a/~/x", "/w", home="/home/me").real == "/w/a/~/x"
    assert resolve_path("$HOME/x", "/w").real == "/w/$HOME/x"
    assert resolve_path("%2e%2e/x", "/w").real == "/w/%2e%2e/x"
    assert resolve_path("~/x", "/").real == os.path.realpath(os.path.expanduser("~/x"))
    with pytest.raises(PathRefused, match="home"):
        resolve_path("~/x", "/w", home="")


def test_the_working_folder_is_absolute() -> None:
    with pytest.raises(UsageError, match="absolute"):
        resolve_path("x", "w")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    (tmp_path / "stdin").symlink_to("/proc/self/fd/0")
    for asked in ("pipe", "socket", "stdin", "/dev/null", "/dev/stdin", "/proc/self/environ", "/proc", "/sys/kernel"):
        assert resolve_path(asked, str(tmp_path)).kind == "special", asked
    # Through /proc to a file outside of it: still refused, and a rule about that file sees its name.
    assert resolve_path("/proc/self/root/etc/passwd", "/") == Resolved(
        "/proc/self/root/etc/passwd",
        "/etc/passwd",
        resolve_path("/proc/self/root/etc/passwd", "/").via,
        "special",
    )


def test_links_that_never_end(tmp_path: Path) -> None:
    for number in range(MOST_LINKS + 1):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}")
    (tmp_path / f"l{MOST_LINKS + 1}").write_text("")
    assert resolve_path("l1", str(tmp_path)).kind == "file"
    with pytest.raises(PathRefused, match="links"):
        resolve_path("l0", str(tmp_path))


def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # root may enter everything: drop to nobody in a child
        child = os.fork()
        if child == 0:
            os.setuid(65_534)
            try:
                resolve_path("/root/x/y", "/")
            except PathRefused as error:
                os._exit(0 if "Permission denied" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    else:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0)
        with pytest.raises(PathRefused, match="Permission denied"):
            resolve_path(str(closed / "x/y"), "/")
        closed.chmod(0o700)  # so that pytest can remove it


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/w", "/w", True),
        ("/w/a", "/w", True),
        ("/w/a", "/w/", True),
        ("/w2", "/w", False),
        ("/w-evil/a", "/w", False),
        ("/w/../x", "/w", False),
        ("/W/a", "/w", False),
        ("/\uff57/a", "/w", False),
        ("/", "/w", False),
        ("/anything", "/", True),
    ],
)
def test_containment_is_by_components(path: str, folder: str, expected: bool) -> None:
    assert is_within(path, folder) is expected


@given(st.lists(names, max_size=5), st.lists(names, max_size=5))
def test_containment_is_a_prefix_of_components(path: list[str], folder: list[str]) -> None:
    assert is_within("/" + "/".join(path), "/" + "/".join(folder)) == (path[: len(folder)] == folder)


def test_every_name_must_be_inside(tmp_path: Path) -> None:
    for folder in ("ws", "out"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text("")
    (tmp_path / "ws/leads-out").symlink_to("../out/f")
    (tmp_path / "out/leads-in").symlink_to("../ws/f")
    (tmp_path / "also-ws").symlink_to("ws")
    workspace = resolve_path("ws", str(tmp_path))
    other_name = resolve_path("also-ws", str(tmp_path))

    def judge(asked: str, folder: Resolved) -> bool:
        return is_inside_all(resolve_path(asked, str(tmp_path)), [folder])

    assert judge("ws/f", workspace)
    assert judge("ws/new/file", workspace)
    assert judge("ws", workspace)
    assert not judge("ws/leads-out", workspace)
    assert not judge("out/leads-in", workspace)
    assert not judge("ws/../out/f", workspace)
    assert judge("also-ws/f", other_name)
    assert judge("ws/f", other_name)
    assert not judge("also-ws/f", workspace)  # a name that nobody has agreed to
    assert not is_inside_all(workspace, [])
