"""`mainspring mcp`: the servers that a session here would have, started once to see whether they come up."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

from mainspring.agent import permissions
from mainspring.agent.config import report_settings_problems, settings_of
from mainspring.agent.context import is_trusted_folder
from mainspring.agent.mcp import (
    McpConfig,
    McpConfigInput,
    hold_keys,
    load_mcp_config,
    new_servers,
    taken_away,
    without_host_servers,
)
from mainspring.agent.options import SessionOptions
from mainspring.cli.subcommands import Namespace
from mainspring.secrets.redaction import redact
from mainspring.settings.load import home_folder
from mainspring.settings.values import Settings
from mainspring.text import strip_control_characters
from mainspring.tools.base import Workspace as Site
from mainspring.tools.builtin import BuiltinTools

FEW = 12  # tools that are named in a line
NONE = (
    "there are no MCP servers: name some in '.mcp.json', in 'mcpServers' of your settings, or with '--mcp-config'. See "
    "docs/mcp.md"
)


def mcp(args: Namespace) -> int:
    """0 if all of them are there."""
    options = args.session
    cwd = os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load
    settings = settings_of(options, cwd, os.environ)
    report_settings_problems(settings, options)
    environ = {**os.environ, **settings.own_env}
    hold_keys(options, settings, environ, cwd)
    found = without_host_servers(
        load_mcp_config(
            McpConfigInput(options, settings, environ, cwd, lambda: is_trusted_folder(home_folder(environ), cwd))
        )
    )
    states = asyncio.run(connect_and_describe(found, options, settings, environ, cwd)) if found.servers else []
    states += [{"name": name, "status": "disabled"} for name in found.off]
    if args.json:
        import json

        print(json.dumps(redact_values({"mcpServers": states, "problems": list(found.problems)}), indent=2))
    else:
        shown = [line for state in states for line in format_server_state(state)]
        print(
            strip_control_characters(
                redact("\n".join([*shown, *[f"! {problem}" for problem in found.problems]]) or NONE)
            )
        )
    fine = all(state["status"] in ("connected", "disabled") for state in states)
    return 0 if fine and not found.problems else 1


def redact_values(value: object) -> object:
    """Every text in it, names of fields included: most of them are a server's own words."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(name): redact_values(one) for name, one in cast("dict[str, object]", value).items()}
    return [redact_values(one) for one in cast("list[object]", value)] if isinstance(value, list) else value


async def connect_and_describe(
    found: McpConfig, options: SessionOptions, settings: Settings, environ: dict[str, str], cwd: str
) -> list[dict[str, Any]]:
    from mainspring.processes.environment import child_environment

    kit = BuiltinTools(Site(cwd), child_environment(environ, settings=settings.env), adopt=True)
    said: list[str] = []
    is_away = taken_away(permissions.taken_away(options, settings))
    servers = new_servers(found, kit, environ, window=200_000, is_away=is_away, warn=said.append)
    servers.start()
    try:
        await servers.ready(servers.host.limits.start + 1)
        await servers.settle()
        states = servers.status()
    finally:
        await servers.close()
        await kit.close()
    return add_server_notes(states, said)


def add_server_notes(states: list[dict[str, Any]], said: list[str]) -> list[dict[str, Any]]:
    """What was told of one server stands with it."""
    for state in states:
        notes = [words for words in said if f"the MCP server '{state['name']}'" in words and "error" not in state]
        if notes:
            state["notes"] = notes
    return states


def format_server_state(state: dict[str, Any]) -> list[str]:
    about = state.get("serverInfo", {})
    version = f" ({about['name']} {about['version']})".replace(" )", ")") if about else ""
    found = [f"{state['name']}: {state['status']}{version}{': ' + state['error'] if 'error' in state else ''}"]
    names = [tool["name"] for tool in state.get("tools", [])]
    if names:
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        found.append(f"  {len(names)} tools: {', '.join(names[:FEW])}{more}")
    return [*found, *[f"  ! {note}" for note in state.get("notes", [])]]
