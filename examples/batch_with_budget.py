"""Many questions at once under one limit in money.

python examples/batch_with_budget.py
"""

import asyncio

from mainspring import Agent, AgentError
from mainspring.testing import FunctionModel, ShownConversation

QUESTIONS = [f"What is {n} squared?" for n in range(1, 9)]
LIMIT_USD = 0.10
AT_ONCE = 4


def answer(conversation: ShownConversation) -> str:
    """The model of this example. With a key: Agent("haiku", ...)"""
    return f"You asked: {conversation.prompt}"


async def main() -> None:
    # Each run has its share of the limit, and reserves money before each request: the sum cannot exceed the limit.
    agent = Agent(FunctionModel(answer), max_budget_usd=LIMIT_USD / len(QUESTIONS), persist=False)
    gate, spent = asyncio.Semaphore(AT_ONCE), 0.0

    async def ask(question: str) -> str:
        nonlocal spent
        async with gate:
            try:
                made = await agent.run(question)
            except AgentError as error:
                return f"No answer: {error}"
        spent += made.cost_usd
        return made.text

    for text in await asyncio.gather(*map(ask, QUESTIONS)):
        print(text)
    print(f"${spent:.4f} of ${LIMIT_USD:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
