from pydantic_ai import Agent

agent = Agent("anthropic:claude-haiku-4-5", instructions="You are a friendly guide.")
messages = None
while prompt := input("> "):
    result = agent.run_stream_sync(prompt, message_history=messages)
    for text in result.stream_text(delta=True):
        print(text, end="", flush=True)
    print()
    messages = result.all_messages()
