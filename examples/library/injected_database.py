from dataclasses import dataclass

from mainspring import Agent, ToolContext
from mainspring.testing import TestModel


@dataclass
class Database:
    users: dict[int, str]


def find_user(id: int, context: ToolContext[Database]) -> str:
    """The name of a user."""
    return context.deps.users[id]


agent = Agent("haiku", tools=[find_user], deps=Database)


def test_the_agent_finds_the_user() -> None:
    with agent.override(model=TestModel(arguments={"find_user": {"id": 1}})):
        assert "Ada" in agent.run_sync("Who is user 1?", deps=Database({1: "Ada"})).text
