"""The user's stored keys and the bus of the keyring, from inside of both sandboxes: nothing reaches them, however a
program spells the path."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.agent.permissions import list_closed_files
from mainspring.processes import landlock_helper
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.sandbox.sandbox import ProbeResult, SandboxBackend, SandboxLayout, build_sandbox
from sandbox.walls import ENV, LINUX, bubblewrap, seen_folder

pytestmark = LINUX
USUAL = SandboxAccess.USUAL

SPY = """
import json, os, socket, sys
home, bus = sys.argv[1:]
told = {}
def tries(name, what):
    try: told[name] = str(what())
    except OSError as error: told[name] = "closed"
path = "/".join([home, "cred" + "entials.json"])
tries("file", lambda: open(path).read())
tries("root", lambda: open("/proc/self/root" + path).read())
tries("key", lambda: open(home + "/key").read())
tries("write", lambda: open(path, "a").write("x"))
tries("remove", lambda: os.remove(path))
tries("bus", lambda: socket.socket(socket.AF_UNIX).connect(bus))
tries("settings", lambda: open(home + "/settings.json").read())
print(json.dumps(told))
"""


class House:
    def __init__(self, base: Path) -> None:
        self.home, self.work = base / "home", base / "work"
        for folder in (self.home, self.work, base / "run", base / "temp", base / "state"):
            folder.mkdir()
        for name in ("credentials.json", "key"):
            (self.home / name).write_text("the-key")
            (self.home / name).chmod(0o600)
        (self.home / "settings.json").write_text("{}")
        self.bus = base / "run" / "bus"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.bus))
        self.server.listen()
        self.closed = list_closed_files(str(self.home), {"XDG_RUNTIME_DIR": str(self.bus.parent)})
        self.layout = SandboxLayout((str(self.work),), str(base / "temp"), str(base / "state"), denied=self.closed)

    def spy(self, answer: ProbeResult) -> dict[str, str]:
        sandbox = build_sandbox(answer, self.layout)
        argv = (os.path.realpath(sys.executable), "-I", "-c", SPY, str(self.home), str(self.bus))

        async def run() -> ProcessResult:
            return await Children(around=sandbox.around).run(
                ProcessSpec(argv, str(self.work), ENV, merged=True, walls=USUAL)
            )

        try:
            ended = asyncio.run(run())
        finally:
            sandbox.close()
        told: dict[str, str] = json.loads(ended.stdout.data)
        return told


@pytest.fixture
def house() -> Iterator[House]:
    with seen_folder() as base:
        made = House(base)
        yield made
        made.server.close()


CLOSED = {"file": "closed", "root": "closed", "key": "closed", "write": "closed", "remove": "closed", "bus": "closed"}


def test_in_bubblewrap(house: House) -> None:
    program = bubblewrap(house.home)
    assert house.spy(ProbeResult(program)) == {**CLOSED, "settings": "{}"}
    assert (house.home / "credentials.json").read_text() == "the-key"


def test_in_landlock(house: House) -> None:
    if not landlock_helper.landlock_version():
        pytest.skip("this kernel has no landlock")
    told = house.spy(ProbeResult(sys.executable, kind=SandboxBackend.LANDLOCK))
    assert told == {**CLOSED, "settings": "{}"}
    assert (house.home / "credentials.json").read_text() == "the-key"


def test_the_bus_is_found_by_its_address_and_in_the_usual_place() -> None:
    environ = {
        "XDG_RUNTIME_DIR": "/run/user/1/",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/tmp/dbus-1,guid=5;unix:abstract=/x;tcp:path=/no",
    }
    assert list_closed_files("/h", environ) == (
        "/h/key", "/h/credentials.json", "/h/file-history", "/run/user/1/bus", "/tmp/dbus-1",
    )  # fmt: skip
    assert list_closed_files(None, {}) == ()
