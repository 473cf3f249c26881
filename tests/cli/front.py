"""Stands for a program of the nursery: `front.py DOOR PROGRAM WORDS...`. Small, so that it starts at once."""

from __future__ import annotations

import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FRAME = 4  # bytes that tell how long the rest is


def main(door: str, *words: str) -> None:
    keep = socket.socket(socket.AF_UNIX)
    keep.connect(door)
    here = os.getcwd()  # noqa: PTH109  # pathlib would take as long as all of this
    told = [str(len(words)), *words, here, *[f"{name}={value}" for name, value in os.environ.items()]]
    packed = b"\0".join([os.fsencode(text) for text in told])
    packed = len(packed).to_bytes(FRAME, "big") + packed
    sent = socket.send_fds(keep, [packed], [0, 1, 2])
    keep.sendall(packed[sent:])
    for one in PASSED_ON:
        signal.signal(one, lambda number, _: keep.sendall(bytes([number])))
    for mine in (0, 1, 2):  # whoever waits for the end of a pipe waits for the program's
        os.close(mine)
    by_signal, number = keep.recv(2) or (1, signal.SIGKILL)  # the nursery is gone
    if by_signal:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(number)


if __name__ == "__main__":
    main(*sys.argv[1:])
