"""The command itself, `mainspring -p` in a separate process: text, structured output, and a tool in the sandbox.

Each protocol is configured as users would: chat by `OPENAI_BASE_URL`, responses by an entry for the model in the
settings, Anthropic's by `ANTHROPIC_BASE_URL`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from local.checks import CHAT, RESPONSES, Row, Servers
from local.server import HERE, WINDOW

from mainspring.tools.json_schema import Schema

SCRIPT = Path(__file__).with_name("walls.sh")
MOST_OUTPUT = 80  # tokens of a reply; enough for a call, without waiting for the model's chatter
COMMANDS = (f"sh {SCRIPT.name}", f"bash {SCRIPT.name}")
HELD = {  # what `Bash` is narrowed to: both print the same, so either choice is fine
    "Bash": {
        "type": "object",
        "properties": {"command": {"type": "string", "enum": list(COMMANDS)}},
        "required": ["command"],
        "additionalProperties": False,
    }
}
MODEL = {"window": WINDOW, "max_output": MOST_OUTPUT, "input_usd": 0, "output_usd": 0}
SANDBOX = {"enabled": True, "failIfUnavailable": True, "allowUnsandboxedCommands": False}


class Ran(NamedTuple):
    frames: list[dict[str, Any]]  # everything that it printed

    @property
    def result(self) -> dict[str, Any]:
        return self.frames[-1]

    def parts(self, frame: str, kind: str) -> list[dict[str, Any]]:
        messages = [each["message"] for each in self.frames if each["type"] == frame]
        return [part for message in messages for part in message["content"] if part["type"] == kind]

    @property
    def figures(self) -> str:
        usage = self.result["usage"]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
        return f"{self.result['num_turns']} turns, {prompt} + {usage['output_tokens']} tokens"


def named(url: str, protocol: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """The model's name, variables, and the rest of its entry in the settings."""
    if protocol == CHAT:
        return "openai/smollm2", {"OPENAI_BASE_URL": url}, {}
    if protocol == RESPONSES:
        return "local/smollm2", {}, {"base_url": url, "protocol": "responses"}
    return "smollm2", {"ANTHROPIC_BASE_URL": url}, {}


async def mainspring(folder: Path, url: str, protocol: str, *arguments: str) -> Ran:
    """Uses none of this machine's settings and variables but its PATH."""
    model, variables, entry = named(url, protocol)
    settings = {"models": {model: MODEL | entry}, "sandbox": SANDBOX}
    home = folder.parent / "home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MAINSPRING_HOME": str(home / "mainspring")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring", "-p", *arguments, "--model", model),
        *("--settings", json.dumps(settings), "--setting-sources", ""),
        *("--system-prompt", "Be brief.", "--output-format", "stream-json"),
        cwd=folder,
        env=environment | variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    ran = Ran([json.loads(line) for line in out.splitlines()])
    last = " ".join(told.decode().splitlines()[-1:])
    assert ran.frames, f"it did not start: {last}"
    assert process.returncode == 0, f"{ran.result['subtype']}: {ran.result.get('result')} {last}"
    assert ran.result["subtype"] == "success", f"it ended with {ran.result}"
    return ran


@contextmanager
def workspace() -> Generator[Path, None, None]:
    """In the directory for temporary files: in a repository its memory and its state would go to the model, too."""
    with tempfile.TemporaryDirectory(prefix="mainspring-local-") as base:
        folder = Path(base) / "work"
        folder.mkdir()
        (Path(base) / "home" / "mainspring").mkdir(parents=True)
        yield folder


# --- the checks --------------------------------------------------------------------------------------------------


async def text(servers: Servers, protocol: str) -> str:
    with workspace() as folder:
        ran = await mainspring(
            folder, servers.own, protocol, "Name three colours.", "--tools", "", "--include-partial-messages"
        )
    events = [frame["event"] for frame in ran.frames if frame["type"] == "stream_event"]
    pieces = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert len(pieces) > 3, f"it came in {len(pieces)} pieces"
    assert "".join(pieces) == ran.result["result"], f"the pieces do not add up: {pieces}"
    return f"{len(pieces)} pieces, {ran.figures}"


