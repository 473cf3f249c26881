"""What a headless run loads, and what loading it costs. A start grows slow one import at a time.

`tests/cli/test_start_path.py` holds `mainspring --version` to less; `make bench` has the times.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import need

from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer

NEEDED = "asyncio, httptools, msgspec"  # what these load in turn is theirs, and differs from Python to Python

# Our own modules on the path, one by one. A new name here is a decision: it is loaded at every start.
OURS = {
    "mainspring": "lazy messages_api text version",
    "mainspring.agent": "config context model open_session options permissions prompt_expansion results resume "
    "run_loop sandbox session session_parts slash_commands subagents updates usage",
    "mainspring.cli": "flags main print_mode signals stdio",
    "mainspring.context": "attachments memory project_files prompt sources",
    "mainspring.core": "config effects errors events history ladder limits messages models money moves pairing "
    "reasons schedule state step updates value view",
    "mainspring.engine": "deps driver executor model_context run sampler session session_deps shared_state tasks",
    "mainspring.hooks": "events",
    "mainspring.permissions": "checker",
    "mainspring.processes": "own_process paths",
    "mainspring.providers": "base errors http_provider message_order prefix projection retry",
    "mainspring.providers.anthropic": "json provider stream",
    "mainspring.providers.http": "client connect connection proxy sse",
    "mainspring.sandbox": "",
    "mainspring.secrets": "held sources",
    "mainspring.sessions": "encoder journal line_format paths records",
    "mainspring.settings": "load values",
    "mainspring.telemetry": "",
    "mainspring.tools": "base builtin catalog toolset",
}

# What else is loaded, and who asks for it. This list may only shrink.
BESIDES = {
    "_ctypes",  # processes/own_process.py: 0.4 ms; nobody looks into a process that holds a key (security K2),
    "resource",  # and no core of it is written
    "gc",  # cli/main.py: switched off while modules load; it is part of the interpreter
    "zlib",  # core/limits.py: the fingerprints of the progress guard
    "unicodedata",  # sessions/paths.py: the name of the home folder, composed
    "concurrent.futures.thread",  # sessions/journal.py: the disk is waited for in a thread, when the run ends;
    "queue",  # and that needs these two
    "_queue",
}

# Instructions to import `OURS`, over those of an interpreter with `NEEDED`; and those of that. Counted by the test
# below on 2026-11-18, with valgrind 3.19 and Python 3.11.7: a tenth more than two days before, for log records, frames
# about the loop, modes and side costs. The rows of 3.12 and 3.13 were counted on 2026-11-15, and raised by as much as
# that of 3.11 grew since. Builds of one version differ (Debian's 3.11 takes a fifth less for both), so what is held is
# the count in proportion to `NEEDED`, and a twentieth more.
COUNTED = {
    (3, 11): (172_038_005, 285_432_618),
    (3, 12): (183_650_000, 301_064_053),
    (3, 13): (179_130_000, 301_147_170),
}
ROOM = 1.05


def limit(needed: int) -> float:
    """For an interpreter that takes so many instructions for `NEEDED`. A later Python is held to the last row."""
    known = [version for version in COUNTED if version <= sys.version_info[:2]]
    our_count, needed_count = COUNTED[max(known)]
    return ROOM * our_count * needed / needed_count


def ours() -> set[str]:
    modules = {f"{package}.{name}" for package, names in OURS.items() for name in names.split()}
    return modules | OURS.keys()


# --- what is loaded -------------------------------------------------------------------------------------

SAY_WHAT_IS_LOADED = "print(*sys.modules)"
HEADLESS = f"""
import sys
from mainspring.cli.main import main
code = main(["-p", "hi"])
{SAY_WHAT_IS_LOADED}
sys.exit(code)
"""


class Ended(NamedTuple):
    code: int | None
    out: str
    err: str


async def ended(*command: str, **environment: str) -> Ended:
    """In an environment that holds nothing else: coverage, which measures child processes too, would load a lot."""
    folder = environment.pop("folder", None)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, cwd=folder
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode, out.decode(), err.decode())


def test_headless_run_loads_a_short_list(tmp_path: Path) -> None:
    async def main() -> tuple[Ended, Ended]:
        async with ModelServer([Say.of("Hello.")]) as server:
            run = await ended(
                sys.executable,
                *("-c", HEADLESS),
                ANTHROPIC_BASE_URL=server.url,
                MAINSPRING_HOME=str(tmp_path / "home"),
                folder=str(tmp_path),  # no repository, and no memory files
            )
            assert len(server.requests) == 1
            assert server.violations == []
        bare = await ended(sys.executable, "-c", f"import sys, {NEEDED}; {SAY_WHAT_IS_LOADED}")
        return run, bare

    run, bare = asyncio.run(main())
    assert (run.code, run.err, bare.code, bare.err) == (0, "", 0, "")
    answer, loaded = run.out.splitlines()
    assert answer == "Hello."
    needed = set(bare.out.split())
    assert set(NEEDED.split(", ")) <= set(loaded.split())
    assert needed | set(loaded.split()) == needed | ours() | BESIDES


# --- what loading costs ---------------------------------------------------------------------------------


async def instructions(valgrind: str, imports: str, cache: Path) -> int:
    done = await ended(
        *(valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", f"import {imports}"),
        PYTHONHASHSEED="0",
        PYTHONPYCACHEPREFIX=str(cache),
    )
    found = re.search(r"Collected\s*:\s*(\d+)", done.err)
    assert found is not None, done.err
    assert done.code == 0, done.err
    return int(found[1])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_import_cost_is_held_to_a_count_of_instructions(tmp_path: Path) -> None:
    """The times of a busy machine tell nothing; these counts hardly move. Bytecode is written first, to a place of our
    own: whether that in the source tree is up to date is not what is asked."""
    valgrind = need("valgrind")
    everything = ", ".join([NEEDED, *sorted(ours())])

    async def main() -> list[int]:
        first = await ended(sys.executable, "-c", f"import {everything}", PYTHONPYCACHEPREFIX=str(tmp_path))
        assert (first.code, first.err) == (0, "")
        return await asyncio.gather(*[instructions(valgrind, names, tmp_path) for names in (NEEDED, everything)])

    needed, whole = asyncio.run(main())
    print(f"instructions: ours {whole - needed:,}, {NEEDED} {needed:,}")  # shown when it fails, and by `pytest -s`
    assert whole - needed <= limit(needed)


# --- what comes before the first request -------------------------------------------------------------------

# Instructions until the first request is written, in a home that was used before, and those of an interpreter with
# `NEEDED`; counted on 2026-11-20 as above. What `init` reports is found out after the request, so it does not count.
FIRST_REQUEST = {"text": 388_400_000, "stream-json": 425_200_000, "sdk": 552_000_000}
NEEDED_THEN = 284_700_000
UNTIL_REQUEST = """
import os, sys
if "{kind}" != "text":
    import mainspring.stream_json.render as render
    render.UNTIL_REQUEST = render.UNTIL_SENT = 600  # valgrind is slow
