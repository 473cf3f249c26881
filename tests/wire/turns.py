"""Sessions with a short and with a long history, a few turns each: run by `test_flat_turns.py` in a process of its own,
which may be one under valgrind. Each window of turns stands between two calls of `mark`.

    python tests/wire/turns.py URL FOLDER SIZES TURNS NAME...
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Stop, Text, Thinking, ToolCall, ToolResult, result, user
from mainspring.core.models import model_named
from mainspring.core.money import Usage
from mainspring.core.state import State
from mainspring.core.updates import PrefixBroken, RequestStarted, Update
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.router import ToollessProvider
from mainspring.tools.custom import tool

WORDS = (
    "This part is fine, and the next one comes now. It was worth a look, and is done."  # 300 turns are worth the layers
)
WARM = 3  # turns before a window: the first request places the whole history


def mark() -> None:
    """valgrind is told to write down its count where this function of the C library is entered."""
    os.getppid()


@tool
async def Look(n: str) -> str:  # noqa: N802  # the name of the tool
    """Look at a part."""
    return f"Part {n} is fine."


def history(turns: int, model: str, *, thinks: bool = False, calls: bool = True) -> History:
    messages: list[Message] = [] if not calls else [user("Look at all parts.")]
    for n in range(turns):
        thought: list[Block] = [Thinking("There is more.", "c2lnbmF0dXJl")] if thinks else []
        blocks: list[Block] = [
            *thought,
            Text(WORDS),
            *([ToolCall(f"t{n}", "Look", {"n": f"{n:04x}"})] if calls else ()),
        ]
        usage = Usage(input=10, output=10)
        messages += (
            []
            if calls
            else [
                user(
                    f"What about part {n}?",
                )
            ]
        )
        messages.append(Assistant(tuple(blocks), model, usage=usage))
        messages += [result(f"t{n}", f"Part {n:04x} is fine.")] if calls else []
    return History([replace(message, id=f"m{n}") for n, message in enumerate(messages)])


class Window:
    """Marks the beginning and the end of some turns."""

    def __init__(self, turns: int, warm: int = WARM) -> None:
        self._turns, self._warm, self._seen = turns, warm, 0

    def turn(self) -> None:
        self._seen += 1
        if self._seen in (self._warm, self._warm + self._turns):
            mark()


async def followed(updates: AsyncIterator[Update], window: Window) -> None:
    async for update in updates:
        assert not isinstance(update, PrefixBroken) or update.why == "thinking was switched", update
        if isinstance(update, RequestStarted):
            window.turn()


async def loop(provider: Any, model: str, size: int, turns: int, *, thinks: bool = False) -> None:
    """One run, in which the model calls a tool every turn."""
    config = Config(model=model_named(model), max_turns=WARM + turns + 1)
    state = State(history(size, model, thinks=thinks))
    session = EngineSession(BasicDeps(provider, [Look]), config, state=state)
    async with session.run("Go on.") as run:
        await followed(run, Window(turns))


async def prompts(provider: Any, model: str, size: int, turns: int, *, thinks: bool = False) -> None:
    """Many runs, each with one answer."""
    session = EngineSession(
        BasicDeps(provider, [Look]), Config(model=model_named(model)), state=State(history(size, model, calls=thinks))
    )
    window = Window(turns)
    for n in range(WARM + turns):
        async with session.run(f"Prompt {n}?") as run:
            await followed(run, window)


async def two_at_once(provider: Any, model: str, size: int, turns: int) -> None:
    """Two sessions that take turns on one provider."""
    window = Window(2 * turns)

    async def one(name: str) -> None:
        config = Config(model=model_named(model), max_turns=WARM + turns + 1)
        session = EngineSession(BasicDeps(provider, [Look]), config, state=State(history(size, model)))
        async with session.run(f"Go on, {name}.") as run:
            await followed(run, window)

    await asyncio.gather(one("first"), one("second"))


Play = Callable[[str, str, int, int], Coroutine[Any, Any, None] | None]


# --- within a program: an agent session with its journal, context layers, permissions and frames -------------------

SESSION = "11111111-2222-4333-8444-555555555555"


def stored(home: str, work: str, messages: History) -> None:
    """A session file as Claude Code writes one."""
    from mainspring.sessions.paths import file_of, folder_of

    file = Path(file_of(folder_of(home, work), SESSION))
    file.parent.mkdir(parents=True, exist_ok=True)
    lines: list[bytes] = []
    parent = None
    for n, message in enumerate(messages):
        uuid = f"{n:08x}-0000-4000-8000-000000000000"
        entry = {"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": work, "timestamp": STORED_AT}
        lines.append(msgspec.json.encode({**entry, **as_stored(message, n)}) + b"\n")
        parent = uuid
    file.write_bytes(b"".join(lines))


STORED_AT = "2026-11-15T00:00:00.000Z"


def as_stored(message: Message, n: int) -> dict[str, Any]:
    if isinstance(message, Assistant):
        blocks: list[dict[str, Any]] = [
            {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
            if isinstance(block, ToolCall)
            else {"type": "text", "text": block.text}
            for block in message.blocks
            if isinstance(block, ToolCall | Text)
        ]
        usage = {"input_tokens": 10, "output_tokens": 10}
        said = {"id": f"msg_{n}", "role": "assistant", "model": message.model, "content": blocks, "usage": usage}
        return {"type": "assistant", "message": {**said, "stop_reason": "tool_use"}}
    if isinstance(message, ToolResult):
        content = [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}]
        return {"type": "user", "message": {"role": "user", "content": content}}
    return {"type": "user", "message": {"role": "user", "content": message.text}}


def sdk_options(url: str, folder: str, size: int, mode: str, model: str, **more: Any) -> Any:
    from mainspring.sdk import Options

    home, work = f"{folder}/home-{mode}-{size}", f"{folder}/work"
    Path(work).mkdir(parents=True, exist_ok=True)
    calls = mode != "talk"
    stored(home, work, history(size, model, calls=calls))
    env = {"ANTHROPIC_BASE_URL": f"{url}/{mode}", "ANTHROPIC_API_KEY": "key", "CLAUDE_CONFIG_DIR": home}
    settings = '{"features": {"collapse": false}}'  # a long history would be collapsed now: that is no turn like others
    chosen: Any = {"resume": SESSION, "settings": settings, "allowed_tools": ["Look"], "tools": [Look], **more}
    return Options(cwd=work, env={**env, "IS_SANDBOX": "1"}, model=model, **chosen)


def sdk_loop(model: str) -> Play:
    async def played(url: str, folder: str, size: int, turns: int) -> None:
        from mainspring.sdk import AssistantMessage, ResultError, ToolUseBlock, query

        window = Window(turns)
        options = sdk_options(url, folder, size, "call", model, max_turns=WARM + turns + 1)
        with suppress(ResultError):  # the limit of turns
            async for message in query(prompt="Go on.", options=options):
                if isinstance(message, AssistantMessage) and isinstance(message.content[0], ToolUseBlock):
                    window.turn()

    return played


def sdk_large(model: str) -> Play:
    """Results that are too large to be shown whole: each is cut by an edit of the view. None is stored beforehand."""

    async def played(url: str, folder: str, size: int, turns: int) -> None:
        from mainspring.sdk import AssistantMessage, ResultError, ToolUseBlock, query

        @tool
        async def Look(n: str) -> str:  # noqa: N802  # as above
            """Look at a part."""
            return f"Part {n} is fine. " * 2_500

        window = Window(turns, WARM + size)
        options = sdk_options(
            url, folder, 0, "call", model, max_turns=WARM + size + turns + 1, resume=None, tools=[Look]
        )
        with suppress(ResultError):
            async for message in query(prompt="Go on.", options=options):
                if isinstance(message, AssistantMessage) and isinstance(message.content[0], ToolUseBlock):
                    window.turn()

    return played


def sdk_prompts(model: str) -> Play:
    async def played(url: str, folder: str, size: int, turns: int) -> None:
        from mainspring.sdk import Client

        window = Window(turns)
        async with Client(sdk_options(url, folder, size, "talk", model)) as client:
            for n in range(WARM + turns):
                await client.query(f"Prompt {n}?")
                async for _ in client.receive_response():
                    pass
                window.turn()

    return played


def on(kind: Any, mode: str, model: str, play: Any, *, plain: bool = False, **how: Any) -> Play:
    async def played(url: str, folder: str, size: int, turns: int) -> None:
        async with Transport() as transport:
            made = kind(
                "key", base_url=f"{url}/{mode}/v1" if kind is not Anthropic else f"{url}/{mode}", transport=transport
            )
            await play(ToollessProvider(made) if plain else made, model, size, turns, **how)

    return played


# --- the command, in this process: its output is read by a thread -------------------------------------------------


def command(*flags: str, mode: str, prompts: bool) -> Play:
    def played(url: str, folder: str, size: int, turns: int) -> None:
        from mainspring.cli.main import main as mainspring

        home, work = f"{folder}/home-{mode}-{size}", f"{folder}/work"
        Path(work).mkdir(parents=True, exist_ok=True)
        stored(home, work, history(size, ADAPTIVE, calls=not prompts))
        given = {"ANTHROPIC_BASE_URL": f"{url}/{mode}", "ANTHROPIC_API_KEY": "key", "CLAUDE_CONFIG_DIR": home}
        os.environ.update({**given, "MAINSPRING_HOME": home, "IS_SANDBOX": "1"})
        os.chdir(work)
        window, pipes, saved = Window(turns), (os.pipe(), os.pipe()), (os.dup(0), os.dup(1))
        (stdin, to_stdin), (from_stdout, stdout) = pipes
        if not prompts:
            os.close(to_stdin)
        os.dup2(stdin, 0), os.dup2(stdout, 1)
        reader = Thread(target=read, args=(from_stdout, to_stdin, window, WARM + turns if prompts else 0))
        reader.start()
        limit = () if prompts else ("--max-turns", str(WARM + turns + 1))
        words = ("-p", "--output-format=stream-json", "--verbose", f"--resume={SESSION}", f"--model={ADAPTIVE}", *flags)
        mainspring([*words, *limit, '--settings={"features": {"collapse": false}}'])
        os.dup2(saved[0], 0), os.dup2(saved[1], 1)
        os.close(stdout)
        reader.join()

    return played


def read(from_stdout: int, to_stdin: int, window: Window, prompts: int) -> None:
    def ask(n: int) -> None:
        said = {"role": "user", "content": f"Prompt {n}?"}
        os.write(to_stdin, msgspec.json.encode({"type": "user", "message": said}) + b"\n")

    left = prompts
    if left:
        ask(left)
    for line in os.fdopen(from_stdout, "rb"):
        ends = b'"type":"result"' in line if prompts else b'"type":"tool_use"' in line
        if not ends:
            continue
        window.turn()
        left -= 1
        if left > 0:
            ask(left)
        elif prompts:
            os.close(to_stdin)


ROUNDS = 10  # of the layers count as a turn: so many that something is collapsed in each window


async def context_layers(url: str, folder: str, size: int, turns: int) -> None:  # asks no server
    """The layers by themselves, with collapses ready for all that is old."""
    from mainspring.context.compactor import Compactor
    from mainspring.context.layers import LayerLimits
    from mainspring.context.tokens import SideCall, SideCallReply

    async def ask(_: SideCall) -> SideCallReply:
        return SideCallReply("All parts were fine.", stop=Stop.END_TURN)

    model, ids = model_named(ADAPTIVE), count()
    context = Compactor(Config(model=model), new_id=lambda: f"n{next(ids)}", ask=ask, limits=LayerLimits(stage=2_000))
    state, window = State(history(size, ADAPTIVE), model=model), Window(turns)
    await context.shrink(state, ())
    while await context.stage(model) is not None:
        pass
    for n in range(ROUNDS * (WARM + turns)):
        reply = Assistant((Text(WORDS), ToolCall(f"c{n}", "Look", {"n": f"{n:04x}"})), ADAPTIVE, id=f"b{n}")
        answer = replace(result(f"c{n}", f"Part {n:04x} is fine."), id=f"r{n}")
        state = replace(state, history=state.history.append(reply, answer))
        await context.shrink(state, ())
        context.marks(state)
        await context.stage(model)
        if n % ROUNDS == 0:
            window.turn()


def yardstick(url: str, folder: str, size: int, turns: int) -> None:  # asks no server
    """Plain work of the interpreter: what a turn costs is held in proportion to it."""
    window, seen = Window(turns), dict[str, int]()
    for n in range(WARM + turns):
        for number in range(1_000):
            name = f"{n}-{number}"
            seen[name] = len(name.partition("-")[2]) + seen.get(name, 0)
        seen.clear()
        window.turn()


ADAPTIVE, BUDGETED, GPT = "claude-sonnet-5", "claude-sonnet-4-5", "gpt-5"
PLAYS: dict[str, Play] = {
    "adaptive": on(Anthropic, "call", ADAPTIVE, loop),
    "adaptive, thinking": on(Anthropic, "think", ADAPTIVE, loop, thinks=True),
    "budget": on(Anthropic, "call", BUDGETED, loop),
    "budget, thinking": on(Anthropic, "think", BUDGETED, loop, thinks=True),
    "no thinking": on(Anthropic, "call", "some-model", loop),
    "chat": on(OpenAIChat, "call", GPT, loop),
    "responses": on(OpenAIResponses, "call", GPT, loop),
    "toolless": on(OpenAIChat, "talk", GPT, prompts, plain=True, thinks=True),
    "prompts": on(Anthropic, "talk", ADAPTIVE, prompts),
    "budget prompts": on(Anthropic, "talk", BUDGETED, prompts),
    "context layers": context_layers,
    "sdk": sdk_loop(ADAPTIVE),
    "sdk, budget": sdk_loop(BUDGETED),
    "command": command("Go on.", mode="read", prompts=False),
    "pipe": command("--input-format=stream-json", mode="talk", prompts=True),
    "sdk, large results": sdk_large(ADAPTIVE),
    "sdk prompts": sdk_prompts(ADAPTIVE),
    "yardstick": yardstick,
    "two sessions": on(Anthropic, "call", ADAPTIVE, two_at_once),
}


def main() -> None:
    url, folder, sizes, turns, *names = sys.argv[1:]
    for name in names:
        for size in sizes.split(","):
            playing = PLAYS[name](url, folder, int(size), int(turns))
            if playing is not None:  # else it had a loop of its own
                asyncio.run(playing)


if __name__ == "__main__":
    gc.disable()
    main()
