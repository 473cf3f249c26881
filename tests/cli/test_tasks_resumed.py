"""The tasks of a session that is taken up again, by the real command: after a kill, a compaction, in a fork."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from cli.stage import Serve, Stage, until
from mainspring.simulator.replies import Say

LIST = {"type": "tool_use", "id": "toolu_list", "name": "TaskList", "input": {}}
LOOK = (Say.of(LIST), Say.of("Seen."))


def task(id: str, **input: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_{id}",
        "name": "TaskUpdate" if "taskId" in input else "TaskCreate",
        "input": input,
    }


def results(stage: Stage) -> list[str]:
    """Of the last request."""
    content = stage.requests[-1].body["messages"][-1]["content"]
    return [block["content"][0]["text"] for block in content if block["type"] == "tool_result"]


def listed(stage: Stage, *arguments: str) -> list[str]:
    done = stage.run("-p", "what is left?", *arguments)
    assert (done.stdout, done.stderr) == (b"Seen.\n", b"")
    [text] = results(stage)
    return text.splitlines()


@pytest.mark.covers("L-05")
def test_tasks_are_there_again_after_a_kill(serve: Serve) -> None:
    """In the middle of a reply's calls: of what was done, the model had not even been told."""
    command = "touch begun; until [ -e enough ]; do sleep 0.05; done"
    bash = {"type": "tool_use", "id": "toolu_bash", "name": "Bash", "input": {"command": command}}
    stage = serve(
        Say.of(task("a", subject="Mend the parser", description="It eats lines."), task("b", subject="Test it")),
        Say.of(task("c", taskId="1", status="in_progress"), bash),
        *LOOK,
        Say.of(task("d", subject="Ship it")),
        Say.of("Noted."),
    )
    process = stage.start("-p", "mend it", "--allowedTools=Bash")
    try:
        until((stage.folder / "begun").exists)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finally:
        (stage.folder / "enough").touch()
    [file] = stage.sessions()
    expected = ["#1 [in_progress] Mend the parser: It eats lines.", "#2 [pending] Test it"]
    assert listed(stage, "--resume", file.stem) == expected
    assert stage.run("-p", "one more", "--resume", file.stem).stdout == b"Noted.\n"
    assert results(stage) == ["Task #3 created: Ship it"]


def test_tasks_outlast_a_compaction_and_are_in_a_fork(serve: Serve) -> None:
    """Each step in a process of its own. The conversation that made them is summed up, and the model's own summary does
    not mention them."""
    stage = serve(
        Say.of(task("a", subject="Mend the parser"), task("b", subject="Test it"), task("c", subject="Away with it")),
        Say.of(task("d", taskId="1", status="completed"), task("e", taskId="3", status="deleted")),
        Say.of("Words. " * 2_000),
        *[Say.of("Words. " * 2_000)] * 3,
        Say.of("They talked."),
        *LOOK,
        *LOOK,
        Say.of(task("f", subject="In the fork")),
        Say.of("Noted."),
        *LOOK,
        *LOOK,
    )
    for number in range(4):
        assert stage.run("-p", f"question {number}", *(["--continue"] if number else [])).returncode == 0
    assert stage.run("-p", "/compact", "--continue").returncode == 0
    [file] = stage.sessions()
    expected = ["#1 [completed] Mend the parser", "#2 [pending] Test it"]
    assert listed(stage, "--resume", file.stem) == expected
    assert "toolu_a" not in str(stage.requests[-1].body)  # it was summed up
    assert listed(stage, "--resume", file.stem, "--fork-session") == expected
    [other] = [one for one in stage.sessions() if one != file]
    assert stage.run("-p", "one more", "--resume", other.stem).stdout == b"Noted.\n"
    assert results(stage) == ["Task #4 created: In the fork"]  # the third was deleted: its number is not given again
    assert listed(stage, "--resume", other.stem) == [*expected, "#4 [pending] In the fork"]
    assert listed(stage, "--resume", file.stem) == expected


def test_at_an_earlier_message_there_are_the_tasks_of_that_moment(serve: Serve) -> None:
    stage = serve(
        Say.of(task("a", subject="Mend the parser")),
        Say.of("Noted."),
        Say.of(task("b", subject="Test it"), task("c", taskId="1", status="completed")),
        Say.of("Noted, too."),
        *LOOK,
        *LOOK,
    )
    first = json.loads(stage.run("-p", "one", "--output-format=stream-json", "--verbose").stdout.splitlines()[-1])
    [file] = stage.sessions()
    said = [line for line in map(json.loads, file.read_text().splitlines()) if line["type"] == "assistant"][-1]
    assert stage.run("-p", "two", "--continue").stdout == b"Noted, too.\n"
    name = first["session_id"]
    assert listed(stage, "--resume", name, "--fork-session", "--resume-session-at", said["uuid"]) == [
        "#1 [pending] Mend the parser"
    ]
    assert listed(stage, "--resume", name) == ["#1 [completed] Mend the parser", "#2 [pending] Test it"]
