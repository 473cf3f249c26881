"""The real command in a process of its own, and a model server on this machine for it to talk to."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.nursery import begun
from mainspring.simulator.replies import ReceivedRequest, Reply
from mainspring.simulator.scripts import Choose
from mainspring.simulator.server import ModelServer

COMMAND = [sys.executable, "-m", "mainspring"]
PATIENCE = 60  # seconds; only a hanging command takes so long

Frame = dict[str, Any]
Done = subprocess.CompletedProcess[bytes]


class Stage:
    """A server in a thread, and a folder to start the command in."""

    def __init__(self, server: ModelServer, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.home = folder.parent / "home"
        self._loop = loop

    @property
    def requests(self) -> list[ReceivedRequest]:
        return self.server.requests

    @property
    def environment(self) -> dict[str, str]:
        """Without any key: none may be needed, and none may leak into a test."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE"))}
        return kept | {
            "ANTHROPIC_BASE_URL": self.server.url,
            "MAINSPRING_HOME": str(self.home),
            "IS_SANDBOX": "1",
            "PYTHONUNBUFFERED": "",
        }

    def run(self, *arguments: str, input: bytes = b"", env: dict[str, str] | None = None) -> Done:
        """To its end, and begun by a fork: most of a short run would be its start."""
        return subprocess.run(
            begun("mainspring", *arguments),
            input=input,
            capture_output=True,
            cwd=self.folder,
            env=self.environment | (env or {}),
            timeout=PATIENCE,
            check=False,
        )

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
        """It hears Ctrl-C even if the tests run in the background."""
        hear = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
        begin = f"from mainspring.cli.main import main; sys.exit(main({list(arguments)!r}))"
        set_up = how.pop("set_up", "pass")
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-c", f"{hear}; {set_up}; {begin}"],
            cwd=self.folder,
            env=self.environment | how.pop("env", {}),
            **pipes | how,
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a state of the server."""
        waiting = asyncio.run_coroutine_threadsafe(self.server.until(condition, seconds=PATIENCE), self._loop)
        waiting.result(PATIENCE)

    def sessions(self) -> list[Path]:
        return sorted(self.home.glob("projects/*/*.jsonl"))


Serve = Callable[..., Stage]  # the fixture `serve`


@contextmanager
def serving(
    replies: Iterable[Reply], folder: Path, api_key: str | None = None, choose: Choose | None = None
) -> Iterator[Stage]:
    """The requests that come are held to the rules of the API, all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ModelServer(replies, api_key=api_key, choose=choose)

    def run(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    run(server.__aenter__())
    try:
        yield Stage(server, loop, folder)
    finally:
        run(server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert server.violations == []


def frames(output: bytes) -> list[Frame]:
    return [json.loads(line) for line in output.splitlines()]


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for a state that tells nobody."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
