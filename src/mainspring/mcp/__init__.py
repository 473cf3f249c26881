"""MCP servers: programs and services that offer tools. The official client (extra `mcp`) talks to them."""
