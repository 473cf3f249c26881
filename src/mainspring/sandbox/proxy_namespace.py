"""The network of the sandbox: a namespace with nothing but a loopback, in which our proxy listens.

All commands of a session share it, so a server that one starts can be asked by the next. There is no way out of it but
the proxy, and no relay inside: a small program makes the namespace and a listening socket in it, hands us the socket
and becomes a `sleep` that keeps the namespace. What connects there is then accepted by us, outside.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from types import TracebackType

from mainspring.processes.environment import find_program
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.sandbox.proxy import SandboxProxy
from mainspring.sandbox.sandbox import NetworkAccess

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
    """`async with ProxyNetwork(proxy) as way`: and the way is given to the sandbox."""

    def __init__(self, proxy: SandboxProxy, *, outside: tuple[str, ...] = ()) -> None:
        self._proxy, self._outside = proxy, outside
        self._keeper: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> NetworkAccess:
        """Raises `SandboxError`. From a thread that lives on: what keeps the namespace ends with it."""
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
                raise SandboxError(f"no network namespace could be made: {self._end()}") from None
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
        """What it said."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return ""
        keeper.kill()
        _, said = keeper.communicate()
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


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
