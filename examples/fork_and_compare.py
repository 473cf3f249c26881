"""Continue a recorded session from one of its turns with another model, and compare the two.

python examples/fork_and_compare.py
"""

import asyncio
import os
import tempfile

from mainspring import Agent
from mainspring.testing import Scripted, call, compare, fork, replay, says


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(model: Scripted, prompt: str, resume: str | None = None) -> str:
    """Returns the id of the session."""

    async def main() -> str:
        async with Agent(model, tools=[add]).session(resume=resume) as chat:
            await chat.run(prompt)
            return chat.session_id

    return asyncio.run(main())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["MAINSPRING_HOME"] = home
        first = ask(Scripted([says(call("add", a=2, b=3)), says("It is 5.")]), "What is 2 + 3?")
        print("the core decides as it did:", replay(first).same)

        copy = fork(first, at=1)  # the first turn and its result
        ask(Scripted([says("Five, of course.")]), "Answer in words.", resume=copy.id)
        difference = compare(first, copy.id).first
        assert difference is not None
        print(f"they differ in turn {difference.turn_b}: {difference.a!r}, {difference.b!r}")
