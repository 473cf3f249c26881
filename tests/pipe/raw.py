"""The program's two pipes, by hand: lines in, frames out. What no client would show or send."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

Frame = dict[str, Any]

PATIENCE = 40  # seconds; only a program that hangs takes so long
LIMIT = 1_048_576  # characters of a line, from which on the client gives the session up


def prompt(content: str | list[Frame], **more: Any) -> Frame:
    return {"type": "user", "session_id": "", "message": {"role": "user", "content": content}, **more}


def kind(frame: Frame) -> str:
    """`assistant`, `system/init`, `system/session_state_changed/idle`."""
    parts = [frame["type"], frame.get("subtype", "") if frame["type"] == "system" else "", frame.get("state", "")]
    return "/".join([part for part in parts if part])


class Pipe:
    """Whatever comes is kept in `frames`; a request of the program goes to `answer`, where there is one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.frames: list[Frame] = []
        self.lines: list[bytes] = []
        self.answer: Callable[[Frame], Frame | None] | None = None  # of a request; None: no answer
        self.stderr = b""
        self._coming: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._numbers = count(1)
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout,)),
            threading.Thread(target=self._read_errors, args=(process.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stdout: Iterable[bytes]) -> None:
        for line in stdout:
            self._coming.put(line)
        self._coming.put(b"")

    def _read_errors(self, stderr: Iterable[bytes]) -> None:
        for line in stderr:
            self.stderr += line

    # --- in ---

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *frames: Frame) -> None:
        self.write(b"".join([json.dumps(frame, ensure_ascii=False).encode() + b"\n" for frame in frames]))

    def request(self, subtype: str, **fields: Any) -> str:
        """Sent; the answer is still to come. Returns its id."""
        id = f"req_{next(self._numbers)}"
        self.send({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}})
        return id

    def control(self, subtype: str, **fields: Any) -> Frame:
        """A request and its answer, whatever comes between."""
        return self.answer_to(self.request(subtype, **fields))

    def answer_to(self, id: str) -> Frame:
        def is_it(frame: Frame) -> bool:
            return frame["type"] == "control_response" and bool(frame["response"]["request_id"] == id)

        found: Frame = self.until(is_it)["response"]
        return found

    def initialize(self, **fields: Any) -> Frame:
        answer: Frame = self.control("initialize", hooks=fields.pop("hooks", None), **fields)["response"]
        return answer

    def reply(self, request: Frame, response: Frame | None = None, error: str | None = None) -> None:
        """To a request of the program."""
        said: Frame = (
            {"subtype": "success", "response": response} if error is None else {"subtype": "error", "error": error}
        )
        self.send({"type": "control_response", "response": {**said, "request_id": request["request_id"]}})

    # --- out ---

    def read(self) -> Frame | None:
        """The next frame; None at the end."""
        try:
            line = self._coming.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"nothing came behind {self.shown()}; stderr: {self.stderr!r}") from None
        if not line:
            self._coming.put(b"")  # for whoever reads on
            return None
        self.lines.append(line)
        frame: Frame = json.loads(line)
        self.frames.append(frame)
        if frame["type"] == "control_request" and self.answer is not None:
            response = self.answer(frame)
            if response is not None:
                self.reply(frame, response)
        return frame

    def until(self, wanted: str | Callable[[Frame], bool]) -> Frame:
        """The next frame of this kind."""
        while (frame := self.read()) is not None:
            if kind(frame) == wanted if isinstance(wanted, str) else wanted(frame):
                return frame
        raise AssertionError(f"'{wanted}' did not come, but {self.shown()}; stderr: {self.stderr!r}")

    def result(self) -> Frame:
        return self.until("result")

    def idle(self) -> Frame:
        return self.until("system/session_state_changed/idle")

    def asked(self, subtype: str) -> Frame:
        """The program's next request of this kind."""
        return self.until(lambda frame: frame["type"] == "control_request" and frame["request"]["subtype"] == subtype)

    def turn(self, content: str | list[Frame], **more: Any) -> Frame:
        """A prompt, to its result."""
        self.send(prompt(content, **more))
        return self.result()

    def shut(self) -> None:
        """No more input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def rest(self) -> list[Frame]:
        """No more input, and all that still comes."""
        self.shut()
        known = len(self.frames)
        while self.read() is not None:
            pass
        return self.frames[known:]

    def exit(self) -> int:
        """Its status, once it has ended by itself."""
        return self.process.wait(PATIENCE)

    def finish(self) -> int:
        """No more input; its status."""
        self.rest()
        return self.exit()

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):  # what it did not read
                stream.close()

    # --- to look at ---

    @property
    def kinds(self) -> list[str]:
        return [kind(frame) for frame in self.frames]

    def of(self, wanted: str) -> list[Frame]:
        return [frame for frame in self.frames if kind(frame) == wanted]

    def shown(self) -> str:
        return json.dumps(self.frames)[-2_000:]

    @property
    def outcomes(self) -> list[Frame]:
        """The results of tools."""
        blocks = [block for frame in self.of("user") for block in blocks_of(frame)]
        return [block for block in blocks if block["type"] == "tool_result"]


def blocks_of(frame: Frame) -> list[Frame]:
    content: str | list[Frame] = frame["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def alive(seconds: str) -> bool:
    """Whether a `sleep` of this length runs, be it in a room of its own with numbers of its own."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended in this moment
            if path.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                return True
    return False
