"""The text that bash gets around a command, and what comes back by it: the folder in which the command ended.

The folder comes through a socket of its own, so output cannot be mistaken for it. The command itself has that socket
closed, and so has everything it starts; bash opens it again when the command is over, also by `exit` or `set -e`. Only
`exec` and a fatal signal leave no answer, and then the folder stays what it was.

`eval` keeps the command apart: an open quote in it cannot swallow our lines. Each command has a fresh shell with the
environment of the session: folders stay from call to call, variables and functions do not.
"""

import os
import socket

from mainspring.processes.paths import is_within
from mainspring.processes.process_tree import ProcessTag, first_words
from mainspring.tools.base import Workspace

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
