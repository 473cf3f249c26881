"""One session file, two programs: the real Claude Code and ours, in turns, against the simulator on loopback.

Every prompt, reply and tool output holds a word of its own. A summary repeats all words that its request held. So
whoever resumes the session must show the model every word that was said before.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from mainspring.simulator.replies import ReceivedRequest, Reply, Say, blocks_of
from mainspring.simulator.server import ModelServer

CLAUDE_CODE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
needs_claude_code = pytest.mark.skipif(not CLAUDE_CODE.exists(), reason="claude-agent-sdk came without its program")

MODEL = "claude-sonnet-4-5"
WORD = re.compile(r"\b(?:prompt|reply|output)-\d+\b")
FILLER = "There is more to say than this. " * 100  # so that a summary is shorter
TOOL, SLOW, THEIR_SUMMARY = "use-a-tool", "use-a-slow-tool", "TEXT ONLY"
OWN_SUMMARY = "Write down what is needed to go on"
THEIRS, OURS = "claude", "mainspring"


class SharedSession:
    def __init__(self, folder: Path, model: str = MODEL) -> None:
        self.model = model
        self.server = ModelServer(choose=self._choose, alternate=False)
        self.id = str(uuid.uuid4())
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        self.said: list[str] = []  # all words, in their order
        self.compacted = False
        self._replies = self._prompts = 0

    @property
    def file(self) -> Path:
        (file,) = (self.home / "claude" / "projects").glob(f"*/{self.id}.jsonl")
        return file

    # --- the model ---

    def _choose(self, received: ReceivedRequest) -> Reply:
        talk = received.talk
        self._replies += 1
        thought = {"type": "thinking", "thinking": "Hm."}
        if is_for_a_summary(received.body):
            return Say.of(thought, f"<summary>Words: {' '.join(words_in(received.body))}</summary>")
        last = [message for message in talk.messages if message["role"] != "system"][-1]
        spoken = "".join([block["text"] for block in blocks_of(last) if block["type"] == "text"])
        asked = spoken[spoken.rfind("prompt-") :]  # after a kill, there may be several prompts in one message
        if not (TOOL in asked or SLOW in asked):
            word = f"reply-{self._replies}"
            self.said.append(word)
            return Say.of(thought, f"This is {word}.")
        calls = [self._call(number, slow=SLOW in asked) for number in (1, 2)]
        return Say.of(thought, "I run two commands.", *calls)

    def _call(self, number: int, *, slow: bool) -> dict[str, Any]:
        word = f"output-{self._replies}{number}"
        command = f"touch started; sleep 600; echo {word}" if slow else f"echo {word}"
        if not slow:
            self.said.append(word)
        given = {"command": command, "description": "says a word"}
        return {"type": "tool_use", "id": f"toolu_{self._replies}_{number}", "name": "Bash", "input": given}

    # --- the programs ---

    def prompt(self, more: str = "") -> str:
        self._prompts += 1
        word = f"prompt-{self._prompts}"
        self.said.append(word)
        return f"{word} {more} {FILLER}"

    async def turn(self, who: str, more: str = "") -> None:
        """A process of its own: it resumes the session, is given a prompt, and must have shown all that was said."""
        begin = len(self.server.requests)
        prompt = self.prompt(more)
        wanted = list(self.said)
        await self.run(who, prompt)
        self.check(self.server.requests[begin].body, wanted)

    async def compact(self, who: str) -> None:
        """We refuse where a summary would be longer than what it stands for."""
        process = await self.start(who, "-p", "/compact")
        out, _ = await process.communicate()
        assert process.returncode == 0 or b"was not compacted" in out, out.decode()
        self.compacted = True

    async def run(self, who: str, prompt: str) -> None:
        process = await self.start(who, "-p", prompt)
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()

    async def start(self, who: str, *arguments: str) -> asyncio.subprocess.Process:
        program = [str(CLAUDE_CODE)] if who == THEIRS else [sys.executable, "-m", "mainspring"]
        session = ["--resume", self.id] if self.exists() else ["--session-id", self.id]
        return await asyncio.create_subprocess_exec(
            *program,
            *arguments,
            *("--model", self.model, "--dangerously-skip-permissions", *session),
            cwd=self.work,
            env=self._environment(),
            stdin=asyncio.subprocess.PIPE if "--input-format" in arguments else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 24,
            start_new_session=True,
        )

    def exists(self) -> bool:
        return any((self.home / "claude").glob(f"projects/*/{self.id}.jsonl"))

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / "claude"),
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "sk-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "IS_SANDBOX": "1",
        }

    async def kill_in_a_tool(self, who: str) -> None:
        """SIGKILL while two commands run. Their words are never said."""
        started = self.work / "started"
        started.unlink(missing_ok=True)
        process = await self.start(who, "-p", self.prompt(SLOW))
        async with asyncio.timeout(30):
            while not started.exists():  # noqa: ASYNC110  # another process makes it
                await asyncio.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def tear(self) -> None:
        """Half a line at the end, as a crash leaves it."""
        with self.file.open("ab") as file:
            file.write(b'{"type":"user","uuid":"11111111-2222-4333-8444-555555555555","mess')

    # --- what the model was shown ---

    def check(self, body: Any, wanted: list[str]) -> None:
        found = words_in(body)
        missing = [word for word in wanted if word not in found]
        assert not missing, f"{missing} were not shown: {json.dumps(body['messages'])[:4_000]}"
        if not self.compacted:
            assert sorted(found) == sorted(wanted), "a word is there twice, or was never said"


class OpenProcess:
    """A program that stays: it is given prompts one after the other."""

    def __init__(self, session: SharedSession, process: asyncio.subprocess.Process) -> None:
        self._session = session
        self._process = process

    async def turn(self, more: str = "") -> None:
        prompt = {"type": "user", "message": {"role": "user", "content": self._session.prompt(more)}}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(prompt).encode() + b"\n")
        async with asyncio.timeout(60):
            while line := await self._process.stdout.readline():
                if b'"type":"result"' in line:
                    return
        raise AssertionError("it ended without a result")


@asynccontextmanager
async def staying(session: SharedSession, who: str) -> AsyncIterator[OpenProcess]:
    flags = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    process = await session.start(who, *flags)
    try:
        yield OpenProcess(session, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.communicate()


def words_in(body: Any) -> list[str]:
    return WORD.findall(" ".join(texts_in(body["messages"])))


def texts_in(value: Any) -> list[str]:
    """All texts of the conversation but the inputs of calls: those hold words that the output will have."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in texts_in(each)]
    if isinstance(value, dict):
        return [text for name in ("text", "content") for text in texts_in(value.get(name))]
    return []


def is_for_a_summary(body: Any) -> bool:
    return any(sign in (texts_in(body["messages"][-1]) or [""])[-1] for sign in (THEIR_SUMMARY, OWN_SUMMARY))
