"""What the tests of the sandbox share: bubblewrap, folders that are seen inside, and a sandbox around a workspace."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs import lacks

from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.processes.paths import is_within
from mainspring.sandbox.bubblewrap import TEMPORARY
from mainspring.sandbox.sandbox import NetworkAccess, Sandbox, SandboxBackend, SandboxLayout, probe_sandbox

NOBODY = 65534
CHECKOUT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@contextmanager
def seen_folder() -> Iterator[Path]:
    """One that the sandbox does not hide, as it does all temporary ones: what is tried there must be stopped."""
    homes = [folder for folder in ("/srv", "/opt", str(Path.home()), str(CHECKOUT)) if os.access(folder, os.W_OK)]
    seen = [folder for folder in homes if not any(is_within(folder, hidden) for hidden in TEMPORARY)]
    if not seen:
        pytest.skip("needs a folder that can be written and is no temporary one")
    (base, *_) = seen
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-", dir=base))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def bubblewrap(home: Path) -> str:
    answer = probe_sandbox(str(home))
    if answer.program is None or answer.kind is not SandboxBackend.BUBBLEWRAP:
        lacks("bwrap", answer.reason)
    return answer.program


class Box:
    """A workspace in a sandbox."""

    def __init__(
        self,
        base: Path,
        *,
        denied: tuple[str, ...] = (),
        folders: tuple[str, ...] = ("work",),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.base, self.work, self.env = base, base / folders[0], ENV | dict(env or {})
        for name in ("temp", "state", "out", *folders):
            (base / name).mkdir(exist_ok=True)
        self.program = bubblewrap(base / "state")
        self.rooms = SandboxLayout(
            tuple([str(base / name) for name in folders]), str(base / "temp"), str(base / "state"), denied=denied
        )
        self.sandbox = Sandbox(self.program, self.rooms)
        self.notes: tuple[str, ...] = ()  # of the last command that `run` ran

    def another(self, way: NetworkAccess | None = None) -> Sandbox:
        return Sandbox(self.program, self.rooms, way=way)

    def job(self, command: str, walls: SandboxAccess = SandboxAccess.USUAL) -> ProcessSpec:
        return ProcessSpec(("/bin/bash", "-c", command), str(self.work), self.env, merged=True, walls=walls)

    def run(self, command: str, walls: SandboxAccess = SandboxAccess.USUAL) -> ProcessResult:
        async def main() -> ProcessResult:
            return await Children(around=self.sandbox.around).run(self.job(command, walls))

        ended = asyncio.run(main())
        self.notes = ended.notes
        return ended

    def names(self) -> list[str]:
        return sorted([path.name for path in self.work.iterdir()])


def python_for(user: int | None) -> str:
    """One that this user can start: ours may lie in a home that is closed to others."""
    argv = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user is not None else []
    for program in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        # By a shell: `setpriv` itself still has the rights to find any program.
        starting = [*argv, "/bin/sh", "-c", '"$0" -I -c ""', program]
        if subprocess.run(starting, check=False, capture_output=True, timeout=20).returncode == 0:
            return program
    pytest.fail("there is no Python that an ordinary user can start: install 'python3'")
