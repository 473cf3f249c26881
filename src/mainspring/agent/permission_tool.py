"""The permission prompt tool: a tool of an MCP server is asked about calls that no rule covers.

It gets the name of the tool, its input and the call's id; its first text is the answer, as JSON (stream-json 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.core.errors import ToolError
from mainspring.engine.deps import CallQuestion
from mainspring.mcp.base import START, make_tool_name
from mainspring.tools.base import Approval, approval_to_text

if TYPE_CHECKING:
    from mainspring.agent.options import SessionOptions
    from mainspring.mcp.server import McpServerConnection
    from mainspring.mcp.servers import McpServers
    from mainspring.tools.base import ToolContext


class PermissionTool:
    def __init__(self, name: str, options: SessionOptions, servers: Callable[[], McpServers | None]) -> None:
        """`servers`: known when the session is."""
        if not name.startswith(START):
            stdio = "" if options.driven else f"'stdio' goes with '{options.spell('driven')}'; else "
            why = f": {stdio}it is the whole name of an MCP tool, 'mcp__server__tool'"
            raise options.error("permission_prompt_tool_name", why, name)
        self.name = name
        self._options, self._told, self._servers = options, False, servers

    async def answer(self, question: CallQuestion) -> str:
        about: Any = question.about
        if not isinstance(about, dict) or "tool_name" not in about:
            raise ToolError("Nobody can be asked here.")
        known = cast("dict[str, Any]", about)
        asked = {key: known[key] for key in ("tool_name", "input", "tool_use_id")}
        try:
            server, tool = self._found()
            return read_permission_answer(await server.call(tool, asked, cast("ToolContext", SilentContext())))
        except ToolError as error:
            return approval_to_text(Approval("deny", message=f"The permission tool '{self.name}' failed: {error}"))

    def _found(self) -> tuple[McpServerConnection, str]:
        servers = self._servers()
        for server in servers.servers.values() if servers is not None else ():
            for listed in server.tools.values():
                if make_tool_name(server.name, listed.name) == self.name:
                    return server, listed.name
        known = [
            make_tool_name(one.name, tool)
            for one in (servers.servers.values() if servers else ())
            for tool in one.tools
        ]
        words = f"no MCP server has the tool '{self.name}'; there are: {', '.join(known) or 'none'}"
        if not self._told:
            self._told = True
            self._options.tell(f"'{self._options.spell('permission_prompt_tool_name')}': {words}")
        raise ToolError(words)


class SilentContext:
    """It asks for nobody's attention while it works."""

    def progress(self, text: str) -> None:
        pass


def read_permission_answer(result: dict[str, Any]) -> str:
    """The first text, if it is an answer; `approval` says no to everything else."""
    parts = [cast("dict[str, Any]", part) for part in result.get("content") or () if isinstance(part, dict)]
    texts = [part.get("text", "") for part in parts if part.get("type") == "text"]
    said = str(texts[0]) if texts else ""
    try:
        return approval_to_text(msgspec.json.decode(said, type=Approval))
    except msgspec.MsgspecError:
        words = f"The permission tool gave no answer in the shape of a permission: '{said[:200]}'"
        return approval_to_text(Approval("deny", message=words))
