"""Fields that a built-in tool does not have: dropped, and told of; what is wrong or missing is still an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mainspring import tool
from mainspring.core.errors import ToolError
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.catalog import SPECS
from mainspring.tools.read import READ
from tools.desk import Desk

SAMPLES: dict[str, Any] = {"string": "xx", "integer": 1, "number": 1.0, "boolean": True, "object": {}}


def sample(schema: dict[str, Any]) -> Any:
    """The least that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if schema.get("type") == "array":
        return [sample(schema["items"]) for _ in range(schema.get("minItems", 1))]
    if "properties" in schema:
        return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    return SAMPLES[schema.get("type", "string")]


def places(value: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """All objects in a value, and where they are."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(value, dict):
        found.append((path, value))
        found += [one for name, inner in value.items() for one in places(inner, f"{path}.{name}".lstrip("."))]
    if isinstance(value, list):
        found += [one for n, inner in enumerate(value) for one in places(inner, f"{path}[{n}]")]
    return found


@pytest.mark.parametrize("name", SPECS)
def test_a_field_that_a_tool_does_not_have_is_dropped_and_named(name: str) -> None:
    built_in = BuiltinTools(Workspace("/"), {}).tool(name)
    plain = sample(built_in.spec.schema)
    expected = built_in.parse(plain)
    assert built_in.ignored(plain) == ""
    for number, (path, _) in enumerate(places(plain)):
        given = sample(built_in.spec.schema)
        places(given)[number][1]["explanation"] = ["why", {"not": 1}]
        if built_in.ignored(given) == "" and "additionalProperties" in str(built_in.spec.schema):
            continue  # an object that may hold anything
        assert built_in.parse(given) == expected
        where = f"{path}.explanation".lstrip(".")
        assert built_in.ignored(given).startswith(f"[Ignored: Unknown field '{where}': the tool takes ")


@pytest.mark.parametrize("name", SPECS)
def test_what_is_wrong_or_missing_is_an_error_beside_it(name: str) -> None:
    built_in = BuiltinTools(Workspace("/"), {}).tool(name)
    required = built_in.spec.schema.get("required", [])
    if not required:
        return
    missing = {**sample(built_in.spec.schema), "explanation": "why"}
    del missing[required[0]]
    words = rf"missing required field `{required[0]}`.*Unknown field 'explanation': the tool takes .*{required[0]}"
    with pytest.raises(ToolError, match=words):
        built_in.parse(missing)
    wrong = {**sample(built_in.spec.schema), "explanation": "why", required[0]: {"not": "this"}}
    with pytest.raises(ToolError, match=rf"Expected .*`\$\.{required[0]}`"):
        built_in.parse(wrong)


def test_the_result_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    desk = Desk([READ], cwd=str(tmp_path))
    given = desk.now("Read", file_path="a.txt", encoding="utf-8", explanation="I want to see it", limit=None).answer
    assert not given.is_error
    assert re.fullmatch(
        r"1\tone\n\s*\[Ignored: Unknown field 'encoding', 'explanation': the tool takes file_path, .*\]", given.text
    )
    assert desk.now("Read", file_path="a.txt").answer.text == "1\tone\n"


def test_the_error_of_a_call_that_ran_says_so_too(tmp_path: Path) -> None:
    desk = Desk([READ], cwd=str(tmp_path))
    given = desk.now("Read", file_path="b.txt", path="b.txt").answer
    assert given.is_error
    assert given.text.startswith("'")
    assert "Unknown field 'path'" in given.text


def test_many_long_names_are_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    desk = Desk([READ], cwd=str(tmp_path))
    given = desk.now("Read", file_path="a.txt", **{f"{'x' * 5_000}{n}": n for n in range(1_000)}).answer
    assert "and 995 more" in given.text
    assert len(given.text) < 1_000


def test_a_function_of_the_user_is_not_called_with_less_than_was_said() -> None:
    @tool
    def add(a: int, b: int = 0) -> int:
        """Adds."""
        return a + b

    given = Desk([add]).now("add", a=1, c=2).answer
    assert given.is_error
    assert "unknown field `c`" in given.text
