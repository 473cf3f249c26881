"""`/model`, `/permissions`, `/add-dir`: what somebody chooses for the conversation, and what was chosen."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.telling import print_to_terminal, print_usage
from mainspring.core.errors import UsageError
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.permissions.rules import BrokenRule, PermissionRule

SOURCES = {"flag": "command line", "session": "this session", "user": "your settings"}


async def model(talk: TerminalSession, name: str) -> None:
    if not name:
        default = talk.world.about.model.name
        print_to_terminal(talk, f"{talk.model.name}. '/model NAME' asks another one, '/model default' {default} again.")
        return
    from mainspring.agent.config_checks import slip_in_model

    try:
        if slip := slip_in_model(name, talk.config.settings):
            raise UsageError(slip)
        await talk.session.set_model(name)
    except (UsageError, StartError) as error:
        print_to_terminal(talk, f"The model stays: {error}", TextStyle.YELLOW)
        return
    print_to_terminal(talk, f"From now on: {talk.model.name}.", TextStyle.DIM)


# --- permissions ------------------------------------------------------------------------------------------


async def permissions(talk: TerminalSession, _: str) -> None:
    standing = talk.world.session.shared.policy
    rules = talk.config.gate.policy(standing).rules
    print_to_terminal(
        talk, f"Mode: {standing.mode}. Folders: {', '.join([talk.config.cwd, *talk.world.kit.place.folders])}"
    )
    for behavior, found in (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow)):
        for rule in found:
            print_to_terminal(talk, f"{behavior:<6}{rule.text}  ({describe_rule_source(rule)})")
    for broken in rules.broken:
        print_to_terminal(
            talk, f"{'void':<6}{broken.text}  ({describe_rule_source(broken)}): {broken.reason}", TextStyle.YELLOW
        )
    if not (rules.deny or rules.ask or rules.allow or rules.broken):
        print_to_terminal(talk, "There are no rules: the mode alone decides.")
    print_to_terminal(
        talk, "'mainspring permissions explain TOOL INPUT' says what is decided of a call, and why.", TextStyle.DIM
    )


def describe_rule_source(rule: PermissionRule | BrokenRule) -> str:
    return SOURCES.get(rule.source, f"{rule.source} settings")


# --- one more folder --------------------------------------------------------------------------------------


async def add_dir(talk: TerminalSession, named: str) -> None:
    """Kept among the options, too, so that a conversation that begins here later has it as well."""
    if not named:
        print_usage(talk, "'/add-dir FOLDER' lets the tools work in one more folder, until you leave.")
        return
    from mainspring.agent.permissions import resolve_folder
    from mainspring.processes.paths import is_within

    place = talk.world.kit.place
    folder = resolve_folder(named, place.root, place.home)
    if not await asyncio.to_thread(os.path.isdir, folder):
        print_to_terminal(talk, f"There is no folder '{named}': '{folder}' was looked for.", TextStyle.YELLOW)
        return
    held = next((one for one in (place.root, *place.folders) if is_within(folder, one)), None)
    if held is not None:
        print_to_terminal(
            talk,
            f"The tools can work in '{folder}' already: it is {describe_folder_place(folder, held)}.",
            TextStyle.DIM,
        )
        return
    talk.session.add_directory(folder)
    print_to_terminal(
        talk,
        f"From now on the tools can work in '{folder}', too. Who may do what there, the mode decides.",
        TextStyle.DIM,
    )
    await tell_of_walls(talk)


def describe_folder_place(folder: str, held: str) -> str:
    return "one of the folders" if folder == held else f"in '{strip_control_characters(held)}'"


async def tell_of_walls(talk: TerminalSession) -> None:
    """They were put up around the folders of the start."""
    if await asyncio.to_thread(lambda: talk.config.sandboxing.in_force):
        print_to_terminal(
            talk, "Commands in the sandbox cannot write there before the next '/clear' or '/resume'.", TextStyle.DIM
        )
