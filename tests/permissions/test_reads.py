"""What is known of what a command reads: single programs, folders on the disk, git, limits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mainspring.permissions import files as files_module
from mainspring.permissions.files import FileRules
from mainspring.permissions.policy import PermissionPolicy
from mainspring.permissions.rules import parse_rules
from mainspring.permissions.shell import reads as reads_module
from mainspring.permissions.shell.programs import GIT_COMMANDS
from mainspring.permissions.shell.readonly import TABLE
from mainspring.permissions.shell.runners import RUNNERS
from mainspring.processes import disk as disk_module
from mainspring.processes.disk import Disk, DiskEntry, TooManyError
from mainspring.processes.paths import resolve_path
from permissions.deciding import bash

DENY = ("Read(.env)", "Read(./certs/*.key)")


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


KNOWN = lines(
    """
tar xf x.tar
tar -xf x.tar
tar --extract --file=x.tar
tar --extract --file x.tar
tar -tfx.tar
tar
tar czf out.tgz src
tar cfz out.tgz src
tar czfC out.tgz src lib
tar -C src -cf out.tar lib
tar --directory=src -cf out.tar lib
zcat x.gz
gzip -c x
unzip -l x.zip
sort -o out x
base64 -w0 x
less -N x
cp a b
cp -t b a
mv a b
mv *.txt b
ln -s a b
install -m 644 a b
rsync -a src/ other/
zip -r out.zip src
curl -sS 'https://example.com/x?y=1'
curl -d a=1 -H 'X: a@b' https://example.com
wget -q -O out https://example.com
dd if=a of=b bs=1
man 5 crontab
docker ps -a
gh pr list
npm ls --depth=0
pip show x
awk '{print $1}' x
find . -name x -print
grep -d skip x src
grep -dread x src
grep -dskip x y
rg -n x src
git
git --version
git status
git mv a b
git add -u
git add src
git commit -m '- a' -qa
git log -n5 -S x
git log -3
git log --oneline -- src
git stash list
git show -s HEAD~2
git show HEAD:src/x
git show HEAD:./x
git cat-file -t HEAD
git cat-file -p HEAD:src/x
git grep -l x
git grep -c x
git grep --count x
git config --get user.name
git branch -D x
timeout 5 ls
command -v git
f() { ls; }; f
git diff --stat
git diff --name-only HEAD~1
cat .git/config
ls .git
cat .gitignore
git log -p -- x.py
git pull -q
git checkout x && git status
git checkout x && ls src
npm() { ls; }; npm test
"""
)
UNKNOWN = lines(
    """
