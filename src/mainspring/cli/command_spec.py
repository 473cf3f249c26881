"""The command line as data, from its parsers: for the completions of the shells and the manual page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from mainspring.cli.flags import BY_NAME, FLAGS, SUBCOMMANDS, Flag, FlagValueKind
from mainspring.cli.subcommands import PROGRAM, RUN, Parser, SessionFlag

# What completes the value of a flag or an argument: a list that `mainspring completion --values` prints, or files.
MODELS, SESSIONS, FILES, FOLDERS = "models", "sessions", "files", "folders"
BY_FLAG = {"--model": MODELS, "--fallback-model": MODELS, "--resume": SESSIONS, "--session": SESSIONS}
BY_METAVAR = {
    "FILE": FILES,
    FlagValueKind.SOURCE: FILES,
    "FOLDER": FOLDERS,
    "ID": SESSIONS,
    "SESSION": SESSIONS,
    "A": SESSIONS,
    "B": SESSIONS,
}


class FlagSpec(NamedTuple):
    names: tuple[str, ...]  # the first one is the usual one
    value: str  # as the help shows it; empty: it takes none
    about: str
    choices: tuple[str, ...] = ()
    completes: str = ""  # one of the lists above
    is_optional: bool = False  # its value


class ArgumentSpec(NamedTuple):
    name: str
    about: str
    choices: tuple[str, ...] = ()
    completes: str = ""


class CommandSpec(NamedTuple):
    name: str  # 'sessions purge'; empty: the command itself
    about: str
    flags: tuple[FlagSpec, ...] = ()
    arguments: tuple[ArgumentSpec, ...] = ()
    actions: tuple[CommandSpec, ...] = ()


def describe_command_line() -> CommandSpec:
    """The command itself, with its subcommands as actions."""
    flags = tuple([describe_flag(flag) for flag in FLAGS])
    commands = tuple([describe_parser(name, about, make_parser(name)) for name, about in SUBCOMMANDS.items()])
    return CommandSpec("", "an agent for the terminal, and for programs", flags, (), commands)


def make_parser(name: str) -> argparse.ArgumentParser:
    if name == "simulate":
        from mainspring.simulator.command import make_argument_parser

        return make_argument_parser(f"{PROGRAM} simulate")
    parser = Parser(prog=f"{PROGRAM} {name}")
    RUN[name][1](parser)
    return parser


def describe_flag(flag: Flag) -> FlagSpec:
    return FlagSpec(
        (flag.name, *flag.also),
        flag.value,
        flag.help,
        flag.choices,
        BY_FLAG.get(flag.name) or BY_METAVAR.get(flag.takes, ""),
        flag.takes == FlagValueKind.CATEGORIES,
    )


def describe_parser(name: str, about: str, parser: argparse.ArgumentParser) -> CommandSpec:
    flags: list[FlagSpec] = []
    arguments: list[ArgumentSpec] = []
    actions: list[CommandSpec] = []
    for action in iter_actions(parser):
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action.choices, dict):  # the parsers of its subcommands, by name
            parsers = cast("dict[str, argparse.ArgumentParser]", action.choices)
            actions += [
                describe_parser(f"{name} {one}", made.description or one, made) for one, made in parsers.items()
            ]
        elif action.option_strings:
            flags.append(describe_option(action))
        else:
            metavar = format_metavar(action)
            choices = tuple(map(str, action.choices or ()))
            arguments.append(ArgumentSpec(metavar, action.help or "", choices, BY_METAVAR.get(metavar, "")))
    return CommandSpec(name, about, tuple(flags), tuple(arguments), tuple(actions))


def iter_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from cast("list[argparse.Action]", vars(parser)["_actions"])  # argparse has no public name for them


def describe_option(action: argparse.Action) -> FlagSpec:
    if isinstance(action, SessionFlag):
        return describe_flag(BY_NAME[action.option_strings[0]])
    names = tuple(sorted(action.option_strings, key=lambda name: not name.startswith("--")))
    takes = action.nargs != 0
    metavar = format_metavar(action) if takes else ""
    choices = tuple(map(str, cast("Any", action.choices) or ()))
    completes = BY_FLAG.get(names[0]) or BY_METAVAR.get(metavar, "")
    return FlagSpec(names, metavar, action.help or "", choices, completes if takes else "", action.nargs == "?")


def format_metavar(action: argparse.Action) -> str:
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def walk_commands(top: CommandSpec) -> Iterator[CommandSpec]:
    """The command, its subcommands, and theirs."""
    yield top
    for one in top.actions:
        yield from walk_commands(one)
