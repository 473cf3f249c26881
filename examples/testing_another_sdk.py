"""Test a program that talks to a model, with no key and no network: here the program is Anthropic's own client.

Run it: pip install mainspring anthropic pytest && python examples/testing_another_sdk.py

The fixture `model_server` is a model server on loopback. It validates every request as the real API would, replies as
the test says, and misbehaves on purpose. You can test any program like this that accepts a base URL.
"""

import importlib.util
import os
import sys
from typing import Any

import pytest

from mainspring.testing.plugin import LiveServer, call, thinking

pytest_plugins = ["mainspring.testing.plugin"]

TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}


def client(server: LiveServer, **settings: Any) -> Any:
    anthropic: Any = importlib.import_module("anthropic")
    return anthropic.Anthropic(api_key="any", base_url=server.url, **settings)


def ask(words: str, **more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-5-5", "max_tokens": 1_000, "messages": [{"role": "user", "content": words}], **more}


def test_an_answer_streams(model_server: LiveServer) -> None:
    model_server.answers("Hello from a script.")
    with client(model_server).messages.stream(**ask("Hi.")) as stream:
        assert "".join(stream.text_stream) == "Hello from a script."


def test_it_outlasts_an_overloaded_server(model_server: LiveServer) -> None:
    model_server.answers("At last.")
    model_server.fails("overloaded", times=2)
    assert client(model_server, max_retries=2).messages.create(**ask("Hi.")).content[0].text == "At last."
    assert len(model_server.requests) == 3


def test_a_stream_that_is_cut_is_no_answer(model_server: LiveServer) -> None:
    model_server.answers("This sentence will not be finished.")
    model_server.fails("cut_in_text")
    with pytest.raises(Exception, match="incomplete"), client(model_server).messages.stream(**ask("Hi.")) as stream:
        stream.get_final_message()


def test_thinking_and_a_call_come_back_as_they_were(model_server: LiveServer) -> None:
    model_server.answers(thinking("Two and three."), call("add", a=2, b=3))
    model_server.answers("It is 5.")
    asked = ask("What is 2 + 3?", tools=[TOOL])
    first = client(model_server).messages.create(**asked)
    result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "5"}
    asked["messages"] += [
        {"role": "assistant", "content": [block.to_dict() for block in first.content]},
        {"role": "user", "content": [result]},
    ]
    assert client(model_server).messages.create(**asked).content[0].text == "It is 5."
    assert model_server.talks[-1].results("add")[0]["content"] == "5"
    assert model_server.cost_usd > 0


def test_a_mistake_of_ours_is_found(model_server: LiveServer) -> None:
    """The call has no result. The real API would reject this; so does the server, and it records the mistake."""
    model_server.forgives()
    unanswered = [{"role": "assistant", "content": [call("add", a=2, b=3)]}, {"role": "user", "content": "Well?"}]
    asked = ask("What is 2 + 3?")
    asked["messages"] += unanswered
    with pytest.raises(Exception, match="tool_use"):
        client(model_server).messages.create(**asked)
    assert [violation.rule for violation in model_server.violations] == ["tool_use.answered"]


if __name__ == "__main__":
    if importlib.util.find_spec("anthropic") is None:
        print("there is nothing to test here: pip install anthropic")
        sys.exit()
    sys.exit(
        pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-c", os.devnull])
    )  # not with this project's settings
