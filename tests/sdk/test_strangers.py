"""Programs that serve strangers: their text attaches no file, and the program's own MCP servers start in its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.errors import UsageError
from mainspring.sdk import ResultMessage, query
from mainspring.simulator.replies import Say
from sdk.stage import Stage, call, outcomes, play, texts

SHOP = (Path(__file__).parents[1] / "mcp_servers" / "shop.py").read_bytes()  # made with the official package


@pytest.mark.parametrize(
    ("chosen", "attached"),
    [
        ({}, True),
        ({"tools": []}, False),
        ({"tools": ["Glob"]}, False),
        ({"disallowed_tools": ["Read"]}, False),
        ({"verbatim_prompts": True}, False),
    ],
)
def test_a_mention_is_text_where_nothing_can_be_read(tmp_path: Path, chosen: dict[str, Any], attached: bool) -> None:
    async def main(stage: Stage) -> None:
        (stage.folder / ".env").write_text("ENVKEY=1234")
        (stage.folder / "notes.txt").write_text("NOTES")
        for name, content in ((".env", "ENVKEY"), ("notes.txt", "NOTES")):
            await stage.ask(f"look at @{name}", setting_sources=[], **chosen)
            seen = stage.server.requests[-1].raw.decode()
            assert f"look at @{name}" in seen
            assert (content in seen) == attached

    play(main, tmp_path, choose=lambda _: Say.of("Hi."))


def test_a_slash_command_of_a_stranger_is_text_with_verbatim_prompts(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask("/clear", verbatim_prompts=True)
        assert texts(told) == ["Hi."]
        assert isinstance(told[-1], ResultMessage)
        assert "/clear" in stage.server.requests[-1].raw.decode()

    play(main, tmp_path, Say.of("Hi."))


@pytest.mark.parametrize("is_inline", [True, False])
def test_a_server_that_the_program_names_starts_in_its_folder(tmp_path: Path, is_inline: bool) -> None:
    """Also if the folder is not trusted: a relative path in `args` counts from there. A file with servers may be the
    project's, so for those nothing changes."""

    async def main(stage: Stage) -> None:
        (stage.folder / "server.py").write_bytes(SHOP)
        servers = {"shop": {"command": sys.executable, "args": ["server.py"]}}
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        told = await stage.ask(
            mcp_servers=servers if is_inline else file, permission_mode="bypassPermissions", setting_sources=[]
        )
        [outcome] = outcomes(told)
        assert bool(outcome.is_error) == (not is_inline)
        assert "5" in str(outcome.content) if is_inline else "cannot be used" in str(outcome.content)

    play(main, tmp_path, Say.of(call("mcp__shop__add", a=2, b=3)), Say.of("Done."))


def test_a_stream_of_prompts_that_yields_a_text_is_told(tmp_path: Path) -> None:
    async def prompts() -> AsyncIterator[Any]:
        yield "hello"

    async def main(stage: Stage) -> None:
        with pytest.raises(UsageError, match="the prompt stream yielded 'hello': yield dicts"):
            _ = [message async for message in query(prompt=prompts(), options=stage.options())]

    play(main, tmp_path)
