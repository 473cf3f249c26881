"""What `mainspring --help` says, and the table of docs/cli.md: both from the one table of flags."""

from __future__ import annotations

from textwrap import fill

from mainspring.cli.flags import FLAGS, Flag

WIDTH = 80
COLUMN = 24

ABOUT = """\
usage: mainspring                  a conversation in the terminal
       mainspring -p PROMPT        one answer; standard input is added to it
       mainspring sessions         those of this folder; 'show ID' prints one
       mainspring context [ID]     what fills the window, and what it costs
       mainspring models           known models and prices; --ask asks servers
       mainspring config           what is set, and where it came from
       mainspring trust [FOLDER]   let a folder's own settings take effect
       mainspring permissions explain TOOL INPUT
       mainspring mcp              MCP servers of this folder, with their tools
       mainspring doctor           is all there that a run needs? and if not?
       mainspring demo [--keep]    watch the loop repair a small project
       mainspring simulate         a model server that can misbehave, for tests

The first two ask a model: they need ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or
ANTHROPIC_BASE_URL. The demo is a script with real tools, and needs nothing.

In a conversation you are asked before anything is changed. With -p nobody can
be asked: what no rule allows (--allowedTools, --permission-mode, settings) is
not done. 'mainspring permissions explain TOOL INPUT' says what would be
decided, and why. Where bubblewrap is installed, commands run in a sandbox.

"""
LATER = "\nAccepted, but not honoured yet (in brackets: what will bring them):\n"
ENDS = """
Exit codes: 0 all is well, 1 an error, 130 Ctrl-C, 143 SIGTERM, 141 nobody
reads the output any more. More: docs/cli.md
"""


def help_text() -> str:
    now = [entry(flag, flag.help) for flag in FLAGS if not flag.later]
    later = [entry(flag, f"{flag.help} [{flag.later}]") for flag in FLAGS if flag.later]
    return "".join([ABOUT, "Flags:\n", *now, LATER, *later, ENDS])


def entry(flag: Flag, words: str) -> str:
    short = [name for name in flag.also if len(name) == 2]
    left = f"  {', '.join([*short, flag.name])}" + (f" {flag.value}" if flag.value else "")
    right = fill(words, WIDTH, initial_indent=" " * COLUMN, subsequent_indent=" " * COLUMN)
    if len(left) < COLUMN - 1:
        return left + right[len(left) :] + "\n"
    return f"{left}\n{right}\n"


def flags_table() -> str:
    """For docs/cli.md; a test compares."""
    rows = [f"| {spellings(flag)} | {flag.help} | {honoured(flag)} |\n" for flag in FLAGS]
    return "| flag | what it does | honoured |\n| --- | --- | --- |\n" + "".join(rows)


def honoured(flag: Flag) -> str:
    return f"not yet: {flag.later}" if flag.later else "yes"


def spellings(flag: Flag) -> str:
    value = f" {flag.value}".replace("|", "\\|") if flag.value else ""
    return ", ".join([f"`{name}`" for name in flag.also] + [f"`{flag.name}{value}`"])
