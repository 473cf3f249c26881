"""`Bash`: one command in a fresh bash, in the directory where the last one ended.

Nothing that a command starts outlives the call, unless it is started in the background (`background.py`). The result is
the output as it was printed, stdout and stderr together, shortened in the middle if it is long, and then the exit
status. `processes/` starts and ends processes; the permission check happens before a command gets here.
"""

import asyncio
import errno
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, cast

from msgspec import Meta
from msgspec.structs import replace

from mainspring.core.errors import ToolError
from mainspring.core.messages import Text
from mainspring.core.updates import Rendering
from mainspring.processes.child import ProcessLimits, ProcessSpec, SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.processes.environment import find_program
from mainspring.processes.output import DISK, OutputSizes, StoredOutputs
from mainspring.processes.process_tree import new_mark
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.secrets.held import SecretMask
from mainspring.text import plural
from mainspring.tools.background import BackgroundCommand, BackgroundCommands
from mainspring.tools.base import (
    Input,
    InterruptedCommand,
    Tool,
    ToolAnswer,
    ToolContext,
    Trait,
    Workspace,
    without_nul,
)
from mainspring.tools.shell import (
    LiveOutput,
    WallsOf,
    answer_pair,
    bash_arguments,
    change_directory,
    describe_exit_code,
    explain_harmless_code,
    no_walls,
    read_final_directory,
)
from mainspring.tools.waiting_shell import WaitingShells

TIMEOUT, MOST_TIMEOUT = 120_000, 600_000  # milliseconds
ABOUT = """\
Run a command in bash and see what it prints. Each call is a fresh shell: the working folder stays from call to call, \
variables do not. There is no terminal and no standard input, so commands that ask something fail: use flags such as \
'-y' or '--no-edit'. Nothing that a command starts outlives the call, except with 'run_in_background'.
- For files use Read, Grep, Glob, Edit and Write, not cat, grep, find, sed or echo.
- Quote paths that hold spaces. Use absolute paths rather than cd.
- Join commands that need each other with '&&'; independent ones are several calls in one reply.
- Long output is cut in the middle and stored whole; the result says where.
- Commands without an end (servers, watchers): 'run_in_background', then BashOutput and KillShell."""

# A command that may end in another directory, where the next call is to start. A false match only waits for its turn.
MOVES = re.compile(r"(?<![\w.-])(cd|pushd|popd)(?![\w.-])").search

Notes = Callable[[tuple[str, ...]], tuple[str, ...]]  # returns those that were not reported before


class BashInput(Input, frozen=True):
    command: Annotated[str, "The command."]
    timeout: Annotated[int, Meta(ge=1), f"Milliseconds; {TIMEOUT} unless given, {MOST_TIMEOUT} at most."] = TIMEOUT
    description: Annotated[str, "What it does, in five to ten words."] = ""
    run_in_background: Annotated[bool, "Return at once with an id; the command goes on."] = False
    dangerouslyDisableSandbox: Annotated[  # noqa: N815  # the name that users of Claude Code know
        bool, "Leave the sandbox: the user is asked."
    ] = False


