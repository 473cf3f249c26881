"""The nursery itself, a program: `nursery_keep.py DOOR`. See `nursery.py`."""

from __future__ import annotations

import atexit
import gc
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple

import mainspring

TESTS = str(Path(__file__).parents[1])
SERVERS = {"shop.py": "mcp_servers.shop", "library.py": "mcp_servers.library"}
LEFT_OUT = {"__main__", "testing", "repl"}  # of ours: what is begun here has no terminal
FRAME = 4  # bytes that tell how long the rest is

Program = Callable[[], int | None]


def load() -> None:
    """The servers, with all that they load, and all of ours."""
    sys.path[0] = TESTS
    for name in SERVERS.values():
        import_module(name)
    for found in walk_packages(mainspring.__path__, "mainspring."):
        if not LEFT_OUT & set(found.name.split(".")):
            import_module(found.name)
    gc.collect()
    gc.freeze()  # what is shared stays shared


class Begun(NamedTuple):
    pid: int
    end: int  # becomes readable when it ends
    front: socket.socket

    def pass_on(self) -> None:
        """A signal that the front got; at its end, what ends the program too."""
        number = self.front.recv(1) or bytes([signal.SIGKILL])
        signal.pidfd_send_signal(self.end, number[0])

    def tell(self) -> None:
        """How it ended."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with suppress(BrokenPipeError):  # the front was killed
            self.front.sendall(bytes([code < 0, abs(code)]))
        self.close()

    def close(self) -> None:
        os.close(self.end)
        self.front.close()


def tend(door: str) -> Program:
    """Returns in each child, with what it is to do. The nursery itself ends when nobody holds its input any more."""
    running: list[Begun] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(door)
        listener.listen(50)
        os.write(1, b"ready\n")
        while True:
            seen = [fd for one in running for fd in (one.end, one.front.fileno())]
            ready = select.select([0, listener.fileno(), *seen], [], [])[0]
            if 0 in ready:
                sys.exit()
            for one in list(running):
                if one.end in ready:
                    one.tell()
                    running.remove(one)
                elif one.front.fileno() in ready:
                    one.pass_on()
            if listener.fileno() in ready:
                front, _ = listener.accept()
                told, fds, is_all = heard(front)
                pid = os.fork() if is_all else None
                if pid == 0:
                    for one in running:
                        one.close()
                    front.close()
                    listener.close()
                    return begun(told, fds)
                for fd in fds:
                    os.close(fd)
                if pid is not None:
                    running.append(Begun(pid, os.pidfd_open(pid), front))


def heard(front: socket.socket) -> tuple[list[str], list[int], bool]:
    """What it says, its pipes, and whether that is all: it may be killed meanwhile."""
    data, fds, _, _ = socket.recv_fds(front, 65_536, 3)
    length = int.from_bytes(data[:FRAME], "big") + FRAME
    while len(data) < length and (more := front.recv(65_536)):
        data += more
    return [os.fsdecode(text) for text in data[FRAME:length].split(b"\0")], fds, len(data) == length


def begun(told: list[str], fds: list[int]) -> Program:
    """In the child: all that a program finds when it starts."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    count = int(told[0])
    words, cwd, variables = told[1 : count + 1], told[count + 1], told[count + 2 :]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update([(name, value) for name, _, value in [text.partition("=") for text in variables]])
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = words
    if words[0] == "mainspring":
        from mainspring.cli.main import main

        sys.path[0] = cwd  # as with `python -m`
        return main
    begin = import_module(SERVERS[Path(words[0]).name]).main
    return lambda: begin(*words[1:])


def end(code: int | None) -> None:
    """As Python ends, but for taking all apart that was loaded: that takes longer than most of the programs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    load()
    end(tend(sys.argv[1])())
