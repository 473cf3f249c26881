"""Settings and files of the project: which of them are read. See stream-json 15."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import HookEventMessage

from mainspring.simulator.replies import Say
from pipe.stage import Serve, Stage, bash, call, words


def write(path: Path, text: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def furnish(stage: Stage) -> None:
    """The same things from each source, told apart by their words."""
    places = {"user": stage.home, "project": stage.folder / ".claude"}
    write(stage.home / "CLAUDE.md", "The user likes tea.")
    write(stage.folder / "CLAUDE.md", "The project likes coffee.")
    for name, place in places.items():
        write(place / "commands" / f"{name}-word.md", f"---\ndescription: Says.\n---\nthe {name} says $ARGUMENTS")
        write(
            place / "skills" / f"{name}-skill" / "SKILL.md",
            f"---\nname: {name}-skill\ndescription: Skill of the {name}.\n---\nBody.",
        )
        write(place / "agents" / f"{name}-agent.md", f"---\nname: {name}-agent\ndescription: An agent.\n---\nYou are.")
        write(place / "settings.json", {"permissions": {"deny": [f"Bash(touch {name})"]}})
    write(stage.folder / ".claude" / "settings.local.json", {"permissions": {"deny": ["Bash(touch local)"]}})


@pytest.mark.parametrize("sources", [None, ["project"], ["user"], []], ids=["absent", "project", "user", "none"])
@pytest.mark.covers("M-13", "N-22", "N-23")
def test_which_files_are_read(sources: list[Any] | None, serve: Serve) -> None:
    """15: memory, commands, skills, agents and rules of each source that is on, and of no other; absent is all."""
    names = ("user", "project", "local")
    stage = serve(Say.of(*[bash(f"touch {name}", name) for name in names]), Say.of("Done."))
    furnish(stage)
    told = stage.ask("make", setting_sources=sources, allowed_tools=["Bash"])
    on = set(names if sources is None else sources)
    first = stage.said(0) + stage.system(0)
    assert {"user": "likes tea" in first, "project": "likes coffee" in first} == {
        name: name in on for name in names[:2]
    }
    fields = {"word": "slash_commands", "agent": "agents", "skill": "skills"}
    things = [(name, kind) for name in names[:2] for kind in fields]
    assert {f"{name}-{kind}" for name, kind in things if f"{name}-{kind}" in told.init[fields[kind]]} == {
        f"{name}-{kind}" for name, kind in things if name in on
    }
    assert {block.tool_use_id.removeprefix("toolu_"): bool(block.is_error) for block in told.outcomes} == {
        name: name in on for name in names
    }


@pytest.mark.covers("O-03")
def test_a_command_of_the_project(serve: Serve) -> None:
    """15, 3.2: its body is the prompt, `$ARGUMENTS` replaced; the answer to `initialize` lists it."""
    stage = serve(Say.of("Hi."))
    write(
        stage.folder / ".claude" / "commands" / "shout.md",
        "---\ndescription: Shouts.\nargument-hint: word\n---\nshout $ARGUMENTS now",
    )
    with stage.pipe() as pipe:
        said = {command["name"]: command for command in pipe.initialize()["commands"]}
        assert "Shouts." in said["shout"]["description"]
        assert said["shout"]["argumentHint"] == "word"
        assert pipe.turn("/shout it loud")["result"] == "Hi."
        assert pipe.finish() == 0
    assert "shout it loud now" in stage.said(0)


@pytest.mark.covers("N-22")
def test_skills(serve: Serve) -> None:
    """15, 1.2: `skills` lists those that the model hears of; the body comes with the `Skill` tool; `[]` hides all."""
    stage = serve(Say.of(call("Skill", skill="one")), Say.of("Done."), Say.of("Hi."))
    for name in ("one", "two"):
        write(
            stage.folder / ".claude" / "skills" / name / "SKILL.md",
            f"---\nname: {name}\ndescription: About {name} things.\n---\nThe body of {name}.",
        )
    told = stage.ask("go", skills=["one"])
    assert told.result.result == "Done."
    assert not told.outcomes[0].is_error
    assert "About one things." in stage.requests[0].raw.decode()
    assert "About two things." not in stage.requests[0].raw.decode()
    assert "The body of one." in stage.said(1)
    stage.ask("go", skills=[], setting_sources=["project"])
    assert "About one things." not in stage.requests[-1].raw.decode()


@pytest.mark.covers("I-01")
def test_hooks_env_and_style_of_the_settings(serve: Serve) -> None:
    """15, 10, 6.7: command hooks block with 2; `env` is set; `outputStyle` is echoed."""
    stage = serve(Say.of(bash("touch a", "a")), Say.of(bash("echo [$FROM_SETTINGS]", "b")), Say.of("Done."))
    command = 'grep -q "touch a" && { echo "no touching" >&2; exit 2; } || exit 0'
    settings = {
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]},
        "env": {"FROM_SETTINGS": "yes"},
        "outputStyle": "Explanatory",
        "model": "claude-opus-5",
    }
    told = stage.ask("go", settings=json.dumps(settings), allowed_tools=["Bash"], include_hook_events=True)
    first, second = told.outcomes
    assert (first.is_error, "no touching" in words(first)) == (True, True)
    assert "[yes]" in words(second)
    assert (told.init["output_style"], told.init["model"]) == ("Explanatory", "claude-opus-5")
    assert not (stage.folder / "a").exists()
    seen = told.of(HookEventMessage)
    assert [(one.subtype, one.hook_event_name) for one in seen] == [
        ("hook_started", "PreToolUse"),
        ("hook_response", "PreToolUse"),
    ] * 2
    assert [(one.data["exit_code"], one.data["outcome"], one.data["stderr"]) for one in seen[1::2]] == [
        (2, "error", "no touching"),
        (0, "success", ""),
    ]
    assert told.init["flags_not_honoured"] == []


def test_allow_rules_of_a_project_that_nobody_trusts(serve: Serve) -> None:
    """9: a project's own allow rules do not count in a folder that is not trusted; its deny rules always do."""
    stage = serve(Say.of(bash("touch a", "a"), bash("touch b", "b")), Say.of("Done."))
    write(
        stage.folder / ".claude" / "settings.json",
        {"permissions": {"allow": ["Bash(touch a)"], "deny": ["Bash(touch b)"]}},
    )
    told = stage.ask("make", setting_sources=["project"])
    assert [bool(block.is_error) for block in told.outcomes] == [True, True]
    assert told.result.result == "Done."
