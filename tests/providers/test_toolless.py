"""Models that take no tools: an error that names the model and the way out, and a setting for plain conversation.

The setting holds whatever was called before by another model.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Stage, serving

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Image, Text, ToolCall, ToolResult, result, user
from mainspring.core.reasons import Trouble
from mainspring.core.view import Replace
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, StreamEnded, ToolSpec
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import HttpProvider
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.router import ToollessHistory, ToollessProvider
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.server import ModelServer
from providers.histories import PNG

READ = ToolSpec("Read", "Reads.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
REQUEST = Request("ollama/gemma3", 1_000, 1, "sdk", "", 0, overload_tries=1)
GO = Conversation(History([user("go")]), tools=(READ,))
PROVIDERS: tuple[Any, ...] = (OpenAIChat, OpenAIResponses, Anthropic)
PROTOCOLS = ("chat", "responses", "anthropic")

# What servers say to a request with tools, as people have reported it.
SAID: dict[str, tuple[int, str]] = {
    "ollama": (400, "registry.ollama.ai/library/gemma3:latest does not support tools"),
    "openrouter": (404, "No endpoints found that support tool use. To learn more about provider routing, visit: ..."),
    "openai": (400, "Unsupported parameter: 'tools' is not supported with this model."),
    "groq": (400, "`tool calling` is not supported with this model"),
    "deepseek": (400, "deepseek-reasoner does not support Function Calling"),
    "vllm": (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "llama.cpp": (500, "tools param requires --jinja flag"),
}


def refuses(status: int, words: str) -> Any:
    def choose(received: ReceivedRequest) -> Reply:
        if received.body.get("tools"):
            return Refuse(status, "invalid_request_error", words, code="null")
        return Say.of("Hello.")

    return choose


async def streamed(provider: Any, conversation: Conversation) -> list[Any]:
    return [item async for batch in provider.stream(REQUEST, conversation) for item in batch]


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("server", SAID)
def test_the_error_names_the_model_and_the_way_out_and_is_not_tried_again(
    kind: type[HttpProvider], server: str
) -> None:
    status, words = SAID[server]
    there = ModelServer(choose=refuses(status, words))

    async def main() -> None:
        async with there, Transport() as transport:
            how: Any = {"base_url": there.url, "transport": transport, "prefix": "ollama/"}
            await streamed(kind("key", **how), GO)  # type: ignore[arg-type]  # each takes a text for a key

    with pytest.raises(ProviderError) as caught:
        asyncio.run(main())
    failure = caught.value.failure
    assert (failure.kind, failure.status) == (Trouble.INVALID_REQUEST, status)
    assert failure.detail == (
        f"{status}: {words} ('ollama/gemma3' does not support tools here: use it without tools, or use another model)"
    )
    assert len(there.requests) == 1


@pytest.mark.parametrize("words", ["messages.0: tools are fine", "max_tokens is not supported", "no tool of that name"])
def test_other_refusals_are_left_alone(words: str) -> None:
    there = ModelServer(choose=refuses(400, words))

    async def main() -> None:
        async with there, Transport() as transport:
            await streamed(OpenAIChat(base_url=there.url, transport=transport), GO)

    with pytest.raises(ProviderError) as caught:
        asyncio.run(main())
    assert caught.value.failure.detail == f"400: {words}"


# --- a plain conversation ----------------------------------------------------------------------------------------

CALL = ToolCall("c1", "Read", {"file_path": "a.py"})
BEFORE = (
    user("what is in it?"),
    Assistant((Text("Let me look."), CALL), id="a1"),
    ToolResult("c1", (Text("hello"), Image("image/png", PNG)), id="r1"),
    Assistant((ToolCall("c2", "Bash", {}),), id="a2"),
    result("c2", "no such command", is_error=True),
)


def test_what_was_called_before_is_told_in_words() -> None:
    edits = (Replace("r1", (Text("cleared"),)),)
    told = ToollessHistory().of(Conversation(History([*BEFORE, user("so?")]), edits, tools=(READ,)))
    assert (told.tools, told.edits) == ((), ())
    assert [(message.id, message.text) for message in told.history][1:4] == [
        ("a1", 'Let me look.[Read was called with {"file_path":"a.py"}]'),
        ("r1", "[Read returned:]cleared"),
        ("a2", "[Bash was called with {}]"),
    ]
    assert [message.text for message in told.history][4:] == ["[Bash failed with:]no such command", "so?"]
    assert ToollessHistory().of(GO).history is GO.history


@pytest.mark.parametrize("kind", PROVIDERS)
def test_each_protocol_takes_it(kind: type[HttpProvider]) -> None:
    there = ModelServer(choose=refuses(*SAID["ollama"]))

    async def main() -> list[Any]:
        async with there, Transport() as transport:
            how: Any = {"base_url": there.url, "transport": transport, "prefix": "ollama/"}
            provider = ToollessProvider(kind("key", **how))  # type: ignore[arg-type]  # as above
            first = Conversation(History([*BEFORE, user("so?")]), tools=(READ,))
            again = Conversation(History([*BEFORE, user("so?"), Assistant((Text("Hello."),)), user("and?")]))
            return [*await streamed(provider, first), *await streamed(provider, again)]

    got = asyncio.run(main())
    assert [type(item) for item in got].count(StreamEnded) == 2
    assert [type(item).__name__ for item in got if type(item).__name__ in ("PrefixBreak", "Retry")] == []
    assert there.violations == []
    for request in there.requests:
        assert "tools" not in request.body
        assert all(
            words in json.dumps(request.body) for words in ("[Read was called with", "[Read returned:]", "hello")
        )


# --- by settings --------------------------------------------------------------------------------------------------


def flags(stage: Stage, protocol: str, **more: Any) -> tuple[str, ...]:
    address = stage.server.url if protocol == "anthropic" else f"{stage.server.url}/v1"
    models = {"mine/gemma3": {"base_url": address, "protocol": protocol, **more}}
    return ("--model=mine/gemma3", f"--settings={json.dumps({'models': models})}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_of_the_command_without_the_setting_and_with_it(tmp_path: Path, protocol: str) -> None:
    with serving([], tmp_path / "work", choose=refuses(*SAID["ollama"])) as stage:
        refused = stage.run("-p", "hi", *flags(stage, protocol))
        told = (refused.stdout + refused.stderr).decode()
        assert refused.returncode == 1
        assert "'mine/gemma3' does not support tools here: set '\"tools\": false' in its entry of 'models'" in told
        done = stage.run("-p", "hi", *flags(stage, protocol, tools=False))
        assert (done.stdout, done.returncode) == (b"Hello.\n", 0), done.stderr
        assert [bool(request.body.get("tools")) for request in stage.requests] == [True, False]


def test_also_at_the_address_that_is_set_for_anthropic(tmp_path: Path) -> None:
    with serving([], tmp_path / "work", choose=refuses(*SAID["ollama"])) as stage:
        settings = json.dumps({"models": {"gemma3": {"tools": False}}})
        done = stage.run("-p", "hi", "--model=gemma3", f"--settings={settings}")
        assert (done.stdout, done.returncode) == (b"Hello.\n", 0), done.stderr


def test_an_answer_of_a_given_shape_needs_tools(tmp_path: Path) -> None:
    with serving([], tmp_path / "work") as stage:
        schema = json.dumps({"type": "object"})
        done = stage.run("-p", "hi", "--json-schema", schema, *flags(stage, "chat", tools=False))
        assert (
            b"'--json-schema' needs a model with tools, but your settings disable tools for 'mine/gemma3'"
            in done.stderr
        )
        assert (done.returncode, stage.requests) == (1, [])


def test_the_list_of_models_says_so(tmp_path: Path) -> None:
    with serving([], tmp_path / "work") as stage:
        done = stage.run("models", *flags(stage, "chat", tools=False)[1:])
        assert b"settings, no tools" in next(line for line in done.stdout.splitlines() if b"mine/gemma3" in line)
