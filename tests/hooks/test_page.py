"""The examples of `docs/hooks.md` do what the page says of them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mainspring.hooks.commands import HookShell
from mainspring.hooks.events import NOTHING, HookPoint, HookResult
from mainspring.hooks.runner import HookRunner
from mainspring.processes.children import Children

PAGE = (Path(__file__).parents[2] / "docs/hooks.md").read_text(encoding="utf-8")
EXPECTED = HookResult("deny", reason="Move it to ./trash instead.")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


async def both(runner: HookRunner) -> tuple[HookResult, HookResult]:
    async def ask(command: str) -> HookResult:
        found = await runner.ask(HookPoint.PRE_TOOL_USE, {"tool_input": {"command": command}}, "Bash")
        return replace(found, by="")

    return await ask("cd x && rm -r y"), await ask("ls")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "no-rm.sh").write_text(block("sh"))
    (tmp_path / "no-rm.sh").chmod(0o755)
    (group,) = json.loads(block("json"))["hooks"]["PreToolUse"]
    (entry,) = group["hooks"]

    async def main() -> tuple[HookResult, HookResult]:
        shell = HookShell(Children(), {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path))
        return await both(HookRunner([shell.hook(HookPoint.PRE_TOOL_USE, group["matcher"], entry)]))

    assert asyncio.run(main()) == (EXPECTED, NOTHING)


def test_the_function() -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)  # the page is ours
    assert asyncio.run(both(names["hooks"])) == (EXPECTED, NOTHING)


def test_every_point_is_on_the_page() -> None:
    assert [point for point in HookPoint if f"`{point}`" not in PAGE] == []
