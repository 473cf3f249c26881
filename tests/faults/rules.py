"""The model of the process tests, as a rule for `mainspring simulate --rule faults.rules:read_notes`."""

from __future__ import annotations

from mainspring.simulator.replies import ReceivedRequest, Reply, Say

THOUGHT = {"type": "thinking", "thinking": "The notes are in a file."}


def read_notes(received: ReceivedRequest) -> Reply:
    """It reads the notes, and says what is in them."""
    talk = received.talk
    if any(not result.get("is_error") for result in talk.results("Read")):
        return Say.of(THOUGHT, "The notes say: buy milk.")
    call = {"type": "tool_use", "id": f"toolu_{talk.turns()}", "name": "Read", "input": {"file_path": "notes.txt"}}
    return Say.of(THOUGHT, "I will read the notes.", call)
