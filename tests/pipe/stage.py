"""The real client, the real program and a model server between them: what every test of the pipe is played on.

    told = stage.ask("hello", allowed_tools=["Bash"])     # `query()`, to its end
    stage.talk(main, hooks=...)                           # `ClaudeSDKClient`, handed to `main`
    with stage.pipe("--replay-user-messages") as pipe:    # no client: lines by hand, see `raw.py`

`MAINSPRING_PIPE_PROGRAM` names another program to hold to the same promises.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, query
from claude_agent_sdk.types import (
    AssistantMessage,
    Message,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)
from cli.nursery import program
from cli.stage import serving

from mainspring.simulator.replies import ReceivedRequest, Reply
from mainspring.simulator.scripts import Choose
from mainspring.simulator.server import ModelServer
from pipe.raw import PATIENCE, Frame, Pipe

PROGRAM = os.environ.get("MAINSPRING_PIPE_PROGRAM") or str(Path(sys.executable).parent / "mainspring")
FLAGS = ["--output-format", "stream-json", "--verbose", "--system-prompt", "", "--input-format", "stream-json"]
KEY = "sk-of-the-tests"

Kind = TypeVar("Kind")


def started() -> str:
    """What the client starts: ours, begun by a fork. By hand, the real one is started."""
    is_other = "MAINSPRING_PIPE_PROGRAM" in os.environ or "MAINSPRING_PIPE_CLIENT" in os.environ
    return PROGRAM if is_other else program()


def heard_by(lines: list[str]) -> Callable[[str], None]:
    """What is on standard error; where bubblewrap is missing, all but the note that says so."""
    unheard = "commands run without a sandbox" if shutil.which("bwrap") is None else None

    def hear(line: str) -> None:
        if unheard is None or unheard not in line:
            lines.append(line)

    return hear


class Told:
    """What a caller of `query()` was told: the messages, what was raised behind them, and lines on standard error."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.error: Exception | None = None
        self.stderr: list[str] = []

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [message for message in self.messages if isinstance(message, kind)]

    def system(self, subtype: str) -> list[Frame]:
        return [message.data for message in self.of(SystemMessage) if message.subtype == subtype]

    @property
    def init(self) -> Frame:
        return self.system("init")[0]

    @property
    def results(self) -> list[ResultMessage]:
        return self.of(ResultMessage)

    @property
    def result(self) -> ResultMessage:
        assert self.results, f"no result came, but {self.messages} and {self.error!r}"
        return self.results[-1]

    @property
    def texts(self) -> list[str]:
        said = [block for message in self.of(AssistantMessage) for block in message.content]
        return [block.text for block in said if isinstance(block, TextBlock)]

    @property
    def outcomes(self) -> list[ToolResultBlock]:
        """The results of tools, in the order they came."""
        return results_in(self.of(UserMessage))


def results_in(messages: list[UserMessage]) -> list[ToolResultBlock]:
    blocks = [block for message in messages if isinstance(message.content, list) for block in message.content]
    return [block for block in blocks if isinstance(block, ToolResultBlock)]


def words(block: ToolResultBlock) -> str:
    """What a tool's result says, in whichever form it came."""
    return block.content if isinstance(block.content, str) else json.dumps(block.content)


class Stage:
    """A model server in a thread, a folder to work in and one for settings and sessions."""

    def __init__(self, server: ModelServer, until: Callable[[Callable[[], bool]], None], folder: Path) -> None:
        self.server = server
        self.until = until  # waits for a state of the server
        self.folder = folder
        self.home = folder.parent / "home"

    @property
    def requests(self) -> list[ReceivedRequest]:
        return self.server.requests

    def said(self, number: int = -1) -> str:
        """The messages of a request, as text."""
        return json.dumps(self.requests[number].body["messages"], ensure_ascii=False)

    def system(self, number: int = -1) -> str:
        return json.dumps(self.requests[number].body.get("system", ""), ensure_ascii=False)

    def tools(self, number: int = -1) -> set[str]:
        return {tool["name"] for tool in self.requests[number].body.get("tools", [])}

    @property
    def environment(self) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.server.url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CONFIG_DIR": str(self.home)}

    def options(self, **chosen: Any) -> ClaudeAgentOptions:
        env = self.environment | chosen.pop("env", {})
        return ClaudeAgentOptions(cli_path=started(), cwd=chosen.pop("cwd", self.folder), env=env, **chosen)

    # --- with the client ---

    def ask(self, prompt: str | AsyncIterable[dict[str, Any]], **chosen: Any) -> Told:
        told = Told()

        async def main() -> None:
            try:
                async for message in query(prompt=prompt, options=self.options(stderr=heard_by(told.stderr), **chosen)):
                    told.messages.append(message)
            except Exception as error:  # noqa: BLE001  # what it is, the test says
                told.error = error

        drive(main)
        return told

    def talk(self, main: Callable[[ClaudeSDKClient], Awaitable[None]], **chosen: Any) -> list[str]:
        """Connected for as long as `main` runs. Returns the lines on standard error."""
        stderr: list[str] = []

        async def connected() -> None:
            async with ClaudeSDKClient(self.options(stderr=heard_by(stderr), **chosen)) as client:
                await main(client)

        drive(connected)
        return stderr

    # --- without it ---

    @contextmanager
    def pipe(self, *flags: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Iterator[Pipe]:
        """As the client starts it. Standard error is kept apart."""
        state = {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
        process = subprocess.Popen(
            [PROGRAM, *FLAGS, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.folder,
            env=dict(os.environ) | self.environment | state | (env or {}),
        )
        pipe = Pipe(process)
        try:
            yield pipe
        finally:
            pipe.end()

    # --- what is on disk ---

    def transcripts(self) -> list[Path]:
        return sorted(self.home.glob("projects/*/*.jsonl"))

    def lines(self, session_id: str = "*") -> list[Frame]:
        [path] = self.home.glob(f"projects/*/{session_id}.jsonl")
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


Serve = Callable[..., Stage]  # the fixture `serve`


@contextmanager
def staged(replies: tuple[Reply, ...], folder: Path, choose: Choose | None = None) -> Iterator[Stage]:
    with serving(replies, folder, choose=choose) as stage:
        yield Stage(stage.server, stage.until, folder)


@contextmanager
def serving_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """The client hands its whole environment on, and its session functions read it: none of ours may be in it."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE", "MAINSPRING_HOME")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "home"))
    monkeypatch.setenv("HOME", str(folder / "user"))
    monkeypatch.setenv("IS_SANDBOX", "1")
    with ExitStack() as stack:

        def start(*replies: Reply, choose: Choose | None = None) -> Stage:
            return stack.enter_context(staged(replies, folder / "work", choose))

        yield start


def drive(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())


# --- the model's words ------------------------------------------------------------------------------


def call(name: str, id: str = "", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{id or name}", "name": name, "input": input}


def bash(command: str, id: str = "Bash", /, **more: Any) -> dict[str, Any]:
    return call("Bash", id, command=command, **more)


async def response(client: ClaudeSDKClient) -> Told:
    """Everything up to the next result."""
    told = Told()
    async for message in client.receive_response():
        told.messages.append(message)
    return told


async def exchange(client: ClaudeSDKClient, prompt: str) -> Told:
    await client.query(prompt)
    return await response(client)
