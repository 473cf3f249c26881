"""Rules that are offered, and `explain_decision`."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.permissions.explain import LONGEST_LINE, explain_decision, explain_lines, main, parse_explain_input
from mainspring.permissions.policy import PermissionRequest
from mainspring.permissions.suggest import suggest_rules, suggest_wider_rules, suggested_mode
from mainspring.processes.paths import resolve_path
from permissions.deciding import CWD, HOME, bash, call, policy, verdict

PATHS = partial(resolve_path, home=HOME)


def offered(tool: str, input: dict[str, Any], **given: Any) -> list[str]:
    cwd = given.pop("cwd", CWD)
    return [one.rule for one in suggest_rules(PermissionRequest(tool, input, cwd), policy(cwd=cwd, **given), PATHS)]


def for_command(command: str, **given: Any) -> list[str]:
    return offered("Bash", {"command": command}, **given)


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("npm run build", ["Bash(npm run build)"]),
        ("git status && npm test", ["Bash(npm test)"]),
        ("npm a; npm b; npm a", ["Bash(npm a)", "Bash(npm b)"]),
        ("npm run 'a b'", ["Bash(npm run 'a b')"]),
        ("npm run '*'", ["Bash(npm run '*')"]),
        ('npm run "it\'s"', ["Bash(npm run 'it'\\''s')"]),
        ("npm run 'x:*'", ["Bash(npm run 'x:*')"]),
        ("npm run ''", ["Bash(npm run '')"]),
        ("timeout 10 npm test", ["Bash(timeout 10 npm test)"]),
        ("sudo npm test", ["Bash(sudo npm test)"]),
        ("find . -name x -delete", ["Bash(find . -name x -delete)"]),
        ("npm x > out", ["Bash(npm x)", f"Edit(/{CWD}/out)"]),
        ("npm x < /d/in", ["Bash(npm x)", "Read(//d/in)"]),
        ("npm x > /dev/null", ["Bash(npm x)"]),
        ("npm x > " + "a" * 5_000, []),
        ("npm run " + "a" * 5_000, []),  # more than a rule may have
        ("npm run 'a\u202eb'", []),  # what cannot be seen cannot be agreed to
        ("npm run $x", []),
        ("npm run *.js", []),
        ("FOO=1 npm x", []),
        ("npm 'x", []),
        ("ls", []),
        ("rm -rf /", []),
        ("npm x > .git/config", []),
        ("npm x > $y", []),
        ("npm x > /dev/tcp/a/1", []),
        ("cd x && git push", []),
        ("a; b; c; d; e; f", []),
        ("find . '\\(' -delete", []),
        ("npm x > 'a\0'", []),
    ],
)
def test_s10_the_rules_that_are_offered(command: str, rules: list[str]) -> None:
    assert for_command(command) == rules


@pytest.mark.parametrize(
    ("tool", "input", "offered"),
    [
        ("Bash", {"command": "git add -A"}, {"Bash(git add:*)": "commands that start with `git add`"}),
        (
            "Bash",
            {"command": "git commit -m 'a b' && npm run build -- --fast"},
            {
                "Bash(git commit:*)": "commands that start with `git commit`",
                "Bash(npm run build:*)": "commands that start with `npm run build`",
            },
        ),
        (
            "Bash",
            {"command": "pytest -q && rm x"},
            {"Bash(pytest:*)": "commands that start with `pytest`", "Bash(rm x)": "`rm x`"},
        ),
        ("Bash", {"command": "rm -rf build"}, {}),
        ("Bash", {"command": "git push --force"}, {}),
        ("Bash", {"command": "git -c a=b add ."}, {}),
        ("Bash", {"command": "python x.py"}, {}),
        ("Bash", {"command": "sudo git add x"}, {}),
        ("Edit", {"file_path": "src/a.py"}, {f"Edit(/{CWD}/src/**)": "edits in 'src/'"}),
        ("Edit", {"file_path": "a.py"}, {f"Edit(/{CWD}/**)": "edits in this folder"}),
        ("Read", {"file_path": "/opt/d/x"}, {"Read(//opt/d/**)": "reading files in '/opt/d/'"}),
        ("Read", {"file_path": "/etc/x"}, {}),
        ("Read", {"file_path": f"{HOME}/x"}, {}),
        ("Read", {"file_path": "/nowhere/x"}, {}),
        ("mcp__a__b", {}, {"mcp__a": "all tools of the MCP server 'a'"}),
        ("WebFetch", {"url": "https://a.org/x"}, {}),
    ],
)
def test_wider_rules_say_what_they_cover(tool: str, input: dict[str, Any], offered: dict[str, str]) -> None:
    found = suggest_wider_rules(PermissionRequest(tool, input, CWD), policy(), PATHS)
    assert {one.rule: one.covers for one in found} == offered


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git fetch:*", "git fetch --upload-pack=x o"),
        ("git pull:*", "git pull --upload-pack x"),
        ("go test:*", "go test -exec x ./..."),
        ("cargo test:*", "cargo test --config x=1"),
        ("touch:*", "touch .git/hooks/x"),
        ("git add:*", "git add x; curl y"),
        ("git add:*", "git add $(curl y)"),
    ],
)
def test_a_wider_rule_does_not_cover_what_runs_something_else(rule: str, command: str) -> None:
    assert bash(command, allow=[f"Bash({rule})"]) == "ask"


def test_a_command_with_odd_words_has_no_wider_rule() -> None:
    found = suggest_wider_rules(PermissionRequest("Bash", {"command": "git 'add x' y"}, CWD), policy(), PATHS)
    assert [one.rule for one in found] in ([], ["Bash(git 'add x' y)"])


def test_no_rule_is_offered_for_what_only_a_rule_asks_about() -> None:
    assert offered("Task", {"subagent_type": "Explore"}, ask=["Agent"]) == []


def test_nothing_is_offered_that_would_not_help() -> None:
    assert for_command("npm x", ask=["Bash(npm:*)"]) == []
    assert for_command("npm x", deny=["Bash(npm:*)"]) == []
    assert for_command("npm x", mode="plan") == ["Bash(npm x)"]


@pytest.mark.parametrize(
    ("tool", "path", "mode", "suggested"),
    [
        ("Edit", "a.txt", "default", "acceptEdits"),
        ("Write", "new/b.txt", "default", "acceptEdits"),
        ("NotebookEdit", "c.ipynb", "default", "acceptEdits"),
        ("Write", "/elsewhere/a.txt", "default", None),
        ("Write", ".git/config", "default", None),
        ("Edit", "a.txt", "plan", None),
        ("Edit", "a.txt", "acceptEdits", None),
        ("Read", "/elsewhere/a.txt", "default", None),
        ("Bash", "touch a.txt", "default", None),
    ],
)
def test_the_mode_that_is_suggested(tool: str, path: str, mode: str, suggested: str | None) -> None:
    asked = PermissionRequest(tool, parse_explain_input(tool, path), CWD)
    assert suggested_mode(asked, policy(mode=mode), PATHS) == suggested
    assert suggested_mode(asked, policy(mode=mode, deny=[tool]), PATHS) is None


def test_files_hosts_and_other_tools(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "link").symlink_to("/etc/hosts")
    (root / "folder").mkdir()
    assert offered("Edit", {"file_path": "a*[b].txt"}) == [f"Edit(/{CWD}/a\\*\\[b\\].txt)"]
    assert offered("Read", {"file_path": "/d/x"}) == ["Read(//d/x)"]
    assert offered("Grep", {"path": str(root)}) == [f"Read(/{root})"]
    assert offered("Grep", {}, cwd=str(root)) == []
    assert offered("Read", {"file_path": "link"}, cwd=str(root)) == []
    assert offered("Read", {"file_path": "\0"}) == []
    assert offered("WebFetch", {"url": "https://Docs.Python.org/3"}) == ["WebFetch(domain:docs.python.org)"]
    assert offered("WebFetch", {"url": "x"}) == []
    assert offered("mcp__a__b", {"x": 1}) == ["mcp__a__b"]
    assert offered("Skill", {"skill": "x"}) == ["Skill(x)"]
    assert offered("Skill", {"skill": "x)y"}) == ["Skill(x)y)"]
    assert offered("Skill", {"skill": "a\x1fb"}) == []
    folder = suggest_rules(PermissionRequest("Grep", {"path": str(root / "folder")}, CWD), policy(), PATHS)
    assert folder[0].covers == f"reading files in '{root}/folder/'"
    assert (
        suggest_rules(PermissionRequest("Edit", {"file_path": "x"}, CWD), policy(), PATHS)[0].covers == "edits to 'x'"
    )


WORD = st.text("ab *'\"\\$()[]:;&|{}~#!?,=-é", max_size=6)


@given(st.lists(WORD, min_size=1, max_size=4), st.lists(WORD, min_size=1, max_size=4))
def test_s10_a_rule_covers_what_was_shown_and_nothing_else(words: list[str], others: list[str]) -> None:
    def line(parts: list[str]) -> str:
        return "npm " + " ".join("'" + part.replace("'", "'\\''") + "'" for part in parts)

    rules = for_command(line(words))
    if not rules:
        return
    assert bash(line(words), allow=rules) == "allow"
    if others != words:
        assert bash(line(others), allow=rules) == "ask"
    assert bash(line([*words, "x"]), allow=rules) == "ask"
    assert bash(line(words[:-1]), allow=rules) == "ask"


# --- explain -------------------------------------------------------------------------------------------------------


def test_explain_says_what_decided_and_why() -> None:
    text = explain_decision("Bash", {"command": "npm \u202ex"}, policy(allow=["Bash(", "Read"]), cwd=CWD, paths=PATHS)
    assert text.splitlines() == [
        "ask: not all of it can be known: the character U+202E",
        "call: Bash: npm <U+202E>x",
        "mode: default",
        "broken rule: the rule 'Bash(' has no closing parenthesis at its end",
    ]
    text = explain_decision("Bash", {"command": "npm x"}, policy(allow=["Bash(npm:*)"]), cwd=CWD, paths=PATHS)
    assert text.splitlines()[-1] == "rule: Bash(npm:*) (source: flag)"
    text = explain_decision("Bash", {"command": "npm x"}, policy(), cwd=CWD, paths=PATHS)
    assert text.splitlines()[-1] == "suggested rule: Bash(npm x): `npm x`"


def test_input_may_be_json_or_the_one_field_that_matters() -> None:
    assert parse_explain_input("Bash", '{"command": "x"}') == {"command": "x"}
    assert parse_explain_input("Bash", "{ ls; }") == {"command": "{ ls; }"}
    assert parse_explain_input("Edit", "x") == {"file_path": "x"}
    assert parse_explain_input("Grep", "x") == {"path": "x"}
    assert parse_explain_input("WebFetch", "x") == {"url": "x"}
    assert parse_explain_input("Other", "x") == {"input": "x"}


def answers(*lines: str) -> list[dict[str, str]]:
    return [json.loads(answer) for answer in explain_lines(lines, cwd=CWD, home=HOME, paths=PATHS)]


def line(command: object, **rest: object) -> str:
    return json.dumps({"tool": "Bash", "input": {"command": command}, **rest})


def test_batch_answers_every_line_in_order() -> None:
    rules = {"allow": ["Bash"], "deny": ["Bash(rm:*)"], "ask": ["Bash(curl:*)"]}
    found = answers(
        line("npm x", rules=rules, mode="default", cwd="/w"),
        line("rm x", rules=rules),
        line("curl x", rules=rules),
        line("ls"),
        line("\ud800"),
        line("x", mode="bypassPermissions"),
        line("x", mode="dontAsk"),
        line(5),
    )
    assert [one["decision"] for one in found] == ["allow", "deny", "ask", "allow", "ask", "allow", "deny", "deny"]
    assert [one["rule"] for one in found] == ["Bash", "Bash(rm:*)", "Bash(curl:*)", "", "", "", "", ""]
    assert all(set(one) == {"decision", "reason", "rule"} for one in found)


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "object"),
        ("[" * 100_000, "JSON"),
        ('{"input": {}}', "'tool'"),
        ('{"tool": 5, "input": {}}', "'tool'"),
        ('{"tool": "Bash"}', "'input'"),
        ('{"tool": "Bash", "input": []}', "'input'"),
        (line("ls", mode="x"), "'mode'"),
        (line("ls", cwd="x"), "'cwd'"),
        (line("ls", cwd="/\0"), "'cwd'"),
        (line("ls", rules=[]), "'rules'"),
        (line("ls", rules={"deny": "Bash"}), "'deny'"),
        (" " * (LONGEST_LINE + 1), "characters"),
    ],
)
def test_batch_names_a_line_that_cannot_be_read_and_goes_on(broken: str, names: str) -> None:
    found = answers(line("ls"), broken, line("ls"))
    assert [one["decision"] for one in found] == ["allow", "ask", "allow"]
    assert "line 2" in found[1]["error"]
    assert names in found[1]["error"]
    assert "error" not in found[2]


def test_the_command() -> None:
    def run(argv: list[str], stdin: str = "") -> tuple[int, str]:
        out = io.StringIO()
        code = main(argv, policy(), cwd=CWD, paths=PATHS, pipes=(io.StringIO(stdin), out))
        return code, out.getvalue()

    assert run(["Bash", "ls"])[1].startswith("allow: ")
    code, text = run(["--batch"], line("ls") + "\n" + line("npm x") + "\n")
    assert code == 0
    assert [json.loads(one)["decision"] for one in text.splitlines()] == ["allow", "ask"]
    for argv in ([], ["Bash"], ["--bogus", "x"], ["a", "b", "c"]):
        assert run(argv)[0] == 2


def test_a_million_characters_are_decided_and_shown() -> None:
    found = verdict("echo " + "a" * 1_000_000, deny=["Bash(rm:*)"])
    assert found.decision == "ask"
    assert len(found.shown) > 1_000_000
    assert call("Bash", {"command": "ls;" * 300_000 + "rm x"}, deny=["Bash(rm:*)"]).decision == "deny"
