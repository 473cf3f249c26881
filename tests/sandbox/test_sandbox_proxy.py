"""The network of the sandbox: nothing but our proxy, which lets through what the gate lets through."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from processes.traces import descriptors, until, with_word

from mainspring.processes.children import Children
from mainspring.sandbox.proxy import HEAD, AllowedHost, Gate, HostRefusedError, ProxyNetwork, SandboxProxy
from mainspring.sandbox.sandbox import Sandbox
from sandbox.walls import LINUX, Box, seen_folder

pytestmark = LINUX

PYTHON = os.path.realpath(sys.executable)  # an environment may lie in a folder that is hidden in there


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as folder:
        yield Box(folder)


def gate(authority: str) -> AllowedHost:
    """`near.test` is named by a rule and leads to this machine; `localhost` is allowed, but by a wildcard."""
    host = authority.rpartition(":")[0] or authority
    if host in ("127.0.0.1", "near.test"):
        return AllowedHost("127.0.0.1", local=True)
    if host in ("localhost", "[::ffff:127.0.0.1]", "0.0.0.0"):
        return AllowedHost(host)
    raise HostRefusedError(f"no rule allows '{host}'")


@asynccontextmanager
async def far() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server outside: it answers a request with 'far', keeps what it heard, and echoes everything else."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            heard.append(data)
            if b"HTTP/1." in data:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nfar")
                break
            writer.write(data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def slow_reader(port: int) -> int:
    """Bytes that arrive at one who begins to read when the other side has said all and gone."""
    proxy = SandboxProxy(gate)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)  # those that it accepts have it from here
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(listening.getsockname())
    await proxy.start(listening)
    reader, writer = await asyncio.open_connection(sock=client, limit=1_000)
    writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"go")
    writer.write_eof()
    await asyncio.sleep(0.2)  # it must not have begun to read: there is no state to wait for
    got = len(await reader.read())
    writer.close()
    await proxy.close()
    return got


async def inside(sandbox: Sandbox, box: Box, script: str, *words: object) -> str:
    """Python in the sandbox."""
    argv = (PYTHON, "-I", "-c", script, *[str(word) for word in words])
    with sandbox.around(box.job("")._replace(argv=argv)) as job:
        return (await Children().run(job)).stdout.text


FETCH = """
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
TUNNEL = """
import os, socket, sys
host, port = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')
s = socket.create_connection((host, int(port)), 10)
s.sendall(f'CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
print(s.recv(1000).decode().split('\\r')[0])
s.sendall(b'x' * 300_000)
s.shutdown(socket.SHUT_WR)
total = 0
while data := s.recv(65536):
    total += len(data)
print(total)
"""
DIRECT = """
import socket, sys
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)
    print('reached')
except OSError as error:
    print(error)
"""


def test_allowed_hosts_are_reached_and_others_are_not(box: Box) -> None:
    refused: list[tuple[str, str]] = []

    async def main() -> list[str]:
        proxy = SandboxProxy(gate, on_refusal=lambda host, why: refused.append((host, why)))
        async with far() as (port, heard), ProxyNetwork(proxy) as way:
            sandbox = box.another(way)
            said = [
                await inside(sandbox, box, FETCH, f"http://near.test:{port}/path?x"),
                await inside(sandbox, box, TUNNEL, f"127.0.0.1:{port}"),
                await inside(sandbox, box, DIRECT, port),
                await inside(sandbox, box, FETCH, f"http://evil.test:{port}/"),
                await inside(sandbox, box, TUNNEL, f"evil.test:{port}"),
            ]
            assert heard[0].startswith(b"GET /path?x HTTP/1.1\r\nHost: near.test:%d\r\nConnection: close\r\n" % port)
            assert sum(map(len, heard[1:])) == 300_000
            sandbox.close()
        return said

    before = descriptors()
    plain, tunnel, direct, evil, evil_tunnel = asyncio.run(main())
    assert plain == "far\n"
    assert tunnel == "HTTP/1.1 200 Connection established\n300000\n"
    assert direct == "[Errno 111] Connection refused\n"
    assert evil == "403 mainspring's sandbox: no rule allows 'evil.test'\n\n"
    assert "HTTP/1.1 403 Forbidden\n" in evil_tunnel
    assert "300000" not in evil_tunnel
    assert [host.partition(":")[0] for host, _ in refused] == ["evil.test", "evil.test"]
    assert descriptors() == before


