"""The panels of slash commands: `/config`, `/permissions`, `/mcp`, `/memory`, `/hooks`, `/agents` and `/model`.

Each module has one, and its `open_panel`. A panel is input and a renderer: what it changes, it changes by methods of
`AgentSession` and by the writer of settings files. With arguments, and without a screen, the same commands print text
(`agent/slash/`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, cast

from mainspring.core.value import Bundle

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.panel import PanelScreen

# By slash command. Imported when the user opens one.
PANELS = ("config", "permissions", "mcp", "memory", "hooks", "agents", "model")


class PanelContext(Bundle):
    """What panels need."""

    talk: TerminalSession
    screen: PanelScreen
    given_away: Callable[[], AbstractAsyncContextManager[None]]  # the terminal is an editor's


async def open_panel(command: str, context: PanelContext) -> str | None:
    """Returns arguments for the command; None: there is nothing more to do."""
    module = import_module(f"mainspring.cli.tui.panels.{command}")
    opener = cast("Callable[[PanelContext], Awaitable[str | None]]", module.open_panel)
    return await opener(context)