ANSWER = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "warm": {"type": "boolean"}},
    "required": ["colour", "warm"],
    "additionalProperties": False,
}


async def structured(servers: Servers, protocol: str) -> str:
    with workspace() as folder:
        ran = await mainspring(
            folder, servers.tools, protocol, "Name a colour.", "--tools", "", "--json-schema", json.dumps(ANSWER)
        )
    (call,) = ran.parts("assistant", "tool_use")
    assert call["name"] == "StructuredOutput", f"it called '{call['name']}'"
    given = ran.result["structured_output"]
    assert call["input"] == given, f"it wrote {call['input']}, and the result has {given}"
    assert not (wrong := Schema(ANSWER).violations(given)), f"{given}: {wrong}"
    return f"{given}, {ran.figures}"


class Ground(NamedTuple):
    """What the script tries to reach."""

    folder: Path
    outside: Path
    visits: list[int]  # one for each connection


@asynccontextmanager
async def ground() -> AsyncGenerator[Ground, None]:
    visits: list[int] = []

    def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(1)
        writer.close()

    outside = HERE / "outside"  # not among the temporary files: commands in the sandbox have their own
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    server = await asyncio.start_server(visit, "127.0.0.1", 0)
    try:
        with workspace() as folder:
            port = server.sockets[0].getsockname()[1]
            shutil.copy(SCRIPT, folder)
            (folder / "where").write_text(f"OUTSIDE={shlex.quote(str(outside))}\nPORT={port}\n", encoding="utf-8")
            yield Ground(folder, outside, visits)
    finally:
        server.close()
        shutil.rmtree(outside, ignore_errors=True)


async def walls(servers: Servers, protocol: str) -> str:
    async with ground() as there:
        await without_walls(there)
        ran = await mainspring(
            *(there.folder, servers.tools, protocol, f"Run {COMMANDS[0]}", "--tools", "Bash", "--max-turns", "6"),
            *("--permission-mode", "dontAsk", "--allowedTools", ",".join([f"Bash({each})" for each in COMMANDS])),
        )
        inside = {"written here": (there.folder / "made").exists(), "outside": (there.outside / "made").exists()}
        assert inside == {"written here": True, "outside": False}, f"seen from outside: {inside}"
        assert not there.visits, "the command reached the server"
    calls, results = ran.parts("assistant", "tool_use"), ran.parts("user", "tool_result")
    assert len(calls) == len(results) == 1, f"there are {len(calls)} calls and {len(results)} results"
    command, said = calls[0]["input"]["command"], results[0]["content"]
    assert command in COMMANDS, f"it ran '{command}'"
    lines = ("writes here: yes", "writes outside: no", "reaches a server: no")
    assert all(line in said for line in lines), f"the command said {said}"
    sandbox = ran.frames[0]["sandbox"]
    assert sandbox.startswith("sandbox: on"), sandbox
    return f"'{command}': {', '.join(lines)}; {sandbox}; {ran.figures}"


async def without_walls(there: Ground) -> None:
    """Without the sandbox, the same script reaches everything: so the sandbox causes the difference. Restores
    everything."""
    process = await asyncio.create_subprocess_exec(
        "sh", SCRIPT.name, cwd=there.folder, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    assert out.decode().count(": yes\n") == 3, f"without the sandbox the script says {out.decode()}"
    (there.folder / "made").unlink()
    (there.outside / "made").unlink()
    assert there.visits == [1], f"without the sandbox there were {len(there.visits)} connections"
    there.visits.clear()


ROWS = (
    Row("-p text", text, "the command, with the model's own template: its pieces add up to its result"),
    Row(
        "-p structured",
        structured,
        "'--json-schema': the only tool must be called, and its input is the answer",
    ),
    Row(
        "-p tool, walls",
        walls,
        "a call of Bash, narrowed to two commands, is run: 'walls.sh' writes in its folder, not outside, and reaches "
        "no server; without the sandbox, just before, it does all three",
    ),
)
