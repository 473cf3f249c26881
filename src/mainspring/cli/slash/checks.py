"""`/doctor`, `/config` and `/hooks`: whether everything is there, what is set, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainspring.cli.output import TextStyle
from mainspring.cli.slash.telling import clean_line, print_to_terminal, shorten_about, tell_all, tell_list
from mainspring.secrets.redaction import redact
from mainspring.settings.values import HookSetting, ProblemKind, Settings
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

MOST_VALUES = 200  # of the settings


async def doctor(talk: TerminalSession, _: str) -> None:
    """One check after the other, each in a thread: some try the sandbox out, which takes seconds."""
    from mainspring.cli.commands.doctor import format_doctor_summary, format_finding, run_checks
    from mainspring.cli.commands.doctor_checks import CheckState, Finding

    checks = iter(run_checks(talk.config.options))
    problems = 0
    while (found := await asyncio.to_thread(next, checks, None)) is not None:
        problems += found.state is CheckState.PROBLEM
        shown = Finding(found.name, found.state, clean_line(found.words), clean_line(found.way_out))
        print_to_terminal(
            talk, format_finding(shown), TextStyle.YELLOW if found.state is CheckState.PROBLEM else TextStyle.PLAIN
        )
    print_to_terminal(talk, format_doctor_summary(problems))


async def config(talk: TerminalSession, _: str) -> None:
    lines = await asyncio.to_thread(lambda: list(set_here(talk)))
    tell_list(talk, lines or ["Nothing is set: everything has its default."], most=MOST_VALUES)


def set_here(talk: TerminalSession) -> Iterator[str]:
    """What `mainspring config` prints, of the settings that this session began with."""
    from mainspring.agent.config_checks import broken_rules, slips_in_rules
    from mainspring.settings.effective import format_origins

    settings = talk.config.settings
    yield from format_origins(settings)
    for problem, way_out in broken_rules(settings):
        yield f"{problem.kind}: {problem}. The way out: {way_out}"
    for slip in slips_in_rules(talk.config.options, settings):
        yield f"{ProblemKind.UNKNOWN}: {redact(slip)}"


# --- hooks --------------------------------------------------------------------------------------------------------


async def hooks(talk: TerminalSession, _: str) -> None:
    settings = talk.config.settings
    tell_list(talk, [format_hook_row(hook) for hook in settings.hooks])
    held = held_back(settings)
    for words in held:
        print_to_terminal(talk, words, TextStyle.YELLOW)
    tell_all(talk, switched_off(settings), TextStyle.DIM)
    if not settings.hooks and not held:
        print_to_terminal(talk, "There are no hooks: 'hooks' in the settings names them.", TextStyle.DIM)


def format_hook_row(hook: HookSetting) -> str:
    at = strip_control_characters(f"{hook.event}({hook.matcher})" if hook.matcher else hook.event)
    what = next((str(hook.command[name]) for name in ("command", "prompt", "url") if name in hook.command), "")
    return (
        f"{at:<22} {shorten_about(what)}  ({hook.origin.source}: {clean_line(hook.origin.place)}{explain_hook(hook)})"
    )


def explain_hook(hook: HookSetting) -> str:
    """Why it does not do what somebody may expect of it."""
    from mainspring.hooks.events import GUARDS, HookPoint

    point = next((one for one in HookPoint if one == hook.event), None)
    kind = clean_line(str(hook.command.get("type")))
    if point is None:
        return "; never asked: there is no such point"
    if hook.broken:
        return f"; it cannot run, so what it guards is refused: {hook.broken}"
    if kind == "command":
        return ""
    guards = ", so what it guards is refused" if point in GUARDS else ""
    return f"; the type '{kind}' is not there yet{guards}"


def held_back(settings: Settings) -> list[str]:
    """By files of a project that nobody trusts: a problem names the keys that are not used, and why."""
    found = [one for one in settings.problems if one.kind is ProblemKind.UNTRUSTED]
    named = [one for one in found if "hooks" in one.says.partition(":")[0].split(", ")]
    return [
        f"Held back: the hooks in '{clean_line(one.place)}'. 'mainspring trust' trusts this folder." for one in named
    ]


def switched_off(settings: Settings) -> list[str]:
    keys = ("disableAllHooks", "allowManagedHooksOnly")
    found = [one for one in settings.effective if one.name in keys and one.shown == "true"]
    return [f"'{one.name}' is set ({one.origin.source}: {clean_line(one.origin.place)})." for one in found]
