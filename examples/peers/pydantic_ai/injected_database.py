from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel


@dataclass
class Database:
    users: dict[int, str]


def find_user(context: RunContext[Database], id: int) -> str:
    """The name of a user."""
    return context.deps.users[id]


agent = Agent("anthropic:claude-haiku-4-5", tools=[find_user], deps_type=Database, defer_model_check=True)


def test_the_agent_finds_the_user() -> None:
    with agent.override(model=TestModel()):  # calls every tool, with 0 for a number
        assert "Ada" in agent.run_sync("Who is user 0?", deps=Database({0: "Ada"})).output
