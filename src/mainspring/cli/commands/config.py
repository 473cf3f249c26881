"""`mainspring config`, `mainspring trust`, `mainspring permissions explain`, and what `mainspring mcp` shows.

They show the configuration that applies in this folder and where it comes from. `show_servers` also starts the MCP
servers that a session here would have, to see whether they connect.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, cast

from msgspec.structs import replace

from mainspring import cli, processes
from mainspring.agent import permissions as agent_permissions
from mainspring.agent.config import report_settings_problems, resolve_permissions, settings_of
from mainspring.agent.config_checks import broken_rules, slips_in_matchers, slips_in_rules
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
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.resume import new_place
from mainspring.agent.slash.info import format_server_state
from mainspring.cli import trust as cli_trust
from mainspring.cli.provider_setup import list_key_sources, title_of
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import UsageError
from mainspring.engine.shared_state import EnginePolicy
from mainspring.processes.paths import resolve_path
from mainspring.secrets.redaction import redact
from mainspring.settings import trust as trusted
from mainspring.settings.effective import format_origins
from mainspring.settings.load import home_folder
from mainspring.settings.values import ProblemKind, Settings
from mainspring.text import describe_error, strip_control_characters
from mainspring.tools.base import Workspace as Site
from mainspring.tools.builtin import BuiltinTools


def config(args: Namespace) -> int:
    """Print each effective value with its source, and each ignored one with the reason."""
    if args.action is not None and (args.action != "list" or args.scope or args.json):
        from mainspring.cli.commands.config_values import change_config

        return change_config(args)
    cwd, refusal = os.getcwd(), None  # noqa: PTH109  # pathlib takes 8 ms to load
    try:
        settings = settings_of(args.session, cwd, os.environ)
    except StartError as error:
        refusal = error
        settings = settings_of(args.session, cwd, os.environ, shows_refused=True)
    lines = format_origins(settings)
    lines += [f"{problem.kind}: {problem}. To fix it: {way_out}" for problem, way_out in broken_rules(settings)]
    lines += [f"{ProblemKind.UNKNOWN}: {redact(slip)}" for slip in slips_in_rules(args.session, settings)]
    lines += [f"{ProblemKind.UNKNOWN}: {redact(slip)}" for slip in slips_in_matchers(args.session, settings)]
    environment = dict(os.environ) | settings.own_env
    lines += format_keys(environment)
    print("\n".join(lines) if lines else "No settings: all values are defaults. See 'mainspring help settings'")
    if refusal is not None:
        args.session.tell("mainspring cannot start here: see 'refused' above")
        return 1
    return 0


def format_keys(environment: dict[str, str]) -> list[str]:
    """Where each key comes from. Never a character of a key."""
    try:
        return [f"API key for {title_of(name)}: {source}" for name, source in list_key_sources(environment)]
    except UsageError as error:
        return [f"{ProblemKind.BROKEN}: {error}"]


def trust(args: Namespace) -> int:
    """Trusts the working folder or the given one."""
    if args.list and (args.folder or args.remove):
        raise StartError("'mainspring trust --list' takes no other arguments")
    folder = args.folder or os.getcwd()  # noqa: PTH109
    try:
        if args.list:
            print(
                "\n".join(trusted.list_trusted_folders(cli_trust.list_config_homes(os.environ)[0]))
                or "No trusted folders."
            )
        elif args.remove:
            was = cli_trust.take_back(folder, os.environ)
            print(f"'{trusted.real_folder(folder)}' is {'no longer' if was else 'not'} trusted.")
        else:
            place = cli_trust.trust_folder(folder, os.environ)
            print(f"Trusted '{place}'. Its settings, hooks, MCP servers, agents and skills now take effect.")
    except OSError as error:
        if error.filename not in (None, ".") or error.strerror is None:
            raise StartError(describe_error(error)) from None
        home = cli_trust.list_config_homes(os.environ)[0]  # written through a descriptor, so the error does not name it
        raise StartError(f"cannot write the list of trusted folders in '{home}': {error.strerror}") from None
    return 0


def permissions(args: Namespace) -> int:
    from mainspring.permissions.explain import main as explain

    words = [word for word in (args.tool, args.input) if word is not None]
    if args.session_name is not None:
        if words or args.batch:
            raise StartError("'--session' cannot be combined with TOOL, INPUT and '--batch'")
        return print_decisions(args.session_name)
    if len(words) != (0 if args.batch else 2):
        raise StartError("TOOL and INPUT are required without '--batch': 'mainspring permissions explain TOOL INPUT'")
    cwd, home = os.getcwd(), os.path.expanduser("~")  # noqa: PTH109, PTH111
    settings = settings_of(args.session, cwd, os.environ)
    ours = home_folder(os.environ, compatible=False)
    chosen = args.session.permission_mode or settings.permissions.default_mode or agent_permissions.DEFAULT
    if chosen == agent_permissions.AUTO:  # only then the sandbox matters
        folders = agent_permissions.list_additional_folders(args.session, settings, cwd, home)
        gate = resolve_permissions(args.session, settings, dict(os.environ), cwd, home, folders)[1]
    else:
        closed = agent_permissions.list_closed_files(ours, os.environ)
        gate = agent_permissions.new_gate(args.session, settings, cwd, home, ours, closed=closed)
    policy = gate.policy(EnginePolicy(chosen))
    return explain(
        ["--batch"] if args.batch else words,
        policy,
        cwd=cwd,
        paths=lambda path, at: resolve_path(path, at, home=home),
        pipes=(sys.stdin, sys.stdout),
        confine=gate.confine,
    )


def print_decisions(session: str) -> int:
    """Prints the recorded decisions of a session, in order: each call, who decided, and why."""
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109
    for span in cli.looked_at(cli.find_traced_session(session, place)).spans:
        if span.decisions:
            print(strip_control_characters(f"{span.label} ({span.call})"))
            for decision, reason, _ in span.decisions:
                print(strip_control_characters(f"  {decision}: {reason}"))
    return 0


NONE = (
    "No MCP servers configured. Add them to '.mcp.json', to \"mcpServers\" in your settings, or with '--mcp-config'. "
    "See 'mainspring help guides/mcp-server'"
)


def show_servers(args: Namespace, only: str = "") -> int:
    """Returns 0 if every server connects. `only`: the name of one."""
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
    if only:
        said = f"the MCP server '{only}'"
        found = replace(
            found,
            servers=tuple([one for one in found.servers if one.name == only]),
            off=tuple([name for name in found.off if name == only]),
            problems=tuple([words for words in found.problems if said in words]),
        )
    states = asyncio.run(connect_and_describe(found, options, settings, environ, cwd)) if found.servers else []
    states += [{"name": name, "status": "disabled"} for name in found.off]
    if args.json:
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
    """Redacts every text, field names included: most of them come from a server."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(name): redact_values(one) for name, one in cast("dict[str, object]", value).items()}
    return [redact_values(one) for one in cast("list[object]", value)] if isinstance(value, list) else value


async def connect_and_describe(
    found: McpConfig, options: SessionOptions, settings: Settings, environ: dict[str, str], cwd: str
) -> list[dict[str, Any]]:
    kit = BuiltinTools(Site(cwd), processes.child_environment(environ, settings=settings.env), adopt=True)
    said: list[str] = []
    is_away = taken_away(agent_permissions.taken_away(options, settings))
    servers = new_servers(found, kit, environ, is_away=is_away, warn=said.append)
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
    """Adds the warnings about a server to its state."""
    for state in states:
        notes = [words for words in said if f"the MCP server '{state['name']}'" in words and "error" not in state]
        if notes:
            state["notes"] = notes
    return states
