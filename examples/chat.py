"""A conversation: several prompts, one history.

python examples/chat.py
"""

import asyncio

from mainspring import Agent
from mainspring.testing import Scripted, says

# A model that follows a script: no key, no network. With a key: Agent("haiku", ...)
MODEL = Scripted([says("Hello Ada! Shall I show you Bonn?"), says("You are Ada.")])


async def main() -> None:
    async with Agent(MODEL, system="You are a friendly guide.", persist=False).session() as chat:
        for prompt in ("I am Ada.", "Who am I?"):
            print(f"> {prompt}")
            async for text in chat.stream_text(prompt):
                print(text, end="", flush=True)
            print()


if __name__ == "__main__":
    asyncio.run(main())
