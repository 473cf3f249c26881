"""Rules about files, on real folders with real links (security F1, F2, F3, F5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.permissions.decide import decide
from mainspring.permissions.patterns import matches_under, parse_path_pattern, split_components
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRules, RuleSource, parse_rules
from mainspring.processes.paths import Resolved, resolve_path
from permissions.deciding import CWD, HOME, bash, call


def read(path: str, **given: Any) -> str:
    return call("Read", {"file_path": path}, **given).decision


def edit(path: str, tool: str = "Edit", **given: Any) -> str:
    return call(tool, {"file_path": path}, **given).decision


PATTERNS = [
    # rule, path, as an allow rule, as a deny rule
    (".env", ".env", True, True),
    (".env", "sub/.env", True, True),
    (".env", "../.env", False, False),
    (".env", "x.env", False, False),
    ("*.env", "sub/x.env", True, True),
    ("./.env", ".env", True, True),
    ("./.env", "sub/.env", False, False),
    ("**/.env", "a/b/.env", True, True),
    ("//**/.env", "/any/where/.env", True, True),
    ("src/**", "src/app.ts", True, True),
    ("src/**", "src", True, True),
    ("src/**", "vendor/pkg/src/lib.js", False, True),
    ("/src/**", "vendor/pkg/src/lib.js", False, False),
    ("/src/**", "src/a/b.ts", True, True),
    ("**/src/**", "vendor/pkg/src/lib.js", True, True),
    ("src/components/**", "src/components/a.ts", True, True),
    ("src/components/**", "x/src/components/a.ts", False, False),
    ("/src/**/*.ts", "src/a/b/c.ts", True, True),
    ("/src/**/*.ts", "src/c.ts", True, True),
    ("/src/**/*.ts", "src/c.js", False, False),
    ("/src/*.ts", "src/a/c.ts", False, False),
    ("secrets", "secrets/key", True, True),
    ("secrets/", "a/secrets/key", True, True),
    ("//etc/x", "/etc/x", True, True),
    ("//etc", "/etc/x/y", True, True),
    ("/etc/x", "/etc/x", False, False),
    ("~/notes/*.md", f"{HOME}/notes/a.md", True, True),
    ("~/notes/*.md", f"{HOME}/notes/b/a.md", False, False),
    ("~/notes/*.md", "~/notes/a.md", True, True),
    ("~", f"{HOME}/x", True, True),
    ("a?c", "abc", True, True),
    ("a?c", "ac", False, False),
    ("[ab].txt", "a.txt", True, True),
    ("[!ab].txt", "a.txt", False, False),
    ("[a-c].txt", "b.txt", True, True),
    ("a[.txt", "a[.txt", True, True),
    ("a\\*b", "a*b", True, True),
    ("a\\*b", "axb", False, False),
    ("src", "srcx", False, False),
    ("SRC", "src", False, False),
    ("**", "any/thing", True, True),
    ("a\\", "a\\", True, True),
]


@pytest.mark.parametrize(("rule", "path", "allows", "denies"), PATTERNS)
def test_patterns_are_read_as_in_a_gitignore(rule: str, path: str, allows: bool, denies: bool) -> None:
    # Outside the working folder reading is asked, so that only the rule can allow it.
    assert edit(path, allow=[f"Edit({rule})"]) == ("allow" if allows and not path.startswith("/etc") else "ask")
    assert edit(path, deny=[f"Edit({rule})"]) == ("deny" if denies else "ask")
    assert read(path, allow=["Read"], deny=[f"Read({rule})"]) == ("deny" if denies else "allow")
    assert read(path, allow=["Read"], ask=[f"Read({rule})"]) == ("ask" if denies else "allow")


def test_a_slash_is_relative_to_where_the_rule_comes_from() -> None:
    from functools import partial

    rules = parse_rules(deny=["Read(/secrets/**)"], source=RuleSource.USER, base=f"{HOME}/.claude")
    for path, wanted in ((f"{HOME}/.claude/secrets/x", "deny"), (f"{CWD}/secrets/x", "allow")):
        asked = PermissionRequest("Read", {"file_path": path}, CWD)
        assert (
            decide(asked, PermissionPolicy(rules, folders=(CWD,), home=HOME), partial(resolve_path, home=HOME)).decision
            == wanted
        )


def test_reading_in_the_working_folders_is_free_and_writing_is_not() -> None:
    assert read("x") == "allow"
    assert read(f"{CWD}/a/b") == "allow"
    assert read(f"{CWD}x/a") == "ask"  # components, not text
    assert read("../x") == "ask"
    assert read("a/../../x") == "ask"
    assert read("/other/x", folders=("/other",)) == "allow"
    assert edit("x") == "ask"
    assert edit("x", "Write") == "ask"
    assert call("Grep", {"pattern": "x"}).decision == "allow"
    assert call("Glob", {"pattern": "*", "path": "/etc"}).decision == "ask"
    assert call("LS", {"path": "."}).decision == "allow"
    assert call("NotebookEdit", {"notebook_path": "x"}, allow=["Edit(x)"]).decision == "allow"


def test_rules_reach_the_tools_they_are_about() -> None:
    for tool in ("Edit", "Write", "MultiEdit"):
        assert edit("x", tool, allow=["Edit(x)"]) == "allow"
        assert edit("x", tool, deny=["Edit(x)"], allow=["Edit", "Write", "MultiEdit"]) == "deny"
        assert edit("x", tool, deny=["Write(x)"], allow=["Edit", "Write", "MultiEdit"]) == "deny"
        assert edit("x", tool, deny=["Read(x)"], allow=["Edit", "Write", "MultiEdit"]) == "deny"
        assert edit("x", tool, ask=["Edit(x)"], allow=["Edit", "Write", "MultiEdit"]) == "ask"
    assert edit("x", "Edit", allow=["Write(x)"]) == "ask"
    assert edit("x", "Write", allow=["Write(x)"]) == "allow"
    assert edit("x", "Write", allow=["Edit"]) == "ask"
    assert edit("x", "Write", deny=["Edit"], allow=["Write"]) == "allow"
    assert call("Grep", {"path": "/d"}, allow=["Read(//d/**)"]).decision == "allow"
    assert call("Grep", {"path": "/d"}, allow=["Grep(//d/**)"]).decision == "allow"
    assert read("/d/x", allow=["Grep(//d/**)"]) == "ask"
    assert call("Grep", {"path": "s"}, deny=["Read(s/**)"]).decision == "deny"
    assert read("s/x", deny=["Grep(s/**)"]) == "deny"


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "a" * 5_000, 5, None, ["x"]])
def test_what_is_no_path_is_refused(path: object) -> None:
    for mode in ("default", "bypassPermissions"):
        assert call("Read", {"file_path": path}, mode=mode, allow=["Read"]).decision == "deny"
        assert call("Write", {"file_path": path}, mode=mode).decision == "deny"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/sys/kernel", "/dev/null", "/dev/zero", "/proc/../proc/1/mem"])
def test_f3_only_regular_files(path: str) -> None:
    assert read(path, allow=["Read"]) == "deny"
    assert edit(path, allow=["Edit"], mode="bypassPermissions") == "deny"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "sub/.git/hooks/pre-commit",
        ".claude/settings.json",
        ".mainspring/x",
        ".mcp.json",
        ".vscode/tasks.json",
        ".husky/pre-push",
        ".bashrc",
        f"{HOME}/.zshrc",
        "~/.profile",
        ".npmrc",
        ".pre-commit-config.yaml",
        ".envrc",
        "/etc/passwd",
        "~/.ssh/config",
        ".github/workflows/x.yml",
    ],
)
def test_f5_protected_places_are_never_approved(path: str) -> None:
    for rights in (
        {"allow": ["Edit", "Write", "Edit(//**)"]},
        {"mode": "acceptEdits"},
        {"mode": "bypassPermissions"},
        {"hook": "allow"},
    ):
        assert edit(path, **rights) == "ask"
        assert edit(path, "Write", **rights) == "ask"
    assert edit(path, deny=["Edit(//**)"]) == "deny"
    assert edit(path, mode="dontAsk", allow=["Edit"]) == "deny"


def test_f5_our_own_folders_are_protected_wherever_they_are() -> None:
    policy = PermissionPolicy(PermissionRules(), Mode.ACCEPT_EDITS, ("/w",), HOME, ours=("/w/ours",))
    assert decide(PermissionRequest("Edit", {"file_path": "ours/x"}, "/w"), policy, resolve_path).decision == "ask"
    assert decide(PermissionRequest("Edit", {"file_path": "x"}, "/w"), policy, resolve_path).decision == "allow"


# --- links -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    for folder in ("work/src", "out/secrets", "home"):
        (root / folder).mkdir(parents=True)
    (root / "out/secrets/key").write_text("key")
    (root / "work/src/a.py").write_text("")
    (root / "work/link").symlink_to(root / "out/secrets/key")
    (root / "work/folder").symlink_to(root / "out/secrets")
    (root / "work/inside").symlink_to(root / "work/src")
    (root / "work/twice").symlink_to(root / "work/folder")
    (root / "work/dotgit").symlink_to(root / "work/.git")
    (root / "work/loop").symlink_to(root / "work/loop")
    (root / "work/src/away").symlink_to(root / "out/secrets")
    (root / "way").symlink_to(root / "work")
    os.mkfifo(root / "work/fifo")
    return root


def test_f1_deny_if_any_name_matches_allow_only_if_all_do(tree: Path) -> None:
    here = {"cwd": str(tree / "work"), "home": str(tree / "home")}
    assert read("src/a.py", **here) == "allow"
    assert read("inside/a.py", **here) == "allow"
    for path in ("link", "folder/key", "twice/key"):
        assert read(path, **here) == "ask"  # it leads out
        assert read(path, allow=["Read(./**)"], **here) == "ask"
        assert read(path, allow=[f"Read(/{tree}/out/**)"], **here) == "ask"
        assert read(path, allow=[f"Read(/{tree}/**)"], **here) == "allow"
        assert read(path, allow=["Read"], deny=[f"Read(/{tree}/out/secrets/**)"], **here) == "deny"
        assert read(path, allow=["Read"], deny=[f"Read(./{path})"], **here) == "deny"
        assert bash(f"cat {path}", **here) == "ask"
        assert bash(f"cat {path}", allow=["Bash"], deny=[f"Read(/{tree}/out/**)"], **here) == "deny"
    assert read(str(tree / "out/secrets/key"), allow=["Read"], deny=["Read(./folder/**)"], **here) == "deny"
    assert edit("dotgit/config", mode="acceptEdits", **here) == "ask"
    assert edit("folder/new", mode="acceptEdits", **here) == "ask"
    assert edit("inside/a.py", mode="acceptEdits", **here) == "allow"
    assert bash("npm x > folder/new", mode="bypassPermissions", deny=[f"Edit(/{tree}/out/**)"], **here) == "deny"
    assert read("loop", **here) == "deny"
    assert read("src/a.py", deny=["Read(./loop/x)"], **here) == "allow"
    assert read("fifo", **here) == "deny"
    assert bash("cat fifo", **here) == "ask"
    assert bash("npm x > fifo", allow=["Bash"], **here) == "ask"
    assert bash("npm x > loop/y", allow=["Bash"], **here) == "ask"
    assert bash("cat loop", allow=["Bash"], **here) == "allow"
    assert bash("rm -rf loop/..", allow=["Bash"], **here) == "ask"


def test_f1_the_working_folder_may_itself_be_a_link(tree: Path) -> None:
    here = {"cwd": str(tree / "way"), "home": str(tree / "home")}
    assert read("src/a.py", **here) == "allow"
    assert read(str(tree / "work/src/a.py"), **here) == "allow"
    assert edit("src/a.py", allow=["Edit(src/**)"], **here) == "allow"
    assert edit("src/a.py", deny=["Edit(src/**)"], **here) == "deny"
    assert edit(str(tree / "work/src/a.py"), deny=["Edit(src/**)"], **here) == "deny"
    assert edit("src/a.py", mode="acceptEdits", **here) == "allow"
    assert bash("cd src && cat a.py", **here) == "allow"
    assert bash(f"rm -rf {tree}/work", allow=["Bash"], **here) == "ask"


def test_f1_a_path_is_seen_from_each_folder_that_the_line_may_be_in(tree: Path) -> None:
    here = {"cwd": str(tree / "work"), "home": str(tree / "home")}
    assert bash("cd src && cat a.py", **here) == "allow"
    assert bash("cd src && cat away/key", **here) == "ask"
    assert bash("cd src && rm a.py", mode="acceptEdits", **here) == "allow"
    assert bash("cd src && rm away/key", mode="acceptEdits", **here) == "ask"
    assert bash("cd src && npm x > a.py", allow=["Bash"], **here) == "allow"
    assert bash("cd src && npm x > away/new", allow=["Bash"], **here) == "ask"


def test_f1_within_one_decision_a_path_leads_to_one_place(tree: Path) -> None:
    """Asked twice, the disk may say two things: so each path is looked up once."""
    work = str(tree / "work")
    looked_up: list[str] = []

    def paths(path: str, cwd: str) -> Resolved:
        looked_up.append(path)
        return resolve_path(path, cwd)

    policy = PermissionPolicy(
        parse_rules(allow=["Edit(src/**)"], deny=["Read(.env)"]), folders=(work,), home=str(tree / "home")
    )
    decide(PermissionRequest("Bash", {"command": "sort src/a.py > src/b; cat src/a.py link"}, work), policy, paths)
    assert sorted(looked_up) == sorted({*looked_up})
    assert len(looked_up) >= 3


def test_f1_what_changes_on_the_disk_is_seen_by_the_next_decision(tree: Path) -> None:
    """Rules and folders are taken apart once for a session; where a path leads is asked each time."""
    work = tree / "work"
    rules = parse_rules(allow=["Edit(src/**)"], source=RuleSource.FLAG)
    policy = PermissionPolicy(rules, folders=(str(work),), home=str(tree / "home"))

    def decided() -> list[str]:
        calls = [
            PermissionRequest("Edit", {"file_path": "src/a.py"}, str(work)),
            PermissionRequest("Read", {"file_path": "src/a.py"}, str(work)),
            PermissionRequest("Bash", {"command": "cat src/a.py"}, str(work)),
            PermissionRequest("Bash", {"command": "sort src/a.py 2>&1 | head"}, str(work)),
        ]
        return [decide(one, policy, resolve_path).decision for one in calls]

    assert decided() == ["allow"] * 4
    (work / "src").rename(work / "kept")
    (work / "src").symlink_to(tree / "out")
    assert decided() == ["ask"] * 4
    (work / "src").unlink()
    (work / "kept").rename(work / "src")
    assert decided() == ["allow"] * 4
    (work / "src/a.py").unlink()
    (work / "src/a.py").symlink_to(tree / "out/secrets/key")
    assert decided() == ["ask"] * 4


def test_f1_a_working_folder_counts_as_it_was_when_it_was_added(tree: Path) -> None:
    """`way` leads to `work`. With `reached`, where it leads now is not asked."""
    way, work = str(tree / "way"), str(tree / "work")
    policy = PermissionPolicy(
        PermissionRules(), Mode.ACCEPT_EDITS, folders=(way,), home=str(tree / "home"), reached=(way, work)
    )

    def decided() -> list[str]:
        calls = [PermissionRequest(tool, {"file_path": "src/a.py"}, way) for tool in ("Read", "Edit")]
        return [decide(one, policy, resolve_path).decision for one in calls]

    assert decided() == ["allow"] * 2
    (tree / "way").unlink()
    (tree / "way").symlink_to(tree / "out")
    assert decided() == ["ask"] * 2


# --- properties --------------------------------------------------------------------------------------------------

NAME = st.text("ab.*[]\\ ", min_size=1, max_size=4).filter(lambda name: name.strip("."))
PATH = st.lists(NAME, min_size=1, max_size=4)


@given(PATH)
def test_a_literal_pattern_matches_its_path_and_what_is_below(path: list[str]) -> None:
    literal = "/".join("".join(f"\\{c}" if c in "*[]\\?" else c for c in name) for name in path)
    found = parse_path_pattern("//" + literal, allow=True)
    assert found.literal == tuple(path)
    assert matches_under(found, found.literal, tuple(path))
    assert matches_under(found, found.literal, (*path, "below"))
    assert not matches_under(found, found.literal, (*path[:-1], path[-1] + "x"))
    assert not matches_under(found, found.literal, (*path, ".."))


@given(
    st.lists(st.sampled_from(["a", "*", "**", "a*", "?", "[ab]", "*a*b*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), max_size=5),
)
def test_patterns_match_as_their_expressions_do(pattern: list[str], path: list[str]) -> None:
    import re

    parts = {
        "**": "(?:[^/]+/)*",
        "*": "[^/]*/",
        "?": "[^/]/",
        "[ab]": "[ab]/",
        "a*": "a[^/]*/",
        "a": "a/",
        "*a*b*": "[^/]*a[^/]*b[^/]*/",
    }
    expression = "".join(parts[one] for one in pattern) + "(?:[^/]+/)*"
    found = parse_path_pattern("//" + "/".join(pattern), allow=False)
    wanted = re.fullmatch(expression, "".join(f"{name}/" for name in path)) is not None
    assert matches_under(found, found.literal, tuple(path)) == wanted


@given(st.text("abc/.*?[]!~\\ ", max_size=30), st.text("abc/. ", max_size=30))
def test_no_pattern_breaks_it(pattern: str, path: str) -> None:
    found = parse_path_pattern(pattern, allow=False)
    matches_under(found, found.literal, split_components(path))


def test_patterns_that_were_made_to_be_slow_are_not() -> None:
    found = parse_path_pattern("//" + "*a" * 200 + "*/**/" + "**/x/" * 50, allow=False)
    assert not matches_under(found, found.literal, split_components("a" * 2_000 + "/y" * 1_000))
