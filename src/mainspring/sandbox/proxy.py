"""The proxy through which commands in the sandbox reach the network, and the sandbox's network namespace.

The proxy supports CONNECT, and plain http with absolute addresses. Its creator decides which hosts are allowed, with
the same function as for WebFetch (security N2). A name is resolved once, its addresses are checked, and the proxy
connects to one of them (security N1, `processes/addresses.py`): an address that is not public is refused unless a rule
names the host. The proxy neither reads the traffic nor adds to it.

The namespace has only a loopback, on which our proxy listens. All commands of a session share it, so a server that one
starts is reachable from the next. There is no way out of it but the proxy, and no relay inside: a small program makes
the namespace and a listening socket in it, passes us the socket and becomes a `sleep` that keeps the namespace. We
then accept connections to it outside.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from mainspring.core.errors import MainspringError
from mainspring.processes.addresses import check_addresses
from mainspring.processes.environment import find_program
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.sandbox.sandbox import NetworkAccess

HEAD = 16_384  # bytes of a request's head
HEAD_SECONDS, DIAL_SECONDS = 10.0, 15.0
FLUSH_SECONDS = 30.0  # for the rest, to a slow reader
IDLE_SECONDS = 600.0  # without data from either side
MOST = 64  # connections at once; the next ones wait
CHUNK = 65_536

_CONNECT = re.compile(rb"CONNECT ([^\s/?#@\\]{1,260}:[0-9]{1,5}) HTTP/1\.[01]\Z")
_PLAIN = re.compile(rb"([A-Z]{1,20}) http://([^\s/?#@\\]{1,260})([/?][^\s\\]*)? (HTTP/1\.[01])\Z", re.IGNORECASE)
_DROPPED = (b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"upgrade", b"te")


class AllowedHost(NamedTuple):
    host: str  # to be resolved: in lower case, without port
    local: bool = False  # a rule names this host, so its address may be local


class HostRefusedError(MainspringError):
    """The host is refused. The message says why, for the reader of the command's output."""


Gate = Callable[[str], AllowedHost]  # from "host:port" or "host"; raises `HostRefusedError`, or another of our errors


class ProxyRequest(NamedTuple):
    authority: str
    port: int
    first: bytes  # bytes to send before anything else
    answer: bytes  # the answer to the client before anything else


class SandboxProxy:
    def __init__(self, gate: Gate, *, on_refusal: Callable[[str, str], object] | None = None) -> None:
        """`on_refusal` gets the requested host and the reason."""
        self._gate, self._on_refusal = gate, on_refusal
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MOST)

    async def start(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=HEAD)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._slots:
                with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):  # of the client
                    await self._answer(reader, writer)
                    await _flush(writer)
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: ProxyRequest | None = None
        try:
            asked = _parse(await _head(reader))
            far_reader, far_writer = await self._dial(asked)
        except (MainspringError, OSError, TimeoutError) as error:
            refused = isinstance(error, MainspringError)
            reason = str(error) or "it did not answer in time"
            if refused and self._on_refusal is not None:
                self._on_refusal(asked.authority if asked else "", reason)
            await _say(writer, "403 Forbidden" if refused else "502 Bad Gateway", reason)
            return
        try:
            writer.write(asked.answer)
            far_writer.write(asked.first)
            await _join(reader, writer, far_reader, far_writer)
            await _flush(far_writer)
        finally:
            far_writer.transport.abort()

    async def _dial(self, asked: ProxyRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        passed = self._gate(asked.authority)
        async with asyncio.timeout(DIAL_SECONDS):
            address = await _resolve(passed, asked.port)
            return await asyncio.open_connection(address, asked.port, limit=CHUNK)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HostRefusedError(f"the head of the request is longer than {HEAD:,} bytes") from None


def _parse(head: bytes) -> ProxyRequest:
    line, *fields = head[:-4].split(b"\r\n")
    if found := _CONNECT.match(line):
        authority = _text(found[1])
        return ProxyRequest(authority, _port(authority, 443), b"", b"HTTP/1.1 200 Connection established\r\n\r\n")
    found = _PLAIN.match(line)
    if found is None:
        raise HostRefusedError("the sandbox's proxy supports only CONNECT and absolute http addresses")
    method, host, path, version = found.groups()
    kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in _DROPPED]
    # The decision was about the address, so the server gets that host.
    first = [method + b" " + _origin(path) + b" " + version, b"Host: " + host, b"Connection: close", *kept, b"", b""]
    return ProxyRequest(_text(host), _port(_text(host), 80), b"\r\n".join(first), b"")


def _origin(path: bytes | None) -> bytes:
    if path is None:
        return b"/"
    return path if path.startswith(b"/") else b"/" + path


def _text(host: bytes) -> str:
    if not host.isascii():
        raise HostRefusedError("the host contains characters that programs read differently: write it in ASCII")
    return host.decode("ascii")


