"""The command `mainspring`: reads the arguments, starts what they name, and turns every end into an exit code.

What a command needs is imported when it runs, so that `mainspring --version` stays light.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli.flags import Arguments, near, parse
from mainspring.cli.terminal_output import protect_terminal
from mainspring.version import __version__

if TYPE_CHECKING:
    from types import TracebackType

Command = Callable[[Arguments], int]

# What a shell reports for a program that these signals ended.
INTERRUPTED = 128 + 2
PIPE_CLOSED = 128 + 13
HUNG_UP = 128 + 1
EIO = 5  # the terminal is gone; `errno` would take half a millisecond to load


def main(argv: Sequence[str] | None = None) -> int:
    sys.excepthook = crashed
    unprotect = protect_terminal()
    gc.disable()  # what is loaded stays: to look through it again and again would take 6 ms of the start
    try:
        code = to_the_end(argv)
    finally:
        gc.enable()
    unprotect()  # not after a crash, whose traceback is still to come
    return code


def crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    from mainspring.secrets.crash import tell

    tell(kind, error, trace)


def to_the_end(argv: Sequence[str] | None) -> int:
    try:
        try:
            occupy_standard_descriptors()
            words = list(sys.argv[1:] if argv is None else argv)
            return simulate(words[1:]) if words[:1] == ["simulate"] else run(parse(words))
        finally:
            print(end="", flush=True)  # here, and not while Python shuts down, a closed pipe can still be caught
    except StartError as error:
        return failed(error)
    except KeyboardInterrupt:
        after_the_echo = "\n" if sys.stderr.isatty() else ""  # a terminal has just shown "^C"
        print(f"{after_the_echo}mainspring: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return PIPE_CLOSED
    except OSError as error:  # no room for a temporary folder, a full disk behind stdout
        discard_output()
        if error.errno == EIO:
            discard_output(2)
            return HUNG_UP
        return failed(error)


def simulate(words: list[str]) -> int:
    """A model server to try things on; its flags are its own."""
    from mainspring.simulator.command import main as serve

    gc.enable()
    return serve(words)


def run(arguments: Arguments) -> int:
    if arguments.help:
        from mainspring.cli.help import help_text

        print(help_text(), end="")
        return 0
    if arguments.version:
        print(f"mainspring {__version__}")
        return 0
    if arguments.words and arguments.words[0] in COMMANDS and not arguments.print:
        return COMMANDS[arguments.words[0]](arguments)
    for flag, command in OF_COMMANDS.items():
        if flag in arguments.given:
            raise StartError(f"'{flag}' belongs to a command: 'mainspring {command} {flag}'")
    return talk(arguments)


def check_command(arguments: Arguments, *flags: str, words: int | None = None) -> None:
    """Nothing that is said is passed over."""
    said = arguments.words[1:] if words is None else arguments.words[1 + words :]
    odd = [*said, *[name for name in arguments.given if name not in flags]]
    if odd:
        raise StartError(f"'mainspring {arguments.words[0]}' knows no '{odd[0]}'{near(odd[0], flags)}")


def demo(arguments: Arguments) -> int:
    check_command(arguments, "--keep")
    from mainspring.cli.signals import undisturbed

    with undisturbed():
        from mainspring.cli.demo import demo as play

    gc.enable()
    return play(keep=arguments.keep)


def told(command: Command, arguments: Arguments) -> int:
    """A short command: nothing of it is in a hurry, and what is wrong with the surroundings is told, not raised."""
    from mainspring.core.errors import UsageError

    gc.enable()
    try:
        return command(arguments)
    except UsageError as error:  # a home folder that is none, a list that others can write to
        raise StartError(str(error)) from None


def short(arguments: Arguments) -> int:
    """One of the commands below, which are all loaded and called alike."""
    module, flags, words = SHORT[arguments.words[0]]
    if flags is not None:
        check_command(arguments, *flags, words=words)
    from importlib import import_module

    from mainspring.cli.signals import undisturbed

    with undisturbed():
        command: Command = getattr(import_module(f"mainspring.cli.{module}"), arguments.words[0])
    return told(command, arguments)


OF_SETTINGS = ("--settings", "--setting-sources")
OF_RIGHTS = ("--allowedTools", "--disallowedTools", "--permission-mode", "--add-dir")

# Where each is (its function has its name), which flags it knows (None: it says so itself), and how many words.
SHORT: dict[str, tuple[str, tuple[str, ...] | None, int | None]] = {
    "sessions": ("sessions_command", None, None),
    "models": ("models_command", (*OF_SETTINGS, "--ask", "--json"), 1),
    "context": ("context_command", ("--json",), 1),
    "trace": ("trace_command", ("--html", "--port", "--open", "--text", "--json"), 1),
    "config": ("settings_command", OF_SETTINGS, None),
    "trust": ("settings_command", ("--list", "--remove"), 1),
    "permissions": ("settings_command", (*OF_SETTINGS, *OF_RIGHTS, "--batch"), 3),
    "mcp": ("mcp_command", (*OF_SETTINGS, "--mcp-config", "--strict-mcp-config", "--disallowedTools", "--json"), None),
    "doctor": ("doctor", (*OF_SETTINGS, "--online", "--json"), None),
}

# What a word in the first place stands for, and which flags are a command's own.
COMMANDS: dict[str, Command] = {"demo": demo, **dict.fromkeys(SHORT, short)}
OF_COMMANDS = {
    "--keep": "demo",
    "--html": "trace",
    "--port": "trace",
    "--open": "trace",
    "--text": "trace",
    "--ask": "models",
    "--json": "context",
    "--online": "doctor",
    "--list": "trust",
    "--remove": "trust",
    "--batch": "permissions explain",
}


def talk(arguments: Arguments) -> int:
    """Once, or line by line where somebody sits in front of it."""
    if sys.stdout is None:
        raise StartError("standard output is closed: nobody would see the answer. '> /dev/null' throws it away")
    once = arguments.print or arguments.input_format == "stream-json" or not in_front_of_a_terminal()
    if not arguments.print:
        check_word(arguments, sure=not once)
    if not once:
        check_conversation(arguments)
    from mainspring.cli.signals import undisturbed

    with undisturbed():
        load_msgspec()
        from mainspring.core.errors import UsageError
        from mainspring.secrets.hardening import harden

        harden()  # before a key is read
        if arguments.input_format == "stream-json":
            from mainspring.cli.pipe import serve as begin
        elif once:
            from mainspring.cli.headless import headless as begin
        elif arguments.plain or not can_draw():
            from mainspring.cli.conversation import converse as begin
        else:
            from mainspring.cli.repl.start import converse as begin
    try:
        return begin(arguments)
    except UsageError as error:  # an address or a proxy in the environment that is none
        raise StartError(str(error)) from None


def load_msgspec() -> None:
    """It takes `typing_extensions` where that is installed, for what Python itself has had since 3.11. That takes 3 ms;
    whoever wants it later still gets it."""
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


def check_word(arguments: Arguments, *, sure: bool) -> None:
    """A slip of the pen should not go to a model and cost money. In front of a terminal, a word alone is no prompt;
    in a pipe it may be one, unless it looks like a command."""
    if len(arguments.words) != 1 or " " in arguments.words[0]:
        return
    word = arguments.words[0]
    hint = near(word, (*COMMANDS, "simulate"))
    if sure or hint:
        raise StartError(f"unknown command '{word}'{hint or '.'} If it is a prompt: 'mainspring -p {word}'")


def can_draw() -> bool:
    """Whether the terminal knows more than lines."""
    return os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def in_front_of_a_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def occupy_standard_descriptors() -> None:
    """Started without one of the three (`>&-`), the next file or socket would take its place, and be written to."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest one that is free
    if sys.stderr is None:  # `print` would then turn to standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # as long as we live


def failed(error: Exception) -> int:
    from mainspring.secrets.redaction import redact

    print(f"mainspring: {redact(str(error))}{see_also(error)}", file=sys.stderr)
    return 1


def see_also(error: Exception) -> str:
    said = str(error)
    if not isinstance(error, StartError) or "\n" in said:
        return ""
    return f"{'' if said.endswith('?') else '.'} See 'mainspring --help'."


def discard_output(fd: int = 1) -> None:
    """What is still in the buffer cannot be written: without this, Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
