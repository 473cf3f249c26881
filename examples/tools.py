"""A custom tool: a function with types and a docstring.

Run it: python examples/tools.py. The model is a script here.
"""

import asyncio

from mainspring import open_run, tool
from mainspring.core.updates import CallDone
from mainspring.testing import Scripted, call, says


@tool(read_only=True)
def count_words(text: str, longer_than: int = 0) -> int:
    """Count the words of a text."""
    return len([word for word in text.split() if len(word) > longer_than])


async def main() -> None:
    model = Scripted([says(call("count_words", text="a loop around a model", longer_than=1)), says("Three.")])
    async with open_run("How many words?", provider=model, tools=[count_words]) as run:
        async for update in run:
            if isinstance(update, CallDone):
                print("the tool:", update.result.text)
    print("the model:", run.result.text)


if __name__ == "__main__":
    asyncio.run(main())
