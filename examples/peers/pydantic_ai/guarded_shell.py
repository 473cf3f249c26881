import subprocess
from decimal import Decimal

from pydantic_ai import Agent, ApprovalRequired, ModelRetry, RunContext, UsageLimitExceeded, UsageLimits
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

LIMITS = UsageLimits(cost_limit=Decimal("0.50"))


def approve(context: RunContext[None], requests: DeferredToolRequests) -> DeferredToolResults:
    asked = {call.tool_call_id: f"{call.tool_name} {call.args_as_dict()}? [y/N] " for call in requests.approvals}
    return requests.build_results(approvals={key: input(question) == "y" for key, question in asked.items()})


reviewer = Agent("anthropic:claude-haiku-4-5", instructions="You review changes.")
asking = HandleDeferredToolCalls(approve)
agent = Agent("anthropic:claude-sonnet-5", instructions="You fix tests.", capabilities=[asking])


@agent.tool
def bash(context: RunContext[None], command: str) -> str:
    """Run a shell command."""
    if command.startswith("git push"):
        raise ModelRetry("This command is not allowed.")
    if command not in ("git status", "git diff") and not context.tool_call_approved:
        raise ApprovalRequired
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return done.stdout + done.stderr or "(no output)"


@agent.tool(name="reviewer")
async def review(context: RunContext[None], prompt: str) -> str:
    """Reviews a change."""
    return (await reviewer.run(prompt, usage=context.usage, usage_limits=LIMITS)).output


try:
    result = agent.run_sync("Fix the failing test.", usage_limits=LIMITS)
    print(f"{result.output} (${result.usage.cost:.4f})")
except UsageLimitExceeded as error:
    print(f"Stopped: {error}")
