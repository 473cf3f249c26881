"""A key that is shown as in force is in force: each one with the real command, and what came of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Done, Serve, Stage
from mainspring.sandbox import landlock
from mainspring.simulator.replies import Refuse, Say


def settings(stage: Stage, where: str = "user", **said: Any) -> None:
    file = {"user": stage.home, "project": stage.folder / ".claude"}[where] / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said))


def tool_use(name: str, id: str = "", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{id or name}", "name": name, "input": input}


def bash(command: str, id: str = "Bash") -> dict[str, Any]:
    return tool_use("Bash", id, command=command)


def run(stage: Stage, *flags: str) -> Done:
    return stage.run("-p", "hello", *flags)


def fine(stage: Stage, *flags: str) -> Done:
    done = run(stage, *flags)
    assert done.returncode == 0, done.stderr
    return done


def results(stage: Stage) -> list[str]:
    blocks = stage.requests[-1].body["messages"][-1]["content"]
    return ["".join(part["text"] for part in block["content"]) for block in blocks if block["type"] == "tool_result"]


def sent(stage: Stage, number: int = -1) -> dict[str, Any]:
    body: dict[str, Any] = stage.requests[number].body
    return body


def system(stage: Stage) -> str:
    return "\n".join(block["text"] for block in sent(stage)["system"])


def refusal(stage: Stage, *flags: str) -> str:
    """Of a start: nothing was asked of the model."""
    done = run(stage, *flags)
    assert done.returncode == 1
    assert stage.requests == []
    return done.stderr.decode()


# --- models and effort ----------------------------------------------------------------------------------------


@pytest.mark.setting("model")
def test_the_model(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, model="claude-haiku-4-5")
    fine(stage)
    assert sent(stage)["model"] == "claude-haiku-4-5"


@pytest.mark.setting("fallbackModel")
def test_a_fallback(serve: Serve) -> None:
    overloaded = [Refuse(529, "overloaded_error", "Overloaded", {"retry-after": "0"})] * 3
    stage = serve(*overloaded, Say.of("Hi."))
    settings(stage, fallbackModel=["claude-haiku-4-5"])
    fine(stage)
    assert sent(stage)["model"] == "claude-haiku-4-5"


@pytest.mark.setting("effortLevel")
def test_effort(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, effortLevel="low")
    fine(stage)
    assert sent(stage)["output_config"]["effort"] == "low"


@pytest.mark.setting("maxEffortLevel")
@pytest.mark.parametrize(
    ("said", "flags", "effort"),
    [
        ({"effortLevel": "max"}, (), "medium"),
        ({}, ("--effort", "high"), "medium"),
        ({}, (), "medium"),  # the model's own is higher
        ({"effortLevel": "low"}, (), "low"),
    ],
)
def test_effort_is_capped(serve: Serve, said: dict[str, str], flags: tuple[str, ...], effort: str) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, maxEffortLevel="medium", **said)
    settings(stage, "project", maxEffortLevel="high")  # the lowest counts, whoever set it
    fine(stage, *flags)
    assert sent(stage)["output_config"]["effort"] == effort


def test_the_cap_of_an_untrusted_project_holds_too(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, "project", maxEffortLevel="low")
    fine(stage)
    assert sent(stage)["output_config"]["effort"] == "low"


def test_effort_of_agents_is_capped(serve: Serve) -> None:
    agents = {"deep": {"description": "d", "prompt": "p", "effort": "max"}}
    stage = serve(
        Say.of(tool_use("Agent", description="x", prompt="y", subagent_type="deep")), Say.of("Sub."), Say.of("Done.")
    )
    settings(stage, maxEffortLevel="low")
    fine(stage, "--agents", json.dumps(agents))
    assert [request.body["output_config"]["effort"] for request in stage.requests] == ["low"] * 3


@pytest.mark.setting("alwaysThinkingEnabled")
def test_thinking(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    fine(stage, "--model", "claude-haiku-4-5")
    assert sent(stage)["thinking"]["type"] == "enabled"
    settings(stage, alwaysThinkingEnabled=False)
    fine(stage, "--model", "claude-haiku-4-5")
    assert sent(stage).get("thinking", {"type": "disabled"})["type"] == "disabled"


@pytest.mark.setting("availableModels")
@pytest.mark.parametrize("who", ["user", "project"])
@pytest.mark.parametrize("flags", [("--model", "claude-opus-4-8"), ("--fallback-model", "opus")])
def test_a_model_that_is_not_available_is_refused_at_the_start(serve: Serve, who: str, flags: tuple[str, ...]) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, who, availableModels=["haiku", "claude-sonnet-5"])
    said = refusal(stage, *flags)
    assert "is not available because of 'availableModels' in" in said
    assert "choose one of haiku, claude-sonnet-5" in said
    fine(stage, "--model", "haiku")


def test_a_model_of_the_settings_that_is_not_available_is_refused(serve: Serve) -> None:
    stage = serve()
    settings(stage, availableModels=["haiku"], model="opus")
    assert "is not available" in refusal(stage)


def test_an_agent_cannot_ask_for_a_model_that_is_not_available(serve: Serve) -> None:
    stage = serve(
        Say.of(tool_use("Agent", description="x", prompt="y", subagent_type="general-purpose", model="opus")),
        Say.of("Done."),
    )
    settings(stage, availableModels=["haiku"])
    fine(stage, "--model", "haiku")
    assert "is not available: the model" in results(stage)[0]
    assert {request.body["model"] for request in stage.requests} == {sent(stage)["model"]}


@pytest.mark.setting("enforceAvailableModels")
def test_the_default_model_is_available_unless_the_settings_say_otherwise(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    settings(stage, availableModels=["haiku"])
    fine(stage)
    assert "haiku" not in sent(stage)["model"]
    settings(stage, availableModels=["haiku"], enforceAvailableModels=True)
    fine(stage)
    assert "haiku" in sent(stage)["model"]


@pytest.mark.setting("availableModelsMatch")
def test_exact_entries_allow_their_own_version_only(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, availableModels=["claude-sonnet-5"])
    fine(stage, "--model", "claude-sonnet-5-5")
    settings(stage, availableModels=["claude-sonnet-5"], availableModelsMatch="exact")
    done = run(stage, "--model", "claude-sonnet-5-5")
    assert (done.returncode, len(stage.requests)) == (1, 1)


@pytest.mark.setting("deniedModels")
@pytest.mark.parametrize("who", ["user", "project"])
@pytest.mark.parametrize("name", ["opus", "claude-opus-4-8", "claude-opus-4-8-20260101", "openai/claude-opus-4-8"])
def test_a_denied_model_is_refused(serve: Serve, who: str, name: str) -> None:
    stage = serve()
    settings(stage, who, deniedModels=["opus"])
    assert "is not available because of 'deniedModels' in" in refusal(stage, "--model", name)


# --- commands, hooks and rules --------------------------------------------------------------------------------


@pytest.mark.setting("env")
def test_variables(serve: Serve) -> None:
    stage = serve(Say.of(bash("echo $GREETING")), Say.of("Done."))
    settings(stage, env={"GREETING": "moin"})
    fine(stage, "--allowedTools=Bash")
    assert results(stage) == ["moin"]


@pytest.mark.setting("permissions.allow", "permissions.deny", "permissions.ask")
def test_rules(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch a", "1"), bash("touch b", "2"), bash("touch c", "3")), Say.of("Done."))
    settings(stage, permissions={"allow": ["Bash(touch *)"], "deny": ["Bash(touch b)"], "ask": ["Bash(touch c)"]})
    fine(stage)
    assert sorted(file.name for file in stage.folder.iterdir()) == ["a"]


@pytest.mark.setting("permissions.defaultMode")
def test_the_default_mode(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Write", file_path="a", content="x")), Say.of("Done."))
    settings(stage, permissions={"defaultMode": "acceptEdits"})
    fine(stage)
    assert (stage.folder / "a").exists()


@pytest.mark.setting("permissions.additionalDirectories")
def test_more_folders(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Write", file_path="../more/a", content="x")), Say.of("Done."))
    (stage.folder.parent / "more").mkdir()
    settings(stage, permissions={"defaultMode": "acceptEdits", "additionalDirectories": ["../more"]})
    fine(stage)
    assert (stage.folder.parent / "more/a").exists()


@pytest.mark.setting("permissions.disableBypassPermissionsMode")
@pytest.mark.parametrize("who", ["user", "project"])
def test_bypass_mode_is_refused(serve: Serve, who: str) -> None:
    stage = serve()
    settings(stage, who, permissions={"disableBypassPermissionsMode": "disable"})
    said = refusal(stage, "--dangerously-skip-permissions")
    assert "disabled by 'permissions.disableBypassPermissionsMode'" in said


@pytest.mark.setting(
    "disableAutoMode",
    "permissions.disableAutoMode",
    "autoMode.hard_deny",
    "autoMode.soft_deny",
    "autoMode.classifyAllShell",
)
@pytest.mark.parametrize("who", ["user", "project"])
@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"disableAutoMode": "disable"}, "disableAutoMode"),
        ({"permissions": {"disableAutoMode": "disable"}}, "permissions.disableAutoMode"),
        ({"autoMode": {"hard_deny": ["$defaults", "no deploys"]}}, "autoMode.hard_deny"),
        ({"autoMode": {"soft_deny": ["no deploys"]}}, "autoMode.soft_deny"),
        ({"autoMode": {"classifyAllShell": True}}, "autoMode.classifyAllShell"),
    ],
)
def test_auto_mode_is_refused(serve: Serve, who: str, said: dict[str, Any], name: str) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, who, **said)
    assert f"'auto' is disabled by '{name}'" in refusal(stage, "--permission-mode", "auto")
    fine(stage)


@pytest.mark.setting("hooks")
def test_hooks(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    hook = {"type": "command", "command": "echo the hook was here"}
    settings(stage, hooks={"UserPromptSubmit": [{"hooks": [hook]}]})
    fine(stage)
    assert "the hook was here" in json.dumps(sent(stage)["messages"])


@pytest.mark.setting("disableAllHooks")
def test_all_hooks_off(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    hook = {"type": "command", "command": "echo the hook was here"}
    settings(stage, hooks={"UserPromptSubmit": [{"hooks": [hook]}]}, disableAllHooks=True)
    fine(stage)
    assert "the hook was here" not in json.dumps(sent(stage)["messages"])


@pytest.mark.setting("disableSideloadFlags")
@pytest.mark.parametrize(
    "flags",
    [
        ("--agents", '{"a": {"description": "d", "prompt": "p"}}'),
        ("--plugin-dir", "."),
        ("--mcp-config", '{"mcpServers": {"a": {"command": "true"}}}'),
        ("--mcp-config", "servers.json"),
    ],
)
def test_flags_that_bring_something_from_elsewhere_are_refused(serve: Serve, flags: tuple[str, str]) -> None:
    stage = serve()
    settings(stage, disableSideloadFlags=True)
    assert f"'{flags[0]}' is disabled by 'disableSideloadFlags'" in refusal(stage, *flags)


# --- the sandbox ----------------------------------------------------------------------------------------------


# What no reader of commands sees.
SCRIPT = """import os
os.system('''
echo x > one; rm one; mv one two; ln -f free one
mv kept moved; rm -rf kept; mkdir kept; touch kept/new
mkdir missing; echo x > missing/y; ln -s /tmp missing
touch free
''')
"""


def furnish(stage: Stage) -> None:
    (stage.folder / "kept").mkdir()
    (stage.folder / "kept/old").write_text("a")
    (stage.folder / "one").write_text("a")
    (stage.folder / "do.py").write_text(SCRIPT)


def left(stage: Stage) -> dict[str, str]:
    files = {str(file.relative_to(stage.folder)): file for file in stage.folder.rglob("*") if file.is_file()}
    return {name: file.read_text() for name, file in files.items() if not name.startswith(".claude")}


@pytest.mark.setting("sandbox.filesystem.denyWrite")
@pytest.mark.parametrize("who", ["user", "project"])
@pytest.mark.needs("bwrap")
def test_what_must_not_be_written_is_not(serve: Serve, who: str) -> None:
    """By a tool, by a command that names it and by one that does not; a file, a folder and what is missing yet."""
    stage = serve(
        Say.of(
            tool_use("Write", "1", file_path="kept/new", content="x"),
            tool_use("Edit", "2", file_path="one", old_string="a", new_string="b"),
            bash("echo x > one", "3"),
            bash(f"{sys.executable} do.py", "4"),
        ),
        Say.of("Done."),
    )
    furnish(stage)
    paths = ["kept", "./one", str(stage.folder / "missing/y")]
    paths = paths if who == "project" else [str(stage.folder / path) for path in paths]
    settings(stage, who, sandbox={"filesystem": {"denyWrite": paths}})
    fine(stage, "--allowedTools=Bash,Write,Edit,Read")
    assert left(stage) == {"do.py": SCRIPT, "free": "", "kept/old": "a", "one": "a"}


@pytest.mark.setting("sandbox.filesystem.denyRead")
@pytest.mark.parametrize("who", ["user", "project"])
def test_what_must_not_be_read_is_not(serve: Serve, who: str) -> None:
    stage = serve(
        Say.of(
            tool_use("Read", "1", file_path="../keys/one"),
            bash("cat ../keys/one", "2"),
            bash("d=keys; cat ../$d/*; cat $(echo note).txt", "3"),
            tool_use("Read", "4", file_path="note.txt"),
        ),
        Say.of("Done."),
    )
    (stage.folder.parent / "keys").mkdir()
    (stage.folder.parent / "keys/one").write_text("a secret")
    (stage.folder / "note.txt").write_text("a secret")
    settings(
        stage,
        who,
        sandbox={"filesystem": {"denyRead": [str(stage.folder.parent / "keys"), f"{stage.folder}/note.txt"]}},
    )
    fine(stage, "--allowedTools=Bash,Read", "--add-dir", "..")
    assert "a secret" not in json.dumps([request.body for request in stage.requests])


@pytest.mark.setting("sandbox.filesystem.allowWrite")
@pytest.mark.needs("bwrap")
def test_more_can_be_written_in_the_sandbox(serve: Serve) -> None:
    stage = serve(Say.of(bash(f"{sys.executable} do.py")), Say.of("Done."))
    (stage.folder / "do.py").write_text(
        "import os; os.system('touch ../cache/a; touch ../cache/kept/b; touch ../cache/new/c; touch ../other')"
    )
    (stage.folder.parent / "cache/kept").mkdir(parents=True)
    settings(
        stage,
        sandbox={
            "filesystem": {
                "allowWrite": [str(stage.folder.parent / "cache")],
                "denyWrite": [str(stage.folder.parent / "cache" / name) for name in ("kept", "new")],
            }
        },
    )
    fine(stage, "--allowedTools=Bash")
    found = {str(file.relative_to(stage.folder.parent)) for file in stage.folder.parent.rglob("*") if file.is_file()}
    assert {"cache/a", "cache/kept/b", "cache/new/c", "other"} & found == {"cache/a"}


@pytest.mark.needs("bwrap")
def test_a_project_cannot_open_folders(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch ../cache/a")), Say.of("Done."))
    (stage.folder.parent / "cache").mkdir()
    settings(stage, "project", sandbox={"filesystem": {"allowWrite": [str(stage.folder.parent / "cache")]}})
    fine(stage, "--allowedTools=Bash")
    assert list((stage.folder.parent / "cache").iterdir()) == []


def test_without_bubblewrap_landlock_keeps_files_or_nothing_begins(serve: Serve, tmp_path: Path) -> None:
    stage = serve(Say.of(bash(f"{sys.executable} do.py")), Say.of("Done."))
    furnish(stage)
    settings(
        stage, sandbox={"filesystem": {"denyWrite": [str(stage.folder / name) for name in ("kept", "one", "missing")]}}
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "rm", "mv", "mkdir", "touch", "ln", "true", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    done = stage.run("-p", "hello", "--allowedTools=Bash", env={"PATH": str(programs)})
    if landlock.find_landlock_problem(str(tmp_path)):
        assert b"a sandbox is required" in done.stderr
    assert {name: text for name, text in left(stage).items() if name != "free"} == {
        "do.py": SCRIPT,
        "kept/old": "a",
        "one": "a",
    }
    assert not (stage.folder / "missing").exists()


@pytest.mark.setting("sandbox.allowUnsandboxedCommands")
@pytest.mark.needs("bwrap")
def test_no_command_leaves_the_sandbox_if_the_settings_say_so(serve: Serve) -> None:
    leave = tool_use("Bash", command="touch ../there", dangerouslyDisableSandbox=True)
    stage = serve(Say.of(leave), Say.of("Done."))
    settings(stage, sandbox={"allowUnsandboxedCommands": False})
    fine(stage, "--dangerously-skip-permissions")
    assert not (stage.folder.parent / "there").exists()


@pytest.mark.setting("sandbox.network.deniedDomains")
@pytest.mark.parametrize("who", ["user", "project"])
def test_denied_domains_are_denied_to_tools(serve: Serve, who: str) -> None:
    stage = serve(Say.of(tool_use("WebFetch", url="https://evil.example.com/", prompt="x")), Say.of("Done."))
    settings(stage, who, sandbox={"network": {"deniedDomains": ["*.example.com"]}})
    fine(stage, "--allowedTools=WebFetch")
    assert "WebFetch(domain:*.example.com)" in results(stage)[0]


# --- what the model is told -----------------------------------------------------------------------------------


@pytest.mark.setting("claudeMdExcludes")
def test_memory_files_that_are_left_out(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder / "CLAUDE.md").write_text("The project likes coffee.")
    (stage.folder / "AGENTS.md").write_text("The agents like tea.")
    settings(stage, claudeMdExcludes=["**/CLAUDE.md"])
    fine(stage)
    said = json.dumps(sent(stage)["messages"])
    assert ("coffee" in said, "tea" in said) == (False, True)


@pytest.mark.setting("skillOverrides")
def test_skills_that_are_hidden(serve: Serve) -> None:
    stage = serve(
        Say.of(*[tool_use("Skill", name, skill=name) for name in ("off", "mine", "short", "usual")]), Say.of("Done.")
    )
    for name in ("off", "mine", "short", "usual"):
        (stage.home / "skills" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: About {name} things.\n---\nThe body of {name}."
        (stage.home / "skills" / name / "SKILL.md").write_text(text)
    settings(stage, skillOverrides={"off": "off", "mine": "user-invocable-only", "short": "name-only"})
    done = fine(stage, "--output-format=stream-json", "--verbose", "--allowedTools=Skill")
    told = json.dumps(sent(stage, 0)["messages"])
    assert [f"About {name} things." in told for name in ("off", "mine", "short", "usual")] == [
        False,
        False,
        False,
        True,
    ]
    assert ["The body of" in result for result in results(stage)] == [False, False, True, True]
    words = json.loads(done.stdout.splitlines()[0])["slash_commands"]
    assert [name in words for name in ("off", "mine")] == [False, True]


@pytest.mark.setting("outputStyle")
@pytest.mark.parametrize("name", ["Proactive", "Concise", "Explanatory", "Learning"])
def test_a_built_in_output_style(serve: Serve, name: str) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, outputStyle=name)
    done = fine(stage, "--output-format=stream-json", "--verbose")
    assert json.loads(done.stdout.splitlines()[0])["output_style"] == name
    assert f"# Output style: {name}" in system(stage)
    assert "# How to work" in system(stage)  # they keep what is said about coding,
    assert "# Answers" not in system(stage)  # but not that answers are to be brief


def test_an_output_style_of_ones_own_and_one_that_is_not_there(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    (stage.home / "output-styles").mkdir(parents=True)
    (stage.home / "output-styles/pirate.md").write_text("---\nname: Pirate\n---\nSay arr.")
    settings(stage, outputStyle="Pirate")
    fine(stage)
    assert "# Output style: Pirate\n\nSay arr." in [block["text"] for block in sent(stage)["system"]]
    assert "# How to work" not in system(stage)
    settings(stage, outputStyle="Haiku")
    done = fine(stage, "--output-format=stream-json", "--verbose")
    assert b"unknown output style 'Haiku'. Available: default, Proactive, Concise, Explanatory" in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["output_style"] == "default"


@pytest.mark.parametrize("trusted", [False, True])
def test_an_output_style_of_a_project_needs_trust(serve: Serve, trusted: bool) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder / ".claude/output-styles").mkdir(parents=True)
    (stage.folder / ".claude/output-styles/pirate.md").write_text("Say arr.")
    settings(stage, "project", outputStyle="pirate")
    if trusted:
        assert stage.run("trust").returncode == 0
    fine(stage)
    assert ("Say arr." in system(stage)) is trusted


# --- sessions -------------------------------------------------------------------------------------------------


@pytest.mark.setting("cleanupPeriodDays")
def test_old_sessions_are_removed_and_the_one_in_use_is_not(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."), Say.of("Hi.", pace_ms=50))
    fine(stage)
    fine(stage)
    first, second = stage.sessions()
    for file in (first, second):
        os.utime(file, (time.time() - 9 * 86_400,) * 2)
    settings(stage, cleanupPeriodDays=1)
    fine(stage, "--resume", second.stem)
    assert stage.sessions() == [second]


def test_without_the_key_or_by_a_project_nothing_is_removed(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    fine(stage)
    (first,) = stage.sessions()
    os.utime(first, (time.time() - 999 * 86_400,) * 2)
    settings(stage, "project", cleanupPeriodDays=1)
    assert stage.run("trust").returncode == 0
    assert b"'cleanupPeriodDays' is not used: a project may not set it" in fine(stage).stderr
    assert first in stage.sessions()


# --- a word to the person -------------------------------------------------------------------------------------


def test_an_unsupported_key_is_told_at_the_start_and_in_config(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, verbose=True)
    assert b"'verbose' has no effect: the terminal of mainspring cannot be customized" in fine(stage).stderr
    assert b"unsupported: " in stage.run("config").stdout


def test_a_refused_key_stops_every_start_but_not_trust(serve: Serve) -> None:
    stage = serve()
    settings(stage, "project", isolation={"required": True})
    assert stage.run("trust").returncode == 0
    said = refusal(stage)
    assert "'isolation.required' restricts where commands run, and mainspring does not support it" in said
    assert "mainspring trust --remove" in said
    assert stage.run("config").returncode == 1
    assert stage.run("trust", "--remove").returncode == 0


def test_config_shows_the_settings_beside_every_refused_key(serve: Serve) -> None:
    stage = serve()
    settings(stage, model="claude-opus-4-8", agent="reviewer", deniedModels=1)
    done = stage.run("config")
    shown = done.stdout.decode()
    assert done.returncode == 1
    assert "claude-opus-4-8" in shown
    assert "refused: " in shown
    assert "'agent' restricts the tools of the session to those of one agent" in shown
    assert "'deniedModels' is a restriction that cannot be read" in shown
    assert shown.count("Correct or remove it") == 2
    assert "'mainspring config' names 1 more" in refusal(stage)


def test_an_untrusted_folder_loses_what_a_refused_key_restricts(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, "project", isolation={"required": True})
    done = fine(stage, "--allowedTools=Bash")
    assert b"so this session has no Bash" in done.stderr
    assert "Bash" not in [tool["name"] for tool in sent(stage)["tools"]]


@pytest.mark.parametrize(("siblings", "written"), [("isolate", True), ("cascade", False)])
def test_what_a_failed_command_does_to_those_behind_it(serve: Serve, siblings: str, written: bool) -> None:
    stage = serve(
        Say.of(tool_use("Bash", "a", command="false"), tool_use("Bash", "b", command="echo > made")), Say.of("Done.")
    )
    settings(stage, features={"siblings": siblings}, permissions={"allow": ["Bash"]})
    fine(stage, "--permission-mode=acceptEdits")
    assert (stage.folder / "made").exists() is written
