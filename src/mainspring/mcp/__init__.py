"""MCP servers: programs and services that bring tools of their own. The official client talks to them (extra `mcp`)."""
