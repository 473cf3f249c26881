"""Test a program that talks to a model, with no key and no network: here Anthropic's own client.
Run it: pip install mainspring anthropic pytest && python examples/testing_another_sdk.py

The fixture `model_server` is a model server on loopback. It validates every request as the real API would.
"""

import importlib.util
import os
import sys
from typing import Any

import pytest

from mainspring.testing.plugin import LiveServer, call

pytest_plugins = ["mainspring.testing.plugin"]


def client(server: LiveServer, **settings: Any) -> Any:
    return importlib.import_module("anthropic").Anthropic(api_key="any", base_url=server.url, **settings)


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


def test_a_mistake_of_ours_is_found(model_server: LiveServer) -> None:
    model_server.forgives()  # the call has no result: the server rejects that as the real API does, and records it
    asked = ask("What is 2 + 3?")
    asked["messages"] += [{"role": "assistant", "content": [call("add", a=2, b=3)]}, {"role": "user", "content": "So?"}]
    with pytest.raises(Exception, match="tool_use"):
        client(model_server).messages.create(**asked)
    assert [violation.rule for violation in model_server.violations] == ["tool_use.answered"]


if __name__ == "__main__":
    if importlib.util.find_spec("anthropic") is None:
        sys.exit(print("there is nothing to test here: pip install anthropic"))
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-c", os.devnull]))
