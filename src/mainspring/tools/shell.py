"""Behind which walls a command runs, where there is a sandbox. Whether it may run at all was decided before.

Nothing but git: then `.git` can be written, though not what in it leads to code. Nothing but `git init` and names: then
its configuration, too. What a person has named as excluded runs without walls, if that is all that the line runs; so
does what was asked for, and allowed, with `dangerouslyDisableSandbox`. Where the line cannot be read for certain, the
usual walls stand.

The text that bash gets around a command, and what comes back by it: the folder in which the command ended.

The folder comes through a socket of its own, so output cannot be mistaken for it. The command itself has that socket
closed, and so has everything it starts; bash opens it again when the command is over, also by `exit` or `set -e`. Only
`exec` and a fatal signal leave no answer, and then the folder stays what it was.

`eval` keeps the command apart: an open quote in it cannot swallow our lines. Each command has a fresh shell with the
environment of the session: folders stay from call to call, variables and functions do not.

The last lines of a running command, shown while they come, but not more often than an eye can follow.

What a shell command's exit code means: a search that finds nothing is no failure (Z-29).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.permissions.shell.values import names
from mainspring.processes.child import SandboxAccess
from mainspring.processes.paths import is_within
from mainspring.processes.process_tree import ProcessTag, first_words
from mainspring.tools.base import Workspace

if TYPE_CHECKING:
    from mainspring.permissions.shell.analyze import CommandAnalysis
    from mainspring.permissions.shell.values import Assignment


# Of git, what writes its folder and runs no other program than the repository's own hooks. No `-c` comes before these:
# then the first word after `git` is another.
OF_GIT = names(
    """add am apply bisect blame branch checkout cherry-pick clean clone commit describe diff fetch gc grep init log
    ls-files ls-tree merge mv notes prune pull push range-diff rebase reflog reset restore rev-list rev-parse revert
    rm shortlog show sparse-checkout stash status switch tag worktree"""
)
NAMES = frozenset(["user.name", "user.email"])  # what `git config` may set: in a new repository, or with `git init`
# Options by which they do, or write where they are told to.
_WRITES = ("--output", "--ext-diff", "--textconv")
LEADS_TO_CODE: dict[str, tuple[str, ...]] = {
    "clone": ("-c", "--config", "-u", "--upload-pack", "--template"),
    "init": ("--template",),
    "fetch": ("--upload-pack",),
    "pull": ("--upload-pack",),
    "push": ("--receive-pack", "--exec"),
    "rebase": ("-x", "--exec", "-i", "--interactive"),
    "grep": ("-O", "--open-files-in-pager"),
    "bisect": ("run", "view", "visualize"),
    **dict.fromkeys(("diff", "log", "show", "range-diff", "stash", "reflog", "shortlog"), _WRITES),
}
# They touch nothing by themselves, under these very names.
BESIDE_GIT = names("cd echo true : pwd printf cat head tail wc grep ls sort uniq cut")
BESIDE_INIT = names("cd echo true : pwd")  # of bash itself
OF_INIT = ("-q", "--quiet", "-b", "--initial-branch=")  # options of `git init`, or how they begin

# What may be set for one call of git: who and when; and editors that are none, or put other words into a list of
# commits. (An editor could do no more in there than a hook can, but the promise is: nothing but git.)
HARMLESS = names(
    """GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT LC_ALL LANG"""
)
EDITORS = names("GIT_EDITOR GIT_SEQUENCE_EDITOR EDITOR VISUAL")
PAGERS = names("GIT_PAGER PAGER")
# Git gives this to a shell, so the script is quoted, or holds nothing that a shell would mind.
# (They are compiled at first use: few sessions come here.)
_SED = r"""sed +-i +(?:-[Ee] +)*(?:'([^'\n]+)'|"([^"`$\\\n]+)"|([A-Za-z0-9_/^,.:+=@-]+))"""
_TEXT = r"(?:\\[^/|#]|(?!(?P=end))[^\\])*"
_WHERE = r"(?:[0-9]+|\$|/[^/\\]*/)"
# What may come instead: no word by which such a list runs a command.
_TODO = r"(?:pick|reword|edit|squash|fixup|drop|[prefsd]) ?"
_SCRIPT = rf"(?:{_WHERE}(?:,{_WHERE})? *)?(?:s(?P<end>[/|#]){_TEXT}(?P=end){_TODO}(?P=end)[gIi0-9]*|d)"
_QUIET = frozenset(["true", ":", "cat", "/bin/true", "/usr/bin/true"])


