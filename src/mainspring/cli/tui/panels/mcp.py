"""`/mcp`: the servers of this session with their state and tools; reconnect, switch on and off, add and remove."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any, cast

from mainspring.agent.slash.lines import clean_line
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import RELOAD, get_settings_writer, print_changes
from mainspring.core.errors import UsageError
from mainspring.mcp.base import normalize_server_name
from mainspring.settings.mcp_files import (
    ABOUT_SCOPES,
    ConfiguredServer,
    McpScope,
    add_configured_server,
    list_configured_servers,
    remove_configured_server,
)
from mainspring.settings.mcp_servers import LONGEST_NAME
from mainspring.text import plural

MARKS = {"connected": "✓", "failed": "✗", "needs-auth": "✗", "pending": "…", "disabled": "-"}
KINDS = (("stdio", "a program on this machine"), ("http", "a server with a URL"), ("sse", "an old server with a URL"))
SCOPES: tuple[McpScope, ...] = ("local", "project", "user")
NEW = "starts when you close this panel"
OTHER = "not started"


async def open_panel(context: PanelContext) -> str | None:
    panel = McpPanel(context)
    await panel.load()
    following = asyncio.ensure_future(panel.follow())
    try:
        await panel.panel.run()
    finally:
        following.cancel()
    print_changes(context, panel.panel)
    return RELOAD if panel.changed else None


class McpPanel:
    def __init__(self, context: PanelContext) -> None:
        self._session = context.talk.session
        self._places = get_settings_writer(context).places
        self._configured: list[ConfiguredServer] = []
        self._states: dict[str, dict[str, Any]] = {}
        self.changed = False  # in files: the session has other servers
        tab = PanelTab(
            self._rows,
            "",
            (
                PanelAction("enter", "tools", self._show_tools, lambda row: bool(self._tools(row.id))),
                PanelAction("r", "reconnect", self._reconnect, self._is_started),
                PanelAction("space", "on/off", self._switch, self._is_started),
                PanelAction("a", "add", self._add, needs_row=False),
                PanelAction("d", "remove", self._remove, lambda row: bool(self._files_of(row.id))),
            ),
            self._about,
            empty="No MCP servers. Press a to add one.",
        )
        self.panel = Panel("MCP servers", [tab], context.screen)

    async def load(self) -> None:
        try:
            self._configured = await asyncio.to_thread(list_configured_servers, self._places)
        except (UsageError, OSError) as error:
            self.panel.warn(str(error))
        self.panel.refresh()

    async def follow(self) -> None:
        """Shows servers that connect while the panel is open."""
        servers = self._session.world.mcp
        pending = [one for one in servers.servers.values() if one.status == "pending"] if servers is not None else []
        for settled in asyncio.as_completed([one.settled() for one in pending]):
            await settled
            self.panel.refresh()

    # --- rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> list[PanelRow]:
        self._states = {state["name"]: state for state in self._session.mcp_status()}
        found = self._session.config.servers
        for name in found.off if found is not None else ():
            self._states.setdefault(name, {"name": name, "status": "disabled"})
        others = [one.name for one in self._configured if one.name not in self._states]
        rows = [
            PanelRow(name, f"{MARKS.get(state['status'], '?')} {name}", self._in_short(state))
            for name, state in self._states.items()
        ]
        return [*rows, *[PanelRow(name, f"- {name}", self._why_absent(name)) for name in dict.fromkeys(others)]]

    def _why_absent(self, name: str) -> str:
        config = self._session.config.servers
        said = [words for words in (config.problems if config is not None else ()) if f"'{name}'" in words]
        return NEW if self.changed and not said else OTHER

    def _in_short(self, state: dict[str, Any]) -> str:
        number = f", {plural(len(state['tools']), 'tool')}" if "tools" in state else ""
        return f"{state['status']}{number}"

    def _tools(self, name: str) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", self._states.get(name, {}).get("tools", []))

    def _is_started(self, row: PanelRow) -> bool:
        return "config" in self._states.get(row.id, {})

    def _files_of(self, name: str) -> list[ConfiguredServer]:
        return [one for one in self._configured if one.name == name]

    def _about(self, row: PanelRow) -> list[str]:
        state = self._states.get(row.id, {})
        lines = [f"{one.scope} ({ABOUT_SCOPES[one.scope]}): {clean_line(one.path)}" for one in self._files_of(row.id)]
        config: dict[str, Any] = state.get("config", {})
        if "command" in config:
            lines.append(clean_line(shlex.join([config["command"], *config.get("args", [])])))
        elif "url" in config:
            lines.append(clean_line(config["url"]))
        if "error" in state:
            lines.append(f"Error: {clean_line(state['error'])}")
        problems = self._session.config.servers.problems if self._session.config.servers is not None else ()
        return [*lines, *[clean_line(words) for words in problems if f"'{row.id}'" in words]]

    # --- actions ----------------------------------------------------------------------------------------------------

    async def _show_tools(self, row: PanelRow) -> None:
        tools = self._tools(row.id)
        about = {tool["name"]: clean_line(tool.get("description", "") or "no description") for tool in tools}
        tab = PanelTab(
            lambda: [PanelRow(name, name, words) for name, words in about.items()],
            details=lambda tool: [about[tool.id], f"In rules: mcp__{normalize_server_name(row.id)}__{tool.id}"],
        )
        self.panel.show(f"{row.id}: {plural(len(tools), 'tool')}", [tab])

    async def _reconnect(self, row: PanelRow) -> None:
        await self._session.reconnect_mcp(row.id)
        self.panel.tell(f"Connected to MCP server '{row.id}'.")

    async def _switch(self, row: PanelRow) -> None:
        enabled = self._states[row.id]["status"] == "disabled"
        await self._session.enable_mcp(row.id, enabled=enabled)
        self.panel.tell(f"MCP server '{row.id}' is {'on' if enabled else 'off'} in this session.")

    async def _add(self, _: PanelRow) -> None:
        name = await self.panel.enter("Name", hint="of letters, digits and '-'", check=check_name)
        if name is None:
            return
        kind = await self.panel.choose(f"What is '{name}'?", [MenuItem(word, about) for word, about in KINDS])
        if kind is None:
            return
        entry = await self._enter_program() if kind == 0 else await self._enter_url(KINDS[kind][0])
        if entry is None:
            return
        scopes = [MenuItem(scope.capitalize(), ABOUT_SCOPES[scope]) for scope in SCOPES]
        scope = await self.panel.choose(f"For whom is '{name}'?", scopes)
        if scope is None:
            return
        file = await asyncio.to_thread(add_configured_server, self._places, SCOPES[scope], name, entry)
        self.changed = True
        self.panel.tell(f"Added the MCP server '{name}' to '{file}'. It {NEW}.")
        await self.load()

    async def _enter_program(self) -> dict[str, object] | None:
        text = await self.panel.enter("Command", hint="such as npx -y some-server", check=check_command)
        if text is None:
            return None
        command, *args = shlex.split(text)
        return {"type": "stdio", "command": command, "args": args}

    async def _enter_url(self, kind: str) -> dict[str, object] | None:
        url = await self.panel.enter("URL", text="https://", check=check_url)
        return None if url is None else {"type": kind, "url": url}

    async def _remove(self, row: PanelRow) -> None:
        files = self._files_of(row.id)
        found = files[0]
        if len(files) > 1:
            picked = await self.panel.choose("Which one?", [MenuItem(one.scope, clean_line(one.path)) for one in files])
            if picked is None:
                return
            found = files[picked]
        if not await self.panel.confirm(f"Remove '{row.id}' from '{found.path}'?", "Yes, remove it"):
            return
        if not await asyncio.to_thread(remove_configured_server, self._places, found):
            self.panel.warn(f"'{found.path}' can only be changed by hand.")
            return
        self.changed = True
        self.panel.tell(f"Removed the MCP server '{row.id}' from '{found.path}'.")
        await self.load()


def check_name(text: str) -> str:
    try:
        normalize_server_name(text)
    except UsageError as error:
        return str(error)
    return "" if 1 <= len(text) <= LONGEST_NAME else f"A name has 1 to {LONGEST_NAME} characters."


def check_command(text: str) -> str:
    try:
        return "" if shlex.split(text) else "A command is needed."
    except ValueError as error:
        return f"The command cannot be read: {error}."


def check_url(text: str) -> str:
    return "" if text.startswith(("http://", "https://")) and len(text) > 8 else "A URL begins with http:// or https://"
