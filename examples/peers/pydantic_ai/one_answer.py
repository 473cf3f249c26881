from pydantic_ai import Agent

print(Agent("anthropic:claude-haiku-4-5").run_sync("What is 2 + 3?").output)