class SandboxExclusions(Bundle):
    """What may run outside, by the user's settings."""

    commands: tuple[str, ...] = ()  # as in a rule for Bash
    on_request: bool = True  # whether a command may ask to leave


WallsOf = Callable[[str, bool], SandboxAccess]  # a command, and whether it asks to leave


def no_walls(command: str, leave: bool) -> SandboxAccess:  # noqa: ARG001  # it has the shape of one that knows
    return SandboxAccess.NONE


def walls_of(excluded: SandboxExclusions) -> WallsOf:
    def choose(command: str, leave: bool) -> SandboxAccess:  # a callback
        if leave and not excluded.on_request:
            raise ToolError(
                "The sandbox cannot be left here ('sandbox.allowUnsandboxedCommands' is false). Nothing was done: run "
                "it without 'dangerouslyDisableSandbox', or tell the user what it would need."
            )
        return SandboxAccess.NONE if leave or _is_excluded(command, excluded.commands) else _usual(command)

    return choose


def _usual(command: str) -> SandboxAccess:
    if "git" not in command:
        return SandboxAccess.USUAL
    from mainspring.permissions.shell.analyze import analyze_command

    first = analyze_command(command)
    redirects = [redirect for script in first.scripts for redirect in script.all_redirects]
    bare = _without_settings(command, first)
    if bare is None or any(r.op not in ("<", "2>&1", ">&") and r.target.text != "/dev/null" for r in redirects):
        return SandboxAccess.USUAL
    sight = analyze_command(bare)
    simple = [one for script in sight.scripts for one in script.commands]
    if sight.opaque or any(script.functions for script in sight.scripts) or any(one.assigns for one in simple):
        return SandboxAccess.USUAL
    edited = any(assign.name in EDITORS for one in first.script.commands for assign in one.assigns)
    return _of_words([[word.text for word in seen.words] for seen in sight.commands], edited=edited)


def _of_words(texts: list[list[str]], *, edited: bool) -> SandboxAccess:
    git = [words for words in texts if words[0] == "git"]
    beside = {words[0] for words in texts if words[0] != "git"}
    if not git or not beside <= BESIDE_GIT or not all(_is_of_git(words, edited=edited) for words in git):
        return SandboxAccess.USUAL
    # Whoever sets a name in a repository that was there needs its configuration, and so does `git init`.
    return (
        SandboxAccess.INIT if beside <= BESIDE_INIT and all(_only_makes(words) for words in git) else SandboxAccess.GIT
    )


def _without_settings(command: str, sight: CommandAnalysis) -> str | None:
    """The line without what is set for one call of git. None: something is set that may lead to code."""
    cuts: list[tuple[int, int]] = []
    for one in [one for one in sight.script.commands if one.assigns]:
        if (
            not all(_may_be_set(assign) for assign in one.assigns)
            or not one.words
            or (value := one.assigns[0].value) is None
        ):
            return None
        start, end = value.start - len(one.assigns[0].name) - 1, one.words[0].start
        if not command.startswith(f"{one.assigns[0].name}=", start) or not command.startswith("git ", end):
            return None
        cuts.append((start, end))
    for start, end in reversed(cuts):
        command = command[:start] + command[end:]
    return command


def _is_of_git(words: list[str], *, edited: bool) -> bool:
    if len(words) == 1:
        return False
    # A list of commits is given to an editor: with one that is known, it may be.
    rest = [word for word in words if word not in ("-i", "--interactive")] if edited and words[1] == "rebase" else words
    return _sets_a_name(words) or (words[1] in OF_GIT and not leads_to_code(rest))


def _only_makes(words: list[str]) -> bool:
    if _sets_a_name(words):
        return True
    options = [word for word in words[2:] if word.startswith("-")]
    return words[1] == "init" and all(word in OF_INIT[:3] or word.startswith(OF_INIT[3]) for word in options)


def _is_sed(value: str) -> bool:
    """It puts one of these words into the list that git names, or takes lines out, and does nothing else."""
    found = re.fullmatch(_SED, value)
    return found is not None and bool(re.fullmatch(_SCRIPT, "".join([text for text in found.groups() if text])))


def _may_be_set(assign: Assignment) -> bool:
    name, value = assign.name, assign.value
    if value is None or not value.exact:
        return False
    if name in EDITORS:
        return value.text in _QUIET or _is_sed(value.text)
    return name in HARMLESS or (name in PAGERS and value.text == "cat")


