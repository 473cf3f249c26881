"""HTTP/1.1 over asyncio: client, connections, server-sent events."""
