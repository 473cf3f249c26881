"""A session's file that goes away while it is used: every front end says so, and the file is there again."""

from __future__ import annotations

import json
from typing import Any

from cli.stage import Serve, Stage, frames
from cli.terminal import SitAt, sit_at
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture


def removing(serve: Serve, by: str) -> Stage:
    """A hook does it, at the first call."""
    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "Glob", "input": {"pattern": "*"}}
    stage = serve(Say.of("Let me look.", call), Say.of("Done."), Say.of("Again."))
    stage.home.mkdir(parents=True)
    hook = {"hooks": [{"type": "command", "command": by.format(home=stage.home)}]}
    said = {"hooks": {"PreToolUse": [hook]}, "sandbox": {"enabled": False}}
    (stage.home / "settings.json").write_text(json.dumps(said))
    return stage


def test_it_is_told_and_nothing_is_lost(serve: Serve) -> None:
    stage = removing(serve, "rm {home}/projects/*/*.jsonl")
    done = stage.run("-p", "remember the word swordfish")
    [file] = stage.sessions()
    assert done.stdout == b"Done.\n"
    assert done.stderr.decode() == (
        f"mainspring: '{file}' was removed while this session was using it: it was written again\n"
    )
    assert stage.run("-p", "and now?", "--continue").stdout == b"Again.\n"
    assert "swordfish" in json.dumps(stage.requests[-1].body["messages"])


def test_a_driven_session_tells_it_as_well(serve: Serve) -> None:
    stage = removing(serve, "rm {home}/projects/*/*.jsonl")
    said = {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None, "session_id": ""}
    flags = ["--input-format=stream-json", "--output-format=stream-json", "--verbose"]
    done = stage.run("-p", *flags, input=json.dumps(said).encode() + b"\n", env={"CLAUDE_CONFIG_DIR": str(stage.home)})
    assert frames(done.stdout)[-1]["result"] == "Done."
    assert b"was removed while this session was using it" in done.stderr


def test_one_that_was_replaced_stays_as_it_is(serve: Serve) -> None:
    stage = removing(serve, "cd {home}/projects/*/ && for file in *.jsonl; do rm $file; echo theirs > $file; done")
    done = stage.run("-p", "go")
    [file] = stage.sessions()
    assert (done.stdout, file.read_text()) == (b"Done.\n", "theirs\n")
    assert b"another file has taken its place): from here on nothing of this session is stored" in done.stderr


def test_a_terminal_shows_it(serve: Serve, sit_at: SitAt) -> None:
    stage = removing(serve, "rm {home}/projects/*/*.jsonl")
    terminal = sit_at(stage)
    terminal.see("mode default")
    terminal.type("go\r")
    assert "was removed while this session was using it: it was written again" in terminal.see("]\n> ")
