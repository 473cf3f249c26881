"""The real SDK for TypeScript as a client of the program: a small script of Node.js between it and the test.

    with Client(stage, tmp_path, "read all", maxTurns=3) as client:      # options of the SDK's `query`
        frames = client.read_all()

With None as the prompt, the test sends messages as they come (`send`, `end_input`), as a program with a stream of
prompts does. `client.code` is 3 if the SDK raised.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import Any, Self

import pytest

from pipe.raw import PATIENCE, Frame, kind
from pipe.stage import PROGRAM, Stage

PACKAGE = Path(__file__).parents[2] / ".node-peers" / "node_modules" / "@anthropic-ai" / "claude-agent-sdk"
DRIVE = """
import { createInterface } from "node:readline";
const [sdk, program, given, options] = process.argv.slice(2);
const { query } = await import(sdk);
async function* messages() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line);
}
const prompt = JSON.parse(given) ?? messages();
const asked = query({ prompt, options: { pathToClaudeCodeExecutable: program, ...JSON.parse(options) } });
try { for await (const message of asked) console.log(JSON.stringify(message)); }
catch (error) { console.error(String(error)); process.exit(3); }
"""


def package() -> Path:
    """Skips the test where it is missing."""
    if not (PACKAGE / "sdk.mjs").is_file():
        pytest.skip("needs the packages of Node.js: make peers")
    return PACKAGE


class Client:
    def __init__(self, stage: Stage, folder: Path, prompt: str | None, **options: Any) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("needs Node.js")
        sdk, script = (package() / "sdk.mjs").as_uri(), folder / "drive.mjs"
        script.write_text(DRIVE)
        options = {"cwd": str(stage.folder)} | options
        self._errors = folder / "drive.err"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [node, str(script), sdk, PROGRAM, json.dumps(prompt), json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(os.environ) | stage.environment,
            )
        self.frames: list[Frame] = []
        self.code: int | None = None
        self.stderr = b""
        self._coming: Queue[bytes | None] = Queue()
        self._reader = Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.stderr = self._errors.read_bytes()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self._coming.put(line)
        self._coming.put(None)

    def send(self, message: Frame) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def read(self) -> Frame | None:
        line = self._coming.get(timeout=PATIENCE)
        if line is None:
            return None
        self.frames.append(json.loads(line))
        return self.frames[-1]

    def until(self, wanted: str) -> Frame:
        """The next frame of this kind: `result`, `system/init`."""
        while (frame := self.read()) is not None:
            if kind(frame) == wanted:
                return frame
        raise AssertionError(f"no {wanted} came, but {[kind(frame) for frame in self.frames]}")

    def read_all(self) -> list[Frame]:
        """Every frame from the first to the client's end."""
        while self.read() is not None:
            pass
        self.code = self.process.wait(PATIENCE)
        return self.frames
