"""The command `mainspring`: parse the arguments, run what they name, and turn every end into an exit code.

A command imports what it needs when it runs, so that `mainspring --version` stays fast. Python's garbage collector is
off while modules load.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring import cli, secrets
from mainspring.agent.options import StartError
from mainspring.cli.flags import BY_NAME, SUBCOMMANDS, Arguments, find_near_flag, help_text, parse_arguments
from mainspring.cli.stdio import protect_terminal
from mainspring.version import describe_version

if TYPE_CHECKING:
    from types import TracebackType


# What a shell reports for a program ended by these signals.
INTERRUPTED = 128 + 2
PIPE_CLOSED = 128 + 13
HUNG_UP = 128 + 1
EIO = 5  # the terminal is gone; importing `errno` would take half a millisecond


def main(argv: Sequence[str] | None = None) -> int:
    sys.excepthook = report_crash
    unprotect = protect_terminal()
    gc.disable()  # modules stay loaded: scanning them again and again would add 6 ms to the start
    try:
        code = run_to_exit(argv)
    finally:
        gc.enable()
    unprotect()  # not after a crash: its traceback is printed later
    return code


def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    secrets.print_crash(kind, error, trace)


def run_to_exit(argv: Sequence[str] | None) -> int:
    try:
        try:
            occupy_standard_descriptors()
            words = list(sys.argv[1:] if argv is None else argv)
            return run_subcommand(words) if words and words[0] in SUBCOMMANDS else run_session(parse_arguments(words))
        finally:
            print(end="", flush=True)  # here a closed pipe can still be caught, while Python shuts down it cannot
    except StartError as error:
        return report_error(error)
    except KeyboardInterrupt:
        after_the_echo = "\n" if sys.stderr.isatty() else ""  # a terminal has just shown "^C"
        print(f"{after_the_echo}mainspring: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return PIPE_CLOSED
    except OSError as error:  # such as a full disk
        discard_output()
        if error.errno == EIO:
            discard_output(2)
            return HUNG_UP
        return report_error(error)


def run_subcommand(words: list[str]) -> int:
    from mainspring.cli.subcommands import main as run_named

    try:
        return run_named(words)
    except SystemExit as end:  # raised by argparse after `--help`
        return end.code if isinstance(end.code, int) else 0


def run_session(arguments: Arguments) -> int:
    if arguments.help:
        print(help_text(), end="")
        return 0
    if arguments.version:
        print(f"mainspring {describe_version()}")
        return 0
    if arguments.words and arguments.words[0] in SUBCOMMANDS and not arguments.print:
        name = arguments.words[0]
        raise StartError(f"'{name}' is a subcommand: put it first, 'mainspring {name} ...'")
    return run_conversation(arguments)


def run_conversation(arguments: Arguments) -> int:
    """Run print mode, or a conversation if standard input and output are a terminal."""
    if sys.stdout is None:
        raise StartError("standard output is closed, so the answer cannot be printed. Use '> /dev/null' to discard it")
    once = arguments.print or arguments.input_format == "stream-json" or not is_interactive()
    if arguments.pick_session and once:
        raise StartError("'--resume' needs a session here: '--resume ID'. Run 'mainspring sessions' to list them")
    if not arguments.print:
        check_word(arguments)
    if not once:
        check_conversation(arguments)
    with cli.defer_signals():
        load_msgspec()
        from mainspring.core.errors import UsageError
        from mainspring.processes.own_process import harden_process

        harden_process()  # before a key is read
        if arguments.debug or arguments.debug_file or arguments.debug_to_stderr:
            begin_debug_log(arguments)
        if arguments.input_format == "stream-json":
            from mainspring.cli.stream_json import serve as begin
        elif once:
            from mainspring.cli.print_mode import run_print_mode as begin
        elif arguments.plain or not can_draw():
            from mainspring.cli.plain import run_plain_conversation as begin
        else:
            from mainspring.cli.tui.start import run_terminal as begin
    try:
        return begin(arguments)
    except UsageError as error:  # such as an invalid address or proxy in the environment
        raise StartError(str(error)) from None


def begin_debug_log(arguments: Arguments) -> None:
    """Write the debug log to the given file or to standard error; with `--debug` alone to a new file in our home."""
    from mainspring.settings.load import home_folder
    from mainspring.telemetry.debug_log import CATEGORIES, start_debug_log

    path, stderr = arguments.debug_file, arguments.debug_to_stderr
    home = None if path or stderr else home_folder(os.environ)
    if home is None and not path and not stderr:
        raise StartError("no home folder for the debug log: set MAINSPRING_HOME, or name a file with '--debug-file'")
    try:
        made = start_debug_log(
            arguments.debug or tuple(CATEGORIES), path=path, folder=f"{home}/debug" if home else "", stderr=stderr
        )
    except OSError as error:
        raise StartError(f"cannot write the debug log '{path or error.filename}': {error.strerror}") from None
    if not path and made:
        print(f"mainspring: debug log: '{made}'", file=sys.stderr)


def load_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which it would load for features that Python has had since 3.11. That
    saves 3 ms; later imports of `typing_extensions` still work."""
    absent = "typing_extensions" not in sys.modules
    if absent:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # as if it were not installed
    from importlib import import_module

    import_module("msgspec")
    if absent:
        del sys.modules["typing_extensions"]


