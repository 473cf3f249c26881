import subprocess
from typing import Any

from agents import Agent, ModelResponse, RunContextWrapper, RunHooks, Runner, function_tool

FREE, DENIED = ("git status", "git diff"), "git push"
PRICES = {"gpt-5": (1.25, 10.0), "gpt-5-mini": (0.25, 2.0)}  # dollars for a million tokens: input, output


class Budget(RunHooks[None]):
    spent_usd = 0.0

    async def on_llm_end(self, context: RunContextWrapper[None], agent: Agent[None], response: ModelResponse) -> None:
        price, usage = PRICES[str(agent.model)], response.usage
        self.spent_usd += (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / 1_000_000
        if self.spent_usd > 0.50:
            raise SystemExit(f"Stopped: spent ${self.spent_usd:.4f}")


async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    return arguments["command"] not in FREE and not arguments["command"].startswith(DENIED)


@function_tool(needs_approval=needs_approval)
def bash(command: str) -> str:
    """Run a shell command."""
    if command.startswith(DENIED):
        return "This command is not allowed."
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return done.stdout + done.stderr or "(no output)"


budget = Budget()
reviewer = Agent("reviewer", model="gpt-5-mini", instructions="You review changes.")
tools = [bash, reviewer.as_tool("reviewer", "Reviews a change.", hooks=budget)]
agent = Agent("fixer", model="gpt-5", instructions="You fix tests.", tools=tools)
result = Runner.run_sync(agent, "Fix the failing test.", hooks=budget)
while result.interruptions:
    state = result.to_state()
    for call in result.interruptions:
        if input(f"{call.name} {call.arguments}? [y/N] ") == "y":
            state.approve(call)
        else:
            state.reject(call)
    result = Runner.run_sync(agent, state, hooks=budget)
print(f"{result.final_output} (${budget.spent_usd:.4f})")
