"""An MCP server with one tool, to be started by examples/mcp_client.py, or by any other client.

pip install "mainspring[mcp]"
"""

from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool()
def now() -> str:
    """The time of day."""
    return "12:00"


if __name__ == "__main__":
    server.run()
