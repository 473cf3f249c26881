"""Changes to a settings file: everything else stays, whole or not at all, and where they may go."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes.steps import Steps, left_over, names_in, open_descriptors, snapshot
from tiers import long

from mainspring.processes.paths import PathRefused
from mainspring.settings import edit
from mainspring.settings.edit import Change, ListChange, ModeChange, write_change
from mainspring.settings.load import SettingsPaths
from mainspring.settings.values import SettingsSource, SettingsWriteError
from settings.kills import OLD
from settings.stage import Stage, texts

SOURCES = {SettingsSource.USER: "user", SettingsSource.PROJECT: "project", SettingsSource.LOCAL: "local"}
RULE = ListChange("allow", ("Bash(ls)",))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def put(stage: Stage, source: SettingsSource, change: Change = RULE) -> list[str]:
    return [*write_change(SettingsPaths(str(stage.home), str(stage.project)), source, change).files]


def tree(file: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_has_its_file(stage: Stage, source: SettingsSource) -> None:
    """And the next start reads there what was written."""
    stage.trust()
    file = stage.place(SOURCES[source])
    assert put(stage, source) == [str(file)]
    put(stage, source, ListChange("deny", ("Bash(rm:*)",)))
    put(stage, source, ListChange("ask", ("Bash(cp:*)",)))
    put(stage, source, ListChange("additionalDirectories", ("../far",)))
    put(stage, source, ModeChange("plan"))
    expected = {"allow": ["Bash(ls)"], "deny": ["Bash(rm:*)"], "ask": ["Bash(cp:*)"]}
    expected_tree = {"permissions": {**expected, "additionalDirectories": ["../far"], "defaultMode": "plan"}}
    assert file.read_text() == json.dumps(expected_tree, indent=2) + "\n"
    held = stage.load()
    assert held.problems == ()
    assert [texts(entries) for entries in (held.permissions.allow, held.permissions.deny, held.permissions.ask)] == [
        ["Bash(ls)"],
        ["Bash(rm:*)"],
        ["Bash(cp:*)"],
    ]
    assert held.permissions.allow[0].origin.source is source
    assert (texts(held.permissions.directories), held.permissions.default_mode) == (["../far"], "plan")
    assert left_over(stage.base) == []


def test_replaced_and_removed(stage: Stage) -> None:
    kept = {"model": "m", "permissions": {"allow": ["a", "b", 7], "deny": ["c"], "x": 1}, "hooks": {}}
    file = stage.say("local", kept)
    put(stage, SettingsSource.LOCAL, ListChange("allow", removed=("a", "nothing")))
    assert tree(file) == {**kept, "permissions": {"allow": ["b", 7], "deny": ["c"], "x": 1}}
    put(stage, SettingsSource.LOCAL, ListChange("allow", ("d", "e"), alone=True))
    assert tree(file)["permissions"] == {"allow": [7, "d", "e"], "deny": ["c"], "x": 1}
    before = (file.read_bytes(), file.stat().st_ino)
    for nothing in (
        ListChange("allow", ("d",)),
        ListChange("ask", removed=("z",)),
        ListChange("allow", ("e", "d"), alone=True),
    ):
        assert put(stage, SettingsSource.LOCAL, nothing) == []
    assert (file.read_bytes(), file.stat().st_ino) == before
    assert put(stage, SettingsSource.PROJECT, ListChange("allow", removed=("d",))) == []
    assert not stage.place("project").exists()


def test_ours_where_it_is_there_and_removed_from_all(stage: Stage) -> None:
    """The file that wins is the one that is added to. What goes, goes from each."""
    ours = stage.say("our local", {"permissions": {"allow": ["a"], "default_mode": "default"}})
    theirs = stage.say("local", {"permissions": {"allow": ["a", "b"]}})
    assert put(stage, SettingsSource.LOCAL) == [str(ours)]
    assert put(stage, SettingsSource.LOCAL, ModeChange("plan")) == [str(ours)]  # as it is spelled there
    assert tree(ours) == {"permissions": {"allow": ["a", "Bash(ls)"], "default_mode": "plan"}}
    assert put(stage, SettingsSource.LOCAL, ListChange("allow", removed=("a",))) == [str(theirs), str(ours)]
    assert tree(theirs) == {"permissions": {"allow": ["b"]}}
    assert put(stage, SettingsSource.LOCAL, ListChange("allow", ("c",), alone=True)) == [str(theirs), str(ours)]
    assert (tree(theirs)["permissions"], tree(ours)["permissions"]) == (
        {"allow": []},
        {"allow": ["c"], "default_mode": "plan"},
    )


def test_mode_link_and_mark_are_kept(stage: Stage) -> None:
    dots = stage.base / "dotfiles/settings.json"
    dots.parent.mkdir()
    dots.write_bytes(b"\xef\xbb\xbf{}")
    dots.chmod(0o640)
    link = stage.place("user")
    link.symlink_to("../../dotfiles/settings.json")
    assert put(stage, SettingsSource.USER) == [str(link)]
    assert link.is_symlink()
    assert stat.S_IMODE(dots.stat().st_mode) == 0o640
    assert dots.read_bytes().startswith(b"\xef\xbb\xbf{")
    assert texts(stage.load().permissions.allow) == ["Bash(ls)"]


def test_a_new_file_of_the_user_is_the_users_alone(stage: Stage) -> None:
    stage.home.rmdir()
    umask = os.umask(0)
    try:
        put(stage, SettingsSource.USER)
        put(stage, SettingsSource.PROJECT)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(stage.home.stat().st_mode) == 0o700
    assert stat.S_IMODE(stage.place("user").stat().st_mode) == 0o600
    assert stat.S_IMODE(stage.place("project").stat().st_mode) == 0o666


# --- where it may go --------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [".claude", ".claude/settings.local.json"])
def test_no_link_out_of_a_folder_that_is_not_trusted(stage: Stage, link: str) -> None:
    out = stage.base / "out"
    out.mkdir()
    (out / "settings.local.json").write_text("{}")
    place = stage.project / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(out if link == ".claude" else out / "settings.local.json")
    before = snapshot(stage.base)
    with pytest.raises(SettingsWriteError, match=r"leads out of this folder.*'mainspring trust' allows that"):
        put(stage, SettingsSource.LOCAL)
    assert snapshot(stage.base) == before
    stage.trust()
    put(stage, SettingsSource.LOCAL)
    assert tree(out / "settings.local.json") == {"permissions": {"allow": ["Bash(ls)"]}}
    assert place.is_symlink()


def test_a_link_within_the_folder_is_followed(stage: Stage) -> None:
    (stage.project / "kept").mkdir()
    (stage.project / ".claude").symlink_to("kept")
    put(stage, SettingsSource.LOCAL)
    assert tree(stage.project / "kept/settings.local.json") == {"permissions": {"allow": ["Bash(ls)"]}}


def test_what_is_for_one_project_never_goes_into_the_users_own_file(stage: Stage) -> None:
    """Not by a link, trusted or not, and not because the working folder is the user's home."""
    stage.trust()
    own = stage.say("user", {})
    place = stage.place("local")
    place.parent.mkdir()
    place.symlink_to(own)
    with pytest.raises(SettingsWriteError, match="is in the user's own folder"):
        put(stage, SettingsSource.LOCAL)
    home = stage.base / "home/.claude"
    with pytest.raises(SettingsWriteError, match="is in the user's own folder"):
        write_change(SettingsPaths(str(home), str(stage.base / "home")), SettingsSource.PROJECT, RULE)
    assert own.read_text() == "{}"
    assert not home.exists()


