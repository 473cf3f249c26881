"""Programs with a script among their words: awk, sed, make, database clients, and interpreters of other languages.

Each script is parsed only as far as harmless scripts go. A script that is not understood counts as running.

For interpreters: which of their words are code, and which name a script. Code among the words, or from the input, is
not analyzed: it is asked. A script in a file is a program like any other, and the words after it are its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from mainspring.permissions.shell.values import UNKNOWN, ShellWord, longs, names


def _first_operand(words: tuple[ShellWord, ...], values: str) -> ShellWord | None:
    index = 1
    while index < len(words):
        text = words[index].text
        if text == "--":
            return words[index + 1] if index + 1 < len(words) else None
        if not text.startswith("-") or text == "-":
            return words[index]
        index += 2 if len(text) == 2 and text[1] in values else 1
    return None


# --- awk ----------------------------------------------------------------------------------------------------------

# Regular expressions appear where a value begins; a `|` in them is no pipe. `||` is none, either.
_AWK_REGEX = re.compile(r"(^|[~(,!&|{;\n])[ \t]*/(?:[^/\\\n\"\[]|\\.)*/|\|\|")
_AWK_RUNS = re.compile(r"system|getline|\||@")


def awk_runs(words: tuple[ShellWord, ...]) -> bool:
    """Whether an awk program may run or write. One from a file counts as a program like any other."""
    if any(
        word.text.startswith(("-f", "-i", "-l", "-E", "--file", "--include", "--load", "--exec", "-e", "--source"))
        for word in words[1:]
    ):
        return True
    program = _first_operand(words, "Fv")
    if program is None:
        return False
    text = _AWK_REGEX.sub(r"\1", program.text)
    writes = ">" in text[text.find("print") :] if "print" in text else False  # before it, `>` compares
    return not program.exact or writes or _AWK_RUNS.search(text) is not None


# --- sed ----------------------------------------------------------------------------------------------------------

_SED_PLACE = r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*)"
_SED_COMMAND = re.compile(
    rf"[ \t;]*(?:{_SED_PLACE}(?:[ \t]*,[ \t]*[+~]?{_SED_PLACE})?)?[ \t]*!?[ \t]*"
    r"(?:\{|[aic](?:[ \t]*\\\n)?[ \t]*[^\n\\]*(?=\n|\Z)"
    r"|(?:[pdqQ=DPNnGgHhxlFz][ \t]*[0-9]*"
    r"|[btT](?:[ \t]*[A-Za-z0-9_]+)?|:[ \t]*[A-Za-z0-9_]+"
    r"|s(?P<by>[/|,#:@!_+%])(?:(?!(?P=by))[^\\\n]|\\.)*(?P=by)(?:(?!(?P=by))[^\\\n]|\\.)*(?P=by)[gpIiMm0-9]*"
    r"|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/|\}|\#[^\n]*)?[ \t]*(?:;|\n|\Z|(?=\})))"
)


def plain_sed(script: str) -> bool:
    """Whether a sed script only prints, deletes, substitutes and inserts: `e`, `w` and `r` run, write and read."""
    position = 0
    while position < len(script):
        found = _SED_COMMAND.match(script, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return True


def sed_scripts(words: tuple[ShellWord, ...]) -> tuple[list[ShellWord], list[ShellWord]] | None:
    """The scripts and the files; None if the scripts are not all among the words."""
    scripts: list[ShellWord] = []
    operands: list[ShellWord] = []
    index = 1
    ended = False
    while index < len(words):
        word = words[index]
        text = word.text
        index += 1
        if ended or not text.startswith("-") or text == "-":
            operands.append(word)
        elif text == "--":
            ended = True
        elif text.startswith(("-f", "--f", "--expression=", "--sc")) or (text.startswith("--e") and "=" in text):
            return None
        elif text in ("--expression", "-e", "-ne", "-Ee", "-re", "-nEe", "-nre"):
            if index == len(words):
                return None
            scripts.append(words[index])
            index += 1
        elif not text.startswith("--") and not _SED_FLAGS.match(text):
            return None
    return (scripts, operands) if scripts else (operands[:1], operands[1:])


_SED_FLAGS = re.compile(r"-[nErsuz]*(?:i.*|l[0-9]+)?\Z")


def sed_runs(words: tuple[ShellWord, ...]) -> bool:
    found = sed_scripts(words)
    return found is None or any(not script.exact or not plain_sed(script.text) for script in found[0])


# --- make, and programs that can start a shell ---------------------------------------------------------------------


def make_runs(words: tuple[ShellWord, ...]) -> bool:
    """Whether make gets rules that are in no file, or another shell."""
    texts = [word.text for word in words[1:]]
    from_input = any(pair in (("-f", "-"), ("--file", "-"), ("-f", "/dev/stdin")) for pair in pairwise(texts))
    starts = ("--eval", "--file=-", "--makefile=-", "SHELL=", ".SHELLFLAGS=", "-E", "-f-", "-f/dev/", "--file=/dev/")
    return from_input or any(text.startswith(starts) for text in texts) or any("<(" in word.names for word in words)


_WAY_OUT = re.compile(
    r"\\!|\bprogram\s*['$]|^\s*(?:\.shell|\.system|system|!)\b|;\s*system\b", re.IGNORECASE | re.MULTILINE
)
_SOCAT = re.compile(r"(?:exec|system|shell)\s*:", re.IGNORECASE)


def client_runs(words: tuple[ShellWord, ...]) -> bool:
    return any(has_way_out(word.text) for word in words[1:])


def has_way_out(text: str) -> bool:
    return _WAY_OUT.search(text) is not None


def socat_runs(words: tuple[ShellWord, ...]) -> bool:
    return any(not word.exact or _SOCAT.search(word.text) for word in words[1:])


def plus_runs(words: tuple[ShellWord, ...]) -> bool:
    """`vim '+!rm x'`: a command of the editor, which can run others. A line number is none."""
    return any(word.text.startswith("+") and not word.text[1:].isdigit() and word.text != "+" for word in words[1:])


CLIENTS = names("sqlite3 psql mysql mariadb ftp")


# --- programs that run what some subcommand or option names -----------------------------------------------------------


def cargo_runs(words: tuple[ShellWord, ...]) -> bool:
    texts = [word.text for word in words[1:]]
    return any(text.startswith("--config") for text in texts) or ("watch" in texts and any(map(_is_shell, texts)))


def _is_shell(text: str) -> bool:
    return text.startswith(("-s", "--shell"))


def npm_runs(words: tuple[ShellWord, ...]) -> bool:
    return any("script-shell" in word.text for word in words[1:])


def apt_runs(words: tuple[ShellWord, ...]) -> bool:
    return any("-Invoke" in word.text for word in words[1:])


def gh_runs(words: tuple[ShellWord, ...]) -> bool:
    first = [word.text for word in words[1:3]]
    return first in (["alias", "set"], ["alias", "import"], ["extension", "exec"]) or first[:1] in (
        ["codespace"],
        ["cs"],
    )


def rails_runs(words: tuple[ShellWord, ...]) -> bool:
    return any(word.text in ("runner", "r", "console", "c") for word in words[1:2])


def rake_runs(words: tuple[ShellWord, ...]) -> bool:
    return any(word.text.startswith(("-e", "-E", "-p", "--execute")) for word in words[1:])


INLINE: dict[str, Callable[[tuple[ShellWord, ...]], bool]] = {
    **dict.fromkeys(names("awk gawk mawk nawk"), awk_runs),
    **dict.fromkeys(names("sed gsed"), sed_runs),
    **dict.fromkeys(names("make gmake"), make_runs),
    **dict.fromkeys(CLIENTS, client_runs),
    **dict.fromkeys(names("vim vi nvim ex view less more"), plus_runs),
    "socat": socat_runs,
    "cargo": cargo_runs,
    **dict.fromkeys(names("npm pnpm yarn"), npm_runs),
    "apt": apt_runs,
    "apt-get": apt_runs,
    "gh": gh_runs,
    "rails": rails_runs,
    "rake": rake_runs,
}


# Short options, and others, that are followed by code.
CODE_OPTIONS: dict[str, tuple[str, frozenset[str]]] = {
    "python": ("c", frozenset()),
    "pypy": ("c", frozenset()),
    "perl": ("eE", frozenset()),
    "ruby": ("e", frozenset()),
    "node": ("ep", frozenset({"--eval", "--print"})),
    "nodejs": ("ep", frozenset({"--eval", "--print"})),
    "bun": ("ep", frozenset({"--eval", "--print"})),
    "deno": ("", frozenset({"eval", "repl"})),
    "php": ("rBRE", frozenset({"--run"})),
    "lua": ("e", frozenset()),
    "luajit": ("e", frozenset()),
    "tclsh": ("", frozenset()),
    "guile": ("c", frozenset()),
    "Rscript": ("e", frozenset()),
    "julia": ("eE", frozenset({"--eval", "--print"})),
    "osascript": ("e", frozenset()),
    "groovy": ("e", frozenset()),
    "scala": ("e", frozenset()),
    "erl": ("", frozenset({"-eval"})),
    "elixir": ("e", frozenset({"--eval"})),
    "racket": ("e", frozenset({"--eval"})),
    "sbcl": ("", frozenset({"--eval"})),
    "emacs": ("", frozenset({"--eval", "-eval", "--batch", "-f", "-l"})),
    "vim": ("cS", frozenset({"--cmd"})),
    "vi": ("cS", frozenset({"--cmd"})),
    "nvim": ("cS", frozenset({"--cmd"})),
    "ex": ("cS", frozenset({"--cmd"})),
    "expect": ("c", frozenset()),
    "gdb": ("", frozenset({"-ex", "--ex", "-x", "--command", "--eval-command"})),
    "jshell": ("", frozenset()),
    "irb": ("", frozenset()),
    "sqlite3": ("", frozenset({"-cmd"})),
    "gnuplot": ("e", frozenset()),
    "octave": ("", frozenset({"--eval"})),
    "R": ("e", frozenset()),
    "ghc": ("e", frozenset()),
    "ghci": ("e", frozenset()),
    "swift": ("e", frozenset()),
}


class _Options(NamedTuple):
    """Options before the script. After an unlisted one, a later word may still be an option."""

    flags: str = ""
    values: str = ""
    long_values: frozenset[str] = frozenset()


_OPTIONS: dict[str, _Options] = {
    "python": _Options("bBdEiIOPqRsSuvVx", "WX"),
    "pypy": _Options("bBdEiIOPqRsSuvVx", "WX"),
    "node": _Options("civ", "rC", longs(
        "require import loader experimental-loader conditions disable-warning watch-path test-reporter input-type "
        "test-reporter-destination test-name-pattern test-shard test-concurrency test-timeout run"
    )),
    "ruby": _Options("acdhlnpsvwySU", "CEIr"),
    "perl": _Options("acfnpsStTuUvwWX", "I"),
    "php": _Options("anqsw", "cd"),
}  # fmt: skip
_OPTIONS["nodejs"] = _OPTIONS["node"]

# With one of these nothing is read from the input.
_ENDS = frozenset({"--version", "-V", "--help", "-h", "-v", "-version", "-help", "--test", "--run"})
_VERBOSE = names("python pypy vim vi ex tclsh erl emacs")  # with `-v` they go on
_INPUT = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/")
_TAKE_CODE = names("timeit pdb code trace")  # modules of Python
_MODULE = re.compile(r"-[mM]-?[A-Za-z0-9_:]+(?:=[A-Za-z0-9_:,]*)?\Z", re.ASCII)  # of Perl


class InlineCode(NamedTuple):
    code: bool = False
    script: ShellWord | None = None
    ends: bool = False  # it prints something about itself
    module: tuple[ShellWord, ...] = ()  # `python -m pip install x` is `pip install x`


def find_inline_code(name: str, words: tuple[ShellWord, ...]) -> InlineCode:
    shorts, code_options = CODE_OPTIONS[name]
    if any(word.text.startswith("data:") or "=data:" in word.text for word in words):
        return InlineCode(code=True)
    options = _OPTIONS.get(name, _Options())
    script: ShellWord | None = None
    sure = True
    index = 1
    while index < len(words) and not (sure and script):
        word = words[index]
        text = word.text
        index += 1
        if text.partition("=")[0] in code_options or _is_code(name, shorts, word):
            return InlineCode(code=True)
        if not text.startswith("-"):
            script = script or word
        elif name in ("python", "pypy") and not text.startswith("--") and "m" in text:
            attached = text.partition("m")[2]
            called = (ShellWord(attached, word.start), *words[index:]) if attached else words[index:]
            module = called[0].text if called else ""
            return InlineCode(code=module in _TAKE_CODE or UNKNOWN in module, ends=True, module=called)
        elif text != "-":
            taken, known = _option(options, text)
            index += taken
            sure = sure and known
    if script is not None:
        return InlineCode(code="<(" in script.names or script.text.startswith(_INPUT), script=script)
    return InlineCode(ends=any(word.text in _ENDS - ({"-v"} if name in _VERBOSE else set[str]()) for word in words[1:]))


def _is_code(name: str, shorts: str, word: ShellWord) -> bool:
    text = word.text
    if word.many and text.startswith(UNKNOWN) and not word.glob:
        return True  # it may become an option
    if name == "perl" and text.startswith(("-m", "-M")):
        return _MODULE.match(text) is None
    return text.startswith("-") and not text.startswith("--") and any(letter in text[1:] for letter in shorts)


def _option(options: _Options, text: str) -> tuple[int, bool]:
    """How many further words it takes, and whether that is known."""
    if text.startswith("--"):
        return (1, True) if text in options.long_values else (0, "=" in text)
    for position, letter in enumerate(text[1:], 2):
        if letter in options.values:
            return int(position == len(text)), True
        if letter not in options.flags:
            return 0, False
    return 0, True