def test_what_one_command_serves_the_next_can_ask(box: Box) -> None:
    async def main() -> str:
        async with ProxyNetwork(SandboxProxy(gate)) as way:
            sandbox, children = box.another(way), Children()
            serve = (
                "import socket; s = socket.create_server(('127.0.0.1', 8123)); open('up', 'w'); s.accept()[0].recv(1)"
            )
            job = box.job("")._replace(argv=(PYTHON, "-I", "-c", serve))
            with sandbox.around(job) as inner:
                running = asyncio.create_task(children.run(inner))
                await until((box.work / "up").exists)
                said = await inside(sandbox, box, DIRECT, 8123)
                await running
            sandbox.close()
            return said

    assert asyncio.run(main()) == "reached\n"


def net_of(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def test_the_namespace_goes_with_us(box: Box) -> None:
    async def main() -> tuple[str, list[str]]:
        async with ProxyNetwork(SandboxProxy(gate)) as way:
            target = next(word for word in way.words if word.startswith("--target="))
            pid = int(target.partition("=")[2])
            await until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
            space, ours = net_of(pid), net_of(os.getpid())
            sandbox = box.another(way)
            seen = await inside(sandbox, box, "import os; print(os.readlink('/proc/self/ns/net'))")
            fds = await inside(sandbox, box, "import os; print(sorted(os.listdir('/proc/self/fd')))")
            sandbox.close()
            assert seen.strip() == space != ours
        return str(pid), json.loads(fds.replace("'", '"'))

    pid, fds = asyncio.run(main())
    assert not Path(f"/proc/{pid}").exists()
    assert fds == ["0", "1", "2", "3"]  # the last one lists


# --- the proxy by itself --------------------------------------------------------------------------------------------


def ask(request: bytes, decide: Gate = gate) -> bytes:
    async def main() -> bytes:
        proxy = SandboxProxy(decide)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        await proxy.start(listening)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await proxy.close()
        return answer

    return asyncio.run(main())


@pytest.mark.parametrize(
    "line",
    [
        "GET / HTTP/1.1",
        "GET https://127.0.0.1/ HTTP/1.1",
        "GET ftp://127.0.0.1/ HTTP/1.1",
        "CONNECT 127.0.0.1 HTTP/1.1",
        "CONNECT user@127.0.0.1:80 HTTP/1.1",
        "CONNECT 127.0.0.1:0 HTTP/1.1",
        "CONNECT 127.0.0.1:99999 HTTP/1.1",
        "CONNECT 127.0.0.1:80\\@evil.test:80 HTTP/1.1",
        "CONNECT 127.0.0.1:80 HTTP/1.1 x",
        "GET http://user@127.0.0.1/ HTTP/1.1",
        "GET http://127.0.0.1\\evil.test/ HTTP/1.1",
        "CONNECT ex\u00e4mple.test:80 HTTP/1.1",
        "CONNECT evil.test:443 HTTP/1.1",
        "CONNECT localhost:443 HTTP/1.1",
        "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1",
        "CONNECT 0.0.0.0:443 HTTP/1.1",
        "x" * HEAD,
    ],
)
def test_what_is_not_beyond_doubt_is_refused(line: str) -> None:
    assert ask(f"{line}\r\nHost: x\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 Forbidden\r\n")


def test_a_host_that_does_not_answer_is_not_a_refusal() -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    assert ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


def test_the_last_bytes_arrive_at_a_slow_reader() -> None:
    size = 60_000  # more than the system takes, less than what makes the proxy wait

    async def main() -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(2)
            writer.write(b"x" * size)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            return await slow_reader(server.sockets[0].getsockname()[1])

    assert asyncio.run(main()) == size


def test_no_network_at_all_without_a_way(box: Box) -> None:
    async def main() -> str:
        async with far() as (port, heard):
            said = await inside(box.sandbox, box, DIRECT, port)
            assert heard == []
        box.sandbox.close()
        return said

    assert asyncio.run(main()) == "[Errno 111] Connection refused\n"
    assert with_word(str(box.base)) == []
