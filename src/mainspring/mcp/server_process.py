"""A server that runs as a child process: where it starts, its pipes, its standard error, and its end.

The user configured a server, not a replacement that a repository provides (security T1). Many programs run code from
the directory they start in (`python -m`, `npx`). So if the working directory is not trusted, servers start in a
directory of ours, and programs and libraries are never looked up in the working directories. Servers that the program
which embeds us names itself start in the working directory: both are its own choice. `args` are passed unchanged: the
full path of a project's script there is the user's choice, and a relative path counts from where the server starts.

`McpServerDefaults` is what all servers of a session share: where they run, their time limits, and the client.

The timeout of a call pauses while the server's question waits for the user (settled 12). A question of a call is
withdrawn when the call ends.
"""

# ruff: noqa: PTH103, PTH111  # pathlib takes 8 ms to load

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.mcp.base import McpTimeouts
from mainspring.processes.child import Child, ProcessLimits, ProcessSpec
from mainspring.processes.children import Children
from mainspring.processes.output import OutputSizes
from mainspring.processes.paths import is_within
from mainspring.secrets.redaction import redact
from mainspring.settings.values import McpServer
from mainspring.tools.base import ToolContext

if TYPE_CHECKING:
    from mainspring.mcp.host_transport import Send


NAME = "mcp"  # the name of the directory, in our home
NOWHERE = "/"  # only the administrator can write here
WAY_OUT = "this folder is not trusted: run 'mainspring trust' to trust it"

# Variables that list directories with programs or libraries. A relative directory counts as the project's.
BRINGS_CODE = (
    "PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PERL5LIB",
    "RUBYLIB", "GEM_HOME", "GEM_PATH", "CLASSPATH",
)  # fmt: skip


