"""What a headless run loads, and what loading it costs. A start grows slow one import at a time.

`tests/cli/test_start_path.py` holds `mainspring --version` to less; `bench/wire.py` has the times.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import NamedTuple

import pytest

from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer

NEEDED = (
    "asyncio, httptools, msgspec"  # the stack; what these load in turn is theirs, and differs from Python to Python
)

# Our own modules on the path, one by one. A new name here is a decision: it is loaded at every start.
OURS = {
    "mainspring": "version",
    "mainspring.cli": "flags frames hands headless lines main outcomes plain_journal shell signals stdin stdout "
    "system_prompt tally wire world",
    "mainspring.core": "bound compaction config effects errors events history ladder limits messages models money moves "
    "pairing reasons schedule state step updates value view",
    "mainspring.engine": "background channel deps driver endings executor ledger plain run sampling session shared",
    "mainspring.providers": "anthropic anthropic_events anthropic_json anthropic_refusals base connection dial media "
    "placing prefix projection proxies retry sse tls transport",
    "mainspring.sessions": "records",
}

# What else is loaded, and who asks for it. This list may only shrink.
BESIDES = {
    "zlib",  # core/limits.py: the fingerprints of the progress guard
    "encodings.idna",  # providers/dial.py: `socket.getaddrinfo` encodes even a numeric host with it,
    "stringprep",  # and it needs these two
    "unicodedata",
}

# Instructions to import `OURS`, over the interpreter with `NEEDED`. Counted by this test on 2026-11-15 with Python 3.11.7
# and valgrind 3.19: LIMIT_COUNTED; the limit is a tenth above. An interpreter that needs more for `NEEDED`, as another
# version or build may, is given more in proportion, never less.
COUNTED, COUNTED_BARE = 0, 0
LIMIT = COUNTED * 11 // 10


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
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment)
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
                sys.executable, "-c", HEADLESS, ANTHROPIC_BASE_URL=server.url, MAINSPRING_HOME=str(tmp_path)
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
    assert set(loaded.split()) - needed == ours() | BESIDES


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


@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_import_cost_is_held_to_a_count_of_instructions(tmp_path: Path) -> None:
    """The times of a busy machine tell nothing; these counts hardly move. Bytecode is written first, to a place of our
    own: whether that in the source tree is up to date is not what is asked."""
    valgrind = shutil.which("valgrind")
    assert valgrind is not None, "'valgrind' is not installed: 'apt-get install valgrind'"
    everything = ", ".join([NEEDED, *sorted(ours())])

    async def main() -> list[int]:
        first = await ended(sys.executable, "-c", f"import {everything}", PYTHONPYCACHEPREFIX=str(tmp_path))
        assert (first.code, first.err) == (0, "")
        return await asyncio.gather(*[instructions(valgrind, names, tmp_path) for names in (NEEDED, everything)])

    bare, whole = asyncio.run(main())
    print(f"{NEEDED}: {bare:,} instructions; ours: {whole - bare:,}")
    assert whole - bare <= LIMIT * max(1.0, bare / COUNTED_BARE)
