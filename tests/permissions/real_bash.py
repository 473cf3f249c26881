"""Runs shell lines in a real bash, in a root folder of its own with harmless programs, and tells what was executed.

The folder holds bash, a few real runners and stubs that do nothing; user, network and process namespaces are the run's
own. strace reports each program that was started, with its words.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

REAL = ("bash", "sh", "env", "nice", "timeout", "nohup", "xargs", "find", "true", "false", "echo", "sleep")
# The driver is process 1 of its namespace, so `kill -1` means all that a line left in the background: a loop without an
# end among it. What is about to end gets a moment.
DRIVER = """
i=0
while IFS= read -r -d '' line; do
  N=$i timeout -s KILL 0.3 bash -c "$line" < /dev/null > /dev/null 2>&1
  for moment in 1 2 3 4 5; do
    kill -0 -1 2> /dev/null || break
    sleep 0.02
  done
  kill -KILL -1 2> /dev/null
  i=$((i + 1))
done < /lines
"""
_CALL = re.compile(r'^(\d+) +execve\("([^"]*)", \[(.*?)\], \[(.*?)\]')
_STRING = re.compile(r'"([^"]*)"')

Ran = list[str]


def make_root(root: Path, stubs: Sequence[str]) -> None:
    for folder in ("bin", "work", "home", "tmp", "dev"):
        (root / folder).mkdir(parents=True)
    needed: set[str] = set()
    for name in REAL:
        program = shutil.which(name)
        assert program is not None, f"'{name}' is needed to compare with a real bash"
        shutil.copy(program, root / "bin" / name)
        needed.update(
            re.findall(
                r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            )
        )
    for library in needed:
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for stub in stubs:
        os.link(root / "bin" / "true", root / "bin" / stub)
    os.link(root / "bin" / "false", root / "bin" / "fails")
    (root / "dev" / "null").write_text("")
    (root / "driver").write_text(DRIVER)


def executed(lines: Sequence[str], folder: Path, stubs: Sequence[str], jobs: int = 2) -> list[list[Ran]]:
    """For each line, the words of each program that was started."""
    size = -(-len(lines) // jobs)
    shares = [lines[start : start + size] for start in range(0, len(lines), size)]
    running = [_start(share, folder / str(index), stubs) for index, share in enumerate(shares)]
    found: list[list[Ran]] = []
    for share, (process, trace) in zip(shares, running, strict=True):
        code = process.wait()
        assert code == 0, f"the driver ended with {code}"
        found.extend(_by_line(trace.read_text(), len(share)))
    return found


def _start(lines: Sequence[str], root: Path, stubs: Sequence[str]) -> tuple[subprocess.Popen[bytes], Path]:
    make_root(root, stubs)
    (root / "lines").write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    trace = root.parent / (root.name + ".trace")
    tracer = [
        "strace",
        "-f",
        "-qq",
        "-v",
        "-xx",
        "-s",
        "65536",
        "--seccomp-bpf",
        "-e",
        "trace=execve",
        "-e",
        "signal=none",
    ]
    namespaces = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    apart = ["unshare", *namespaces, "chroot", str(root)]
    inside = ["/bin/env", "-i", "PATH=/bin", "HOME=/home", "/bin/bash", "-c", "cd /work; . /driver"]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        [*tracer, "-o", str(trace), *apart, *inside], stdin=nothing, stdout=nothing, stderr=nothing
    )
    return process, trace


def _by_line(trace: str, count: int) -> list[list[Ran]]:
    found: list[list[Ran]] = [[] for _ in range(count)]
    line_of: dict[str, int] = {}
    waiting: dict[str, tuple[int, Ran]] = {}
    for text in trace.splitlines():
        pid = text.partition(" ")[0]
        if "<... execve resumed>" in text:
            call = waiting.pop(pid, None)
        else:
            match = _CALL.match(text)
            if match is None:
                continue
            number = next((value[2:] for value in _strings(match[4]) if value.startswith("N=")), None)
            line = int(number) if number is not None and number.isdigit() else line_of.get(pid)
            if line is None:
                continue
            call = (line, [_text(match[2]), *_strings(match[3])])
            if "<unfinished" in text:
                waiting[pid] = call
                continue
        if call is None or not text.endswith("= 0"):
            continue
        line_of[pid] = call[0]
        found[call[0]].append(call[1])
    return [_without_driver(runs) for runs in found]


def _without_driver(runs: list[Ran]) -> list[Ran]:
    """The first two are the driver's: `timeout`, and the bash that was given the line. On a busy machine the time may
    be over before bash begins: then nothing ran, and the line says nothing."""
    assert [run[1] for run in runs[:2]] in (["timeout", "bash"], ["timeout"]), runs
    return runs[2:]


def _strings(text: str) -> list[str]:
    return [_text(value) for value in _STRING.findall(text)]


def _text(escaped: str) -> str:
    return bytes.fromhex(escaped.replace("\\x", "")).decode(errors="surrogateescape")
