"""Background commands: their registry, and the tools `BashOutput`, `KillShell` and `Sleep`.

A command counts as running as long as any process it started runs (`server &`). The code that builds the tools owns the
registry and closes it with the session, which ends all commands.

`Sleep` waits without a process and without blocking other work (N-07).
"""

import asyncio
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Literal

from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.child import Child, ProcessLimits, ProcessSpec
from mainspring.processes.children import Children, wait_for_descendants
from mainspring.processes.environment import find_program
from mainspring.processes.output import StoredOutputs
from mainspring.text import plural, strip_control_characters, truncate
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer, without_nul
from mainspring.tools.shell import describe_exit_code

MOST_RUNNING = 50
MOST_REMEMBERED = 200  # including those that have ended
FILTER_SECONDS = 5.0
LONGEST_NAME = 60  # columns of a command in a sentence

Status = Literal["running", "completed", "failed", "killed"]


class BackgroundCommand:
    """A command in the background, also after its end."""

    def __init__(self, id: str, child: Child, command: str, call: str, about: str) -> None:
        self.id, self.child = id, child
        self.command, self.call, self.about = command, call, about
        self.status: Status = "running"
        self.seconds = 0.0
        self.stopped = False  # the model or the user stopped it
        self.release: Callable[[], object] = bool  # called at its end
        self._noted = False

    @property
    def path(self) -> str:
        return self.child.stdout.path

    @property
    def age(self) -> float:
        """Seconds since its start, or until its end."""
        return self.seconds if self.status != "running" else time.monotonic() - self.child.started

    def end_of_output(self, size: int) -> str:
        """The last part of what it printed, at most so many bytes. The model may have taken it from memory."""
        return self.child.stdout.end(size) or read_end(self.path, size)

    @property
    def told(self) -> str:
        """Its status as text."""
        if self.status == "running":
            return f"running for {time.monotonic() - self.child.started:.0f} s"
        code = self.child.code or 0
        how = f", {describe_exit_code(code)}" if self.status == "failed" else ""
        return f"{self.status} after {self.seconds:.0f} s{how}"

    @property
    def report(self) -> str:
        """How it ended, as a sentence for the user and the model."""
        name = truncate(" ".join(strip_control_characters(self.about or self.command).split()), LONGEST_NAME)
        code = self.child.code or 0
        did = {"completed": "completed", "killed": "was stopped"}.get(self.status, "failed")
        ended = describe_exit_code(code)
        how = "" if self.status == "killed" else f" ({ended[0].lower()}{ended[1:]})"
        return f'Background command "{name}" {did}{how}'

    def take_notes(self) -> tuple[str, ...]:
        """Return the sandbox's notes about it, once."""
        told, self._noted = self._noted, True
        return () if told else self.child.notes

    def over(self) -> None:
        code = self.child.code
        self.status = "killed" if self.stopped else "failed" if code else "completed"
        self.seconds = self.child.age


def _nothing(_: BackgroundCommand) -> None:
    pass


class ForegroundCommand:
    """A command that a call waits for. It can be moved to the background."""

    def __init__(self, call: str, place: Workspace) -> None:
        self.call, self.place = call, place
        self.moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def move(self) -> None:
        if not self.moved.done():
            self.moved.set_result(None)


