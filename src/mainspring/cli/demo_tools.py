"""The demo's tools: the usual ones, in its own folder and with a small environment. The script is our own, so nobody
need be asked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainspring.cli.hands import Reach, tools
from mainspring.cli.shell import Shell
from mainspring.core.messages import ToolCall
from mainspring.engine.plain import Tool

SECONDS = 60  # the tests take a tenth of one, on a busy machine a few


def demo_shell(folder: Path) -> Shell:
    environment = {
        "PATH": os.defpath,
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",  # stale bytecode could hide an edit made within the second
    }
    return Shell(str(folder), environment)


def demo_tools(folder: Path, harmless: str) -> tuple[Tool, ...]:
    def is_harmless(call: ToolCall) -> bool:
        return call.input.get("command") == harmless

    reach = Reach(str(folder))
    return tools({"Read": reach, "Edit": reach, "Bash": reach}, demo_shell(folder), harmless=is_harmless)