class Bash:
    """State that all Bash calls of a session share."""

    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        children: Children,
        background: BackgroundCommands,
        env: Mapping[str, str],
        *,
        disk: int,
        walls: WallsOf,
        notes: Notes,
    ) -> None:
        self._children, self._background = children, background
        self._env, self._disk, self._walls, self._notes = env, disk, walls, notes
        self._stored = StoredOutputs()
        self._shells = WaitingShells(children, env)

    def prepare(self, place: Workspace) -> None:
        """The model writes a call: start a shell that waits for the command."""
        self._shells.prepare(place)

    async def __call__(self, given: BashInput, calling: ToolContext) -> ToolAnswer:
        check_command(given.command)
        note = ensure_working_folder(calling.place)
        if given.run_in_background:
            return self._in_background(given, calling, note)
        seconds = min(given.timeout, MOST_TIMEOUT) / 1_000
        ran = await self._run(given, calling, seconds)
        if isinstance(ran, BackgroundCommand):
            return answer_moved(given, ran)
        ended, folder = ran
        self._stored.keep(ended.stdout)
        notes = (
            note,
            change_directory(calling.place, folder),
            describe_timeout(ended, seconds),
            self._confined(given, ended),
            *self._notes(ended.notes),
        )
        made = build_bash_answer(given, ended, [text for text in notes if text])
        walls = self._walls_of(given)
        return made if walls is SandboxAccess.NONE else replace(made, data={**made.data, "sandbox": walls.value})

    def _confined(self, given: BashInput, ended: ProcessResult) -> str:
        """Notes about sandbox limits that a failed command may have hit."""
        if self._walls_of(given) is SandboxAccess.NONE:
            return ""
        if ended.code and any(sign in ended.stdout.text for sign in SIGNS_OF_CONFIG):
            return CONFIG
        failed = ended.code and not explain_harmless_code(given.command, ended.code)
        signs = SIGNS_OF_WALLS if failed else SIGNS_OF_WALLS[:1]
        return CONFINED if any(sign in ended.stdout.text for sign in signs) else ""

    async def _run(
        self, given: BashInput, calling: ToolContext, seconds: float
    ) -> tuple[ProcessResult, str] | BackgroundCommand:
        """Run the command, and return the directory in which it ended; or move it to the background, if the user wants
        that."""
        command, live = given.command, LiveOutput(calling.progress)
        shell = self._shells.take(command, self._walls_of(given))
        with explain_start_errors(command):
            ours, its = answer_pair() if shell is None else shell.answer
        moved: BackgroundCommand | None = None

        def close_answers() -> None:
            os.close(ours)
            os.close(its)

        try:
            job = self._job(given, calling.place, its)._replace(
                limits=ProcessLimits(
                    seconds, OutputSizes(folder=calling.place.spill, disk=self._disk, cover=SecretMask)
                ),
                on_output=live,
                handed=os.fsencode(command) if shell is not None else b"",
            )
            with explain_start_errors(command):
                child = self._children.start(job, shell.child if shell is not None else None)
            with self._background.waiting_for(calling.id, calling.place) as waiting:
                ended = await self._children.finish_unless(child, waiting.moved)
            if ended is not None:
                return ended, read_final_directory(ours)
            live.leave()
            moved = self._background.adopt(child, command, call=calling.id, about=given.description)
            moved.release = close_answers  # its shell reports a directory at its end, and would fail without a reader
            return moved
        except asyncio.CancelledError:
            if live.end:
                raise InterruptedCommand(live.end) from None
            raise
        finally:
            live.stop()
            if moved is None:
                close_answers()

    def _in_background(self, given: BashInput, calling: ToolContext, note: str) -> ToolAnswer:
        place = calling.place
        job = self._job(given, place, None)._replace(
            limits=ProcessLimits(None, OutputSizes(folder=place.spill, disk=self._disk, cover=SecretMask)),
            store_all=True,
        )
        with explain_start_errors(given.command):
            running = self._background.start(job, given.command, call=calling.id, about=given.description)
        stored = f" All it prints is also in '{running.path}'." if running.path else ""
        text = (
            f"It runs in the background as '{running.id}'.{stored} You get a notification when it ends. Look at it "
            "with BashOutput, end it with KillShell; it ends with the session at the latest."
        )
        data = {**DATA, "backgroundTaskId": running.id}
        lines = "\n".join([part for part in (note, text) if part])
        return ToolAnswer(
            (Text(lines),), data, shown=Rendering(summarize_bash_input(given), f"in the background: {running.id}")
        )

    def _job(self, given: BashInput, place: Workspace, answer: int | None) -> ProcessSpec:
        command, mark = given.command, new_mark()
        shell = find_program("bash", path=self._env.get("PATH", ""), outside=(place.root, *place.folders))
        if shell is None:
            raise ToolError("'bash' not found outside of the working folders: install it.")
        return ProcessSpec(
            argv=(shell, *bash_arguments(command, mark, answer)),
            cwd=place.cwd,
            env=self._env,
            merged=True,
            passed=(answer,) if answer is not None else (),
            mark=mark,
            walls=self._walls_of(given),
        )

    def _walls_of(self, given: BashInput) -> SandboxAccess:
        return self._walls(given.command, given.dangerouslyDisableSandbox)


def answer_moved(given: BashInput, moved: BackgroundCommand) -> ToolAnswer:
    text = (
        f"The user moved this command to the background. It goes on as '{moved.id}', and you get a notification "
        "when it ends. Look at it with BashOutput, end it with KillShell."
    )
    data = {**DATA, "backgroundTaskId": moved.id, "backgroundedByUser": True}
    shown = Rendering(summarize_bash_input(given), f"moved to the background: {moved.id}")
    return ToolAnswer((Text(text),), data, shown=shown)


