from dataclasses import dataclass

from agents import Agent, RunConfig, RunContextWrapper, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@dataclass
class Database:
    users: dict[int, str]


@function_tool
def find_user(context: RunContextWrapper[Database], id: int) -> str:
    """The name of a user."""
    return context.context.users[id]


agent = Agent[Database]("assistant", model="gpt-5-mini", tools=[find_user])


def test_the_agent_finds_the_user() -> None:
    model = ScriptedModel([[function_call("find_user", {"id": 1}, call_id="1")], [assistant_message("Done.")]])
    Runner.run_sync(agent, "Who is user 1?", context=Database({1: "Ada"}), run_config=RunConfig(model=model))
    assert "Ada" in str(model.calls[1].input)
