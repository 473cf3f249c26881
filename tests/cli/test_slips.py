"""Slips of the pen: what matches nothing is named, with what was probably meant, before anybody waits or pays."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKError, query

from cli.stage import COMMAND, PATIENCE, Done, Serve, Stage, frames
from mainspring.agent.options import MODES
from mainspring.simulator.replies import Say


def told(done: Done) -> list[str]:
    return [line.removeprefix("mainspring: ") for line in done.stderr.decode().splitlines()]


def settings(stage: Stage, **said: Any) -> str:
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.json").write_text(json.dumps(said))
    return f"{stage.home}/settings.json"


# --- rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--allowedTools", "Bsh(git *)"), "'--allowedTools Bsh(git *)': there is no tool 'Bsh'. Did you mean 'Bash'?"),
        (("--disallowedTools", "read"), "'--disallowedTools read': there is no tool 'read'. Did you mean 'Read'?"),
        (("--disallowedTools", "Frobnicate"), "'--disallowedTools Frobnicate': there is no tool 'Frobnicate'"),
        (
            ("--allowedTools", "Bash(git log"),
            "'--allowedTools Bash(git log': the rule 'Bash(git log' has no closing parenthesis at its end",
        ),
        (("--model", "sonet"), "'--model': unknown model 'sonet'. Did you mean 'sonnet'?"),
        (("--fallback-model", "hiaku"), "'--fallback-model': unknown model 'hiaku'. Did you mean 'haiku'?"),
    ],
)
def test_a_slip_in_a_flag_is_told_and_the_run_goes_on(flags: tuple[str, ...], words: str, serve: Serve) -> None:
    done = serve(Say.of("Hi.")).run("-p", "hello", *flags)
    assert (done.returncode, done.stdout, told(done)) == (0, b"Hi.\n", [words])


def test_a_slip_in_settings_is_told_with_its_file(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    file = settings(
        stage,
        permissions={"deny": ["Bsh(rm:*)", "Raed(./secret)"], "ask": ["bash(git push)"], "allow": ["Grpe", "Grep"]},
        model="opsu",
    )
    assert told(stage.run("-p", "hello")) == [
        f"{file}: 'permissions.deny' has 'Bsh(rm:*)', and there is no tool 'Bsh'. Did you mean 'Bash'?",
        f"{file}: 'permissions.deny' has 'Raed(./secret)', and there is no tool 'Raed'. Did you mean 'Read'?",
        f"{file}: 'permissions.ask' has 'bash(git push)', and there is no tool 'bash'. Did you mean 'Bash'?",
        f"{file}: 'permissions.allow' has 'Grpe', and there is no tool 'Grpe'. Did you mean 'Grep'?",
        "'model': unknown model 'opsu'. Did you mean 'opus'?",
    ]


def test_the_doctor_and_the_list_of_settings_know_of_slips(serve: Serve) -> None:
    stage = serve()
    file = settings(stage, permissions={"deny": ["Bsh(rm:*)"]})
    words = f"{file}: 'permissions.deny' has 'Bsh(rm:*)', and there is no tool 'Bsh'. Did you mean 'Bash'?"
    assert f"unknown: {words}" in stage.run("config").stdout.decode().splitlines()
    found = json.loads(stage.run("doctor", "--json").stdout)
    assert words in [one["says"] for one in found["checks"]]


def test_of_many_slips_some_are_told(serve: Serve) -> None:
    names = ",".join(f"Bsh(git {number})" for number in range(25))
    lines = told(serve(Say.of("Hi.")).run("-p", "hello", "--allowedTools", names))
    assert len(lines) == 11
    assert lines[-1] == "and 15 more like these"


@pytest.mark.parametrize(
    "flags",
    [
        ("--allowedTools", "Bash(git log:*),Read,Task,Agent(Explore),mcp__github,mcp__github__read,mcp__github__*"),
        ("--disallowedTools", "MultiEdit,TodoWrite,Web*,mcp__*,Bash()"),
        ("--model", "claude-haiku-4-5-20251001"),
    ],
)
def test_what_is_no_slip_is_not_spoken_of(flags: tuple[str, ...], serve: Serve) -> None:
    done = serve(Say.of("Hi.")).run("-p", "hello", *flags)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_model_of_ones_own_is_no_slip(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, models={"sonet": {"window": 50_000, "inputUsd": 1, "outputUsd": 2}})
    done = stage.run("-p", "hello", "--model", "sonet")
    assert (done.returncode, done.stderr) == (0, b"")


# --- closed lists ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-p", "x", "--tools", "Read,Bsh"), "'--tools Bsh': there is no such tool. Did you mean 'Bash'?"),
        (("-p", "x", "--modle", "opus"), "unknown flag '--modle'. Did you mean '--model'?"),
        (("-p", "x", "--disallow-tools=Bash"), "unknown flag '--disallow-tools'. Did you mean '--disallowedTools'?"),
        (
            ("-p", "x", "--permission-mode", "acceptedits"),
            f"'--permission-mode' must be one of {', '.join(MODES)}, not 'acceptedits'. Did you mean 'acceptEdits'?",
        ),
        (
            ("sesions",),
            "unknown command 'sesions'. Did you mean 'sessions'? To send it as a prompt: 'mainspring -p sesions'.",
        ),
        (("trust", "--remov"), "'mainspring trust': unknown argument '--remov'. Did you mean '--remove'?"),
    ],
)
def test_where_the_list_is_closed_nothing_is_begun(arguments: tuple[str, ...], words: str, serve: Serve) -> None:
    """Also where no terminal is: a command that is misspelt is no prompt for a model."""
    page = "mainspring trust --help" if arguments[0] == "trust" else "mainspring --help"
    stage = serve()
    done = stage.run(*arguments)
    assert (done.returncode, done.stdout, told(done)) == (1, b"", [f"{words} See '{page}'."])
    assert stage.requests == []


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("signin", "."),
        ("update", "."),
        ("hello", "."),
        ("resume", ". Did you mean '--resume'?"),
        ("continue", ". Did you mean '--continue'?"),
        ("agents", ". Did you mean '--agents'?"),
        ("rename", ". In a conversation, type '/rename'."),
        ("hlep", ". Did you mean 'help'?"),
    ],
)
def test_a_bare_word_is_no_prompt_in_a_pipe_either(word: str, hint: str, serve: Serve) -> None:
    """Settled 42."""
    stage = serve()
    done = stage.run(word)
    words = f"unknown command '{word}'{hint} To send it as a prompt: 'mainspring -p {word}'. See 'mainspring --help'."
    assert (done.returncode, done.stdout, told(done)) == (1, b"", [words])
    assert stage.requests == []


def test_a_bare_word_after_p_is_a_prompt(serve: Serve) -> None:
    assert serve(Say.of("Ho.")).run("-p", "sesions").stdout == b"Ho.\n"


def test_help_is_a_command(serve: Serve) -> None:
    stage = serve()
    assert stage.run("help").stdout == stage.run("--help").stdout
    assert stage.run("help", "trace").stdout == stage.run("trace", "--help").stdout
    done = stage.run("help", "trase")
    assert told(done) == ["no help for 'trase'. Did you mean 'trace'? 'mainspring help topics' lists the pages."]


def test_help_prints_pages_of_the_documentation(serve: Serve) -> None:
    stage = serve()
    topics = [line.split()[0] for line in stage.run("help", "topics").stdout.decode().split("\n  ")[1:]]
    assert "library" in topics
    assert not [topic for topic in topics if topic.startswith(("decisions/", "spec/", "screens/"))]
    page = Path(__file__).parents[2] / "docs/library.md"
    for name in ("library", "library.md"):
        assert stage.run("help", name).stdout == page.read_bytes()
    shown = stage.run("help", "own-tool").stdout
    assert shown == stage.run("help", "tutorial/own-tool").stdout
    assert b"<!--" not in shown  # what scripts the model of the page


# --- unknown models -------------------------------------------------------------------------------------------

ASSUMED = "its price is unknown, and its context window is assumed to be 200,000 tokens. Set both under 'models'"


@pytest.mark.parametrize("name", ["claude-sonnet-6", "a-model-of-my-own", "openai/none"])
def test_an_unknown_model_is_used_with_a_warning(name: str, serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    server = {"OPENAI_BASE_URL": f"{stage.server.url}/v1", "OPENAI_API_KEY": "none"}
    done = stage.run("-p", "hello", "--model", name, env=server)
    assert (done.returncode, done.stdout) == (0, b"Hi.\n")
    assert told(done) == [f"unknown model '{name}': {ASSUMED} in your settings"]


def test_a_model_with_a_window_but_no_price_is_named(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, models={"mine": {"window": 50_000}})
    done = stage.run("-p", "hello", "--model", "mine")
    assert told(done) == [
        "the price of model 'mine' is unknown: set it under 'models' in your settings (0 if it is free)"
    ]


def test_a_model_with_price_and_window_needs_no_warning(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    settings(stage, models={"mine": {"window": 50_000, "inputUsd": 1, "outputUsd": 2}})
    done = stage.run("-p", "hello", "--model", "mine")
    assert (done.returncode, done.stderr) == (0, b"")


def test_who_makes_no_mistake_does_not_pay_for_it(serve: Serve) -> None:
    """What looks for a name that is near is not loaded; nor is it with a rule for a tool of a server."""
    stage = serve(Say.of("Hi."))
    run = "main(['-p', 'hello', '--allowedTools', 'Bash(ls),mcp__a__b'])"
    look = "print([name for name in sys.modules if name == 'difflib'])"
    code = f"import sys; from mainspring.cli.main import main; {run}; {look}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=stage.folder,
        env=stage.environment,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == b"Hi.\n[]\n"


# --- folders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_is_not_there_is_an_error_if_a_flag_names_it(made: bool, serve: Serve) -> None:
    """A file is none either."""
    stage = serve()
    if made:
        (stage.folder / "more").write_text("")
    done = stage.run("-p", "hello", "--add-dir", "more")
    assert (done.returncode, done.stdout) == (1, b"")
    assert told(done) == ["'--add-dir more': there is no such directory. See 'mainspring --help'."]
    assert stage.requests == []


def test_a_folder_that_is_not_there_is_told_if_settings_name_it(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder / "there").mkdir()
    file = settings(stage, permissions={"additionalDirectories": ["there", "gone", "~"]})
    done = stage.run("-p", "hello")
    assert told(done) == [f"{file}: 'permissions.additionalDirectories' has 'gone', but there is no such directory"]
    assert done.stdout == b"Hi.\n"


def test_a_folder_of_the_settings_that_a_command_may_have_swapped_for_a_link(serve: Serve) -> None:
    """The sandbox lets commands write in the working folders, so a link there is nobody's word for where it leads."""
    write = {"type": "tool_use", "id": "a", "name": "Write", "input": {"file_path": "../elsewhere/a", "content": "x"}}
    stage = serve(Say.of(write), Say.of("Done."))
    elsewhere = stage.folder.parent / "elsewhere"
    elsewhere.mkdir()
    (stage.folder / "docs").symlink_to("../elsewhere")
    named = {"permissions": {"defaultMode": "acceptEdits", "additionalDirectories": ["docs"]}}
    file = settings(stage, **named, sandbox={"filesystem": {"allowWrite": [f"{stage.folder}/docs"]}})
    done = stage.run("-p", "hello")
    lines = [line for line in told(done) if not line.startswith("1 tool call was denied")]
    assert sorted([line.replace(f"{stage.folder}/docs", "docs") for line in lines]) == [
        f"{file}: '{key}' has 'docs', which is now a link to '{elsewhere}'. It is skipped, because a command may have "
        "created the link: if you mean that directory, name it itself"
        for key in ("permissions.additionalDirectories", "sandbox.filesystem.allowWrite")
    ]
    assert list(elsewhere.iterdir()) == []


