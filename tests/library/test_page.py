"""The examples of docs/library.md run, each alone, with a model server on loopback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainspring.simulator.replies import Say
from mainspring.testing.plugin import LiveServer, call

PAGE = Path(__file__).parents[2] / "docs/library.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_of_the_page_runs(
    block: str, model_server: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model_server.url)
    model_server.script("What is 2 + 3?", Say.of("5"))
    model_server.script("Weather in Bonn?", Say.of(call("StructuredOutput", city="Bonn", celsius=7.5)))
    model_server.script("I am Ada.", Say.of("Hello Ada!"))
    model_server.script("Who am I?", Say.of("You are Ada."))
    model_server.script("Who is user 1?", Say.of({**call("find_user"), "input": {"id": 1}}), Say.of("Ada"))
    bash = call("Bash", command="git push")
    model_server.script("Fix the failing test.", Say.of(bash), Say.of("Fixed."))
    drops = call("Bash", command="echo DROP TABLE users")
    model_server.script("Clean up.", Say.of(drops), Say.of("The database is read-only."))
    exec(compile(block, str(PAGE), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out or "test_a_script" in block
    if "guard" in block:
        assert "The database is read-only today." in str(model_server.requests[-1].body["messages"])
