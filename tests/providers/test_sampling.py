"""Temperature, top_p, stop sequences, seed and tool choice, in each protocol. The simulator judges the requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.config import Sampling
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.core.reasons import Trouble
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, ToolSpec
from mainspring.providers.http_provider import HttpProvider
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.simulator import openai_chat_request, openai_responses_request, validate

TOOLS = (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
PLAIN = Sampling(temperature=0.2, top_p=0.9, stop=("END",))


def sent(provider: HttpProvider, model: str, sampling: Sampling, tools: tuple[ToolSpec, ...] = TOOLS) -> dict[str, Any]:
    asked = Request(model, 1_000, 1, "sdk", "", 0, overload_tries=1, sampling=sampling)
    prepared = provider.prepare(asked, Conversation(History([user("hi")]), tools=tools))
    body = b"".join(prepared.body)
    if isinstance(provider, OpenAIResponses):
        assert openai_responses_request.find_violations(body, prepared.headers) == []
    elif isinstance(provider, OpenAIChat):
        assert openai_chat_request.find_violations(body, prepared.headers, frozenset()) == []
    else:
        assert validate.find_request_violations(body, prepared.headers) == []
    settings: dict[str, Any] = msgspec.json.decode(body)
    return {name: settings[name] for name in settings.keys() - {"model", "stream", "messages", "input", "tools"}}


def test_anthropic() -> None:
    found = sent(Anthropic("k"), "claude-haiku-4-5", PLAIN)
    assert found == {"max_tokens": 1_000, "temperature": 0.2, "top_p": 0.9, "stop_sequences": ["END"]}


def test_openai_chat() -> None:
    found = sent(OpenAIChat("k", base_url="http://localhost:1"), "qwen3", replace(PLAIN, seed=7))
    asked = {"temperature": 0.2, "top_p": 0.9, "stop": ["END"], "seed": 7}
    assert {name: found[name] for name in asked} == asked


def test_openai_responses() -> None:
    found = sent(OpenAIResponses("k"), "gpt-4.1", Sampling(temperature=0.2, top_p=0.9))
    assert (found["temperature"], found["top_p"]) == (0.2, 0.9)


CHOICES = {
    "auto": ({"type": "auto"}, "auto", "auto"),
    "none": ({"type": "none"}, "none", "none"),
    "required": ({"type": "any"}, "required", "required"),
    "add": (
        {"type": "tool", "name": "add"},
        {"type": "function", "function": {"name": "add"}},
        {"type": "function", "name": "add"},
    ),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_tool_choice(choice: str) -> None:
    asked = Sampling(tool_choice=choice)
    providers = ((Anthropic("k"), "claude-haiku-4-5"), (OpenAIChat("k"), "gpt-4.1"), (OpenAIResponses("k"), "gpt-4.1"))
    assert tuple(sent(provider, model, asked)["tool_choice"] for provider, model in providers) == CHOICES[choice]
    assert all("tool_choice" not in sent(provider, model, asked, ()) for provider, model in providers)


@pytest.mark.parametrize(
    ("provider", "sampling", "name"),
    [
        (Anthropic("k"), Sampling(seed=7), "seed"),
        (OpenAIResponses("k"), Sampling(seed=7), "seed"),
        (OpenAIResponses("k"), Sampling(stop=("END",)), "stop_sequences"),
    ],
)
def test_a_setting_that_the_protocol_does_not_have_is_refused(
    provider: HttpProvider, sampling: Sampling, name: str
) -> None:
    with pytest.raises(ProviderError, match=f"has no setting '{name}'") as refused:
        sent(provider, "gpt-4.1", sampling)
    assert refused.value.failure.kind is Trouble.INVALID_REQUEST