# --- over the pipe --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        (("--add-dir", "more"), {}, "'--add-dir more': there is no such directory"),
        ((), {"ANTHROPIC_BASE_URL": ""}, "no API key found"),
    ],
)
def test_a_program_hears_as_a_result_why_nothing_was_begun(
    flags: tuple[str, ...], env: dict[str, str], words: str, serve: Serve
) -> None:
    """And as before: words on standard error, and exit code 1."""
    stage = serve()
    done = stage.run("--input-format=stream-json", "--output-format=stream-json", "--verbose", *flags, env=env)
    [result] = frames(done.stdout)
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "error_during_execution", True)
    assert result["errors"][0].startswith(words)
    assert result["num_turns"] == result["total_cost_usd"] == 0
    assert f"mainspring: {words}" in done.stderr.decode()
    assert done.returncode == 1


def test_the_real_client_knows_that_there_is_no_key(serve: Serve) -> None:
    stage = serve()
    script = stage.folder / "mainspring"
    script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    options = ClaudeAgentOptions(
        cli_path=script, cwd=stage.folder, env=stage.environment | {"ANTHROPIC_BASE_URL": ""}, stderr=lambda _: None
    )

    async def said() -> str:
        try:
            async for _ in query(prompt="hello", options=options):
                pass
        except ClaudeSDKError as error:
            return str(error)
        return ""

    words = asyncio.run(said())
    assert "no API key found" in words
    assert "ANTHROPIC_API_KEY" in words


