"""Shell commands around `Bash`: sandbox access, the script that bash runs, live output, exit codes.

**Sandbox.** `walls_of` chooses what a command may reach; whether it may run at all was decided before. A line that runs
nothing but git may write `.git`, except files in it that lead to code. A line that runs nothing but `git init` and sets
names may write its configuration, too. A line of excluded commands only, by the user's settings, runs without a
sandbox; so does a command that was allowed to use `dangerouslyDisableSandbox`. A line that cannot be parsed with
certainty gets the usual sandbox.

**Script.** bash reports the directory in which the command ended through a socket of its own, so output cannot be
mistaken for it. The command and everything it starts have that socket closed; bash opens it again when the command is
over, also by `exit` or `set -e`. Only `exec` and a fatal signal leave no answer, and then the directory stays what it
was. `eval` isolates the command: an open quote in it cannot swallow our lines. Each command has a fresh shell with the
environment of the session: the directory persists from call to call, variables and functions do not.

**Live output** shows the last lines of a running command, but not more often than an eye can follow. **Exit codes**: a
search that finds nothing is not a failure (Z-29).
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring import permissions
from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.permissions.shell.values import names
from mainspring.processes.child import SandboxAccess
from mainspring.processes.paths import is_within
from mainspring.processes.process_tree import ProcessTag, first_words
from mainspring.secrets.held import mask_secrets
from mainspring.tools.base import Workspace

if TYPE_CHECKING:
    from mainspring.permissions.shell.analyze import CommandAnalysis
    from mainspring.permissions.shell.values import Assignment


# Git commands that write its directory and run no other program than the repository's own hooks. No `-c` precedes
# these: then the first word after `git` is another.
OF_GIT = names(
    """add am apply bisect blame branch checkout cherry-pick clean clone commit describe diff fetch gc grep init log
    ls-files ls-tree merge mv notes prune pull push range-diff rebase reflog reset restore rev-list rev-parse revert
    rm shortlog show sparse-checkout stash status switch tag worktree"""
)
NAMES = frozenset(["user.name", "user.email"])  # what `git config` may set: in a new repository, or with `git init`
# Options by which they run other programs, or write to a path of the command's choice.
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
# They change nothing by themselves, under these very names.
BESIDE_GIT = names("cd echo true : pwd printf cat head tail wc grep ls sort uniq cut")
BESIDE_INIT = names("cd echo true : pwd")  # built into bash
OF_INIT = ("-q", "--quiet", "-b", "--initial-branch=")  # options of `git init`, or prefixes of them

# Variables that may be set for one call of git: author and date; and editors that do nothing, or replace words in a
# list of commits. (An editor could do no more in there than a hook can, but the promise is: nothing but git.)
HARMLESS = names(
    """GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT LC_ALL LANG"""
)
EDITORS = names("GIT_EDITOR GIT_SEQUENCE_EDITOR EDITOR VISUAL")
PAGERS = names("GIT_PAGER PAGER")
# Git passes this to a shell, so the script is quoted, or contains nothing special to a shell. (Compiled at first use:
# few sessions need it.)
_SED = r"""sed +-i +(?:-[Ee] +)*(?:'([^'\n]+)'|"([^"`$\\\n]+)"|([A-Za-z0-9_/^,.:+=@-]+))"""
_TEXT = r"(?:\\[^/|#]|(?!(?P=end))[^\\])*"
_WHERE = r"(?:[0-9]+|\$|/[^/\\]*/)"
# Allowed replacements: none that lets such a list run a command.
_TODO = r"(?:pick|reword|edit|squash|fixup|drop|[prefsd]) ?"
_SCRIPT = rf"(?:{_WHERE}(?:,{_WHERE})? *)?(?:s(?P<end>[/|#]){_TEXT}(?P=end){_TODO}(?P=end)[gIi0-9]*|d)"
_QUIET = frozenset(["true", ":", "cat", "/bin/true", "/usr/bin/true"])


