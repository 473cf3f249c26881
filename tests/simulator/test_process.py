"""The model server as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.bodies import ask
from simulator.client import assembled, connected

SERVER = [sys.executable, "-m", "mainspring.simulator"]


def test_it_says_where_it_is_and_answers_from_its_script(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    say = {"reply": "say", "blocks": [{"type": "text", "text": "Hello."}], "usage": {"input": 3, "output": 5}}
    refuse = {"reply": "refuse", "status": 529, "type": "overloaded_error", "message": "Overloaded"}
    script.write_text(json.dumps([say, refuse, {"reply": "raw", "chunks": ["SFRUUC8="]}]))

    async def main(url: str) -> None:
        async with connected(url) as client:
            client.send(ask(stream=True), x_api_key="k")
            message = assembled((await client.streamed())[1])
            assert (message["content"], message["usage"]["output_tokens"]) == ([{"type": "text", "text": "Hello."}], 5)
            client.send(ask(), x_api_key="k")
            assert (await client.answer())[0].status == 529
            client.send(ask())
            assert (await client.answer())[0].status == 401
            client.send(ask(), x_api_key="k")
            assert await client.reader.read() == b"HTTP/"

    with subprocess.Popen(
        [*SERVER, "--script", str(script), "--api-key", "k"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            asyncio.run(main(server.stdout.readline().strip()))
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.stdout.read() == ""
    assert server.returncode == 0


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), ("[{}]", "missing required field `reply`")])
def test_a_script_that_cannot_be_read_is_named(tmp_path: Path, content: str | None, says: str) -> None:
    script = tmp_path / "replies.json"
    if content is not None:
        script.write_text(content)
    done = subprocess.run([*SERVER, "--script", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"cannot read the script '{script}'" in done.stderr
    assert says in done.stderr
