"""Programs that run code in another language: which of their words are code, and which name a script.

Code among the words, or from the input, is not looked into: it is asked. A script in a file is a program like any
other, and what follows it are its own words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mainspring.permissions.shell.tables import longs, names
from mainspring.permissions.shell.values import UNKNOWN, ShellWord

# Short options, and others, after which code stands.
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
    """Options before the script. With one that is not listed, a later word may still be an option."""

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
