from mainspring import Agent, ApprovalRequest, BudgetExceeded


def approve(call: ApprovalRequest) -> bool:
    return input(f"{call.tool_name} {call.input}? [y/N] ") == "y"


reviewer = Agent("haiku", name="reviewer", about="Reviews a change.", tools=["Read", "Grep"])
agent = Agent(
    "sonnet",
    system="You fix tests.",
    tools=["Bash", "Read", "Edit", reviewer.as_tool()],
    allowed_tools=["Bash(git status)", "Bash(git diff *)"],
    disallowed_tools=["Bash(git push *)", "Read(.env)"],
    approve=approve,
    max_budget_usd=0.50,
)
try:
    answer = agent.run_sync("Fix the failing test.")
    print(f"{answer.text} (${answer.cost_usd:.4f}; mainspring trace {answer.session_id})")
except BudgetExceeded as error:
    print(f"Stopped: {error}")
