"""Read, Edit and Bash as the demo needs them: real, and a few lines each. No permissions: the script is our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mainspring.core.errors import ToolError
from mainspring.core.messages import ToolCall, ToolResult, result

TIMEOUT = 60  # seconds; the tests take a tenth of one, on a busy machine a few


def run_tool(call: ToolCall, folder: Path) -> ToolResult:
    """A failure is a result too: the model has to see it."""
    try:
        return result(call.id, TOOLS[call.name](folder, **call.input))
    except (ToolError, OSError) as error:
        return result(call.id, str(error), is_error=True)


def read(folder: Path, file_path: str) -> str:
    lines = (folder / file_path).read_text(encoding="utf-8").splitlines()
    return "\n".join(f"{number:>3}  {line}" for number, line in enumerate(lines, start=1))


def edit(folder: Path, file_path: str, old_string: str, new_string: str) -> str:
    path = folder / file_path
    text = path.read_text(encoding="utf-8")
    found = text.count(old_string)
    if found != 1:
        raise ToolError(f"'{old_string}' occurs {found} times in '{file_path}'; give a text that occurs once")
    path.write_text(text.replace(old_string, new_string), encoding="utf-8")
    return f"- {old_string}\n+ {new_string}"


def bash(folder: Path, command: str) -> str:
    """In a session of its own, so that whatever the command started can be ended with it."""
    environment = {
        "PATH": os.defpath,
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",  # stale bytecode could hide an edit made within the second
    }
    with subprocess.Popen(  # noqa: S603  # the commands are in our own script
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except BaseException as error:  # Ctrl-C is one of them
            with suppress(ProcessLookupError):  # after Ctrl-C, `communicate` may have seen it end
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ToolError(f"no end after {TIMEOUT} seconds") from None
            raise
    if process.returncode:
        raise ToolError(f"{output.rstrip()}\nexit code {process.returncode}")
    return output


TOOLS: dict[str, Callable[..., str]] = {"Read": read, "Edit": edit, "Bash": bash}
