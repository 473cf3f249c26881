"""An agent session: an engine session with tools, permissions, hooks, MCP servers and context. Front ends drive it."""
