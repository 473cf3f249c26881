"""What type checkers say: nothing about the programs of the page, and each mistake where it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A line with '# wrong' is a mistake that both type checkers must find; they must find no others.
SNIPPETS = """\
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypedDict, assert_type

import msgspec
import pydantic

from mainspring import Agent, Answer, ToolContext, ask, open_run


class Weather(pydantic.BaseModel):
    celsius: float


@dataclass
class City:
    name: str


class Row(TypedDict):
    id: int


class Point(msgspec.Struct):
    x: int


class Colour(Enum):
    RED = "red"


class Database:
    pass


def find(name: str, context: ToolContext[Database]) -> str:
    return f"{name} {context.deps}"


async def right() -> None:
    assert_type((await ask("x")).output, str)
    assert_type((await ask("x", output=Weather)).output, Weather)
    assert_type((await ask("x", output=City)).output, City)
    assert_type((await ask("x", output=Row)).output, Row)
    assert_type((await ask("x", output=Point)).output, Point)
    assert_type((await ask("x", output=Colour)).output, Colour)
    assert_type((await ask("x", output=list[City])).output, list[City])
    assert_type((await ask("x", output=int)).output, int)
    assert_type((await ask("x", output=City | Point)).output, City | Point)
    assert_type((await ask("x", output=Literal["a", "b"])).output, Literal["a", "b"])
    assert_type((await ask("x", output=City | None)).output, City | None)
    either = Agent("haiku", output=City | list[int], deps=Database)
    assert_type(either, Agent[Database, City | list[int]])
    assert_type(await either.run("x", deps=Database()), Answer[City | list[int]])
    assert_type(Agent(), Agent[None, str])
    agent = Agent("haiku", output=Weather, deps=Database, tools=[find, "Read"], temperature=0.2, effort="low")
    assert_type(agent, Agent[Database, Weather])
    assert_type(await agent.run("x", deps=Database()), Answer[Weather])
    assert_type(agent.run_sync("x", deps=Database()).output, Weather)
    async for text in Agent().stream_text("x"):
        assert_type(text, str)
    async with agent.session(deps=Database()) as chat:
        assert_type((await chat.run("x")).output, Weather)
    open_run("x", model="haiku", system="Be brief.", max_turns=3)


async def mistaken(agent: Agent[Database, Weather]) -> None:
    await ask("x", max_turn=3)  # wrong
    Agent("haiku", effort="hihg")  # wrong
    Agent("haiku", max_budget_usd="1")  # wrong
    number: int = (await ask("x", output=Weather)).output  # wrong
    text: str = (await agent.run("x", deps=Database())).output  # wrong
    await agent.run("x")  # wrong
    await agent.run("x", deps=City("Bonn"))  # wrong
    agent.stream_text("x", deps=5)  # wrong
    await Agent().run("x", deps=Database())  # wrong
    open_run("x", max_turnz=3)  # wrong
    city: City = (await ask("x", output=City | Point)).output  # wrong
    (await ask("x", output=City | Point)).output.name  # wrong
    only: Agent[None, City] = Agent("haiku", output=City | Point)  # wrong
    await Agent("haiku", output=City | Point, deps=Database).run("x")  # wrong
    await ask("x", output=3)  # wrong
    open_run("x", max_turns="3")  # wrong
    print(number, text, city, only)
"""
MISTAKES = {number for number, line in enumerate(SNIPPETS.splitlines(), 1) if line.endswith("# wrong")}


CHECKERS = {
    "mypy": (["mypy", "--strict", "--no-incremental", "--config-file", "/dev/null"], r"^(\S+):(\d+): error"),
    "pyright": (["basedpyright"], r"^ +(\S+):(\d+):\d+ - error"),
}


@pytest.mark.long
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_found_and_nothing_else(checker: str, tmp_path: Path) -> None:
    file = tmp_path / "snippets.py"
    file.write_text(SNIPPETS)
    options, pattern = CHECKERS[checker]
    command = [sys.executable, "-m", *options, str(file), str(ROOT / "examples/library")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    found = {(Path(file).name, int(line)) for file, line in re.findall(pattern, done.stdout, re.MULTILINE)}
    assert found == {("snippets.py", line) for line in MISTAKES}, done.stdout + done.stderr
