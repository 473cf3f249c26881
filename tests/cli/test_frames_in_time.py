"""When print mode writes its frames: `init` first, without waiting for the model; those of one read together."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec
from wire.quick_server import HEAD, REPLIES

ANSWER = REPLIES["/talk", "/messages"]
DELTAS = 600


def command(url: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", "mainspring", "-p", "hi", "--output-format=stream-json", "--verbose", *flags]


def environment(url: str, folder: Path) -> dict[str, str]:
    home = str(folder / "home")
    given = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key", "MAINSPRING_HOME": home, "HOME": home}
    return {**os.environ, **given}


class LateServer:
    """Answers a request when it may."""

    def __init__(self, body: bytes) -> None:
        self.may_answer = asyncio.Event()
        self._body = body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
        await self.may_answer.wait()
        writer.write(HEAD % len(self._body) + self._body)
        writer.close()
        await writer.wait_closed()


def test_init_does_not_wait_for_the_model(tmp_path: Path) -> None:
    async def main() -> list[dict[str, object]]:
        late = LateServer(ANSWER)
        async with await asyncio.start_server(late.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            process = await asyncio.create_subprocess_exec(
                *command(url), stdin=DEVNULL, stdout=PIPE, cwd=tmp_path, env=environment(url, tmp_path)
            )
            assert process.stdout is not None
            try:
                lines = [await process.stdout.readline()]
                late.may_answer.set()
                lines += [line async for line in process.stdout]
            finally:
                if process.returncode is None and not late.may_answer.is_set():
                    process.kill()
                await process.wait()
        return [msgspec.json.decode(line) for line in lines]

    frames = asyncio.run(main())
    assert frames[0]["subtype"] == "init"
    assert frames[-1]["type"] == "result"
    assert [frame["type"] for frame in frames].count("assistant") == 1


def test_frames_of_one_read_are_written_together(tmp_path: Path) -> None:
    [delta] = [part for part in ANSWER.split(b"\n\n") if b'"content_block_delta"' in part]
    body = ANSWER.replace(delta, b"\n\n".join([delta] * DELTAS))

    async def main() -> list[bytes]:
        late = LateServer(body)
        late.may_answer.set()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each write is a packet
        async with await asyncio.start_server(late.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with ours, its:
                process = await asyncio.create_subprocess_exec(
                    *command(url, "--include-partial-messages"),
                    stdin=DEVNULL,
                    stdout=its.fileno(),
                    cwd=tmp_path,
                    env=environment(url, tmp_path),
                )
                its.close()
                ours.setblocking(False)
                packets: list[bytes] = []
                while packet := await asyncio.get_running_loop().sock_recv(ours, 1 << 20):
                    packets.append(packet)
                assert await process.wait() == 0
        return packets

    packets = asyncio.run(main())
    lines = b"".join(packets).splitlines()
    types = [msgspec.json.decode(line)["type"] for line in lines]
    assert types.count("stream_event") > DELTAS
    assert (types[0], types[-1]) == ("system", "result")
    assert len(packets) < len(lines) / 4
