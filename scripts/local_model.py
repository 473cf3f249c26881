"""Tests our providers and our command against a foreign server: llama.cpp's, with a small model, one thread.

`make local` runs this; it takes about a minute. The server supports all three protocols. The checks do not judge the
model's text: it has 135 million parameters, and only makes a real server reply. The server's own grammar forces calls
to match the schema (`tool_choice`, added to the request by `local/relay.py`), and a call of `Bash` runs in the sandbox.
"""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from typing import NamedTuple

from local import process, wire
from local.checks import PATIENCE, PROTOCOLS, Row, Servers
from local.relay import relaying
from local.server import TEMPLATE, make, serving

ROWS = (*wire.ROWS, *process.ROWS)
LINE = "{:<15} {:<10} {:<7} {:>7}  {}"


class Outcome(NamedTuple):
    ok: bool
    told: str
    seconds: float


async def outcome(row: Row, servers: Servers, protocol: str) -> Outcome:
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            ok, told = True, await row.check(servers, protocol)
    except Exception as error:  # noqa: BLE001  # whatever it is, the others are checked, too
        ok, told = False, f"{type(error).__name__}: {error}"
    return Outcome(ok, told, time.perf_counter() - begun)


async def check(servers: Servers) -> int:
    """Returns how many failed."""
    failed = 0
    print(LINE.format("what", "provider", "", "seconds", "seen"))
    for row in ROWS:
        for protocol in PROTOCOLS:
            done = await outcome(row, servers, protocol)
            failed += not done.ok
            print(
                LINE.format(row.what, protocol, "ok" if done.ok else "FAILED", f"{done.seconds:.1f}", done.told),
                flush=True,
            )
    return failed


def explain() -> None:
    print()
    for row in ROWS:
        print(textwrap.fill(f"{row.what}: {row.shows}", 118, subsequent_indent="    "))


async def run(own: str, tools: str) -> int:
    async with relaying(tools, process.HELD) as relay:
        failed = await check(Servers(own, relay.url))
        explain()
        print(f"A relay put 'tool_choice' into {relay.forced} requests; the server's grammar made calls of that.")
        return failed


def main() -> int:
    begun = time.perf_counter()
    make()
    with serving() as own, serving(TEMPLATE) as tools:
        failed = asyncio.run(run(own, tools))
    print(f"{len(ROWS) * len(PROTOCOLS)} checks, {failed} failed, {time.perf_counter() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