def all_of_them(notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes


def bash_tool(  # noqa: PLR0913  # keywords, most of them
    children: Children,
    background: BackgroundCommands,
    env: Mapping[str, str],
    *,
    read_only: Trait = False,
    disk: int = DISK,
    walls: WallsOf = no_walls,
    notes: Notes = all_of_them,
) -> Tool:
    """`env` is the whole environment of commands (`processes/environment.py`); `read_only` knows which of them only
    read, `walls` what the sandbox lets each reach, and `notes` which notes of the sandbox are new."""

    def only_reads(given: BashInput) -> bool:
        return not given.run_in_background and (read_only(given) if callable(read_only) else read_only)

    bash = Bash(children, background, env, disk=disk, walls=walls, notes=notes)
    return Tool(
        name="Bash",
        about=ABOUT,
        input=BashInput,
        run=bash,
        prepare=bash.prepare,
        read_only=only_reads,
        concurrent=lambda given: only_reads(given) and not MOVES(given.command),
        summary=summarize_bash_input,
        wording=format_foreign_output,
    )


def summarize_bash_input(given: BashInput) -> str:
    lines = given.command.strip().splitlines()
    return f"{lines[0]} ..." if len(lines) > 1 else "".join(lines)


# --- before it runs -----------------------------------------------------------------------------------------------


def check_command(command: str) -> None:
    if not command.strip():
        raise ToolError("The command is empty: say what to run.")
    if "\0" in command:
        raise ToolError(
            "The command contains a NUL character, which bash cannot take. Write '\\0' with printf instead."
        )
    try:
        command.encode()
    except UnicodeEncodeError:
        raise ToolError("The command contains half a character (a lone surrogate): leave it out.") from None


def ensure_working_folder(place: Workspace) -> str:
    """Make sure that the working directory exists: another process may have removed it. Returns a note if it was
    replaced."""
    if os.path.isdir(place.cwd):  # noqa: PTH112  # pathlib takes 8 ms to load
        return ""
    gone, place.cwd = place.cwd, place.root
    if not os.path.isdir(place.root):  # noqa: PTH112
        raise ToolError(
            f"The working folder '{place.root}' is gone, so nothing can be run: ask the user to restore it."
        )
    return f"'{gone}' is gone; this ran in '{place.root}'"


@contextmanager
def explain_start_errors(command: str) -> Generator[None]:
    """Turn errors of a process start into messages that help."""
    try:
        yield
    except SandboxError as error:
        raise ToolError(f"The sandbox for the command cannot be started: {error}. Nothing was done.") from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolError(
                f"The command is too long for this system: {len(command.encode()):,} bytes. Nothing was done: write it "
                "to a file with Write, and run 'bash FILE'."
            ) from None
        raise ToolError(f"The command cannot be started: {error.strerror}. Nothing was done.") from None


# --- after it ran -------------------------------------------------------------------------------------------------

# Error texts of programs that hit the sandbox.
SIGNS_OF_CONFIG = ("could not lock config file", "could not write config file")
CONFIG = (
    "In the sandbox '.git/config' can only be read, since git runs what is set there. 'git init', and 'git config' of "
    "user.name or user.email, work in a call of their own; leave 'git init' out where there is a repository. For "
    "other settings ask with 'dangerouslyDisableSandbox'."
)
SIGNS_OF_WALLS = (
    "Read-only file system",
    "Operation not permitted",
    "Network is unreachable",
    "Could not resolve host",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Connection refused",
    "Function not implemented",
    "Permission denied",
    "Couldn't connect to server",
)
CONFINED = (
    "It ran in the sandbox: outside of the working folders nothing can be written, '.git' only by a call that runs "
    "nothing but git, and the network cannot be reached but for the domains that the user has listed. If that is why "
    "it failed, and there is no other way, ask for it with 'dangerouslyDisableSandbox'."
)

NO_OUTPUT = "(no output)"
DATA: dict[str, object] = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}


def describe_timeout(ended: ProcessResult, seconds: float) -> str:
    if not ended.timed_out:
        return ""
    longer = f", a longer 'timeout' ({MOST_TIMEOUT} at most)" if seconds * 1_000 < MOST_TIMEOUT else ""
    limit = plural(seconds, "second")
    return f"It did not end within {limit} and was ended: use 'run_in_background'{longer}, or do less at once."


def format_foreign_output(output: Any) -> str:
    """Format output in our shape that a hook has written; empty: it has another shape."""
    if not isinstance(output, dict):
        return ""
    said = cast("dict[str, object]", output)
    parts = [said.get("stdout"), said.get("stderr", "")]
    if not all(isinstance(part, str) for part in parts):
        return ""
    return "\n".join([text for part in parts if (text := str(part).rstrip("\n"))]) or NO_OUTPUT


def build_bash_answer(given: BashInput, ended: ProcessResult, notes: list[str]) -> ToolAnswer:
    output = without_nul(ended.stdout.text)
    no_failure = explain_harmless_code(given.command, ended.code)  # as text; empty if the code is a failure
    if ended.code and not ended.timed_out:
        notes.append(
            f"{describe_exit_code(ended.code)}: {no_failure}" if no_failure else describe_exit_code(ended.code)
        )
    wrong = ended.timed_out or (ended.code != 0 and not no_failure)
    text = "\n".join([part for part in (output.rstrip("\n"), *notes) if part])
    return ToolAnswer(
        (Text(text or NO_OUTPUT),),
        {**DATA, "stdout": output, "interrupted": ended.timed_out, "exitCode": ended.code},
        is_error=wrong,
        failed=wrong,
        shown=Rendering(summarize_bash_input(given), text, "output"),
    )