if os.environ.get("FIRST"):
    os.writev = lambda *_: os._exit(0)
"""
COMMAND = """
sys.argv[1:] = ["-p", "hi", "--output-format={kind}", "--verbose"]
from mainspring.cli.main import main
sys.exit(main())
"""
SDK = """
import asyncio
from mainspring.sdk import Options, query
async def main():
    async for _ in query(prompt="hi", options=Options()):
        pass
asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_what_comes_before_the_first_request_is_held_to_a_count(tmp_path: Path) -> None:
    valgrind = need("valgrind")

    async def counted(code: str, **environment: str) -> int:
        done = await ended(
            *(valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", code),
            PYTHONHASHSEED="0",
            folder=str(tmp_path),
            **environment,
        )
        found = re.search(r"Collected\s*:\s*(\d+)", done.err)
        assert found is not None, done.err
        assert done.code == 0, done.err
        return int(found[1])

    async def main() -> dict[str, int]:
        async with ModelServer(choose=lambda _: Say.of("Hello.")) as server:
            environment = {
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": "key",
                "MAINSPRING_HOME": str(tmp_path / "home"),
                "PATH": os.environ["PATH"],
            }
            found = {"needed": await counted(f"import {NEEDED}")}
            for kind in FIRST_REQUEST:
                code = (UNTIL_REQUEST + (SDK if kind == "sdk" else COMMAND)).format(kind=kind)
                first = await ended(sys.executable, "-c", code, folder=str(tmp_path), **environment)
                assert (first.code, first.err) == (0, "")
                found[kind] = await counted(code, FIRST="1", **environment)
        return found

    found = asyncio.run(main())
    print(found)  # shown when it fails, and by `pytest -s`
    limits = {kind: ROOM * count * found["needed"] / NEEDED_THEN for kind, count in FIRST_REQUEST.items()}
    assert {kind: found[kind] for kind in FIRST_REQUEST if found[kind] > limits[kind]} == {}
