from mainspring import Agent

print(Agent("haiku").run_sync("What is 2 + 3?").text)