def test_what_a_flag_has_wrong_is_no_result(serve: Serve) -> None:
    """As stream-json 1.6 has it."""
    done = serve().run("--input-format=stream-json", "--modle=x")
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("matcher", "slip"),
    [
        ("Bsh", "there is no tool 'Bsh'. Did you mean 'Bash'?"),
        ("Edit|Wrte", "there is no tool 'Wrte'. Did you mean 'Write'?"),
        ("Edit|MultiEdit|Write", ""),
        ("mcp__server__tool", ""),
        ("Ba.*", ""),
        ("*", ""),
        ("", ""),
    ],
)
def test_a_hook_that_matches_no_tool_is_told(serve: Serve, matcher: str, slip: str) -> None:
    stage = serve(Say.of("Hi."))
    hook = {"matcher": matcher, "hooks": [{"type": "command", "command": "true"}]}
    file = settings(stage, hooks={"PreToolUse": [hook], "SessionStart": [{**hook, "matcher": "startup"}]})
    lines = [f"{file}: the matcher '{matcher}' of 'hooks.PreToolUse[0].hooks[0]': {slip}"] if slip else []
    assert told(stage.run("-p", "hi")) == lines


# --- heads of skills, commands and styles ---------------------------------------------------------------------


def head(stage: Stage, name: str, fields: str) -> str:
    path = stage.home / name
    path.parent.mkdir(parents=True)
    path.write_text(f"---\n{fields}\n---\nDo it.\n")
    return str(path)


