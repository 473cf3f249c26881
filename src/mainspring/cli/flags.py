"""The command-line flags: one table, one parser, one pass (security T5).

`mainspring --help` and the table in docs/cli.md are generated from it. JSON values of flags are decoded here.

Why not argparse: an SDK passes values such as `--system-prompt "- be brief"`, which argparse takes for a flag; and an
unknown flag must be named and exit with code 1 (stream-json 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from mainspring.agent.options import (
    CHOICES,
    LEAST,
    OTHER_MODES,
    Fields,
    OptionError,
    SessionOptions,
    Spell,
    StartError,
    read_option,
)
from mainspring.cli.stdio import print_hook_message, print_stderr
from mainspring.text import did_you_mean

NOTHING: Mapping[str, Any] = {}
# Each has its own arguments and `--help` (`subcommands.py`).
SUBCOMMANDS = {
    "sessions": "list the sessions of this folder, or print one",
    "context": "show what fills the context window of a session, and what it costs",
    "export": "write a session as Markdown, HTML or JSON, without secrets",
    "trace": "show a session on a time axis: in your browser, as HTML, text or JSON",
    "replay": "run the decisions of a session again and tell which are not the same",
    "fork": "copy a session up to one of its turns, to continue it from there",
    "compare": "compare two sessions: first difference, turns, cost, outcome",
    "what-if": "continue a session from one of its turns with another model, prompt or compaction, and compare",
    "login": "connect a model provider: store its key and choose a model",
    "logout": "remove stored keys",
    "rewind": "restore the files and the conversation of a session as they were before one of its prompts",
    "diff": "show which files a session changed, by prompt",
    "fleet": "run many tasks under one budget, and report what came out",
    "models": "list the known models and their prices",
    "config": "show the effective settings and where each comes from, or change one",
    "trust": "trust a folder: its settings, hooks, MCP servers, agents and skills take effect",
    "permissions": "explain the decision about a tool call",
    "mcp": "list, add and remove the MCP servers of this folder",
    "doctor": "check your installation",
    "demo": "watch the loop repair a small project (no key, no network)",
    "simulate": "run a model server for tests that fails on request",
    "completion": "print the completions of a shell",
    "help": "print this help, that of a subcommand, or a page of the documentation",
}
JSON = ("agents", "mcp_servers", "output_schema", "settings")  # options given as JSON or as a file name


class Arguments(Fields):
    """The parsed command line: options of the session, and options of the command alone."""

    values: Mapping[str, Any] = NOTHING  # session options by name; JSON is still text
    words: tuple[str, ...] = ()  # arguments without a flag
    given: tuple[str, ...] = ()  # names of the flags given
    print: bool = False
    output_format: str = "text"
    input_format: str = "text"
    verbose: bool = False
    permission_prompts: str = "host"
    workload: str = ""
    debug: tuple[str, ...] = ()  # categories
    debug_file: str = ""
    debug_to_stderr: bool = False
    plain: bool = False
    pick_session: bool = False  # '--resume' without a value
    version: bool = False
    help: bool = False

    @cached_property
    def session(self) -> SessionOptions:
        """Raises `OptionError` for JSON that cannot be read."""
        values = dict(self.values)
        if any(name in values for name in JSON):
            values |= read_json_options(values)
        if self.permission_prompts == "none":
            values["permission_prompt_tool_name"] = None
        return SessionOptions(
            driven=self.input_format == "stream-json",
            lists_commands=self.output_format != "text",
            ignored=tuple([name for name in self.given if BY_NAME[name].later]),
            notice=print_stderr,
            remark=print_hook_message,
            spell=spell_option,
            **values,
        )


class FlagValueKind:
    """The value of a flag. A list is split at commas and spaces; repeated lists add up."""

    NOTHING = ""
    TEXT = "TEXT"
    NUMBER = "N"
    MONEY = "USD"
    CHOICE = "WORD"
    UUID = "UUID"
    LIST = "A,B"
    FILE = "FILE"
    EACH = "FOLDER"  # one value; the flag is repeatable
    SOURCE = "FILE|JSON"  # the same
    CATEGORIES = "[A,B]"  # may be left out


class Flag:
    """A plain class: it is defined at every start, and a NamedTuple takes longer to define."""

    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        name: str,
        takes: str,
        help: str,
        *,
        also: tuple[str, ...] = (),
        choices: tuple[str, ...] = (),
        later: str = "",
    ) -> None:
        """`also`: other spellings; `later`: the missing feature, if the flag has no effect yet."""
        self.name, self.takes, self.help = name, takes, help
        self.also, self.choices, self.later = also, choices, later

    @property
    def field(self) -> str:
        """Its name in `SessionOptions`, or in `Arguments`."""
        name = self.name.removeprefix("--").replace("Tools", "_tools").replace("-", "_")
        return OPTIONS.get(self.name, name)

    @property
    def value(self) -> str:
        """The value as the help shows it."""
        return "|".join(self.choices) or self.takes


# Session options whose name differs from their flag.
OPTIONS = {
    "--add-dir": "add_dirs",
    "--continue": "continue_conversation",
    "--dangerously-skip-permissions": "permission_mode",
    "--json-schema": "output_schema",
    "--mcp-config": "mcp_servers",
    "--permission-prompt-tool": "permission_prompt_tool_name",
    "--no-session-persistence": "persist",
    "--plugin-dir": "plugin_dirs",
}
FLAGS: tuple[Flag, ...] = (
    Flag(
        "--print",
        FlagValueKind.NOTHING,
        "answer one prompt and exit; the prompt is an argument, standard input, or both",
        also=("-p",),
    ),
    Flag(
        "--output-format",
        FlagValueKind.CHOICE,
        "with -p: print the answer, one result object, or one JSON line per event",
        choices=("text", "json", "stream-json"),
    ),
    Flag(
        "--input-format",
        FlagValueKind.CHOICE,
        "read one prompt as text, or prompts and control requests as JSON lines (the protocol of claude-agent-sdk)",
        choices=("text", "stream-json"),
    ),
    Flag("--verbose", FlagValueKind.NOTHING, "accepted for compatibility: stream-json always prints every event"),
    Flag("--model", FlagValueKind.TEXT, "use this model: an id, or sonnet, opus, haiku, fable, default"),
    Flag("--fallback-model", FlagValueKind.LIST, "switch to these models when the first one is overloaded"),
    Flag(
        "--context-window",
        FlagValueKind.NUMBER,
        "override the model's context window, in tokens; a reply gets at most a quarter of it",
    ),
    Flag(
        "--effort",
        FlagValueKind.CHOICE,
        "set how hard the model tries: low for lookups, xhigh for code, max for hard problems",
        choices=CHOICES["effort"],
    ),
    Flag("--thinking", FlagValueKind.CHOICE, "turn extended thinking on or off", choices=CHOICES["thinking"]),
    Flag(
        "--max-thinking-tokens",
        FlagValueKind.NUMBER,
        "limit thinking, for models that take a token budget; 0 turns it off",
    ),
    Flag(
        "--thinking-display",
        FlagValueKind.CHOICE,
        "show a summary of the model's thinking, or leave it out",
        choices=CHOICES["thinking_display"],
    ),
    Flag("--betas", FlagValueKind.LIST, "enable these beta features of the API"),
    Flag("--system-prompt", FlagValueKind.TEXT, "replace the default system prompt (empty: minimal prompt)"),
    Flag("--system-prompt-file", FlagValueKind.FILE, "replace the default system prompt with the contents of a file"),
    Flag("--append-system-prompt", FlagValueKind.TEXT, "append text to the system prompt"),
    Flag("--max-turns", FlagValueKind.NUMBER, "stop after this many turns"),
    Flag(
        "--max-budget-usd",
        FlagValueKind.MONEY,
        "stop before a call that could cost more than what is left of this amount",
    ),
    Flag("--task-budget", FlagValueKind.NUMBER, "token budget announced to the model"),
    Flag(
        "--retry",
        FlagValueKind.CHOICE,
        "unattended: wait up to six hours for a server that is overloaded, limits the rate or cannot be reached",
        choices=CHOICES["retry"],
    ),
    Flag("--tools", FlagValueKind.LIST, "offer only these tools (empty: none; 'default': all)"),
    Flag(
        "--allowedTools",
        FlagValueKind.LIST,
        "allow without asking: a tool, or a rule such as 'Bash(git log:*)'",
        also=("--allowed-tools",),
    ),
    Flag(
        "--disallowedTools",
        FlagValueKind.LIST,
        "always deny: a tool, or a rule such as 'Bash(rm:*)'",
        also=("--disallowed-tools",),
    ),
    Flag(
        "--permission-mode",
        FlagValueKind.CHOICE,
        "decide calls that no rule covers; 'manual' is another name for 'default'",
        choices=CHOICES["permission_mode"],
    ),
    Flag("--dangerously-skip-permissions", FlagValueKind.NOTHING, "same as --permission-mode bypassPermissions"),
    Flag(
        "--allow-dangerously-skip-permissions",
        FlagValueKind.NOTHING,
        "let the session switch to bypassPermissions later, without starting in it",
    ),
    Flag(
        "--permission-prompt-tool",
        FlagValueKind.TEXT,
        "ask this MCP tool for approvals, or 'stdio' for the program on standard input",
    ),
    Flag(
        "--permission-prompts",
        FlagValueKind.CHOICE,
        "none: deny what would need an approval, even if --permission-prompt-tool is given",
        choices=("host", "none"),
    ),
    Flag("--add-dir", FlagValueKind.EACH, "let tools work in this folder too; repeatable"),
    Flag("--session-id", FlagValueKind.UUID, "use this id for the new session"),
    Flag("--continue", FlagValueKind.NOTHING, "resume the newest session of this folder", also=("-c",)),
    Flag(
        "--resume",
        FlagValueKind.TEXT,
        "resume a session by id, start of an id, or title; without a value: pick one from a list",
        also=("-r",),
    ),
    Flag(
        "--fork-session",
        FlagValueKind.NOTHING,
        "with --continue or --resume: continue under a new id and leave the old session unchanged",
    ),
    Flag("--resume-session-at", FlagValueKind.UUID, "with --continue or --resume: drop everything after this message"),
    Flag(
        "--resume-drops-turn", FlagValueKind.UUID, "with --resume-session-at: fail unless this is the only turn dropped"
    ),
    Flag(
        "--no-session-persistence", FlagValueKind.NOTHING, "store nothing on disk: the session cannot be resumed later"
    ),
    Flag("--require-journal", FlagValueKind.NOTHING, "stop if the session cannot be stored"),
    Flag(
        "--session-mirror",
        FlagValueKind.NOTHING,
        "with --input-format stream-json: also print the lines of the session file",
    ),
    Flag("--include-partial-messages", FlagValueKind.NOTHING, "with stream-json: also print deltas as they stream"),
    Flag("--include-hook-events", FlagValueKind.NOTHING, "with stream-json: also print when hooks start and finish"),
    Flag("--replay-user-messages", FlagValueKind.NOTHING, "with stream-json: also print the prompts"),
    Flag(
        "--tool-use-summaries",
        FlagValueKind.NOTHING,
        "let the small model describe each batch of tool calls in one line (not with text output)",
    ),
    Flag(
        "--prompt-suggestions",
        FlagValueKind.NOTHING,
        "with stream-json: suggest the next prompt after each result, with the small model",
    ),
    Flag(
        "--json-schema",
        FlagValueKind.TEXT,
        "return an object that matches this JSON Schema, in 'structured_output' of the result",
    ),
    Flag("--settings", FlagValueKind.TEXT, "load settings from a file or a JSON string"),
    Flag("--setting-sources", FlagValueKind.LIST, "load only these settings files: user, project, local (empty: none)"),
    Flag("--mcp-config", FlagValueKind.SOURCE, "add MCP servers from a file or a JSON string; repeatable"),
    Flag("--strict-mcp-config", FlagValueKind.NOTHING, "use only the MCP servers of --mcp-config"),
    Flag("--agents", FlagValueKind.TEXT, 'define agent types as JSON: {"name": {"description", "prompt", ...}}'),
    Flag("--plugin-dir", FlagValueKind.EACH, "load a plugin from this folder"),
    Flag("--workload", FlagValueKind.TEXT, "accepted for compatibility, without effect"),
    Flag(
        "--debug",
        FlagValueKind.CATEGORIES,
        "write a debug log: all, or these of api, tools, hooks, mcp, permissions, context, session; '!api' is all but "
        "that; a line on standard error names the file",
        also=("-d",),
    ),
    Flag("--debug-file", FlagValueKind.FILE, "write the debug log to this file"),
    Flag("--debug-to-stderr", FlagValueKind.NOTHING, "write the debug log to standard error", also=("-d2e",)),
    Flag(
        "--plain",
        FlagValueKind.NOTHING,
        "read and print line by line, for screen readers and simple terminals",
        also=("--ax-screen-reader",),
    ),
    Flag("--version", FlagValueKind.NOTHING, "print the version", also=("-v",)),
    Flag("--help", FlagValueKind.NOTHING, "show this help", also=("-h",)),
)
# Flags of Claude Code that its SDKs may pass, and that we do not take: why, and what to do instead.
REFUSED = {
    "--agent": "a session cannot run as an agent type; use --append-system-prompt, --tools and --model",
    "--await-initialize": "pass plugins, MCP servers and settings as flags, not in the initialize request",
    "--channels": "MCP servers cannot send prompts to a session",
    "--managed-settings": "managed settings come from the file of the system; use --settings",
    "--managed-settings-in-initialize": "managed settings come from the file of the system; use --settings",
    "--plugin-dir-no-mcp": "a plugin is loaded with its MCP servers; use --plugin-dir",
    "--project-config-root": "settings come from the working directory; start there and use --add-dir",
}
BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, *flag.also)}


PICKS = "--resume"  # without a value, it lists the sessions


def parse_arguments(arguments: list[str]) -> Arguments:
    """The last value of a flag wins, but lists add up. Raises `StartError`."""
    values: dict[str, Any] = {}
    words: list[str] = []
    given: list[str] = []
    left = arguments[::-1]
    while left:
        word = left.pop()
        if word == "--":
            words.extend(reversed(left))
            break
        if word == "-" or not word.startswith("-"):
            words.append(word)
            continue
        name, has_value, value = word.partition("=")
        flag = BY_NAME.get(name)
        if flag is None and name in REFUSED:
            raise StartError(f"'{name}' is not supported: {REFUSED[name]}")
        if flag is None:
            raise StartError(f"unknown flag '{name}'{find_near_flag(name, BY_NAME)}")
        given.append(flag.name)
        if flag.takes == FlagValueKind.NOTHING:
            if has_value:
                raise StartError(f"'{name}' takes no value: leave out '={value}'")
            values[flag.field] = True
            continue
        if flag.takes == FlagValueKind.CATEGORIES:
            values[flag.field] = read_categories(name, value if has_value else None, left)
            continue
        if not has_value:
            if flag.name == PICKS and (not left or left[-1].startswith("-")):
                values["pick_session"] = True
                continue
            value = take_value(flag, name, left)
        read = convert_value(flag, name, value)
        values[flag.field] = (*values.get(flag.field, ()), *read) if isinstance(read, tuple) else read
    own = {name: values.pop(name) for name in Arguments.__annotations__ if name in values}
    if "--dangerously-skip-permissions" in given:
        values["permission_mode"] = "bypassPermissions"
    if "persist" in values:
        values["persist"] = False  # the only flag of this option turns it off
    return Arguments(values=values, words=tuple(words), given=tuple(given), **own)


def take_value(flag: Flag, name: str, left: list[str]) -> str:
    """The next word."""
    if not left:
        raise StartError(f"'{name}' needs a value: '{name} {flag.value}'")
    return left.pop()


def spell_option(option: str, value: str = "") -> str:
    """A session option as it is written on the command line."""
    if option == "driven":
        return "--input-format stream-json"
    if (option, value) == ("persist", "False"):
        return "--no-session-persistence"
    found = next((flag.name for flag in FLAGS if flag.field == option), option)
    return f"{found} {value}" if value else found


def convert_value(flag: Flag, name: str, value: str) -> object:
    """Raises `OptionError` with the flag name as the user wrote it."""

    def as_written(_: str, value: str = "") -> str:
        return f"{name} {value}" if value else name

    match flag.takes:
        case FlagValueKind.NUMBER | FlagValueKind.MONEY | FlagValueKind.CHOICE | FlagValueKind.UUID:
            return check_value(flag, value, as_written)
        case FlagValueKind.LIST:
            return split_list(show_argument(value))
        case FlagValueKind.TEXT:
            return show_argument(value)
        case FlagValueKind.EACH | FlagValueKind.SOURCE:
            return (value,)
        case _:
            return value


def read_categories(name: str, value: str | None, left: list[str]) -> tuple[str, ...]:
    """The next word belongs to the flag only if it is a list of categories: else it is the prompt."""
    from mainspring.telemetry.debug_log import CATEGORIES, parse_categories

    if value is None:
        found = parse_categories(left[-1]) if left else None
        if found is None:
            return tuple(CATEGORIES)
        left.pop()
        return found
    if (found := parse_categories(value)) is None:
        raise StartError(f"'{name}={value}' is not a list of these, with commas: {', '.join(CATEGORIES)}")
    return found


def find_near_flag(name: str, names: Iterable[str]) -> str:
    return did_you_mean(name, names)


def show_argument(text: str) -> str:
    """Arguments are bytes: replace what is not valid UTF-8 with U+FFFD. Not for file names."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_value(flag: Flag, value: str, spell: Spell) -> object:
    """Imports the checks only here: many starts have no such flag."""
    from mainspring.agent import option_checks as checks

    option, read = flag.field, value
    match flag.takes:
        case FlagValueKind.NUMBER:
            least = LEAST.get(option, 1)
            if not (value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS) or int(value) < least:
                raise checks.number_error(option, value, least, spell)
            return int(value)
        case FlagValueKind.MONEY:
            try:
                amount = float(value)
            except ValueError:
                amount = 0
            if not checks.is_money(amount):
                raise checks.money_error(value, spell)
            return amount
        case FlagValueKind.CHOICE if option not in CHOICES:  # an option of the command alone
            checks.check_choice(option, value, flag.choices, spell)
        case FlagValueKind.CHOICE:
            checks.check_option(option, value, spell)
            read = OTHER_MODES.get(value, value) if option == "permission_mode" else value
        case _:
            checks.check_option(option, value, spell)
            read = value.lower()
    return read