def test_swapped_meanwhile(stage: Stage) -> None:
    """Between any two system calls the folder becomes a link out: nothing out there is touched."""
    out = stage.base / "out"
    out.mkdir()
    (out / "settings.local.json").write_text("{}")
    folder, aside = stage.project / ".claude", stage.project / "aside"

    def swap() -> None:
        folder.rename(aside)
        folder.symlink_to(out)

    stage.say("local", {})
    with Steps() as steps:
        put(stage, SettingsSource.LOCAL)
    assert steps.count > 30
    refused = 0
    for at in range(steps.count):
        stage.say("local", {})
        try:
            with Steps(at, swap):
                put(stage, SettingsSource.LOCAL)
        except (SettingsWriteError, PathRefused, OSError):
            refused += 1
        assert names_in(out) == ["settings.local.json"]
        assert (out / "settings.local.json").read_text() == "{}", at
        folder.unlink()
        aside.rename(folder)
    assert refused > 10


@pytest.mark.parametrize("source", [SettingsSource.PROJECT, SettingsSource.LOCAL])
def test_modes_that_only_the_user_may_choose(stage: Stage, source: SettingsSource) -> None:
    for mode in ("auto", "bypassPermissions"):
        with pytest.raises(SettingsWriteError, match=f"a project may not choose the mode '{mode}'"):
            put(stage, source, ModeChange(mode))
    assert snapshot(stage.project) == {}


