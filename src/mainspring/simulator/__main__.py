"""The model server as a process of its own: `python -m mainspring.simulator --script replies.json`.

Its first line on stdout is the address to talk to. The script is a JSON list of replies, as `replies.py` has them:
[{"reply": "say", "blocks": [{"type": "text", "text": "Hello."}]}, {"reply": "refuse", "status": 529, ...}].
It ends at SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from mainspring.simulator.replies import Reply
from mainspring.simulator.server import ModelServer


async def serve(server: ModelServer) -> None:
    stopped = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    async with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mainspring.simulator", description="A model server for tests.")
    parser.add_argument("--script", type=Path, help="a JSON list of replies, given in order")
    parser.add_argument("--port", type=int, default=0, help="0 for any that is free")
    parser.add_argument("--api-key", help="refuse every other key")
    options = parser.parse_args()
    replies: tuple[Reply, ...] = ()
    if options.script is not None:
        try:
            replies = msgspec.json.decode(options.script.read_bytes(), type=tuple[Reply, ...])
        except (OSError, msgspec.MsgspecError) as error:
            parser.error(f"cannot read the script '{options.script}': {error}")
    asyncio.run(serve(ModelServer(replies, port=options.port, api_key=options.api_key)))


if __name__ == "__main__":
    main()
