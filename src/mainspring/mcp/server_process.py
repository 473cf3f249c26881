"""A server that is a program of ours: its two pipes, what it says on standard error, and its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from mainspring.core.errors import UsageError
from mainspring.mcp.ground import ServerDirectory
from mainspring.processes.child import Child, ProcessLimits, ProcessSpec
from mainspring.processes.children import Children
from mainspring.processes.output import OutputSizes
from mainspring.secrets.redaction import redact
from mainspring.settings.values import McpServer

KEEPER = f"{os.path.dirname(__file__)}/supervisor.py"  # noqa: PTH120  # a name, not a file that is looked at
SAID = OutputSizes(head=1_000, tail=4_000)  # bytes of standard error that are kept
MOST_TOLD = 600  # characters of it that are told when something fails
GRACE = 1.0  # seconds for it to end when its input has: most take a tenth


class McpServerProcess:
    def __init__(self, children: Children, server: McpServer, env: Mapping[str, str], ground: ServerDirectory) -> None:
        """Starts it. Raises `UsageError` if that cannot be."""
        self._children = children
        given = {**env, "CLAUDE_PROJECT_DIR": ground.project, **server.env}
        command = ground.find(server.command, given.get("PATH", ""))
        whole, cwd = ground.safe(given), ground.folder()
        # Many a server expects the working folder, and who reads how it failed should know.
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
        """From it, and to it. Who takes them closes the second one; `close` does the rest."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        out, self.out = self.out, -1  # from here on it is the loop's, which closes it if we are cancelled
        self._reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), open_descriptor(out, "rb")
        )
        into, self.into = self.into, -1
        writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, open_descriptor(into, "wb"))
        return reader, asyncio.StreamWriter(writing, protocol, None, loop)

    _reading: asyncio.ReadTransport | None = None

    async def close(self) -> None:
        """Its input has ended, or ends now. However often this is cancelled, it is over then."""
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
        """How it ended by itself, in words; empty if it did not, or nobody knows."""
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
        """The end of what it said on standard error, for a message."""
        said = redact(self.child.stderr.end(4 * MOST_TOLD)).strip()[-MOST_TOLD:]  # half a secret would be told
        return f"; its last words: {said}" if said else ""


def explain_other_folder(cwd: str, missed: str) -> str:
    """`missed`: what was meant of the working folder, perhaps."""
    note = f"; it was started in '{cwd}', for this folder is not trusted: 'mainspring trust' trusts it"
    if not missed:
        return note
    way_out = "is looked for there, and not in the working folder: trust that, or give the whole path"
    return f"{note}; '{missed}' in 'args' {way_out}"


def open_descriptor(fd: int, mode: str) -> object:
    return os.fdopen(fd, mode, buffering=0)