MOST_DIGITS = 12


def split_list(text: str) -> tuple[str, ...]:
    """Split at commas and blanks outside parentheses: `Bash(git log, -1),Read` are two. A parenthesis after a backslash
    is an ordinary character. An unclosed parenthesis extends to the end."""
    parts, depth, escaped = [""], 0, False
    for char in text:
        if not escaped:
            depth += (char == "(") - (char == ")" and depth > 0)
        if char in ", \t\r\n" and not depth and not escaped:
            parts.append("")
        else:
            parts[-1] += char
        escaped = char == "\\" and not escaped
    return tuple([part for part in parts if part])


WIDTH = 80
COLUMN = 24

USAGE = """\
usage: mainspring [FLAGS]                   start a conversation in the terminal
       mainspring -p [FLAGS] [PROMPT]       answer one prompt and exit; standard
                                            input is added to the prompt
       mainspring SUBCOMMAND [--help]       one of these:

"""
ABOUT = """
The first two call a model. 'mainspring login' stores the key of a provider; a
key in the environment, such as ANTHROPIC_API_KEY, takes precedence.

In a conversation you approve every change. With -p nobody can approve, so
anything your rules do not allow (--allowedTools, --permission-mode, settings)
is denied. 'mainspring permissions explain TOOL INPUT' shows the decision and
the reason. Where bubblewrap is installed, commands run in a sandbox.

"""
LATER = "\nAccepted, but without effect yet (in brackets: the missing feature):\n"
ENDS = """
Exit codes: 0 success, 1 error, 130 Ctrl-C, 143 SIGTERM, 141 output closed.
More: mainspring help cli, mainspring help topics
"""


