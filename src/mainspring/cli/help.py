"""What `mainspring --help` says, and the table of docs/cli.md: both from the one table of flags."""

from __future__ import annotations

from textwrap import fill

from mainspring.cli.flags import FLAGS, SUBCOMMANDS, Flag

WIDTH = 80
COLUMN = 24

USAGE = """\
usage: mainspring [FLAGS]                   start a conversation in the terminal
       mainspring -p [FLAGS] [PROMPT]       answer one prompt and exit; standard
                                            input is added to the prompt
       mainspring SUBCOMMAND [--help]       one of these:

"""
ABOUT = """
The first two call a model. They need ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or
ANTHROPIC_BASE_URL.

In a conversation you approve every change. With -p nobody can approve, so
anything your rules do not allow (--allowedTools, --permission-mode, settings)
is denied. 'mainspring permissions explain TOOL INPUT' shows the decision and
the reason. Where bubblewrap is installed, commands run in a sandbox.

"""
LATER = "\nAccepted, but without effect yet (in brackets: the missing feature):\n"
ENDS = """
Exit codes: 0 success, 1 error, 130 Ctrl-C, 143 SIGTERM, 141 output closed.
More: docs/cli.md
"""


def help_text() -> str:
    now = [format_flag(flag, flag.help) for flag in FLAGS if not flag.later]
    later = [format_flag(flag, f"{flag.help} [{flag.later}]") for flag in FLAGS if flag.later]
    commands = [row(f"  {name}", about) for name, about in SUBCOMMANDS.items()]
    return "".join([USAGE, *commands, ABOUT, "Flags:\n", *now, LATER, *later, ENDS])


def format_flag(flag: Flag, words: str) -> str:
    short = [name for name in flag.also if len(name) == 2]
    left = f"  {', '.join([*short, flag.name])}" + (f" {flag.value}" if flag.value else "")
    return row(left, words)


def row(left: str, words: str) -> str:
    right = fill(words, WIDTH, initial_indent=" " * COLUMN, subsequent_indent=" " * COLUMN)
    if len(left) < COLUMN - 1:
        return left + right[len(left) :] + "\n"
    return f"{left}\n{right}\n"


def flags_table() -> str:
    """For docs/cli.md; a test compares."""
    rows = [f"| {format_spellings(flag)} | {flag.help} | {describe_support(flag)} |\n" for flag in FLAGS]
    return "| flag | what it does | honoured |\n| --- | --- | --- |\n" + "".join(rows)


def describe_support(flag: Flag) -> str:
    return f"not yet: {flag.later}" if flag.later else "yes"


def format_spellings(flag: Flag) -> str:
    value = f" {flag.value}".replace("|", "\\|") if flag.value else ""
    return ", ".join([f"`{name}`" for name in flag.also] + [f"`{flag.name}{value}`"])