class ServerDirectory(Bundle):
    project: str  # the working directory
    trusted: bool = False  # trusted by the user
    home: str | None = None  # our directory in the user's home
    folders: tuple[str, ...] = ()  # other working directories

    def folder(self) -> str:
        """Where to start a server; creates our directory if missing. Raises `UsageError` if others can write to it."""
        if self.trusted:
            return self.project
        if self.home is None:
            return NOWHERE
        place = f"{self.home}/{NAME}"
        try:
            os.makedirs(place, 0o700, exist_ok=True)
            found = os.lstat(place)
        except FileExistsError:
            raise UsageError(f"'{place}' is not a folder that you own: remove it") from None
        except OSError:  # not writable for anyone, so it is safe
            return NOWHERE
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise UsageError(f"'{place}' is not a folder that you own: remove it")
        if stat.S_IMODE(found.st_mode) & 0o022:
            raise UsageError(
                f"'{place}' can be written by other users: check its contents, then run 'chmod 700 {place}'"
            )
        return place

    def is_theirs(self, place: str) -> bool:
        """Whether an absolute path, or its target, is in a working directory that is not trusted."""
        if self.trusted:
            return False
        names = (os.path.normpath(place), os.path.realpath(place))
        folders = [name for one in (self.project, *self.folders) for name in (one, os.path.realpath(one))]
        return any(is_within(name, folder) for name in names for folder in folders if folder.strip("/"))

    def relative(self, args: Iterable[str]) -> str:
        """The first argument that names a file relative to the project, but is resolved elsewhere; empty if there is
        none.
        """
        if self.trusted:
            return ""
        named = [word for word in args if word and not word.startswith(("/", "-", "~"))]
        return next((word for word in named if os.path.lexists(os.path.join(self.project, word))), "")  # noqa: PTH118

    def safe(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of a server."""
        if self.trusted:
            return dict(env)
        found = {name: self._outside(value) if name in BRINGS_CODE else value for name, value in env.items()}
        return {name: value for name, value in found.items() if value or name not in BRINGS_CODE}

    def _outside(self, value: str) -> str:
        return ":".join([one for one in value.split(":") if one.startswith("/") and not self.is_theirs(one)])

    def find(self, name: str, path: str) -> str:
        """The path of the program: a name is looked up in `path`, anything else is a path. Raises `UsageError`."""
        return self._by_path(name) if "/" in name else self._along(name, path)

    def _by_path(self, name: str) -> str:
        named = os.path.expanduser(name)
        place = os.path.join(self.project, named)  # noqa: PTH118
        if not self.trusted and not named.startswith("/"):  # also '../x': from another directory it is another program
            raise UsageError(f"'{name}' is a relative path, and {WAY_OUT}. Or give its full path as 'command'")
        if self.is_theirs(place):
            raise UsageError(f"'{place}' is in the working folder, and {WAY_OUT}")
        if os.access(place, os.X_OK):
            return place
        raise UsageError(f"'{place}' not found: check 'command'")

    def _along(self, name: str, path: str) -> str:
        passed_over = ""
        for folder in path.split(":"):
            place = f"{folder}/{name}"
            if not folder.startswith("/") or not os.access(place, os.X_OK) or os.path.isdir(place):  # noqa: PTH112
                continue
            if not self.is_theirs(place):
                return place
            passed_over = passed_over or place
        if passed_over:
            raise UsageError(f"'{name}' is on PATH only in the working folder ('{passed_over}'), and {WAY_OUT}")
        raise UsageError(f"'{name}' not found on PATH: install it, or give its full path as 'command'")


KEEPER = f"{os.path.dirname(__file__)}/supervisor.py"  # noqa: PTH120  # a name, not a file that is looked at
SAID = OutputSizes(head=1_000, tail=4_000)  # bytes of standard error that are kept
MOST_TOLD = 600  # characters of it that an error message shows
GRACE = 1.0  # seconds for it to end after its input has: most take a tenth of a second


class McpServerProcess:
    def __init__(self, children: Children, server: McpServer, env: Mapping[str, str], ground: ServerDirectory) -> None:
        """Start it. Raises `UsageError` if that fails."""
        self._children = children
        given = {**env, "CLAUDE_PROJECT_DIR": ground.project, **server.env}
        command = ground.find(server.command, given.get("PATH", ""))
        whole, cwd = ground.safe(given), ground.folder()
        # Many servers expect the working directory, so the error message must name the directory that was used.
        self.note = "" if ground.trusted else explain_other_folder(cwd, ground.relative(server.args))
        with ExitStack() as theirs, ExitStack() as mine:
            read, self.into = os.pipe()
            self.out, write = os.pipe()
            for fd in (read, write):
                theirs.callback(os.close, fd)
            for fd in (self.into, self.out):
                mine.callback(os.close, fd)
            language = "1" if "LC_CTYPE" in whole else ""
            keeper = (sys.executable, "-I", "-S", KEEPER, str(read), str(write), language)
            job = ProcessSpec(
                (*keeper, command, *server.args),
                cwd,
                whole,
                ProcessLimits(output=SAID),
                passed=(read, write),
                keeper=True,
            )
            try:
                self.child: Child = children.start(job)
            except (OSError, ValueError) as error:
                raise UsageError(f"'{server.command}' cannot be started: {error}") from None
            mine.pop_all()

    async def pipes(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Its output and its input. The caller closes the second one; `close` does the rest."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        out, self.out = self.out, -1  # from here on the loop owns it, and closes it if we are cancelled
        self._reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), open_descriptor(out, "rb")
        )
        into, self.into = self.into, -1
        writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, open_descriptor(into, "wb"))
        return reader, asyncio.StreamWriter(writing, protocol, None, loop)

    _reading: asyncio.ReadTransport | None = None

    async def close(self) -> None:
        """Close its input, and wait until it has ended. This holds even if the caller is cancelled meanwhile."""
        for fd in (self.into, self.out):
            if fd >= 0:
                os.close(fd)
        self.into = self.out = -1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self.child.exited.wait()
        finally:
            try:
                await self._children.end(self.child)
            finally:
                if self._reading is not None:
                    self._reading.close()

    @property
    def ended(self) -> str:
        """Describe how it ended by itself; empty if it did not, or that is unknown."""
        code = self.child.code
        if code is None:
            return ""
        return (
            f"it was ended by signal {-code if code < 0 else code - 128}"
            if code < 0 or code > 128
            else f"it ended with exit code {code}"
        )

    @property
    def last_words(self) -> str:
        """The end of its standard error, for an error message."""
        said = redact(self.child.stderr.end(4 * MOST_TOLD)).strip()[-MOST_TOLD:]  # redact first: no half secrets
        return f"; its last output: {said}" if said else ""


def explain_other_folder(cwd: str, missed: str) -> str:
    """`missed`: an argument that may have been meant relative to the working directory."""
    note = f"; it was started in '{cwd}' because this folder is not trusted: run 'mainspring trust' to trust it"
    if not missed:
        return note
    way_out = "is looked up there, not in the working folder: trust that folder, or give the full path"
    return f"{note}; '{missed}' in 'args' {way_out}"


def open_descriptor(fd: int, mode: str) -> object:
    return os.fdopen(fd, mode, buffering=0)


USUAL = McpTimeouts()


class McpServerDefaults:
    """What all servers of a session share."""

    def __init__(  # noqa: PLR0913  # keywords, the last ones
        self,
        children: Callable[[], Children],
        env: Callable[[], Mapping[str, str]],
        ground: ServerDirectory,
        relay: Send | None = None,
        *,
        limits: McpTimeouts = USUAL,
        folders: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        """`relay` reaches the servers within the host program; None: there is no host. `folders`: the current working
        directories; None: those of `ground`.
        """
        self.children, self.env, self.ground, self.relay = children, env, ground, relay
        self.limits = limits
        self.folders = folders or (lambda: (ground.project, *ground.folders))
        self.asks = relay is None  # whether a server may ask the user: stream-json has no message for it
        self.one = asyncio.Lock()  # one question at a time for all servers: there is one user
        self.ids = count(1)  # of `relay` messages, over all restarts: a server may remember a cancelled one
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> asyncio.Task[None]:
        """The official client, once, in a thread: it takes half a second."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(load_link))
            self._loading.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # all servers may be gone by then
        return self._loading


def load_link() -> None:
    """Afterwards, importing it takes no time."""
    from importlib import import_module

    try:
        import_module("mainspring.mcp.client")
        import_module("mainspring.mcp.client")
    except ImportError as error:
        raise UsageError(f"MCP servers need the package 'mcp' ({error}): pip install 'mainspring[mcp]'") from None


class CallClock:
    def __init__(self, calling: ToolContext, clock: asyncio.Timeout) -> None:
        """`clock` is entered while a call waits."""
        self._calling, self._clock = calling, clock
        self._asking: set[asyncio.Future[str]] = set()
        self._pauses = 0
        self._left = 0.0  # seconds during which the timeout was paused
        self._over = False

    def end(self) -> None:
        """The call has ended, in any way."""
        self._over = True
        for one in self._asking:
            one.cancel()

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None, None]:
        loop = asyncio.get_running_loop()
        if not self._pauses and not self._over and not self._clock.expired():
            self._left = (self._clock.when() or loop.time()) - loop.time()
            self._clock.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self._over and not self._clock.expired():
                self._clock.reschedule(loop.time() + self._left)

    async def ask(self, text: str) -> str:
        """Raises `ToolError` if the user cannot be asked, or the call ends before the answer."""
        if self._over:
            raise ToolError("The call is over.")
        asking = asyncio.ensure_future(self._calling.ask(text))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
            self._asking.discard(asking)
        if asking.cancelled():
            raise ToolError("The call is over.")
        return asking.result()
