"""What the command tells the model beside the prompt: memory, skills, notes, surroundings; and what it takes away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.stage import Serve, Stage, frames
from mainspring.simulator.replies import Say


def tool_use(name: str, id: str = "", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id or f"toolu_{name}", "name": name, "input": input}


def reminders(stage: Stage, number: int = -1) -> list[str]:
    messages = stage.requests[number].body["messages"]
    texts = [block.get("text", "") for message in messages for block in message["content"]]
    return [text for text in texts if text.startswith("<system-reminder")]


@pytest.mark.covers("N-23", "D-37")
def test_memory_files_are_told_once_and_not_shown(serve: Serve) -> None:
    stage = serve(Say.of("Let me look.", tool_use("Glob", pattern="*")), Say.of("Hi."), Say.of("Again."))
    (stage.folder / "CLAUDE.md").write_text("Always speak Dutch.")
    shown = frames(stage.run("-p", "hello", "--output-format=stream-json", "--verbose").stdout)
    [memory] = [text for text in reminders(stage) if "Always speak Dutch." in text]
    assert 'kind="memory"' in memory
    assert "Dutch" not in json.dumps(shown)
    stage.run("-p", "and now?", "--continue")
    assert len([text for text in reminders(stage) if "Always speak Dutch." in text]) == 1


def test_setting_sources_choose_among_them(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    (stage.folder / "AGENTS.md").write_text("From the project.")
    (stage.folder / "CLAUDE.local.md").write_text("From me.")
    stage.run("-p", "hello", "--setting-sources=local")
    assert "From me." in str(reminders(stage))
    assert "From the project." not in str(reminders(stage))
    stage.run("-p", "hello", "--setting-sources=")
    assert "From" not in str(reminders(stage))


@pytest.mark.covers("N-22")
def test_a_skill_is_listed_and_loaded(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Skill", skill="deploy", args="staging")), Say.of("Done."))
    skill = stage.home / "skills" / "deploy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: How we deploy.\n---\nDeploy to $ARGUMENTS, at night.")
    assert stage.run("-p", "deploy it", "--allowedTools=Skill").stdout == b"Done.\n"
    assert "- deploy: How we deploy." in str(reminders(stage, 0))
    assert "Skill" in [tool["name"] for tool in stage.requests[0].body["tools"]]
    [result] = [b for m in stage.requests[1].body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "Deploy to staging, at night." in str(result["content"])


@pytest.mark.covers("T-01")
def test_a_project_that_nobody_trusts_cannot_lead_out_of_its_folder(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder.parent / "secret.md").write_text("the password is swordfish")
    (stage.folder / "CLAUDE.md").write_text("See @../secret.md for more.")
    done = stage.run("-p", "hello")
    assert "swordfish" not in str(stage.requests[0].body)
    assert b"mainspring: '" in done.stderr
    assert b"mainspring trust" in done.stderr


def test_a_long_session_is_made_smaller_on_its_way(serve: Serve) -> None:
    """Many reads under a small window: it goes through, results are cleared, every request is valid."""
    reads = [Say.of(f"Look {n}.", tool_use("Read", f"toolu_{n}", file_path=f"{n}.txt")) for n in range(30)]
    stage = serve(*reads, Say.of("All read."))
    for n in range(30):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    done = stage.run("-p", "read all", "--context-window=40000", "--output-format=stream-json", "--verbose")
    shown = frames(done.stdout)
    assert shown[-1]["result"] == "All read."
    assert max(len(request.raw) for request in stage.requests) < 40_000 * 4
    assert "[Old tool result cleared" in str(stage.requests[-1].body)
    assert [frame for frame in shown if frame.get("subtype") == "compact_boundary"]
