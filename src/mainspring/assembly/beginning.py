"""A session that begins without anybody in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.assembly.options import Options
from mainspring.assembly.parts import Parts
from mainspring.assembly.sessions import Opened
from mainspring.assembly.world import Driven, World, begin

if TYPE_CHECKING:
    from mainspring.assembly.permission_tool import PermissionTool
    from mainspring.engine.ledger import Ledger

STDIO = "stdio"  # as `--permission-prompt-tool`: the program that drives us is asked


def begun(parts: Parts, opened: Opened, driven: Driven | None = None, ledger: Ledger | None = None) -> World:
    tool = permission_tool(parts.options)
    if tool is not None:
        driven = replace(driven or Driven(), answer=tool.answer)
    world = begin(parts, driven=driven, opened=opened, ledger=ledger)
    if tool is not None:
        tool.servers = lambda: world.mcp
    return world


def permission_tool(options: Options) -> PermissionTool | None:
    name = options.permission_prompt_tool
    if name is None or (name == STDIO and options.driven):
        return None
    from mainspring.assembly.permission_tool import PermissionTool

    return PermissionTool(name, options.tell)
