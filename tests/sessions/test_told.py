"""Links of a session file that lead nowhere or in a circle: it is resumed all the same, and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.sessions.resume import load_session

ID = "11111111-2222-4333-8444-555555555555"


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def line(number: int, parent: int | None) -> bytes:
    kind = "user" if number % 2 else "assistant"
    content: object = f"words {number}" if number % 2 else [{"type": "text", "text": f"words {number}"}]
    message = {"role": kind, "content": content} | (
        {"id": f"msg_{number}", "model": "m"} if kind == "assistant" else {}
    )
    common = {"type": kind, "uuid": uuid(number), "sessionId": ID, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/x"}
    return json.dumps({**common, "parentUuid": None if parent is None else uuid(parent), "message": message}).encode()


@pytest.mark.parametrize(
    ("parents", "told"),
    [
        ({1: None, 2: 1, 3: 2, 4: 3}, []),
        ({1: 3, 2: 1, 3: 2, 4: 3}, [f"message '{uuid(3)}' is among its own parents"]),
        ({1: 1, 2: 1, 3: 2, 4: 3}, [f"message '{uuid(1)}' is among its own parents"]),
        ({1: 4, 2: 1, 3: 2, 4: 3}, [f"message '{uuid(4)}' is among its own parents"]),
        ({1: None, 2: 1, 3: 99, 4: 3}, [f"message '{uuid(3)}' follows one that is not there"]),
    ],
)
def test_odd_links_are_told(tmp_path: Path, parents: dict[int, int | None], told: list[str]) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(b"\n".join([line(number, parent) for number, parent in parents.items()]) + b"\n")
    loaded = load_session(file)
    assert [message.text for message in loaded.state.history] == [f"words {number}" for number in parents]
    assert [warning[: len(words)] for warning, words in zip(loaded.warnings, told, strict=True)] == told