def help_text() -> str:
    now = [format_flag(flag, flag.help) for flag in FLAGS if not flag.later]
    later = [format_flag(flag, f"{flag.help} [{flag.later}]") for flag in FLAGS if flag.later]
    commands = [row(f"  {name}", about) for name, about in SUBCOMMANDS.items()]
    return "".join([USAGE, *commands, ABOUT, "Flags:\n", *now, *([LATER, *later] if later else []), ENDS])


def format_flag(flag: Flag, words: str) -> str:
    short = [name for name in flag.also if len(name) == 2]
    left = f"  {', '.join([*short, flag.name])}" + (f" {flag.value}" if flag.value else "")
    return row(left, words)


def row(left: str, words: str) -> str:
    from textwrap import fill

    right = fill(words, WIDTH, initial_indent=" " * COLUMN, subsequent_indent=" " * COLUMN)
    if len(left) < COLUMN - 1:
        return left + right[len(left) :] + "\n"
    return f"{left}\n{right}\n"


def flags_table() -> str:
    """The table in docs/cli.md; a test compares the two."""
    rows = [f"| {format_spellings(flag)} | {flag.help} | {describe_support(flag)} |\n" for flag in FLAGS]
    return "| flag | what it does | supported |\n| --- | --- | --- |\n" + "".join(rows)


