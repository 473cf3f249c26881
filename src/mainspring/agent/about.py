"""What can be said of a session when it begins."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.models import Model
from mainspring.core.money import Usage
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
    commands: tuple[str, ...] = ("compact",)  # that we understand ourselves
    skills: Callable[[], tuple[str, ...]] = tuple  # by name; asked for only by those who show them
    words: Callable[[], tuple[str, ...]] = tuple  # with a slash, that are prompts of MCP servers
    mode: str = "default"
    output_style: str = "default"  # that is in force
    output_styles: Callable[[], tuple[str, ...]] = tuple  # by name; asked for only by those who show them
    used: tuple[tuple[str, Usage], ...] = ()  # by each model, before this process took the session up
    key_source: str = "none"
    betas: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # flags that were given, and are not honoured yet
    sandbox: Callable[[], str] = str  # its level, in words; asked for only by those who show it
    max_retries: int = 9  # of a request to the model (G-18)
    spent: int = 0  # nano-dollars, before this process took the session up
