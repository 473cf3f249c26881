"""Turns that another program adds while our process has the file open."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from mainspring.simulator.replies import Say
from pipe.stage import Serve


def add_turn(file: Path, session_id: str) -> None:
    """As Claude Code writes one."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    parent = [line["uuid"] for line in lines if line.get("type") == "assistant"][-1]
    with file.open("a") as end:
        for second, kind in enumerate(("user", "assistant")):
            message: dict[str, Any] = {"role": kind, "content": [{"type": "text", "text": f"foreign {kind}"}]}
            own, time = str(uuid.uuid4()), f"2026-11-16T13:50:0{second}.000Z"
            line = {"type": kind, "uuid": own, "parentUuid": parent, "sessionId": session_id, "timestamp": time}
            end.write(json.dumps({**line, "isSidechain": False, "message": message}) + "\n")
            parent = own


def test_a_compaction_of_the_open_process_does_not_lose_them(serve: Serve) -> None:
    stage = serve(*[Say.of(f"Reply {n}. " + "word " * 50) for n in range(8)])
    with stage.pipe() as pipe:
        pipe.initialize()
        session_id = pipe.turn("first")["session_id"]
        pipe.turn("second")
        add_turn(stage.transcripts()[0], session_id)
        pipe.turn("third")
        pipe.turn("/compact")
        pipe.turn("fourth")
        assert pipe.finish() == 0
    assert "compact_boundary" in stage.transcripts()[0].read_text()
    with stage.pipe("--resume", session_id) as pipe:
        pipe.initialize()
        pipe.turn("fifth")
        assert pipe.finish() == 0
    seen = json.dumps(stage.requests[-1].body["messages"])
    assert seen.index("fourth") < seen.index("foreign user") < seen.index("foreign assistant") < seen.index("fifth")
    assert "Reply 0." not in seen