def _sets_a_name(words: list[str]) -> bool:
    """`git config user.name A`, with or without `--local`, and nothing else."""
    rest = [word for word in words[1:] if word != "--local"]
    return len(rest) == 3 and rest[0] == "config" and rest[1] in NAMES and not rest[2].startswith("-")


def leads_to_code(words: list[str]) -> bool:
    options = LEADS_TO_CODE.get(words[1], ())
    return any(word.startswith(options) for word in words[2:]) if options else False


def _is_excluded(command: str, patterns: tuple[str, ...]) -> bool:
    if not patterns:
        return False
    from mainspring.permissions.commands import parse_command_pattern, pattern_covers
    from mainspring.permissions.shell.analyze import analyze_command

    sight = analyze_command(command)
    if sight.opaque or not sight.commands:
        return False
    rules = [parse_command_pattern(text) for text in patterns]
    return all(any(pattern_covers(rule, seen.words) for rule in rules) for seen in sight.commands if seen.sure)


# The descriptor by which bash answers. It must be below 10: from there on bash keeps copies of descriptors of its own,
# also where ours is closed, and would tell the folder to one of those.
ANSWER = 8
STDOUT = 7  # where the command's output goes, while ours must not go there
# The command may have put something else there, or have overwritten the copy from which bash restores it. Commands have
# files and pipes (`exec 8> >(cat)`), so ours is a socket.
TELL = f"[[ -S /dev/fd/{ANSWER} && ! /dev/fd/{ANSWER} -ef /dev/fd/{STDOUT} ]] && builtin pwd -P >&{ANSWER}"
# Also what traps (DEBUG) and traces (BASH_XTRACEFD) say of our own lines, wherever the command has them write to.
ASIDE = f"{STDOUT}>&1 >/dev/null 2>&1 3>&1 4>&1 5>&1 6>&1 9>&1"
LONGEST = 20_000  # bytes of an answer: two paths, and then some


def answer_pair() -> tuple[int, int]:
    """Two descriptors: where we read the answer, and where bash writes it."""
    ours, its = socket.socketpair()
    return ours.detach(), its.detach()


def bash_arguments(command: str, mark: ProcessTag, answer: int | None) -> tuple[str, ...]:
    """Of bash. `answer` is a descriptor; None: nobody asks for the folder."""
    return ("--noprofile", "--norc", "-c", _script(mark, answer), "bash", command)


def _script(mark: ProcessTag, answer: int | None) -> str:
    """In one line, so that bash counts those of the command from 1. The command finds no arguments, as usual."""
    first = f"{first_words(mark)}_command=$1; set --; "
    run = 'eval "$_command"'
    if answer is None:
        return f"{first}{run}"
    if answer != ANSWER:
        first += f"exec {ANSWER}>&{answer} {answer}>&-; "
    return (
        f"{first}trap '{{ {TELL}; }} {ASIDE}' EXIT; "
        f"{run} {ANSWER}>&-; "
        f"{{ builtin set +vx -- $?; {TELL}; builtin exit $1; }} {ASIDE}"  # for a command with an EXIT trap of its own
    )


def read_final_directory(fd: int) -> str:
    """The folder that was told; empty: none was. The shell has ended, so nothing more will come."""
    os.set_blocking(fd, False)
    try:
        data = os.read(fd, LONGEST)
    except BlockingIOError:  # a stranger still holds the other end
        return ""
    half = data[: len(data) // 2]
    once = half if half * 2 == data else data  # both lines may have told it
    return os.fsdecode(once.removesuffix(b"\n"))


def change_directory(place: Workspace, folder: str) -> str:
    """Where the next command starts. A note for the model if that is not where this one ended."""
    if not folder or not os.path.isdir(folder) or folder == os.path.realpath(place.cwd):  # noqa: PTH112
        return ""
    if any(is_within(folder, root) for root in (place.real, *place.folders)):
        place.cwd = folder
        return ""
    place.cwd = place.root
    return f"Shell cwd was reset to {place.root}"


EVERY = 0.1  # seconds
BYTES, LINES = 1_000, 5  # of the end of the output


class LiveOutput:
    """Called with each piece of output."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._tail = b""
        self._shown_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, data: bytes) -> None:
        self._tail = data[-BYTES:] if len(data) >= BYTES else (self._tail + data)[-BYTES:]
        if self._timer is None:
            wait = self._shown_at + EVERY - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._now)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._shown_at = time.monotonic()
        lines = self._tail.decode(errors="replace").rstrip().splitlines()
        self._show("\n".join(lines[-LINES:]))


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
