"""`mainspring config`, `mainspring trust`, `mainspring permissions explain`: what holds here, and why."""

from __future__ import annotations

import os
import sys

from mainspring.agent import permissions as agent_permissions
from mainspring.agent.config import settings_of
from mainspring.agent.config_checks import broken_rules, slips_in_matchers, slips_in_rules
from mainspring.agent.options import StartError
from mainspring.cli import trust as cli_trust
from mainspring.cli.subcommands import Namespace
from mainspring.engine.shared_state import EnginePolicy
from mainspring.processes.paths import resolve_path
from mainspring.secrets.redaction import redact
from mainspring.settings import trust as trusted
from mainspring.settings.effective import format_origins
from mainspring.settings.load import home_folder
from mainspring.settings.values import ProblemKind


def config(args: Namespace) -> int:
    """Each value that holds, and where it came from; what was passed over, and why."""
    cwd, refusal = os.getcwd(), None  # noqa: PTH109  # pathlib takes 8 ms to load
    try:
        settings = settings_of(args.session, cwd, os.environ)
    except StartError as error:
        refusal = error
        settings = settings_of(args.session, cwd, os.environ, shows_refused=True)
    lines = format_origins(settings)
    lines += [f"{problem.kind}: {problem}. The way out: {way_out}" for problem, way_out in broken_rules(settings)]
    lines += [f"{ProblemKind.UNKNOWN}: {redact(slip)}" for slip in slips_in_rules(args.session, settings)]
    lines += [f"{ProblemKind.UNKNOWN}: {redact(slip)}" for slip in slips_in_matchers(args.session, settings)]
    print("\n".join(lines) if lines else "nothing is set: everything has its default. See docs/settings.md")
    if refusal is not None:
        args.session.tell("nothing starts here: see 'refused' above")
        return 1
    return 0


def trust(args: Namespace) -> int:
    """The working folder, or the one that is named."""
    if args.list and (args.folder or args.remove):
        raise StartError("'mainspring trust --list' takes nothing else")
    folder = args.folder or os.getcwd()  # noqa: PTH109
    try:
        if args.list:
            print(
                "\n".join(trusted.list_trusted_folders(cli_trust.list_config_homes(os.environ)[0]))
                or "no folder is trusted"
            )
        elif args.remove:
            was = cli_trust.take_back(folder, os.environ)
            print(f"'{trusted.real_folder(folder)}' is {'no longer' if was else 'not'} trusted")
        else:
            place = cli_trust.trust_folder(folder, os.environ)
            print(f"'{place}' is trusted: its settings, hooks, servers, agents and skills take effect from now on")
    except OSError as error:
        if error.filename not in (None, ".") or error.strerror is None:
            raise StartError(str(error)) from None
        home = cli_trust.list_config_homes(os.environ)[0]  # written from its descriptor, so the error does not name it
        raise StartError(f"the list of trusted folders in '{home}' cannot be written: {error.strerror}") from None
    return 0


def permissions(args: Namespace) -> int:
    from mainspring.permissions.explain import main as explain

    words = [word for word in (args.tool, args.input) if word is not None]
    if len(words) != (0 if args.batch else 2):
        raise StartError("give a TOOL and an INPUT, or '--batch' alone: 'mainspring permissions explain TOOL INPUT'")
    cwd, home = os.getcwd(), os.path.expanduser("~")  # noqa: PTH109, PTH111
    settings = settings_of(args.session, cwd, os.environ)
    ours = home_folder(os.environ, compatible=False)
    gate = agent_permissions.new_gate(args.session, settings, cwd, home, (ours,) if ours else ())
    chosen = args.session.permission_mode or settings.permissions.default_mode or agent_permissions.DEFAULT
    policy = gate.policy(EnginePolicy(chosen))
    return explain(
        ["--batch"] if args.batch else words,
        policy,
        cwd=cwd,
        paths=lambda path, at: resolve_path(path, at, home=home),
        pipes=(sys.stdin, sys.stdout),
    )
