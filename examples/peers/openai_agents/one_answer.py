from agents import Agent, Runner

print(Runner.run_sync(Agent("assistant", model="gpt-5-mini"), "What is 2 + 3?").final_output)
