"""A session in your program: a custom tool, a hook that watches, a permission callback. No key, no network.

python examples/guarded.py
"""

import asyncio
import tempfile
from typing import Any

from mainspring import tool
from mainspring.sdk import (
    AssistantMessage,
    Client,
    HookMatcher,
    Options,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    TextBlock,
    ToolPermissionContext,
)
from mainspring.testing import Scripted, call, says

STOCK = {"apple": 3}


@tool(read_only=True)
async def in_stock(item: str) -> int:
    """How many of an item there are."""
    return STOCK.get(item, 0)


async def may(name: str, given: dict[str, Any], _: ToolPermissionContext) -> Any:
    """Called for calls that no rule covers. You would ask the user here."""
    if name == "Bash" and given["command"].startswith("touch "):
        return PermissionResultAllow()
    return PermissionResultDeny(message="only 'touch' is fine")


async def watch(facts: dict[str, Any], _: str | None, __: Any) -> dict[str, Any]:
    """Called before every call runs; it could deny the call, or change its input."""
    print("calls", facts["tool_name"], facts["tool_input"])
    return {}


async def main() -> None:
    model = Scripted(
        [
            says(call("in_stock", item="apple")),
            says(call("Bash", command="touch apples-3")),
            says(call("Bash", command="rm apples-3")),
            says("There are three, and I was not allowed to remove anything."),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        options = Options(
            provider=model,
            cwd=folder,
            env={"MAINSPRING_HOME": f"{folder}/home"},  # sessions are stored here; leave it out to keep them
            tools=["Bash", in_stock],
            can_use_tool=may,
            hooks={"PreToolUse": [HookMatcher(hooks=[watch])]},
        )
        async with Client(options) as client:
            await client.query("How many apples are there?")
            async for message in client.receive_response():
                if isinstance(message, AssistantMessage):
                    print(*[block.text for block in message.content if isinstance(block, TextBlock)], sep="\n")
                elif isinstance(message, ResultMessage):
                    print(message.subtype, message.num_turns, message.permission_denials)


if __name__ == "__main__":
    asyncio.run(main())
