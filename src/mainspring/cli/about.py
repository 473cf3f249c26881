"""What can be said of a session when it begins."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.models import Model
from mainspring.core.value import Bundle


class About(Bundle):
    """What `init` says of a session."""

    session_id: str
    cwd: str
    model: Model
    tools: tuple[str, ...] = ()
    later: Callable[[], tuple[str, ...]] = tuple  # tools that came since, of MCP servers
    servers: Callable[[], list[dict[str, str]]] = list  # and these, with their states
    agents: tuple[str, ...] = ()  # the kinds of them
    mode: str = "default"
    key_source: str = "none"
    betas: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # flags that were given, and are not honoured yet
    sandbox: Callable[[], str] = str  # its level, in words; asked for only by those who show it
    spent: int = 0  # nano-dollars, before this process took the session up
