"""What all servers of a session share: where they run, how long they may take, and the client that talks to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from mainspring.core.errors import UsageError
from mainspring.mcp.base import McpTimeouts

if TYPE_CHECKING:
    from mainspring.mcp.ground import ServerDirectory
    from mainspring.mcp.host_transport import Send
    from mainspring.processes.children import Children

USUAL = McpTimeouts()


class McpServerDefaults:
    """What all servers of a session share."""

    def __init__(  # noqa: PLR0913  # keywords, the last ones
        self,
        children: Callable[[], Children],
        env: Callable[[], Mapping[str, str]],
        ground: ServerDirectory,
        relay: Send | None = None,
        *,
        limits: McpTimeouts = USUAL,
        folders: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        """`relay` reaches the servers within the program that drives us; None: nobody does. `folders`: that are worked
        in, as it is now; None: those of `ground`."""
        self.children, self.env, self.ground, self.relay = children, env, ground, relay
        self.limits = limits
        self.folders = folders or (lambda: (ground.project, *ground.folders))
        self.asks = relay is None  # whether a server may ask the person: a pipe has no words for it
        self.one = asyncio.Lock()  # question at a time, of all servers: there is one person
        self.ids = count(1)  # of messages by `relay`, over all lives of a server: it may keep one that was given up
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> asyncio.Task[None]:
        """The official client, once, in a thread: it takes half a second."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(load_link))
            self._loading.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # all may be gone by then
        return self._loading


def load_link() -> None:
    """Afterwards, to import it takes no time."""
    from importlib import import_module

    try:
        import_module("mainspring.mcp.client")
        import_module("mainspring.mcp.ways")
    except ImportError as error:
        raise UsageError(f"MCP servers need the package 'mcp' ({error}): pip install 'mainspring[mcp]'") from None
