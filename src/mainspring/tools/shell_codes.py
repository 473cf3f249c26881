"""What a shell command's exit code means: a search that finds nothing is no failure (Z-29)."""

import signal

FOUND_NOTHING, DIFFER, FALSE, IN_PART = "nothing was found", "they differ", "it does not hold", "some could not be read"

# Programs, and what 1 means from them.
ONE: dict[str, str] = {
    "grep": FOUND_NOTHING, "egrep": FOUND_NOTHING, "fgrep": FOUND_NOTHING, "zgrep": FOUND_NOTHING,
    "rg": FOUND_NOTHING, "ag": FOUND_NOTHING, "ack": FOUND_NOTHING, "git grep": FOUND_NOTHING,
    "pgrep": FOUND_NOTHING, "pidof": FOUND_NOTHING, "fuser": FOUND_NOTHING, "lsof": FOUND_NOTHING,
    "which": FOUND_NOTHING, "type": FOUND_NOTHING, "command": FOUND_NOTHING, "git config": FOUND_NOTHING,
    "diff": DIFFER, "cmp": DIFFER, "git diff": DIFFER, "colordiff": DIFFER,
    "test": FALSE, "[": FALSE, "[[": FALSE, "expr": FALSE, "((": FALSE,
    "find": IN_PART,
}  # fmt: skip
SILENT = frozenset(
    ("cd", "echo", "printf", "true", "export", "set", "pwd", *ONE)
)  # may stand before one of these in a chain

_ENDS = frozenset((";", ";;", "&", "|", "|&", "\n", "(", ")", "{", "}"))
_CHAINS = frozenset(("&&", "||"))
_SIGNALLED = 128

# A shell tells of a signal n as 128 + n, but a program may mean something of its own by such a code: git says 129 where
# it was called wrongly. So a code is given a name only where the signal is a usual end, and the code a rare one.
USUAL = frozenset(
    (
        signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL,
        signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS,
    )
)  # fmt: skip


def explain_harmless_code(command: str, code: int) -> str:
    """What a code means that is no failure; empty: it is one."""
    if code != 1:
        return ""
    chain = _last_chain(command)
    if not chain or not all(words[0] in SILENT or _program(words) in ONE for words in chain):
        return ""  # `make && grep x log`: who knows which of them it was
    return ONE.get(_program(chain[-1]), "")


def describe_exit_code(code: int) -> str:
    """As a line for the model. A negative code is the shell's own end, by a signal for certain."""
    name = _signal(-code) if code < 0 else _signal(code - _SIGNALLED) if code - _SIGNALLED in USUAL else ""
    hint = ": the memory may have run out" if name == "SIGKILL" else ""
    if code < 0:
        return f"Ended by signal {name or -code}{hint}"
    return f"Exit code {code} ({name}{hint})" if name else f"Exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _program(words: list[str]) -> str:
    """With its subcommand, where only that tells."""
    name = words[0].rpartition("/")[2]
    return f"git {words[1]}" if name == "git" and len(words) > 1 else name


def _last_chain(command: str) -> list[list[str]]:
    """The commands that `&&` and `||` join at the end, as words: the code is that of one of them."""
    import shlex  # after a failure, and not before

    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    chain: list[list[str]] = []
    words: list[str] = []
    try:
        for word in lexer:
            if word in _CHAINS:
                chain.append(words)
                words = []
            elif word in _ENDS:
                joined = word in ("|", "|&")  # of a pipe, the last one counts; what is before it in the chain stays
                chain, words = (chain if joined else []), []
            else:
                words.append(word)
    except ValueError:  # an open quote
        return []
    chain.append(words)
    return [words for words in chain if words]
