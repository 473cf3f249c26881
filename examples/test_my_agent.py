"""Tests of your own agent, without a key and without a network.

pytest examples/test_my_agent.py
"""

import sys

import pytest

from mainspring import Agent, ModelError, OutputError
from mainspring.core.reasons import Trouble
from mainspring.testing import Scripted, TestModel, call, fails, says


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


agent = Agent("haiku", tools=[add], persist=False)


def test_the_tool_gets_what_the_model_passes() -> None:
    with agent.override(model=TestModel(arguments={"add": {"a": 2, "b": 3}})):
        assert "5" in agent.run_sync("What is 2 + 3?").text


def test_a_wrong_argument_goes_back_to_the_model() -> None:
    model = Scripted([says(call("add", a="two", b=3)), says(call("add", a=2, b=3)), says("It is 5.")])
    with agent.override(model=model):
        assert agent.run_sync("What is 2 + 3?").text == "It is 5."
    assert "$.a" in model.conversations[1].results[0].text


def test_your_program_survives_a_model_that_fails() -> None:
    with agent.override(model=Scripted([fails(Trouble.AUTH)])), pytest.raises(ModelError, match="auth"):
        agent.run_sync("What is 2 + 3?")


def test_an_output_that_never_fits_is_an_error() -> None:
    typed = Agent(Scripted([says(call("StructuredOutput", value="none"))] * 5), output=int, persist=False)
    with pytest.raises(OutputError):
        typed.run_sync("A number, please.")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider"]))
