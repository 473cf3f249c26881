"""Hearing that a child has ended, without reaping it: a zombie keeps its number, so its group can still be ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable

Stop = Callable[[], None]


def watch_process(popen: subprocess.Popen[bytes], ended: Callable[[], object]) -> Stop:
    """`ended` is called once, in the event loop. The result stops the watch."""
    try:
        fd = os.pidfd_open(popen.pid)
    except (OSError, AttributeError):  # an old kernel, a filter, macOS; or no descriptor is left
        return watch_in_thread(popen, ended)
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                loop.remove_reader(fd)
            os.close(fd)

    def hear() -> None:
        stop()
        ended()

    loop.add_reader(fd, hear)
    return stop


def watch_in_thread(popen: subprocess.Popen[bytes], ended: Callable[[], object]) -> Stop:
    import threading

    loop = asyncio.get_running_loop()

    def wait() -> None:
        _wait(popen)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=wait, name=f"child {popen.pid}", daemon=True).start()
    return lambda: None


def _wait(popen: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    else:  # macOS before Python 3.13: its number may be given anew a moment too early
        popen.wait()
