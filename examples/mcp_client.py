"""An agent with the tools of an MCP server.

pip install "mainspring[mcp]" && python examples/mcp_client.py
"""

import sys
from pathlib import Path

from mainspring import Agent
from mainspring.testing import Scripted, call, says

MODEL = Scripted([says(call("mcp__clock__now")), says("It is noon.")])
SERVER = Path(__file__).with_name("mcp_server.py")

if __name__ == "__main__":
    agent = Agent(
        MODEL,  # with a key: "haiku"
        mcp_servers={"clock": {"command": sys.executable, "args": [str(SERVER)]}},
        allowed_tools=["mcp__clock__now"],
        persist=False,
    )
    print(agent.run_sync("What time is it?").text)
    print("the server said:", MODEL.conversations[1].results[0].text)
