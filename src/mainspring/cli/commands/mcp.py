"""`mainspring mcp`: connects to the servers of this folder, and adds servers to files and removes them there."""

from __future__ import annotations

import json
import os
import sys
from typing import cast

import msgspec

from mainspring.agent.context import is_trusted_folder
from mainspring.agent.options import StartError
from mainspring.cli.commands.config import show_servers
from mainspring.cli.commands.config_values import hide_secrets
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import MainspringError
from mainspring.mcp.base import normalize_server_name
from mainspring.secrets.redaction import redact
from mainspring.settings.load import SettingsPaths, home_folder
from mainspring.settings.mcp_files import (
    ABOUT_SCOPES,
    McpScope,
    add_configured_server,
    find_configured_server,
    remove_configured_server,
)
from mainspring.text import describe_error, strip_control_characters

URLS = ("http://", "https://")


HELP = "mainspring mcp --help"


def mcp(args: Namespace) -> int:
    try:
        match args.action:
            case "add" | "add-json":
                return add_server(args, entry_of(args) if args.action == "add" else entry_in(args.json_text))
            case "remove":
                return remove_server(args)
            case "get":
                return print_server(args)
            case _:
                return show_servers(args)
    except StartError as error:
        error.help = HELP
        raise
    except (MainspringError, OSError) as error:
        failed = StartError(describe_error(error))
        failed.help = HELP
        raise failed from None


def places_here() -> SettingsPaths:
    return SettingsPaths(home_folder(os.environ), os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load


def say(words: str) -> None:
    print(strip_control_characters(redact(words)))


def add_server(args: Namespace, entry: dict[str, object]) -> int:
    places, scope = places_here(), cast("McpScope", args.scope)
    normalize_server_name(args.name)
    file = add_configured_server(places, scope, args.name, entry)
    say(f"Added the MCP server '{args.name}' to '{file}' (scope {scope}: {ABOUT_SCOPES[scope]}).")
    if scope == "project" and not is_trusted_folder(places.home, places.cwd):
        print("mainspring: it starts only after 'mainspring trust': this folder is not trusted", file=sys.stderr)
    return 0


def entry_of(args: Namespace) -> dict[str, object]:
    words = [*args.words, *args.after]
    if not words:
        raise StartError(f"'mainspring mcp add {args.name}' needs a program after '--', or a URL")
    is_url = len(words) == 1 and words[0].startswith(URLS)
    kind = args.transport or ("http" if is_url else "stdio")
    if kind == "stdio":
        if args.header:
            raise StartError("'--header' is for a server with a URL: programs take '--env'")
        if is_url:
            raise StartError(f"'{words[0]}' is a URL: leave '--transport stdio' out, or use '--transport http'")
        env = split_pairs("--env", args.env, "=")
        return {"type": kind, "command": words[0], "args": words[1:], **({"env": env} if env else {})}
    if args.env:
        raise StartError("'--env' is for a program: servers with a URL take '--header'")
    if len(words) != 1 or not words[0].startswith(URLS):
        raise StartError(f"'--transport {kind}' needs one URL that begins with 'http://' or 'https://'")
    headers = split_pairs("--header", args.header, ":")
    return {"type": kind, "url": words[0], **({"headers": headers} if headers else {})}


def split_pairs(flag: str, given: list[str], between: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, found_between, value = text.partition(between)
        if not found_between or not name.strip():
            raise StartError(f"'{flag}' takes NAME{between}VALUE, not '{redact(text)}'")
        found[name.strip()] = value.strip() if between == ":" else value
    return found


def entry_in(text: str) -> dict[str, object]:
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise StartError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise StartError('a server is a JSON object, such as {"command": "npx"}')
    return cast("dict[str, object]", found)


def remove_server(args: Namespace) -> int:
    places = places_here()
    found = find_configured_server(places, args.name, args.scope)
    if not (file := remove_configured_server(places, found)):
        raise StartError(f"'{found.path}' can only be changed by hand: remove '{args.name}' there")
    say(f"Removed the MCP server '{args.name}' from '{file}'.")
    return 0


def print_server(args: Namespace) -> int:
    found = find_configured_server(places_here(), args.name, args.scope)
    shown = hide_secrets("mcpServers", found.entry)
    if args.json:
        print(json.dumps({"name": found.name, "scope": found.scope, "file": found.path, "config": shown}, indent=2))
        return 0
    say(f"{found.name}\n  scope: {found.scope} ({ABOUT_SCOPES[found.scope]})\n  file: {found.path}")
    for name, value in cast("dict[str, object]", shown).items():
        say(f"  {name}: {value if isinstance(value, str) else json.dumps(value)}")
    code = show_servers(args, only=args.name)
    say(f"To remove it: mainspring mcp remove {found.name} --scope {found.scope}")
    return code
