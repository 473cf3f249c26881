"""Agents that call agents: each has its own model, tools and rules, and all draw on one budget.

python examples/subagents.py
"""

from mainspring import Agent
from mainspring.testing import Scripted, call, says

REVIEWER = Scripted([says("Line 3 divides by zero.")])
AUTHOR = Scripted([says(call("reviewer", prompt="Review calc.py.")), says("I fix line 3.")])

reviewer = Agent(REVIEWER, name="reviewer", about="Reviews a file.", system="You are strict.", persist=False)
author = Agent(AUTHOR, tools=[reviewer.as_tool()], max_budget_usd=0.50, persist=False)

if __name__ == "__main__":
    answer = author.run_sync("Improve calc.py.")
    print(answer.text)
    print("the reviewer was asked:", REVIEWER.conversations[0].prompt)
    print(f"both together cost ${answer.cost_usd:.4f}")