class SandboxExclusions(Bundle):
    """What may run outside the sandbox, by the user's settings."""

    commands: tuple[str, ...] = ()  # as in a rule for Bash
    on_request: bool = True  # whether a command may ask to leave


WallsOf = Callable[[str, bool], SandboxAccess]  # takes a command, and whether it asks to leave the sandbox


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
    first = permissions.analyze_command(command)
    redirects = [redirect for script in first.scripts for redirect in script.all_redirects]
    bare = _without_settings(command, first)
    if bare is None or any(r.op not in ("<", "2>&1", ">&") and r.target.text != "/dev/null" for r in redirects):
        return SandboxAccess.USUAL
    sight = permissions.analyze_command(bare)
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
    # Setting a name in an existing repository needs its configuration, and so does `git init`.
    return (
        SandboxAccess.INIT if beside <= BESIDE_INIT and all(_only_makes(words) for words in git) else SandboxAccess.GIT
    )


def _without_settings(command: str, sight: CommandAnalysis) -> str | None:
    """The line without variables that are set for one call of git. None: some variable may lead to code."""
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
    # git opens a list of commits in an editor: a known one is allowed.
    rest = [word for word in words if word not in ("-i", "--interactive")] if edited and words[1] == "rebase" else words
    return _sets_a_name(words) or (words[1] in OF_GIT and not leads_to_code(rest))


def _only_makes(words: list[str]) -> bool:
    if _sets_a_name(words):
        return True
    options = [word for word in words[2:] if word.startswith("-")]
    return words[1] == "init" and all(word in OF_INIT[:3] or word.startswith(OF_INIT[3]) for word in options)


def _is_sed(value: str) -> bool:
    """Whether it only puts one of these words into the list that git names, or deletes lines."""
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
    sight = permissions.analyze_command(command)
    if sight.opaque or not sight.commands:
        return False
    rules = [permissions.parse_command_pattern(text) for text in patterns]
    return all(
        any(permissions.pattern_covers(rule, seen.words) for rule in rules) for seen in sight.commands if seen.sure
    )


# The descriptor by which bash answers. It must be below 10: from 10 on, bash keeps copies of its own descriptors, even
# where ours is closed, and would report the directory to one of those.
ANSWER = 8
STDOUT = 7  # where the command's output goes, while ours must not go there
# The command may have opened something else there, or have overwritten the copy from which bash restores it. Commands
# use files and pipes (`exec 8> >(cat)`), so ours is a socket.
TELL = f"[[ -S /dev/fd/{ANSWER} && ! /dev/fd/{ANSWER} -ef /dev/fd/{STDOUT} ]] && builtin pwd -P >&{ANSWER}"
# Also the output of traps (DEBUG) and traces (BASH_XTRACEFD) about our own lines, wherever the command sends it.
ASIDE = f"{STDOUT}>&1 >/dev/null 2>&1 3>&1 4>&1 5>&1 6>&1 9>&1"
NO_COMMAND = 125  # exit code
LONGEST = 20_000  # bytes of an answer: two paths, and then some


def answer_pair() -> tuple[int, int]:
    """Two descriptors: we read the answer from the first, bash writes it to the second."""
    ours, its = socket.socketpair()
    return ours.detach(), its.detach()


def bash_arguments(command: str, mark: ProcessTag, answer: int | None) -> tuple[str, ...]:
    """The arguments of bash. `answer` is a descriptor; None: the directory is not needed."""
    return ("--noprofile", "--norc", "-c", _script(mark, answer), "bash", command)


def waiting_bash_arguments(command: int, mark: ProcessTag, answer: int) -> tuple[str, ...]:
    """The same for a bash that is started before its command is known, and reads it from a descriptor: an empty one
    ends it. It closes the descriptor before the command runs."""
    read = f"IFS= builtin read -r -d '' _command <&{command}; exec {command}<&-; [[ $_command ]] || exit {NO_COMMAND}; "
    return ("--noprofile", "--norc", "-c", _script(mark, answer, read), "bash")


