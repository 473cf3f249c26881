"""Every public name has a docstring with an example that runs; `help` and `dir` show the public names."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pydoc
import re
import sys
import textwrap
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

import mainspring
import mainspring.sdk
from mainspring.simulator.replies import Say
from mainspring.telemetry import uninstrument
from mainspring.testing.plugin import LiveServer, call

# Unions and a text: Python gives them no docstring of their own.
NO_DOCSTRING = {"Message", "Update", "__version__"}
NAMES = [name for name in mainspring.__all__ if name not in NO_DOCSTRING]


@dataclass
class Weather:
    city: str
    celsius: float


@dataclass
class Database:
    users: dict[int, str]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def temperature(city: str) -> float:
    """The temperature in a city, in degrees Celsius."""
    return 7.5


# What an example may use besides the public names.
GIVEN = {"Weather": Weather, "Database": Database, "add": add, "temperature": temperature}


def find_example(name: str) -> str:
    text = inspect.getdoc(getattr(mainspring, name)) or ""
    found = re.search(r"^Example:\n((?:    .*\n|\n)+)", f"{text}\n", re.MULTILINE)
    assert found, f"the docstring of '{name}' has no 'Example:'"
    return textwrap.dedent(found.group(1))


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(
    name: str, model_server: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model_server.url)
    model_server.script("What is 2 + 3?", Say.of("5"))
    model_server.script("Weather in Bonn?", Say.of(call("StructuredOutput", city="Bonn", celsius=7.5)))
    model_server.script("My name is Ada.", Say.of("Hello Ada!"))
    model_server.script("Tell me a story.", Say.of("Once upon a time."))
    model_server.script("What is my name?", Say.of("Ada"))
    model_server.script("Who is user 1?", Say.of({**call("find_user"), "input": {"id": 1}}), Say.of("Ada"))
    example = find_example(name)
    assert name in example or name in {"AgentChat", "AgentStream", "Answer", "Tool", "ToolCall"}
    code = compile(example, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    public = {public: getattr(mainspring, public) for public in mainspring.__all__}
    scope: dict[str, Any] = {**public, **GIVEN, "agent": mainspring.Agent("haiku")}
    result: Coroutine[Any, Any, None] | None = eval(code, scope)
    if result is not None:
        asyncio.run(result)
    uninstrument()
    assert "print(" not in example or "except" in example or capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_of_a_public_name_is_its_own(name: str) -> None:
    value = getattr(mainspring, name)
    inherited = [inspect.getdoc(base) for base in getattr(value, "__mro__", ())[1:]]
    assert inspect.getdoc(value) not in inherited


def test_help_shows_every_public_name() -> None:
    shown = pydoc.plain(pydoc.render_doc(mainspring))
    assert "answer = await ask(" in shown
    assert [name for name in mainspring.__all__ if not re.search(rf"\b{name}\b", shown)] == ["__version__"]
    assert f"VERSION\n    {mainspring.__version__}" in shown
    for name in NAMES:
        assert pydoc.render_doc(getattr(mainspring, name))


def test_dir_lists_the_public_names_and_hides_the_machinery() -> None:
    listed = dir(mainspring)
    assert set(mainspring.__all__) <= set(listed)
    others = [name for name in listed if not name.startswith("__") and name not in mainspring.__all__]
    assert [name for name in others if f"mainspring.{name}" not in sys.modules] == []  # packages that were imported


@pytest.mark.parametrize("name", mainspring.sdk.__all__)
def test_every_name_of_the_sdk_has_a_docstring(name: str) -> None:
    found = getattr(mainspring.sdk, name)
    if not inspect.isclass(found) and not inspect.isfunction(found):
        return  # unions and literals: Python gives them no docstring of their own
    own = found.__dict__.get("__doc__") if inspect.isclass(found) else found.__doc__
    assert own, name
    assert not own.startswith(f"{name}("), f"'{name}' has only the docstring that 'dataclass' makes"
