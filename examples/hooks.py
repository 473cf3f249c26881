"""Hooks: one that blocks a call, one that watches all of them.

python examples/hooks.py
"""

from typing import Any

from mainspring import Agent, AgentHook, HookCall
from mainspring.testing import Scripted, call, says

MODEL = Scripted([says(call("Bash", command="echo DROP TABLE users")), says("The database is read-only today.")])


def guard(hook: HookCall[None]) -> dict[str, Any] | None:
    if "DROP" in hook.tool_input.get("command", ""):
        return {"decision": "block", "reason": "The database is read-only today."}
    return None


def watch(hook: HookCall[None]) -> None:
    print(f"{hook.event}: {hook.tool_name} {hook.tool_input}")


agent = Agent(
    MODEL,  # with a key: "haiku"
    tools=["Bash"],
    approve=lambda _: True,
    hooks={"PreToolUse": [watch, AgentHook(guard, matcher="Bash", on_failure="block")]},
    persist=False,
)

if __name__ == "__main__":
    print(agent.run_sync("Clean up the database.").text)
