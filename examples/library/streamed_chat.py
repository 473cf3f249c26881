import asyncio

from mainspring import Agent


async def main() -> None:
    async with Agent("haiku", system="You are a friendly guide.").session() as chat:
        while prompt := input("> "):
            async for text in chat.stream_text(prompt):
                print(text, end="", flush=True)
            print()


asyncio.run(main())
