"""The command `mainspring`: reads the arguments, starts what they name, and turns every end into an exit code.

What a command needs is imported when it runs, so that `mainspring --version` stays light.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mainspring import __version__

# What a shell reports for a program that these signals ended.
INTERRUPTED = 128 + 2
PIPE_CLOSED = 128 + 13

ABOUT = """\
An agent loop as a library; a terminal coding agent on top of it is to come.

Works today:
  mainspring demo    Watch the loop repair a small project. The model's part is
                     a script; the tools, the files and the tests are real.
                     Needs no key and no network.

Not there yet:
  mainspring         The conversation in the terminal. For now: this help.
  Models over the network, sessions, permissions, MCP.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, where argparse prints its usage first."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"mainspring: {message}. See 'mainspring --help'.\n")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        try:
            return run(argv)
        finally:
            print(end="", flush=True)  # here, and not while Python shuts down, a closed pipe can still be caught
    except KeyboardInterrupt:
        after_the_echo = "\n" if sys.stderr.isatty() else ""  # a terminal has just shown "^C"
        print(f"{after_the_echo}mainspring: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return PIPE_CLOSED
    except OSError as error:  # no room for a temporary folder, a full disk behind stdout
        discard_output()
        print(f"mainspring: {error}", file=sys.stderr)
        return 1


def run(argv: Sequence[str] | None) -> int:
    parser = new_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    args, unknown = parser.parse_known_args(words)
    command: str | None = args.command
    if command not in (None, "demo") and (not unknown or words.index(command) < words.index(unknown[0])):
        parser.error(f"unknown command '{command}'")
    if unknown:  # named first if it stands first: in `-p hello` it is the flag that is not known
        parser.error(f"unknown argument '{unknown[0]}'")
    if command is None and args.keep:
        parser.error("'--keep' belongs to a command: 'mainspring demo --keep'")
    if command is None:
        parser.print_help()
        return 0
    from mainspring.cli.demo import demo

    return demo(keep=args.keep)


def new_parser() -> Parser:
    parser = Parser(
        prog="mainspring",
        usage="mainspring [--help] [--version] [demo [--keep]]",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="with demo: keep the project, and say where it is")
    parser.add_argument("--version", action="version", version=f"mainspring {__version__}")
    return parser


def discard_output() -> None:
    """What is still in the buffer cannot be written: without this, Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