def test_no_home(stage: Stage) -> None:
    with pytest.raises(SettingsWriteError, match="set MAINSPRING_HOME"):
        write_change(SettingsPaths(None, str(stage.project)), SettingsSource.USER, RULE)
    write_change(SettingsPaths(None, str(stage.project)), SettingsSource.LOCAL, RULE)
    assert stage.place("local").exists()


# --- what cannot be written -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"permissions": {"allow": ["a",]}}', r":1:32: there is an extra ','"),
        (b'{\n  "permissions": 1}', r":2:3: 'permissions': it must be a table"),
        (b'{"permissions": {"allow": "a", \n "allow": []}}', r":2:2: the key 'allow' is a duplicate"),
        (b"", r":1:1: a value is missing"),
        (b'{"a": "\xff"}', r":1:8: it is not valid UTF-8"),
        (b"// mine\n{}", r":1:1: a value is missing"),
    ],
)
def test_a_broken_file_is_not_written_over(stage: Stage, content: bytes, says: str) -> None:
    file = stage.say("local", content)
    with pytest.raises(SettingsWriteError, match=f"settings.local.json{says}.*The file was not changed: fix it first"):
        put(stage, SettingsSource.LOCAL)
    assert file.read_bytes() == content


def test_what_could_not_be_read_again_is_not_written(stage: Stage) -> None:
    file = stage.say("local", {"permissions": {"allow": ["x" * 16_000] * 16}})
    before = file.read_bytes()
    with pytest.raises(SettingsWriteError, match="more than 262,144 bytes"):
        put(stage, SettingsSource.LOCAL, ListChange("allow", ("y" * 10_000,)))
    for odd in ("a\0b", "x" * 20_000, "\ud800"):
        with pytest.raises(SettingsWriteError, match="cannot be written"):
            put(stage, SettingsSource.LOCAL, ListChange("allow", (odd,)))
    assert file.read_bytes() == before


def test_what_is_no_file(stage: Stage) -> None:
    stage.place("local").mkdir(parents=True)
    with pytest.raises((PathRefused, OSError)):
        put(stage, SettingsSource.LOCAL)
    stage.place("local").rmdir()
    os.mkfifo(stage.place("local"))
    with pytest.raises(PathRefused, match="no regular file"):
        put(stage, SettingsSource.LOCAL)


# --- at the same time -------------------------------------------------------------------------------


def test_many_processes_lose_nothing(stage: Stage) -> None:
    """Four processes with eight rules each."""
    file = stage.say("local", {"permissions": {"allow": []}, "n": 0})
    script = (
        "import sys; from mainspring.settings.edit import *\n"
        "places, who = SettingsPaths(sys.argv[1], sys.argv[2]), sys.argv[3]\n"
        "for n in range(8): write_change(places, SettingsSource.LOCAL, ListChange('allow', (f'{who}-{n}',)))"
    )
    words = [sys.executable, "-c", script, str(stage.home), str(stage.project)]
    running = [subprocess.Popen([*words, str(who)]) for who in range(4)]
    assert [one.wait(60) for one in running] == [0] * 4
    allowed = tree(file)["permissions"]
    assert isinstance(allowed, dict)
    assert sorted(allowed["allow"]) == sorted(f"{who}-{n}" for who in range(4) for n in range(8))
    assert names_in(file.parent) == ["settings.local.json"]