def describe_support(flag: Flag) -> str:
    return f"not yet: {flag.later}" if flag.later else "yes"


def format_spellings(flag: Flag) -> str:
    value = f" {flag.value}".replace("|", "\\|") if flag.value else ""
    return ", ".join([f"`{name}`" for name in flag.also] + [f"`{flag.name}{value}`"])


def read_json_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Decodes the options that are JSON. Raises `OptionError`."""
    read: dict[str, Any] = {}
    if "settings" in given:
        read["settings"] = read_option("settings", given["settings"], spell_option)
    if "mcp_servers" in given:
        read["mcp_servers"] = tuple([read_option("mcp_servers", text, spell_option) for text in given["mcp_servers"]])
    if "output_schema" in given:
        read["output_schema"] = decode_json_flag("output_schema", given["output_schema"], "")
    if "agents" in given:
        read["agents"] = decode_json_flag("agents", given["agents"], "it is not an object of agents by name: ")
        for name in named_twice(given["agents"]):
            print_stderr(f"'--agents' defines '{name}' twice: using the last one")
    return read


def decode_json_flag(option: str, text: str, why: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise OptionError(option, f" cannot be understood: {why}{error}", spell=spell_option) from None


def named_twice(text: str) -> list[str]:
    import json  # it reports every name; msgspec keeps only the last

    found: list[str] = []

    def pairs(all_of_them: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in all_of_them]
        found[:] = sorted({name for name in names if names.count(name) > 1})  # the outermost is the last
        return dict(all_of_them)

    json.loads(text, object_pairs_hook=pairs)
    return found
