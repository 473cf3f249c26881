"""Notification hooks of a real conversation: told while the question is on the screen, and nobody waits for them."""

from __future__ import annotations

import json

import pytest

from cli.stage import Serve, until
from cli.terminal import SitAt, sit_at
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture


@pytest.mark.covers("I-01")
def test_a_hook_hears_that_the_person_is_asked(serve: Serve, sit_at: SitAt) -> None:
    bash = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "touch made"}}
    stage = serve(Say.of(bash), Say.of("Done."))
    stage.home.mkdir(parents=True)
    command = {"type": "command", "command": f"cat >> {stage.folder}/told; sleep 600"}
    settings = {"hooks": {"Notification": [{"hooks": [command]}]}, "autoMemoryEnabled": False}
    (stage.home / "settings.json").write_text(json.dumps(settings))
    told = stage.folder / "told"
    person = sit_at(stage)
    person.say("touch it")
    person.see("Allow?")
    until(lambda: told.exists() and told.read_text().endswith("\n"))  # the question waits, and so does the hook
    facts = json.loads(told.read_text())
    person.type("y\r")
    person.see("Done.")
    person.say("/exit")
    assert person.end() == 0
    assert (stage.folder / "made").exists()
    expected = {
        "hook_event_name": "Notification",
        "message": "mainspring needs your permission to use Bash",
        "notification_type": "permission_prompt",
        "title": "Permission needed",
        "cwd": str(stage.folder),
    }
    assert {key: facts[key] for key in expected} == expected
    assert set(facts) == {*expected, "session_id", "transcript_path", "permission_mode"}