def test_threads_lose_nothing(stage: Stage) -> None:
    before, failed = open_descriptors(), list[BaseException]()

    def one(number: int) -> None:
        try:
            put(stage, SettingsSource.PROJECT, ListChange("allow", (f"{number}",)))
        except BaseException as error:  # noqa: BLE001  # told to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(texts_of(stage.place("project"))) == [str(number) for number in range(8)]
    assert open_descriptors() == before


def texts_of(file: Path) -> list[str]:
    found: list[str] = json.loads(file.read_text())["permissions"]["allow"]
    return found


def test_somebody_who_knows_no_lock(stage: Stage) -> None:
    """An editor saves between any two system calls, up to our last look: its words and ours are both there."""
    file = stage.say("local", "{}")
    with Steps() as steps:
        put(stage, SettingsSource.LOCAL)

    def save() -> None:
        new = file.with_name("editor")
        new.write_text(json.dumps({"permissions": {"deny": ["d"]}, "mine": True}))
        new.rename(file)

    last_look = steps.names.index("rename")  # after it nothing can tell (decision 13)
    assert last_look > 30
    for at in range(last_look):
        stage.say("local", {})
        with Steps(at, save):
            put(stage, SettingsSource.LOCAL)
        assert tree(file) == {"permissions": {"deny": ["d"], "allow": ["Bash(ls)"]}, "mine": True}, at


def test_the_folder_is_one_that_a_sandbox_holds(stage: Stage) -> None:
    """While a command runs, an empty folder with the odd bit stands there; it goes between any two system calls."""
    folder = stage.project / ".claude"

    def held() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        folder.chmod(0o1755)

    def let_go() -> None:
        with contextlib.suppress(OSError):
            folder.rmdir()

    held()
    with Steps() as steps:
        put(stage, SettingsSource.LOCAL)
    assert steps.count > 30
    for at in range(steps.count):
        held()
        with Steps(at, let_go):
            assert put(stage, SettingsSource.LOCAL) == [str(stage.place("local"))]
        assert tree(stage.place("local")) == {"permissions": {"allow": ["Bash(ls)"]}}, at


def test_a_lock_that_is_never_let_go(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "PATIENCE", 0.05)
    file = stage.say("local", "{}")
    fd = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(SettingsWriteError, match=r"another process holds the lock on '.*/\.claude'"):
            put(stage, SettingsSource.LOCAL)
    finally:
        os.close(fd)
    assert put(stage, SettingsSource.LOCAL) == [str(file)]


# --- killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", ["old", "new"])
@pytest.mark.parametrize("source", ["user", long("local")])
def test_killed_at_any_system_call(tmp_path: Path, source: str, old: str) -> None:
    """The file is the old one or the new one, with its mode; so is git's list."""
    done = subprocess.run(
        [sys.executable, "-m", "settings.kills", str(tmp_path / "stage"), source, old],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        timeout=110,
        check=True,
    )
    rounds = json.loads(done.stdout)
    assert rounds[-1]["code"] == 0
    assert [one["killed"] for one in rounds] == [True] * (len(rounds) - 1) + [False]
    assert len(rounds) > 40
    before = OLD.decode() if old == "old" else None
    after = rounds[-1]["content"]
    assert "Bash(ls)" in after
    contents = [one["content"] for one in rounds]
    assert contents == [before] * contents.count(before) + [after] * contents.count(after)
    for one in rounds:
        assert one["left"] <= 1
        assert one["exclude"] in ("# mine", "# mine\n**/.claude/settings.local.json\n")
        assert one["mode"] == (None if one["content"] is None else rounds[-1]["mode"])
    umask = os.umask(0)
    os.umask(umask)
    new = 0o600 if source == "user" else 0o666 & ~umask
    assert rounds[-1]["mode"] == (0o640 if old == "old" else new)
    assert rounds[-1]["exclude"].count("settings.local") == (source == "local")