npm test
tool
tar -T list -cf out.tar
tar cfT out.tar list
tar -I prog -cf out.tar src
tar -cf out.tar -C . x
tar --directory=. -cf out.tar x
tar -C. -cf out.tar x
cp --frob a b
mv .* b
mv */x b
mv -v . ../b
mv "$x" b
ln -s . b
find -files0-from x
sed 'r x' y
awk 'BEGIN { ARGV[1] = "x" }' y
dd if=a weird
man ./x
man "$x"
curl file:///etc/passwd
curl -K x
curl -d @x https://example.com
curl -sd@x https://example.com
curl --json=@x https://example.com
curl "$x"
curl https://{a,b}.example.com
wget -i x
wget file:///x
docker run x
docker ps --filter x
gh api x
npm ls --userconfig x
sudo --frob ls
xargs --frob ls
ack x
rg --pre cat x
grep *x y
rg -uu x
rg x
rg -tpem x
grep -drecurse x
rg --hidden x .
grep -f x y
grep -d recurse x
grep -ndrecurse x
diff . y
git archive HEAD
git bundle create x --all
git frob
git --git-dir=x log
git -C src log
git status -v
git status -sv
git status --frob
git log -p
git log -U1
git log --patch
git log --follow -p x.py
git log -p HEAD --
git log -p src
git log -p 'src/*.py'
git show
git show v1
git show --stat v1
git show :/text
git show HEAD -- src
git diff HEAD
git diff --cached
git diff a..b -- src
git diff HEAD -- src
git stash show -p
git stash
git blame missing.py
git cat-file -p abc
git cat-file abc
git grep x
git grep x HEAD
git grep --untracked x
git grep --untracked -e x -- .
git add -A
git add .
git add --patch
git mv . x
git commit -v
git commit -F x
git branch --format='%(raw)'
git log $x
cat .git/objects/x
tar cf - .git
cp -r .git x
tar xf x.tar; cat y
tar --extract -f x.tar && cat y
unzip x.zip && cat y
unzip x.zip && read z < y
npm test; npm() { ls; }
npm() { ls; }; unset npm; npm test
npm() { ls; }; command npm test
git show HEAD~1 HEAD:x.py
git checkout x && cat y
shuf x
"""
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "project"
    for name in ("src/x", "x.py", "a", "b.txt", "lib/y"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x\n")
    subprocess.run(["git", "init", "-q", "--template=", str(project)], check=True)
    return project


def decide(line: str, project: Path, deny: tuple[str, ...] = DENY) -> str:
    return bash(line, cwd=str(project), home=str(project.parent / "home"), allow=["Bash"], deny=deny)


def test_known_and_unknown(project: Path) -> None:
    (project / ".git/index").write_bytes(b"nonsense")  # what is tracked cannot be told
    assert [line for line in KNOWN if line != "git add -u" and decide(line, project) != "allow"] == []
    assert [line for line in UNKNOWN if decide(line, project) == "allow"] == []


def test_what_git_tracks_is_looked_up(project: Path) -> None:
    tracking = lines("git diff\ngit diff src\ngit diff -- x.py\ngit grep x\ngit grep x src\ngit add -u")
    assert [line for line in tracking if decide(line, project) != "allow"] == []  # nothing is
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    assert [line for line in tracking if decide(line, project) != "allow"] == []
    (project / "sub").mkdir()
    (project / "sub/.env").write_text("x")
    subprocess.run(["git", "add", "-A", "-f"], cwd=project, check=True)
    assert [line for line in tracking if decide(line, project) != "allow"] == [
        "git diff", "git diff src", "git grep x", "git grep x src", "git add -u"
    ]  # fmt: skip
    subprocess.run(["git", "add", "-N", "-f", "x.py"], cwd=project, check=True)
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=project, check=True)
    assert decide("git diff", project) == "ask"
    assert decide("git diff", project, ("Read(~/.ssh/**)",)) == "allow"  # no repository holds that
    assert decide("git log -p", project, ("Read(~/.ssh/**)",)) == "allow"
    assert decide("npm test", project, ("Read(~/.ssh/**)",)) == "ask"


def test_a_path_that_is_refused_is_no_file(project: Path) -> None:
    long = "x" * 5_000
    assert decide(f"git diff HEAD -- {long}", project) == "ask"
    assert decide(f"cat {long}", project) == "allow"


@pytest.mark.parametrize("line", ["cat /proc/self/cwd/x", "grep -r x /proc/1/root/y", "cat link/x", "cat /dev/fd/9/x"])
def test_what_the_kernel_alone_knows(line: str, project: Path) -> None:
    (project / "link").symlink_to("/proc/self/cwd")
    assert decide(line, project) == "ask"
    assert decide("cat /proc/meminfo", project) == "allow"
    assert decide("cat /dev/stdin", project) == "allow"


def test_what_we_have_open_ourselves_decides_nothing(project: Path) -> None:
    """A descriptor of ours that leads to a file: in the shell it may be a folder."""
    with (project / "some").open("w") as ours:
        (project / "ours").symlink_to(f"/proc/self/fd/{ours.fileno()}")
        assert decide(f"cat /dev/fd/{ours.fileno()}/x", project) == "ask"
        assert decide("cat ours/x", project) == "ask"
        assert decide("cat ours/x/y", project) == "ask"
    assert decide("cat some/x/y", project) == "allow"
    assert decide(f"cat {'a/' * 5_000}x", project) == "ask"  # too long for any system


def test_a_folder_is_searched_for_what_a_rule_is_about(project: Path) -> None:
    whole = lines("grep -r x src\ncp -r src y\ndiff -r src lib\ntar cf out.tar src\nmv src y\ngit add src\nmv s* y")
    assert [line for line in whole if decide(line, project) != "allow"] == []
    (project / "src/deep").mkdir()
    (project / "src/deep/.env").write_text("x")
    assert [line for line in whole if decide(line, project) == "allow"] == []
    assert decide("rg x src", project) == "allow"  # it passes such names over
    assert decide("rg -. x src", project) == "ask"
    assert decide("rg x src", project, ("Read(deep)",)) == "ask"
    assert decide("grep -r x src", project, ("Read(./.env)",)) == "allow"
    assert decide("grep -r x src/deep", project, ("Read(./src/*/.env)",)) == "ask"
    assert decide("grep -r x lib", project, ("Read(./src/*/.env)",)) == "allow"
    assert decide("grep -r x src/a/b", project, ("Read(./src/?/x)",)) == "allow"
    assert decide("git log -p src/deep", project, ("Read(./src/*/.env)",)) == "ask"
    assert decide("git log -p src", project, ("Read(./lib/.env)",)) == "allow"
    assert decide("grep -r x ~/y", project, ("Read(~/y/z)",)) == "ask"


def test_links_count_where_they_are_followed(project: Path) -> None:
    (project / "src/loop").symlink_to("loop")
    assert decide("grep -R x src", project) == "allow"
    (project / ".env").write_text("x")
    (project / "src/innocent").symlink_to("../.env")
    assert decide("grep -r x src", project) == "allow"
    assert decide("grep -R x src", project) == "ask"
    (project / "src/innocent").unlink()
    (project / "src/up").symlink_to("..")
    assert decide("cp -r src y", project) == "ask"
    (project / "src/up").unlink()
    (project / "src/lib").symlink_to("../lib")
    assert decide("cp -r src y", project, ("Read(./.env)",)) == "allow"


def test_no_program_is_without_an_answer() -> None:
    """Alone, and with one word that may be an option or its value."""
    programs = {*reads_module.ROWS, *reads_module.COPIERS, *TABLE, *RUNNERS, *_OTHERS}
    programs |= {f"git {name}" for name in GIT_COMMANDS}
    for program in sorted(programs):
        for word in (
            "",
            "-",
            "--",
            "-d",
            "-f",
            "-e",
            "-C",
            "-x",
            "--file=",
            "x",
            ".env",
            "x=y",
            "-xyz",
            "--frob",
            ":",
            "@",
        ):
            assert bash(f"{program} {word}", allow=["Bash"], deny=DENY) in ("allow", "ask", "deny")


_ONE_WORD = "- -- -d -f -e -C -x --file= x .env x=y -xyz --frob : @"
_OTHERS = "grep rg rgrep diff find tar sed awk dd man curl wget docker gh git git- git-log bash".split()  # noqa: SIM905


# --- limits ----------------------------------------------------------------------------------------------------------


class Small(Disk):
    """Nearly everything is too much for it."""

    def walk(self, folder: str, most: int = 2, skipped: str = "") -> Iterator[DiskEntry]:
        return super().walk(folder, 2, skipped)


def files(project: Path, *rules: str, disk: Disk | None = None) -> FileRules:
    policy = PermissionPolicy(parse_rules(deny=rules), folders=(str(project),), home="/nowhere")
    return FileRules(policy, str(project), partial(resolve_path, home="/nowhere"), disk or Disk())


def test_more_than_is_looked_at_counts_as_a_match(project: Path) -> None:
    for name in "abc":
        (project / "src" / name).write_text("x")
    for disk, wanted in ((Small(), True), (Disk(), False)):
        found = files(project, "Read(.env)", disk=disk)
        assert found.read_in_passing("src", str(project), hidden=True, follow=False) is wanted
        assert found.unreadable([str(project)]) == ((), not wanted)
    with pytest.raises(TooManyError):
        list(Small().walk(str(project)))


def test_what_a_sandbox_hides(project: Path) -> None:
    (project / "src/.env").mkdir()
    (project / "src/.env/x").write_text("x")
    found = files(project, "Read(.env)", "Read(./missing)", "Read(~/.ssh/**)", "Edit(src/**)")
    places = (str(project / "missing"), str(project / "src/.env"), "/nowhere/.ssh")
    assert found.unreadable([str(project)]) == (tuple(sorted(places)), True)
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "a.key").write_text("x")
    found = files(project, f"Read(/{outside}/*.key)")
    assert found.unreadable([str(project)]) == ((str(outside / "a.key"),), True)
    assert files_module.MOST_HIDDEN > disk_module.MOST_ENTRIES


def test_an_index_is_read_or_not_told(project: Path) -> None:
    disk = Disk()
    index = project / ".git/index"
    assert disk.tracked(str(project)) == []
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    assert disk.tracked(str(project)) == ["a", "b.txt", "lib/y", "src/x", "x.py"]
    subprocess.run(["git", "add", "-N", "."], cwd=project, check=True)
    (project / "new").write_text("x")
    subprocess.run(["git", "add", "-N", "new"], cwd=project, check=True)
    assert disk.tracked(str(project)) == ["a", "b.txt", "lib/y", "new", "src/x", "x.py"]
    index.write_bytes(index.read_bytes()[:90])
    assert disk.tracked(str(project)) is None
    index.unlink()
    index.mkdir()
    assert disk.tracked(str(project)) is None
    assert disk.tracked("/nowhere") is None
    assert disk.repository("/nowhere/x") is None
    assert disk.repository(str(project / "src")) == str(project)
    assert disk.list_folder("/nowhere") == []


def test_a_pattern_is_looked_up_for_links(project: Path) -> None:
    (project / "many").mkdir()
    for number in range(3):
        (project / "many" / f"f{number}").touch()
    assert decide("cat many/f*", project) == "allow"
    (project / "many" / "f3").symlink_to("../.env")
    assert decide("cat many/f*", project) == "ask"
    assert decide("cat many/f0*", project) == "allow"
    assert decide("cat man?/f3", project) == "ask"
    assert decide("cat man?/f0", project) == "allow"
    assert decide(f"cat {'x' * 5_000}/f*", project) == "allow"  # there is no such folder
    for number in range(4, 2_010):
        (project / "many" / f"f{number}").touch()
    assert decide("cat many/f[^3]*", project) == "ask"


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("git show v1 -- x.py", "ask"),
        ("git show HEAD~1 -- x.py", "allow"),
        ("git show HEAD~1 -- x.py '*'", "ask"),
        ("git log -p x.py ':/'", "ask"),
        ("git log -p -- x.py gone", "ask"),
        ("git diff v1..HEAD:x.py", "ask"),
        ("git grep x HEAD:src", "ask"),
        ("git grep x HEAD -- x.py", "allow"),
        ("git restore -s HEAD:src .", "ask"),
        ("cat /dev/fd/../cwd/.env", "ask"),
        ("strings @list", "ask"),
        ('cd "$X" && cat x.py', "ask"),
        ("pushd src; cat x; popd; cat x.py", "allow"),
    ],
)
def test_what_an_adversary_found(project: Path, line: str, decision: str) -> None:
    (project / ".env").touch()
    assert decide(line, project) == decision
