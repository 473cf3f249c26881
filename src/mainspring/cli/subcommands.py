"""The subcommands of `mainspring`, each with its own arguments and its own `--help`."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn, cast

from mainspring import cli
from mainspring.agent.options import StartError
from mainspring.cli.flags import (
    BY_NAME,
    SUBCOMMANDS,
    Arguments,
    Flag,
    FlagValueKind,
    convert_value,
    find_near_flag,
    help_text,
)
from mainspring.core.errors import UsageError

Namespace = argparse.Namespace
PROGRAM = "mainspring"
SETTINGS = ("--settings", "--setting-sources")
RULES = ("--allowedTools", "--disallowedTools", "--permission-mode", "--add-dir")
SESSION_FILE = "id, start of an id, title, or path of a session file"
LAST_KEPT = "number of the last turn to keep"
SESSION_ID = f"{SESSION_FILE}, or a folder (its newest session); default: this folder"


class SubcommandError(StartError):
    """Arguments that a subcommand cannot use."""

    def __init__(self, parser: argparse.ArgumentParser, reason: str) -> None:
        super().__init__(f"'{parser.prog}': {reason}")
        self.help = f"{parser.prog} --help"


class Parser(argparse.ArgumentParser):
    def __init__(self, **given: Any) -> None:
        super().__init__(allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        raise SubcommandError(self, message)

    def flags(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]


class MixedParser(Parser):
    """Flags may come between the other arguments."""

    _is_inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # overloads
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False


# --- arguments -----------------------------------------------------------------------------------------------


def add_sessions(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", parser_class=Parser)
    about = "Print one session as text, or list the sessions of a folder."
    show = actions.add_parser("show", help="print one session (the default)", description=about)
    show.add_argument("session_name", metavar="ID", help=f"{SESSION_FILE}; or a folder")
    about = "Delete sessions with their subagents, file history and stored results. A session in use is kept."
    delete = actions.add_parser("delete", help="delete sessions", description=about)
    delete.add_argument("session_names", metavar="ID", nargs="+", help=SESSION_FILE)
    about = "Delete the sessions of all folders that have not been used for some time. A session in use is kept."
    purge = actions.add_parser("purge", help="delete old sessions", description=about)
    purge.add_argument(
        "--older-than",
        metavar="TIME",
        required=True,
        type=parse_age,
        help="such as 30d, 12h or 8w (days, hours, weeks)",
    )
    purge.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    for action in (delete, purge):
        action.add_argument("--yes", "-y", action="store_true", help="do not ask")


SESSION_ACTIONS = ("show", "delete", "purge")


def add_session_action(argv: list[str]) -> list[str]:
    """`sessions ID` is `sessions show ID`."""
    words = argv[1:2]
    is_name = bool(words) and not words[0].startswith("-") and words[0] not in SESSION_ACTIONS
    return [argv[0], "show", *argv[1:]] if argv[0] == "sessions" and is_name else argv


def split_after_dashes(argv: list[str]) -> tuple[list[str], list[str]]:
    if tuple(argv[:2]) in AFTER_DASHES and "--" in argv:
        at = argv.index("--")
        return argv[:at], argv[at + 1 :]
    return argv, []


AGE_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}  # seconds


def parse_age(value: str) -> int:
    """In seconds."""
    number, unit = value[:-1], AGE_UNITS.get(value[-1:])
    if unit is None or not (number.isascii() and number.isdigit()) or not 0 < int(number) < 100_000:
        raise argparse.ArgumentTypeError(f"'{value}' is not a time: write a number and h, d or w, such as 30d")
    return int(number) * unit


def add_context(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="ID", nargs="?", help=SESSION_ID)
    add_json(parser)


def add_trace(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="ID", nargs="?", help=SESSION_ID)
    parser.add_argument("--html", metavar="FILE", help="write a self-contained HTML file")
    parser.add_argument("--text", action="store_true", help="print the turns on a time axis")
    parser.add_argument(
        "--port", type=parse_port, metavar="N", help="serve the page on this port (default: any free one)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    add_json(parser)


def add_export(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", help=SESSION_FILE)
    parser.add_argument("--md", action="store_true", help="prompts, answers and one line for each call (default)")
    parser.add_argument("--html", action="store_true", help="one page, also with thinking, calls and results")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="write this file; its ending chooses the format, too")


def add_replay(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", nargs="?", help=f"{SESSION_FILE}; default: the newest one")
    add_json(parser)


def add_fork(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", help=SESSION_FILE)
    parser.add_argument("--at", metavar="N", help=f"{LAST_KEPT}, or the id of a message; default: the last turn")
    parser.add_argument("--list", action="store_true", help="list the turns and their numbers instead")
    add_json(parser)


def add_compare(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help=SESSION_FILE)
    parser.add_argument("b", metavar="B", help="the other session")
    add_json(parser)


def add_what_if(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", help=SESSION_FILE)
    parser.add_argument("--model", metavar="NAME", help="use another model")
    parser.add_argument("--prompt", metavar="TEXT", help="send another prompt")
    parser.add_argument(
        "--compaction", choices=("on", "off", "now"), help="turn automatic compaction on or off, or compact first"
    )
    parser.add_argument("--at", metavar="N", help=f"{LAST_KEPT}; 0: none; default: repeat the last run")
    parser.add_argument(
        "--other-calls",
        choices=("run", "refuse"),
        default="run",
        help="what to do with tool calls that have no recorded result (default: run, as the rules allow)",
    )
    add_json(parser)
    add_session_flags(parser, (*SETTINGS, *RULES, "--max-turns", "--max-budget-usd"))


def add_rewind(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", help=SESSION_FILE)
    parser.add_argument(
        "--to", metavar="N", help="go back to before this prompt; 1 is the last one (default), '--list' lists them"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--files", action="store_true", help="restore the files only")
    only.add_argument("--conversation", action="store_true", help="rewind the conversation only, as a fork")
    parser.add_argument(
        "--include",
        metavar="PATH",
        action="append",
        default=[],
        help="restore this file or folder, too, although you changed it since; repeatable",
    )
    parser.add_argument("--list", action="store_true", help="list the prompts and earlier rewinds instead")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be restored")
    add_json(parser)
    add_session_flags(parser, (*SETTINGS, "--add-dir"))


def add_diff(parser: Parser) -> None:
    parser.add_argument("session_name", metavar="SESSION", nargs="?", help=SESSION_ID)
    parser.add_argument("--stat", action="store_true", help="print only the files, with added and removed lines")
    add_json(parser)


FLEET_FLAGS = (
    "--model", "--fallback-model", "--effort", "--max-turns", "--tools", *RULES, "--system-prompt",
    "--append-system-prompt", *SETTINGS, "--mcp-config", "--strict-mcp-config", "--agents", "--plugin-dir",
)  # fmt: skip


def add_fleet(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", parser_class=Parser, required=True, metavar="ACTION")
    about = (
        "Run the tasks of a file, each in a workspace of its own. The same command again continues where it stopped. "
        "Exit code 1: a task failed, or has no result yet."
    )
    run = actions.add_parser("run", help="run the tasks of a file", description=about)
    line = 'one task per line: {"id", "prompt", "cwd" or "repo" and "ref", "options", "check", "tags"}'
    run.add_argument("tasks", metavar="TASKS", help=f"JSON Lines file, {line}")
    run.add_argument("--out", metavar="DIR", required=True, help="where results, sessions and diffs are stored")
    run.add_argument(
        "--max-concurrent", metavar="N", type=parse_count, default=20, help="sessions at a time (default: 20)"
    )
    run.add_argument(
        "--processes", metavar="N", type=parse_count, default=1, help="processes that share the sessions (default: 1)"
    )
    run.add_argument(
        "--max-budget-usd", metavar="USD", dest="fleet_budget", type=parse_amount, help="limit for all tasks together"
    )
    for name, what in (("requests", "requests"), ("tokens", "new tokens")):
        run.add_argument(f"--{name}-per-minute", metavar="N", type=parse_count, help=f"{what} per minute and model")
    run.add_argument("--concurrent-tools", metavar="N", type=parse_count, help="tools that run at a time")
    run.add_argument(
        "--check-timeout", metavar="SECONDS", type=parse_amount, default=600.0, help="longest check (default: 600)"
    )
    run.add_argument("--retry-failed", action="store_true", help="also run tasks again that failed")
    add_session_flags(run, FLEET_FLAGS)
    about = "Print how far a fleet is, also while it runs."
    status = actions.add_parser("status", help="print how far a fleet is", description=about)
    about = "Print outcomes, turns, time and cost, for all tasks and by tag, or write them as one HTML page with plots."
    report = actions.add_parser("report", help="print what came out", description=about)
    report.add_argument("--html", metavar="FILE", help="write a self-contained HTML file")
    for action in (status, report):
        action.add_argument("folder", metavar="DIR", help="the '--out' of 'mainspring fleet run'")
        add_json(action)


def parse_count(value: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{value}' is not a whole number of at least 1")
    return int(value)


def parse_amount(value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number above 0")
    return amount


def add_models(parser: Parser) -> None:
    parser.add_argument("--ask", action="store_true", help="ask the configured servers which models they offer")
    add_json(parser)
    add_session_flags(parser, SETTINGS)


SCOPES = ("user", "project", "local")
SETTING = "name of a setting, such as theme or permissions.defaultMode; env.LANG for an entry of a table"


def add_config(parser: Parser) -> None:
    add_session_flags(parser, SETTINGS)
    actions = parser.add_subparsers(dest="action", parser_class=Parser, metavar="ACTION")
    about = "Print the effective settings and where each comes from, or what one file says."
    shown = actions.add_parser("list", help="print the settings (the default)", description=about)
    about = "Print the effective value of a setting, or what one file says. Exit code 1: it is not set."
    get = actions.add_parser("get", help="print one setting", description=about)
    about = "Change a setting in a file. The value is checked first, and the rest of the file stays as it is."
    change = actions.add_parser("set", help="change a setting", description=about)
    about = "Remove a setting from a file, so that its default or another file counts."
    unset = actions.add_parser("unset", help="remove a setting", description=about)
    for action in (get, change, unset):
        action.add_argument("key", metavar="KEY", help=SETTING)
    change.add_argument(
        "value", metavar="VALUE", nargs="+", help="text, number, true or false, JSON, or the entries of a list"
    )
    for action in (shown, get, change, unset):
        is_change = action in (change, unset)
        action.add_argument(
            "--scope", "-s", choices=SCOPES, default="user" if is_change else None,
            help="whose file to change (default: user)" if is_change else "print what these files say",
        )  # fmt: skip
    for action in (shown, get):
        add_json(action)
        add_session_flags(action, SETTINGS)


def add_trust(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help="default: the working directory")
    parser.add_argument("--list", action="store_true", help="list the folders you trust")
    parser.add_argument("--remove", action="store_true", help="stop trusting the folder")


def add_permissions(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", parser_class=Parser, required=True)
    about = "Print the decision about a tool call, the rule behind it, and a rule that would allow it."
    explain = actions.add_parser("explain", help="explain the decision about a tool call", description=about)
    explain.add_argument("tool", metavar="TOOL", nargs="?", help="name of the tool, for example Bash")
    explain.add_argument("input", metavar="INPUT", nargs="?", help="a command or path, or the whole input as JSON")
    explain.add_argument("--batch", action="store_true", help="read JSON lines from standard input, print JSON lines")
    explain.add_argument(
        "--session",
        metavar="ID",
        dest="session_name",
        nargs="?",
        const="",
        help=f"print the recorded decisions of a session, with their reasons; ID: {SESSION_ID}",
    )
    add_session_flags(explain, (*SETTINGS, *RULES))


MCP_FLAGS = (*SETTINGS, "--mcp-config", "--strict-mcp-config", "--disallowedTools")
MCP_SCOPES = ("local", "project", "user")
AFTER_DASHES = {("mcp", "add")}  # subcommands whose words after '--' belong to another program


def add_mcp(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", parser_class=MixedParser, metavar="ACTION")
    about = "Connect to the MCP servers of this folder and list their tools. Exit code 1: one cannot be used."
    shown = actions.add_parser("list", help="connect and list the tools (the default)", description=about)
    about = "Print one server: where it is configured, how it starts, and its tools."
    get = actions.add_parser("get", help="print one server", description=about)
    about = "Add a server: a program, after '--' with its arguments, or the URL of a remote one."
    add = actions.add_parser("add", help="add a server", description=about)
    about = "Add a server as JSON, in the format of '.mcp.json'."
    add_as_json = actions.add_parser("add-json", help="add a server as JSON", description=about)
    about = "Remove a server from the file that configures it."
    remove = actions.add_parser("remove", help="remove a server", description=about)
    for action in (get, add, add_as_json, remove):
        action.add_argument("name", metavar="NAME", help="name of the server")
    add.add_argument("words", metavar="COMMAND|URL", nargs="*", help="the program and its arguments, or the URL")
    add.add_argument("--transport", "-t", choices=("stdio", "http", "sse"), help="default: http for a URL, else stdio")
    several: Any = {"action": "append", "default": []}
    add.add_argument("--env", "-e", metavar="K=V", help="variable for a program; repeatable", **several)
    add.add_argument("--header", "-H", metavar="'NAME: VALUE'", help="header for a URL; repeatable", **several)
    add_as_json.add_argument("json_text", metavar="JSON", help='such as \'{"command": "some-server"}\'')
    about = "local: you, in this folder (the default); project: its '.mcp.json'; user: you, in every folder"
    for action in (add, add_as_json):
        action.add_argument("--scope", "-s", choices=MCP_SCOPES, default="local", help=about)
    for action in (get, remove):
        action.add_argument("--scope", "-s", choices=MCP_SCOPES, help="only look there")
    readers: tuple[Parser, ...] = (parser, shown, get)
    for reader in readers:
        add_json(reader)
        add_session_flags(reader, MCP_FLAGS)


def add_doctor(parser: Parser) -> None:
    parser.add_argument("--online", action="store_true", help="also ask the server whether it accepts your key")
    add_json(parser)
    add_session_flags(parser, SETTINGS)


def add_login(parser: Parser) -> None:
    parser.add_argument("provider", metavar="PROVIDER", nargs="?", help="such as anthropic, openai or ollama")
    parser.add_argument("--key-stdin", action="store_true", help="read the key from standard input")
    parser.add_argument("--model", metavar="NAME", help="the model for new sessions (default: ask)")
    parser.add_argument("--url", metavar="URL", help="address of the server, if it is not the provider's own")
    parser.add_argument("--status", action="store_true", help="print where each key comes from, and exit")


def add_logout(parser: Parser) -> None:
    parser.add_argument("provider", metavar="PROVIDER", nargs="?", help="default: all providers with a stored key")


def add_demo(parser: Parser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the project and print its path")


def add_completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.add_argument(  # the scripts ask for them
        "--values", dest="kind", choices=("models", "sessions"), help=argparse.SUPPRESS
    )


def add_topic(parser: Parser) -> None:
    topics = "a subcommand, or a page of the documentation ('topics' lists them); default: all subcommands and flags"
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help=topics)


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def parse_port(value: str) -> int:
    return cast("int", convert_value(Flag("--port", FlagValueKind.NUMBER, ""), "--port", value))


class SessionFlag(argparse.Action):
    """An option of a session: the same values and errors as without a subcommand. Lists add up."""

    def __call__(self, _parser: argparse.ArgumentParser, args: Namespace, given: Any, name: str | None = None) -> None:
        flag = BY_NAME[name or ""]
        read: Any = True if flag.takes == FlagValueKind.NOTHING else convert_value(flag, name or "", given)
        values: dict[str, Any] = getattr(args, "values", {})
        if isinstance(read, tuple):
            read = (*values.get(flag.field, ()), *read)
        args.values = {**values, flag.field: read}


def add_session_flags(parser: Parser, names: Iterable[str]) -> None:
    group = parser.add_argument_group("options of a session")
    for name in names:
        flag = BY_NAME[name]
        takes: Any = {"nargs": 0} if flag.takes == FlagValueKind.NOTHING else {"metavar": flag.value}
        group.add_argument(flag.name, *flag.also, action=SessionFlag, dest=argparse.SUPPRESS, help=flag.help, **takes)


# --- running -------------------------------------------------------------------------------------------------

# Name -> module (its function has the subcommand's name, with "_" for "-"), and the function that adds its arguments.
RUN: dict[str, tuple[str, Callable[[Parser], None]]] = {
    "sessions": ("commands.sessions", add_sessions),
    "context": ("commands.sessions", add_context),
    "export": ("commands.export", add_export),
    "trace": ("commands.trace", add_trace),
    "replay": ("commands.replay", add_replay),
    "fork": ("commands.replay", add_fork),
    "compare": ("commands.replay", add_compare),
    "what-if": ("commands.replay", add_what_if),
    "rewind": ("commands.rewind", add_rewind),
    "diff": ("commands.diff", add_diff),
    "fleet": ("commands.fleet", add_fleet),
    "models": ("commands.models", add_models),
    "config": ("commands.config", add_config),
    "trust": ("commands.config", add_trust),
    "permissions": ("commands.config", add_permissions),
    "mcp": ("commands.mcp", add_mcp),
    "doctor": ("commands.doctor", add_doctor),
    "login": ("commands.login", add_login),
    "logout": ("commands.login", add_logout),
    "demo": ("commands.demo", add_demo),
    "completion": ("commands.completion", add_completion),
    "help": ("subcommands", add_topic),
}


# As of diff(1): 1 says that something is different. `mainspring diff` is like 'git diff': 0, with and without changes.
ERROR_CODES = {"replay": 2, "fork": 2, "compare": 2, "what-if": 2, "rewind": 1, "diff": 1}


def main(argv: Sequence[str]) -> int:
    """Raises `StartError`."""
    try:
        return run_named_subcommand(argv)
    except StartError as error:
        if argv[0] in ERROR_CODES:
            error.code, error.help = ERROR_CODES[argv[0]], f"{PROGRAM} {argv[0]} --help"
        raise


def run_named_subcommand(argv: Sequence[str]) -> int:
    name = argv[0]
    if name == "simulate":
        from mainspring.simulator.command import main as simulate

        gc.enable()
        return simulate(argv[1:])
    args = parse_subcommand(argv)
    if name == "help":
        return print_help(args.topic)
    with cli.defer_signals():
        module = import_module(f"mainspring.cli.{RUN[name][0]}")
        command: Callable[[Namespace], int] = getattr(module, name.replace("-", "_"))
    gc.enable()  # start time matters less here
    try:
        return command(args)
    except UsageError as error:  # such as an invalid home folder, or a list that other users can write to
        raise StartError(str(error)) from None


def print_help(topic: str | None) -> int:
    if topic is None:
        print(help_text(), end="")
        return 0
    if topic in SUBCOMMANDS:
        return run_named_subcommand([topic, "--help"])
    from mainspring.cli.commands.help import print_topic

    return print_topic(topic)


def parse_subcommand(argv: Sequence[str]) -> Namespace:
    """The arguments; `session` is the `SessionOptions` of the flags."""
    top = Parser(prog=PROGRAM)
    commands = top.add_subparsers(dest="command", parser_class=Parser)
    name = argv[0]
    parser = commands.add_parser(name, description=f"{SUBCOMMANDS[name][0].upper()}{SUBCOMMANDS[name][1:]}.")
    RUN[name][1](parser)
    words, after = split_after_dashes(list(argv))
    args, unknown = top.parse_known_args(add_session_action(words))
    if unknown:
        raise SubcommandError(parser, f"unknown argument '{unknown[0]}'{find_near_flag(unknown[0], parser.flags())}")
    args.after = after
    args.session = Arguments(values=getattr(args, "values", {})).session
    return args
