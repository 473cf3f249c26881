"""One prompt, or a stream of them, and all that comes of it.

async for message in query(prompt="What is 2 + 2?"):
    print(message)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from mainspring.sdk.client import Client, Prompts
from mainspring.sdk.errors import result_error
from mainspring.sdk.messages import Message, ResultMessage
from mainspring.sdk.options import Options


async def query(*, prompt: Prompts, options: Options | None = None) -> AsyncGenerator[Message, None]:
    """To the end of the session. If its last result is an error, that is raised behind it, as `ResultError`.

    Who leaves early, leaves the session: `contextlib.aclosing` ends it there and then, else Python does it later.
    """
    client, last = Client(options), None
    try:
        await client.connect(prompt, last=True)
        async for message in client.receive_messages():
            if isinstance(message, ResultMessage):
                last = message
            yield message
    finally:
        await client.disconnect()
    if last is not None and last.is_error:
        raise result_error(last)