def _port(authority: str, usual: int) -> int:
    found = re.search(r":([0-9]{1,5})\Z", authority)
    port = int(found[1]) if found and not authority.endswith("]") else usual
    if not 0 < port < 65_536:
        raise HostRefusedError(f"'{authority}' has no valid port")
    return port


async def _resolve(passed: AllowedHost, port: int) -> str:
    """One address, checked."""
    host = passed.host.removeprefix("[").removesuffix("]")
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return check_addresses(passed.host, [str(one[4][0]) for one in found], near=passed.local)[0]


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Until both ends have sent everything, or one breaks."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_pump(reader, far_writer))
        group.create_task(_pump(far_reader, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await source.read(CHUNK)
            if not data:
                break
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError, RuntimeError):  # it is already closed
        target.write_eof()


async def _flush(writer: asyncio.StreamWriter) -> None:
    """Waits until all data is sent before the socket is closed: an aborted socket discards it."""
    writer.close()
    async with asyncio.timeout(FLUSH_SECONDS):
        await writer.wait_closed()


async def _say(writer: asyncio.StreamWriter, status: str, reason: str) -> None:
    text = f"mainspring's sandbox: {reason}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + text)


SECONDS = 10.0  # for something that takes 30 ms
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NEAR = "localhost,127.0.0.1,::1"

# Run by itself, with `-I`. Its arguments: our socket's number, and the program that it becomes.
MAKER = """
import array, ctypes, fcntl, os, signal, socket, struct, sys
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    sys.exit(1)
user, group = os.getuid(), os.getgid()
if libc.unshare(0x10000000 | 0x40000000):
    sys.exit(os.strerror(ctypes.get_errno()))
for name, text in (('setgroups', 'deny'), ('uid_map', f'{user} {user} 1'), ('gid_map', f'{group} {group} 1')):
    with open('/proc/self/' + name, 'w') as file:
        file.write(text)
server = socket.socket()
flags = struct.pack('16sh14x', b'lo', 0x1 | 0x40)
fcntl.ioctl(server, 0x8914, flags)
server.bind(('127.0.0.1', 0))
server.listen(64)
ours = socket.socket(fileno=int(sys.argv[1]))
ours.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [server.fileno()]))])
ours.detach()
os.close(int(sys.argv[1]))
os.execv(sys.argv[2], ['sleep', 'infinity'])
"""


class ProxyNetwork:
    """`async with ProxyNetwork(proxy) as way`: pass the result to the sandbox."""

    def __init__(self, proxy: SandboxProxy, *, outside: tuple[str, ...] = ()) -> None:
        self._proxy, self._outside = proxy, outside
        self._keeper: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> NetworkAccess:
        """Raises `SandboxError`. Call it from a thread that lives on: the namespace ends with the thread."""
        enter, sleep = (find_program(name, outside=self._outside) for name in ("nsenter", "sleep"))
        if enter is None or sleep is None:
            raise SandboxError(
                "a network in the sandbox needs 'nsenter' and 'sleep': install 'util-linux', 'coreutils'"
            )
        ours, its = socket.socketpair()
        with ours:
            with its:
                self._keeper = subprocess.Popen(  # noqa: S603, ASYNC220  # our own script; `vfork` does not wait
                    [sys.executable, "-I", "-S", "-c", MAKER, str(its.fileno()), sleep], pass_fds=(its.fileno(),),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
                    env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
                )  # fmt: skip
            try:
                server = await _receive(ours)
            except (OSError, TimeoutError):
                raise SandboxError(f"no network namespace could be created: {self._end()}") from None
            except BaseException:
                self._end()
                raise
        port = server.getsockname()[1]
        await self._proxy.start(server)
        address = f"http://127.0.0.1:{port}"
        env = dict.fromkeys(NAMES, address) | {"NO_PROXY": NEAR, "no_proxy": NEAR}
        words = (enter, "--preserve-credentials", f"--target={self._keeper.pid}", "--user", "--net", "--")
        return NetworkAccess(words, env)

    async def __aexit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        try:
            await self._proxy.close()
        finally:
            self._end()

    def _end(self) -> str:
        """Its error output."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return ""
        keeper.kill()
        _, said = keeper.communicate()
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no error message"


async def _receive(ours: socket.socket) -> socket.socket:
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(ours, readable.set)
    try:
        async with asyncio.timeout(SECONDS):
            await readable.wait()
    finally:
        loop.remove_reader(ours)
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    data, extra, _, _ = ours.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    if not data:
        raise ConnectionResetError("it ended")
    for _, _, numbers in extra:
        found = array.array("i", numbers[: array.array("i").itemsize])
        with contextlib.suppress(OSError):
            os.set_inheritable(found[0], False)
        return socket.socket(fileno=found[0])
    raise ConnectionResetError("it sent no socket")