def read_end(path: str, size: int) -> str:
    """The end of a file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW) if path else -1
    except OSError:
        return ""
    if fd < 0:
        return ""
    try:
        return os.pread(fd, size, max(0, os.fstat(fd).st_size - size)).decode(errors="replace")
    finally:
        os.close(fd)


class BackgroundCommands:
    def __init__(self, children: Children, *, changed: Callable[[BackgroundCommand], object] | None = None) -> None:
        """`changed` is called at every start and every end."""
        self._children = children
        self._changed: Callable[[BackgroundCommand], object] = changed or _nothing
        self._known: dict[str, BackgroundCommand] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._count = 0
        self._stored = StoredOutputs()
        self._waited_for: dict[str, ForegroundCommand] = {}  # by the id of the call

    def start(self, job: ProcessSpec, command: str, *, call: str = "", about: str = "") -> BackgroundCommand:
        if self.is_full:
            raise ToolError(f"{MOST_RUNNING} commands already run in the background: end one with KillShell first.")
        return self.adopt(self._children.start(job), command, call=call, about=about)

    def adopt(self, child: Child, command: str, *, call: str, about: str) -> BackgroundCommand:
        """A command that already runs continues in the background."""
        self._count += 1
        running = BackgroundCommand(f"bash_{self._count}", child, command, call, about)
        self._known[running.id] = running
        task = asyncio.get_running_loop().create_task(self._watch(running))
        task.add_done_callback(lambda _: self._over(running))
        self._tasks[running.id] = task
        self._forget_old()
        self._changed(running)
        return running

    @property
    def is_full(self) -> bool:
        return len(self._tasks) >= MOST_RUNNING

    @contextmanager
    def waiting_for(self, call: str, place: Workspace) -> Generator[ForegroundCommand]:
        """A call waits for its command within this block."""
        self._waited_for[call] = waiting = ForegroundCommand(call, place)
        try:
            yield waiting
        finally:
            del self._waited_for[call]

    @property
    def waited_for(self) -> tuple[ForegroundCommand, ...]:
        """Those that can be moved to the background."""
        return () if self.is_full else tuple(self._waited_for.values())

    @property
    def known(self) -> tuple[BackgroundCommand, ...]:
        """Running and ended ones, in the order of their start."""
        return tuple(self._known.values())

    def find(self, id: str) -> BackgroundCommand:
        if id in self._known:
            return self._known[id]
        known = ", ".join([f"'{name}'" for name in self._known]) or "none"
        raise ToolError(f"There is no background command '{id}'. Available: {known}.")

    @property
    def running(self) -> tuple[BackgroundCommand, ...]:
        return tuple([self._known[name] for name in self._tasks])

    async def stop(self, running: BackgroundCommand) -> None:
        """When this returns, the command and all its processes have ended."""
        task = self._tasks.get(running.id)
        if task is not None:
            running.stopped = True
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        await asyncio.gather(*[self.stop(running) for running in self.running])

    async def _watch(self, running: BackgroundCommand) -> None:
        try:
            await wait_for_descendants(running.child)
        finally:  # cancelled by `stop`, or because the event loop is closing
            await self._children.end(running.child)

    def _over(self, running: BackgroundCommand) -> None:
        if not running.child.closed:  # the task was cancelled before it began
            running.stopped = True
            self._children.kill_one(running.child)
        running.over()
        running.release()
        self._tasks.pop(running.id, None)
        self._stored.keep(running.child.stdout)
        self._changed(running)

    def _forget_old(self) -> None:
        ended = [name for name in self._known if name not in self._tasks]
        for name in ended[: max(0, len(self._known) - MOST_REMEMBERED)]:
            del self._known[name]


# --- BashOutput ---------------------------------------------------------------------------------------------------


class BashOutputInput(Input, frozen=True):
    bash_id: Annotated[str, "The id."]
    filter: Annotated[str, "Show only lines that match this regular expression (grep -E)."] = ""


def output_tool(background: BackgroundCommands, children: Children) -> Tool:
    async def run(given: BashOutputInput, calling: ToolContext) -> ToolAnswer:
        running = background.find(given.bash_id)
        place = calling.place
        matching = (
            OutputLineFilter(children, given.filter, place.root, (place.root, *place.folders)) if given.filter else None
        )
        if matching is not None:
            await matching.lines("")  # before taking any output: a wrong expression loses none
        status = running.told  # before taking the output: 'completed' means that no more follows
        text = running.child.stdout.take()
        if matching is not None:
            text = await matching.lines(text)
        shown = without_nul(text).rstrip("\n")
        notes = () if status.startswith("running") else running.take_notes()
        data = {
            "shellId": running.id,
            "status": running.status,
            "stdout": shown,
            "stderr": "",
            "exitCode": running.child.code,
        }
        words = "\n".join([f"[{running.id}: {status}]", shown or "(no new output)", *notes])
        return make_answer(words, data, Rendering(f"{running.id}: {status}", shown, "output"))

    return Tool(
        name="BashOutput",
        about="What a background command has printed since you last looked, and whether it still runs.",
        input=BashOutputInput,
        run=run,
        read_only=True,
        repeatable=False,  # output is returned only once
        summary=lambda given: f"Output of {given.bash_id}",
    )


class OutputLineFilter:
    """Lines that match, selected by `grep`: Python's own expressions can run without limit, and would block the event
    loop."""

    def __init__(self, children: Children, pattern: str, cwd: str, outside: tuple[str, ...]) -> None:
        program = find_program("grep", outside=outside)
        if program is None:
            raise ToolError("'filter' needs the program 'grep', which is not installed: leave it out.")
        self._children, self._pattern, self._cwd = children, pattern, cwd
        self._argv = (program, "-E", "-a", "-e", pattern)

    async def lines(self, text: str) -> str:
        job = ProcessSpec(
            self._argv, self._cwd, {"LC_ALL": "C.UTF-8"}, ProcessLimits(FILTER_SECONDS), text.encode() or b"\n"
        )
        try:
            ended = await self._children.run(job)
        except (OSError, ValueError, UnicodeEncodeError):
            raise ToolError(f"'filter' is invalid: '{self._pattern[:200]}' is not a grep expression.") from None
        if ended.timed_out:
            raise ToolError(f"'filter' took more than {FILTER_SECONDS:g} seconds: use a simpler expression.")
        if ended.code > 1:
            raise ToolError(f"'filter' failed: {ended.stderr.text.strip()}")
        return ended.stdout.text if text else ""


# --- KillShell ----------------------------------------------------------------------------------------------------


class KillShellInput(Input, frozen=True):
    shell_id: Annotated[str, "The id."]


def kill_tool(background: BackgroundCommands) -> Tool:
    async def run(given: KillShellInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        running = background.find(given.shell_id)
        before = running.status
        await background.stop(running)
        words = f"'{running.id}' was ended." if before == "running" else f"'{running.id}' had ended: {running.told}."
        return make_answer(words, {"shell_id": running.id, "status": running.status})

    return Tool(
        name="KillShell",
        about="End a background command, with everything it started.",
        input=KillShellInput,
        run=run,
        summary=lambda given: f"End {given.shell_id}",
    )


MOST = 600  # seconds, as long as a command may take


class SleepInput(Input, frozen=True):
    seconds: Annotated[float, Meta(gt=0, le=MOST), "How long."]


async def run_sleep(given: SleepInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
    """Cancelling the task ends it at once."""
    await asyncio.sleep(given.seconds)
    return make_answer(f"Waited for {plural(given.seconds, 'second')}.", {"seconds": given.seconds})


def summarize_sleep_input(given: SleepInput) -> str:
    return f"Sleep for {given.seconds:g} s"


SLEEP = Tool(
    name="Sleep",
    about="Wait. Use it rather than the command 'sleep', for instance before you look again at a background command.",
    input=SleepInput,
    run=run_sleep,
    read_only=True,
    summary=summarize_sleep_input,
)