def _script(mark: ProcessTag, answer: int | None, read: str = "_command=$1; ") -> str:
    """On one line, so that bash counts the command's lines from 1. The command gets no arguments, as usual."""
    first = f"{first_words(mark)}{read}set --; "
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
    """The directory that bash reported; empty: none. The shell has ended, so no more data will come."""
    os.set_blocking(fd, False)
    try:
        data = os.read(fd, LONGEST)
    except BlockingIOError:  # another process still holds the other end
        return ""
    half = data[: len(data) // 2]
    once = half if half * 2 == data else data  # both lines may have reported it
    return os.fsdecode(once.removesuffix(b"\n"))


def change_directory(place: Workspace, folder: str) -> str:
    """Set where the next command starts. Returns a note for the model if that is not where this one ended."""
    if not folder or not os.path.isdir(folder) or folder == os.path.realpath(place.cwd):  # noqa: PTH112
        return ""
    if any(is_within(folder, root) for root in (place.real, *place.folders)):
        place.cwd = folder
        return ""
    place.cwd = place.root
    return f"Shell cwd was reset to {place.root}"


EVERY = 0.1  # seconds
BYTES, LINES = 1_000, 5  # of the end of the output
KEPT = 10_000  # bytes of the end, for the model if the command is interrupted


class LiveOutput:
    """Called with each chunk of output."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._tail = b""
        self._cut = False  # the tail is not all of the output
        self._shown_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._left = False

    def __call__(self, data: bytes) -> None:
        if self._left:
            return
        self._cut = self._cut or len(self._tail) + len(data) > KEPT
        self._tail = data[-KEPT:] if len(data) >= KEPT else (self._tail + data)[-KEPT:]
        if self._timer is None:
            wait = self._shown_at + EVERY - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._now)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leave(self) -> None:
        """The command goes on, and its output is not shown any more."""
        self._left = True
        self._tail = b""

    def _now(self) -> None:
        self._timer = None
        self._shown_at = time.monotonic()
        lines = self._tail[-BYTES:].decode(errors="replace").rstrip().splitlines()
        self._show("\n".join(lines[-LINES:]))

    @property
    def end(self) -> str:
        """The end of the output, in whole lines and without secrets: half a secret could not be recognized."""
        tail = self._tail.partition(b"\n")[2] if self._cut else self._tail
        return mask_secrets(tail).decode(errors="replace").rstrip()


FOUND_NOTHING, DIFFER, FALSE, IN_PART = "nothing was found", "they differ", "it is false", "some could not be read"

# Programs, and what their exit code 1 means.
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
)  # may precede one of these in a chain

_ENDS = frozenset((";", ";;", "&", "|", "|&", "\n", "(", ")", "{", "}"))
_CHAINS = frozenset(("&&", "||"))
_SIGNALLED = 128

# A shell reports signal n as 128 + n, but a program may use such a code with another meaning: git exits with 129 after
# wrong usage. So a code is named only where the signal is a usual end, and the code a rare one.
USUAL = frozenset(
    (
        signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL,
        signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS,
    )
)  # fmt: skip


def explain_harmless_code(command: str, code: int) -> str:
    """The meaning of a code that is not a failure; empty: it is one."""
    if code != 1:
        return ""
    chain = _last_chain(command)
    if not chain or not all(words[0] in SILENT or _program(words) in ONE for words in chain):
        return ""  # `make && grep x log`: it is unknown which of them failed
    return ONE.get(_program(chain[-1]), "")


def describe_exit_code(code: int) -> str:
    """A line for the model. A negative code means that a signal ended the shell itself."""
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
    """The program with its subcommand, where only that is specific."""
    name = words[0].rpartition("/")[2]
    return f"git {words[1]}" if name == "git" and len(words) > 1 else name


def _last_chain(command: str) -> list[list[str]]:
    """The commands that `&&` and `||` join at the end, as words: the exit code is that of one of them."""
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
                joined = word in ("|", "|&")  # the last command of a pipe counts; earlier ones in the chain stay
                chain, words = (chain if joined else []), []
            else:
                words.append(word)
    except ValueError:  # an open quote
        return []
    chain.append(words)
    return [words for words in chain if words]
