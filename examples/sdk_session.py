"""A session with the names of claude-agent-sdk: a tool, a hook, a permission callback. No key, no network.

python examples/sdk_session.py
"""

import asyncio
import tempfile
from typing import Any

from mainspring import sdk, tool
from mainspring.testing import Scripted, call, says


@tool(read_only=True)
async def in_stock(item: str) -> int:
    """How many of an item there are."""
    return {"apple": 3}.get(item, 0)


async def may(name: str, given: dict[str, Any], _: sdk.ToolPermissionContext) -> Any:
    """For calls that no rule covers: you would ask the user here."""
    if name == "Bash" and given["command"].startswith("touch "):
        return sdk.PermissionResultAllow()
    return sdk.PermissionResultDeny(message="only 'touch' is fine")


# Called before every call runs: it could deny the call, or change its input.
async def watch(facts: dict[str, Any], _: str | None, __: Any) -> dict[str, Any]:
    print("calls", facts["tool_name"], facts["tool_input"])
    return {}


async def main() -> None:
    touch, remove = (call("Bash", command=f"{name} apples-3") for name in ("touch", "rm"))
    end = "There are three, and I was not allowed to remove anything."
    model = Scripted([says(call("in_stock", item="apple")), says(touch), says(remove), says(end)])
    with tempfile.TemporaryDirectory() as folder:
        options = sdk.Options(
            provider=model,
            cwd=folder,
            persist=False,
            tools=["Bash", in_stock],
            can_use_tool=may,
            hooks={"PreToolUse": [sdk.HookMatcher(hooks=[watch])]},
        )
        async with sdk.Client(options) as client:
            await client.query("How many apples are there?")
            async for message in client.receive_response():
                if isinstance(message, sdk.AssistantMessage):
                    print(*[block.text for block in message.content if isinstance(block, sdk.TextBlock)], sep="\n")
                elif isinstance(message, sdk.ResultMessage):
                    print(message.subtype, message.num_turns, message.permission_denials)


if __name__ == "__main__":
    asyncio.run(main())
