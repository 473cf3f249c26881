"""The demo's tools: the usual ones, in its own folder and with a small environment. The script is our own, so nobody
need be asked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainspring.permissions.checker import PermissionChecker
from mainspring.processes.child import ProcessLimits, ProcessSpec
from mainspring.processes.environment import find_program
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.toolset import Toolset

SECONDS = 60  # the tests take a tenth of one, on a busy machine a few
BYPASS = "bypassPermissions"


def demo_kit(folder: Path, harmless: str) -> BuiltinTools:
    environment = {
        "PATH": os.defpath,
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",  # stale bytecode could hide an edit made within the second
    }

    def only_reads(command: str) -> bool:
        return command == harmless

    return BuiltinTools(Workspace(str(folder)), environment, adopt=True, only_reads=only_reads)


def demo_hands(kit: BuiltinTools) -> Toolset:
    folder = kit.place.root
    return Toolset(kit.offers(("Read", "Edit", "Bash")), place=kit.place, gate=PermissionChecker(folders=(folder,)))


async def command_succeeds(command: str, kit: BuiltinTools) -> bool:
    """Outside of the loop."""
    shell = find_program("bash", path=os.environ.get("PATH", "")) or "/bin/sh"
    ended = await kit.children.run(ProcessSpec((shell, "-c", command), kit.place.root, kit.env, ProcessLimits(SECONDS)))
    return ended.code == 0 and not ended.timed_out
