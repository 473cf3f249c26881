"""What a run may do: rules from flags and settings, trust, modes, hooks; and how one finds out."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Done, Frame, Serve, Stage, frames
from mainspring.simulator.replies import Say


def tool_use(name: str, id: str = "", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id or f"toolu_{name}", "name": name, "input": input}


def bash(command: str, id: str = "toolu_Bash") -> dict[str, Any]:
    return tool_use("Bash", id, command=command)


def results(stage: Stage, request: int = -1) -> list[str]:
    """What the model was told of its calls."""
    blocks = stage.requests[request].body["messages"][-1]["content"]
    return ["".join(part["text"] for part in block["content"]) for block in blocks if block["type"] == "tool_result"]


def settings(stage: Stage, where: str, **said: Any) -> None:
    file = {"user": stage.home, "project": stage.folder / ".claude"}[where] / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said))


def run(stage: Stage, *flags: str, **env: str) -> Done:
    done = stage.run("-p", "hello", *flags, env=env)
    assert done.returncode == 0, done.stderr
    return done


# --- rules ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-10", "N-11", "F-23")
def test_what_no_rule_covers_is_denied_where_nobody_can_be_asked(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch made"), tool_use("Write", file_path="new.txt", content="x")), Say.of("Pity."))
    shown = frames(run(stage, "--output-format=stream-json").stdout)
    assert not (stage.folder / "made").exists()
    assert not (stage.folder / "new.txt").exists()
    first, second = results(stage)
    assert "This needs permission, and no user can be asked here: no rule covers 'touch made'" in first
    assert "the rule 'Bash(touch made)'" in first
    assert "new.txt" in second
    denials = shown[-1]["permission_denials"]
    assert [(one["tool_name"], one["tool_use_id"]) for one in denials] == [
        ("Bash", "toolu_Bash"),
        ("Write", "toolu_Write"),
    ]
    assert denials[0]["tool_input"] == {"command": "touch made"}


def test_the_rule_that_was_named_allows_it(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    run(stage, "--allowedTools", "Bash(touch made)")
    assert (stage.folder / "made").exists()


@pytest.mark.covers("N-10")
def test_deny_is_final_however_it_is_spelled(serve: Serve) -> None:
    spellings = [
        "rm x",
        "r''m x",
        "\\rm x",
        "/bin/rm x",
        "env rm x",
        "bash -c 'rm x'",
        "$(echo rm) x",
        "xargs rm <<< x",
    ]
    calls = [bash(spelling, f"toolu_{number}") for number, spelling in enumerate(spellings)]
    stage = serve(Say.of(*calls), Say.of("Pity."))
    (stage.folder / "x").write_text("kept")
    run(stage, "--dangerously-skip-permissions", "--disallowedTools", "Bash(rm:*)")
    assert (stage.folder / "x").exists()
    for spelling, told in zip(spellings, results(stage), strict=True):
        assert "Not allowed" in told or "needs permission" in told, (spelling, told)


def test_every_decision_is_in_the_journal_and_how_long_each_step_took(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch made", "toolu_1"), bash("pwd", "toolu_2")), Say.of("Done."))
    run(stage)
    [path] = stage.sessions()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    decided = [line["record"] for line in lines if line.get("record", {}).get("type") == "DecisionRecord"]
    assert [(one["call_id"], one["decision"]) for one in decided] == [
        ("toolu_1", "ask"),
        ("toolu_1", "deny"),
        ("toolu_2", "allow"),
    ]
    steps = [line["record"]["steps"] for line in lines if line.get("record", {}).get("type") == "StepsRecord"]
    assert [name for name, _ in steps[0]] == ["find", "validate", "backfill", "hooks before", "permission"]
    assert [name for name, _ in steps[1]][-3:] == ["run", "hooks after", "size"]


# --- settings and trust ---------------------------------------------------------------------------------------


@pytest.mark.needs("bwrap")
def test_a_project_gives_no_rights_before_it_is_trusted_but_takes_them_away(serve: Serve) -> None:
    calls = [bash("touch made", "toolu_1"), tool_use("Read", "toolu_2", file_path="secret")]
    stage = serve(*[Say.of(*calls), Say.of("Done.")] * 2)
    (stage.folder / "secret").write_text("s3cret")
    settings(stage, "project", permissions={"allow": ["Bash(touch:*)"], "deny": ["Read(./secret)"]})
    untrusted = run(stage)
    assert not (stage.folder / "made").exists()
    assert "s3cret" not in str(results(stage))
    assert "Run 'mainspring trust' to use this directory's settings" in untrusted.stderr.decode()
    assert stage.run("trust").returncode == 0
    trusted = run(stage)
    assert (stage.folder / "made").exists()
    assert "s3cret" not in str(results(stage))
    assert trusted.stderr.startswith(b"mainspring: 1 tool call was denied: Read: secret. ")


def test_settings_of_the_user_and_of_the_command_line(serve: Serve) -> None:
    stage = serve(*[Say.of(bash("touch made")), Say.of("Done.")] * 2)
    settings(stage, "user", model="haiku", permissions={"allow": ["Bash(touch:*)"]}, api={"maxCostUsd": 5})
    run(stage)
    assert (stage.folder / "made").exists()
    assert stage.requests[0].body["model"] == "claude-haiku-5-5"
    (stage.folder / "made").unlink()
    run(stage, "--settings", json.dumps({"permissions": {"deny": ["Bash(touch:*)"]}}), "--model", "opus")
    assert not (stage.folder / "made").exists()
    assert stage.requests[2].body["model"].startswith("claude-opus")


def test_no_file_is_read_if_no_source_is_wanted(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, "user", model="haiku", unknown=1)
    assert run(stage, "--setting-sources", "").stderr == b""
    assert stage.requests[0].body["model"] == "claude-sonnet-5-5"


def test_a_file_that_is_broken_is_named_and_gives_nothing(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    stage.home.mkdir(parents=True)
    (stage.home / "settings.json").write_text('{"permissions": {"allow": ["Bash"]},,}')
    done = run(stage)
    assert f"{stage.home}/settings.json:1:" in done.stderr.decode()
    assert not (stage.folder / "made").exists()


@pytest.mark.parametrize("rule", ["Bash(rm", "Bash rm)", "(rm)", "Bash(a)(b"])
def test_a_rule_that_cannot_be_read_is_named_at_the_start(serve: Serve, rule: str) -> None:
    stage = serve(Say.of("Done."))
    settings(stage, "user", permissions={"deny": [rule, "Bash(ls *)", "Read"]})
    done = run(stage)
    assert f"{stage.home}/settings.json: 'permissions.deny': the rule '{rule}'" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_a_broken_file_on_the_command_line_stops_the_start(serve: Serve) -> None:
    done = serve().run("-p", "hello", "--settings", '{"permissions":')
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"--settings" in done.stderr


def test_a_money_limit_in_the_settings_holds(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, "user", api={"maxCostUsd": 0.000001})
    done = stage.run("-p", "hello", "--output-format=json")
    assert json.loads(done.stdout)["subtype"] == "error_max_budget_usd"
    assert stage.requests == []


# --- modes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "edited", "made"),
    [
        ("default", False, False),
        ("manual", False, False),
        ("acceptEdits", True, True),
        ("plan", False, False),
        ("dontAsk", False, False),
        ("bypassPermissions", True, True),
    ],
)
@pytest.mark.covers("N-11", "N-12", "N-13", "N-14", "N-16")
def test_modes(mode: str, edited: bool, made: bool, serve: Serve) -> None:
    edit = tool_use("Edit", file_path="a.txt", old_string="old", new_string="new")
    stage = serve(Say.of(tool_use("Read", file_path="a.txt"), edit, bash("touch made")), Say.of("Done."))
    (stage.folder / "a.txt").write_text("old\n")
    run(stage, "--permission-mode", mode)
    assert (stage.folder / "a.txt").read_text() == ("new\n" if edited else "old\n")
    assert (stage.folder / "made").exists() is made
    assert "old" in results(stage)[0]


@pytest.mark.covers("N-15")
def test_auto_asks_a_classifier_and_says_afterwards_what_it_decided(serve: Serve) -> None:
    write = tool_use("Write", "toolu_1", file_path="made", content="x")
    stage = serve(Say.of(write), Say.of("ALLOW: you asked for it"), Say.of("Done."))
    run(stage, "--permission-mode", "auto")
    assert (stage.folder / "made").exists()
    asked = [request.body for request in stage.requests if "</call>" in request.talk.prompt]
    assert [body["model"].startswith("claude-haiku-") for body in asked] == [True]
    told = stage.run("permissions", "explain", "--session").stdout.decode().splitlines()
    assert told[0].startswith("Write")
    assert told[1:] == [
        f"  ask: no rule covers '{stage.folder}/made'",
        "  allow: the classifier allowed it: you asked for it",
    ]
    explained = stage.run("permissions", "explain", "Write", "made", "--permission-mode", "auto").stdout.decode()
    assert "classifier: consulted before you are asked" in explained
    wrong = stage.run("permissions", "explain", "--session", "--batch")
    assert wrong.returncode == 1
    assert b"cannot be combined" in wrong.stderr


# --- hooks ----------------------------------------------------------------------------------------------------


def hooks(**points: str) -> str:
    return json.dumps({"hooks": {p: [{"hooks": [{"type": "command", "command": c}]}] for p, c in points.items()}})


@pytest.mark.covers("Q-07", "I-04", "F-24")
def test_safe_autonomy(serve: Serve) -> None:
    """Q-07: money, acceptEdits, and a hook that keeps dangerous commands away."""
    guard = {
        "matcher": "Bash",
        "hooks": [{"type": "command", "command": "grep -q 'rm ' && { echo no rm >&2; exit 2; }"}],
    }
    edit = tool_use("Edit", file_path="a.txt", old_string="old", new_string="new")
    calls = [tool_use("Read", file_path="a.txt"), edit, bash("rm a.txt", "toolu_1"), bash("mkdir fine", "toolu_2")]
    stage = serve(Say.of(*calls), Say.of("Done."))
    (stage.folder / "a.txt").write_text("old\n")
    flags = [
        "--permission-mode=acceptEdits",
        "--max-budget-usd=1",
        "--settings",
        json.dumps({"hooks": {"PreToolUse": [guard]}}),
    ]
    shown = frames(run(stage, *flags, "--output-format=stream-json").stdout)
    assert (stage.folder / "a.txt").read_text() == "new\n"
    assert (stage.folder / "fine").is_dir()
    assert results(stage)[2] == "no rm"
    assert [one["tool_use_id"] for one in shown[-1]["permission_denials"]] == ["toolu_1"]
    assert shown[-1]["total_cost_usd"] < 1


def test_a_guard_with_a_broken_matcher_is_not_open(serve: Serve) -> None:
    """Settled 39: the start goes on, one warning names file and entry, and the hook runs for every call."""
    guard = {"matcher": "Bash(", "hooks": [{"type": "command", "command": "echo guarded >&2; exit 2"}]}
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [guard]}}))
    done = run(stage, "--permission-mode=bypassPermissions")
    assert done.stdout == b"Done.\n"
    assert results(stage) == ["guarded"]
    assert not (stage.folder / "made").exists()
    told = [line for line in done.stderr.decode().splitlines() if "matcher" in line]
    assert len(told) == 1
    assert f"{stage.home / 'settings.json'}:1:" in told[0]
    assert "'hooks.PreToolUse[0].matcher'" in told[0]


def test_a_prompt_that_a_hook_blocks_costs_nothing(serve: Serve) -> None:
    stage = serve()
    flags = ["--settings", hooks(UserPromptSubmit="echo not today >&2; exit 2")]
    shown = frames(run(stage, *flags, "--output-format=stream-json").stdout)
    assert [frame["type"] for frame in shown] == ["system", "result"]
    assert (shown[1]["subtype"], shown[1]["result"], shown[1]["num_turns"]) == ("success", "not today", 0)
    assert run(stage, *flags).stdout == b"not today\n"
    assert stage.requests == []


def test_what_hooks_add_goes_to_the_model(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    run(stage, "--settings", hooks(SessionStart="echo the branch is main", UserPromptSubmit="echo it is late"))
    said = json.dumps(stage.requests[0].body["messages"])
    assert "the branch is main" in said
    assert "it is late" in said


def test_a_stop_hook_lets_the_model_go_on_and_the_end_is_told(serve: Serve) -> None:
    stage = serve(Say.of("Done."), Say.of("Now it is."))
    once = "test -e stopped || { touch stopped; echo the linter found 3 errors >&2; exit 2; }"
    done = run(stage, "--settings", hooks(Stop=once, SessionEnd="touch ended"))
    assert done.stdout == b"Now it is.\n"
    assert "the linter found 3 errors" in json.dumps(stage.requests[1].body["messages"])
    assert (stage.folder / "ended").exists()


def test_a_hook_of_a_project_that_nobody_trusts_does_not_run(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, "project", **json.loads(hooks(SessionStart="touch ran", UserPromptSubmit="touch ran")))
    run(stage)
    assert not (stage.folder / "ran").exists()


# --- finding out ----------------------------------------------------------------------------------------------


def test_config_says_what_holds_and_where_it_came_from(serve: Serve) -> None:
    stage = serve()
    settings(stage, "user", model="opus", permissions={"deny": ["Bash(rm:*)"]}, modl="x")
    settings(stage, "project", permissions={"allow": ["Bash"]})
    shown = stage.run("config").stdout.decode()
    assert f"opus  (user: {stage.home}/settings.json)" in shown
    assert "permissions.deny  Bash(rm:*)" in shown
    assert "unknown:" in shown
    assert "'model'" in shown  # what was probably meant
    assert "untrusted:" in shown


def test_trust_by_the_real_path(serve: Serve, tmp_path: Path) -> None:
    stage = serve()
    link = tmp_path / "link"
    link.symlink_to(stage.folder)
    real = os.path.realpath(stage.folder)
    assert stage.run("trust", str(link)).stdout.decode().startswith(f"Trusted '{real}'.")
    assert stage.run("trust", "--list").stdout.decode() == f"{real}\n"
    assert stat.S_IMODE((stage.home / "trusted.json").stat().st_mode) == 0o600
    assert stage.run("trust", "--remove").stdout.decode() == f"'{real}' is no longer trusted.\n"
    assert stage.run("trust", "--list").stdout == b"No trusted folders.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trust", "nowhere"], "'nowhere' is not a folder"),
        (["trust", "a", "b"], "'mainspring trust': unknown argument 'b'"),
        (["trust", "--list", "x"], "'mainspring trust --list' takes no other arguments"),
        (["trust", "--model", "x"], "'mainspring trust': unknown argument '--model'"),
        (["config", "x"], "'mainspring config': argument ACTION: invalid choice: 'x'"),
        (["permissions"], "'mainspring permissions': the following arguments are required"),
        (["permissions", "explain", "Bash"], "'mainspring permissions explain TOOL INPUT'"),
        (["permissions", "explain", "--batch", "x"], "'mainspring permissions explain TOOL INPUT'"),
        (["--batch"], "unknown flag '--batch'"),
        (["-p", "x", "--remove"], "unknown flag '--remove'"),
        (["--settings", "{}", "config"], "'config' is a subcommand: put it first, 'mainspring config ...'"),
    ],
)
def test_what_the_commands_do_not_know(arguments: list[str], words: str, serve: Serve) -> None:
    done = serve().run(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()


@pytest.mark.parametrize("command", ["sessions", "config", "trust", "permissions explain Bash ls", "-p hello"])
def test_a_home_that_is_no_path_is_told(command: str, serve: Serve) -> None:
    """A relative one would be looked for in whatever repository we are started in."""
    done = serve().run(*command.split(), env={"MAINSPRING_HOME": "relative"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"mainspring: 'MAINSPRING_HOME' is 'relative', but it must be an absolute path")


def explained(stage: Stage, *arguments: str) -> str:
    done = stage.run("permissions", "explain", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_explain_names_the_rule_and_its_source(serve: Serve) -> None:
    stage = serve()
    settings(stage, "user", permissions={"deny": ["Bash(git push:*)"]})
    shown = explained(stage, "Bash", "git -C . push origin")
    assert shown.startswith("deny: a deny rule of source 'user': Bash(git push:*)\n")
    assert "rule: Bash(git push:*) (source: user)" in shown
    assert explained(stage, "Bash", "git log", "--allowedTools", "Bash(git log:*)").startswith("allow: ")
    asked = explained(stage, "Edit", "a.txt")
    assert asked.startswith("ask: no rule covers")
    assert "suggested rule: Edit(/" in asked
    assert explained(stage, "Edit", "a.txt", "--permission-mode", "acceptEdits").startswith("allow: ")


def test_explain_many_in_order(serve: Serve) -> None:
    stage = serve()
    rules = {"allow": ["Bash"], "deny": ["Bash(rm:*)"], "ask": ["Bash(git push:*)"]}
    commands = ["ls", "r\\m x", "git push", "echo $(rm x)"]
    rows: list[Frame] = [
        {"rules": rules, "mode": "default", "tool": "Bash", "input": {"command": command}, "cwd": str(stage.folder)}
        for command in commands
    ]
    rows[0]["mode"] = "manual"
    lines = [json.dumps(row) for row in rows] + ["not json", ""]
    done = stage.run("permissions", "explain", "--batch", input="\n".join(lines).encode())
    answers = frames(done.stdout)
    assert [answer["decision"] for answer in answers] == ["allow", "deny", "ask", "deny", "ask"]
    assert answers[1]["rule"] == "Bash(rm:*)"
    assert "line 5" in answers[4]["error"]


# --- structured output, and the canonical agent -----------------------------------------------------------------


def test_an_answer_of_a_given_shape(serve: Serve) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wrong, right = tool_use("StructuredOutput", "toolu_1", n="3"), tool_use("StructuredOutput", "toolu_2", n=3)
    stage = serve(Say.of(wrong), Say.of(right))
    done = run(stage, "--json-schema", json.dumps(schema), "--output-format=json")
    assert json.loads(done.stdout)["structured_output"] == {"n": 3}
    assert "$.n" in results(stage)[0]


def test_a_schema_that_is_none(serve: Serve) -> None:
    for schema in ("{", "[]", '{"type": "nonsense"}'):
        done = serve().run("-p", "hello", "--json-schema", schema)
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"'--json-schema'" in done.stderr


@pytest.mark.covers("Q-06")
def test_the_canonical_agent(serve: Serve) -> None:
    """Q-06: five tools, project settings, 30 turns, effort high, a result to branch on."""
    # `-B`: the edit keeps size and second of the file, so Python would take the bytecode of the first run for new.
    find = [tool_use("Glob", "toolu_1", pattern="*.py"), tool_use("Grep", "toolu_2", pattern="def add")]
    look = [tool_use("Read", "toolu_3", file_path="calc.py"), bash("python3 -B test_calc.py", "toolu_4")]
    mend = tool_use("Edit", "toolu_5", file_path="calc.py", old_string="a - b", new_string="a + b")
    again = bash("python3 -B test_calc.py", "toolu_6")
    stage = serve(Say.of(*find), Say.of(*look), Say.of(mend), Say.of(again), Say.of("Fixed."))
    (stage.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (stage.folder / "test_calc.py").write_text("import calc\nassert calc.add(1, 2) == 3, calc.add(1, 2)\nprint('ok')\n")
    settings(stage, "project", permissions={"allow": ["Bash(python3 -B test_calc.py)", "Edit"]})
    stage.run("trust")
    flags = [
        "--tools",
        "Read,Edit,Bash,Glob,Grep",
        "--max-turns",
        "30",
        "--effort",
        "high",
        "--output-format=stream-json",
    ]
    shown = frames(run(stage, *flags).stdout)
    assert shown[0]["tools"] == ["Bash", "Read", "Edit", "Glob", "Grep"]
    assert (shown[-1]["subtype"], shown[-1]["is_error"], shown[-1]["result"]) == ("success", False, "Fixed.")
    assert (stage.folder / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert "calc.py" in results(stage, 1)[0]
    assert "AssertionError" in results(stage, 2)[1]
    assert results(stage, 4) == ["ok"]
    assert stage.requests[0].body["output_config"]["effort"] == "high"


@pytest.mark.covers("Q-03")
def test_reads_beside_each_other_and_writes_one_by_one(serve: Serve) -> None:
    """Q-03 with real tools: what the writes leave shows their order, and the frames that the reads came first."""
    reads = [tool_use("Read", f"toolu_r{n}", file_path=f"{n}.txt") for n in range(3)]
    writes = [bash(f"date +%s%N > began{n}; sleep 0.1; date +%s%N > ended{n}", f"toolu_w{n}") for n in range(2)]
    stage = serve(Say.of(*reads, *writes), Say.of("Done."))
    for n in range(3):
        (stage.folder / f"{n}.txt").write_text(f"text {n}")
    shown = frames(run(stage, "--allowedTools=Bash", "--output-format=stream-json").stdout)
    done = [frame["message"]["content"][0]["tool_use_id"] for frame in shown if frame["type"] == "user"]
    assert set(done[:3]) == {"toolu_r0", "toolu_r1", "toolu_r2"}
    assert done[3:] == ["toolu_w0", "toolu_w1"]
    began, ended = [int((stage.folder / name).read_text()) for name in ("began1", "ended0")]
    assert began > ended