def check_conversation(arguments: Arguments) -> None:
    if "--output-format" in arguments.given:
        raise StartError("'--output-format' needs '-p'")


def check_word(arguments: Arguments) -> None:
    """A single word without `-p` is no prompt, not even in a pipe: a typo, or a subcommand that another program has,
    must not go to a model and cost money (settled 42)."""
    if len(arguments.words) != 1 or len(arguments.words[0].split()) != 1:
        return
    word = arguments.words[0]
    if not word.startswith("/"):
        raise StartError(
            f"unknown command '{word}'{suggest_command(word)} To send it as a prompt: 'mainspring -p {word}'"
        )


def suggest_command(word: str) -> str:
    """What the user probably meant: a subcommand, a flag, or a slash command."""
    if f"--{word}" in BY_NAME:
        return f". Did you mean '--{word}'?"
    if near := find_near_flag(word, SUBCOMMANDS):
        return near
    from mainspring.agent.slash_commands import TERMINAL, names_at

    return f". In a conversation, type '/{word}'." if word in names_at(TERMINAL) else "."


def can_draw() -> bool:
    """Whether the terminal can do more than print lines."""
    return os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def is_interactive() -> bool:
    return os.isatty(0) and os.isatty(1)


def occupy_standard_descriptors() -> None:
    """If one of the three is closed (`>&-`), the next file or socket would get its number and receive our output."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    if sys.stderr is None:  # `print` would then write to standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # as long as we live


def report_error(error: Exception) -> int:
    from errno import EDQUOT, ENOSPC

    from mainspring.text import describe_error

    is_full = isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT) and not error.filename
    what = "cannot write the output: " if is_full else ""
    print(f"mainspring: {what}{secrets.redact(describe_error(error))}{see_also(error)}", file=sys.stderr)
    return error.code if isinstance(error, StartError) else 1


WAYS_OUT = ("See '", "see '", "Run '", "run '", "Use '", "use '", "'mainspring help ")


def see_also(error: Exception) -> str:
    """Where to read more, unless the message says what to do."""
    said = str(error)
    if not isinstance(error, StartError) or "\n" in said:
        return ""
    end = "" if said.endswith(("?", ".")) else "."
    return end if any(word in said for word in WAYS_OUT) else f"{end} See '{error.help}'."


def discard_output(fd: int = 1) -> None:
    """Drop the buffered output that cannot be written: otherwise Python would report an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def freeze_garbage_collector() -> None:
    """Everything is loaded and stays, so the collector need not scan it again."""
    gc.freeze()
    gc.enable()
