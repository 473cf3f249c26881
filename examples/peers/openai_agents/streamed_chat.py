import asyncio

from agents import Agent, Runner, SQLiteSession


async def main() -> None:
    agent, chat = Agent("guide", model="gpt-5-mini", instructions="You are a friendly guide."), SQLiteSession("chat")
    while prompt := input("> "):
        async for event in Runner.run_streamed(agent, prompt, session=chat).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                print(event.data.delta, end="", flush=True)
        print()


asyncio.run(main())
