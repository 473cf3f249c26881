"""Session files by hand, odd ones among them, and every call made twice: on ours and on `claude-agent-sdk`."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import claude_agent_sdk as theirs
import pytest
from pipe.stage import Serve, serving_here

from mainspring.sdk import session_edits, sessions, store_sessions, stores
from mainspring.sessions.paths import file_of, folder_of

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
NOBODY = "00000000-0000-4000-8000-000000000000"
TRICKS = (
    "../x",
    "..",
    "/etc/passwd",
    "",
    " ",
    f"../{ID}",
    f"{ID}/../{ID}",
    f"{ID}.jsonl",
    f"{ID}\0",
    f"{ID}\n",
    "x" * 36,
)

ours = SimpleNamespace(
    **{
        name: value
        for module in (sessions, session_edits, stores, store_sessions)
        for name, value in vars(module).items()
        if name in theirs.__all__
    }
)

Line = dict[str, Any]


# --- files ----------------------------------------------------------------------------------------------------------


class Home:
    """A folder to work in, and one for sessions that both look into."""

    def __init__(self, folder: Path) -> None:
        self.config, self.work = folder / "config", folder / "work"
        self.work.mkdir(parents=True)
        self.folder = Path(folder_of(self.config, self.work))
        self.folder.mkdir(parents=True)

    def file(self, session_id: str = ID) -> Path:
        return Path(file_of(self.folder, session_id))

    def write(self, lines: Iterable[Line | bytes | str], session_id: str = ID) -> Path:
        self.file(session_id).write_bytes(joined(lines))
        return self.file(session_id)

    def agent(self, name: str, lines: Iterable[Line | bytes | str], session_id: str = ID) -> Path:
        file = self.folder / session_id / "subagents" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(joined(lines))
        return file


def joined(lines: Iterable[Line | bytes | str]) -> bytes:
    """Whoever gives bytes gives the line end with them, or not."""
    return b"".join([line if isinstance(line, bytes) else encoded(line) for line in lines])


def encoded(line: Line | str) -> bytes:
    text = line if isinstance(line, str) else json.dumps(line, separators=(",", ":"))
    return text.encode() + b"\n"


def uuid(number: int) -> str:
    return f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def said(number: int, kind: str = "user", text: str = "", parent: int | None = -1, **more: Any) -> Line:
    """A line that follows the one before it, unless it says otherwise."""
    parent = number - 1 if parent == -1 and number else parent
    content: Any = more.pop("content", text or f"{kind} {number}")
    message: Line = {"role": kind, "content": content}
    if kind == "assistant":
        message["id"] = more.pop("reply", f"msg_{number}")
    return {
        "type": kind,
        "uuid": uuid(number),
        "parentUuid": uuid(parent) if parent is not None and parent >= 0 else None,
        "timestamp": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}.{number % 1000:03}Z",
        "sessionId": ID,
        "cwd": "/somewhere",
        "gitBranch": "main",
        "isSidechain": False,
        "message": message,
    } | more


def call(id: str) -> Line:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "date"}}


def answer(id: str, text: str = "done") -> Line:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def parallel() -> list[Line]:
    """Two calls of one reply, as Claude Code writes them: each result below its own call."""
    return [
        said(0, text="go"),
        said(1, "assistant", content=[{"type": "text", "text": "Look."}], reply="r"),
        said(2, "assistant", content=[call("a")], reply="r"),
        said(3, "assistant", content=[call("b")], reply="r"),
        said(4, content=[answer("a")], parent=2, sourceToolAssistantUUID=uuid(2)),
        said(5, content=[answer("b")], parent=3, sourceToolAssistantUUID=uuid(3)),
        said(6, "assistant", "Done.", parent=4),
    ]


# --- fixtures -------------------------------------------------------------------------------------------------------


@pytest.fixture(name="home")
def home_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("MAINSPRING_HOME", raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    return Home(tmp_path)


@pytest.fixture(name="serve")
def serve_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A model server, and the real program for the time of the test."""
    with serving_here(tmp_path, monkeypatch) as start:
        yield start


# --- the same call, twice -------------------------------------------------------------------------------------------


def same(name: str, *arguments: Any, **named: Any) -> Any:
    """What ours gives, if theirs gives the same."""
    got, wanted = outcome(ours, name, *arguments, **named), outcome(theirs, name, *arguments, **named)
    assert got == wanted, f"{name}{arguments}{named}"
    return got


def outcome(side: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """The value in plain terms, or the kind of error."""
    try:
        return plain(finished(getattr(side, name)(*arguments, **named)))
    except Exception as error:  # noqa: BLE001  # what it is, is the answer
        return type(error)


def finished(value: Any) -> Any:
    async def main() -> Any:
        return await value

    return asyncio.run(main()) if inspect.isawaitable(value) else value


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def same_reads(session_id: str = ID, directory: str | None = None) -> Line:
    """All that reads, with and without a page."""
    agents = same("list_subagents", session_id, directory)
    return {
        "list": same("list_sessions", directory),
        "page": same("list_sessions", directory, limit=1, offset=1),
        "info": same("get_session_info", session_id, directory),
        "messages": same("get_session_messages", session_id, directory),
        "some": same("get_session_messages", session_id, directory, limit=2, offset=1),
        "agents": agents,
        "below": [
            same("get_subagent_messages", session_id, agent, directory)
            for agent in [*(agents if isinstance(agents, list) else ()), "nobody", ""]
        ],
    }