def test_odd_fields_in_heads_are_told(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    skill = head(stage, "skills/a/SKILL.md", "description: d\nallowed-tols: Read\ncontext: fork\nlicense: MIT")
    command = head(stage, "commands/b.md", "description: d\nargument-hnt: x")
    style = head(stage, "output-styles/c.md", "keep-coding-instruction: true")
    settings(stage, outputStyle="c")
    assert told(stage.run("-p", "hi")) == [
        f"the output style '{style}': nobody knows 'keep-coding-instruction'. Did you mean 'keep-coding-instructions'?",
        f"the skill '{skill}': nobody knows 'allowed-tols'. Did you mean 'allowed-tools'?",
        f"the skill '{skill}': 'context' has no effect here yet",
    ]
    words = f"the command '{command}': nobody knows 'argument-hnt'. Did you mean 'argument-hint'?"
    assert words in told(stage.run("-p", "/b"))


def test_a_skill_that_is_left_out_is_told_without_a_slash(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    head(stage, "skills/good/SKILL.md", "description: d")
    bad = head(stage, "skills/bad/SKILL.md", "description: *x")
    assert any(f"the skill '{bad}' is left out: " in line for line in told(stage.run("-p", "hi")))


def test_servers_of_one_name_are_told_whoever_has_them(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    file = settings(stage, mcpServers={"a": {"command": "false"}})
    ours, inline = '{"mcpServers": {"a": {"command": "true"}}}', '{"mcpServers": {"a": {"command": "cat"}}}'
    lines = told(stage.run("-p", "hi", "--mcp-config", ours, "--settings", inline))
    assert "--settings: the MCP server 'a' is skipped: the command line (--mcp-config) also defines it" in lines

    assert f"{file}: the MCP server 'a' is not used: '--settings' defines it, too" in lines


def test_a_list_of_servers_under_another_name_is_told(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    lines = told(stage.run("-p", "hi", "--mcp-config", '{"mcpservers": {"a": {"command": "true"}}}'))
    assert lines == ["--mcp-config: no server found, because it has no 'mcpServers'. It has 'mcpservers'"]
